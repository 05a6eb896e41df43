"""What somebody else changed in the tables of a `PostgresLog` is named, and takes nothing down."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import HumanMessage
from postgres_server import new_schema, running_server

from langchain_convmem.errors import ConfigError, CorruptEntryError
from langchain_convmem.logs.checksums import Signer
from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.logs.sql_log import read_row
from langchain_convmem.logs.verify import Finding, verify_log
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
AT = "(place & 4294967295)"
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
        ("body = replace(body, 'two', 'six')", CHANGED),
        ("body = body || ' '", CHANGED),
        ("role = 'system'", CHANGED),
        ("role = 'nobody'", CHANGED),
        ("turn = uuid_send(gen_random_uuid())", CHANGED),
        ("turn = 'nanother'::bytea", CHANGED),
        ("turn = '\\x6eff'::bytea", CHANGED),
        ('metadata = \'{"a":["seen"]}\'', "its metadata does not match its checksum"),
        ("signature = set_byte(signature, 3, 255 - get_byte(signature, 3))", CHANGED),
        ("signature = substr(signature, 2)", CHANGED),
    ],
)
def test_a_changed_row_is_damaged_and_no_other_is(log, change, statement, what):
    first, second, third = say_numbers(log)
    change(f"UPDATE {{s}}.entries SET {statement} WHERE {AT} = %s", second.position)
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


def test_an_id_that_was_changed_is_damaged_under_a_name_that_forget_takes(log, change):
    first, _, third = say_numbers(log)
    change(
        "UPDATE {s}.entries SET id = uuid_send(gen_random_uuid()) WHERE (place & 4294967295) = 2"
    )
    entries = log.entries(ANA)
    assert [entries[0], entries[2]] == [first, third]
    assert (entries[1].damage, entries[1].id) == (CHANGED, "damaged-2")
    assert log.forget(ANA, [entries[1].id]).entries == 1
    assert log.entries(ANA) == [first, third]


def test_rows_that_are_gone_are_counted(log, change):
    say_numbers(log)
    say(log, BO, "one")
    change("DELETE FROM {s}.entries WHERE (place & 4294967295) = 2")
    report = log.verify()
    assert (report.missing, report.problems) == (1, ("user 'ana': 1 of 3 entries missing",))


def test_text_that_is_no_unicode_is_damaged_and_quoted_nowhere(log, change):
    first, second, third = say_numbers(log)
    change(BYTES_AS_TEXT)
    try:
        change(
            "UPDATE {s}.entries SET body = (body::bytea || '\\xff'::bytea)::text "
            "WHERE (place & 4294967295) = 2"
        )
    finally:
        change("DROP CAST (bytea AS text)")
    entries = log.entries(ANA)
    assert [entries[0], entries[2]] == [first, third]
    assert entries[1].damage == CHANGED
    assert "two" not in repr(entries[1])
    assert log.forget(ANA, [second.id]).entries == 1
    assert log.entries(ANA) == [first, third]


def test_a_damaged_message_that_is_sent_again_is_stored_again(log, change):
    say_numbers(log)
    change(
        "UPDATE {s}.entries SET body = replace(body, 'two', 'six') WHERE (place & 4294967295) = 2"
    )
    again = say(log, ANA, HumanMessage("two", id="two"))
    assert (again.position, log.entries(ANA)[-1]) == (4, again)


def test_a_row_that_was_moved_is_damaged_there(log, change):
    first, second, third = say_numbers(log)
    others = say(log, ANAS_OTHER, "other")
    change(
        f"UPDATE {{s}}.entries SET thread = (SELECT thread FROM {{s}}.entries WHERE {AT} = 4) "
        f"WHERE {AT} = 2"
    )
    assert log.entries(ANA) == [first, third]
    moved, other = log.entries(ANAS_OTHER)
    assert (moved.id, moved.damage, other) == (second.id, CHANGED, others)
    assert [entry.damage for entry in log.changes(ANA.owner).entries] == ["", CHANGED, "", ""]


def test_rows_that_changed_places_are_both_damaged(log, change):
    first, *_ = say_numbers(log)
    change("UPDATE {s}.entries SET place = place + 7 WHERE (place & 4294967295) = 2")
    change("UPDATE {s}.entries SET place = place - 1 WHERE (place & 4294967295) = 3")
    change("UPDATE {s}.entries SET place = place - 6 WHERE (place & 4294967295) = 9")
    found = [(entry.id, entry.damage) for entry in log.entries(ANA)]
    assert found == [(first.id, ""), ("damaged-2", CHANGED), ("damaged-3", CHANGED)]


def test_other_threads_and_users_notice_nothing(log, change):
    say_numbers(log)
    others = [say(log, key, "untouched") for key in (ANAS_OTHER, BO)]
    change("UPDATE {s}.entries SET body = 'x' WHERE (place & 4294967295) = 2")
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
    with pytest.raises(CorruptEntryError):
        log.set_state(ANA, "note", [3], expected=None)
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
        columns = "place, id, turn, role, body, metadata, signature"
        [columns] = change(f"SELECT {columns} FROM {{s}}.entries")
        row = read_row(columns)
        row.body = row.body.replace("one", "two")
        statement = "UPDATE {s}.entries SET body = %s, signature = %s"
        change(statement, row.body, Signer().sign(ANA, row))
        [entry] = log.entries(ANA)
        assert entry.damage == CHANGED
        change("UPDATE {s}.entries SET signature = ''")
        [entry] = log.entries(ANA)
        assert entry.damage == CHANGED
