"""Two and four server processes over one log, between which users move from turn to turn."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from dynamodb_servers import moto_server, new_client, new_table_name
from postgres_server import new_schema, running_server

from langchain_convmem import ConversationMemory
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing import HashEmbeddings

pytestmark = [pytest.mark.sockets, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
USERS = [f"user{number}" for number in range(10)]
TURNS = 8
PATIENCE_S = 120.0


class ServerProcess:
    """A server in a process of its own; turns may be asked for at once."""

    def __init__(self, address):
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
        keys = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "support" / "server_process.py"), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **keys, "PYTHONPATH": paths},
        )
        self._waiting = {}
        self._lock = threading.Lock()
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            found = json.loads(line)
            self._waiting.pop(found["id"]).set_result(found)

    def ask(self, asked):
        """Return what the model of a turn saw."""
        answer = Future()
        with self._lock:
            self._waiting[asked["id"]] = answer
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        return answer.result(PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self._process.stdout.close()


@pytest.fixture(params=["sqlite", "dynamodb", pytest.param("postgres", marks=pytest.mark.postgres)])
def address(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "memory.db")
    elif request.param == "postgres":
        directory = running_server().directory
        yield f"postgresql://postgres@/postgres?host={directory}&schema={new_schema()}"
    else:
        with moto_server() as url:
            table = new_table_name()
            DynamoDBLog(table, client=new_client(url)).create_table()
            yield f"dynamodb://{table}?region=eu-central-1&endpoint={url}"


@pytest.mark.parametrize("count", [2, 4])
def test_users_who_move_between_servers_are_the_same_everywhere(address, count, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    with ExitStack() as stack:
        servers = [stack.enter_context(ServerProcess(address)) for _ in range(count)]
        with ThreadPoolExecutor(len(USERS)) as users:
            lives = [users.submit(live, user, servers) for user in USERS]
            said = {user: life.result(PATIENCE_S) for user, life in zip(USERS, lives, strict=True)}
    with ConversationMemory.open(address, embeddings=HashEmbeddings()) as memory:
        for user, threads in said.items():
            for thread, texts in threads.items():
                stored = memory.log.entries(ThreadKey(user, thread))
                both = [text for one in texts for text in (one, "I see.")]
                assert [entry.contents[0] for entry in stored if entry.contents] == both
            assert [item.text for item in memory.profile(user).current] == [tell_allergy(user)]


def tell_allergy(user):
    return f"I'm allergic to {PLANTS[USERS.index(user)]}."


PLANTS = (
    *("walnuts", "celery", "mustard", "sesame", "lupins"),
    *("almonds", "cashews", "peanuts", "hazelnuts", "soybeans"),
)


def live(user, servers):
    """Take the turns of a user, each on another server; return what was said, by thread."""
    chance = random.Random(user)
    said = {"monday": [], "friday": []}
    before = None
    for number in range(TURNS):
        thread = "monday" if number < TURNS - 2 else "friday"
        text = f"Number {number} of {user}."
        if number == 1:
            text = tell_allergy(user)
        elif number == TURNS - 1:
            text = "What am I allergic to?"
        server = chance.choice([one for one in servers if one is not before])
        before = server
        asked = {"user": user, "thread": thread, "text": text, "id": f"{user}-{number}"}
        found = server.ask(asked)
        assert "error" not in found, found
        assert found["seen"] == [part for one in said[thread] for part in (one, "I see.")]
        if number == TURNS - 1:
            assert PLANTS[USERS.index(user)] in found["question"]
            assert sum(plant in found["question"] for plant in PLANTS) == 1
        said[thread].append(text)
    return said
