"""What somebody else changed in the tables of a `PostgresLog` is named, and takes nothing down."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage
from postgres_server import new_schema, running_server

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.testing.log_contract import (
    ANA,
    say,
    say_all,
)

pytestmark = pytest.mark.postgres
KEY = "a secret of the operator"


@pytest.fixture(scope="module")
def server():
    return running_server()


@pytest.fixture
def schema():
    return new_schema()


@pytest.fixture
def log(server, schema):
    with PostgresLog(server.dsn, schema=schema) as opened:
        yield opened


@pytest.fixture
def change(server, schema):
    """Return what runs a statement on the tables, as an editor would."""
    return lambda text, *values: server.execute(text.replace("{s}", schema), *values)


def say_numbers(log, key=ANA):
    said = [HumanMessage(text, id=text) for text in ("one", "two", "three")]
    return say_all(log, key, said)


# -- keys -----------------------------------------------------------------------------------------


def test_a_log_is_opened_with_the_key_that_signs_it(server, schema):
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY) as log:
        entry = say(log, ANA, "one")
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY.encode()) as log:
        assert log.entries(ANA) == [entry]
    for key, what in ((None, "is signed with a key"), ("x" * 16, "another key")):
        with (
            PostgresLog(server.dsn, schema=schema, signing_key=key) as log,
            pytest.raises(ConfigError, match=what) as caught,
        ):
            log.entries(ANA)
        assert KEY not in str(caught.value)
    with pytest.raises(ConfigError, match="16 to 64 bytes, got 5"):
        PostgresLog(server.dsn, schema=schema, signing_key="short")


def test_a_log_that_was_made_without_a_key_gets_none(server, schema, log):
    log.setup()
    with (
        PostgresLog(server.dsn, schema=schema, signing_key=KEY) as keyed,
        pytest.raises(ConfigError, match="is not signed with a key; copy it"),
    ):
        keyed.entries(ANA)
