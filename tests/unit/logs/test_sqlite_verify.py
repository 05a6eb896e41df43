"""`verify` finds nothing in a sound file and describes a damaged one; it never crashes."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import tracemalloc

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import ConvMemError, LogClosedError, LogError
from langchain_convmem.logs import SQLiteLog, sqlite_maintenance
from langchain_convmem.logs.sqlite_file import SCHEMA_VERSION
from langchain_convmem.records import Draft, StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import retract, say, say_all
from langchain_convmem.views.codec import make_draft

ANA = ThreadKey("ana", "t1")
LONE = ThreadKey(None, "t2")
SECRET = "correct horse battery staple"


def fill(log):
    """Write something of every kind: positions 1 to 5 are Ana's, 6 is of nobody."""
    first = say(log, ANA, HumanMessage(SECRET, id="m1"))
    say(log, ANA, AIMessage("Yes."))
    say(log, ANA, HumanMessage(f"{SECRET} again", id="m1"))
    retract(log, ANA, first.id)
    say(log, LONE, "alone")
    log.annotate(ANA, first.id, aux={"note": SECRET})
    log.set_state(ANA, "buffer", [SECRET], expected=None)
    log.save_segments(ANA.owner, "model", [StoredSegment(1, 0, 0, "horse", b"1234")])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def log(path):
    with SQLiteLog(path) as opened:
        fill(opened)
        yield opened


def damage(path, script):
    """Change the file behind the log's back, as no program should."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.executescript(script)


# -- sound files --------------------------------------------------------------------------------


def test_a_sound_log_has_no_problems_and_is_counted(path, log):
    report = log.verify()
    assert report.ok
    assert report.problems == ()
    assert (report.path, report.schema_version) == (str(path), SCHEMA_VERSION)
    assert (report.owners, report.threads, report.entries) == (2, 2, 6)
    assert (report.documents, report.segments, report.more) == (1, 1, 0)


def test_an_empty_log_is_sound(path):
    with SQLiteLog(path) as log:
        assert log.verify().ok
        assert log.verify().entries == 0


def test_progress_rises_to_the_number_of_rows(log):
    say_all(log, ANA, [f"line {number}" for number in range(1_200)])
    told = []
    report = log.verify(progress=lambda done, total: told.append((done, total)))
    rows = report.owners + report.threads + report.entries + report.documents + report.segments
    assert told[0] == (0, rows)
    assert told[-1] == (rows, rows)
    assert len(told) > 3
    assert told == sorted(told)


def test_what_others_write_meanwhile_neither_waits_nor_counts(path, log):
    with SQLiteLog(path) as other:
        report = log.verify(progress=lambda *_: say(other, ANA, "meanwhile"))
        assert len(other.entries(ANA)) > 5
    assert (report.entries, report.ok) == (6, True)


def test_nothing_is_changed(path, log):
    before = log.changes(ANA.owner)
    log.verify()
    assert log.changes(ANA.owner) == before


def test_memory_does_not_grow_with_the_log(log):
    def peak():
        tracemalloc.start()
        try:
            assert log.verify().ok
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    log.verify()
    small = peak()
    for _ in range(3):
        say_all(log, ANA, ["0123456789" * 100] * 300)
    assert peak() < small + 500_000


async def test_the_asynchronous_twin_does_not_hold_up_other_calls(log):
    threads = set()

    def note(*_):
        threads.add(threading.current_thread())

    report, [entry] = await asyncio.gather(
        log.averify(progress=note), log.aappend(ANA, [make_draft(HumanMessage("Hi"))])
    )
    assert report.ok
    assert entry.position == 7
    assert threading.main_thread() not in threads
    assert len(threads) == 1


def test_a_closed_log_is_not_verified(path):
    log = SQLiteLog(path)
    log.close()
    with pytest.raises(LogClosedError):
        log.verify()


# -- damaged rows -------------------------------------------------------------------------------

AT_1 = "position 1 of thread 't1' of user 'ana'"
CHANGED = "it does not match its checksum"
DAMAGES = {
    "a body": (
        "UPDATE entries SET body = replace(body, 'horse', 'house') WHERE seq = 1",
        [f"{AT_1}: {CHANGED}"],
    ),
    "a body that is no text": (
        "UPDATE entries SET body = CAST(x'fffe' AS TEXT) WHERE seq = 1",
        [f"{AT_1}: its text cannot be read"],
    ),
    "metadata": (
        "UPDATE entries SET metadata = '[1]' WHERE seq = 1",
        [f"{AT_1}: its metadata does not match its checksum"],
    ),
    "a key": (
        "UPDATE entries SET key_hash = key_hash + 1 WHERE seq = 1",
        [f"{AT_1}: its message would not be found by its id"],
    ),
    "no key": (
        "UPDATE entries SET key_hash = NULL WHERE seq = 1",
        [f"{AT_1}: its message would not be found by its id"],
    ),
    "an id": (
        "UPDATE entries SET id = x'00' WHERE seq = 6",
        ["position 6 of thread 't2': its id cannot be read"],
    ),
    "a role": (
        "UPDATE entries SET role = 17 WHERE seq = 1",
        [f"{AT_1}: its role cannot be read"],
    ),
    "a message as a control entry": (
        "UPDATE entries SET role = 5, key_hash = NULL WHERE seq = 1",
        [f"{AT_1}: {CHANGED}"],
    ),
    "a position": (
        "UPDATE entries SET seq = -3 WHERE seq = 6",
        [f"position -3 of thread 't2': {CHANGED}"],
    ),
    "no thread": (
        "DELETE FROM threads WHERE thread = 2",
        [
            "1 rows of entries belong to none of threads",
            "position 6 of no known thread: the name of its thread cannot be read",
        ],
    ),
    "no owner": (
        "DELETE FROM owners WHERE lone_thread = 't2'",
        [
            "1 rows of threads belong to none of owners",
            "position 6 of no known thread: the name of its thread cannot be read",
        ],
    ),
    "an owner of nobody": (
        "UPDATE owners SET user_id = '' WHERE user_id = 'ana'",
        [
            "1 owners have a name that cannot be",
            "1 threads of no user belong to another",
            *[f"position {number} of thread 't1': {CHANGED}" for number in range(1, 6)],
            "document 'buffer' of thread 't1' does not match its checksum",
        ],
    ),
    "a generation": (
        "UPDATE owners SET generation = 9 WHERE user_id = 'ana'",
        ["1 owners have a generation that cannot be"],
    ),
    "the numbers of the file": (
        "UPDATE meta SET forget_epoch = 'x'",
        ["the table meta does not hold one row of numbers"],
    ),
    "a document": (
        "UPDATE documents SET value = value || '['",
        ["document 'buffer' of thread 't1' of user 'ana' does not match its checksum"],
    ),
    "a document of nobody": (
        "UPDATE documents SET thread = 77",
        [
            "1 rows of documents belong to none of threads",
            "document 'buffer' belongs to no known thread",
        ],
    ),
    "a vector": (
        "UPDATE segments SET vector = 'x'",
        ["1 index rows cannot be read"],
    ),
    "an index row of no entry": (
        "UPDATE segments SET seq = 77",
        ["1 rows of segments belong to none of entries"],
    ),
    "an index row of no embedder": (
        "DELETE FROM fingerprints",
        ["1 rows of segments belong to none of fingerprints"],
    ),
    "a piece of a snapshot of no owner": (
        "INSERT INTO snapshots VALUES (99, 5, 0, x'00')",
        ["1 rows of snapshots belong to none of owners"],
    ),
    "a missing index": (
        "DROP INDEX entries_by_key",
        ["the table or index entries_by_key is missing"],
    ),
    "another index": (
        "DROP INDEX entries_control; CREATE INDEX entries_control ON entries(role)",
        ["the table or index entries_control is not as this release makes it"],
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_each_damage_is_a_problem_with_its_place(path, log, what):
    script, problems = DAMAGES[what]
    damage(path, script)
    report = log.verify()
    assert list(report.problems) == problems
    assert not report.ok
    assert "horse" not in repr(report)


def test_what_was_forgotten_is_no_problem(log):
    assert log.forget(ANA, ["m1"]).entries == 2
    assert log.verify().ok


def test_a_damage_of_many_rows_is_counted_but_not_kept(path, log, monkeypatch):
    monkeypatch.setattr(sqlite_maintenance, "MOST_KEPT", 4)
    damage(path, "UPDATE entries SET body = 'x'")
    report = log.verify()
    assert (len(report.problems), report.more) == (4, 2)


def test_an_entry_of_a_later_codec_is_a_problem(path, log):
    damage(path, "UPDATE entries SET body = replace(body, '\"v\":1', '\"v\":2') WHERE seq = 2")
    assert len(log.verify().problems) == 1


# -- damaged pages ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a sound file of a few dozen pages."""
    path = tmp_path_factory.mktemp("sound") / "log.db"
    with SQLiteLog(path) as log:
        fill(log)
        say_all(log, ANA, [f"line {number} " * 20 for number in range(200)])
        log.append(ANA, [Draft(role="summary", contents=("S",))])
    return path.read_bytes()


def judged(path):
    """Open, verify and read a damaged file; return what is said of it."""
    try:
        with SQLiteLog(path) as log:
            report = log.verify()
            for read in (
                lambda: log.entries(ANA),
                lambda: log.changes(LONE.owner),
                lambda: log.threads("ana"),
                lambda: log.get_state(ANA, "buffer"),
                log.owners,
            ):
                with contextlib.suppress(ConvMemError):
                    read()
            return report.problems
    except LogError as error:
        return (str(error),)


@pytest.mark.parametrize("share", range(4))
def test_a_flipped_byte_never_crashes_the_check(path, sound, share):
    offsets = [*range(share, 128, 8), *range(share * 601, len(sound), 4 * 601)]
    assert len(offsets) > 50
    for offset in offsets:
        path.write_bytes(sound[:offset] + bytes([sound[offset] ^ 0xFF]) + sound[offset + 1 :])
        assert not any("horse" in problem for problem in judged(path))
        for left in path.parent.iterdir():
            left.unlink()


def test_a_schema_that_is_no_text_is_our_error(path, sound):
    at = sound.index(b"(one = 1)")
    path.write_bytes(sound[:at] + b"\x91" + sound[at + 1 :])
    with pytest.raises(LogError, match=r"log\.db"):
        SQLiteLog(path)


def test_a_schema_that_is_damaged_while_it_is_open_is_our_error(path, sound):
    path.write_bytes(sound)
    at = sound.index(b"(one = 1)")
    with SQLiteLog(path) as log:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"\x91")
        with pytest.raises(LogError, match=r"log\.db"):
            log.verify()


def test_a_page_of_noise_is_found(path, sound):
    page = 8192
    found = 0
    for start in range(page, len(sound), page):
        path.write_bytes(sound[:start] + b"\xa5" * page + sound[start + page :])
        found += bool(judged(path))
        for left in path.parent.iterdir():
            left.unlink()
    assert found == len(sound) // page - 1


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_found(path, sound, share):
    path.write_bytes(sound[: int(len(sound) * share)])
    assert judged(path)
