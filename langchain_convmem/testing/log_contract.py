"""`MessageLogContract`: what every message log promises, as tests.

A backend subclasses it in its own tests and opens its log::

    class TestMyLog(MessageLogContract):
        persistent = True
        several_handles = True
        several_processes = True

        def make_log(self, tmp_path):
            return partial(MyLog, tmp_path / "log")

Below the class stand the samples it uses (ids, texts and messages that a log must keep exactly)
and the small functions that speak to a log; tests of a backend's own may use both.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

from langchain_convmem.errors import (
    ConfigError,
    ConvMemError,
    InvalidMessageError,
    LogClosedError,
    LogError,
)
from langchain_convmem.ids import get_now_ms, get_ulid_ms, is_ulid, make_ulid
from langchain_convmem.logs.verify import verify_log
from langchain_convmem.protocols import (
    LineSource,
    MessageLog,
    OwnerListing,
    SegmentCache,
    StateBatches,
    ThreadState,
    ThreadTransactions,
)
from langchain_convmem.records import (
    CacheDraft,
    Changes,
    Control,
    Cover,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Metadata,
    Owner,
    RetractReason,
    StateDocument,
    StoredSegment,
    ThreadKey,
)
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.views.live import find_live_entries

ANA = ThreadKey("ana", "t1")
ANAS_OTHER = ThreadKey("ana", "t2")
BO = ThreadKey("bo", "t1")
LONE = ThreadKey(None, "t1")
EVERY_KEY = (ANA, ANAS_OTHER, BO, LONE, ThreadKey(None, "ana"), ThreadKey("t1", "t1"))

WRITERS = 4
TIMES = 25

MANY = 250
"""More ids than some services take in one call."""

_NOTE = "cache:note"

CACHES = ("cache:window", "cache:", "cache:Zoë 🦊 #%\\ ", "cache:cache:", f"cache:{'long' * 200}")

NO_CACHES = (
    "buffer",
    "cache",
    "cache;",
    "caches:",
    "Cache:window",
    "CACHE:",
    " cache:window",
    "my cache:window",
    "cach_:",
    f"{'long' * 200} cache:",
)


class ContractLog(MessageLog, ThreadState, Protocol):
    """What a log must be to be tested."""


OpenLog: TypeAlias = Callable[[], ContractLog]
"""Opens a handle on the storage of the running test; closed when the test ends."""


class MessageLogContract(ABC):
    """The tests of a message log; give `make_log` and declare what the log can do.

    What a log does not declare is skipped, and the skip says so. Optional abilities are known by
    their protocols: a log that is an `OwnerListing`, a `LineSource`, a `SegmentCache`, a
    `StateBatches` or a `ThreadTransactions` is tested as one.

    Attributes:
        persistent: Entries outlive the handle: a closed log can be opened again.
        several_handles: Each call of what `make_log` returns opens another handle on the same
            storage, as another process would. Without it, every call returns the same log.
        several_processes: Other processes may write to the storage at the same time; what
            `make_log` returns can be sent to them.
    """

    persistent: ClassVar[bool] = False
    several_handles: ClassVar[bool] = False
    several_processes: ClassVar[bool] = False

    @abstractmethod
    def make_log(self, tmp_path: Path) -> OpenLog:
        """Return a function that opens a handle on one storage, the same at every call.

        With `several_processes` it is called in other processes too, so it must be one that can be
        sent there: a `functools.partial` of something a module names, not a lambda.

        Args:
            tmp_path: An empty directory of the running test.
        """

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a backend that rewrites a promise instead of keeping it."""
        super().__init_subclass__(**kwargs)
        redefined = sorted(
            name
            for name in vars(cls)
            if name.startswith("test_") and hasattr(MessageLogContract, name)
        )
        if redefined:
            msg = (
                f"{cls.__name__} overrides the contract tests {', '.join(redefined)}; "
                "fix the log, or declare what it cannot do with a flag"
            )
            raise TypeError(msg)

    @pytest.fixture
    def open_log(self, tmp_path: Path) -> Iterator[OpenLog]:
        """Open handles on one storage; they are closed at the end."""
        make = self.make_log(tmp_path)
        opened: list[ContractLog] = []

        def open_one() -> ContractLog:
            opened.append(make())
            return opened[-1]

        yield open_one
        for log in opened:
            log.close()

    @pytest.fixture
    def log(self, open_log: OpenLog) -> ContractLog:
        """Return a log that holds nothing."""
        return open_log()

    def _require_several_handles(self) -> None:
        if not self.several_handles:
            pytest.skip("declared: one handle only")

    # -- appending, and what comes back -----------------------------------------------------------

    def test_an_unknown_thread_has_no_entries(self, log: ContractLog) -> None:
        assert log.entries(ANA) == []

    def test_every_message_comes_back_exactly(self, log: ContractLog) -> None:
        for name, make in SAMPLE_MESSAGES.items():
            key = ThreadKey("ana", name)
            [returned] = log.append(key, [make_draft(make())])
            [read] = log.entries(key)
            assert are_identical(returned.message, make()), name
            assert are_identical(read.message, make()), name

    def test_texts_come_back_verbatim(self, log: ContractLog) -> None:
        messages = [kind(text) for text in ODD_TEXTS for kind in (HumanMessage, AIMessage)]
        say_all(log, ANA, messages)
        assert list_texts(log.entries(ANA)) == [text for text in ODD_TEXTS for _ in range(2)]

    def test_everything_of_a_draft_comes_back(self, log: ContractLog) -> None:
        metadata = Metadata(
            attributes=("fake", "merged", "merged"),
            timing={"creation": 5, "llmStart": 7},
            summary_ids=("a", "b"),
            aux={"note": ("x", b"y"), "$set": None},
        )
        turn = make_ulid()
        drafts = [
            Draft(role="user", message=HumanMessage("Hi"), contents=("Hi",), turn_id=turn),
            Draft(role="assistant", message=AIMessage("Ho"), contents=("H", "o"), turn_id="turn 7"),
            Draft(
                role="summary",
                contents=("They greeted.",),
                metadata=metadata,
                cover=Cover(((1, 4), (7, 9)), "digest", "model", "v2"),
            ),
            Draft(role="control", control=Control(("x", "y"), "rewind", "z")),
        ]
        assert log.append(ANA, drafts) == log.entries(ANA)
        for draft, entry in zip(drafts, log.entries(ANA), strict=True):
            assert entry.key == ANA
            assert (entry.role, entry.contents) == (draft.role, draft.contents)
            assert (entry.control, entry.cover) == (draft.control, draft.cover)
            assert entry.turn_id == (draft.turn_id or entry.id)
        assert are_identical(log.entries(ANA)[2].metadata.aux, metadata.aux)
        assert log.entries(ANA)[2].metadata == metadata

    def test_an_entry_knows_when_it_was_made(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")
        assert is_ulid(entry.id)
        assert entry.metadata.timing == {"creation": get_ulid_ms(entry.id)}

    def test_order_holds_over_batches_and_inside_one(self, log: ContractLog) -> None:
        said = [f"{batch}-{number}" for batch in range(12) for number in range(3)]
        for start in range(0, len(said), 3):
            say_all(log, ANA, said[start : start + 3])
        large = [f"large {number}" for number in range(120)]
        say_all(log, ANA, large)
        entries = log.entries(ANA)
        assert list_texts(entries) == said + large
        positions = [entry.position for entry in entries]
        assert positions == sorted(set(positions))
        assert positions[0] > 0
        assert len({entry.id for entry in entries}) == len(entries)

    def test_odd_ids_are_kept_apart(self, log: ContractLog) -> None:
        keys = [
            ThreadKey(user, thread)
            for odd in ODD_IDS
            for user, thread in ((None, odd), (odd, "s"), ("ana", odd), ("bo", odd))
        ]
        for number, key in enumerate(keys):
            say(log, key, f"line {number}")
        for number, key in enumerate(keys):
            assert list_texts(log.entries(key)) == [f"line {number}"], key
        for owner in {key.owner for key in keys}:
            own = [f"line {number}" for number, key in enumerate(keys) if key.owner == owner]
            assert list_texts(log.changes(owner).entries) == own, owner

    def test_a_batch_with_one_bad_message_leaves_nothing(self, log: ContractLog) -> None:
        say(log, ANA, "before")
        bad = HumanMessage("bad", additional_kwargs={"client": object()})
        with pytest.raises(InvalidMessageError, match="client"):
            say_all(log, ANA, ["good", bad, "good too"])
        with pytest.raises(InvalidMessageError, match="client"):
            say_all(log, LONE, ["good", bad])
        assert list_texts(log.entries(ANA)) == ["before"]
        assert log.entries(LONE) == []
        assert log.threads(None) == []

    def test_what_could_not_be_read_back_is_refused(self, log: ContractLog) -> None:
        unfinished = AIMessage("x", id="m1")
        unfinished.tool_calls = [{"name": "weather"}]  # type: ignore[typeddict-item]  # the point
        deep = HumanMessage("x", additional_kwargs={"deep": _build_nested(500)})
        odd_keys = ToolMessage("x", tool_call_id="c", artifact={1: "one"})
        for message in (unfinished, deep, odd_keys):
            with pytest.raises(InvalidMessageError):
                say(log, ANA, message)
        say(log, ANA, HumanMessage("x", additional_kwargs={"deep": _build_nested(80)}))
        assert len(log.entries(ANA)) == 1

    def test_an_empty_batch_does_nothing(self, log: ContractLog) -> None:
        assert log.append(ANA, []) == []
        assert log.entries(ANA) == []
        assert log.threads("ana") == []

    def test_nothing_is_shared_with_the_caller(self, log: ContractLog) -> None:
        message = AIMessage([{"type": "text", "text": "as said"}], additional_kwargs={"n": [1]})
        aux = {"list": [1]}
        draft = Draft(role="assistant", message=message, metadata=Metadata(aux=aux))
        [returned] = log.append(ANA, [draft])
        before = AIMessage([{"type": "text", "text": "as said"}], additional_kwargs={"n": [1]})
        message.content = "changed by the writer"
        aux["list"].append(2)
        for entry in (returned, *log.entries(ANA), *log.changes(ANA.owner).entries):
            assert are_identical(entry.message, before)
            assert entry.message is not None
            entry.message.content[0]["text"] = "changed by the reader"  # type: ignore[index]  # a list
            entry.message.additional_kwargs["n"].append(2)
            assert are_identical(entry.metadata.aux, {"list": [1]})
            entry.metadata.aux["list"].append(2)
        [entry] = log.entries(ANA)
        assert are_identical(entry.message, before)
        assert are_identical(entry.metadata.aux, {"list": [1]})

    def test_bad_ids_are_refused(self, log: ContractLog) -> None:
        bad: Any
        for bad in ("", 7, None, "no encoding can hold \ud800", "nor two \ud83d\ude00"):
            with pytest.raises(ConfigError):
                ThreadKey("ana", bad)
        for bad in ("", 7, "\ud800"):
            with pytest.raises(ConfigError):
                ThreadKey(bad, "t1")
            with pytest.raises(ConfigError):
                log.threads(bad)

    # -- appending what is there already: a message's own id is its key within its thread ---------

    def test_equal_messages_without_ids_are_all_kept(self, log: ContractLog) -> None:
        say_all(log, ANA, ["Yes", "Yes"])
        say(log, ANA, "Yes")
        entries = log.entries(ANA)
        assert list_texts(entries) == ["Yes"] * 3
        assert len({entry.id for entry in entries}) == 3

    def test_an_empty_id_is_no_id(self, log: ContractLog) -> None:
        said = [AIMessage("one", id=""), AIMessage("one", id=""), AIMessage("two", id="")]
        say_all(log, ANA, said)
        assert list_live_texts(log, ANA) == ["one", "one", "two"]

    def test_a_message_named_like_a_control_entry_replaces_nothing(self, log: ContractLog) -> None:
        [gone] = say_all(log, ANA, ["gone"])
        control = retract(log, ANA, gone.id)
        say_all(log, ANA, [HumanMessage("new", id=control.id)])
        assert list_live_texts(log, ANA) == ["new"]
        assert len(_select_controls(log.entries(ANA))) == 1

    def test_the_same_message_is_stored_once(self, log: ContractLog) -> None:
        for name, make in SAMPLE_MESSAGES.items():
            message = make()
            message.id = name
            [first] = say_all(log, ANA, [message])
            again = say_all(log, ANA, [message.model_copy(deep=True)])
            assert [entry.id for entry in again] == [first.id], name
        assert len(log.entries(ANA)) == len(SAMPLE_MESSAGES)

    def test_the_same_message_within_a_batch_is_stored_once(self, log: ContractLog) -> None:
        message = HumanMessage("Hi", id="m1")
        before, first, between, second = say_all(log, ANA, ["a", message, "b", message])
        assert first == second
        assert list_texts(log.entries(ANA)) == ["a", "Hi", "b"]
        assert [before.position, first.position, between.position] == [
            entry.position for entry in log.entries(ANA)
        ]

    def test_a_copy_that_was_handed_out_is_stored_once(self, log: ContractLog) -> None:
        said = [HumanMessage("Hi"), AIMessage("Ho", id="ai-1"), HumanMessage("Hum", name="Ana")]
        say_all(log, ANA, said)
        entries = log.entries(ANA)
        copies = build_context(entries).messages
        assert copies[0].id == entries[0].id
        assert say_all(log, ANA, copies) == entries
        assert log.entries(ANA) == entries

    def test_order_of_keys_makes_no_other_message(self, log: ContractLog) -> None:
        first = say(log, ANA, HumanMessage("x", id="m1", additional_kwargs={"a": 1, "b": 2}))
        again = say(log, ANA, HumanMessage("x", id="m1", additional_kwargs={"b": 2, "a": 1}))
        assert again == first

    def test_values_that_only_compare_equal_make_another_message(self, log: ContractLog) -> None:
        for value in (True, 1, 1.0):
            say(log, ANA, HumanMessage("x", id="m1", additional_kwargs={"value": value}))
        [live] = find_live_entries(log.entries(ANA))
        assert live.message is not None
        assert are_identical(live.message.additional_kwargs["value"], 1.0)

    def test_another_payload_replaces_the_message_in_its_place(self, log: ContractLog) -> None:
        say_all(log, ANA, [HumanMessage("frist", id="m1"), AIMessage("reply")], turn="turn 1")
        say(log, ANA, "last")
        old = log.entries(ANA)[0]
        new = say(log, ANA, HumanMessage("first", id="m1"))
        entries = log.entries(ANA)
        assert list_texts(entries) == ["frist", "reply", "last", "first"]
        [mark] = _select_controls(entries)
        assert mark.control is not None
        assert (mark.control.reason, mark.control.retracts) == ("replaced", (old.id,))
        assert mark.control.replacement == new.id
        assert entries[2].position < mark.position < new.position
        assert (new.turn_id, new.id != old.id) == ("turn 1", True)
        assert list_live_texts(log, ANA) == ["first", "reply", "last"]

    def test_a_message_may_be_replaced_many_times(self, log: ContractLog) -> None:
        versions = ["one", "two", "three", "one"]
        said = [HumanMessage(text, id="m1") for text in versions]
        say_all(log, ANA, [said[0], AIMessage("reply"), *said[1:3]], turn="turn 1")
        say(log, ANA, said[3])
        assert list_live_texts(log, ANA) == ["one", "reply"]
        assert list_texts(log.entries(ANA)) == ["one", "reply", "two", "three", "one"]
        assert len(_select_controls(log.entries(ANA))) == 3

    def test_a_stored_message_without_id_is_replaced_by_its_entry_id(
        self, log: ContractLog
    ) -> None:
        entry = say(log, ANA, "frist")
        say(log, ANA, HumanMessage("first", id=entry.id))
        say(log, ANA, HumanMessage("first", id=entry.id))
        assert list_live_texts(log, ANA) == ["first"]
        assert len(log.entries(ANA)) == 3

    def test_a_retracted_message_can_be_added_again(self, log: ContractLog) -> None:
        message = HumanMessage("Hi", id="m1")
        first = say(log, ANA, message)
        undo = retract(log, ANA, first.id)
        second = say(log, ANA, message)
        assert second.id != first.id
        assert list_live_texts(log, ANA) == ["Hi"]
        assert say(log, ANA, message) == second
        retract(log, ANA, second.id)
        retract(log, ANA, undo.id, reason="rewind")
        assert say(log, ANA, message) == first, "undone undo: the first one counts again"

    def test_ids_belong_to_their_thread(self, log: ContractLog) -> None:
        for key in (ANA, LONE):
            say(log, key, HumanMessage(f"of {key.user_id}", id="m1"))
        assert list_texts(log.entries(ANA)) == ["of ana"]
        assert list_texts(log.entries(LONE)) == ["of None"]

    def test_ids_are_compared_exactly(self, log: ContractLog) -> None:
        said = [HumanMessage(f"text of {own!r}", id=own) for own in ODD_MESSAGE_IDS]
        entries = say_all(log, ANA, said)
        assert list_live_texts(log, ANA) == [f"text of {own!r}" for own in ODD_MESSAGE_IDS]
        assert say_all(log, ANA, said) == entries

    # -- closing and reopening --------------------------------------------------------------------

    def test_a_closed_log_says_so(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")
        log.close()
        log.close()
        calls: list[Callable[[], object]] = [
            lambda: log.append(ANA, [make_draft(HumanMessage("more"))]),
            lambda: log.append(ANA, []),
            lambda: log.entries(ANA),
            lambda: log.entries(ANA, after=2, until=1),
            lambda: log.find(ANA, ["m1"]),
            lambda: log.find(ANA, []),
            lambda: log.annotate(ANA, entry.id, attributes=["late"]),
            lambda: log.threads("ana"),
            lambda: log.changes(ANA.owner),
            lambda: log.forget(ANA),
            lambda: log.get_state(ANA, "buffer"),
            lambda: log.set_state(ANA, "buffer", [], expected=None),
            lambda: log.delete_state(ANA, "buffer"),
        ]
        if isinstance(log, OwnerListing):
            calls.append(log.owners)
        for call in calls:
            with pytest.raises(LogClosedError):
                call()
        assert not LogClosedError.is_retryable
        assert issubclass(LogClosedError, ConvMemError)

    def test_what_was_appended_is_there_after_reopening(self, open_log: OpenLog) -> None:
        if not self.persistent:
            pytest.skip("declared: does not outlive its handle")
        first = open_log()
        for number, make in enumerate(SAMPLE_MESSAGES.values()):
            first.append(ANA, [make_draft(make())], durable=number % 2 == 0)
        before = first.entries(ANA)
        first.close()
        again = open_log()
        after = again.entries(ANA)
        assert [entry.id for entry in after] == [entry.id for entry in before]
        for entry, make in zip(after, SAMPLE_MESSAGES.values(), strict=True):
            assert are_identical(entry.message, make())
        assert say(again, ANA, "more").position > before[-1].position

    # -- reading a range of a thread --------------------------------------------------------------

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

    def test_ranges_end_at_a_position(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(4)])
        between = say(log, ANAS_OTHER, "elsewhere")
        entries += say_all(log, ANA, [f"line {number}" for number in range(4, 8)])
        entries.append(retract(log, ANA, entries[0].id))
        at = [entry.position for entry in entries]
        assert log.entries(ANA, until=at[5]) == entries[:6]
        assert log.entries(ANA, until=at[5] - 1) == entries[:5]
        assert log.entries(ANA, until=between.position) == entries[:4]
        assert log.entries(ANA, until=at[8]) == log.entries(ANA, until=at[8] + 10**9) == entries
        for nowhere in (at[0] - 1, 0, -1):
            assert log.entries(ANA, until=nowhere) == []
        assert log.entries(ANAS_OTHER, until=at[8]) == [between]
        assert log.entries(LONE, until=at[8]) == []

    def test_ranges_have_two_ends(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(4)])
        entries += say_all(log, ANA, [f"line {number}" for number in range(4, 9)])
        at = [entry.position for entry in entries]
        assert log.entries(ANA, after=at[1], until=at[5]) == entries[2:6]
        assert log.entries(ANA, after=at[4], until=at[5]) == entries[5:6]
        assert log.entries(ANA, after=at[8], until=at[8] + 10**9) == []
        for end in (at[5], at[4], at[0], 0):
            assert log.entries(ANA, after=at[5], until=end) == []
            assert log.entries(ANA, after=at[5], until=end, last=3) == []

    def test_no_number_is_too_large_for_a_range(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(3)])
        assert log.entries(ANA, after=-(10**30), until=10**30, last=10**30) == entries
        assert log.entries(ANA, after=10**30) == log.entries(ANA, until=-(10**30)) == []
        assert log.changes(ANA.owner, -(10**30), limit=10**30).entries == tuple(entries)
        assert log.changes(ANA.owner, 10**30).entries == ()

    def test_the_latest_of_a_range_are_those_before_its_end(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [f"line {number}" for number in range(4)])
        say(log, ANAS_OTHER, "elsewhere")
        entries += say_all(log, ANA, [f"line {number}" for number in range(4, 9)])
        at = [entry.position for entry in entries]
        assert log.entries(ANA, until=at[5], last=3) == entries[3:6]
        assert log.entries(ANA, until=at[3], last=1) == entries[3:4]
        assert log.entries(ANA, until=at[5], last=6) == entries[:6]
        assert log.entries(ANA, until=at[5], last=99) == entries[:6]
        assert log.entries(ANA, until=at[5], last=0) == []
        assert log.entries(ANA, after=at[1], until=at[5], last=2) == entries[4:6]
        assert log.entries(ANA, after=at[1], until=at[5], last=99) == entries[2:6]
        assert log.entries(ANA, until=at[8], last=2) == entries[-2:]

    # -- finding messages by their ids ------------------------------------------------------------

    def test_messages_are_found_by_their_own_ids(self, log: ContractLog) -> None:
        one, _, two, three = say_all(
            log,
            ANA,
            [
                HumanMessage("one", id="m1"),
                "without an id",
                AIMessage("two", id="m2", additional_kwargs={"n": 1}),
                HumanMessage("three", id="m3"),
            ],
        )
        noted = log.annotate(ANA, two.id, attributes=["seen"])
        assert log.find(ANA, ["m3", "m1"]) == [one, three]
        assert log.find(ANA, ("m2",)) == [noted]
        assert log.find(ANA, {"m1", "m2", "m3"}) == [one, noted, three]
        assert log.find(ANA, ["m1", "m1", "unknown", ""]) == [one]
        assert log.find(ANA, ["M1", "m", "m1 ", make_ulid(), "%"]) == []
        assert log.find(ANA, []) == []
        [found] = log.find(ANA, ["m2"])
        assert found.message is not None
        found.message.additional_kwargs["n"] = "changed by the reader"
        assert log.find(ANA, ["m2"]) == [noted]

    def test_messages_without_an_id_are_found_by_that_of_their_entry(
        self, log: ContractLog
    ) -> None:
        entries = say_all(log, ANA, ["none", AIMessage("empty", id=""), AIMessage("own", id="m1")])
        entries += log.append(ANA, [Draft(role="summary", contents=("They spoke.",))])
        control = retract(log, ANA, entries[0].id)
        none, empty, own, summary = entries
        ids = [entry.id for entry in (*entries, control)]
        assert log.find(ANA, ids) == [none, empty, summary]
        assert log.find(ANA, [own.id]) == log.find(ANA, [control.id]) == []
        assert [entry.message_id for entry in entries] == [none.id, empty.id, "m1", summary.id]

    def test_replaced_and_retracted_messages_are_found(self, log: ContractLog) -> None:
        first = say(log, ANA, HumanMessage("frist", id="m1"))
        gone = say(log, ANA, HumanMessage("gone", id="m2"))
        second = say(log, ANA, HumanMessage("first", id="m1"))
        undo = retract(log, ANA, gone.id)
        third = say(log, ANA, HumanMessage("first!", id="m1"))
        assert log.find(ANA, ["m1"]) == [first, second, third]
        assert log.find(ANA, ["m2", "m1"]) == [first, gone, second, third]
        assert log.find(ANA, ["m2"]) == [gone]
        retract(log, ANA, undo.id, third.id)
        assert log.find(ANA, ["m1", "m2"]) == [first, gone, second, third]

    def test_nothing_of_other_threads_is_found(self, log: ContractLog) -> None:
        said = {
            key: say_all(log, key, [HumanMessage(f"of {key}", id="m1"), f"more of {key}"])
            for key in EVERY_KEY
        }
        ids = ["m1", *(more.id for _, more in said.values())]
        for key in EVERY_KEY:
            assert log.find(key, ids) == said[key], key
        assert log.find(ThreadKey("nobody", "t1"), ids) == []
        assert log.find(ThreadKey("ana", "t3"), ids) == []

    def test_ids_are_found_exactly(self, log: ContractLog) -> None:
        messages = [HumanMessage(f"text of {own!r}", id=own) for own in ODD_MESSAGE_IDS]
        entries = say_all(log, ANA, messages)
        for own, entry in zip(ODD_MESSAGE_IDS, entries, strict=True):
            assert log.find(ANA, [own]) == [entry], own
        assert log.find(ANA, ODD_MESSAGE_IDS) == entries

    def test_any_number_of_messages_is_found(self, log: ContractLog) -> None:
        messages = [HumanMessage(f"line {number}", id=f"m{number}") for number in range(MANY)]
        entries = say_all(log, ANA, messages)
        ids = [f"m{number}" for number in range(MANY + 50)]
        found = log.find(ANA, ids[::-1])
        assert found == entries
        assert are_identical([entry.message for entry in found], messages)

    def test_what_was_forgotten_is_not_found(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, [HumanMessage("one", id="m1"), "two", "three"])
        log.forget(ANA, ["m1", entries[1].id])
        assert log.find(ANA, ["m1", *(entry.id for entry in entries)]) == [entries[2]]
        again = say(log, ANA, HumanMessage("one", id="m1"))
        assert log.find(ANA, ["m1"]) == [again]
        log.forget(ANA)
        assert log.find(ANA, ["m1", entries[2].id]) == []

    def test_one_text_is_no_collection_of_message_ids(self, log: ContractLog) -> None:
        say(log, ANA, HumanMessage("Hi", id="m"))
        with pytest.raises(ConfigError):
            log.find(ANA, "m")

    # -- listing threads and owners ---------------------------------------------------------------

    def test_threads_are_listed_latest_first(self, log: ContractLog) -> None:
        first = say(log, ANA, "one")
        say(log, ANAS_OTHER, "two")
        assert [info.key for info in log.threads("ana")] == [ANAS_OTHER, ANA]
        retract(log, ANA, first.id)
        [latest, _] = log.threads("ana")
        assert (latest.key, latest.entries) == (ANA, 2)
        ids = [entry.id for entry in log.entries(ANA)]
        assert latest.first_ms == get_ulid_ms(min(ids))
        assert latest.last_ms == get_ulid_ms(max(ids))

    def test_threads_of_others_are_not_listed(self, log: ContractLog) -> None:
        for key in (ANA, BO, LONE, ThreadKey(None, "ana"), ThreadKey("ANA", "t1")):
            say(log, key, "Hi")
        assert [info.key for info in log.threads("ana")] == [ANA]
        assert {info.key for info in log.threads(None)} == {LONE, ThreadKey(None, "ana")}
        assert log.threads("nobody") == []
        assert log.threads("t1") == []

    def test_owners_are_those_who_have_entries(self, log: ContractLog) -> None:
        listing = _require_listing(log)
        assert listing.owners() == []
        entries = {key: say(log, key, "Hi") for key in (ANA, ANAS_OTHER, BO, LONE)}
        log.set_state(ThreadKey("cy", "t1"), "buffer", 1, expected=None)
        log.set_state(ThreadKey(None, "t2"), "buffer", 1, expected=None)
        owners = listing.owners()
        assert set(owners) == {ANA.owner, BO.owner, LONE.owner}
        assert len(owners) == 3
        retract(log, BO, entries[BO].id, reason="cleared")
        log.forget(ANA)
        assert set(listing.owners()) == {ANA.owner, BO.owner, LONE.owner}
        log.forget(ANAS_OTHER, [entries[ANAS_OTHER].id])
        assert set(listing.owners()) == {BO.owner, LONE.owner}
        log.forget(LONE.owner)
        assert listing.owners() == [BO.owner]

    def test_owners_come_back_as_they_were_named(self, log: ContractLog) -> None:
        listing = _require_listing(log)
        for odd in ODD_IDS:
            say(log, ThreadKey(odd, "t1"), "of a user")
            say(log, ThreadKey(None, odd), "of nobody")
        wanted = {Owner(user_id=odd) for odd in ODD_IDS} | {Owner(thread_id=odd) for odd in ODD_IDS}
        owners = listing.owners()
        assert set(owners) == wanted
        assert len(owners) == len(wanted)
        for owner in owners:
            assert list_texts(log.changes(owner).entries) in (["of a user"], ["of nobody"])

    # -- checksums --------------------------------------------------------------------------------

    def test_a_checksum_stands_for_its_entry_wherever_it_is_read(self, log: ContractLog) -> None:
        first, same = say_all(log, ANA, [HumanMessage("Hi", id="m1"), HumanMessage("Hi", id="m2")])
        if not first.checksum:
            pytest.skip("declared: keeps no checksums")
        other = say(log, ANAS_OTHER, HumanMessage("Hi", id="m1"))
        checksums = [entry.checksum for entry in (first, same, other)]
        assert len(set(checksums)) == 3, "each is of one place alone"
        assert all(len(one) == 20 and int(one, 16) for one in checksums)
        noted = log.annotate(ANA, first.id, attributes=["seen"])
        for entry in (
            noted,
            log.entries(ANA)[0],
            *log.find(ANA, ["m1"]),
            log.changes(ANA.owner).entries[0],
            say(log, ANA, HumanMessage("Hi", id="m1")),
        ):
            assert (entry.id, entry.checksum) == (first.id, first.checksum)

    def test_a_log_that_was_written_by_its_own_methods_is_sound(self, log: ContractLog) -> None:
        _require_listing(log)
        for key in (ANA, ANAS_OTHER, BO, LONE):
            say_all(log, key, [HumanMessage("frist", id="m1"), AIMessage("Yes?", id="m2")])
            say_all(log, key, [HumanMessage("first", id="m1"), AIMessage("Yes?", id="m2")])
            retract(log, key, say(log, key, "no").id)
        log.annotate(ANA, log.entries(ANA)[0].id, attributes=["seen"], aux={"note": ("x", b"y")})
        log.forget(ANA, [log.entries(ANA)[1].id])
        log.forget(BO)
        seen: list[tuple[int, int]] = []
        report = verify_log(log, progress=lambda *numbers: seen.append(numbers))
        assert (report.owners, report.threads, report.entries) == (2, 3, 17)
        assert (report.ok, report.damaged, report.more) == (True, (), 0)
        assert seen[-1] == (17, 17)

    # -- following the changes of an owner --------------------------------------------------------

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
        assert list_texts(changes.entries) == expected
        assert {entry.key for entry in changes.entries} == {ANA, ANAS_OTHER}
        for limit in (1, 3, 48, 100):
            assert read_all_changes(log, ANA.owner, limit=limit) == list(changes.entries)
        by_thread = sorted(changes.entries, key=lambda entry: (entry.key.thread_id, entry.position))
        assert by_thread == log.entries(ANA) + log.entries(ANAS_OTHER)

    def test_changes_after_a_cursor_are_only_what_came_later(self, log: ContractLog) -> None:
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
        entries = log.append(ANA, [make_draft(message) for message in messages])
        log.annotate(ANA, entries[0].id, timing={"creation": 7})
        say(log, ANAS_OTHER, "elsewhere")
        say(log, BO, "not hers")
        retract(log, ANA, entries[1].id)
        for limit in (1, 7, None):
            cursor = 0
            while (page := log.changes(ANA.owner, cursor, limit=limit)).entries:
                lines = [line for entry in page.entries for line in make_dialog_lines(entry)]
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
        assert list_texts(log.changes(LONE.owner).entries) == ["alone"]
        assert list_texts(log.changes(Owner(user_id="t1")).entries) == ["a user of that name"]

    def test_the_generation_stays_while_nothing_is_forgotten(self, log: ContractLog) -> None:
        entry = say(log, ANA, "one")
        generation = log.changes(ANA.owner).generation
        say(log, ANAS_OTHER, "two")
        log.annotate(ANA, entry.id, attributes=["seen"])
        log.set_state(ANA, "buffer", 1, expected=None)
        log.delete_state(ANA, "buffer")
        retract(log, ANA, entry.id, reason="cleared")
        assert log.changes(ANA.owner).generation == generation

    # -- annotating -------------------------------------------------------------------------------

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
        assert are_identical(read.metadata.aux, {"a": 1, "b": (3,), "c": None})
        assert (read.message, read.contents, read.turn_id) == (message, ("Hi",), entry.turn_id)
        assert (read.id, read.position) == (entry.id, entry.position)

    def test_only_an_entry_of_the_thread_can_be_annotated(self, log: ContractLog) -> None:
        entry = say(log, ANA, HumanMessage("Hi", id="m1"))
        for key, entry_id in (
            (ANA, make_ulid()),
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

    # -- documents beside a thread, with compare-and-set ------------------------------------------

    def test_a_document_is_written_over_just_the_version_that_was_read(
        self, log: ContractLog
    ) -> None:
        assert log.get_state(ANA, "buffer") is None
        assert log.set_state(ANA, "buffer", ["too early"], expected=1) is None
        assert log.get_state(ANA, "buffer") is None
        first = log.set_state(ANA, "buffer", ["a"], expected=None)
        assert first is not None
        assert log.get_state(ANA, "buffer") == first
        assert log.set_state(ANA, "buffer", ["too late"], expected=None) is None
        second = log.set_state(ANA, "buffer", ["a", "b"], expected=first.version)
        assert second is not None
        assert second.version != first.version
        assert log.set_state(ANA, "buffer", ["stale"], expected=first.version) is None
        assert log.get_state(ANA, "buffer") == second
        assert second.value == ["a", "b"]

    def test_a_deleted_document_is_gone_with_its_version(self, log: ContractLog) -> None:
        log.delete_state(ANA, "buffer")
        first = log.set_state(ANA, "buffer", 1, expected=None)
        log.delete_state(ANA, "buffer")
        log.delete_state(ANA, "buffer")
        assert log.get_state(ANA, "buffer") is None
        again = log.set_state(ANA, "buffer", 1, expected=None)
        assert first is not None
        assert again is not None
        assert log.set_state(ANA, "buffer", 2, expected=first.version) is None
        assert log.get_state(ANA, "buffer") == again

    def test_documents_are_kept_apart_by_thread_and_name(self, log: ContractLog) -> None:
        keys = [ThreadKey(user, odd) for odd in ODD_IDS for user in (None, "ana")]
        names = ["buffer", "Buffer", "buffer ", "b%", "🦊"]
        for key in keys:
            for name in names:
                log.set_state(key, name, [key.user_id, key.thread_id, name], expected=None)
        for key in keys:
            for name in names:
                found = log.get_state(key, name)
                assert found is not None
                assert found.value == [key.user_id, key.thread_id, name]
        log.delete_state(LONE, "buffer")
        assert log.get_state(ThreadKey("ana", "s"), "buffer") is not None

    def test_documents_come_back_exactly_and_unshared(self, log: ContractLog) -> None:
        value: dict[str, Any] = {"texts": list(ODD_TEXTS), "n": [1, 1.0, True, None], "$set": {}}
        written = log.set_state(ANA, "buffer", value, expected=None)
        value["n"].append("changed by the writer")
        assert written is not None
        for document in (written, log.get_state(ANA, "buffer"), log.get_state(ANA, "buffer")):
            assert document is not None
            assert are_identical(
                document.value, {"texts": list(ODD_TEXTS), "n": [1, 1.0, True, None], "$set": {}}
            )
            document.value["n"].append("changed by a reader")

    def test_one_document_of_all_threads_of_a_user_is_listed_at_once(
        self, log: ContractLog
    ) -> None:
        if not isinstance(log, StateBatches):
            pytest.skip("lists no documents")
        for key in EVERY_KEY:
            say(log, key, "Hi")
            log.set_state(key, "buffer", [key.user_id, key.thread_id], expected=None)
            log.set_state(key, "other", "no", expected=None)
        say(log, ThreadKey("ana", "none"), "Hi")
        log.delete_state(ANAS_OTHER, "buffer")
        ours = log.list_states("ana", "buffer")
        assert {thread: one.value for thread, one in ours.items()} == {"t1": ["ana", "t1"]}
        assert ours["t1"] == log.get_state(ANA, "buffer")
        lone = {thread: one.value for thread, one in log.list_states(None, "buffer").items()}
        assert lone == {"t1": [None, "t1"], "ana": [None, "ana"]}
        assert log.list_states("nobody", "buffer") == {}
        assert log.list_states("ana", "buffe") == {}

    def test_a_document_is_added_to_many_threads_at_once_where_there_is_none(
        self, log: ContractLog
    ) -> None:
        if not isinstance(log, StateBatches):
            pytest.skip("lists no documents")
        log.set_state(ANA, "buffer", "there before", expected=None)
        log.add_states("ana", "buffer", {"t1": "new", "t2": "new", "Zoë 🦊": {"n": [1]}})
        found = {thread: one.value for thread, one in log.list_states("ana", "buffer").items()}
        assert found == {"t1": "there before", "t2": "new", "Zoë 🦊": {"n": [1]}}
        say(log, LONE, "Hi")
        log.add_states(None, "buffer", {"t1": "nobody's"})
        assert log.list_states(None, "buffer")["t1"] == log.get_state(LONE, "buffer")

    def test_a_document_that_cannot_be_kept_is_refused(self, log: ContractLog) -> None:
        with pytest.raises(InvalidMessageError):
            log.set_state(ANA, "buffer", {"client": object()}, expected=None)
        assert log.get_state(ANA, "buffer") is None

    def test_documents_are_no_entries(self, log: ContractLog) -> None:
        log.set_state(ANA, "buffer", 1, expected=None)
        assert log.entries(ANA) == []
        assert log.threads("ana") == []
        assert log.changes(ANA.owner).entries == ()

    # -- transactions: reading and writing a thread in one go -------------------------------------

    def test_a_document_says_what_is_read_with_it(self, log: ContractLog) -> None:
        at_once = _require_transactions(log)
        one, two, three, four = say_all(log, ANA, ["one", "two", "three", "four"])
        say(log, LONE, "elsewhere")
        written = log.set_state(ANA, _NOTE, [one.position, three.position], expected=None)

        def select_stretches(document: StateDocument | None) -> list[tuple[int, int | None]]:
            assert document is not None
            first, floor = document.value
            return [(first - 1, first), (floor, None)]

        assert at_once.read_thread(ANA, _NOTE, select_stretches) == (written, [one, four])
        all_of_it = at_once.read_thread(ANA, "none", lambda _: [(0, None)])
        assert all_of_it == (None, [one, two, three, four])
        assert at_once.read_thread(ANA, _NOTE, lambda _: []) == (written, [])
        assert at_once.read_thread(LONE, _NOTE, lambda found: [] if found else [(0, 0)]) == (
            None,
            [],
        )

    def test_what_changed_since_is_read_as_it_is(self, log: ContractLog) -> None:
        at_once = _require_transactions(log)

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

    def test_a_plan_sees_what_is_there_and_is_appended(self, log: ContractLog) -> None:
        at_once = _require_transactions(log)
        old = say(log, ANA, HumanMessage("one", id="m1"))
        asked, both = say_all(log, ANA, ["two", HumanMessage("three", id="m3")])
        seen: list[Entry] = []

        def plan(there: Sequence[Entry]) -> list[Draft]:
            seen[:] = there
            return [_make_reply(f"{len(there)} read"), _make_reply("and one more")]

        found = at_once.append_planned(
            ANA, plan, after=old.position, message_ids=["m3", "m1", "unknown"]
        )
        assert seen == [old, asked, both]
        assert list_texts(found) == ["3 read", "and one more"]
        assert log.entries(ANA, after=both.position) == found
        at_once.append_planned(ANA, plan, after=found[0].position)
        assert seen == [found[1]]

    def test_equal_messages_are_planned_once(self, log: ContractLog) -> None:
        at_once = _require_transactions(log)
        [first] = at_once.append_planned(ANA, lambda _: [_make_reply("one", "m1")], after=0)
        assert at_once.append_planned(ANA, lambda _: [_make_reply("one", "m1")], after=0) == [first]
        assert log.entries(ANA) == [first]

    def test_a_plan_that_fails_or_is_empty_writes_no_entry(self, log: ContractLog) -> None:
        at_once = _require_transactions(log)
        asked = say(log, ANA, "one")

        def fail(_: Sequence[Entry]) -> list[Draft]:
            raise ArithmeticError

        note = CacheDraft(_NOTE, [1], None)
        with pytest.raises(ArithmeticError):
            at_once.append_planned(ANA, fail, after=0, documents=[note])
        assert log.get_state(ANA, _NOTE) is None
        assert at_once.append_planned(ANA, lambda _: [], after=0) == []
        assert log.entries(ANA) == [asked]

    def test_caches_are_written_too_if_nobody_was_faster(self, log: ContractLog) -> None:
        at_once = _require_transactions(log)

        def say_with(*documents: CacheDraft) -> None:
            at_once.append_planned(
                ANA, lambda _: [_make_reply("said")], after=0, documents=documents
            )

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
        logs = [_require_transactions(handle) for handle in handles]

        def count(there: Sequence[Entry]) -> list[Draft]:
            return [_make_reply(str(len(there)))]

        with ThreadPoolExecutor(8) as pool:
            for number in range(40):
                pool.submit(logs[number % len(logs)].append_planned, ANA, count, after=0)
        assert list_texts(handles[0].entries(ANA)) == [str(number) for number in range(40)]

    def test_transactions_have_asynchronous_twins(self, log: ContractLog) -> None:
        at_once = _require_transactions(log)
        append = partial(at_once.aappend_planned, ANA, lambda there: [_make_reply(str(len(there)))])

        async def call_all() -> tuple[list[Entry], list[Entry]]:
            [first] = await append(after=0, documents=[CacheDraft(_NOTE, 1, None)])
            [second] = await append(after=0, message_ids=["unknown"])
            document, read = await at_once.aread_thread(ANA, _NOTE, lambda _: [(0, None)])
            assert document is not None
            return [first, second], read

        appended, read = asyncio.run(call_all())
        assert list_texts(appended) == ["0", "1"]
        assert read == appended == log.entries(ANA)

    # -- segments ---------------------------------------------------------------------------------

    def test_segments_are_kept_by_owner_and_fingerprint(self, log: ContractLog) -> None:
        cache = _require_cache(log)
        entries = say_all(log, ANA, ["one", "two"])
        [alone] = say_all(log, LONE, ["three"])
        rows = [
            _make_segment(entries[0]),
            _make_segment(entries[1]),
            _make_segment(entries[1], part=1),
        ]
        cache.save_segments(ANA.owner, "model a", list(reversed(rows)))
        cache.save_segments(ANA.owner, "model b", rows[:1])
        cache.save_segments(LONE.owner, "model a", [_make_segment(alone)])
        assert cache.load_segments(ANA.owner, "model a") == rows
        assert cache.load_segments(ANA.owner, "model a", after=entries[0].position) == rows[1:]
        assert cache.load_segments(ANA.owner, "model b") == rows[:1]
        assert cache.load_segments(LONE.owner, "model a") == [_make_segment(alone)]
        assert cache.load_segments(ANA.owner, "model c") == []
        assert cache.load_segments(Owner(user_id="nobody"), "model a") == []

    def test_rows_are_overwritten_but_no_vector_is_lost(self, log: ContractLog) -> None:
        cache = _require_cache(log)
        entry = say(log, ANA, "one")
        cache.save_segments(ANA.owner, "model", [_make_segment(entry, vector=None)])
        assert cache.load_segments(ANA.owner, "model") == [_make_segment(entry, vector=None)]
        analysed_anew = replace(_make_segment(entry), terms="parks harbours", analysis=7)
        cache.save_segments(ANA.owner, "model", [analysed_anew])
        assert cache.load_segments(ANA.owner, "model") == [analysed_anew]
        cache.save_segments(ANA.owner, "model", [replace(analysed_anew, vector=None)])
        assert cache.load_segments(ANA.owner, "model") == [analysed_anew]

    def test_segments_of_others_or_of_nothing_are_left_out(self, log: ContractLog) -> None:
        cache = _require_cache(log)
        mine, foreign = say(log, ANA, "one"), say(log, BO, "two")
        nothing = StoredSegment(foreign.position + 99, 0, 0, "words", None)
        rows = [_make_segment(foreign), nothing, _make_segment(mine)]
        cache.save_segments(ANA.owner, "model", rows)
        assert cache.load_segments(ANA.owner, "model") == [_make_segment(mine)]
        assert cache.load_segments(BO.owner, "model") == []
        cache.save_segments(Owner(user_id="nobody"), "model", rows)
        assert cache.load_segments(ANA.owner, "model") == [_make_segment(mine)]

    def test_rows_of_a_fingerprint_are_deleted_and_no_others(self, log: ContractLog) -> None:
        cache = _require_cache(log)
        one, two = say_all(log, ANA, ["one", "two"])
        bos = say(log, BO, "three")
        rows = [_make_segment(one), _make_segment(two, vector=None)]
        for fingerprint in ("model b", "model a"):
            cache.save_segments(ANA.owner, fingerprint, rows)
        cache.save_segments(ANA.owner, "words alone", [_make_segment(one, vector=None)])
        cache.save_segments(BO.owner, "model a", [_make_segment(bos)])
        assert cache.segment_fingerprints(ANA.owner) == ["model a", "model b"]
        assert cache.delete_segments(ANA.owner, "model a") == len(rows)
        assert cache.delete_segments(ANA.owner, "model a") == 0
        assert cache.delete_segments(Owner(user_id="nobody"), "model b") == 0
        assert cache.segment_fingerprints(ANA.owner) == ["model b"]
        assert cache.segment_fingerprints(Owner(user_id="nobody")) == []
        assert cache.load_segments(ANA.owner, "model a") == []
        assert cache.load_segments(ANA.owner, "model b") == rows
        assert cache.load_segments(ANA.owner, "words alone") == [_make_segment(one, vector=None)]
        assert cache.load_segments(BO.owner, "model a") == [_make_segment(bos)]

    # -- forgetting -------------------------------------------------------------------------------

    def test_forgetting_a_thread_leaves_the_others(self, log: ContractLog) -> None:
        _fill(log)
        retract(log, ANAS_OTHER, log.entries(ANAS_OTHER)[0].id)
        before = get_now_ms()
        receipt = log.forget(ANAS_OTHER)
        assert _count(receipt) == (3, 1, 1)
        assert before <= receipt.at_ms <= get_now_ms()
        assert _check_remaining(log) == set(EVERY_KEY) - {ANAS_OTHER}
        assert [info.key for info in log.threads("ana")] == [ANA]
        assert _count(log.forget(ANAS_OTHER)) == (0, 0, 0)

    def test_forgetting_a_user_leaves_the_others(self, log: ContractLog) -> None:
        _fill(log)
        assert _count(log.forget(Owner(user_id="ana"))) == (4, 2, 2)
        assert _check_remaining(log) == set(EVERY_KEY) - {ANA, ANAS_OTHER}
        assert log.threads("ana") == []
        assert log.changes(Owner(user_id="ana")).entries == ()
        assert _count(log.forget(Owner(user_id="ana"))) == (0, 0, 0)

    def test_forgetting_a_lone_thread_leaves_the_others(self, log: ContractLog) -> None:
        _fill(log)
        assert _count(log.forget(Owner(thread_id="t1"))) == (2, 1, 1)
        assert _check_remaining(log) == set(EVERY_KEY) - {LONE}
        assert _count(log.forget(ThreadKey(None, "ana"))) == (2, 1, 1)
        assert _check_remaining(log) == set(EVERY_KEY) - {LONE, ThreadKey(None, "ana")}

    def test_forgetting_odd_ids_erases_just_these(self, log: ContractLog) -> None:
        for odd in ODD_IDS:
            say(log, ThreadKey("ana", odd), "thread")
            say(log, ThreadKey(odd, "t1"), "user")
        for number, odd in enumerate(ODD_IDS, start=1):
            assert log.forget(ThreadKey("ana", odd)).entries == 1, odd
            assert log.forget(Owner(user_id=odd)).entries == 1, odd
            assert len(log.changes(ANA.owner).entries) == len(ODD_IDS) - number
        assert _count(log.forget(Owner(user_id="nobody"))) == (0, 0, 0)

    def test_forgetting_entries_leaves_the_rest_of_the_thread(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, ["zero", "one", "two", HumanMessage("three", id="m3"), "four"])
        say(log, ANAS_OTHER, HumanMessage("three", id="m3"))
        receipt = log.forget(ANA, [entries[1].id, "m3", "m4", make_ulid(), "", "%"])
        assert (receipt.entries, receipt.threads) == (2, 0)
        assert log.entries(ANA) == [entries[0], entries[2], entries[4]]
        assert list_texts(log.entries(ANAS_OTHER)) == ["three"]
        assert log.forget(ANA, [entries[1].id, "m3"]).entries == 0
        assert log.forget(ANA, []).entries == 0
        assert say(log, ANA, "five").position > entries[4].position

    def test_forgetting_a_message_erases_every_version(self, log: ContractLog) -> None:
        for text in ("one", "two", "three"):
            say(log, ANA, HumanMessage(text, id="m1"))
        other = say(log, ANA, "other")
        assert log.forget(ANA, ["m1"]).entries == 3
        assert list_texts(log.entries(ANA)) == ["other"]
        assert say(log, ANA, HumanMessage("three", id="m1")).position > other.position
        assert list_live_texts(log, ANA) == ["other", "three"]

    def test_forgetting_an_old_version_leaves_the_new_one_in_its_place(
        self, log: ContractLog
    ) -> None:
        say(log, ANA, "before")
        say_all(log, ANA, [HumanMessage("secret", id="m1"), AIMessage("reply")], turn="turn")
        say(log, ANA, "after")
        say(log, ANA, HumanMessage("harmless", id="m1"))
        assert log.forget(ANA, [log.entries(ANA)[1].id]).entries == 1
        assert list_live_texts(log, ANA) == ["before", "harmless", "reply", "after"]

    def test_a_forgotten_message_can_be_said_anew(self, log: ContractLog) -> None:
        old = say(log, ANA, HumanMessage("Hi", id="m1"))
        log.forget(ANA)
        new = say(log, ANA, HumanMessage("Hi", id="m1"))
        assert log.entries(ANA) == [new]
        assert new.id != old.id
        assert new.position > old.position

    def test_forgetting_entries_deletes_the_caches_of_their_thread(self, log: ContractLog) -> None:
        keys = (ANA, ANAS_OTHER, BO, LONE)
        for key in keys:
            say(log, key, "one")
            for name in (*CACHES, *NO_CACHES):
                log.set_state(key, name, [name], expected=None)
        receipt = log.forget(ANA, [log.entries(ANA)[0].id])
        assert _count(receipt) == (1, 0, len(CACHES))
        assert [name for name in CACHES if log.get_state(ANA, name) is not None] == []
        for key in keys:
            for name in (*NO_CACHES, *(CACHES if key != ANA else ())):
                document = log.get_state(key, name)
                assert document is not None, (key, name)
                assert document.value == [name]
        assert _count(log.forget(ANA)) == (0, 1, len(NO_CACHES))
        assert _count(log.forget(ANAS_OTHER)) == (1, 1, len(CACHES) + len(NO_CACHES))

    def test_caches_go_whatever_ids_are_forgotten(self, log: ContractLog) -> None:
        entry = say(log, ANA, HumanMessage("one", id="m1"))
        for ids in ([], ["unknown"], [make_ulid(), "m2"]):
            old = log.set_state(ANA, "cache:window", 1, expected=None)
            assert old is not None
            assert _count(log.forget(ANA, ids)) == (0, 0, 1)
            assert log.get_state(ANA, "cache:window") is None
            assert log.set_state(ANA, "cache:window", 2, expected=old.version) is None
        assert log.entries(ANA) == [entry]
        log.set_state(ANAS_OTHER, "cache:window", 1, expected=None)
        assert _count(log.forget(ANAS_OTHER, ["m1"])) == (0, 0, 1)
        assert _count(log.forget(ThreadKey("nobody", "t1"), ["m1"])) == (0, 0, 0)

    def test_caches_stay_while_nothing_is_forgotten(self, log: ContractLog) -> None:
        document = log.set_state(ANA, "cache:window", 1, expected=None)
        entry = say(log, ANA, HumanMessage("frist", id="m1"))
        log.annotate(ANA, entry.id, attributes=["seen"])
        say(log, ANA, HumanMessage("first", id="m1"))
        retract(log, ANA, entry.id, reason="cleared")
        log.delete_state(ANA, "buffer")
        assert log.get_state(ANA, "cache:window") == document

    def test_entry_ids_need_their_thread(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")
        with pytest.raises(ConfigError):
            log.forget(ANA.owner, [entry.id])
        with pytest.raises(ConfigError):
            log.forget(ANA, entry.id)  # one text is no collection of ids
        assert log.entries(ANA) == [entry]

    def test_every_forget_raises_the_generation(self, log: ContractLog) -> None:
        seen = [log.changes(ANA.owner).generation]
        entry = say(log, ANA, "one")
        for scope, ids in ((ANA, [entry.id]), (ANAS_OTHER, None), (ANA.owner, None), (ANA, None)):
            say_all(log, ANA, ["one", "two"])
            say(log, ANAS_OTHER, "three")
            before = log.changes(ANA.owner).generation
            assert before == log.changes(ANA.owner).generation
            log.forget(scope, ids)
            seen.append(before)
            assert log.changes(ANA.owner).generation not in seen

    def test_an_owner_who_starts_again_is_not_taken_for_the_one_before(
        self, log: ContractLog
    ) -> None:
        say_all(log, ANA, ["one", "two"])
        before = log.changes(ANA.owner)
        log.forget(ANA.owner)
        say(log, ANA, "anew")
        after = log.changes(ANA.owner)
        assert after.generation != before.generation
        assert list_texts(after.entries) == ["anew"]
        assert list_texts(log.changes(ANA.owner, before.cursor).entries) == ["anew"]

    def test_another_handle_sees_what_was_forgotten(self, open_log: OpenLog) -> None:
        self._require_several_handles()
        here, there = open_log(), open_log()
        entries = say_all(here, ANA, ["one", "two"])
        here.set_state(ANA, "buffer", 1, expected=None)
        assert there.entries(ANA) == entries
        before = there.changes(ANA.owner)
        assert before.entries == tuple(entries)
        here.forget(ANA, [entries[0].id])
        assert there.entries(ANA) == [entries[1]]
        between = there.changes(ANA.owner)
        assert between.generation != before.generation
        there.forget(ANA)
        assert here.entries(ANA) == []
        assert here.get_state(ANA, "buffer") is None
        assert here.changes(ANA.owner).generation not in (before.generation, between.generation)

    def test_forgetting_erases_segments(self, log: ContractLog) -> None:
        cache = _require_cache(log)
        one, two = say_all(log, ANA, ["one", "two"])
        three = say(log, ANAS_OTHER, "three")
        for fingerprint in ("model a", "model b"):
            rows = [
                _make_segment(entry, part=part) for entry in (one, two, three) for part in (0, 1)
            ]
            cache.save_segments(ANA.owner, fingerprint, rows)
        assert log.forget(ANA, [one.id]).segments == 4
        left = cache.load_segments(ANA.owner, "model a")
        assert [row.position for row in left] == [two.position] * 2 + [three.position] * 2
        assert log.forget(ANAS_OTHER).segments == 4
        assert log.forget(ANA.owner).segments == 4
        say(log, ANA, "anew")
        assert cache.load_segments(ANA.owner, "model a") == []

    # -- many callers at once ---------------------------------------------------------------------

    def test_writers_in_threads_lose_nothing(self, log: ContractLog) -> None:
        def write(writer: int) -> None:
            for number in range(TIMES):
                say_all(log, ANA, [f"{writer}-{number} a", f"{writer}-{number} b"])

        _run_at_once(write)
        check_writers(log.entries(ANA))

    def test_writers_on_handles_of_their_own_lose_nothing(self, open_log: OpenLog) -> None:
        self._require_several_handles()
        handles = [open_log() for _ in range(WRITERS)]

        def write(writer: int) -> None:
            for number in range(TIMES):
                say_all(handles[writer], ANA, [f"{writer}-{number} a", f"{writer}-{number} b"])

        _run_at_once(write)
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
        check_writers(read_all_changes(log, ANA.owner, limit=7))
        log.close()

    def test_two_handles_see_each_other(self, open_log: OpenLog) -> None:
        self._require_several_handles()
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

        _run_at_once(write)
        assert sorted(list_texts(log.entries(ANA))) == sorted(f"line {n}" for n in range(TIMES))

    def test_annotations_at_once_lose_nothing(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")

        def write(writer: int) -> None:
            for number in range(TIMES):
                mark = f"{writer}-{number}"
                log.annotate(ANA, entry.id, attributes=[mark], aux={mark: number})

        _run_at_once(write)
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

        _run_at_once(count)
        found = log.get_state(ANA, "count")
        assert found is not None
        assert found.value == WRITERS * TIMES

    # -- asynchronous twins -----------------------------------------------------------------------

    def test_the_asynchronous_twins_do_the_same(self, log: ContractLog) -> None:
        async def run_scenario() -> None:
            entries = await log.aappend(ANA, _make_drafts("one", "two", "three"), durable=False)
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
            assert list_texts(log.entries(ANA)) == ["one", "three"]
            assert (await log.aforget(ANA.owner)).entries == 2
            assert log.entries(ANA) == []
            await log.aclose()
            await log.aclose()
            with pytest.raises(LogClosedError):
                await log.aentries(ANA)
            with pytest.raises(LogClosedError):
                await log.afind(ANA, ["m1"])
            await log.aclose()

        asyncio.run(run_scenario())

    def test_other_tasks_run_while_entries_are_appended(self, log: ContractLog) -> None:
        appends = 50

        async def run_scenario() -> int:
            ticks = 0

            async def count_ticks() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticker = asyncio.create_task(count_ticks())
            for number in range(appends):
                await log.aappend(ANA, _make_drafts(f"line {number}"))
            ticker.cancel()
            return ticks

        assert asyncio.run(run_scenario()) >= appends // 2
        assert list_texts(log.entries(ANA)) == [f"line {number}" for number in range(appends)]

    def test_tasks_at_once_lose_nothing(self, log: ContractLog) -> None:
        async def write(writer: int) -> None:
            for number in range(TIMES):
                await log.aappend(ANA, _make_drafts(f"{writer}-{number} a", f"{writer}-{number} b"))

        async def run_scenario() -> None:
            await asyncio.gather(*(write(writer) for writer in range(WRITERS)))

        asyncio.run(run_scenario())
        check_writers(log.entries(ANA))

    # -- large things -----------------------------------------------------------------------------

    def test_a_long_thread_comes_back_whole(self, log: ContractLog) -> None:
        said = [f"{number} " + "ab汉 " * 999 for number in range(350)]
        say_all(log, ANA, said[:300])
        say_all(log, ANA, said[300:])
        assert sum(len(text.encode()) for text in said) > 1_400_000
        assert list_texts(log.entries(ANA)) == said
        assert list_texts(log.entries(ANA, last=2)) == said[-2:]
        assert list_texts(log.changes(ANA.owner).entries) == said

    def test_a_message_of_five_megabytes_comes_back_whole(self, log: ContractLog) -> None:
        large = "0123456789abcdef" * (5 * 1024 * 1024 // 16)
        say_all(log, ANA, ["before", AIMessage(large, id="large"), "after"])
        say(log, ANA, AIMessage(large, id="large"))
        assert list_texts(log.entries(ANA)) == ["before", large, "after"]


# -- Speaking to a log ----------------------------------------------------------------------------


def say(log: MessageLog, key: ThreadKey, message: BaseMessage | str) -> Entry:
    """Append one message, a text as the user's."""
    [entry] = say_all(log, key, [message])
    return entry


def say_all(
    log: MessageLog, key: ThreadKey, messages: Sequence[BaseMessage | str], *, turn: str = ""
) -> list[Entry]:
    """Append one batch of messages, texts as the user's."""
    whole = [HumanMessage(item) if isinstance(item, str) else item for item in messages]
    return log.append(key, [make_draft(message, turn_id=turn or None) for message in whole])


def retract(log: MessageLog, key: ThreadKey, *ids: str, reason: RetractReason = "undo") -> Entry:
    """Append a control entry."""
    [entry] = log.append(key, [Draft(role="control", control=Control(ids, reason))])
    return entry


def read_all_changes(log: ContractLog, owner: Owner, *, limit: int) -> list[Entry]:
    """Return everything after the cursor 0, a page at a time."""
    found: list[Entry] = []
    cursor = 0
    while (page := log.changes(owner, cursor, limit=limit)).entries:
        assert len(page.entries) <= limit
        assert page.cursor > cursor
        found.extend(page.entries)
        cursor = page.cursor
    assert page.cursor == cursor
    return found


def list_texts(entries: Sequence[Entry]) -> list[str]:
    """Return the messages' texts, control entries left out."""
    return [str(entry.message.content) for entry in entries if entry.message is not None]


def list_live_texts(log: MessageLog, key: ThreadKey) -> list[str]:
    """Return the texts that the views show."""
    return list_texts(find_live_entries(log.entries(key)))


def check_writers(entries: Sequence[Entry], *, writers: int = WRITERS, times: int = TIMES) -> None:
    """Assert that `writers` lost nothing of their batches `w-n a`, `w-n b` and kept their order."""
    said = list_texts(entries)
    for writer in range(writers):
        mine = [text for text in said if text.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{n} {half}" for n in range(times) for half in "ab"]
    assert len(said) == writers * times * 2
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    assert len({entry.id for entry in entries}) == len(entries)
    for first, second in zip(said[::2], said[1::2], strict=True):
        assert first[:-1] == second[:-1], "another writer came between the messages of a batch"


def _make_drafts(*said: str) -> list[Draft]:
    return [make_draft(HumanMessage(text)) for text in said]


def _make_reply(text: str, message_id: str | None = None) -> Draft:
    return make_draft(AIMessage(text, id=message_id))


def _select_controls(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.control is not None]


def _build_nested(levels: int) -> list[object]:
    inner: list[object] = []
    for _ in range(levels - 1):
        inner = [inner]
    return inner


def _run_at_once(work: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(work, writer) for writer in range(WRITERS)]:
            done.result()


def _write_from_another_process(make: OpenLog, together: Barrier, writer: int) -> None:
    log = make()
    together.wait()
    for number in range(TIMES):
        say_all(log, ANA, [f"{writer}-{number} a", f"{writer}-{number} b"])
    log.close()


def _fill(log: ContractLog) -> None:
    for key in EVERY_KEY:
        say_all(log, key, [f"{key} one", f"{key} two"])
        log.set_state(key, "buffer", [1], expected=None)


def _check_remaining(log: ContractLog) -> set[ThreadKey]:
    """Return the threads of which everything is left; fails where one is left in part."""
    whole = set()
    for key in EVERY_KEY:
        parts = (len(log.entries(key)), log.get_state(key, "buffer") is not None)
        assert parts in ((2, True), (0, False)), key
        if parts == (2, True):
            whole.add(key)
    return whole


def _count(receipt: ForgetReceipt) -> tuple[int, int, int]:
    return receipt.entries, receipt.threads, receipt.documents


# -- Optional abilities ---------------------------------------------------------------------------


def _require_listing(log: ContractLog) -> OwnerListing:
    if not isinstance(log, OwnerListing):
        pytest.skip("declared: cannot list its owners")
    return log


def _require_transactions(log: ContractLog) -> ThreadTransactions:
    if not isinstance(log, ThreadTransactions):
        pytest.skip("declared: reads and writes call by call")
    return log


def _require_cache(log: ContractLog) -> SegmentCache:
    if not isinstance(log, SegmentCache):
        pytest.skip("declared: keeps no segments")
    return log


def _make_segment(
    entry: Entry, terms: str = "park", *, part: int = 0, vector: bytes | None = b"\x00<"
) -> StoredSegment:
    return StoredSegment(entry.position, part, 0, terms, vector)


# -- What a log must keep exactly, and how to compare it ------------------------------------------

ODD_IDS = (
    "s",
    "s2",
    "S",
    "s ",
    " s",
    "s#x",
    "s/x",
    "s%",
    "%",
    "_",
    "*",
    "'s'; --",
    "ana@example.org",
    "ana@example.com",
    "café",
    "cafe\u0301",
    "🦊",
    "s\x00x",
    "s\n",
)
"""Ids that careless keys, patterns or comparisons take for one another."""

ODD_MESSAGE_IDS = (
    "m1",
    "M1",
    "m1 ",
    " m1",
    "m%",
    "m_",
    "m#2",
    "é",
    "e\u0301",
    "m\x00",
    "m\n",
    "'m'; --",
    "\ud800",
    "😀",
)
"""Ids of messages that are told apart; unlike those of users and threads, any text is one."""

ODD_TEXTS = (
    "",
    " ",
    "  two before, three behind   ",
    "tabs\tand\r\nlines\n\n",
    "a NUL \x00 inside",
    "'single', \"double\", `back` and \\ strokes",
    "{braces} {{doubled}} %s %(name)s ${shell}",
    '{"$bytes": "bG9vaw=="}',
    "null",
    "1e400",
    "emoji 🦊👩‍👩‍👧 and 汉字かな한글",
    "right to left: שלום",
    "combining e\u0301, not é",
    "a lone surrogate \ud83d inside",
    "two halves \ud83d\ude00 side by side",
    "\u2028 line separator, BOM \ufeff, escape \x1b[31m",
)
"""Texts that come back changed from a log that trims, escapes, normalises or interprets."""


def _make_call(call_id: str) -> dict[str, Any]:
    return {"name": "weather", "args": {"city": "Genoa", "days": 2}, "id": call_id}


def _make_values() -> dict[str, Any]:
    return {
        "bytes": b"\x00\xff raw",
        "tuple": (1, ("nested", [2.5])),
        "set": {"b", "a", 3},
        "sets": frozenset({frozenset({1, 2}), frozenset()}),
        "datetime": datetime(2026, 9, 3, 18, 20, 0, 123456, tzinfo=UTC),
        "offset": datetime(2026, 9, 3, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        "naive": datetime(2026, 9, 3, 18, 20),  # noqa: DTZ001 - kept as it is, without a zone
        "date": date(2026, 9, 3),
        "decimal": Decimal("1.10"),
        "nan": float("nan"),
        "infinity": float("-inf"),
        "negative zero": -0.0,
        "whole float": 1.0,
        "huge": 2**70,
        "true": True,
        "none": None,
        "empty": [{}, [], (), set(), ""],
    }


def _make_dollar_keys() -> dict[str, Any]:
    return {
        "bytes": {"$bytes": "bG9vaw=="},
        "set": {"$set": [1, 1]},
        "map": {"$map": [["$map", 1]]},
        "deep": {"$ref": {"$ref": {"$tuple": None}}},
        "several": {"$set": [1], "$tuple": [2]},
        "bare": {"$": 0},
        "unknown": {"$points": "x"},
    }


def _make_stripped_reply() -> AIMessage:
    raw = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    message = AIMessage("Never mind.", additional_kwargs={"tool_calls": [raw]})
    message.tool_calls = []
    return message


SAMPLE_MESSAGES: dict[str, Callable[[], BaseMessage]] = {
    "human": lambda: HumanMessage("Where did I park?"),
    "human with everything": lambda: HumanMessage(
        "Behind the harbour.",
        id="h-1",
        name="Ana María",
        additional_kwargs={"timestamp": "2026-09-03T18:20:00+02:00", "session": 4},
        response_metadata={"seen": True},
    ),
    "human with fields of its own": lambda: HumanMessage("Hm.", mood="calm", marks=[1, {"a": 2}]),
    "human of several texts": lambda: HumanMessage(["one", {"type": "text", "text": "two"}, " "]),
    "human with media": lambda: HumanMessage(
        [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "image", "source_type": "base64", "data": "AAEC", "mime_type": "image/png"},
            {"type": "file", "file": {"bytes": b"%PDF-1.7\x00"}},
            {"type": "image", "url": "data:image/png;base64,AAEC", "extras": {"detail": None}},
        ]
    ),
    "system": lambda: SystemMessage("Answer briefly.", additional_kwargs={"cache": {"ttl": 300}}),
    "ai": lambda: AIMessage(
        "Behind the harbour.",
        id="lc_run--0197-0",
        usage_metadata={
            "input_tokens": 9,
            "output_tokens": 4,
            "total_tokens": 13,
            "input_token_details": {"cache_read": 3},
        },
        response_metadata={"model_name": "m", "finish_reason": "stop", "logprobs": None},
    ),
    "ai with parallel calls": lambda: AIMessage(
        "", tool_calls=[_make_call("c1"), _make_call("c2"), {**_make_call(""), "id": None}]
    ),
    "ai with broken calls": lambda: AIMessage(
        "",
        tool_calls=[_make_call("c1")],
        invalid_tool_calls=[
            {"name": "weather", "args": '{"city": ', "id": "c2", "error": "unfinished"}
        ],
    ),
    "ai with blocks": lambda: AIMessage(
        [
            {"type": "reasoning", "reasoning": "The harbour was named.", "signature": "c2ln"},
            {"type": "text", "text": "Let me look.", "annotations": [{"start": 0, "end": 3}]},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Genoa"}},
        ],
        tool_calls=[_make_call("c1")],
    ),
    "ai whose calls were taken out": _make_stripped_reply,
    "tool": lambda: ToolMessage("22 °C", tool_call_id="c1", name="weather"),
    "failed tool with an artifact": lambda: ToolMessage(
        [{"type": "text", "text": "no such city"}],
        tool_call_id="c2",
        status="error",
        artifact=_make_values(),
        id="t-1",
    ),
    "values beyond JSON": lambda: HumanMessage("x", additional_kwargs=_make_values()),
    "keys that start with a dollar": lambda: HumanMessage(
        "x", additional_kwargs=_make_dollar_keys()
    ),
    "a key of halves": lambda: HumanMessage("x", additional_kwargs={"\ud83d\ude00": "\ud83d"}),
    "chat": lambda: ChatMessage(content="Enter Ophelia.", role="narrator"),
    "function": lambda: FunctionMessage(content="22", name="weather"),
    "human chunk": lambda: HumanMessageChunk(content="Whe"),
    "system chunk": lambda: SystemMessageChunk(content="Answ"),
    "chat chunk": lambda: ChatMessageChunk(content="Ent", role="narrator"),
    "function chunk": lambda: FunctionMessageChunk(content="2", name="weather"),
    "tool chunk": lambda: ToolMessageChunk(content="2", tool_call_id="c1", artifact=b"\x00"),
    "ai chunk": lambda: AIMessageChunk(
        content="Beh", id="lc_run--0197", response_metadata={"n": 1}
    ),
    "ai chunk with half a call": lambda: AIMessageChunk(
        content="",
        tool_call_chunks=[
            {"name": "weather", "args": '{"city": "Gen', "id": "c1", "index": 0},
            {"name": None, "args": "[1", "id": None, "index": 1},
        ],
    ),
    "last ai chunk": lambda: AIMessageChunk(
        content=[{"type": "server_tool_call_chunk", "id": "s1", "args": "{}", "index": 0}],
        chunk_position="last",
        response_metadata={"output_version": "v1"},
    ),
}
"""A fresh message by name: every type and chunk, with every kind of field and value."""


def are_identical(first: Any, second: Any) -> bool:
    """Return whether two values agree in every type and every value.

    Stricter than `==`, which takes True for 1 and 1.0, and no NaN for another.
    """
    if type(first) is not type(second):
        return False
    if isinstance(first, BaseMessage):
        return are_identical(first.__dict__, second.__dict__) and are_identical(
            first.__pydantic_extra__ or {}, second.__pydantic_extra__ or {}
        )
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            are_identical(value, second[key]) for key, value in first.items()
        )
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(are_identical, first, second))
    if isinstance(first, float):
        return repr(first) == repr(second)
    return bool(first == second)
