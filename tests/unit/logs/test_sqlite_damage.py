"""Entries that cannot be read: named, never skipped, and not in the way of getting rid of them."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from histories import KEY
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError, CorruptEntryError, LogError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.signatures import START, Signer
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
    """Change the file behind the log's back, past all that refuses older releases."""
    with plain(path) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        for name, _ in (found := triggers.fetchall()):
            db.execute(f"DROP TRIGGER {name}")
        db.executescript(script)
        for _, sql in found:
            db.execute(sql)


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
    "salt": "UPDATE entries SET signature = zeroblob(8) || substr(signature, 9) WHERE seq = 2",
    "signature": "UPDATE entries SET signature = NULL WHERE seq = 2",
    "owner": "UPDATE entries SET thread = 2 WHERE seq = 2",
    "swap": """UPDATE entries SET body = (SELECT body FROM entries WHERE seq = 3) WHERE seq = 2""",
}


@pytest.mark.parametrize("field", ALTERED)
def test_whatever_is_altered_of_an_entry_shows_and_comes_back_from_a_backup(path, log, field):
    for text in ("one", "pay 1000 euros", "three"):
        say(log, KEY, text)
    say(log, ThreadKey("ben", "t1"), "of another")
    log.backup(path.with_name("backup.db"))
    damage(path, ALTERED[field])
    everybodys = [
        text for key in (KEY, ThreadKey("ben", "t1")) for text in list_texts(log.entries(key))
    ]
    assert everybodys == ["one", "three", "of another"]
    assert list_damages(log.entries(KEY) + log.entries(ThreadKey("ben", "t1")))
    assert not log.verify().ok
    log.repair(path.with_name("backup.db"))
    assert list_texts(log.entries(KEY)) == ["one", "pay 1000 euros", "three"]
    assert list_texts(log.entries(ThreadKey("ben", "t1"))) == ["of another"]
    assert log.verify().problems == ()


def test_text_that_is_no_unicode_is_a_gap_and_is_never_quoted(path, log, caplog):
    for text in ("before", "secret", "after"):
        say(log, KEY, text)
    damage(path, "UPDATE entries SET body = CAST(x'7365637265742dff' AS TEXT) WHERE seq = 2")
    assert list_damages(log.entries(KEY)) == [(2, "its text cannot be read")]
    assert list_texts(log.entries(KEY)) == ["before", "after"]
    assert list_damages(log.changes(KEY.owner).entries) == [(2, "its text cannot be read")]
    assert "secret" not in f"{log.verify()} {caplog.text}"


def test_a_missing_middle_is_a_gap_that_can_be_forgotten(path, log):
    for text in ("one", "two", "three", "four"):
        say(log, KEY, text)
    damage(path, "DELETE FROM entries WHERE seq IN (2, 3)")
    one, gap, four = log.entries(KEY)
    assert (gap.id, gap.position, gap.damage) == ("missing-3", 3, "entries are missing here")
    assert [entry.position for entry in log.entries(KEY, after=3)] == [4]
    [finding] = log.verify().damaged
    assert (finding.key, finding.position, finding.entry_id) == (KEY, 3, "missing-3")
    log.forget(KEY, ["missing-3"])
    assert log.entries(KEY) == [one, four]
    assert log.verify().ok


@pytest.mark.parametrize(
    "script",
    [
        "DELETE FROM entries WHERE seq = 3",
        "DELETE FROM entries WHERE seq IN (2, 3)",
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


def test_the_first_entry_cannot_go_missing(path, log):
    say(log, KEY, "one")
    say(log, KEY, "two")
    say(log, ThreadKey("ben", "t1"), "of another")
    say(log, ThreadKey("ben", "t1"), "and its second")
    damage(path, "DELETE FROM entries WHERE seq IN (1, 3)")
    assert len(log.verify().problems) == 2
    assert next(iter(log.entries(ThreadKey("ben", "t1")))).id == "missing-3"


def test_what_was_forgotten_leaves_no_gap_and_nothing_to_guess_from(path, log):
    entries = [say(log, KEY, text) for text in ("one", "two", "three")]
    log.forget(KEY, [entries[1].id, entries[2].id])
    say(log, KEY, "four")
    assert [entry.damage for entry in log.entries(KEY)] == ["", ""]
    assert log.verify().ok
    with plain(path) as db:
        sizes = "length(previous), length(checksum), length(mark)"
        found = db.execute(f"SELECT position, {sizes} FROM tombstones")
        assert found.fetchall() == [(2, 10, 10, 8), (3, 10, 10, 8)]
    log.forget(KEY)
    with plain(path) as db:
        assert db.execute("SELECT count(*) FROM tombstones").fetchone() == (0,)


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


def test_a_lost_tail_shows_against_heads_and_against_a_backup(path, log):
    say(log, KEY, "one")
    say(log, KEY, "two")
    heads = log.heads()
    assert [(head.thread_id, head.position) for head in heads] == [("t1", 2)]
    assert heads[0].checksum == log.entries(KEY)[-1].checksum
    backup = path.with_name("backup.db")
    log.backup(backup)
    assert log.verify(against=heads).ok
    damage(path, "DELETE FROM entries WHERE seq = 2")
    assert log.verify().ok
    problem = "thread 't1' of user 'ana' ends early: the last position is missing"
    assert log.verify(against=heads).problems == (problem,)
    assert log.verify(against=backup).problems == (problem,)
    assert len(log.repair(backup).restored) == 1
    assert list_texts(log.entries(KEY)) == ["one", "two"]
    assert log.verify(against=heads).ok


def test_repair_brings_back_nothing_that_was_forgotten(path, log):
    entries = [say(log, KEY, text) for text in ("one", "two", "three")]
    log.backup(path.with_name("backup.db"))
    log.forget(KEY, [entries[1].id])
    damage(path, "UPDATE entries SET body = 'x' WHERE seq = 3")
    report = log.repair(path.with_name("backup.db"))
    assert [one.position for one in report.restored] == [3]
    assert list_texts(log.entries(KEY)) == ["one", "three"]


def test_repair_can_take_out_what_nothing_restores(path, log):
    for text in ("one", "two", "three"):
        say(log, KEY, text)
    damage(path, "UPDATE entries SET body = 'x' WHERE seq = 2")
    assert [one.position for one in log.repair().lost] == [2]
    report = log.repair(remove=True)
    assert ([one.position for one in report.removed], report.ok) == ([2], True)
    assert list_texts(log.entries(KEY)) == ["one", "three"]


def test_an_export_restores_what_its_checksum_proves(path, log):
    entries = [say(log, KEY, text) for text in ("one", "two")]
    damage(path, "UPDATE entries SET body = replace(body, 'two', 'six')")
    forged = replace(entries[1], message=HumanMessage("nine"), contents=("nine",))
    assert log.repair([forged]).restored == ()
    assert [one.position for one in log.repair(entries).restored] == [2]
    assert list_texts(log.entries(KEY)) == ["one", "two"]


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
            signature = Signer().sign(KEY, altered, START)
            query = "UPDATE entries SET body = ?, signature = ?"
            db.execute(query, (altered.body, signature))
        assert list_damages(log.entries(KEY)) == [(row.position, "it does not match its checksum")]


def forge_forgetting(path, position):
    """Delete an entry and put in its place a tombstone, with all that an editor knows."""
    with plain(path) as db:
        query = "SELECT thread, signature FROM entries WHERE seq = ?"
        thread, signature = db.execute(query, (position,)).fetchone()
        stone = Signer().bury(KEY, position, signature)
        db.execute("INSERT INTO tombstones VALUES (?, ?, ?, ?, ?)", (thread, *stone))
        db.execute("DELETE FROM entries WHERE seq = ?", (position,))


def test_a_deletion_cannot_pass_as_a_forgetting_without_the_key(path, tmp_path):
    with SQLiteLog(path, signing_key=SECRET) as log:
        entries = say_all(log, KEY, ["one", "two", "three"])
        log.backup(tmp_path / "backup.db")
        forge_forgetting(path, 2)
        gap = "missing-2"
        assert [entry.id for entry in log.entries(KEY)] == [entries[0].id, gap, entries[2].id]
        assert [entry.damage for entry in log.read_thread(KEY, "x", lambda _: [(0, None)])[1]] == [
            "",
            "entries are missing here",
            "",
        ]
        assert log.tombstones(KEY) == []
        assert [one.entry_id for one in log.verify().damaged] == [gap]
        log.repair(tmp_path / "backup.db")
        assert log.entries(KEY) == entries
        assert log.verify().ok


def test_a_deletion_at_the_end_that_passes_as_a_forgetting_shows_against_heads(path):
    with SQLiteLog(path, signing_key=SECRET) as log:
        entries = say_all(log, KEY, ["one", "two"])
        heads = log.heads()
        forge_forgetting(path, 2)
        assert not log.verify(against=heads).ok
        assert log.heads() == []
        later = say(log, KEY, "three")
        assert [entry.id for entry in log.entries(KEY)] == [entries[0].id, "missing-2", later.id]
        log.forget(KEY, ["missing-2"])
        assert log.entries(KEY) == [entries[0], later]
        assert log.verify().ok


@pytest.mark.parametrize("erase", ["forget", "repair"])
def test_what_closes_a_forged_forgetting_is_marked(path, erase):
    with SQLiteLog(path, signing_key=SECRET) as log:
        say_all(log, KEY, ["one", "two", "three"])
        forge_forgetting(path, 2)
        if erase == "forget":
            log.forget(KEY, ["missing-2"])
        else:
            assert [one.entry_id for one in log.repair(remove=True).removed] == ["missing-2"]
        assert list_texts(log.entries(KEY)) == ["one", "three"]
        assert [stone.position for stone in log.tombstones(KEY)] == [2]
        assert log.verify().ok


def test_a_first_key_marks_what_was_forgotten_before_it(path, log):
    entries = say_all(log, KEY, ["one", "two", "three", "four"])
    log.forget(KEY, [entries[1].id])
    with plain(path) as db:  # not even without a key is this one the log's
        query = "INSERT INTO tombstones VALUES (1, 9, zeroblob(12), zeroblob(12), zeroblob(8))"
        db.execute(query)
    [before] = log.tombstones(KEY)
    log.verify(sign=True, signing_key=SECRET)
    [after] = log.tombstones(KEY)
    assert (after.position, after.mark == before.mark) == (2, False)
    assert Signer(SECRET).is_genuine(KEY, after)
    assert list_texts(log.entries(KEY)) == ["one", "three", "four"]
    assert log.verify().ok


def test_an_unkeyed_file_is_keyed_by_signing_alone(path, log):
    say(log, KEY, "one")
    with pytest.raises(ConfigError, match="verify --sign"):
        SQLiteLog(path, signing_key=SECRET)
    assert log.verify(sign=True, signing_key=SECRET).ok
    say(log, KEY, "two")
    with pytest.raises(ConfigError, match="with a key"):
        SQLiteLog(path)
    with SQLiteLog(path, signing_key=SECRET) as again:
        assert list_texts(again.entries(KEY)) == ["one", "two"]


def test_an_older_release_that_has_the_file_open_is_told_to_upgrade(path, log):
    say(log, KEY, "one")
    for statement in (
        "INSERT INTO entries(seq, thread, id, role, body) VALUES (9, 1, x'00', 0, '')",
        "UPDATE entries SET metadata = '{}' WHERE seq = 1",
        "DELETE FROM entries WHERE seq = 1",
    ):
        with plain(path) as db, pytest.raises(sqlite3.IntegrityError, match="upgrade"):
            db.execute(statement)


def test_bodies_are_plain_json_that_others_can_read(path, log):
    say(log, KEY, HumanMessage("Grüße", name="Ana"))
    with plain(path) as db:
        [(body,)] = db.execute("SELECT body FROM entries").fetchall()
    assert json.loads(body)["m"] == {"content": "Grüße", "name": "Ana", "type": "human"}
    assert "Grüße" in body


def break_page(path):
    """Overwrite the first page of the entries; nobody has the file open."""
    with plain(path) as db:
        [(page,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'")
        [(size,)] = db.execute("PRAGMA page_size")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))
    return path.read_bytes()


def test_where_a_page_is_broken_a_new_file_takes_its_place_and_the_old_one_is_kept(path, log):
    say_all(log, KEY, [f"said {number}" for number in range(300)])
    before = log.entries(KEY)
    log.backup(path.with_name("backup.db"))
    log.close()
    broken = break_page(path)
    report = SQLiteLog.repair_file(path, path.with_name("backup.db"))
    assert report.ok
    assert Path(report.kept).read_bytes() == broken
    with SQLiteLog(path) as repaired:
        assert repaired.entries(KEY) == before


def test_what_no_page_and_no_backup_tells_is_listed_as_lost(path, log):
    say_all(log, KEY, [f"said {number}" for number in range(300)])
    log.backup(path.with_name("backup.db"))
    say_all(log, KEY, ["said since", "and this"])
    log.close()
    break_page(path)
    report = SQLiteLog.repair_file(path, path.with_name("backup.db"))
    assert len(report.restored) == 300
    assert [(one.position, one.entry_id, one.what) for one in report.lost] == [
        (301, "damaged-301", "its page cannot be read"),
        (302, "damaged-302", "its page cannot be read"),
    ]
    with SQLiteLog(path) as repaired:
        assert say(repaired, KEY, "next").position == 303
        assert repaired.verify().ok


def test_there_is_a_file_under_the_name_when_a_repair_dies(path, log, monkeypatch):
    say_all(log, KEY, [f"said {number}" for number in range(300)])
    log.backup(path.with_name("backup.db"))
    log.close()
    broken = break_page(path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            SQLiteLog.repair_file(path, path.with_name("backup.db"))
    assert path.read_bytes() == broken
    [kept] = path.parent.glob("*.damaged-*")
    assert kept.read_bytes() == broken
    assert SQLiteLog.repair_file(path, path.with_name("backup.db")).ok


def test_a_repair_that_dies_has_lost_nothing_of_the_write_ahead_file(path, log, monkeypatch):
    say_all(log, KEY, [f"said {number}" for number in range(300)])
    log.backup(path.with_name("backup.db"))
    with plain(path) as db:
        [(size,)] = db.execute("PRAGMA page_size")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    say(log, KEY, "said since")
    killed = path.with_name("killed.db")  # files as a process leaves them that could not close
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{killed}{ending}")
    with killed.open("r+b") as file:
        file.seek(killed.read_bytes().index(b"said 7") // size * size)
        file.write(bytes(size))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            SQLiteLog.repair_file(killed, path.with_name("backup.db"))
    assert SQLiteLog.repair_file(killed, path.with_name("backup.db")).ok
    with SQLiteLog(killed) as repaired:
        assert list_texts(repaired.entries(KEY)) == list_texts(log.entries(KEY))


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
        assert not again.verify().ok
        report = again.repair()
        assert (report.ok, report.segments) == (True, 1)
        assert again.load_segments(KEY.owner, "static") == []
        again.save_segments(KEY.owner, "static", [sound])
        assert again.load_segments(KEY.owner, "static") == [sound]


@pytest.mark.parametrize("word", ["tABLE", "INTEGFR PRIMARY", "user_ie"])
def test_a_schema_that_says_something_else_is_refused_and_repaired(path, log, word):
    say_all(log, KEY, ["one", "two"])
    log.backup(path.with_name("backup.db"))
    log.close()
    sound = {"tABLE": "TABLE", "INTEGFR PRIMARY": "INTEGER PRIMARY", "user_ie": "user_id"}[word]
    data = path.read_bytes()
    path.write_bytes(data.replace(sound.encode(), word.encode(), 1))
    with pytest.raises(LogError, match="damaged"):
        SQLiteLog(path)
    assert SQLiteLog.repair_file(path, path.with_name("backup.db")).ok
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(KEY)) == ["one", "two"]


@pytest.mark.parametrize("other", [2, 7], ids=["of an entry that has one", "of no entry"])
def test_an_index_row_of_another_place_does_not_stop_a_repair(path, log, other):
    entries = say_all(log, KEY, ["one", "two", "three"])
    rows = [StoredSegment(one.position, 0, 0, f"park{one.position}", None) for one in entries]
    log.save_segments(KEY.owner, "static", rows)
    log.close()
    data = path.read_bytes()
    assert data.count(b"\x03park3") == 1
    path.write_bytes(data.replace(b"\x03park3", bytes([other]) + b"park3"))
    with SQLiteLog(path) as again:
        assert not again.verify().ok
        assert again.repair().ok
        assert list_texts(again.entries(KEY)) == ["one", "two", "three"]
        stored = [row.terms for row in again.load_segments(KEY.owner, "static")]
        assert stored == ["park1", "park2"]


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
    log.backup(path.with_name("backup.db"))
    log.close()
    edit_page(path, name.format(table), lambda page: bytes([page[0] ^ 8]) + page[1:])
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(KEY)) == ["one", "two"]
        assert list_texts(again.changes(KEY.owner).entries) == ["one", "two"]
        assert [line.text for line in again.line_changes(KEY.owner).lines] == ["one", "two"]
        assert not again.verify().ok
    assert SQLiteLog.repair_file(path, path.with_name("backup.db")).ok
    with SQLiteLog(path) as again:
        assert list_texts(again.changes(KEY.owner).entries) == ["one", "two"]


@pytest.mark.parametrize("key", [KEY, ThreadKey(None, "lone")], ids=["user", "lone thread"])
@pytest.mark.parametrize("has_backup", [True, False])
@pytest.mark.parametrize("is_new_file", [True, False])
def test_an_owners_number_that_is_damaged_is_found_by_signatures(
    path, log, key, has_backup, is_new_file
):
    other = ThreadKey("another", "t1")
    say_all(log, key, ["one", "two"])
    say_all(log, other, ["three"])
    log.backup(path.with_name("backup.db"))
    log.close()
    damage(path, "UPDATE owners SET owner = 9 WHERE owner = 1")
    if is_new_file:
        edit_page(path, "documents", lambda page: bytes([page[0] ^ 8]) + page[1:])
    report = SQLiteLog.repair_file(path, path.with_name("backup.db") if has_backup else None)
    assert (report.ok, bool(report.kept)) == (True, is_new_file)
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(key)) == ["one", "two"]
        assert list_texts(again.changes(key.owner).entries) == ["one", "two"]
        assert list_texts(again.entries(other)) == ["three"]
        assert set(again.owners()) == {key.owner, other.owner}


@pytest.mark.parametrize("name", ["fingerprints", "sqlite_autoindex_fingerprints_1"])
def test_an_embedders_name_that_is_damaged_does_not_stop_a_repair(path, log, name):
    entries = say_all(log, KEY, ["one", "two"])
    rows = [StoredSegment(one.position, 0, 0, f"park{one.position}", None) for one in entries]
    log.save_segments(KEY.owner, "static", rows)
    log.close()
    edit_page(path, name, lambda page: page.replace(b"static", b"stadic"))
    with SQLiteLog(path) as again:
        again.save_segments(KEY.owner, "static", rows)  # nobody finds that there are any
        assert not again.verify().ok
        assert again.repair().ok
        again.save_segments(KEY.owner, "static", rows)  # where the table's name is another now
        assert list_texts(again.entries(KEY)) == ["one", "two"]
        stored = [row.terms for row in again.load_segments(KEY.owner, "static")]
        assert stored == ["park1", "park2"]


NO_NAMES = ["''", "x'7431'", "CAST(x'74ff' AS TEXT)"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_threads_name_that_cannot_be_read_takes_no_other_thread_down(path, log, name):
    beside = ThreadKey(KEY.user_id, "t2")
    for key in (KEY, beside):
        say(log, key, f"in {key.thread_id}")
    log.add_states(KEY.user_id, "note", {"t1": 1, "t2": 2})
    heads = log.heads()
    log.backup(path.with_name("backup.db"))
    damage(path, f"UPDATE threads SET thread_id = {name} WHERE thread_id = 't1'")
    assert [info.key for info in log.threads(KEY.user_id)] == [beside]
    assert list_texts(log.changes(KEY.owner).entries) == ["in t2"]
    assert list_damages(log.changes(KEY.owner).entries)
    assert [line.text for line in log.line_changes(KEY.owner).lines] == ["in t2"]
    assert log.heads() == [head for head in heads if head.thread_id == "t2"]
    assert log.owners() == [KEY.owner]
    assert list(log.list_states(KEY.user_id, "note")) == ["t2"]
    assert not log.verify(against=heads).ok
    assert log.repair(path.with_name("backup.db")).ok
    assert list_texts(log.changes(KEY.owner).entries) == ["in t1", "in t2"]
    assert log.verify(against=heads).ok


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize("column", ["user_id", "lone_thread"])
def test_an_owners_name_that_cannot_be_read_takes_no_other_owner_down(path, log, name, column):
    mine, other = ThreadKey(None, "lone") if column == "lone_thread" else KEY, ThreadKey("b", "t1")
    for key in (mine, other):
        say(log, key, f"of {key.user_id}")
    log.backup(path.with_name("backup.db"))
    damage(path, f"UPDATE owners SET {column} = {name} WHERE owner = 1")
    assert log.owners() == [other.owner]
    assert list_texts(log.entries(other)) == ["of b"]
    assert [head.user_id for head in log.heads()][-1:] == ["b"]
    assert not log.verify().ok
    assert log.repair(path.with_name("backup.db")).ok
    assert sorted(map(repr, log.owners())) == sorted(map(repr, (mine.owner, other.owner)))
    assert list_texts(log.entries(mine)) == [f"of {mine.user_id}"]


@pytest.mark.parametrize("value", ["'x'", "x''", "1.5"])
def test_a_generation_that_is_no_number_is_a_new_one(path, log, value):
    say(log, KEY, "Hi")
    before = log.changes(KEY.owner).generation
    damage(path, f"UPDATE owners SET generation = {value}")
    assert list_texts(log.changes(KEY.owner).entries) == ["Hi"]
    assert log.changes(KEY.owner, 1).generation == before
    assert not log.verify().ok
    assert log.repair().ok


def test_a_file_without_its_row_of_numbers_is_refused_and_repaired(path, log):
    say(log, KEY, "Hi")
    log.backup(path.with_name("backup.db"))
    damage(path, "DELETE FROM meta")
    with pytest.raises(LogError, match="damaged"):
        say(log, KEY, "more")
    log.close()
    with pytest.raises(LogError, match="damaged"):
        SQLiteLog(path)
    assert SQLiteLog.repair_file(path, path.with_name("backup.db")).ok
    with SQLiteLog(path) as again:
        assert list_texts(again.entries(KEY)) == ["Hi"]


def test_an_embedders_name_that_is_no_text_is_passed_over(path, log):
    entry = say(log, KEY, "a park")
    sound = StoredSegment(entry.position, 0, 0, "park", b"\x00\x3c")
    log.save_segments(KEY.owner, "static", [sound])
    damage(path, "UPDATE fingerprints SET name = x'ff'")
    assert log.segment_fingerprints(KEY.owner) == []
    assert log.load_segments(KEY.owner, "static") == []


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_belongs_to_no_name_is_removed_with_a_receipt(path, log, name):
    say(log, KEY, "lost")
    say(log, ThreadKey("b", "t1"), "kept")
    damage(path, f"UPDATE threads SET thread_id = {name} WHERE thread = 1")
    report = log.repair(remove=True)
    assert report.ok
    assert [(one.thread_id, one.position) for one in report.removed] == [(None, 1)]
    assert list_texts(log.entries(ThreadKey("b", "t1"))) == ["kept"]
