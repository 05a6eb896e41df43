"""Rows that were changed, moved or lost, in a log in memory: the same rules as on every server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError, CorruptEntryError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.base import Row, Signer, decode_document, make_gap_row, mark_breaks
from langchain_convmem.logs.signatures import START, check_key, close_gap, find_breaks
from langchain_convmem.logs.verification import Finding, aremove_damaged, remove_damaged, verify_log
from langchain_convmem.testing.log_contract import ANA, ANAS_OTHER, list_texts, say, say_all

MISSING = "entries are missing here"


@pytest.fixture
def log():
    return InMemoryLog()


@pytest.fixture
def rows(log):
    """The stored rows of a thread of five; what is done to them is done to the log."""
    say_all(log, ANA, ["one", "two", "three", "four", "five"])
    return log._threads[ANA].rows


def show(log):
    """Return what of a thread is read: texts, and of what is damaged its id."""
    return [entry.id if entry.damage else entry.contents[0] for entry in log.entries(ANA)]


@pytest.mark.parametrize(
    ("lost", "shown"),
    [
        ([0], ["missing-1", "two", "three", "four", "five"]),
        ([2], ["one", "two", "missing-3", "four", "five"]),
        ([1, 2], ["one", "missing-3", "four", "five"]),
        ([0, 2], ["missing-1", "two", "missing-3", "four", "five"]),
        ([4], ["one", "two", "three", "four"]),
    ],
)
def test_a_gap_stands_where_rows_are_missing(log, rows, lost, shown):
    heads = log.heads()
    rows[:] = [row for number, row in enumerate(rows) if number not in lost]
    assert show(log) == shown
    gaps = [Finding("ana", "t1", int(name[8:]), name, MISSING) for name in shown if "-" in name]
    assert verify_log(log).damaged == tuple(gaps)
    assert (not verify_log(log, against=heads).ok) == bool(gaps or lost == [4])
    log.forget(ANA, [gap.entry_id for gap in gaps])
    assert show(log) == [name for name in shown if "-" not in name]
    assert verify_log(log).ok


@pytest.mark.parametrize("remove", [remove_damaged, lambda log: asyncio.run(aremove_damaged(log))])
def test_what_is_damaged_or_missing_is_removed_with_a_receipt(log, rows, remove):
    heads = log.heads()
    say(log, ANAS_OTHER, "elsewhere")
    rows[2] = replace(rows[2], body=rows[2].body.replace("three", "thirteen"))
    altered, what = rows[2].id, "it does not match its checksum"
    del rows[0]
    assert remove(log) == (
        Finding("ana", "t1", 1, "missing-1", MISSING),
        Finding("ana", "t1", 3, altered, what),
    )
    assert show(log) == ["two", "four", "five"]
    assert verify_log(log, against=heads).ok
    assert list_texts(log.entries(ANAS_OTHER)) == ["elsewhere"]
    assert remove(log) == ()


def test_a_gap_within_a_range_shows_and_one_before_it_does_not(log, rows):
    del rows[1]
    assert [entry.id for entry in log.entries(ANA, until=3)] == [
        rows[0].id,
        "missing-2",
        rows[1].id,
    ]
    assert list_texts(log.entries(ANA, after=2)) == ["three", "four", "five"]
    assert [entry.damage for entry in log.entries(ANA, last=4)] == [MISSING, "", "", ""]


def test_a_row_of_another_thread_is_damaged(log, rows):
    say(log, ANAS_OTHER, "other")
    log._threads[ANAS_OTHER].rows.append(replace(rows[1], position=7))
    assert [entry.damage for entry in log.entries(ANAS_OTHER)] == [
        "",
        "it does not match its checksum",
    ]


def test_an_older_row_put_back_does_not_follow_the_one_before_it(log, rows):
    """Its own checksum fits: it was signed, by a log of that name, at that position."""
    other = InMemoryLog()
    say_all(other, ANA, ["uno", "dos"])
    rows[1] = replace(other._threads[ANA].rows[1])
    assert [entry.damage for entry in log.entries(ANA)][
        1
    ] == "it does not follow the entry before it"


def test_sending_a_damaged_message_again_stores_it_again(log):
    say(log, ANA, HumanMessage("one", id="m1"))
    [row] = log._threads[ANA].rows
    log._threads[ANA].rows[0] = replace(row, body=row.body.replace("one", "two"))
    again = say(log, ANA, HumanMessage("one", id="m1"))
    assert (again.position, log.entries(ANA)[-1]) == (2, again)


def test_what_signs_nothing_cannot_be_verified():
    with pytest.raises(ConfigError, match="signs nothing"):
        verify_log(object())


def test_a_tombstone_put_in_a_rows_place_without_the_key_is_a_gap():
    log = InMemoryLog()
    log._signer = Signer("a secret of the operator")
    say_all(log, ANA, ["one", "two", "three"])
    heads = log.heads()
    thread = log._threads[ANA]
    row = thread.rows.pop(1)
    thread.tombstones.append(Signer().bury(ANA, row.position, row.signature))
    assert show(log) == ["one", "missing-2", "three"]
    assert log.tombstones(ANA) == []
    last = thread.rows.pop()
    thread.tombstones.append(Signer().bury(ANA, last.position, last.signature))
    assert not verify_log(log, against=heads).ok
    say(log, ANA, "four")
    assert show(log) == ["one", "missing-3", "four"]
    log.forget(ANA, ["missing-3"])
    assert show(log) == ["one", "four"]
    assert [stone.position for stone in log.tombstones(ANA)] == [3]


# -- the pieces of the kit ------------------------------------------------------------------------


def make_rows(*positions):
    sign = Signer().chain(ANA)
    made = [Row(f"id{position}", position, "t", "user", "{}", None) for position in positions]
    return [replace(row, signature=sign(row)) for row in made]


def test_a_gap_takes_a_place_that_no_row_has():
    first, _, third = made = make_rows(1, 2, 4)
    assert mark_breaks([first, third], [4]) == [first, make_gap_row(3), third]
    assert mark_breaks(made, [2])[1].damage == "it does not follow the entry before it"
    assert mark_breaks(made[:1], [1])[0].damage == "it does not follow the entry before it"
    assert mark_breaks([first], [2]) == [first, make_gap_row(2)]


def test_what_closes_a_gap_follows_what_is_before_it():
    first, _, third = make_rows(1, 2, 4)
    signer = Signer()
    bridge = close_gap(signer, ANA, [first, third], [], 3)
    assert find_breaks([first, third], [bridge], after=START) == []
    assert close_gap(signer, ANA, [first, third], [], 2) is None
    assert close_gap(signer, ANA, make_rows(1, 2, 4), [], 3) is None
    whole = signer.make_tombstone(ANA, 3, START, bridge.checksum)
    assert close_gap(signer, ANA, [third], [], 3) == whole


@pytest.mark.parametrize(
    ("stored", "own", "what"),
    [
        (b"", b"k", "a place is not signed with a key; copy it into a new log"),
        (b"k", b"", "a place is signed with a key; open it with its signing_key"),
        (b"k", b"l", "a place is signed with another key"),
    ],
)
def test_a_key_that_differs_is_refused(stored, own, what):
    check_key(stored, stored, "a place")
    with pytest.raises(ConfigError, match=what):
        check_key(stored, own, "a place")


def test_a_document_is_read_as_it_was_written_or_not_at_all():
    signer = Signer()
    checksum = signer.sign_document(ANA, "note", 7, "[1]")
    assert decode_document(ANA, "note", (7, "[1]", checksum), signer).value == [1]
    assert decode_document(ANA, "note", (7, b"[1]", None), signer).version == 7
    for stored in (
        (8, "[1]", checksum),
        (7, "[2]", checksum),
        (7, b"\xff secret", checksum),
        (7, "secret", None),
    ):
        with pytest.raises(CorruptEntryError, match="'note' of thread 't1' is damaged") as caught:
            decode_document(ANA, "note", stored, signer)
        assert "secret" not in str(caught.value)
        assert decode_document(ANA, "cache:note", stored, signer) is None
    with pytest.raises(CorruptEntryError):
        decode_document(ANAS_OTHER, "note", (7, "[1]", checksum), signer)
    with pytest.raises(CorruptEntryError):
        decode_document(ANA, "note", (7, "[1]", None), Signer("a secret of the operator"))
