"""Processes of their own that start at once, where a fresh interpreter imports for seconds.

They are forked off a server that has imported what most of them need and done nothing else: it has
opened no file, and no memory of the test's process is in it. So they are killed, wait and lock
files like any other process; only their imports are done. What is promised of importing itself, or
of a command line, is tested with an interpreter that is started anew.
"""

import contextlib
import multiprocessing
import os
import sys
import warnings
from functools import cache

_IMPORTED = [
    "langchain.agents.middleware",
    "langchain_convmem.integrations.agents",
    "langchain_convmem.memory",
    "langchain_convmem.offline",
    "langchain_convmem.recall.recall",
    "langchain_convmem.testing.log_contract",
    "langgraph.checkpoint.sqlite.aio",
    "numpy",
    "tokenizers",
]
"""What the server imports before it forks; what it cannot import is left to the processes."""


@cache
def _server():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def _run(source, words, environment, ends):
    """Be a process: what `python -W error -c source words` would do, its imports aside."""
    warnings.simplefilter("error")
    os.environ.clear()
    os.environ.update(environment)
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as we live
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["-c", *words]
    exec(compile(source, "<process>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own


class ForkedProcess:
    """Runs Python source in a process of its own, with a pipe to it and one from it."""

    def __init__(self, source, *words):
        """Start it; `words` are its `sys.argv[1:]`."""
        context = _server()
        its_input, stdin = context.Pipe(duplex=False)
        stdout, its_output = context.Pipe(duplex=False)
        self.stdin, self.stdout = _file(stdin, "w"), _file(stdout, "r")
        given = (source, [str(word) for word in words], dict(os.environ), [its_input, its_output])
        self._process = context.Process(target=_run, args=given)
        self._process.start()
        its_input.close()
        its_output.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Close the pipes and wait for it."""
        self.finish()

    @property
    def returncode(self):
        """Its exit code, -9 after a kill; None while it runs."""
        return self._process.exitcode

    def kill(self):
        """Kill it, if it still runs; nothing of it is finished."""
        self._process.kill()

    def ends(self):
        """Wait for its end and return its exit code."""
        self.finish()
        return self.returncode

    def finish(self, last_input=""):
        """Send it the last of its input; return the rest of its output when it has ended."""
        with contextlib.suppress(BrokenPipeError):
            if not self.stdin.closed:
                self.stdin.write(last_input)
            self.stdin.close()
        rest = "" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self._process.join()
        return rest


def _file(end, mode):
    """Return the text file of a pipe's end, which the file now owns."""
    number = os.dup(end.fileno())
    end.close()
    return open(number, mode, buffering=1, encoding="utf-8")  # noqa: PTH123 - a number, not a path


def start_child(body):
    """Fork this process; return what waits for the text of what the child's body returns.

    For what it raises, that is the error's class and words.
    """
    ending, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child is not measured
        try:
            said = str(body())
        except BaseException as error:  # noqa: BLE001 - the child ends here
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)

    def wait():
        with os.fdopen(ending, encoding="utf-8") as file:
            said = file.read()
        assert os.waitpid(child, 0)[1] == 0
        return said

    return wait


def in_child(body):
    """Return what `start_child` waits for."""
    return start_child(body)()
