"""The log contract: several writers at once, the asynchronous twins, and large things."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import LogClosedError
from langchain_convmem.protocols import OwnerListing
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.testing.log_contract_base import (
    ANA,
    ContractLog,
    ContractPart,
    OpenLog,
    say,
    say_all,
    texts,
)
from langchain_convmem.testing.log_contract_reading import all_changes
from langchain_convmem.views.codec import draft_of

__all__ = ["ConcurrencyPart", "check_writers"]

WRITERS = 4
TIMES = 25
ANAS_OTHER = ThreadKey("ana", "t2")


def check_writers(entries: Sequence[Entry], *, writers: int = WRITERS, times: int = TIMES) -> None:
    """Assert that `writers` lost nothing of their batches `w-n a`, `w-n b` and kept their order."""
    said = texts(entries)
    for writer in range(writers):
        mine = [text for text in said if text.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{n} {half}" for n in range(times) for half in "ab"]
    assert len(said) == writers * times * 2
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    assert len({entry.id for entry in entries}) == len(entries)
    for first, second in zip(said[::2], said[1::2], strict=True):
        assert first[:-1] == second[:-1], "another writer came between the messages of a batch"


def _at_once(work: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(work, writer) for writer in range(WRITERS)]:
            done.result()


def _write_from_another_process(make: OpenLog, together: Barrier, writer: int) -> None:
    log = make()
    together.wait()
    for number in range(TIMES):
        say_all(log, ANA, [f"{writer}-{number} a", f"{writer}-{number} b"])
    log.close()


def _drafts(*said: str) -> list[Draft]:
    return [draft_of(HumanMessage(text)) for text in said]


class ConcurrencyPart(ContractPart):
    """Many callers, and much to store."""

    def test_writers_in_threads_lose_nothing(self, log: ContractLog) -> None:
        def write(writer: int) -> None:
            for number in range(TIMES):
                say_all(log, ANA, [f"{writer}-{number} a", f"{writer}-{number} b"])

        _at_once(write)
        check_writers(log.entries(ANA))

    def test_writers_on_handles_of_their_own_lose_nothing(self, open_log: OpenLog) -> None:
        if not self.several_handles:
            pytest.skip("declared: one handle only")
        handles = [open_log() for _ in range(WRITERS)]

        def write(writer: int) -> None:
            for number in range(TIMES):
                say_all(handles[writer], ANA, [f"{writer}-{number} a", f"{writer}-{number} b"])

        _at_once(write)
        for handle in handles:
            check_writers(handle.entries(ANA))

    def test_writers_in_processes_of_their_own_lose_nothing(self, tmp_path: Path) -> None:
        if not self.several_processes:
            pytest.skip("declared: one process only")
        make = self.make_log(tmp_path)
        # A fork would share what the parent opened; off a server that opened nothing it does not.
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        together = context.Barrier(WRITERS, timeout=60)
        processes = [
            context.Process(target=_write_from_another_process, args=(make, together, writer))
            for writer in range(WRITERS)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0] * WRITERS
        log = make()
        check_writers(log.entries(ANA))
        check_writers(all_changes(log, ANA.owner, limit=7))
        log.close()

    def test_two_handles_see_each_other(self, open_log: OpenLog) -> None:
        if not self.several_handles:
            pytest.skip("declared: one handle only")
        here, there = open_log(), open_log()
        one = say(here, ANA, HumanMessage("one", id="m1"))
        assert there.entries(ANA) == there.find(ANA, ["m1"]) == [one]
        two = say(there, ANA, HumanMessage("two", id="m2"))
        assert say(here, ANA, HumanMessage("two", id="m2")) == two
        assert here.find(ANA, ["m2"]) == here.entries(ANA, last=1) == [two]
        assert here.entries(ANA, until=two.position) == [one, two]
        noted = there.annotate(ANA, one.id, attributes=["seen"])
        assert here.entries(ANA) == [noted, two] == list(here.changes(ANA.owner).entries)
        assert here.threads("ana") == there.threads("ana")
        document = here.set_state(ANA, "buffer", [1], expected=None)
        assert there.get_state(ANA, "buffer") == document
        assert document is not None
        assert there.set_state(ANA, "buffer", [2], expected=document.version) is not None
        assert here.set_state(ANA, "buffer", [3], expected=document.version) is None
        there.delete_state(ANA, "buffer")
        assert here.get_state(ANA, "buffer") is None

    def test_a_reader_of_changes_misses_nothing_that_is_being_written(
        self, log: ContractLog
    ) -> None:
        read: list[Entry] = []

        def write(writer: int) -> None:
            for number in range(TIMES):
                key = (ANA, ANAS_OTHER)[number % 2]
                say_all(log, key, [f"{writer}-{number} a", f"{writer}-{number} b"])

        with ThreadPoolExecutor(WRITERS) as pool:
            writers = [pool.submit(write, writer) for writer in range(WRITERS)]
            cursor, finished = 0, False
            while not finished:
                finished = all(writer.done() for writer in writers)
                page = log.changes(ANA.owner, cursor)
                read.extend(page.entries)
                cursor = page.cursor
            for writer in writers:
                writer.result()
        check_writers(read)

    def test_the_same_message_from_several_writers_is_stored_once(self, log: ContractLog) -> None:
        def write(writer: int) -> None:
            del writer
            for number in range(TIMES):
                say(log, ANA, HumanMessage(f"line {number}", id=f"m{number}"))

        _at_once(write)
        assert sorted(texts(log.entries(ANA))) == sorted(f"line {n}" for n in range(TIMES))

    def test_annotations_at_once_lose_nothing(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")

        def write(writer: int) -> None:
            for number in range(TIMES):
                mark = f"{writer}-{number}"
                log.annotate(ANA, entry.id, attributes=[mark], aux={mark: number})

        _at_once(write)
        [read] = log.entries(ANA)
        expected = {f"{writer}-{number}" for writer in range(WRITERS) for number in range(TIMES)}
        assert len(read.metadata.attributes) == len(expected)
        assert set(read.metadata.attributes) == set(read.metadata.aux) == expected

    def test_one_of_several_writers_of_a_version_wins(self, log: ContractLog) -> None:
        def count(writer: int) -> None:
            del writer
            for _ in range(TIMES):
                written = None
                while written is None:
                    found = log.get_state(ANA, "count")
                    value, version = (found.value, found.version) if found else (0, None)
                    written = log.set_state(ANA, "count", value + 1, expected=version)

        _at_once(count)
        found = log.get_state(ANA, "count")
        assert found is not None
        assert found.value == WRITERS * TIMES

    # -- asynchronous twins ---------------------------------------------------------------------

    def test_the_asynchronous_twins_do_the_same(self, log: ContractLog) -> None:
        async def scenario() -> None:
            entries = await log.aappend(ANA, _drafts("one", "two", "three"), relaxed=True)
            assert entries == log.entries(ANA) == await log.aentries(ANA)
            after = entries[0].position
            assert await log.aentries(ANA, after=after, last=1) == entries[2:]
            until = entries[1].position
            assert await log.aentries(ANA, after=after, until=until, last=2) == entries[1:2]
            ids = [entries[2].id, entries[0].id]
            assert await log.afind(ANA, ids) == log.find(ANA, ids) == [entries[0], entries[2]]
            if isinstance(log, OwnerListing):
                assert await log.aowners() == log.owners() == [ANA.owner]
            noted = await log.aannotate(
                ANA, entries[0].id, attributes=["seen"], timing={"llmEnd": 5}, aux={"a": 1}
            )
            assert noted == log.entries(ANA)[0]
            assert noted.metadata.attributes == ("seen",)
            assert (noted.metadata.timing["llmEnd"], noted.metadata.aux) == (5, {"a": 1})
            assert await log.athreads("ana") == log.threads("ana")
            changes = await log.achanges(ANA.owner, after, limit=1)
            assert changes == log.changes(ANA.owner, after, limit=1)
            assert changes.entries == (entries[1],)
            first = await log.aset_state(ANA, "buffer", [1], expected=None)
            assert first is not None
            assert await log.aset_state(ANA, "buffer", [2], expected=None) is None
            assert first == await log.aget_state(ANA, "buffer") == log.get_state(ANA, "buffer")
            await log.adelete_state(ANA, "buffer")
            assert log.get_state(ANA, "buffer") is None
            assert await log.aset_state(ANA, "cache:window", 1, expected=None) is not None
            receipt = await log.aforget(ANA, [entries[1].id])
            assert (receipt.entries, receipt.documents) == (1, 1)
            assert await log.aget_state(ANA, "cache:window") is None
            assert texts(log.entries(ANA)) == ["one", "three"]
            assert (await log.aforget(ANA.owner)).entries == 2
            assert log.entries(ANA) == []
            await log.aclose()
            await log.aclose()
            with pytest.raises(LogClosedError):
                await log.aentries(ANA)
            with pytest.raises(LogClosedError):
                await log.afind(ANA, ["m1"])
            await log.aclose()

        asyncio.run(scenario())

    def test_other_tasks_run_while_entries_are_appended(self, log: ContractLog) -> None:
        appends = 50

        async def scenario() -> int:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticker = asyncio.create_task(tick())
            for number in range(appends):
                await log.aappend(ANA, _drafts(f"line {number}"))
            ticker.cancel()
            return ticks

        assert asyncio.run(scenario()) >= appends // 2
        assert texts(log.entries(ANA)) == [f"line {number}" for number in range(appends)]

    def test_tasks_at_once_lose_nothing(self, log: ContractLog) -> None:
        async def write(writer: int) -> None:
            for number in range(TIMES):
                await log.aappend(ANA, _drafts(f"{writer}-{number} a", f"{writer}-{number} b"))

        async def scenario() -> None:
            await asyncio.gather(*(write(writer) for writer in range(WRITERS)))

        asyncio.run(scenario())
        check_writers(log.entries(ANA))

    # -- large things ---------------------------------------------------------------------------

    def test_a_long_thread_comes_back_whole(self, log: ContractLog) -> None:
        said = [f"{number} " + "ab汉 " * 999 for number in range(350)]
        say_all(log, ANA, said[:300])
        say_all(log, ANA, said[300:])
        assert sum(len(text.encode()) for text in said) > 1_400_000
        assert texts(log.entries(ANA)) == said
        assert texts(log.entries(ANA, last=2)) == said[-2:]
        assert texts(log.changes(ANA.owner).entries) == said

    def test_a_message_of_five_megabytes_comes_back_whole(self, log: ContractLog) -> None:
        large = "0123456789abcdef" * (5 * 1024 * 1024 // 16)
        say_all(log, ANA, ["before", AIMessage(large, id="large"), "after"])
        say(log, ANA, AIMessage(large, id="large"))
        assert texts(log.entries(ANA)) == ["before", large, "after"]
