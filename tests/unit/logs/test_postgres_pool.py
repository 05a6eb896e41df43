"""What a PostgreSQL log refuses before it connects."""

from __future__ import annotations

import subprocess
import sys

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.postgres import PostgresLog

WITHOUT_DRIVER = """
import sys
import langchain_convmem.logs.postgres as room
assert not any(name.startswith("psycopg") for name in sys.modules)
from langchain_convmem.errors import MissingExtraError
sys.modules["psycopg"] = None
try:
    room.PostgresLog("dbname=base")
except MissingExtraError as error:
    print(error.extra, "|", error)
"""


def test_without_the_driver_the_log_names_the_command_that_installs_it():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_DRIVER],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("postgres | PostgresLog needs")
    assert "pip install 'langchain-convmem[postgres]'" in done.stdout


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dsn": None}, "dsn, a pool or an async_pool"),
        ({"schema": ""}, "''"),
        ({"schema": "a-b"}, "a-b"),
        ({"schema": 'a"; DROP TABLE x'}, "DROP"),
        ({"schema": "pg_mine"}, "pg_mine"),
        ({"schema": "s" * 64}, "63"),
        ({"schema": "a\n"}, "no plain name"),
        ({"min_size": 3, "max_size": 2}, "3 and 2"),
        ({"min_size": -1}, "-1"),
        ({"min_size": 0, "max_size": 0}, "0 and 0"),
        ({"statement_timeout_s": 0}, "0"),
        ({"statement_timeout_s": float("nan")}, "nan"),
        ({"dsn": "no connection string"}, "cannot be read"),
        ({"pool": object()}, "ConnectionPool"),
        ({"async_pool": object()}, "AsyncConnectionPool"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(options, named):
    pytest.importorskip("psycopg")
    with pytest.raises(ConfigError, match=named):
        PostgresLog(**{"dsn": "dbname=base", **options})


def test_a_pool_for_the_other_world_is_refused():
    pytest.importorskip("psycopg")
    pools = pytest.importorskip("psycopg_pool")
    with pytest.raises(ConfigError, match="pool must be"):
        PostgresLog(pool=pools.AsyncConnectionPool(open=False))
    with pytest.raises(ConfigError, match="async_pool must be"):
        PostgresLog(async_pool=pools.ConnectionPool(open=False))


def test_making_and_closing_a_log_connects_to_nothing():
    pytest.importorskip("psycopg")
    with PostgresLog("host=/nowhere dbname=base") as log:
        assert "base" in repr(log)
