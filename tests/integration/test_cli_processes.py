import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from langchain_convmem.testing.chat_completions import ChatCompletionsServer
from langchain_convmem.testing.scripted_replies import ScriptedError, ScriptedReply

CONVMEM = [sys.executable, "-m", "langchain_convmem.cli"]
TIMEOUT_S = 60
LINE = "I locked my bicycle behind the bakery on Mill Lane."


def environment_of(database):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CONVMEM_") and "proxy" not in name.lower()
    }
    ours = {"CONVMEM_DB": str(database), "OPENAI_API_KEY": "test", "PYTHONWARNINGS": "error"}
    return {**kept, **ours}


def run(environment, *words, stdin=""):
    """Run a command in a process of its own."""
    return subprocess.run(
        [*CONVMEM, *words],
        input=stdin,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def environment(tmp_path):
    return environment_of(tmp_path / "memory.db")


@pytest.fixture
def convmem(environment):
    return partial(run, environment)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The file of a process that has imported a dialogue."""
    path = tmp_path_factory.mktemp("imported") / "weeks.jsonl"
    rows = [
        {"role": "user", "name": "Ana", "content": LINE, "timestamp": "2024-03-03T19:11:00Z"},
        {"role": "assistant", "content": "Noted.", "timestamp": "2024-03-03T19:12:00Z"},
        {"role": "user", "content": "The plumber came.", "timestamp": "2024-04-01T10:00:00Z"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    database = path.with_name("memory.db")
    done = run(environment_of(database), "import", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    return database


@pytest.fixture
def bicycle(imported, environment):
    """A dialogue that an earlier process has imported."""
    shutil.copyfile(imported, environment["CONVMEM_DB"])


def test_output_can_be_cut_off_by_its_reader(environment, bicycle):
    with subprocess.Popen(
        [*CONVMEM, "threads"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(TIMEOUT_S)
    assert process.returncode == 1
    assert errors == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_to_a_full_disk_ends_with_a_sentence(environment, bicycle):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*CONVMEM, "threads"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == "convmem: the output cannot be written: No space left on device\n"


@pytest.mark.sockets
def test_a_model_behind_http_gets_recalled_lines_of_an_earlier_process(convmem, bicycle):
    with ChatCompletionsServer(reply="Behind the bakery.") as server:
        done = convmem(
            *("chat", "--model", "openai:test-model", "--base-url", server.url),
            stdin="Where did I lock my bicycle?\n",
        )
        (request,) = server.requests
    assert (done.returncode, done.stdout) == (0, "Behind the bakery.\n"), done.stderr
    assert request.body["stream"] is True
    assert request.body["model"] == "test-model"
    sent = json.dumps(request.body["messages"])
    assert f"Ana: {LINE}" in sent
    assert "Where did I lock my bicycle?" in sent


@pytest.mark.sockets
def test_the_answer_is_printed_while_the_server_is_still_sending(environment, bicycle):
    printed = threading.Event()

    def hold(number):
        # The fourth event waits until the words of the events before it are on the screen.
        if number == 3:
            assert printed.wait(TIMEOUT_S)

    reply = ScriptedReply(text="one two three four", before_chunk=hold)
    with (
        ChatCompletionsServer(reply=reply) as server,
        subprocess.Popen(
            [*CONVMEM, "chat", "--model", "openai:test-model", "--base-url", server.url],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        process.stdin.write(b"Count!\n")
        process.stdin.flush()
        early = os.read(process.stdout.fileno(), 3)
        printed.set()
        rest, _ = process.communicate(timeout=TIMEOUT_S)
    assert early == b"one"
    assert early + rest == b"one two three four\n"
    assert process.returncode == 0


@pytest.mark.sockets
def test_a_refusal_of_the_server_is_one_sentence(convmem):
    with ChatCompletionsServer(reply=ScriptedError(status=400, message="no such model")) as server:
        done = convmem(
            *("chat", "--model", "openai:test-model", "--base-url", server.url), stdin="Hello?\n"
        )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("convmem: the model failed: ")
    assert "no such model" in last
    assert "Traceback" not in done.stderr


@pytest.mark.sockets
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_ctrl_c_on_a_terminal_stops_the_answer_and_keeps_it(environment, convmem, tmp_path):
    stopped = threading.Event()

    def hold(number):
        if number == 3:
            stopped.wait(TIMEOUT_S)

    reply = ScriptedReply(text="one two three four", before_chunk=hold)
    screen, terminal = os.openpty()
    with ChatCompletionsServer(reply=reply) as server:
        words = ("chat", "--thread", "t1", "--model", "openai:test-model", "--no-recall")
        with subprocess.Popen(
            [*CONVMEM, *words, "--base-url", server.url],
            env={**environment, "TERM": "dumb"},
            stdin=terminal,
            stdout=terminal,
            stderr=subprocess.PIPE,
        ) as process:
            os.close(terminal)
            _read_until(screen, b"> ")
            os.write(screen, b"Count!\n")
            _read_until(screen, b"two")
            process.send_signal(signal.SIGINT)
            _read_until(screen, b"> ")
            stopped.set()
            os.write(screen, b"/quit\n")
            errors = process.stderr.read().decode()
            process.wait(TIMEOUT_S)
    os.close(screen)
    assert process.returncode == 0, errors
    assert "stopped" in errors
    log = json.loads(convmem("log", "--thread", "t1", "--json").stdout)
    assert [(e["role"], "".join(e["contents"])) for e in log] == [
        ("user", "Count!"),
        ("assistant", "one two"),
    ]
    assert log[1]["metadata"]["attributes"] == ["interrupted"]


def _read_until(screen, wanted):
    seen = b""
    while wanted not in seen:
        seen += os.read(screen, 4096)
    return seen
