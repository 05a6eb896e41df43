"""Entries that cannot be read: named, never skipped, and not in the way of getting rid of them."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest
from histories import KEY
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import CorruptEntryError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.testing.log_contract import list_texts, say


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def log(path):
    with SQLiteLog(path) as opened:
        yield opened


def plain(path):
    """Open the file as another program would."""
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


DAMAGES = [
    "not json",
    "[]",
    '{"v":2}',
    '{"v":1,"m":{"type":"human"',
    '{"v":1,"m":{"type":"tool","content":"x"}}',
]


@pytest.mark.parametrize("body", DAMAGES)
def test_a_damaged_entry_is_named_and_can_be_forgotten(path, log, body):
    say(log, KEY, "before")
    entry = say(log, KEY, "damaged")
    with plain(path) as db:
        db.execute("UPDATE entries SET body = ? WHERE seq = ?", (body, entry.position))
    for read in (lambda: log.entries(KEY), lambda: log.changes(KEY.owner)):
        with pytest.raises(CorruptEntryError, match=entry.id) as caught:
            read()
        assert (caught.value.position, caught.value.thread_id) == (entry.position, "t1")
    assert list_texts(log.entries(KEY, after=entry.position)) == []
    assert log.forget(KEY, [entry.id]).entries == 1
    assert list_texts(log.entries(KEY)) == ["before"]


def test_damaged_metadata_is_named(path, log):
    entry = say(log, KEY, "Hi")
    with plain(path) as db:
        db.execute("UPDATE entries SET metadata = '[1]'")
    with pytest.raises(CorruptEntryError, match=entry.id):
        log.entries(KEY)


def test_bodies_are_plain_json_that_others_can_read(path, log):
    say(log, KEY, HumanMessage("Grüße", name="Ana"))
    with plain(path) as db:
        [(body,)] = db.execute("SELECT body FROM entries").fetchall()
    assert json.loads(body)["m"] == {"content": "Grüße", "name": "Ana", "type": "human"}
    assert "Grüße" in body
