"""`convmem chat` as a person sees it, in real terminals: tmux types, and shows the screen."""

import os
import shutil
import subprocess
import sys
import time

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]
TIMEOUT_S = 40
READY = "\n>\n"
"""An empty prompt: blanks at the ends of lines are not shown."""


class Screen:
    """A terminal in which a chat runs."""

    def __init__(self, folder, name, *options, width=100):
        self._tmux = ["tmux", "-L", f"convmem-{os.getpid()}-{name}", "-f", os.devnull]
        words = [sys.executable, "-X", "utf8", "-m", "langchain_convmem.cli", "chat", *options]
        environment = {**os.environ, "CONVMEM_DB": str(folder / "memory.db"), "LC_ALL": "C.UTF-8"}
        environment.pop("CONVMEM_MODEL", None)
        size = ["-x", str(width), "-y", "40"]
        command = " ".join([*words, "; sleep 60"])
        subprocess.run(
            [*self._tmux, "new-session", "-d", *size, command], env=environment, check=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _run(self, *words):
        command = [*self._tmux, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def type(self, *keys):
        self._run("send-keys", *keys)

    def paste(self, text):
        self._run("set-buffer", text)
        self._run("paste-buffer", "-p")

    def read(self):
        return self._run("capture-pane", "-p")

    def wait(self, *texts):
        """Return the screen when it shows all of these texts."""
        deadline = time.monotonic() + TIMEOUT_S
        while not all(text in (shown := self.read()) for text in texts):
            if time.monotonic() > deadline:
                pytest.fail(f"{texts} not on the screen:\n{shown}")
            time.sleep(0.05)
        return shown


def test_a_first_run_a_paste_history_keys_and_why(tmp_path):
    with Screen(tmp_path, "first", "--thread", "t1") as screen:
        shown = screen.wait(READY)
        assert "offline model: quotes what it remembers" in shown
        assert "thread t1: continue it with --thread t1" in shown
        screen.paste("The spare key\nis at Teresa's.")
        screen.wait("is at Teresa's.")
        screen.type("Enter")
        shown = screen.wait(READY)
        screen.type("Up")  # what was said comes back, both lines of it
        screen.wait("> The spare key\n")
        screen.type("C-c")
    with Screen(tmp_path, "second", "--thread", "t2") as screen:
        screen.wait(READY)
        screen.type("Where is the spare key?", "Enter")
        screen.wait("Teresa")
        screen.type("/why", "Enter")
        shown = screen.wait("why:")
        assert "1. thread t1" in shown
        screen.type("C-d")


def test_the_latest_thread_goes_on_in_a_narrow_window_and_in_two_terminals(tmp_path):
    with Screen(tmp_path, "wide", "--thread", "t1") as first:
        first.wait(READY)
        first.type("Miguel borrowed the long ladder.", "Enter")
        first.wait(READY)
        with Screen(tmp_path, "narrow", "-c", width=40) as second:
            assert "thread t1" in second.wait(READY)
            second.type("/history", "Enter")
            second.wait("Miguel")
            second.type("Teresa has the drill.", "Enter")
            second.wait("drill.", READY)
            first.type("/history", "Enter")
            first.wait("Teresa has the drill.")  # said in the other terminal
            first.type("/undo", "Enter")
            first.wait("undone: Teresa has the drill.")
