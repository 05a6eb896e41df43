"""What is stored of a turn, for every host, and the line in which the turns of a thread wait."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import replace
from weakref import WeakValueDictionary

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import ThreadBusyError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms
from langchain_convmem.locks import FifoLock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import (
    Control,
    Draft,
    Entry,
    Metadata,
    ThreadKey,
)
from langchain_convmem.turns.replies import assign_free_ids
from langchain_convmem.turns.view import Place, has_same_content
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import (
    DraftBuilder,
)


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


def store_reply(
    log: MessageLog,
    key: ThreadKey,
    drafting: DraftBuilder,
    messages: Sequence[BaseMessage],
    *,
    turn_id: str,
    start: int,
    metadata: Metadata,
    rounds: Collection[str] = (),
) -> list[Draft]:
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
    log.append_planned(key, plan, after=start - 1, message_ids=names)
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


class TurnQueue:
    """Lets turns of one thread run in order of arrival, synchronous and async alike.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._guard = make_lock()
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
