"""The log contract: what a turn reads and writes in one transaction, and rows that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.protocols import SegmentBuffer, SegmentCache, ThreadTransactions
from langchain_convmem.records import CacheDraft, Draft, Entry, StateDocument, StoredSegment
from langchain_convmem.testing.log_contract_base import (
    ANA,
    LONE,
    ContractLog,
    ContractPart,
    OpenLog,
    retract,
    say,
    say_all,
    texts,
)
from langchain_convmem.views.codec import draft_of

__all__ = ["TransactionsPart"]

_NOTE = "cache:note"


def _transactions(log: ContractLog) -> ThreadTransactions:
    if not isinstance(log, ThreadTransactions):
        pytest.skip("declared: reads and writes call by call")
    return log


def _buffer(log: ContractLog) -> tuple[SegmentBuffer, SegmentCache]:
    if not isinstance(log, SegmentBuffer) or not isinstance(log, SegmentCache):
        pytest.skip("declared: no rows wait")
    return log, log


def _reply(text: str, message_id: str | None = None) -> Draft:
    return draft_of(AIMessage(text, id=message_id))


def _row(entry: Entry, terms: str = "park", vector: bytes | None = b"\x00<") -> StoredSegment:
    return StoredSegment(entry.position, 0, 0, terms, vector)


class TransactionsPart(ContractPart):
    """`ThreadTransactions` and `SegmentBuffer`."""

    # -- reading --------------------------------------------------------------------------------

    def test_a_document_says_what_is_read_with_it(self, log: ContractLog) -> None:
        at_once = _transactions(log)
        one, two, three, four = say_all(log, ANA, ["one", "two", "three", "four"])
        say(log, LONE, "elsewhere")
        written = log.set_state(ANA, _NOTE, [one.position, three.position], expected=None)

        def stretches(document: StateDocument | None) -> list[tuple[int, int | None]]:
            assert document is not None
            first, floor = document.value
            return [(first - 1, first), (floor, None)]

        assert at_once.read_thread(ANA, _NOTE, stretches) == (written, [one, four])
        all_of_it = at_once.read_thread(ANA, "none", lambda _: [(0, None)])
        assert all_of_it == (None, [one, two, three, four])
        assert at_once.read_thread(ANA, _NOTE, lambda _: []) == (written, [])
        assert at_once.read_thread(LONE, _NOTE, lambda found: [] if found else [(0, 0)]) == (
            None,
            [],
        )

    def test_what_changed_since_is_read_as_it_is(self, log: ContractLog) -> None:
        at_once = _transactions(log)

        def read() -> list[Entry]:
            return at_once.read_thread(ANA, _NOTE, lambda _: [(0, None)])[1]

        first = say(log, ANA, "one")
        second = say(log, ANA, "two")
        assert read() == [first, second]
        noted = log.annotate(ANA, first.id, attributes=["seen"])
        mark = retract(log, ANA, second.id)
        assert read() == [noted, second, mark]
        log.forget(ANA, [first.id])
        assert read() == [second, mark]
        log.forget(ANA)
        assert read() == []
        again = say(log, ANA, "one")
        assert read() == [again]

    # -- writing --------------------------------------------------------------------------------

    def test_a_plan_sees_what_is_there_and_is_appended(self, log: ContractLog) -> None:
        at_once = _transactions(log)
        old = say(log, ANA, HumanMessage("one", id="m1"))
        asked, both = say_all(log, ANA, ["two", HumanMessage("three", id="m3")])
        seen: list[Entry] = []

        def plan(there: Sequence[Entry]) -> list[Draft]:
            seen[:] = there
            return [_reply(f"{len(there)} read"), _reply("and one more")]

        found = at_once.append_planned(
            ANA, plan, after=old.position, message_ids=["m3", "m1", "unknown"]
        )
        assert seen == [old, asked, both]
        assert texts(found) == ["3 read", "and one more"]
        assert log.entries(ANA, after=both.position) == found
        at_once.append_planned(ANA, plan, after=found[0].position)
        assert seen == [found[1]]

    def test_equal_messages_are_planned_once(self, log: ContractLog) -> None:
        at_once = _transactions(log)
        [first] = at_once.append_planned(ANA, lambda _: [_reply("one", "m1")], after=0)
        assert at_once.append_planned(ANA, lambda _: [_reply("one", "m1")], after=0) == [first]
        assert log.entries(ANA) == [first]

    def test_a_plan_that_fails_or_is_empty_writes_no_entry(self, log: ContractLog) -> None:
        at_once = _transactions(log)
        asked = say(log, ANA, "one")

        def fail(_: Sequence[Entry]) -> list[Draft]:
            raise ArithmeticError

        note = CacheDraft(_NOTE, [1], None)
        with pytest.raises(ArithmeticError):
            at_once.append_planned(ANA, fail, after=0, documents=[note])
        assert log.get_state(ANA, _NOTE) is None
        assert at_once.append_planned(ANA, lambda _: [], after=0) == []
        assert log.entries(ANA) == [asked]

    def test_caches_are_written_beside_if_nobody_was_faster(self, log: ContractLog) -> None:
        at_once = _transactions(log)

        def say_with(*documents: CacheDraft) -> None:
            at_once.append_planned(ANA, lambda _: [_reply("said")], after=0, documents=documents)

        say_with(CacheDraft(_NOTE, ["first"], None), CacheDraft("cache:other", {}, 7))
        first = log.get_state(ANA, _NOTE)
        assert first is not None
        assert first.value == ["first"]
        assert log.get_state(ANA, "cache:other") is None
        say_with(CacheDraft(_NOTE, ["too late"], None))
        assert log.get_state(ANA, _NOTE) == first
        say_with(CacheDraft(_NOTE, ["second"], first.version))
        second = log.get_state(ANA, _NOTE)
        assert second is not None
        assert second.value == ["second"]
        assert len(log.entries(ANA)) == 3

    def test_nobody_writes_between_reading_and_appending(self, open_log: OpenLog) -> None:
        handles = [open_log() for _ in range(4)] if self.several_handles else [open_log()]
        logs = [_transactions(handle) for handle in handles]

        def count(there: Sequence[Entry]) -> list[Draft]:
            return [_reply(str(len(there)))]

        with ThreadPoolExecutor(8) as pool:
            for number in range(40):
                pool.submit(logs[number % len(logs)].append_planned, ANA, count, after=0)
        assert texts(handles[0].entries(ANA)) == [str(number) for number in range(40)]

    def test_transactions_have_asynchronous_twins(self, log: ContractLog) -> None:
        at_once = _transactions(log)
        append = partial(at_once.aappend_planned, ANA, lambda there: [_reply(str(len(there)))])

        async def calls() -> tuple[list[Entry], list[Entry]]:
            [first] = await append(after=0, documents=[CacheDraft(_NOTE, 1, None)])
            [second] = await append(after=0, message_ids=["unknown"])
            document, read = await at_once.aread_thread(ANA, _NOTE, lambda _: [(0, None)])
            assert document is not None
            return [first, second], read

        appended, read = asyncio.run(calls())
        assert texts(appended) == ["0", "1"]
        assert read == appended == log.entries(ANA)

    # -- rows that wait -------------------------------------------------------------------------

    def test_rows_that_wait_are_read_as_if_they_were_written(self, log: ContractLog) -> None:
        buffer, cache = _buffer(log)
        one, two = say_all(log, ANA, ["one", "two"])
        cache.save_segments(ANA.owner, "model", [_row(one)])
        buffer.keep_segments(ANA.owner, "model", [_row(two), _row(one, "harbour", None)])
        expected = [_row(one, "harbour"), _row(two)]
        assert cache.load_segments(ANA.owner, "model") == expected
        assert cache.load_segments(ANA.owner, "model", after=one.position) == [_row(two)]
        assert cache.load_segments(ANA.owner, "other") == []
        assert cache.load_segments(LONE.owner, "model") == []
        assert cache.segment_fingerprints(ANA.owner) == ["model"]
        buffer.keep_segments(ANA.owner, "other", [_row(one)])
        say(log, ANA, "three")
        assert cache.load_segments(ANA.owner, "model") == expected
        assert cache.delete_segments(ANA.owner, "other") == 1

    def test_rows_that_wait_are_written_with_the_next_entry_or_at_close(
        self, open_log: OpenLog
    ) -> None:
        here = open_log()
        buffer, _ = _buffer(here)
        if not self.several_handles:
            pytest.skip("declared: one handle only")
        _, there = _buffer(open_log())
        one = say(here, ANA, "one")
        buffer.keep_segments(ANA.owner, "model", [_row(one)])
        two = say(here, ANA, "two")
        assert there.load_segments(ANA.owner, "model") == [_row(one)]
        buffer.keep_segments(ANA.owner, "model", [_row(two)])
        here.close()
        assert there.load_segments(ANA.owner, "model") == [_row(one), _row(two)]

    def test_rows_that_wait_are_forgotten_with_their_entry(self, open_log: OpenLog) -> None:
        log = open_log()
        buffer, cache = _buffer(log)
        one, two = say_all(log, ANA, ["one", "two"])
        buffer.keep_segments(ANA.owner, "model", [_row(one), _row(two)])
        assert log.forget(ANA, [one.id]).segments == 1
        assert cache.load_segments(ANA.owner, "model") == [_row(two)]
        other = open_log() if self.several_handles else log
        buffer.keep_segments(ANA.owner, "model", [_row(one), _row(two, "harbour")])
        other.forget(ANA, [two.id])
        three = say(log, ANA, "three")
        assert cache.load_segments(ANA.owner, "model") == []
        buffer.keep_segments(ANA.owner, "model", [_row(three)])
        assert log.forget(ANA.owner).segments == 1
