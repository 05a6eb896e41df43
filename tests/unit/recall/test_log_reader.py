from __future__ import annotations

from dataclasses import replace

import pytest

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.recall.index import LogReader
from langchain_convmem.records import Changes, Control, Draft, Owner, ThreadKey

ANA = Owner(user_id="ana")
KEY = ThreadKey("ana", "t")


class Shouting(SQLiteLog):
    """Changes what is read, as a log that decrypts would."""

    def changes(self, owner, cursor=0, *, limit=None):
        found = super().changes(owner, cursor, limit=limit)
        entries = tuple(map(shouted, found.entries))
        return Changes(entries, found.cursor, found.generation)


class ShoutingTwice(Shouting):
    """Inherits both ways of reading, one of them changed."""


class Whispering(SQLiteLog):
    def line_changes(self, owner, cursor=0, *, limit=None):
        raise AssertionError("asked for lines")


def shouted(entry):
    return replace(entry, contents=tuple(map(str.upper, entry.contents)))


def texts(log):
    found = []
    reader = LogReader(log, ANA)
    assert reader.read(lambda lines: found.extend(line.text for line in lines)) is False
    return found


@pytest.mark.parametrize("kind", [SQLiteLog, Shouting, ShoutingTwice])
def test_lines_are_read_as_the_log_reads_entries(tmp_path, say, kind):
    log = kind(tmp_path / "log.db")
    say(log, ["one", "two"])
    expected = [text for entry in log.changes(ANA).entries for text in entry.contents]
    assert texts(log) == expected
    assert (expected == ["ONE", "TWO"]) is (kind is not SQLiteLog)


def test_a_log_whose_reading_was_replaced_is_read_so(tmp_path, say, monkeypatch):
    log = SQLiteLog(tmp_path / "log.db")
    say(log, ["one"])
    monkeypatch.setattr(log, "changes", lambda *_, **__: Changes((), 0, 0))
    assert texts(log) == []


def test_a_log_that_says_how_lines_are_read_is_asked_for_them(tmp_path, say):
    log = Whispering(tmp_path / "log.db")
    say(log, ["one"])
    with pytest.raises(AssertionError, match="asked for lines"):
        texts(log)


def test_pages_without_lines_do_not_end_the_reading(say):
    log = InMemoryLog()
    entries = log.append(KEY, [Draft(role="tool") for _ in range(9_000)])
    log.append(KEY, [Draft(role="control", control=Control((entries[0].id,), "undo"))])
    say(log, ["last"])
    assert texts(log) == ["last"]
    reader = LogReader(log, ANA)
    reader.read(lambda _: None)
    assert reader.retracted == {entries[0].id}


def test_a_log_that_has_nothing_new_has_ended_wherever_its_cursor_is(monkeypatch):
    log = InMemoryLog()
    monkeypatch.setattr(log, "changes", lambda _, cursor, **__: Changes((), cursor + 1, 0))
    assert texts(log) == []
