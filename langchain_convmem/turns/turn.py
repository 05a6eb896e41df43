"""What a turn needs of the memory that it runs over."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakValueDictionary

from langchain_core.messages import BaseMessage

from langchain_convmem.effects import Steps
from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.history import append_planned_steps
from langchain_convmem.ids import get_now_ms
from langchain_convmem.locks import FifoLock
from langchain_convmem.logs.base import has_same_payload
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import CacheDraft, Control, Draft, Entry, Metadata, Role, ThreadKey
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids
from langchain_convmem.views.codec import encode_body, get_role, get_text_pieces
from langchain_convmem.views.drafts import DraftBuilder
from langchain_convmem.views.live import find_live_entries

if TYPE_CHECKING:
    from langchain_convmem.recall import DialogRecall
    from langchain_convmem.records import Context
    from langchain_convmem.turns.options import TurnOptions


class TurnMemory(Protocol):
    """A memory as a turn sees it: `ConversationMemory.turn_memory`.

    Thread-safe: the turns of all threads share it.
    """

    @property
    def log(self) -> MessageLog:
        """Where entries are kept."""
        ...

    @property
    def log_place(self) -> Hashable:
        """Identifies the log in this process."""
        ...

    @property
    def active_turns(self) -> WritingTurns:
        """The turns under way: who closes the memory waits for them."""
        ...

    @property
    def drafting(self) -> DraftBuilder:
        """Makes drafts of messages, through the write hook."""
        ...

    @property
    def line_recall(self) -> DialogRecall:
        """Finds lines of earlier conversations."""
        ...

    def get_recall_budget(self, options: TurnOptions) -> int:
        """Return the token budget for recalled lines of a turn with these options."""
        ...

    def check_options(self, options: TurnOptions) -> None:
        """Refuse options by which something is left out before it is summarised.

        Raises:
            ConfigError: If there are such.
        """
        ...

    def finish_turn_steps(
        self, key: ThreadKey, view: Context | None = None, replies: Sequence[BaseMessage] = ()
    ) -> Steps[None]:
        """Run what is due after a turn: embed it, compact the thread.

        Args:
            key: Its thread.
            view: The thread as the model saw it; None if not available.
            replies: What was stored of the answer.
        """
        ...


# -- A turn among the entries of its thread -------------------------------------------------------


SPOKEN: frozenset[Role] = frozenset({"user", "assistant", "tool"})
"""Roles of what is said in a conversation."""


def make_entry(
    message: BaseMessage, *, entry_id: str, key: ThreadKey, position: int, turn_id: str
) -> Entry:
    """Return a message as an entry, stored or not."""
    return Entry(
        id=entry_id,
        key=key,
        position=position,
        turn_id=turn_id,
        role=get_role(message),
        message=message,
        contents=get_text_pieces(message),
    )


def list_earlier_entries(entries: Sequence[Entry], mine: Entry | None) -> list[Entry]:
    """Return the entries before a turn began: a retry does not see its own answer."""
    if mine is None:
        return list(entries)
    start = find_turn_start(entries, mine)
    began: dict[str, int] = {}
    for entry in entries:
        began.setdefault(entry.turn_id, entry.position)
    return [entry for entry in entries if entry.control is not None or began[entry.turn_id] < start]


def find_turn_start(entries: Sequence[Entry], mine: Entry | None) -> int:
    """Return the position at which the turn of `mine` began; None: at which one would begin."""
    if mine is None:
        return max((entry.position for entry in entries), default=0) + 1
    turn = [entry.position for entry in entries if entry.turn_id == mine.turn_id]
    return min(turn, default=mine.position)


def is_answered(live: Sequence[Entry], turn_id: str) -> bool:
    """Return whether a turn has a reply that was not cut off."""
    return any(
        entry.turn_id == turn_id
        and entry.role == "assistant"
        and INTERRUPTED not in entry.metadata.attributes
        for entry in live
    )


def has_same_content(entry: Entry, draft: Draft) -> bool:
    """Return whether an entry holds what a draft does, the message's id aside."""
    stored = Draft(role=entry.role, message=entry.message, contents=entry.contents)
    return has_same_payload(encode_body(stored), encode_body(draft))


# -- What is stored of a turn: once for every host, whatever is tried again -----------------------


def draft_reply(
    drafting: DraftBuilder,
    messages: Iterable[BaseMessage],
    *,
    turn_id: str,
    entries: Sequence[Entry],
    found: Iterable[Entry],
    metadata: Metadata,
    new_id: Callable[[int], str | None] = lambda _: None,
    answers: Mapping[int, BaseMessage | None] | None = None,
) -> list[Draft]:
    """Return what to append: a reply, in the place of what an attempt stored before.

    Nothing if all of it is there already, or nothing of it is to be stored.

    Args:
        drafting: What is stored of a message.
        messages: The reply, in order.
        turn_id: The turn.
        entries: The thread's entries from the turn's first on.
        found: Entries that have ids of the messages.
        metadata: Goes to the last message.
        new_id: Makes the id of a message that has no free one of its own; see `assign_free_ids`.
        answers: What the write hook made of the messages already; see `Drafting.drafts`.
    """
    taken = {entry.message_id for entry in found if entry.turn_id != turn_id}
    fresh = assign_free_ids(messages, taken, new_id)
    drafts = drafting.build_all(fresh, turn_id=turn_id, answers=answers)
    if not drafts:
        return []
    stored = [
        entry
        for entry in find_live_entries(entries)
        if entry.turn_id == turn_id and entry.role != "user"
    ]
    again = [entry for entry in stored if any(_is_same(entry, draft) for draft in drafts)]
    if len(again) == len(drafts) == len(stored):
        return []
    drafts[-1] = replace(drafts[-1], metadata=metadata)
    gone = tuple(entry.id for entry in stored if entry not in again)
    if gone:
        drafts.insert(0, Draft(role="control", control=Control(gone, "replaced")))
    return drafts


def store_reply_steps(
    log: MessageLog,
    key: ThreadKey,
    drafting: DraftBuilder,
    messages: Sequence[BaseMessage],
    *,
    turn_id: str,
    start: int,
    metadata: Metadata,
    rounds: Collection[str] = (),
    documents: Sequence[CacheDraft] = (),
) -> Steps[list[Draft]]:
    """Store a reply in the place of an earlier one, and return what was appended.

    What is there is read, and the reply appended, in one transaction where the log has any; what
    the write hook makes of the reply is asked before.

    Args:
        log: Where to.
        key: The thread.
        drafting: What is stored of a message.
        messages: The reply, in order.
        turn_id: The turn.
        start: The position at which the turn began.
        metadata: Goes to the last message.
        rounds: Ids of entries of earlier rounds of the turn, which stay.
        documents: Caches to write beside it.
    """
    answers = drafting.ask_hook(messages)
    drafts: list[Draft] = []

    def plan(there: Sequence[Entry]) -> list[Draft]:
        drafts[:] = draft_reply(
            drafting,
            messages,
            turn_id=turn_id,
            entries=[one for one in there if one.position >= start and one.id not in rounds],
            found=there,
            metadata=metadata,
            answers=answers,
        )
        return drafts

    names = {message.id for message in messages if message.id}
    yield from append_planned_steps(
        log, key, plan, after=start - 1, message_ids=names, documents=documents
    )
    return drafts


def _is_same(entry: Entry, draft: Draft) -> bool:
    has_id = draft.message is not None and draft.message.id == entry.message_id
    return has_id and has_same_content(entry, draft)


def measure_times(started_ms: int, first_token_ms: int | None = None) -> dict[str, int]:
    """Return the times of a reply that ends now, by the names of `Metadata.timing`."""
    timing = {"llmStart": started_ms, "llmEnd": get_now_ms()}
    if first_token_ms is not None:
        timing["firstToken"] = first_token_ms
    return timing


def count_stored(drafts: Sequence[Draft]) -> dict[str, int]:
    """Return what an append stored, in numbers."""
    return {
        "messages": sum(draft.control is None for draft in drafts),
        "replaced": sum(len(d.control.retracts) for d in drafts if d.control is not None),
        "interrupted": sum(INTERRUPTED in draft.metadata.attributes for draft in drafts),
    }


# -- First in, first out --------------------------------------------------------------------------


Place: TypeAlias = tuple[Hashable, ThreadKey]
"""A thread and the log it is in: equal names in two logs are two threads."""


class TurnQueue:
    """Lets turns of one thread run in order of arrival, synchronous and async alike.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._locks: WeakValueDictionary[Place, FifoLock] = WeakValueDictionary()

    def get_lock(self, place: Place) -> FifoLock:
        """Return the lock of a thread; it lives as long as somebody has it.

        Its waits raise a `ThreadBusyError` if they take too long, or if this very turn already
        holds the thread, so that waiting would never end.
        """
        with self._guard:
            lock = self._locks.get(place)
            if lock is None:
                lock = self._locks[place] = _make_lock(place[1].thread_id)
            return lock


def _make_lock(thread_id: str) -> FifoLock:
    def make_late_error(timeout_s: float) -> ThreadBusyError:
        msg = (
            f"thread {thread_id!r} was still busy after {timeout_s:g} s; is a stream of it left "
            "open? Close it, or raise queue_timeout_s"
        )
        return ThreadBusyError(msg, thread_id=thread_id)

    def make_reentry_error() -> ThreadBusyError:
        msg = (
            f"a turn of thread {thread_id!r} started another turn of the same thread, "
            "which would wait for itself; use another thread_id inside the chain"
        )
        return ThreadBusyError(msg, thread_id=thread_id)

    return FifoLock(make_late_error, make_reentry_error)


TURN_QUEUE = TurnQueue()
"""One per process: whatever runs turns over one thread takes turns as well."""


# -- The turns of one memory that have begun and are not over -------------------------------------


class WritingTurns:
    """Counts turns from the first write to the last. Thread-safe; a forked child has none."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = threading.RLock()
        self._turns: dict[Hashable, _ActiveTurn] = {}

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count a turn while it runs."""
        name = object()
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def begin(self, name: Hashable) -> None:
        """Count a turn under a name of its own."""
        with self._lock:
            self._turns[name] = _ActiveTurn()

    def end(self, name: Hashable) -> None:
        """Stop counting a turn. Idempotent."""
        with self._lock:
            turn = self._turns.pop(name, None)
        if turn is not None:
            turn.over.set_result(None)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the turns of other threads are over.

        Those that began in this thread cannot go on while it waits.

        Args:
            timeout_s: Seconds to wait at most; None waits for ever.

        Returns:
            Whether they are.
        """
        this = threading.get_ident()
        waiting = [turn.over for turn in self._list_own() if turn.thread != this]
        return not wait(waiting, timeout_s).not_done

    async def await_all(self, timeout_s: float | None) -> bool:
        """Wait until all turns are over, and let the event loop run meanwhile; see `wait`."""
        waiting = [asyncio.wrap_future(turn.over) for turn in self._list_own()]
        if not waiting:
            return True
        _, running = await asyncio.wait(waiting, timeout=timeout_s)
        return not running

    def _list_own(self) -> list[_ActiveTurn]:
        """Return the turns of this process."""
        with self._lock:
            return [turn for turn in self._turns.values() if turn.process == os.getpid()]


@dataclass(frozen=True, slots=True)
class _ActiveTurn:
    """A turn: where it began, and what is done when it is over."""

    over: Future[None] = field(default_factory=Future)
    thread: int = field(default_factory=threading.get_ident)
    process: int = field(default_factory=os.getpid)
