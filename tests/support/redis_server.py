"""A real Redis server for tests: on a Unix socket in a directory of its own, nothing else."""

import atexit
import functools
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

_NAMES = itertools.count()


def new_prefix():
    """Return how the keys of a log begin that no other test uses."""
    return f"t{os.getpid()}-{next(_NAMES)}"


@functools.cache
def running_server():
    """Return the server of this test run, started when first asked for; else skip the test."""
    pytest.importorskip("redis", reason="the redis client is not installed")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    server = RedisServer(program)
    atexit.register(server.remove)
    return server


class RedisServer:
    """A server process that writes what it acknowledges to the disk; `url` reaches it."""

    def __init__(self, program):
        self.directory = Path(tempfile.mkdtemp(prefix="convmem-redis-"))
        self.socket = self.directory / "socket"
        self.url = f"unix://{self.socket}"
        self._program = program
        self.start()

    def start(self):
        """Start the process, and wait until it answers."""
        import redis

        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        command = [self._program]
        for name, value in options.items():
            command += [f"--{name}", value]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        client = redis.from_url(self.url)
        deadline = time.monotonic() + 30
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.02)
            else:
                client.close()
                return

    def kill(self):
        """End the process as a crash does: it writes nothing any more."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def remove(self):
        """End the process and delete its files."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
