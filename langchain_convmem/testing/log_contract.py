"""`MessageLogContract`: what every message log promises, as tests.

A backend subclasses it in its own tests and opens its log::

    class TestMyLog(MessageLogContract):
        persistent = True
        several_handles = True
        several_processes = True

        def make_log(self, tmp_path):
            return partial(MyLog, tmp_path / "log")

What can be told by value stands in tables (`APPENDS`, `FORGETS`, `REFUSED_CALLS`, ...). Below the
class stand the samples that a log must keep exactly and the small functions that speak to a log;
tests of a backend's own may use both.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from itertools import cycle, product
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.errors import (
    ConfigError,
    InvalidMessageError,
    LogClosedError,
    LogError,
)
from langchain_convmem.ids import get_now_ms, get_ulid_ms, is_ulid, make_ulid
from langchain_convmem.logs.verify import Finding, VerifyReport, verify_log
from langchain_convmem.message_log import MessageLog, ReadPlan
from langchain_convmem.records import (
    Control,
    Cover,
    Draft,
    Entry,
    ForgetReceipt,
    Metadata,
    Owner,
    RetractReason,
    StateDocument,
    Stretch,
    ThreadKey,
)
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import find_live_entries, merge_entries

ANA = ThreadKey("ana", "t1")
ANAS_OTHER = ThreadKey("ana", "t2")
BO = ThreadKey("bo", "t1")
LONE = ThreadKey(None, "t1")
LONE_ANA = ThreadKey(None, "ana")
NOBODY = ThreadKey("nobody", "t1")
EVERY_KEY = (ANA, ANAS_OTHER, BO, LONE, LONE_ANA, ThreadKey("t1", "t1"))

WRITERS = 4
TIMES = 25

_HUGE = 10**30
_NOTE = "cache:note"
_CACHES = ("cache:window", "cache:", "cache:Zoë 🦊 #%\\ ", "cache:cache:", f"cache:{'long' * 200}")
_OTHERS = ("buffer", "cache", "cache;", "caches:", "Cache:x", " cache:x", "my cache:x", "cach_:")


OpenLog: TypeAlias = Callable[[], MessageLog]
"""Opens a handle on the storage of the running test; closed when the test ends."""
Ask: TypeAlias = Callable[[MessageLog], object]
"""Makes one call."""


class Handles:
    """A log whose calls go to handles on one storage in turn."""

    def __init__(self, *handles: MessageLog) -> None:
        self.log = handles[0]
        self._handles = cycle(handles)

    def __getattr__(self, name: str) -> Any:
        return getattr(next(self._handles), name)


# -- tables: what goes in, what comes out ---------------------------------------------------------

APPENDS = (
    ("an empty batch does nothing", "", "", "", 0),
    ("an equal message is stored once", "Hi#m1 Ho", "Hi#m1", "Hi Ho", 2),
    ("within a batch, too", "", "a Hi#m1 b Hi#m1", "a Hi b", 3),
    ("messages without ids are all kept", "Yes Yes", "Yes", "Yes Yes Yes", 3),
    ("an empty id is no id", "one#", "one# two#", "one one two", 3),
    ("another payload takes the place", "frist#m1 reply last", "first#m1", "first reply last", 5),
    ("as often as it comes", "one#m1 reply two#m1", "three#m1 one#m1", "one reply", 8),
)
"""What a case shows, messages there, messages appended, live texts and number of entries after."""

FORGETS: tuple[tuple[Owner | ThreadKey, list[str] | None, tuple[int, int, int]], ...] = (
    (ANA, None, (4, 1, 2)),
    (ANA.owner, None, (8, 2, 4)),
    (LONE.owner, None, (4, 1, 2)),
    (LONE_ANA, None, (4, 1, 2)),
    (NOBODY.owner, None, (0, 0, 0)),
    (NOBODY, ["m1"], (0, 0, 0)),
    (ANA, ["m1"], (2, 0, 1)),
    (ANAS_OTHER, [], (0, 0, 1)),
    (BO, ["M1", "m", "", "%", "0" * 26], (0, 0, 1)),
)
"""Scope and ids; how many entries, threads and documents go, of threads as `_fill` makes them."""

REFUSED_CALLS: tuple[Ask, ...] = (
    lambda log: log.threads(""),
    lambda log: log.threads("\ud800"),
    lambda log: log.find(ANA, "m1"),
    lambda log: log.forget(ANA, "m1"),
    lambda log: log.forget(ANA.owner, ["m1"]),
)
"""What would be taken for something else: an id that no user has, a text for ids, ids of nobody."""

CLOSED_CALLS: tuple[Ask, ...] = (
    lambda log: log.append(ANA, [make_draft(human("more"))]),
    lambda log: log.append(ANA, []),
    lambda log: log.entries(ANA),
    lambda log: log.entries(ANA, after=2, until=1),
    lambda log: log.find(ANA, ["m1"]),
    lambda log: log.find(ANA, []),
    lambda log: log.annotate(ANA, make_ulid(), attributes=["late"]),
    lambda log: log.threads("ana"),
    lambda log: log.owners(),
    lambda log: log.changes(ANA.owner),
    lambda log: log.forget(ANA),
    lambda log: log.get_state(ANA, "buffer"),
    lambda log: log.set_state(ANA, "buffer", [], expected=None),
    lambda log: log.delete_state(ANA, "buffer"),
)
"""Each method, and what asks nothing of the storage: a closed log answers none."""


class ReadingPlan:
    """Reads stretches until there are so many entries; see `MessageLog.read_back`."""

    def __init__(self, stretches: Sequence[Stretch], least: int, *named: str) -> None:
        self.stretches, self.least, self.named = stretches, least, named
        self.framing: Sequence[Entry] = ()

    def find_stretches(self, framing: Sequence[Entry]) -> Sequence[Stretch]:
        """Return the stretches; they are asked for after the ids, of the same entries."""
        assert self.framing == framing
        return self.stretches

    def find_named(self, framing: Sequence[Entry]) -> Collection[str]:
        """Return the ids, whatever there is."""
        self.framing = framing
        return self.named

    def is_enough(self, page: Sequence[Entry]) -> bool:
        """Return whether there are as many as wanted."""
        return len(page) >= self.least


def read_backwards(entries: Sequence[Entry], plan: ReadPlan, *, page: int) -> list[Entry]:
    """Return what a log that reads a thread backwards returns, given all of its entries."""
    framing = [entry for entry in entries if entry.role in ("system", "summary", "control")]
    ids = plan.find_named(framing)
    named = [entry for entry in entries if entry.message_id in ids]
    found: list[Entry] = []
    size = page
    for after, until in reversed(plan.find_stretches(framing)):
        rest = [one for one in entries if after < one.position <= (until or one.position)]
        has_more = True
        while has_more:
            has_more = len(rest) >= size
            rest, found, size = rest[:-size], [*rest[-size:], *found], 2 * size
            if has_more and plan.is_enough(found):
                return merge_entries(framing, named, found)
    return merge_entries(framing, named, found)


class MessageLogContract(ABC):
    """The tests for message logs; define `make_log` and declare what the log can do.

    What a log does not declare is skipped, and the skip says so.

    Attributes:
        persistent: Entries outlive the handle: a closed log can be opened again.
        several_handles: Each call of what `make_log` returns opens another handle on the same
            storage, as another process would. Without it, every call returns the same log.
        several_processes: Other processes may write to the storage at the same time; what
            `make_log` returns can be sent to them.
        alterations: Ways to alter a stored entry behind the log's back, for `alter`; of a log that
            notices, as by a checksum. Other logs declare none.
        removals: Ways to take a stored entry away; of a log that counts what is missing.
    """

    persistent: ClassVar[bool] = False
    several_handles: ClassVar[bool] = False
    several_processes: ClassVar[bool] = False
    alterations: ClassVar[Sequence[str]] = ()
    removals: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def make_log(self, tmp_path: Path) -> OpenLog:
        """Return a function that opens a handle on one storage, the same at every call.

        With `several_processes` it is called in other processes too, so it must be one that can be
        sent there: a `functools.partial` of something a module names, not a lambda.

        Args:
            tmp_path: An empty directory of the running test.
        """

    def alter(self, how: str, position: int) -> None:
        """Change an entry in the storage that `make_log` opened, without the log.

        Args:
            how: One of `alterations` or `removals`.
            position: Of the entry; one user has it.
        """
        raise NotImplementedError

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a backend that rewrites a promise instead of keeping it."""
        super().__init_subclass__(**kwargs)
        names = sorted(name for name in vars(cls) if name.startswith("test_"))
        redefined = [name for name in names if hasattr(MessageLogContract, name)]
        if redefined:
            msg = f"{cls.__name__} overrides {', '.join(redefined)} of the contract; fix the log"
            raise TypeError(f"{msg}, or declare what it cannot do with a flag")

    @pytest.fixture
    def open_log(self, tmp_path: Path) -> Iterator[OpenLog]:
        """Open handles on one storage; they are closed at the end."""
        make = self.make_log(tmp_path)
        with ExitStack() as opened:
            yield lambda: opened.enter_context(closing(make()))

    @pytest.fixture
    def log(self, open_log: OpenLog) -> MessageLog:
        """Return a log that holds nothing."""
        return open_log()

    @pytest.fixture
    def either(self, open_log: OpenLog) -> Any:
        """Return two handles that are asked in turn."""
        return Handles(open_log(), open_log())

    # -- appending, and what comes back -----------------------------------------------------------

    def test_every_message_comes_back_exactly(self, open_log: OpenLog) -> None:
        log = open_log()
        said = [*SAMPLES, *map(HumanMessage, ODD_TEXTS), *map(AIMessage, ODD_TEXTS)]
        for number, message in enumerate(said):
            log.append(ANA, [make_draft(message)], durable=number % 2 == 0)
        named = [one.model_copy(update={"id": f"id {n}"}) for n, one in enumerate(said)]
        for _ in range(2):
            say_all(log, ANA, named)
        ids = [entry.id for entry in log.entries(ANA)]
        if self.persistent:
            log.close()
            log = open_log()
        assert are_identical([entry.message for entry in log.entries(ANA)], [*said, *named])
        assert [entry.id for entry in log.entries(ANA)] == ids
        assert say(log, ANA, "more").position > log.entries(ANA)[-2].position

    def test_everything_of_a_draft_comes_back(self, either: MessageLog) -> None:
        aux, times = {"note": ("x", b"y"), "$set": None}, {"creation": 5, "llmStart": 7}
        metadata = Metadata(("fake", "merged", "merged"), times, ("a", "b"), aux)
        cover = Cover(((1, 4), (7, 9)), "digest", "model", "v2")
        drafts = [
            Draft(role="user", message=human("Hi"), contents=("Hi",), turn_id=make_ulid()),
            Draft(role="assistant", message=AIMessage("Ho"), contents=("H", "o"), turn_id="turn 7"),
            Draft(role="summary", contents=("They greeted.",), metadata=metadata, cover=cover),
            Draft(role="control", control=Control(("x", "y"), "rewind", "z")),
        ]
        entries = either.append(ANA, drafts)
        assert entries == either.entries(ANA)
        for draft, entry in zip(drafts, entries, strict=True):
            kept = (draft.role, draft.message, draft.contents, draft.control, draft.cover)
            assert (entry.role, entry.message, entry.contents, entry.control, entry.cover) == kept
            assert (entry.key, entry.turn_id) == (ANA, draft.turn_id or entry.id)
        assert entries[2].metadata == metadata
        assert are_identical(entries[2].metadata.aux, aux)

    def test_entries_stand_in_order_and_know_when_they_were_made(self, log: MessageLog) -> None:
        entries: list[Entry] = []
        for number, size in enumerate([3] * 12 + [120]):
            entries += say_all(log, ANA, [f"{number} {place}" for place in range(size)])
        assert log.entries(ANA) == entries
        check_places(entries)
        assert all(is_ulid(entry.id) for entry in entries)
        assert entries[0].metadata.timing == {"creation": get_ulid_ms(entries[0].id)}

    def test_what_cannot_be_kept_is_refused_and_leaves_nothing(self, either: MessageLog) -> None:
        unfinished = AIMessage("x", id="m1")
        unfinished.tool_calls = [{"name": "weather"}]  # type: ignore[typeddict-item]  # the point
        bad = (human("x", deep=_nest(500)), unfinished)
        before = say_all(either, ANA, [human("before", deep=_nest(80))])
        for message, key in product(bad, (ANA, LONE)):
            with pytest.raises(InvalidMessageError):
                say_all(either, key, ["good", message, "good"])
        with pytest.raises(InvalidMessageError, match="client"):
            either.annotate(ANA, before[0].id, aux={"client": object()})
        with pytest.raises(InvalidMessageError):
            either.set_state(ANA, "buffer", {"client": object()}, expected=None)
        assert [entry for key in EVERY_KEY for entry in either.entries(key)] == before
        assert read_state(either, ANA, "buffer") == (None, None)

    def test_nothing_is_shared_with_the_caller(self, log: MessageLog) -> None:
        def spoil(one: Any, value: Any) -> None:
            parts = (*one.message.content, one.message.additional_kwargs, one.metadata.aux, value)
            assert [part["list"] for part in parts] == [[1]] * 4
            for part in parts:
                part["list"].append(2)

        message = AIMessage([{"list": [1]}], additional_kwargs={"list": [1]})
        draft = Draft(role="assistant", message=message, metadata=Metadata(aux={"list": [1]}))
        value = {"list": [1]}
        [entry] = log.append(ANA, [draft])
        log.set_state(ANA, "buffer", value, expected=None)
        spoil(draft, value)
        for read in (log.entries, lambda _: log.changes(ANA.owner).entries, log.entries):
            spoil(entry, read_state(log, ANA, "buffer")[0])
            [entry] = read(ANA)
        spoil(entry, read_state(log, ANA, "buffer")[0])

    def test_what_would_be_taken_for_something_else_is_refused(self, either: MessageLog) -> None:
        entry = say(either, ANA, human("Hi", "m1"))
        for call in REFUSED_CALLS:
            with pytest.raises(ConfigError):
                call(either)
        assert either.entries(ANA) == [entry]

    def test_odd_names_are_kept_apart(self, log: MessageLog) -> None:
        keys = [ThreadKey(user, odd) for user in (None, "ana") for odd in ODD_IDS]
        keys += [ThreadKey(odd, "s") for odd in ODD_IDS]
        entries = {key: say(log, key, "Hi") for key in keys}
        for key in keys:
            log.set_state(key, "buffer", repr(key), expected=None)
        assert sorted(map(repr, log.owners())) == sorted({repr(key.owner) for key in keys})
        for number, key in enumerate(keys):
            assert log.entries(key) == [entries[key]], key
            assert read_state(log, key, "buffer")[0] == repr(key)
            assert _count(log.forget(key)) == (1, 1, 1), key
            left = [entries[other] for other in keys[number + 1 :] if other.owner == key.owner]
            assert sort_entries(log.changes(key.owner).entries) == sort_entries(left), key

    # -- appending what is there already: a message's own id is its key within its thread ---------

    def test_a_messages_own_id_is_its_key(self, either: MessageLog) -> None:
        for name, there, appended, live, stored in APPENDS:
            key = ThreadKey("ana", name)
            say_all(either, key, talk(there))
            returned = say_all(either, key, talk(appended))
            entries = either.entries(key)
            assert (list_live_texts(either, key), len(entries)) == (live.split(), stored), name
            assert list_texts(returned) == [message.text for message in talk(appended)], name
            assert all(entry in entries for entry in returned), name
            check_places(entries)
            if appended.endswith("#m1"):
                assert say_all(either, key, talk(appended)[-1:]) == returned[-1:], name
                assert either.entries(key) == entries, name

    def test_an_id_of_two_roles_is_refused(self, either: MessageLog) -> None:
        say(either, ANA, human("Who?", "m1"))
        for texts in (
            [AIMessage("Bo", id="m1")],
            [human("When?", "m2"), AIMessage("Now", id="m2")],
        ):
            with pytest.raises(InvalidMessageError, match=r"'m\d' is the id .* 'user'"):
                say_all(either, ANA, texts)
        assert list_live_texts(either, ANA) == ["Who?"]

    def test_what_replaces_a_message_is_marked_and_in_its_turn(self, log: MessageLog) -> None:
        old, _ = say_all(log, ANA, [human("frist", "m1"), AIMessage("reply")], turn="turn 1")
        unnamed = say(log, ANA, "frist")
        copies = build_context(log.entries(ANA)).messages
        assert [one.id for one in say_all(log, ANA, copies)] == [one.id for one in log.entries(ANA)]
        for stands, message_id in ((old, "m1"), (unnamed, unnamed.id)):
            new = say(log, ANA, human("first", message_id))
            mark = log.entries(ANA)[-2]
            assert mark.control == Control((stands.id,), "replaced", new.id)
            assert stands.position < mark.position < new.position
            assert (new.turn_id, new.id != stands.id) == (stands.turn_id, True)
        for value in (True, 1, 1.0):
            new = say(log, ANA, human("x", "m1", value=value, more=2))
        assert say(log, ANA, human("x", "m1", more=2, value=1.0)) == new
        live = find_live_entries(log.entries(ANA))
        assert are_identical(live[0].message, human("x", "m1", value=1.0, more=2))
        assert list_texts(live) == ["x", "reply", "first"]

    def test_a_retracted_message_can_be_added_again(self, log: MessageLog) -> None:
        message = human("Hi", "m1")
        first = say(log, ANA, message)
        undo = retract(log, ANA, first.id)
        second = say(log, ANA, message)
        assert second.id != first.id
        assert say(log, ANA, message) == second
        assert list_live_texts(log, ANA) == ["Hi"]
        retract(log, ANA, second.id)
        retract(log, ANA, undo.id, reason="rewind")
        assert say(log, ANA, message) == first, "undone undo: the first one counts again"
        say(log, ANA, human("new", undo.id))
        assert list_live_texts(log, ANA) == ["Hi", "new"], "a control entry is no message"

    # -- reading ----------------------------------------------------------------------------------

    def test_a_range_is_the_latest_between_its_ends(self, either: MessageLog) -> None:
        entries = say_all(either, ANA, talk("0 1 2 3"))
        between = say(either, ANAS_OTHER, "elsewhere")
        entries += [*say_all(either, ANA, talk("4 5 6 7")), retract(either, ANA, entries[0].id)]
        bounds = [-_HUGE, entries[1].position, between.position, entries[5].position, _HUGE]
        for after, until, last in product([0, *bounds], [None, *bounds], [None, 0, 2, _HUGE]):
            inside = [one for one in entries if after < one.position <= (until or _HUGE)]
            expected = inside if last is None else inside[max(0, len(inside) - last) :]
            found = either.entries(ANA, after=after, until=until, last=last)
            assert found == expected, (after, until, last)
        everything = tuple(sort_entries([*entries, between]))
        assert either.changes(ANA.owner, -_HUGE, limit=_HUGE).entries == everything
        assert either.changes(ANA.owner, _HUGE).entries == ()

    def test_messages_are_found_by_their_ids(self, either: MessageLog) -> None:
        own, none, empty = say_all(either, ANA, talk("own#m1 none empty#"))
        [summary] = either.append(ANA, [Draft(role="summary", contents=("They spoke.",))])
        others = {key: say_all(either, key, talk("own#m1 more")) for key in EVERY_KEY[1:]}
        noted = either.annotate(ANA, own.id, attributes=["seen"])
        undo = retract(either, ANA, none.id)
        new = say(either, ANA, human("new", "m1"))
        for ids, found in (
            (["m1"], [noted, new]),
            ((none.id, "m1", "m1", "unknown", ""), [noted, none, new]),
            ({summary.id, empty.id}, [empty, summary]),
            ([own.id, undo.id, others[BO][1].id, "M1", "m", "m1 ", "%"], []),
            ([], []),
        ):
            assert either.find(ANA, ids) == found, ids
        for key, (named, more) in others.items():
            assert either.find(key, ["m1", more.id, none.id]) == [named, more]
        assert either.find(NOBODY, ["m1", none.id]) == []

    def test_ids_of_messages_are_compared_exactly(self, log: MessageLog) -> None:
        ids = [*ODD_MESSAGE_IDS, *(f"number {number}" for number in range(250))]
        said = [human(f"text of {own!r}", own) for own in ids]
        entries = say_all(log, ANA, said)
        assert are_identical([entry.message for entry in log.find(ANA, ids[::-1])], said)
        for own, entry in zip(ODD_MESSAGE_IDS, entries, strict=False):
            assert log.find(ANA, [own]) == [entry], own
        assert say_all(log, ANA, said) == log.entries(ANA) == entries

    def test_threads_and_owners_are_listed(self, either: Any) -> None:
        entries = {key: say(either, key, "Hi") for key in (BO, LONE, LONE_ANA, ANA, ANAS_OTHER)}
        either.append(NOBODY, [])
        either.set_state(NOBODY, "buffer", 1, expected=None)
        assert [info.key for info in either.threads("ana")] == [ANAS_OTHER, ANA]
        retract(either, ANA, entries[ANA].id)
        times = sorted(get_ulid_ms(entry.id) for entry in either.entries(ANA))
        latest, earlier = either.threads("ana")
        assert (latest.key, latest.entries, earlier.key) == (ANA, 2, ANAS_OTHER)
        assert [latest.first_ms, latest.last_ms] == [times[0], times[-1]]
        assert {info.key for info in either.threads(None)} == {LONE, LONE_ANA}
        assert either.threads("nobody") == either.threads("t1") == either.threads("ANA") == []
        for scope, ids, left in (
            (ANA, None, [ANA, BO, LONE, LONE_ANA]),
            (ANAS_OTHER, [entries[ANAS_OTHER].id], [BO, LONE, LONE_ANA]),
            (LONE.owner, None, [BO, LONE_ANA]),
        ):
            either.forget(scope, ids)
            assert sorted(map(repr, either.owners())) == sorted(repr(one.owner) for one in left)

    def test_changes_come_in_the_order_of_commits_over_threads(self, either: MessageLog) -> None:
        keys = (ANA, BO, ANAS_OTHER, LONE) * 8
        said = [(key, say_all(either, key, talk(f"{n} same"))) for n, key in enumerate(keys)]
        for owner, limit in product((ANA.owner, LONE.owner), (1, 3, None)):
            expected = [entry for key, batch in said if key.owner == owner for entry in batch]
            cursor = 0
            while (page := either.changes(owner, cursor, limit=limit)).entries:
                there = [entry for entry in expected if entry.position > cursor]
                assert list(page.entries) == there[:limit]
                cursor = page.cursor
            assert cursor == expected[-1].position
        seen = either.changes(ANA.owner)
        assert either.changes(ANA.owner, seen.cursor) == replace(seen, entries=())
        assert either.changes(ANA.owner, limit=0).cursor == 0
        say(either, BO, "not hers")
        later = say(either, ANAS_OTHER, "three"), retract(either, ANA, said[0][1][0].id)
        assert either.changes(ANA.owner, seen.cursor).entries == later
        assert either.changes(NOBODY.owner).entries == ()

    def test_the_asynchronous_methods_do_the_same(self, log: MessageLog) -> None:
        async def use() -> None:
            [entry] = await log.aappend(ANA, [make_draft(human("Hi", "m1"))])
            noted = await log.aannotate(ANA, entry.id, attributes=["seen"])
            assert await log.aentries(ANA) == await log.afind(ANA, ["m1"]) == [noted]
            assert (await log.achanges(ANA.owner)).entries == (noted,)
            document = await log.aset_state(ANA, "buffer", 1, expected=None)
            assert (await log.aget_state(ANA, "buffer"), await log.aowners()) == (
                document,
                [ANA.owner],
            )
            await log.adelete_state(ANA, "buffer")
            assert [_count(await log.aforget(ANA)), await log.athreads("ana")] == [(1, 1, 0), []]
            await log.aclose()

        asyncio.run(use())

    # -- annotating -------------------------------------------------------------------------------

    def test_annotations_add_to_what_is_there(self, either: MessageLog) -> None:
        message = AIMessage("Hi", id="m1", additional_kwargs={"n": 1})
        metadata = Metadata(attributes=("hardcoded",), timing={"llmStart": 1}, aux={"a": 1, "b": 2})
        draft = Draft(role="assistant", message=message, contents=("Hi",), metadata=metadata)
        other, entry = either.append(ANA, [make_draft(human("x")), draft])
        either.annotate(ANA, entry.id, attributes=["seen", "seen"], timing={"playStart": 2})
        noted = either.annotate(
            ANA, entry.id, attributes=["late"], timing={"llmStart": 3}, aux={"b": (3,), "c": None}
        )
        assert noted.metadata.attributes == ("hardcoded", "seen", "seen", "late")
        assert noted.metadata.timing == {**entry.metadata.timing, "llmStart": 3, "playStart": 2}
        assert are_identical(noted.metadata.aux, {"a": 1, "b": (3,), "c": None})
        assert replace(noted, metadata=entry.metadata) == entry
        assert either.entries(ANA) == list(either.changes(ANA.owner).entries) == [other, noted]
        places = [(ANA, make_ulid()), (ANA, "m1"), (ANA, ""), (ANAS_OTHER, entry.id)]
        for key, entry_id in (*places, (LONE, entry.id)):
            with pytest.raises(LogError):
                either.annotate(key, entry_id, attributes=["seen"])
        assert [entry for key in EVERY_KEY for entry in either.entries(key)] == [other, noted]

    # -- checksums --------------------------------------------------------------------------------

    def test_what_a_log_writes_itself_is_sound(self, either: Any) -> None:
        for key in (ANA, ANAS_OTHER, BO, LONE):
            retract(either, key, say_all(either, key, talk("no#m1 yes#m2 hi#m1 no"))[-1].id)
        first, *_ = before = either.entries(ANA)
        noted = either.annotate(ANA, first.id, attributes=["seen"], aux={"note": ("x", b"y")})
        read = either.find(ANA, ["m1"])[0], either.changes(ANA.owner).entries[0]
        for entry in (noted, *read, either.entries(ANA)[0]):
            assert (entry.id, entry.checksum) == (first.id, first.checksum)
        checksums = {entry.checksum for key in EVERY_KEY for entry in either.entries(key)} - {""}
        assert len(checksums) in (0, 6 * 4), "each is of one place alone"
        assert all(len(one) == 20 and int(one, 16) for one in checksums)
        for scope, ids in ((ANA, [before[1].id]), (BO, None)):
            either.forget(scope, ids)
        report = verify_log(either.log)
        assert (report, report.ok) == (VerifyReport(2, 3, 17, 0, (), ()), True)

    def test_an_altered_entry_is_named_and_nothing_else_is_touched(self, log: MessageLog) -> None:
        if not self.alterations:
            pytest.skip("declared: shows no alterations")
        beside = [say(log, key, "beside") for key in (BO, ANAS_OTHER)]
        for how in self.alterations:
            said = say_all(log, ANA, talk("one secret#m1 three"))
            self.alter(how, said[1].position)
            first, damaged, third = log.entries(ANA)
            assert [first, third] == [said[0], said[2]], how
            assert (damaged.message, damaged.contents) == (None, ())
            assert (damaged.control, bool(damaged.damage)) == (Control((), "damaged"), True), how
            assert log.changes(ANA.owner, first.position).entries == (damaged, third)
            assert [*log.entries(BO), *log.entries(ANAS_OTHER)] == beside
            with pytest.raises(LogError) as caught:
                log.annotate(ANA, damaged.id, attributes=["seen"])
            report = verify_log(log)
            finding = Finding("ana", "t1", damaged.position, damaged.id, damaged.damage)
            assert (report.ok, report.damaged, report.missing) == (False, (finding,), 0), how
            assert "secret" not in f"{caught.value} {report} {damaged!r}"
            assert say(log, ANA, human("secret", "m1")).position > third.position, "stored again"
            assert log.forget(ANA, [damaged.id]).entries == 1
            assert verify_log(log).ok, how
            assert list_texts(log.entries(ANA)) == ["one", "three", "secret"]
            log.forget(ANA)

    def test_missing_entries_are_counted(self, log: MessageLog) -> None:
        if not self.removals:
            pytest.skip("declared: counts no missing entries")
        for how in self.removals:
            forgotten, missing, _ = say_all(log, ANA, talk("zero one two"))
            log.forget(ANA, [forgotten.id])
            assert verify_log(log).ok, "what was forgotten is not missing"
            self.alter(how, missing.position)
            report = verify_log(log)
            assert (report.missing, report.damaged) == (1, ()), how
            assert ["'ana'" in problem for problem in report.problems] == [True]
            log.forget(ANA.owner)
            assert verify_log(log).ok

    # -- documents beside a thread, with compare-and-set ------------------------------------------

    def test_a_document_is_written_over_the_version_that_was_read(self, either: Any) -> None:
        value = {"texts": list(ODD_TEXTS), "n": [1, 1.0, True, None], "$set": {}}
        versions: dict[str, int | None] = {"none": None, "unknown": 1}
        kept: StateDocument | None = None
        first = (("", "unknown"), ("first", "none"), ("", "none"), ("gone", "first"), ("", "first"))
        for name, expected in (*first, ("", "gone"), ("new", "none"), ("", "gone")):
            written = either.set_state(ANA, "buffer", [name, value], expected=versions[expected])
            assert (written is not None) == (name != ""), (name, expected)
            if written is not None:
                assert are_identical(written.value, [name, value])
                kept, versions[name] = written, written.version
            assert either.get_state(ANA, "buffer") == kept
            if (name, expected) == ("", "first"):
                kept = either.delete_state(ANA, "buffer")
                either.delete_state(ANA, "buffer")
        assert len(set(versions.values())) == len(versions)
        assert either.entries(ANA) == either.threads("ana") == [], "documents are no entries"

    # -- transactions: reading and writing a thread in one go -------------------------------------

    def test_a_thread_is_read_backwards_by_pages_until_it_is_enough(self, either: Any) -> None:
        one, two, three, four = say_all(either, ANA, talk("one#m two three four"))
        say(either, EVERY_KEY[-1], "elsewhere")
        system = say(either, ANA, SystemMessage("Be kind."))
        mark = retract(either, ANA, two.id)
        five = say(either, ANA, "five")
        for stretches, least in (
            ([(0, None)], 1),
            ([(0, None)], 3),
            ([(0, None)], 99),
            ([(0, one.position), (two.position, four.position)], 2),
            ([], 1),
        ):
            plan = ReadingPlan(stretches, least, "m", "unknown")
            found = either.read_back(ANA, plan, page=2)
            entries = [one, two, three, four, system, mark, five]
            if type(either.log).read_back is MessageLog.read_back:
                assert found == entries  # all of the thread, by default
                continue
            assert plan.framing == [system, mark]
            assert found == read_backwards(entries, plan, page=2)
        either.forget(ANA)
        assert either.read_back(ANA, ReadingPlan([(0, None)], 1)) == []

    def test_a_plan_sees_what_is_there_and_is_appended(self, either: Any) -> None:
        old, asked, named = say_all(either, ANA, talk("one#m1 two three#m3"))
        seen: list[Entry] = []

        def plan(there: Sequence[Entry]) -> list[Draft]:
            seen[:] = there
            return [make_draft(message) for message in talk(f"{12 // len(there)} x#r")]

        ids = ["m3", "m1", "unknown"]
        found = either.append_planned(ANA, plan, after=old.position, message_ids=ids)
        assert (seen, list_texts(found)) == ([old, asked, named], ["4", "x"])
        more = either.append_planned(ANA, plan, after=found[0].position)
        assert (seen, more[1]) == ([found[1]], found[1])
        with pytest.raises(ZeroDivisionError):
            either.append_planned(ANA, plan, after=more[0].position)
        assert either.append_planned(ANA, lambda _: [], after=0) == []
        assert either.entries(ANA) == [old, asked, named, *found, more[0]]

    def test_nobody_writes_between_reading_and_appending(self, open_log: OpenLog) -> None:
        logs = [open_log() for _ in range(4 if self.several_handles else 1)]
        if type(logs[0]).append_planned is MessageLog.append_planned:
            pytest.skip("declared: no append_planned of its own")

        def count(there: Sequence[Entry]) -> list[Draft]:
            return [make_draft(AIMessage(str(len(there))))]

        with ThreadPoolExecutor(8) as pool:
            for number in range(40):
                pool.submit(logs[number % len(logs)].append_planned, ANA, count, after=0)
        assert list_texts(logs[0].entries(ANA)) == [str(number) for number in range(40)]

    # -- forgetting -------------------------------------------------------------------------------

    def test_forgetting_erases_its_scope_and_nothing_else(self, either: MessageLog) -> None:
        def read() -> dict[ThreadKey, list[Any]]:
            return {
                key: [either.entries(key), *(read_state(either, key, name) for name in names)]
                for key in EVERY_KEY
            }

        names, none = ("buffer", _NOTE), (None, None)
        for scope, ids, counts in FORGETS:
            owner = scope.owner if isinstance(scope, ThreadKey) else scope
            for key in EVERY_KEY:
                if scope in (key, key.owner) or not either.entries(key):
                    either.forget(key)
                    _fill(either, key)
            expected = read()
            for key, (entries, buffer, _) in expected.items():
                if ids is None and scope in (key, key.owner):
                    expected[key] = [[], none, none]
                elif scope == key:
                    left = [entry for entry in entries if entry.message_id not in (ids or ())]
                    expected[key] = [left, buffer, none]
            generation, start = either.changes(owner).generation, get_now_ms()
            receipt = either.forget(scope, ids)
            assert _count(receipt) == counts, (scope, ids)
            assert start <= receipt.at_ms <= get_now_ms()
            assert either.changes(owner).generation != generation, (scope, ids)
            assert read() == expected, (scope, ids)
            there = {one.key for user in ("ana", "bo", "t1", None) for one in either.threads(user)}
            assert there == {key for key in EVERY_KEY if expected[key][0]}
            assert _count(either.forget(scope, ids)) == (0, 0, 0)

    def test_what_is_forgotten_can_be_said_anew_in_a_new_place(self, log: MessageLog) -> None:
        before, secret, _ = say_all(log, ANA, talk("before secret#m1 reply"))
        last = say(log, ANA, human("harmless", "m1"))
        assert log.forget(ANA, [secret.id, make_ulid()]).entries == 1
        assert list_live_texts(log, ANA) == ["before", "harmless", "reply"], "in its old place"
        assert log.forget(ANA, ["m1", before.id]).entries == 2
        assert log.find(ANA, ["m1", before.id]) == []
        generations = set()
        for scope in (ANA, ANA.owner, ANA):
            seen = log.changes(ANA.owner)
            generations.add(seen.generation)
            again = say(log, ANA, human("harmless", "m1"))
            assert (again.position > last.position, again.id != last.id) == (True, True)
            assert log.changes(ANA.owner, seen.cursor).entries == (again,)
            log.forget(scope)
            last = again
        assert len(generations) == 3

    def test_forgetting_entries_deletes_the_caches_of_their_thread(self, log: MessageLog) -> None:
        documents = [*product((ANA, ANAS_OTHER), (*_CACHES, *_OTHERS))]
        for key, name in documents:
            log.set_state(key, name, [key.thread_id, name], expected=None)
        version = read_state(log, ANA, _CACHES[0])[1]
        assert _count(log.forget(ANA, [say(log, ANA, "one").id])) == (1, 0, len(_CACHES))
        for key, name in documents:
            wanted = None if key == ANA and name in _CACHES else [key.thread_id, name]
            assert read_state(log, key, name)[0] == wanted
        assert log.set_state(ANA, _CACHES[0], 2, expected=version) is None
        assert _count(log.forget(ANA)) == (0, 1, len(_OTHERS))

    def test_caches_and_generation_stay_while_nothing_is_forgotten(self, log: MessageLog) -> None:
        document = log.set_state(ANA, _NOTE, 1, expected=None)
        entry = say(log, ANA, human("frist", "m1"))
        generation = log.changes(ANA.owner).generation
        log.annotate(ANA, entry.id, attributes=["seen"])
        say(log, ANA, human("first", "m1"))
        _fill(log, ANAS_OTHER)
        log.delete_state(ANAS_OTHER, _NOTE)
        retract(log, ANA, entry.id, reason="cleared")
        assert log.get_state(ANA, _NOTE) == document
        assert log.changes(ANA.owner).generation == generation

    # -- several handles, many callers at once ----------------------------------------------------

    @pytest.mark.parametrize("way", ["threads", "tasks", "handles", "processes"])
    def test_writers_at_once_lose_nothing(self, way: str, tmp_path: Path) -> None:
        able = {"handles": self.several_handles, "processes": self.several_processes}
        if not able.get(way, True):
            pytest.skip(f"declared: no several {way}")
        make = self.make_log(tmp_path)
        with closing(make()) as log, _open_pool(way) as pool:
            if way == "tasks":
                writers = [pool.submit(asyncio.run, _write_in_tasks(log))]
            else:
                write = partial(_write, log) if way == "threads" else partial(_write_alone, make)
                writers = [pool.submit(write, writer) for writer in range(WRITERS)]
            read: list[Entry] = []
            is_over = False
            while not is_over:
                is_over = all(writer.done() for writer in writers)
                read += log.changes(ANA.owner, read[-1].position if read else 0).entries
            for writer in writers:
                writer.result()
            check_writers(read)
            assert sort_entries(log.entries(ANA) + log.entries(ANAS_OTHER)) == read

    def test_writers_of_the_same_thing_at_once_lose_nothing(self, log: MessageLog) -> None:
        marked = say(log, ANA, "marked")

        def write(writer: int) -> None:
            for number in range(TIMES):
                mark = f"{writer}-{number}"
                say(log, ANA, human(f"line {number}", f"m{number}"))
                log.annotate(ANA, marked.id, attributes=[mark], aux={mark: number})
                written = None
                while written is None:
                    value, version = read_state(log, ANA, "count")
                    written = log.set_state(ANA, "count", (value or 0) + 1, expected=version)

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        first, *lines = log.entries(ANA)
        assert sorted(list_texts(lines)) == sorted(f"line {n}" for n in range(TIMES)), "each once"
        marks = sorted(f"{writer}-{number}" for writer in range(WRITERS) for number in range(TIMES))
        assert sorted(first.metadata.attributes) == sorted(first.metadata.aux) == marks
        assert read_state(log, ANA, "count")[0] == WRITERS * TIMES

    # -- closing, and large things ----------------------------------------------------------------

    def test_a_closed_log_says_so(self, either: Any) -> None:
        say(either, ANA, "Hi")
        for _ in range(4):  # each handle twice
            either.close()
        for call in CLOSED_CALLS:
            with pytest.raises(LogClosedError):
                call(either)

    def test_large_things_come_back_whole(self, log: MessageLog) -> None:
        said = [f"{number} " + "ab汉 " * 999 for number in range(350)]
        say_all(log, ANA, said)
        large = human("0123456789abcdef" * (5 * 2**16), "large")
        assert say(log, BO, large) == say(log, BO, large)
        assert list_texts(log.entries(BO)) == [large.text]
        assert list_texts(log.entries(ANA)) == said
        assert list_texts(log.entries(ANA, last=2)) == said[-2:]
        assert list_texts(log.changes(ANA.owner).entries) == said


# -- Speaking to a log ----------------------------------------------------------------------------


def human(text: str, message_id: str | None = None, **kwargs: Any) -> HumanMessage:
    """Return a message of the user's, with `kwargs` beside its text."""
    return HumanMessage(text, id=message_id, additional_kwargs=kwargs)


def talk(script: str) -> list[BaseMessage]:
    """Return messages of one word each, the user's; after a `#` stands the id of a message."""
    words = [word.partition("#") for word in script.split()]
    return [human(text, own if mark else None) for text, mark, own in words]


def say(log: MessageLog, key: ThreadKey, message: BaseMessage | str) -> Entry:
    """Append one message, a text as the user's."""
    return say_all(log, key, [message])[0]


def say_all(
    log: MessageLog, key: ThreadKey, messages: Sequence[BaseMessage | str], *, turn: str = ""
) -> list[Entry]:
    """Append one batch of messages, texts as the user's."""
    whole = [human(item) if isinstance(item, str) else item for item in messages]
    return log.append(key, [make_draft(message, turn_id=turn or None) for message in whole])


def retract(log: MessageLog, key: ThreadKey, *ids: str, reason: RetractReason = "undo") -> Entry:
    """Append a control entry."""
    return log.append(key, [Draft(role="control", control=Control(ids, reason))])[0]


def read_state(log: MessageLog, key: ThreadKey, name: str) -> tuple[Any, int | None]:
    """Return a document's value and version, both None where there is none."""
    document = log.get_state(key, name)
    return (document.value, document.version) if document else (None, None)


def list_texts(entries: Sequence[Entry]) -> list[str]:
    """Return the messages' texts, control entries left out."""
    return [str(entry.message.content) for entry in entries if entry.message is not None]


def list_live_texts(log: MessageLog, key: ThreadKey) -> list[str]:
    """Return the texts that the views show."""
    return list_texts(find_live_entries(log.entries(key)))


def sort_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries of one owner by position."""
    return sorted(entries, key=lambda entry: entry.position)


def check_places(entries: Sequence[Entry]) -> None:
    """Assert that positions rise from above 0 and that no id is there twice."""
    positions = [0, *(entry.position for entry in entries)]
    assert positions == sorted(set(positions))
    assert len({entry.id for entry in entries}) == len(entries)


def check_writers(entries: Sequence[Entry], *, writers: int = WRITERS, times: int = TIMES) -> None:
    """Assert that `writers` lost nothing of their batches `w-n a`, `w-n b` and kept their order."""
    said = list_texts(entries)
    for writer in range(writers):
        mine = [text for text in said if text.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{n} {half}" for n in range(times) for half in "ab"]
    assert len(said) == writers * times * 2
    check_places(entries)
    for first, second in zip(said[::2], said[1::2], strict=True):
        assert first[:-1] == second[:-1], "another writer came between the messages of a batch"


def _make_batches(writer: int) -> list[tuple[ThreadKey, list[Draft]]]:
    """Return what a writer appends, to two threads in turn."""
    said = [[human(f"{writer}-{number} {half}") for half in "ab"] for number in range(TIMES)]
    keys = cycle((ANA, ANAS_OTHER))
    return [(key, list(map(make_draft, batch))) for key, batch in zip(keys, said, strict=False)]


def _write(log: MessageLog, writer: int) -> None:
    for key, drafts in _make_batches(writer):
        log.append(key, drafts)


def _write_alone(make: OpenLog, writer: int) -> None:
    with closing(make()) as log:
        _write(log, writer)


async def _write_in_tasks(log: MessageLog) -> None:
    """Write in tasks, and see that yet another task runs meanwhile."""
    ticks = 0

    async def count_ticks() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def write(writer: int) -> None:
        for key, drafts in _make_batches(writer):
            await log.aappend(key, drafts)

    ticker = asyncio.create_task(count_ticks())
    await asyncio.gather(*map(write, range(WRITERS)))
    ticker.cancel()
    assert ticks >= TIMES


def _open_pool(way: str) -> Executor:
    """Return a pool of threads, or of processes that begin together."""
    if way != "processes":
        return ThreadPoolExecutor(WRITERS)
    # A fork would share what the parent opened; off a server that opened nothing it does not.
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(WRITERS, context, context.Barrier(WRITERS, timeout=60).wait)


def _nest(levels: int) -> list[object]:
    return [] if levels == 1 else [_nest(levels - 1)]


def _fill(log: MessageLog, key: ThreadKey) -> None:
    """Write four entries of a thread and two documents, one of them a cache."""
    say_all(log, key, talk("one#m1 two one!#m1"))
    for name in ("buffer", _NOTE):
        log.set_state(key, name, [1], expected=None)


def _count(receipt: ForgetReceipt) -> tuple[int, int, int]:
    return receipt.entries, receipt.threads, receipt.documents


# -- What a log must keep exactly, and how to compare it ------------------------------------------

_BARE_IDS = ("s", "s2", "S", "s ", " s", "s#x", "s/x", "s%", "%", "_", "*", "'s'; --", "s\n")
_LONG_IDS = ("s" * 999 + "1", "s" * 999 + "2", "a@example.org", "a@example.com", "back\\slash")
ODD_IDS = (*_BARE_IDS, *_LONG_IDS, "café", "cafe\u0301", "🦊", "s\x00x")
"""Ids that careless keys, patterns or comparisons take for one another."""

_BARE_MESSAGE_IDS = ("m1", "M1", "m1 ", " m1", "m%", "m_", "m#2", "m\x00", "m\n", "'m'; --")
ODD_MESSAGE_IDS = (*_BARE_MESSAGE_IDS, "é", "e\u0301", "\ud800", "😀")
"""Ids of messages that are told apart; unlike those of users and threads, any text is one."""

_SPACES = ("", " ", "  two before, three behind   ", "tabs\tand\r\nlines\n\n", "a NUL \x00 inside")
_SIGNS = ("'single', \"double\", `back` and \\ strokes", "{braces} {{doubled}} %s %(x)s ${y}")
_VALUES_OF_JSON = ('{"$bytes": "bG9vaw=="}', "null", "1e400")
_WRITINGS = ("emoji 🦊👩‍👩‍👧 and 汉字かな한글", "right to left: שלום", "combining e\u0301, not é")
_MARKS = ("half \ud83d", "\u2028 separator, BOM \ufeff, escape \x1b[31m")
ODD_TEXTS = (*_SPACES, *_SIGNS, *_VALUES_OF_JSON, *_WRITINGS, *_MARKS)
"""Texts that come back changed from a log that trims, escapes, normalises or interprets."""

_CALL: dict[str, Any] = {"name": "weather", "args": {"city": "Genoa", "days": 2}, "id": "c1"}
_BROKEN_CALL: dict[str, Any] = {"name": "x", "args": '{"city": ', "id": "c2", "error": "unfinished"}
_TIMES = [
    datetime(2026, 9, 3, 18, 20, 0, 123456, tzinfo=UTC),
    datetime(2026, 9, 3, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2026, 9, 3, 18, 20),  # noqa: DTZ001 - kept as it is, without a zone
    date(2026, 9, 3),
]
_VALUES: dict[str, Any] = {
    "numbers": [Decimal("1.10"), float("nan"), float("-inf"), -0.0, 1.0, 2**70, True, None],
    "values": [b"\x00\xff raw", (1, ("nested", [2.5])), {"b", "a", 3}, frozenset({frozenset()})],
    "empty": [{}, [], (), set(), ""],
    "times": _TIMES,
    "dollars": [{"$bytes": "bG9vaw=="}, {"$set": [1, 1]}, {"$map": [["$map", 1]]}, {"$": 0}],
    "more": [{"$ref": {"$ref": {"$tuple": None}}}, {"$set": [1], "$tuple": [2]}],
    "half \ud83d": "\ud83d",
}
_BLOCKS: list[str | dict[Any, Any]] = [
    "one",
    {"type": "text", "text": "What is this?", "annotations": [{"start": 0, "end": 3}]},
    {"type": "image", "source_type": "base64", "data": "AAEC", "mime_type": "image/png"},
    {"type": "file", "file": {"bytes": b"%PDF-1.7\x00"}, "extras": {"detail": None}},
]
_USAGE: Any = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}

SAMPLES: tuple[BaseMessage, ...] = (
    HumanMessage(_BLOCKS, name="Ana María", additional_kwargs=_VALUES, mood="calm"),
    SystemMessage("Answer briefly.", response_metadata={"ttl": 300, "logprobs": None}),
    AIMessage("", tool_calls=[_CALL, {**_CALL, "id": None}], usage_metadata=_USAGE),
    AIMessage(_BLOCKS, tool_calls=[_CALL], invalid_tool_calls=[_BROKEN_CALL]),
    ToolMessage("x", tool_call_id="c", name="t", status="error", artifact=_VALUES),
    ChatMessage(content="Enter Ophelia.", role="narrator"),
    FunctionMessage(content="22", name="weather"),
)
"""Messages of every kind, with every kind of field and value."""


def are_identical(first: Any, second: Any) -> bool:
    """Return whether two values agree in every type and every value.

    Stricter than `==`, which takes True for 1 and 1.0, and no NaN for another.
    """
    return bool(_spell(first) == _spell(second))


def _spell(value: Any) -> Any:
    """Return a value with the types of its parts."""
    if isinstance(value, BaseMessage):
        return type(value), _spell(value.__dict__), _spell(value.__pydantic_extra__ or {})
    if isinstance(value, dict):
        return {key: _spell(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [_spell(part) for part in value]
    return type(value), repr(value) if isinstance(value, float) else value
