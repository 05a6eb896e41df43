"""What is stored of a turn: once for every host, whatever is tried again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage

from langchain_convmem.history import append_planned_steps
from langchain_convmem.ids import now_ms
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import CacheDraft, Control, Draft, Entry, Metadata, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.turns.entries import replies_of, says_same
from langchain_convmem.turns.replies import INTERRUPTED, with_free_ids
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.live import live_entries

__all__ = ["count_stored", "draft_reply", "measure_times", "store_reply_steps"]


def draft_reply(
    drafting: Drafting,
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
        new_id: Makes the id of a message that has no free one of its own; see `with_free_ids`.
        answers: What the write hook made of the messages already; see `Drafting.drafts`.
    """
    taken = {entry.message_id for entry in found if entry.turn_id != turn_id}
    fresh = with_free_ids(messages, taken, new_id)
    drafts = drafting.drafts(fresh, turn_id=turn_id, answers=answers)
    if not drafts:
        return []
    earlier = set(replies_of(entries, turn_id))
    stored = [entry for entry in live_entries(entries) if entry.id in earlier]
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
    drafting: Drafting,
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
    answers = drafting.answers(messages)
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
    return has_id and says_same(entry, draft)


def measure_times(started_ms: int, first_token_ms: int | None = None) -> dict[str, int]:
    """Return the times of a reply that ends now, by the names of `Metadata.timing`."""
    timing = {"llmStart": started_ms, "llmEnd": now_ms()}
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
