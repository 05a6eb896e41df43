"""`examples/fastapi_app.py` with two worker processes over one log, called over loopback."""

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pages import THEIRS, blocks_of
from postgres_server import new_schema, running_server

from langchain_convmem import ConversationMemory

pytestmark = [pytest.mark.web, pytest.mark.sockets]

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


@contextmanager
def serving(folder, *options, log_address="memory.db"):
    """Start the example with two workers in a folder; yield where it listens, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {
        **os.environ,
        "CONVMEM_LOG": log_address,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "support"))),
        "SESSION_SECRET": "a secret of this test",
    }
    command = [sys.executable, "-m", "uvicorn", "fastapi_workers:app", "--workers", "2"]
    command += ["--timeout-keep-alive", str(int(PATIENCE_S))]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            [*command, "--port", port, *options],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def address(request, tmp_path_factory):
    place = "memory.db"
    if request.param == "postgres":
        directory = running_server().directory
        place = f"postgresql://postgres@/postgres?host={directory}&schema={new_schema()}"
    with serving(tmp_path_factory.mktemp("server"), log_address=place) as (address, _):
        yield address


@pytest.fixture
def workers(address):
    """Yield two clients of one user; each keeps its connection, and so its worker.

    Who leaves a stream loses the connection: the next one may reach either worker.
    """
    clients = {}
    deadline = time.monotonic() + PATIENCE_S
    while len(clients) < 2:
        assert time.monotonic() < deadline, "no two workers answered"
        client, worker = signed_in(address, "maya")
        if clients.setdefault(worker, client) is not client:
            client.close()
    one, two = clients.values()
    yield one, two
    one.close()
    two.close()


def signed_in(address, name):
    """Return a client of a user, once the server answers, and the process that it reached."""
    kept = httpx.Limits(keepalive_expiry=None)
    client = httpx.Client(base_url=address, timeout=PATIENCE_S, limits=kept)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            worker = client.get("/worker").json()
            break
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    sign_in(client, name)
    return client, worker


def sign_in(client, name):
    assert client.post("/login", params={"name": name}).status_code == 204


def say(client, thread, text, message_id, path=""):
    said = {"id": message_id, "text": text}
    answer = client.post(f"/threads/{thread}/messages{path}", json=said)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])


def events(response):
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def lines(client, thread):
    return [(line["role"], line["content"]) for line in client.get(f"/threads/{thread}").json()]


def wait_for(look):
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_page_prints_what_it_shows(address, workers):
    names = {}
    try:
        for block in blocks_of(ROOT / "docs" / "how_to" / "deploy.md"):
            if block.language == THEIRS and "await " not in block.code:  # that is for a server
                code = block.code.replace("http://127.0.0.1:8000", address)
                replace(block, code=code).run(names)
    finally:
        for client in (names[name] for name in ("ana", "ben") if name in names):
            client.close()


def test_what_is_told_to_one_worker_is_known_to_the_other(workers):
    one, two = workers
    assert one.get("/worker").json() != two.get("/worker").json()
    say(one, "monday", "I parked on level C, next to the blue pillar.", "m1")
    assert "level C, next to the blue pillar" in say(two, "monday", "Where did I park?", "m2")
    assert "level C, next to the blue pillar" in say(one, "friday", "Where did I park?", "f1")
    assert "level C, next to the blue pillar" in say(
        two, "saturday", "Where did I park?", "s1", "/sync"
    )
    assert set(two.get("/threads").json()) >= {"monday", "friday", "saturday"}


def test_nobody_sees_the_threads_of_another_user(address, workers):
    one, _ = workers
    say(one, "private", "The code of the gate is 4711.", "p1")
    with httpx.Client(base_url=address, timeout=PATIENCE_S) as stranger:
        assert stranger.get("/threads/private").status_code == 401
        sign_in(stranger, "ben")
        assert lines(stranger, "private") == []
        assert "4711" not in say(stranger, "private", "What is the code of the gate?", "x1")
    assert lines(one, "private")[0] == ("user", "The code of the gate is 4711.")


def test_the_stop_button_keeps_what_was_said_and_the_next_turn_knows_it(workers):
    one, two = workers
    said = {"id": "c1", "text": "Count for ever."}
    with one.stream("POST", "/threads/stopped/stream", json=said) as response:
        arriving = events(response)
        heard = "".join(next(arriving)[1]["text"] for _ in range(3))
    assert heard == "One, two, three"
    wait_for(lambda: len(lines(two, "stopped")) == 2)
    _, reply = two.get("/threads/stopped").json()
    assert (reply["content"], reply["interrupted"]) == ("One, two, three", True)
    say(two, "stopped", "Thank you.", "c2")
    assert [role for role, _ in lines(two, "stopped")] == ["user", "assistant"] * 2


def test_a_request_that_is_sent_again_to_another_worker_is_the_same_turn(workers):
    one, two = workers
    for client in (one, two):
        say(client, "again", "My bicycle is red.", "b1")
    assert [role for role, _ in lines(one, "again")] == ["user", "assistant"]


class Browser:
    """A tab that sends all it shows with each message, to one worker and the other in turn."""

    def __init__(self, workers, thread):
        self.workers = itertools.cycle(workers)
        self.path = f"/threads/{thread}/chat"
        self.shown = []

    def send(self, text, message_id):
        self.shown.append({"id": message_id, "role": "user", "content": text})
        return self.ask()

    def ask(self):
        chat = {"messages": self.shown}
        with next(self.workers).stream("POST", self.path, json=chat) as response:
            *pieces, (_, last) = events(response)
        answer = "".join(data["text"] for _, data in pieces)
        self.shown.append({"id": last["id"], "role": "assistant", "content": answer})
        return answer

    def shown_lines(self):
        return [(line["role"], line["content"]) for line in self.shown]


def test_a_browser_that_sends_the_whole_chat_doubles_nothing(workers):
    browser = Browser(workers, "whole")
    for number, text in enumerate(["My favourite tea is oolong.", "Yes.", "Yes."]):
        browser.send(text, f"w{number}")
    assert "oolong" in browser.send("Which tea do I like?", "w3")
    assert lines(workers[0], "whole") == browser.shown_lines()


def test_an_answer_that_a_shutdown_cuts_off_is_kept(tmp_path):
    with serving(tmp_path, "--timeout-graceful-shutdown", "1") as (address, server):
        client, _ = signed_in(address, "maya")
        url, said = "/threads/down/stream", {"id": "d1", "text": "Count for ever."}
        with closing(client), client.stream("POST", url, json=said) as response:
            arriving = events(response)
            heard = "".join(next(arriving)[1]["text"] for _ in range(3))
            server.terminate()
            with pytest.raises(httpx.RemoteProtocolError):
                list(arriving)
        assert server.wait(timeout=PATIENCE_S) == 0
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        _, reply = memory.history("down", user_id="maya").entries
    assert reply.contents == (heard,)
    assert reply.metadata.attributes == ("interrupted",)
