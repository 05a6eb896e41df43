"""The log contract: ranges, thread lists, the feed of changes, and additions to metadata."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import InvalidMessageError, LogError
from langchain_convmem.ids import new_ulid, ulid_ms
from langchain_convmem.protocols import LineSource
from langchain_convmem.records import Changes, Draft, Entry, LineChanges, Metadata, Owner, ThreadKey
from langchain_convmem.testing.log_contract_base import (
    ANA,
    LONE,
    ContractLog,
    ContractPart,
    retract,
    say,
    say_all,
    texts,
)
from langchain_convmem.testing.log_samples import SAMPLE_MESSAGES, identical
from langchain_convmem.views.codec import draft_of
from langchain_convmem.views.lines import dialog_lines

__all__ = ["ReadingPart", "all_changes"]

ANAS_OTHER = ThreadKey("ana", "t2")
BO = ThreadKey("bo", "t1")


def all_changes(log: ContractLog, owner: Owner, *, limit: int) -> list[Entry]:
    """Return everything behind the cursor 0, a page at a time."""
    found: list[Entry] = []
    cursor = 0
    while (page := log.changes(owner, cursor, limit=limit)).entries:
        assert len(page.entries) <= limit
        assert page.cursor > cursor
        found.extend(page.entries)
        cursor = page.cursor
    assert page.cursor == cursor
    return found


class ReadingPart(ContractPart):
    """Reading and annotating."""

    def test_ranges_are_the_latest_in_order(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(9)])
        say(log, ANAS_OTHER, "elsewhere")
        middle = entries[4].position
        assert log.entries(ANA, last=3) == entries[-3:]
        assert log.entries(ANA, last=9) == log.entries(ANA, last=99) == entries
        assert log.entries(ANA, last=0) == []
        assert log.entries(ANA, after=middle) == entries[5:]
        assert log.entries(ANA, after=middle - 1) == entries[4:]
        assert log.entries(ANA, after=middle, last=2) == entries[-2:]
        assert log.entries(ANA, after=middle, last=9) == entries[5:]
        assert log.entries(ANA, after=entries[-1].position) == []

    # -- threads --------------------------------------------------------------------------------

    def test_threads_are_listed_latest_first(self, log: ContractLog) -> None:
        first = say(log, ANA, "one")
        say(log, ANAS_OTHER, "two")
        assert [info.key for info in log.threads("ana")] == [ANAS_OTHER, ANA]
        retract(log, ANA, first.id)
        [latest, _] = log.threads("ana")
        assert (latest.key, latest.entries) == (ANA, 2)
        ids = [entry.id for entry in log.entries(ANA)]
        assert latest.first_ms == ulid_ms(min(ids))
        assert latest.last_ms == ulid_ms(max(ids))

    def test_threads_of_others_are_not_listed(self, log: ContractLog) -> None:
        for key in (ANA, BO, LONE, ThreadKey(None, "ana"), ThreadKey("ANA", "t1")):
            say(log, key, "Hi")
        assert [info.key for info in log.threads("ana")] == [ANA]
        assert {info.key for info in log.threads(None)} == {LONE, ThreadKey(None, "ana")}
        assert log.threads("nobody") == []
        assert log.threads("t1") == []

    # -- changes --------------------------------------------------------------------------------

    def test_changes_come_in_the_order_of_commits_over_threads(self, log: ContractLog) -> None:
        for number in range(12):
            for key in (ANA, BO, ANAS_OTHER, LONE):
                say_all(log, key, [f"{key.thread_id} {number}", "same"])
        expected = [
            text
            for number in range(12)
            for thread in ("t1", "t2")
            for text in (f"{thread} {number}", "same")
        ]
        changes = log.changes(ANA.owner)
        assert texts(changes.entries) == expected
        assert {entry.key for entry in changes.entries} == {ANA, ANAS_OTHER}
        for limit in (1, 3, 48, 100):
            assert all_changes(log, ANA.owner, limit=limit) == list(changes.entries)
        by_thread = sorted(changes.entries, key=lambda entry: (entry.key.thread_id, entry.position))
        assert by_thread == log.entries(ANA) + log.entries(ANAS_OTHER)

    def test_changes_behind_a_cursor_are_only_what_came_later(self, log: ContractLog) -> None:
        say_all(log, ANA, ["one", "two"])
        seen = log.changes(ANA.owner)
        assert log.changes(ANA.owner, seen.cursor) == Changes((), seen.cursor, seen.generation)
        assert log.changes(ANA.owner, seen.cursor, limit=0).cursor == seen.cursor
        say(log, BO, "not hers")
        entry = say(log, ANAS_OTHER, "three")
        mark = retract(log, ANA, entry.id)
        later = log.changes(ANA.owner, seen.cursor)
        assert later.entries == (entry, mark)
        assert later.cursor > seen.cursor
        assert log.changes(Owner(user_id="nobody")).entries == ()

    def test_lines_are_those_of_the_changes(self, log: ContractLog) -> None:
        if not isinstance(log, LineSource):
            pytest.skip("declared: makes entries of all that it reads")
        messages = [make() for make in SAMPLE_MESSAGES.values()]
        entries = log.append(ANA, [draft_of(message) for message in messages])
        log.annotate(ANA, entries[0].id, timing={"creation": 7})
        say(log, ANAS_OTHER, "elsewhere")
        say(log, BO, "not hers")
        retract(log, ANA, entries[1].id)
        for limit in (1, 7, None):
            cursor = 0
            while (page := log.changes(ANA.owner, cursor, limit=limit)).entries:
                lines = [line for entry in page.entries for line in dialog_lines(entry)]
                controls = tuple(entry for entry in page.entries if entry.control is not None)
                found = log.line_changes(ANA.owner, cursor, limit=limit)
                assert repr(found.lines) == repr(tuple(lines))
                assert (found.controls, found.cursor) == (controls, page.cursor)
                assert found.generation == page.generation
                cursor = page.cursor
                assert not (found.is_last and log.changes(ANA.owner, cursor).entries)
            end = log.line_changes(ANA.owner, cursor, limit=limit)
            assert end == LineChanges((), (), cursor, page.generation)

    def test_a_lone_thread_shares_nothing_with_a_user(self, log: ContractLog) -> None:
        say(log, LONE, "alone")
        say(log, ThreadKey("t1", "t1"), "a user of that name")
        assert texts(log.changes(LONE.owner).entries) == ["alone"]
        assert texts(log.changes(Owner(user_id="t1")).entries) == ["a user of that name"]

    def test_the_generation_stays_while_nothing_is_forgotten(self, log: ContractLog) -> None:
        entry = say(log, ANA, "one")
        generation = log.changes(ANA.owner).generation
        say(log, ANAS_OTHER, "two")
        log.annotate(ANA, entry.id, attributes=["seen"])
        log.set_state(ANA, "buffer", 1, expected=None)
        log.delete_state(ANA, "buffer")
        retract(log, ANA, entry.id, reason="cleared")
        assert log.changes(ANA.owner).generation == generation

    # -- annotate -------------------------------------------------------------------------------

    def test_annotations_add_to_what_is_there(self, log: ContractLog) -> None:
        message = AIMessage("Hi", id="m1", additional_kwargs={"n": 1})
        metadata = Metadata(attributes=("hardcoded",), timing={"llmStart": 1}, aux={"a": 1, "b": 2})
        draft = Draft(role="assistant", message=message, contents=("Hi",), metadata=metadata)
        other, entry = log.append(ANA, [Draft(role="user", message=HumanMessage("x")), draft])
        log.annotate(ANA, entry.id, attributes=["seen", "seen"], timing={"playStart": 2})
        returned = log.annotate(
            ANA, entry.id, attributes=["late"], timing={"llmStart": 3}, aux={"b": (3,), "c": None}
        )
        [same, read] = log.entries(ANA)
        assert same == other
        assert returned == read == log.changes(ANA.owner).entries[1]
        assert read.metadata.attributes == ("hardcoded", "seen", "seen", "late")
        creation = entry.metadata.timing["creation"]
        assert read.metadata.timing == {"creation": creation, "llmStart": 3, "playStart": 2}
        assert identical(read.metadata.aux, {"a": 1, "b": (3,), "c": None})
        assert (read.message, read.contents, read.turn_id) == (message, ("Hi",), entry.turn_id)
        assert (read.id, read.position) == (entry.id, entry.position)

    def test_only_an_entry_of_the_thread_can_be_annotated(self, log: ContractLog) -> None:
        entry = say(log, ANA, HumanMessage("Hi", id="m1"))
        for key, entry_id in (
            (ANA, new_ulid()),
            (ANA, "m1"),
            (ANA, ""),
            (ANAS_OTHER, entry.id),
            (LONE, entry.id),
        ):
            with pytest.raises(LogError):
                log.annotate(key, entry_id, attributes=["seen"])
        with pytest.raises(InvalidMessageError, match="client"):
            log.annotate(ANA, entry.id, aux={"client": object()})
        assert log.entries(ANA) == [entry]
        assert log.entries(ANAS_OTHER) == []
