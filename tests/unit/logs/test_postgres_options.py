"""What `PostgresLog` is given is checked before anything is connected."""

from __future__ import annotations

import builtins
import sys

import pytest

from langchain_convmem.errors import (
    ConfigError,
    LogClosedError,
    LogUnavailableError,
    MissingExtraError,
)
from langchain_convmem.logs import PostgresLog
from langchain_convmem.records import ThreadKey

DSN = "postgresql://ana:hunter2@127.0.0.1:1/base"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"dsn": None}, "a dsn or a pool"),
        ({"dsn": "postgresql+psycopg://ana:hunter2@localhost/base"}, "cannot be read"),
        ({"schema": "pg_mine"}, "no plain name"),
        ({"schema": 'a"b'}, "no plain name"),
        ({"schema": "1a"}, "no plain name"),
        ({"max_size": 0}, "got 0"),
        ({"statement_timeout_s": 0}, "got 0"),
        ({"pool": object()}, "psycopg_pool.ConnectionPool"),
        ({"signing_key": "short"}, "16 to 64 bytes"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options, what):
    pytest.importorskip("psycopg_pool")
    with pytest.raises(ConfigError, match=what) as caught:
        PostgresLog(**{"dsn": DSN} | options)
    assert "hunter2" not in str(caught.value)


def test_a_server_that_cannot_be_reached_is_noticed_at_once_and_no_password_is_shown():
    pytest.importorskip("psycopg_pool")
    with PostgresLog(DSN) as log:
        assert repr(log) == "<PostgresLog on 127.0.0.1/base, schema 'convmem'>"
        with pytest.raises(LogUnavailableError, match="refused") as caught:
            log.entries(ThreadKey("ana", "t"))
        assert "hunter2" not in str(caught.value)
    with pytest.raises(LogClosedError):
        log.entries(ThreadKey("ana", "t"))


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool"])
def test_a_missing_driver_is_named_with_its_extra(monkeypatch, missing):
    load = builtins.__import__

    def refuse(name, *args, **options):
        if name.partition(".")[0] == missing:
            raise ImportError(name)
        return load(name, *args, **options)

    for name in [one for one in sys.modules if one.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"langchain-convmem\[postgres\]"):
        PostgresLog(DSN)
