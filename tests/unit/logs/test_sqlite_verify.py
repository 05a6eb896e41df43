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
from langchain_convmem.logs.sqlite_file import MIGRATIONS
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
        # Past the triggers that refuse older releases.
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        for name, _ in (found := triggers.fetchall()):
            db.execute(f"DROP TRIGGER {name}")
        db.executescript(script)
        for _, sql in found:
            db.execute(sql)


# -- sound files --------------------------------------------------------------------------------


def test_a_sound_log_has_no_problems_and_is_counted(path, log):
    report = log.verify()
    assert report.ok
    assert report.problems == ()
    assert (report.path, report.schema_version) == (str(path), len(MIGRATIONS))
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
AT_5 = "position 5 of thread 't1' of user 'ana'"
DAMAGES = {
    "a body that is no JSON": (
        "UPDATE entries SET body = 'no json ' || body WHERE seq = 1",
        [f"{AT_1}: its body cannot be read"],
    ),
    "a body that is no message": (
        "UPDATE entries SET body = replace(body, 'human', 'nobody') WHERE seq = 1",
        [f"{AT_1}: its body cannot be read"],
    ),
    "a message that is not what its type wants": (
        "UPDATE entries SET body = replace(body, '\"human\"', '\"tool\"') WHERE seq = 1",
        [f"{AT_1}: its body cannot be read"],
    ),
    "a body that is no text": (
        "UPDATE entries SET body = CAST(x'fffe' AS TEXT) WHERE seq = 1",
        [f"{AT_1}: its body cannot be read"],
    ),
    "metadata": (
        "UPDATE entries SET metadata = '[1]' WHERE seq = 1",
        [f"{AT_1}: its metadata cannot be read"],
    ),
    "a key": (
        "UPDATE entries SET key_hash = key_hash + 1 WHERE seq = 1",
        [f"{AT_1}: its message would not be found by its id"],
    ),
    "no key": (
        "UPDATE entries SET key_hash = NULL WHERE seq = 1",
        [f"{AT_1}: its message would not be found by its id"],
    ),
    "a message's id": (
        "UPDATE entries SET body = replace(body, 'm1', 'm2') WHERE seq = 1",
        [f"{AT_1}: its message would not be found by its id"],
    ),
    "an id": (
        "UPDATE entries SET id = x'00' WHERE seq = 6",
        ["position 6 of thread 't2': its id is damaged"],
    ),
    "two of an id": (
        "UPDATE entries SET id = (SELECT id FROM entries WHERE seq = 3) WHERE seq = 5",
        ["position 5 of thread 't1' of user 'ana': its id tells another position"],
    ),
    "two of an id, of before ids told positions": (
        """UPDATE meta SET unnumbered = 5;
        UPDATE entries SET id = (SELECT id FROM entries WHERE seq = 3) WHERE seq = 5""",
        [
            f"{AT_5}: it does not match its checksum",
            "positions 3 and 5 of thread 't1' share an id",
        ],
    ),
    "a turn": (
        "UPDATE entries SET turn = x'1234' WHERE seq = 1",
        [f"{AT_1}: its turn is damaged"],
    ),
    "a role": (
        "UPDATE entries SET role = 17 WHERE seq = 1",
        [f"{AT_1}: its role is unknown"],
    ),
    "a message as a control entry": (
        "UPDATE entries SET role = 5, key_hash = NULL WHERE seq = 1",
        [f"{AT_1}: its role and its body do not agree on whether it is a control entry"],
    ),
    "a control entry as a message": (
        "UPDATE entries SET role = 0 WHERE seq = 5",
        [
            f"{AT_5}: its message would not be found by its id",
            f"{AT_5}: its role and its body do not agree on whether it is a control entry",
        ],
    ),
    "a position": (
        "UPDATE entries SET seq = -3 WHERE seq = 6",
        ["position -3 of thread 't2': its position is not positive"],
    ),
    "no thread": (
        "DELETE FROM threads WHERE thread = 2",
        ["position 6 of no known thread: it belongs to no thread"],
    ),
    "no owner": (
        "DELETE FROM owners WHERE lone_thread = 't2'",
        ["thread 't2' has no owner"],
    ),
    "an owner of nobody": (
        "UPDATE owners SET user_id = '' WHERE user_id = 'ana'",
        [
            "lone thread '' is not just one of a user and a lone thread",
            "thread 't1' of no user belongs to the lone thread ''",
            *[
                f"position {number} of thread 't1': it does not match its checksum"
                for number in range(1, 6)
            ],
            "document 'buffer' of thread 't1': it does not match its checksum",
        ],
    ),
    "a generation": (
        "UPDATE owners SET generation = 9 WHERE user_id = 'ana'",
        ["user 'ana' is of generation 9, but the file's epoch is 0"],
    ),
    "the epoch": (
        "UPDATE meta SET forget_epoch = -1",
        [
            "the table meta does not hold one row of numbers",
            "user 'ana' is of generation 0, but the file's epoch is -1",
            "lone thread 't2' is of generation 0, but the file's epoch is -1",
        ],
    ),
    "a document": (
        "UPDATE documents SET value = value || '['",
        ["document 'buffer' of thread 't1' of user 'ana' cannot be read"],
    ),
    "a document of nobody": (
        "UPDATE documents SET thread = 77",
        ["document 'buffer' of no known thread belongs to no thread"],
    ),
    "a vector": (
        "UPDATE segments SET vector = x'123456'",
        [f"{AT_1}: the vector of an index row is damaged"],
    ),
    "an index row of no entry": (
        "UPDATE segments SET seq = 77",
        ["position 77 of no known thread: an index row belongs to no entry"],
    ),
    "an index row of no embedder": (
        "DELETE FROM fingerprints",
        [f"{AT_1}: an index row belongs to no embedder"],
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


def foreign_keys():
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        for script in MIGRATIONS:
            db.executescript(script)
        return [
            (table, key[3])
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for key in db.execute(f"PRAGMA foreign_key_list({table})")
        ]


@pytest.mark.parametrize(("table", "column"), foreign_keys())
def test_a_reference_to_what_is_not_there_is_a_problem(path, log, table, column):
    damage(
        path,
        "INSERT INTO tombstones VALUES (1, 99, zeroblob(12), zeroblob(12), zeroblob(8));"
        "INSERT INTO snapshots VALUES (1, 5, 0, x'00');"
        f"UPDATE {table} SET {column} = 99 WHERE {column} = 1",
    )
    assert not log.verify().ok


def test_a_control_entry_that_points_at_nothing_is_a_problem(log):
    retract(log, ANA, "01K48CX740QQDHF06TYR1EXYQC")
    assert log.verify().problems == (
        "position 7 of thread 't1' of user 'ana': it points at an entry that never was",
    )


def test_a_control_entry_may_point_at_what_was_forgotten(log):
    assert log.forget(ANA, ["m1"]).entries == 2
    assert log.verify().ok


def test_a_damage_of_many_rows_is_counted_but_not_kept(path, log, monkeypatch):
    monkeypatch.setattr(sqlite_maintenance, "_KEPT", 4)
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


# -- the write-ahead file -----------------------------------------------------------------------


HEADER, FRAME = 32, 24 + 8192


@pytest.fixture
def torn(tmp_path):
    """Return a function that copies a log of three commits with a changed write-ahead file."""

    def tear(change):
        source = tmp_path / "source.db"
        with SQLiteLog(source) as log:
            log._connections.fold_wal()
            for text in ("one", "two", "three"):
                say(log, ANA, text)
            wal = bytearray(source.with_name("source.db-wal").read_bytes())
            (tmp_path / "torn.db").write_bytes(source.read_bytes())
        (tmp_path / "torn.db-wal").write_bytes(change(wal))
        return SQLiteLog(tmp_path / "torn.db")

    return tear


def flip(wal, place):
    wal[place] ^= 1
    return wal


def test_a_whole_write_ahead_file_is_nothing_to_note(torn):
    with torn(bytes) as log:
        assert len(log.entries(ANA)) == 3
        assert (log.verify().problems, log.verify().notes) == ((), ())


@pytest.mark.parametrize("cut", [1, 100, FRAME - 24, FRAME - 1])
def test_a_write_ahead_file_that_is_cut_inside_a_commit_is_noted(torn, cut):
    with torn(lambda wal: wal[:-cut]) as log:
        report = log.verify()
        assert len(log.entries(ANA)) == 2
        assert report.ok
        [note] = report.notes
        assert "hold no whole commit" in note
        say(log, ANA, "next")  # over what was cut
        assert log.verify().notes == ()


def test_a_last_commit_that_is_damaged_is_noted(torn):
    with torn(lambda wal: flip(wal, len(wal) - 1000)) as log:
        assert len(log.entries(ANA)) == 2
        [note] = log.verify().notes
        assert "SQLite ignores" in note


@pytest.mark.parametrize("place", [HEADER + 8, HEADER + 12, HEADER + 20, HEADER + 24 + 5000])
def test_whole_commits_after_damage_are_a_problem(torn, place):
    with torn(lambda wal: flip(wal, place)) as log:
        assert log.entries(ANA) == []
        report = log.verify()
        [problem] = report.problems
        assert f"from byte {HEADER} on, where it is damaged" in problem
        assert "commits are or will be missing" in problem
        assert report.notes == ()


def test_a_damaged_beginning_of_the_write_ahead_file_is_a_problem(torn):
    with torn(lambda wal: flip(wal, 17)) as log:
        assert log.entries(ANA) == []
        [problem] = log.verify().problems
        assert "beginning is damaged" in problem


def test_a_file_cut_exactly_at_a_commit_cannot_be_told(torn):
    with torn(lambda wal: wal[:HEADER]) as log:
        assert log.entries(ANA) == []
        assert (log.verify().problems, log.verify().notes) == ((), ())


def test_frames_from_before_the_file_was_begun_anew_are_nothing_to_note(path, log):
    for number in range(20):
        say(log, ANA, f"line {number}")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
    say(log, ANA, "over the first frames")
    assert path.with_name("log.db-wal").stat().st_size > 10 * FRAME
    report = log.verify()
    assert (report.problems, report.notes) == ((), ())
