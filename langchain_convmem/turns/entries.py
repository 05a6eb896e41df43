"""A turn among the entries of its thread: where it began, what was said before, what it stored.

For every way in which a model is called with a thread: wrapped chains, graphs and agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage

from langchain_convmem.logs.base import has_same_payload
from langchain_convmem.records import Draft, Entry, Role, ThreadKey
from langchain_convmem.turns.replies import INTERRUPTED
from langchain_convmem.views.codec import encode_body, role_of, text_pieces
from langchain_convmem.views.live import live_entries, live_summary

__all__ = [
    "SPOKEN",
    "entry_said",
    "framing",
    "is_answered",
    "replies_of",
    "said_before",
    "says_same",
    "start_of",
    "summary_text",
    "user_text_before",
]

SPOKEN: frozenset[Role] = frozenset({"user", "assistant", "tool"})
"""Roles of what is said in a conversation."""


def framing(entries: Iterable[Entry]) -> list[Entry]:
    """Return what stands around a conversation: system messages, summaries, control entries."""
    return [entry for entry in entries if entry.role not in SPOKEN]


def entry_said(
    message: BaseMessage, *, entry_id: str, key: ThreadKey, position: int, turn_id: str
) -> Entry:
    """Return a message as the entry that it is or would be, whatever the log keeps of it."""
    return Entry(
        id=entry_id,
        key=key,
        position=position,
        turn_id=turn_id,
        role=role_of(message),
        message=message,
        contents=text_pieces(message),
    )


def said_before(entries: Sequence[Entry], mine: Entry | None) -> list[Entry]:
    """Return what was said before a turn began: a retry does not see its own answer."""
    if mine is None:
        return list(entries)
    start = start_of(entries, mine)
    began: dict[str, int] = {}
    for entry in entries:
        began.setdefault(entry.turn_id, entry.position)
    return [entry for entry in entries if entry.control is not None or began[entry.turn_id] < start]


def user_text_before(entries: Iterable[Entry], turn_id: str | None) -> str | None:
    """Return what the user said last in another turn than this one; None where that is nothing.

    Args:
        entries: The thread as it was when the turn began, with the turn or without it.
        turn_id: The turn; None for one that has no entries.
    """
    earlier = [entry for entry in entries if entry.turn_id != turn_id]
    said = [entry for entry in live_entries(earlier) if entry.role == "user"]
    return "\n".join(said[-1].contents) if said else None


def start_of(entries: Sequence[Entry], mine: Entry | None) -> int:
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


def says_same(entry: Entry, draft: Draft) -> bool:
    """Return whether an entry holds what a draft does, the message's id aside."""
    told = Draft(role=entry.role, message=entry.message, contents=entry.contents)
    return has_same_payload(encode_body(told), encode_body(draft))


def replies_of(entries: Sequence[Entry], turn_id: str) -> tuple[str, ...]:
    """Return the ids of the live replies that a turn stored before."""
    return tuple(
        entry.id
        for entry in live_entries(entries)
        if entry.turn_id == turn_id and entry.role != "user"
    )


def summary_text(entries: Sequence[Entry]) -> str:
    """Return the live summary; empty without one."""
    summary = live_summary(live_entries(entries))
    return "" if summary is None else "\n".join(summary.contents)
