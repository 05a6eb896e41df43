"""A real PostgreSQL server for tests: on a Unix socket in a directory of its own, nothing else.

Its programs come from the `pgserver` wheel (they are started directly, since that package would
create a system user when it runs as root), or from an installed PostgreSQL. A server refuses to run
as root; then it runs as `nobody`. What is missing on a machine is a skip with its reason.
"""

import atexit
import functools
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

UNPRIVILEGED = "nobody"
_NAMES = itertools.count()


def new_schema():
    """Return the name of a schema that no other test uses."""
    return f"t{os.getpid()}_{next(_NAMES)}"


def wait_for(condition):
    """Return what `condition` returns once that is true."""
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return found


def wait_until_it_answers(dsn, process, log):
    """Wait until a server that was just started takes connections."""
    import psycopg

    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start:\n{log.read_text()}") from error
            time.sleep(0.02)
        else:
            return


@functools.cache
def running_server():
    """Return the server of this test run, started when first asked for; else skip the test."""
    if sys.platform == "win32":
        pytest.skip("the PostgreSQL of these tests speaks over Unix sockets")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    server = PostgresServer(_programs())
    atexit.register(server.remove)
    return server


def _programs():
    wheel = importlib.util.find_spec("pgserver")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    found = shutil.which("pg_ctl")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if found is None and not installed:
        pytest.skip("there is neither the pgserver wheel (Python < 3.13) nor a PostgreSQL")
    return Path(found).resolve().parent if found is not None else installed[-1]


class PostgresServer:
    """A server process with a fresh database; `dsn` reaches it as its superuser."""

    def __init__(self, programs):
        self.directory = Path(tempfile.mkdtemp(prefix="convmem-pg-"))
        self._account = {}
        if os.geteuid() == 0:
            self._account = {"user": UNPRIVILEGED, "group": _group(), "extra_groups": []}
            shutil.chown(self.directory, UNPRIVILEGED, _group())
        self._programs = self._reachable(programs)
        self._data = self.directory / "data"
        self.dsn = f"host={self.directory} user=postgres dbname=postgres"
        self._run("initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--no-sync",
                  "--encoding=UTF8", "--locale=C")  # fmt: skip
        self.start()

    def _reachable(self, programs):
        """Return the programs, copied where an account without rights can reach them if need be."""
        try:
            self._run(programs / "postgres", "--version")
        except PermissionError:
            package = programs.parent.parent
            for folder in (package, package.with_name("pgserver.libs")):
                if folder.is_dir():
                    shutil.copytree(folder, self.directory / folder.name)
            programs = self.directory / programs.relative_to(package.parent)
        return programs

    def _run(self, program, *arguments):
        path = program if isinstance(program, Path) else self._programs / program
        subprocess.run(
            [path, *arguments], check=True, capture_output=True, cwd=self.directory, **self._account
        )

    def start(self):
        """Start the server process and wait until it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "fsync": "off",  # no test pulls the plug of this machine
            "max_connections": "60",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # a Ctrl-C in the terminal is for the tests alone
                **self._account,
            )
        wait_until_it_answers(self.dsn, self._process, self.directory / "log")

    def stop(self):
        """End the server; it breaks every connection."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=30)

    def execute(self, text, *values):
        """Run one statement on a connection of its own and return its rows."""
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def backends(self, **conditions):
        """Return the process ids of the logs' sessions, by columns of `pg_stat_activity`."""
        where = "".join(f" AND {name} = %s" for name in conditions)
        found = self.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'langchain-convmem'" + where,
            *conditions.values(),
        )
        return [pid for (pid,) in found]

    def kill(self, pids):
        """End sessions, as an administrator or a crash would, and wait until they are gone."""
        for pid in pids:
            self.execute("SELECT pg_terminate_backend(%s)", pid)
        wait_for(lambda: not set(pids) & set(self.backends()))

    def remove(self):
        """End the server and delete its files."""
        if self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def _group():
    import grp
    import pwd

    return grp.getgrgid(pwd.getpwnam(UNPRIVILEGED).pw_gid).gr_name
