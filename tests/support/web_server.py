"""The web chat as its tests and pictures start it: over a loopback service, with much to recall.

The service streams word by word; a question that begins with `Slowly` is answered until it is let
go on (`Gate`), and one with `Fail` is refused.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

from langchain_convmem import ConversationMemory
from langchain_convmem.testing import ChatCompletionsServer, ScriptedError, ScriptedReply

ROOT = Path(__file__).parents[2]
LIFE = ROOT / "examples" / "weeks_with_an_assistant.jsonl"
PATIENCE_S = 30.0

LISBON = """Then three things decide the day:

1. **The tram at ten.** Line 28 is empty before the ships come in.
2. **Lunch without hazelnuts**, because of Jonas. No praliné, no custard tarts from a shared
   tray; *Tasca da Esquina* cooks without.
3. **Clay at four.** The studio in Alfama fires at 1,240 °C, so your stoneware glaze would do.

| when | where | costs |
| --- | --- | --- |
| 10:00 | Line 28 | 3 € |
| 13:00 | Tasca da Esquina | 24 € |
| 16:00 | Studio Alfama | 35 € |
"""


class Gate:
    """Holds streams of slow replies after their third word until it is opened."""

    def __init__(self):
        self.opened = threading.Event()
        self.reached = threading.Event()

    def hold(self, number):
        if number >= 3:
            self.reached.set()
            self.opened.wait(PATIENCE_S)


def answer(body, gate):
    """Return what the service answers: what it was asked, or something prepared."""
    said = body["messages"][-1]["content"]
    pieces = [said] if isinstance(said, str) else [one["text"] for one in said if "text" in one]
    text, count = (pieces or ["a picture"])[-1], len(body["messages"])
    if text.startswith("Slowly"):
        return ScriptedReply(text="One, two, three, four, five.", before_chunk=gate.hold)
    if text.startswith("Fail"):
        return ScriptedError(status=400, message="this model is out of words")
    if text.startswith("Echo "):
        return ScriptedReply(text=text.removeprefix("Echo "))
    if "Lisbon" in text:
        return ScriptedReply(text=LISBON)
    return ScriptedReply(text=f"You said: {text[:200]} That makes {count} messages.")


@contextlib.contextmanager
def run_service():
    """Yield the address of the service, and what holds its slow replies."""
    gate = Gate()
    with ChatCompletionsServer(lambda body: answer(body, gate)) as service:
        try:
            yield service.url, gate
        finally:
            gate.opened.set()


@contextlib.contextmanager
def run_server(folder, service_url, *options, port=0):
    """Yield the address of `convmem web` over the service, and its process."""
    environment = {**os.environ, "OPENAI_API_KEY": "none", "PYTHONPATH": str(ROOT)}
    words = ["web", "--db", "memory.db", "--port", str(port), "--json"]
    model = ["--model", "openai:test-model", "--base-url", service_url]
    with (folder / "errors.txt").open("a") as errors:
        server = subprocess.Popen(
            [sys.executable, "-X", "utf8", "-m", "langchain_convmem.cli", *words, *model, *options],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, (folder / "errors.txt").read_text()
        address = json.loads(line)["url"].rstrip("/")
        wait_until_ready(address)
        yield address, server
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(PATIENCE_S)
        if server.stdout is not None:
            server.stdout.close()


def wait_until_ready(address):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            httpx.get(f"{address}/users")
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def import_life(folder, user_id="maya", *, embeds=False):
    """Let a user remember the weeks of the examples, by sessions as threads."""
    with ConversationMemory.open(folder / "memory.db") as memory:
        lines = [json.loads(line) for line in LIFE.read_text("utf-8").splitlines()]
        for line in lines:
            session = line.get("session", "s00")
            message = {
                "role": line["role"],
                "content": line["content"],
                "name": line.get("name"),
                "additional_kwargs": {"timestamp": line["timestamp"]},
            }
            memory.add_messages([message], thread_id=session, user_id=user_id, durable=False)
        if embeds:
            memory.refresh(user_id=user_id)
