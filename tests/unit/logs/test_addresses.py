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
from langchain_convmem.logs.addresses import log_name, open_log
from langchain_convmem.records import ThreadKey


def test_a_file_that_must_be_there_is_not_made(tmp_path):
    path = tmp_path / "typo.db"
    with pytest.raises(ConfigError, match=r"typo\.db"):
        open_log(str(path), must_exist=True)
    assert not path.exists()


@pytest.mark.parametrize(
    ("address", "first", "options"),
    [
        (
            "dynamodb://Chat-Log?region=eu-west-1&endpoint=http://127.0.0.1:8000/x",
            "Chat-Log",
            {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:8000/x"},
        ),
        ("dynamodb://log", "log", {"region_name": None, "endpoint_url": None}),
        (
            "postgresql://ana:p#w?@host:5432/db?sslmode=require&schema=Chats&options=-c%20a=b+c",
            "postgresql://ana:p#w?@host:5432/db?sslmode=require&options=-c%20a=b+c",
            {"schema": "Chats"},
        ),
        ("postgres://host/db", "postgres://host/db", {"schema": "convmem"}),
    ],
    ids=["a table", "a table alone", "a database server", "a server alone"],
)
@pytest.mark.parametrize("key", [None, "a secret of mine"])
def test_an_address_says_which_log_is_opened_and_how(monkeypatch, address, first, options, key):
    kind, name = (
        ("dynamodb", "DynamoDBLog") if "dynamodb" in address else ("postgres", "PostgresLog")
    )
    module = pytest.importorskip(f"langchain_convmem.logs.{kind}")
    monkeypatch.setattr(module, name, lambda *args, **given: (*args, given))
    assert open_log(address, signing_key=key) == (first, {**options, "signing_key": key})


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("redis://host", "redis"),
        ("dynamodb://", "TABLE"),
        ("dynamodb://log/extra", "TABLE"),
        ("dynamodb://log?zone=x", "zone"),
        ("postgresql://[bad/db", "dsn"),
    ],
)
def test_an_address_of_no_known_log_is_refused(address, says):
    with pytest.raises(ConfigError, match=says):
        open_log(address)


def test_names_show_no_password(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert log_name("memory.db") == str(tmp_path / "memory.db")
    for address in (
        "postgresql://ana:hunter2@host/db?schema=x",
        "postgresql://ana:#hunter2?@host/db?schema=x",
        "postgresql://host/db?user=ana&password=hunter2&schema=x",
        "postgresql://host/db?pass%77ord=hunter2&sslpassword=hunter2&schema=x",
    ):
        assert "hunter2" not in log_name(address)
        assert log_name(address).endswith("schema=x")
    assert log_name("postgresql:///db?password=hunter2") == "postgresql:///db"
    with pytest.raises(ConfigError) as refused:
        open_log("postgresql://ana:hunter2@[host/db")
    assert "hunter2" not in str(refused.value)


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
