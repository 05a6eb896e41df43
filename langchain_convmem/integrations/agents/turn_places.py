"""Which messages of a state belong to which turn, and what the log holds of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.ids import new_ulid
from langchain_convmem.records import Control, Draft, Entry, RetractReason
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.summaries import summaries_over

__all__ = [
    "MADE_BY_AGENT",
    "Versions",
    "abandoned",
    "asked_last",
    "beginning",
    "caller_of",
    "entries_of",
    "is_news",
    "left_behind",
    "retracting",
    "turns_before",
    "versions_of",
]

MADE_BY_AGENT = "agent"
"""Key in the `aux` of entries that were stored for an agent's state."""

Versions: TypeAlias = Mapping[str | None, Sequence[Entry]]
"""The entries of each message id, by position."""

_Live: TypeAlias = Callable[[BaseMessage], Entry | None]
"""Finds the entry of a message that the views show."""


def versions_of(found: Iterable[Entry]) -> Versions:
    """Return entries by the id of their message."""
    versions: dict[str | None, list[Entry]] = {}
    for entry in found:
        versions.setdefault(entry.message_id, []).append(entry)
    return versions


# -- where a turn begins --------------------------------------------------------------------------


def asked_last(spoken: Sequence[BaseMessage]) -> int:
    """Return the number of what the user said last; of the last message if there is none."""
    humans = (n for n, message in enumerate(spoken) if isinstance(message, HumanMessage))
    return max(humans, default=len(spoken) - 1)


def beginning(spoken: Sequence[BaseMessage], versions: Versions, live: _Live) -> tuple[int, str]:
    """Return where the turn begins, and its id: that of the question, if it was stored before."""
    start = asked_last(spoken)
    entry = live(spoken[start])
    if entry is not None:
        turn = entry.turn_id
        same = [one is not None and one.turn_id == turn for one in map(live, spoken)]
        return same.index(True), turn
    while start and isinstance(spoken[start - 1], HumanMessage):
        if spoken[start - 1].id in versions:
            break
        start -= 1
    return start, new_ulid()


def turns_before(earlier: Iterable[BaseMessage], versions: Versions) -> Iterator[str]:
    """Yield the turn of each message before the one that begins now, stored or not."""
    turn = ""
    asking = False
    for message in earlier:
        is_human = isinstance(message, HumanMessage)
        if message.id in versions:
            turn = versions[message.id][-1].turn_id
        elif not turn or (is_human and not asking):
            turn = new_ulid()
        asking = is_human
        yield turn


def is_news(draft: Draft | None, entry: Entry | None, *, was_there: bool) -> bool:
    """Return whether a message must be stored.

    Args:
        draft: How it would be stored, if at all.
        entry: What the views show of it.
        was_there: Whether it was taken back, and is to stay so.
    """
    if draft is None:
        return False
    return not was_there if entry is None else entry.message != draft.message


# -- what the log holds of a turn -----------------------------------------------------------------


def entries_of(turn_id: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the live entries of a turn, in order."""
    return [entry for entry in live_entries(entries) if entry.turn_id == turn_id]


def abandoned(own: Sequence[Entry], in_state: Collection[str | None]) -> tuple[str, ...]:
    """Return the entries of replies behind the last one that the state holds.

    An attempt made them that came to nothing. What stands before may have been in the state once,
    and a summary stands for it now.

    Args:
        own: The live entries of the turn.
        in_state: Ids of the messages of the state.
    """
    return tuple(entry.id for entry in _behind(own, in_state) if entry.role != "user")


def left_behind(
    entries: Sequence[Entry], in_state: Collection[str | None], turn_id: str
) -> list[str]:
    """Return what agents said after all that the state holds, with summaries that tell of it.

    Args:
        entries: All entries of the thread.
        in_state: Ids of the messages of the state.
        turn_id: The turn under way, which is left alone.
    """
    live = live_entries(entries)
    spoken = [entry for entry in live if entry.role in ("user", "assistant", "tool")]
    made = {entry.turn_id for entry in spoken if MADE_BY_AGENT in entry.metadata.aux} - {turn_id}
    gone = [entry.id for entry in _behind(spoken, in_state) if entry.turn_id in made]
    return [*gone, *summaries_over(live, gone)]


def _behind(entries: Sequence[Entry], in_state: Collection[str | None]) -> Sequence[Entry]:
    held = [number for number, entry in enumerate(entries) if entry.message_id in in_state]
    return entries[held[-1] + 1 :] if held else []


def retracting(ids: Sequence[str], reason: RetractReason) -> list[Draft]:
    """Return the control entry that takes entries out of the views; nothing for none."""
    return [Draft(role="control", control=Control(tuple(ids), reason))] if ids else []


def caller_of(messages: Sequence[BaseMessage], call_id: str | None) -> BaseMessage | None:
    """Return the latest message that makes the call."""
    for message in reversed(messages):
        if any(call["id"] == call_id for call in getattr(message, "tool_calls", ())):
            return message
    return None
