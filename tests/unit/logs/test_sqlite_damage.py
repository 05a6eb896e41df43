"""Entries that cannot be read: named, never skipped, and not in the way of getting rid of them."""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest
from histories import KEY
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError, CorruptEntryError, LogError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.signatures import Signer
from langchain_convmem.logs.sqlite_file import COLUMNS, read_row
from langchain_convmem.records import StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all


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


def damage(path, script):
    """Change the file behind the log's back."""
    with plain(path) as db:
        db.executescript(script)


def list_damages(entries):
    return [(entry.position, entry.damage) for entry in entries if entry.damage]


@pytest.mark.parametrize("body", DAMAGES)
def test_a_damaged_entry_is_a_named_gap_and_can_be_forgotten(path, log, body):
    say(log, KEY, "before")
    entry = say(log, KEY, "damaged")
    say(log, KEY, "after")
    with plain(path) as db:
        db.execute("UPDATE entries SET body = ? WHERE seq = ?", (body, entry.position))
    expected = [(entry.position, "it does not match its checksum")]
    for read in (
        log.entries(KEY),
        log.changes(KEY.owner).entries,
        log.read_thread(KEY, "none", lambda _: [(0, None)])[1],
        log.line_changes(KEY.owner).controls,
    ):
        assert list_damages(read) == expected
    assert list_texts(log.entries(KEY)) == ["before", "after"]
    assert log.entries(KEY)[1].id == entry.id
    assert log.forget(KEY, [entry.id]).entries == 1
    assert list_texts(log.entries(KEY)) == ["before", "after"]
    assert log.verify().ok


def test_damaged_metadata_is_named(path, log):
    entry = say(log, KEY, "Hi")
    damage(path, "UPDATE entries SET metadata = '[1]'")
    assert list_damages(log.entries(KEY)) == [(1, "its metadata does not match its checksum")]
    with pytest.raises(CorruptEntryError, match=entry.id) as caught:
        log.annotate(KEY, entry.id, attributes=["seen"])
    assert (caught.value.position, caught.value.thread_id) == (1, "t1")


ALTERED = {
    "no turn": "UPDATE entries SET turn = '' WHERE seq = 2",
    "text": "UPDATE entries SET body = replace(body, '1000', '9000') WHERE seq = 2",
    "turn": "UPDATE entries SET turn = x'0123456789abcdef0123456789abcdef' WHERE seq = 2",
    "role": "UPDATE entries SET role = 1 WHERE seq = 2",
    "id": "UPDATE entries SET id = zeroblob(16) WHERE seq = 2",
    "checksum": "UPDATE entries SET signature = zeroblob(4) || substr(signature, 5) WHERE seq = 2",
    "no checksum": "UPDATE entries SET signature = x'' WHERE seq = 2",
    "a checksum that is no bytes": "UPDATE entries SET signature = 7 WHERE seq = 2",
    "owner": "UPDATE entries SET thread = 2 WHERE seq = 2",
    "swap": """UPDATE entries SET body = (SELECT body FROM entries WHERE seq = 3) WHERE seq = 2""",
}


@pytest.mark.parametrize("field", ALTERED)
def test_whatever_is_altered_of_an_entry_shows(path, log, field):
    for text in ("one", "pay 1000 euros", "three"):
        say(log, KEY, text)
    say(log, ThreadKey("ben", "t1"), "of another")
    damage(path, ALTERED[field])
    everybodys = [
        text for key in (KEY, ThreadKey("ben", "t1")) for text in list_texts(log.entries(key))
    ]
    assert everybodys == ["one", "three", "of another"]
    assert list_damages(log.entries(KEY) + log.entries(ThreadKey("ben", "t1")))
    [finding] = log.verify().damaged
    assert finding.position == 2


def test_text_that_is_no_unicode_is_a_gap_and_is_never_quoted(path, log, caplog):
    for text in ("before", "secret", "after"):
        say(log, KEY, text)
    damage(path, "UPDATE entries SET body = CAST(x'7365637265742dff' AS TEXT) WHERE seq = 2")
    assert list_damages(log.entries(KEY)) == [(2, "its text cannot be read")]
    assert list_texts(log.entries(KEY)) == ["before", "after"]
    assert list_damages(log.changes(KEY.owner).entries) == [(2, "its text cannot be read")]
    assert "secret" not in f"{log.verify()} {caplog.text}"


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE entries SET body = CAST(x'7365637265742dff' AS TEXT) WHERE seq = 4",
        "UPDATE entries SET body = 'not json' WHERE seq = 4",
    ],
)
def test_the_last_few_entries_name_what_all_of_them_name(path, log, script):
    for text in ("one", "two", "three", "four", "five"):
        say(log, KEY, text)
    say(log, ThreadKey("ben", "t1"), "of another")
    log.forget(KEY, [log.entries(KEY)[1].id])
    damage(path, script)
    everything = log.entries(KEY)
    assert list_damages(everything)
    for count in range(2, 5):
        last = log.entries(KEY, last=count)
        since = [one for one in everything if one.position >= last[0].position]
        assert last == since[-len(last) :]
        assert not sqlite_is_busy(path)


def sqlite_is_busy(path):
    """Return whether somebody still reads: then a write-ahead file cannot be folded away."""
    with plain(path) as db:
        return bool(db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])


def test_an_entry_that_was_deleted_leaves_no_trace(path, log):
    for text in ("one", "two", "three"):
        say(log, KEY, text)
    damage(path, "DELETE FROM entries WHERE seq = 2")
    assert list_texts(log.entries(KEY)) == ["one", "three"]
    assert log.verify().ok


def test_an_id_that_cannot_be_read_gets_a_name_that_forget_takes(path, log):
    say(log, KEY, "one")
    say(log, KEY, "two")
    damage(path, "UPDATE entries SET id = x'00' WHERE seq = 1")
    assert next(iter(log.entries(KEY))).id == "damaged-1"
    assert [info.entries for info in log.threads("ana")] == [2]
    assert log.forget(KEY, ["damaged-1"]).entries == 1
    assert list_texts(log.entries(KEY)) == ["two"]
    assert log.verify().ok


def test_a_damaged_message_that_is_said_again_is_stored_again(path, log):
    message = HumanMessage("Hi", id="m1")
    say(log, KEY, message)
    damage(path, "UPDATE entries SET body = replace(body, 'Hi', 'Ho')")
    assert say(log, KEY, message).position == 2
    assert list_texts(log.entries(KEY)) == ["Hi"]


def test_a_damaged_cache_is_absent_and_another_document_is_an_error_without_text(path, log):
    say(log, KEY, "one")
    log.set_state(KEY, "cache:x", ["secret"], expected=None)
    log.set_state(KEY, "notes", ["secret"], expected=None)
    damage(path, "UPDATE documents SET value = replace(value, 'secret', 'secreT')")
    assert log.get_state(KEY, "cache:x") is None
    assert log.set_state(KEY, "cache:x", ["new"], expected=None).value == ["new"]
    with pytest.raises(LogError, match="'notes' of thread 't1' is damaged") as caught:
        log.get_state(KEY, "notes")
    assert "secre" not in str(caught.value)
    assert len(log.verify().problems) == 1


# -- keys ---------------------------------------------------------------------------------------

SECRET = "correct horse battery staple"


def test_a_file_with_a_key_opens_with_it_alone(path):
    with SQLiteLog(path, signing_key=SECRET) as log:
        say(log, KEY, "one")
        assert log.verify().ok
    for other in (None, "another key of sixteen"):
        with pytest.raises(ConfigError, match="signing_key"):
            SQLiteLog(path, signing_key=other)
    with SQLiteLog(path, signing_key=SECRET) as log:
        assert list_texts(log.entries(KEY)) == ["one"]


def test_who_lacks_the_key_cannot_sign_what_was_altered(path):
    with SQLiteLog(path, signing_key=SECRET) as log:
        row = say(log, KEY, "one")
        with plain(path) as db:
            columns = db.execute(f"SELECT {COLUMNS} FROM entries e").fetchone()
            altered = read_row(columns)
            altered.body = altered.body.replace("one", "two")
            signature = Signer().sign(KEY, altered)
            query = "UPDATE entries SET body = ?, signature = ?"
            db.execute(query, (altered.body, signature))
        assert list_damages(log.entries(KEY)) == [(row.position, "it does not match its checksum")]


def test_a_file_with_entries_gets_no_key(path, log):
    say(log, KEY, "one")
    with pytest.raises(ConfigError, match="copy it into a new log"):
        SQLiteLog(path, signing_key=SECRET)


def test_a_file_without_entries_gets_the_key_that_it_is_opened_with(path, log):
    with SQLiteLog(path, signing_key=SECRET) as keyed:
        say(keyed, KEY, "one")
    with pytest.raises(ConfigError, match="signing_key"):
        say(log, KEY, "two")


def test_bodies_are_plain_json_that_others_can_read(path, log):
    say(log, KEY, HumanMessage("Grüße", name="Ana"))
    with plain(path) as db:
        [(body,)] = db.execute("SELECT body FROM entries").fetchall()
    assert json.loads(body)["m"] == {"content": "Grüße", "name": "Ana", "type": "human"}
    assert "Grüße" in body


def test_where_a_page_is_broken_its_entries_are_gaps_and_the_others_are_read(path, log):
    entries = say_all(log, KEY, [f"said {number}" for number in range(300)])
    log.close()
    with plain(path) as db:
        [(size,)] = db.execute("PRAGMA page_size")
    data = bytearray(path.read_bytes())
    start = data.index(b'"said 7"') // size * size
    data[start : start + size] = bytes(size)
    path.write_bytes(data)
    with SQLiteLog(path) as again:
        read = again.entries(KEY)
        assert [entry.position for entry in read] == [entry.position for entry in entries]
        damaged = list_damages(read)
        assert {what for _, what in damaged} == {"its page cannot be read"}
        assert list_texts(read)[-1] == "said 299"
        found = again.verify().damaged
        assert [one.position for one in found] == [position for position, _ in damaged]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("terms", "x'ff'"),
        ("terms", "CAST(x'ff' AS TEXT)"),
        ("vector", "'text'"),
        ("vector", "7"),
        ("part", "'x'"),
        ("analysis", "'x'"),
    ],
)
def test_an_index_row_of_a_wrong_type_is_derived_anew(path, log, column, value):
    entry = say(log, KEY, "a park")
    sound = StoredSegment(entry.position, 0, 0, "park", b"\x00\x3c")
    log.save_segments(KEY.owner, "static", [sound])
    log.close()
    damage(path, f"UPDATE segments SET {column} = {value}")
    with SQLiteLog(path) as again:
        assert again.load_segments(KEY.owner, "static") == []
        again.save_segments(KEY.owner, "static", [sound])
        assert again.load_segments(KEY.owner, "static") == [sound]


@pytest.mark.parametrize("word", ["tABLE", "INTEGFR PRIMARY", "user_ie"])
def test_a_schema_that_says_something_else_is_refused(path, log, word):
    say_all(log, KEY, ["one", "two"])
    log.close()
    sound = {"tABLE": "TABLE", "INTEGFR PRIMARY": "INTEGER PRIMARY", "user_ie": "user_id"}[word]
    data = path.read_bytes()
    path.write_bytes(data.replace(sound.encode(), word.encode(), 1))
    with pytest.raises(LogError, match="damaged"):
        SQLiteLog(path)


def edit_page(path, name, change):
    """Change the first page of a table or an index, as bytes."""
    with plain(path) as db:
        query = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master"
        page, size = db.execute(f"{query} WHERE name = ?", (name,)).fetchone()
    data = bytearray(path.read_bytes())
    at = slice((page - 1) * size, page * size)
    data[at] = change(data[at])
    path.write_bytes(data)


@pytest.mark.parametrize("table", ["owners", "threads"])
@pytest.mark.parametrize("name", ["{}", "sqlite_autoindex_{}_1"], ids=["table", "index"])
def test_a_page_of_names_that_cannot_be_read_hides_nothing(path, log, table, name):
    say_all(log, KEY, ["one", "two"])
    log.close()
    edit_page(path, name.format(table), lambda page: bytes([page[0] ^ 8]) + page[1:])
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(KEY)) == ["one", "two"]
        assert list_texts(again.changes(KEY.owner).entries) == ["one", "two"]
        assert [line.text for line in again.line_changes(KEY.owner).lines] == ["one", "two"]
        assert not again.verify().ok


NO_NAMES = ["''", "x'7431'", "CAST(x'74ff' AS TEXT)"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_threads_name_that_cannot_be_read_takes_no_other_thread_down(path, log, name):
    beside = ThreadKey(KEY.user_id, "t2")
    for key in (KEY, beside):
        say(log, key, f"in {key.thread_id}")
    log.add_states(KEY.user_id, "note", {"t1": 1, "t2": 2})
    damage(path, f"UPDATE threads SET thread_id = {name} WHERE thread_id = 't1'")
    assert [info.key for info in log.threads(KEY.user_id)] == [beside]
    assert list_texts(log.changes(KEY.owner).entries) == ["in t2"]
    assert list_damages(log.changes(KEY.owner).entries)
    assert [line.text for line in log.line_changes(KEY.owner).lines] == ["in t2"]
    assert log.owners() == [KEY.owner]
    assert list(log.list_states(KEY.user_id, "note")) == ["t2"]
    assert not log.verify().ok


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize("column", ["user_id", "lone_thread"])
def test_an_owners_name_that_cannot_be_read_takes_no_other_owner_down(path, log, name, column):
    mine, other = ThreadKey(None, "lone") if column == "lone_thread" else KEY, ThreadKey("b", "t1")
    for key in (mine, other):
        say(log, key, f"of {key.user_id}")
    damage(path, f"UPDATE owners SET {column} = {name} WHERE owner = 1")
    assert log.owners() == [other.owner]
    assert list_texts(log.entries(other)) == ["of b"]
    assert not log.verify().ok


@pytest.mark.parametrize("value", ["'x'", "x''", "1.5"])
def test_a_generation_that_is_no_number_is_a_new_one(path, log, value):
    say(log, KEY, "Hi")
    before = log.changes(KEY.owner).generation
    damage(path, f"UPDATE owners SET generation = {value}")
    assert list_texts(log.changes(KEY.owner).entries) == ["Hi"]
    assert log.changes(KEY.owner, 1).generation == before
    assert not log.verify().ok


def test_a_file_without_its_row_of_numbers_is_refused(path, log):
    say(log, KEY, "Hi")
    damage(path, "DELETE FROM meta")
    with pytest.raises(LogError, match="damaged"):
        say(log, KEY, "more")
    log.close()
    with pytest.raises(LogError, match="damaged"):
        SQLiteLog(path)


def test_an_embedders_name_that_is_no_text_is_passed_over(path, log):
    entry = say(log, KEY, "a park")
    sound = StoredSegment(entry.position, 0, 0, "park", b"\x00\x3c")
    log.save_segments(KEY.owner, "static", [sound])
    damage(path, "UPDATE fingerprints SET name = x'ff'")
    assert log.segment_fingerprints(KEY.owner) == []
    assert log.load_segments(KEY.owner, "static") == []
