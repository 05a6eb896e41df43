"""What somebody else changed in the tables of a `PostgresLog` is named, and takes nothing down."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import HumanMessage
from older_postgres import insert_as_older_releases, make_older_schema
from postgres_server import new_schema, running_server

from langchain_convmem.errors import ConfigError, CorruptEntryError
from langchain_convmem.logs import postgres
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.logs.signatures import START, Signer
from langchain_convmem.logs.verification import Finding, verify_log
from langchain_convmem.records import StoredSegment
from langchain_convmem.testing.log_contract import (
    ANA,
    ANAS_OTHER,
    BO,
    list_texts,
    say,
    say_all,
)

pytestmark = pytest.mark.postgres
KEY = "a secret of the operator"
CHANGED = "it does not match its checksum"
BYTES_AS_TEXT = "CREATE CAST (bytea AS text) WITHOUT FUNCTION"


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


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("payload = replace(payload, 'two', 'six')", CHANGED),
        ("payload = payload || ' '", CHANGED),
        ("role = 'assistant'", CHANGED),
        ("role = 'king'", "its columns cannot be read"),
        ("turn = gen_random_uuid()", CHANGED),
        ("turn_name = 'another'::bytea", CHANGED),
        ("turn_name = '\\xff'::bytea", "its columns cannot be read"),
        ('metadata = \'{"a":["seen"]}\'', "its metadata does not match its checksum"),
        ("signature = set_byte(signature, 3, 255 - get_byte(signature, 3))", CHANGED),
        ("signature = substr(signature, 2)", "its signature is damaged"),
    ],
)
def test_a_changed_row_is_damaged_and_no_other_is(log, change, statement, what):
    first, second, third = say_numbers(log)
    change(f"UPDATE {{s}}.entries SET {statement} WHERE position = %s", second.position)
    for entries in (log.entries(ANA), log.changes(ANA.owner).entries):
        assert (entries[0], entries[2]) == (first, third)
        damaged = entries[1]
        assert (damaged.id, damaged.position) == (second.id, second.position)
        assert (damaged.role, damaged.message, damaged.contents) == ("control", None, ())
        assert (damaged.control.retracts, damaged.damage) == ((), what)
    lines = log.line_changes(ANA.owner)
    assert [line.text for line in lines.lines] == ["one", "three"]
    assert [entry.damage for entry in lines.controls] == [what]
    with pytest.raises(CorruptEntryError, match=what) as caught:
        log.annotate(ANA, second.id, attributes=["seen"])
    assert "two" not in str(caught.value)
    report = verify_log(log)
    assert report.damaged == (Finding("ana", "t1", 2, second.id, what),)
    assert report.problems == (f"position 2 of thread 't1' of user 'ana': {what}",)
    say(log, ANA, "four")
    assert log.forget(ANA, [second.id]).entries == 1
    rest = verify_log(log)
    assert (list_texts(log.entries(ANA))[0], rest.entries - len(rest.damaged)) == ("one", 3)


def test_an_id_that_was_changed_is_damaged_under_its_new_name(log, change):
    first, second, third = say_numbers(log)
    change("UPDATE {s}.entries SET id = gen_random_uuid() WHERE position = 2")
    entries = log.entries(ANA)
    assert [entries[0], entries[2]] == [first, third]
    assert (entries[1].damage, entries[1].id != second.id) == (CHANGED, True)
    assert log.forget(ANA, [entries[1].id]).entries == 1
    assert log.entries(ANA) == [first, third]


def test_text_that_is_no_unicode_is_damaged_and_quoted_nowhere(log, change):
    first, second, third = say_numbers(log)
    change(BYTES_AS_TEXT)
    try:
        change(
            "UPDATE {s}.entries SET payload = (payload::bytea || '\\xff'::bytea)::text "
            "WHERE position = 2"
        )
    finally:
        change("DROP CAST (bytea AS text)")
    entries = log.entries(ANA)
    assert [entries[0], entries[2]] == [first, third]
    assert entries[1].damage == "its columns cannot be read"
    assert "two" not in repr(entries[1])
    assert log.forget(ANA, [second.id]).entries == 1
    assert log.entries(ANA) == [first, third]


def test_a_damaged_message_that_is_sent_again_is_stored_again(log, change):
    say_numbers(log)
    change("UPDATE {s}.entries SET payload = replace(payload, 'two', 'six') WHERE position = 2")
    again = say(log, ANA, HumanMessage("two", id="two"))
    assert (again.position, log.entries(ANA)[-1]) == (4, again)


@pytest.mark.parametrize("lost", [1, 2])
def test_missing_rows_are_a_gap_that_can_be_forgotten(log, change, lost):
    entries = say_numbers(log)
    rest = [entry for entry in entries if entry.position != lost]
    change("DELETE FROM {s}.entries WHERE position = %s", lost)
    read = log.entries(ANA)
    gaps = [entry for entry in read if entry.damage]
    assert [entry for entry in read if not entry.damage] == rest
    if lost == 1:
        # Nothing has room before the second position but the first one.
        assert [(gap.id, gap.position) for gap in gaps] == [("missing-1", 1)]
    else:
        assert [(gap.id, gap.position) for gap in gaps] == [("missing-2", 2)]
    assert gaps[0].damage == "entries are missing here"
    assert verify_log(log).damaged == (
        Finding("ana", "t1", lost, f"missing-{lost}", "entries are missing here"),
    )
    assert log.forget(ANA, [gaps[0].id]).entries == 0
    assert log.entries(ANA) == rest
    assert verify_log(log).ok


def test_a_lost_tail_shows_against_heads_kept_elsewhere(log, change):
    say_numbers(log)
    heads = log.heads()
    change("DELETE FROM {s}.entries WHERE position >= 2")
    assert verify_log(log).ok
    [problem] = verify_log(log, against=heads).problems
    what = "the thread ends before its head that was kept, at position 1"
    assert problem == f"position 3 of thread 't1' of user 'ana': {what}"


@pytest.mark.parametrize(
    "statement", ["DELETE FROM {s}.tombstones", "UPDATE {s}.tombstones SET checksum = 'x'"]
)
def test_a_tombstone_that_is_gone_is_a_gap_too(log, change, statement):
    first, second, third = say_numbers(log)
    log.forget(ANA, [second.id])
    change(statement)
    assert [entry.id for entry in log.entries(ANA)] == [first.id, "missing-2", third.id]
    log.forget(ANA, ["missing-2"])
    assert log.entries(ANA) == [first, third]


def test_a_row_that_was_moved_is_damaged_there_and_missing_here(log, change):
    first, second, third = say_numbers(log)
    others = say(log, ANAS_OTHER, "other")
    change(
        "UPDATE {s}.entries SET thread = (SELECT thread FROM {s}.entries WHERE position = 4) "
        "WHERE position = 2"
    )
    assert [entry.id for entry in log.entries(ANA)] == [first.id, "missing-2", third.id]
    moved, other = log.entries(ANAS_OTHER)
    assert (moved.id, moved.damage, other) == (second.id, CHANGED, others)
    assert [entry.damage for entry in log.changes(ANA.owner).entries] == ["", CHANGED, "", ""]


def test_rows_that_changed_places_are_both_damaged(log, change):
    first, second, third = say_numbers(log)
    change("UPDATE {s}.entries SET position = 9 WHERE position = 2")
    change("UPDATE {s}.entries SET position = 2 WHERE position = 3")
    change("UPDATE {s}.entries SET position = 3 WHERE position = 9")
    found = [(entry.id, entry.damage) for entry in log.entries(ANA)]
    assert found == [(first.id, ""), (third.id, CHANGED), (second.id, CHANGED)]


def test_other_threads_and_users_notice_nothing(log, change):
    say_numbers(log)
    others = [say(log, key, "untouched") for key in (ANAS_OTHER, BO)]
    change("UPDATE {s}.entries SET payload = 'x' WHERE position = 2")
    assert [log.entries(key) for key in (ANAS_OTHER, BO)] == [[entry] for entry in others]


# -- what stands beside entries -------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement", ["value = '[2]'", "version = version + 1", "value = 'secret'", "checksum = 'x'"]
)
def test_a_damaged_document_is_an_error_and_a_damaged_cache_is_none(log, change, statement):
    for name in ("note", "cache:note"):
        log.set_state(ANA, name, [1], expected=None)
    change(f"UPDATE {{s}}.documents SET {statement}")
    with pytest.raises(CorruptEntryError, match="'note' of thread 't1' is damaged") as caught:
        log.get_state(ANA, "note")
    assert "secret" not in str(caught.value)
    assert log.get_state(ANA, "cache:note") is None
    assert log.set_state(ANA, "note", [3], expected=None) is None
    written = log.set_state(ANA, "cache:note", [3], expected=None)
    assert log.get_state(ANA, "cache:note") == written
    assert log.set_state(ANA, "cache:note", [4], expected=None) is None
    log.delete_state(ANA, "note")
    assert log.get_state(ANA, "note") is None


def test_the_checks_of_derived_rows_come_back_and_go_with_what_they_are_of(log):
    [first, *_] = say_numbers(log)
    row = StoredSegment(first.position, 0, 0, "words", b"\0<", 1, 2**32 - 1, 7)
    log.save_segments(ANA.owner, "model", [row])
    assert log.load_segments(ANA.owner, "model") == [row]
    pending = replace(row, terms="other", terms_check=5, vector=None, vector_check=None)
    log.save_segments(ANA.owner, "model", [pending])
    assert log.load_segments(ANA.owner, "model") == [replace(row, terms="other", terms_check=5)]


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


def test_a_key_comes_with_the_first_entry_or_not_at_all(server, schema, log):
    log.setup()
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY) as keyed:
        keyed.setup()
    with PostgresLog(server.dsn, schema=schema) as other, pytest.raises(ConfigError, match="key"):
        other.setup()
    bare = new_schema()
    with PostgresLog(server.dsn, schema=bare) as other:
        say(other, ANA, "one")
    with (
        PostgresLog(server.dsn, schema=bare, signing_key=KEY) as keyed,
        pytest.raises(ConfigError, match="is not signed with a key; copy it"),
    ):
        keyed.entries(ANA)


def test_who_does_not_know_the_key_cannot_sign(server, schema, change):
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY) as log:
        say(log, ANA, "one")
        [columns] = change(f"SELECT {postgres._COLUMNS} FROM {{s}}.entries e")
        row = postgres._read_row(columns)
        row.body = row.body.replace("one", "two")
        change(
            "UPDATE {s}.entries SET payload = %s, signature = %s",
            row.body,
            Signer().sign(ANA, row, START),
        )
        [entry] = log.entries(ANA)
        assert entry.damage == CHANGED
        change("UPDATE {s}.entries SET signature = ''")
        [entry] = log.entries(ANA)
        assert entry.damage == "it is not signed with the log's key"


def test_a_deletion_cannot_pass_as_a_forgetting_without_the_key(server, schema, change):
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY) as log:
        first, second, third = say_numbers(log)
        heads = log.heads()
        for one in (second, third):
            query = "DELETE FROM {s}.entries WHERE position = %s RETURNING thread, signature"
            [(thread, signature)] = change(query, one.position)
            stone = Signer().bury(ANA, one.position, signature)
            change("INSERT INTO {s}.tombstones VALUES (%s, %s, %s, %s, %s)", thread, *stone)
            expected = [first.id, "missing-2", third.id] if one is second else [first.id]
            assert [entry.id for entry in log.entries(ANA)] == expected
        assert log.tombstones(ANA) == []
        assert not verify_log(log, against=heads).ok
        last = say(log, ANA, "four")
        assert [entry.id for entry in log.entries(ANA)] == [first.id, "missing-3", last.id]
        log.forget(ANA, ["missing-3"])
        assert log.entries(ANA) == [first, last]
        assert [stone.position for stone in log.tombstones(ANA)] == [3]


def test_entries_that_are_forgotten_together_leave_marked_tombstones(server, schema):
    with PostgresLog(server.dsn, schema=schema, signing_key=KEY) as log:
        first, second, third = say_numbers(log)
        assert log.forget(ANA, [first.id, second.id]).entries == 2
        stones = log.tombstones(ANA)
        assert [stone.position for stone in stones] == [1, 2]
        assert [stone.checksum.hex() for stone in stones] == [first.checksum, second.checksum]
        assert log.entries(ANA) == [third]


# -- older releases -------------------------------------------------------------------------------


def test_entries_of_an_older_release_are_read_and_count_as_unsigned(server, schema):
    make_older_schema(server, schema, version=2)
    with PostgresLog(server.dsn, schema=schema) as log:
        [old] = log.entries(ANA)
        assert (list_texts([old]), old.checksum, old.damage) == (["old"], "", "")
        assert log.heads() == []
        assert log.annotate(ANA, old.id, attributes=["seen"]).metadata.attributes == ("seen",)
        assert log.get_state(ANA, "note").value == [1]
        new = say(log, ANA, "new")
        assert [head.checksum for head in log.heads()] == [new.checksum]
        report = verify_log(log)
        assert (report.entries, report.unsigned, report.problems) == (2, 1, ())
        log.forget(ANA, [old.id])
        assert log.tombstones(ANA) == []
        assert verify_log(log).problems == ()


def test_a_process_of_an_older_release_stops(server, schema):
    import psycopg

    make_older_schema(server, schema, version=2)
    with PostgresLog(server.dsn, schema=schema) as log:
        log.setup()
    with pytest.raises(psycopg.errors.UndefinedColumn):
        insert_as_older_releases(server, schema, 2, "{}")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        server.execute(f"SELECT e.position, e.body FROM {schema}.entries e")
    insert = f"INSERT INTO {schema}.entries(owner, thread, position, id, role, payload) "
    with pytest.raises(psycopg.errors.NotNullViolation, match="signature"):
        server.execute(f"{insert} VALUES (1, 1, 2, gen_random_uuid(), 'user', '')")


def test_repair_takes_out_what_is_damaged_and_says_so(log, change, server, schema, capsys):
    from langchain_convmem.cli import main

    first, second, third = say_numbers(log)
    change("UPDATE {s}.entries SET payload = replace(payload, 'two', 'six') WHERE position = 2")
    address = f"postgresql://postgres@/postgres?host={server.directory}&schema={schema}"
    assert main(["repair", "--db", address]) == 1
    assert "lost: position 2 of thread 't1' of user 'ana'" in capsys.readouterr().out
    assert main(["repair", "--db", address, "--remove"]) == 0
    shown = capsys.readouterr().out
    assert "removed: position 2 of thread 't1' of user 'ana'" in shown
    assert CHANGED in shown
    assert log.entries(ANA) == [first, third]
    assert verify_log(log).ok
    assert second.id not in [entry.id for entry in log.entries(ANA)]
