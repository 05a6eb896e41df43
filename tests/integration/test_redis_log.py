"""The example `redis_log.py` keeps the contract of a log, against a real server."""

import socket
from functools import partial

import pytest
from langchain_core.messages import HumanMessage
from redis_server import RedisServer, new_prefix, running_server

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import MessageLogContract, list_texts, say, say_all

pytestmark = pytest.mark.redis

ANA = ThreadKey("ana", "t1")


def open_redis_log(url, prefix):
    """Open a log; a function of a module, so that other processes can be sent it."""
    from redis_log import RedisLog

    return RedisLog(url, prefix=prefix)


class TestRedisLog(MessageLogContract):
    persistent = True
    several_handles = True
    several_processes = True

    def make_log(self, tmp_path):
        return partial(open_redis_log, running_server().url, new_prefix())


@pytest.fixture
def server():
    return running_server()


@pytest.fixture
def log(server):
    with open_redis_log(server.url, new_prefix()) as opened:
        yield opened


def test_what_was_acknowledged_survives_a_crash_of_the_server():
    import shutil

    running_server()  # or the skip
    server = RedisServer(shutil.which("redis-server"))
    try:
        with open_redis_log(server.url, "log") as log:
            entries = say_all(log, ANA, [f"line {number}" for number in range(50)])
            server.kill()
            with pytest.raises(LogUnavailableError, match="try again"):
                log.entries(ANA)
            server.start()
            assert log.entries(ANA) == entries
            again = say(log, ANA, "after the crash")
            assert again.position > entries[-1].position
    finally:
        server.remove()


class Cutting:
    """Cuts the first connection that commits: what it did counts, and nobody hears of it."""

    def __init__(self, log):
        pool = log._redis.connection_pool
        make = pool.connection_class
        cutter = self

        class Connection(make):
            def send_packed_command(self, command, **options):
                super().send_packed_command(command, **options)
                sent = command if isinstance(command, list) else [command]
                if cutter.is_armed and any(b"EXEC" in bytes(part) for part in sent):
                    cutter.is_armed = False
                    self.read_response(disconnect_on_error=False)  # of MULTI: the server is at it
                    self._sock.shutdown(socket.SHUT_RDWR)

        pool.connection_class = Connection
        pool.disconnect()
        self.is_armed = False


def test_an_append_whose_answer_was_lost_is_not_done_twice(log):
    cutting = Cutting(log)
    say(log, ANA, "before")
    cutting.is_armed = True
    entry = say(log, ANA, "without an id")
    assert not cutting.is_armed, "no answer was lost"
    assert list_texts(log.entries(ANA)) == ["before", "without an id"]
    assert log.entries(ANA)[-1] == entry
    cutting.is_armed = True
    document = log.set_state(ANA, "buffer", [1], expected=None)
    assert not cutting.is_armed
    assert document == log.get_state(ANA, "buffer")


def test_nothing_of_a_forgotten_user_is_left(server):
    import redis

    prefix = new_prefix()
    with open_redis_log(server.url, prefix) as log:
        say_all(log, ANA, ["secret", HumanMessage("secret", id="m1"), HumanMessage("x", id="m1")])
        log.set_state(ANA, "buffer", "secret", expected=None)
        log.forget(ANA.owner)
    client = redis.from_url(server.url)
    left = sorted(client.scan_iter(f"{prefix}:*"))
    client.close()
    assert left == [f"{prefix}:epoch:[]".encode(), f"{prefix}:positions:[]".encode()]
