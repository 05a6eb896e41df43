"""What the model of an agent sees: the thread from the log, and the turn as the run has it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.ids import new_ulid
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.turns.entries import SPOKEN, entry_said, said_before, start_of
from langchain_convmem.turns.state_sync import SyncedTurn, is_stand_in
from langchain_convmem.turns.view import (
    CallContext,
    ModelContext,
    TurnEntries,
    TurnView,
    searchable_text,
)
from langchain_convmem.views.live import live_entries

__all__ = ["agent_context_steps"]

_FRONT = 0
"""Where a stand-in stands: before every position of a log."""


def agent_context_steps(
    view: TurnView,
    loop: SyncedTurn,
    state: Sequence[BaseMessage],
    shown: Sequence[BaseMessage],
    aside: CallContext,
) -> Steps[ModelContext]:
    """Return the thread up to the turn, and the turn, with recalled lines in its question.

    Args:
        view: How the turn looks at its thread and at others.
        loop: The turn.
        state: The messages of the state.
        shown: What the call would show; other middleware may have changed it.
        aside: What of it only this call shows.
    """
    own = {message.id for message in loop.messages}
    earlier = {message.id for message in state} - own
    turn = _turn_entries(loop, shown, earlier, view.key)
    asked = next(iter(loop.known.values()), None)  # None of a turn that is not to be stored

    def locate(entries: Sequence[Entry]) -> TurnEntries:
        before = _condensed(said_before(entries, asked), shown, earlier, view.key)
        end = max((entry.position for entry in before), default=0)
        placed = [replace(entry, position=end + entry.position) for entry in turn]
        return aside.add_to(TurnEntries(before, placed, start_of(entries, asked)))

    query = searchable_text(_opening_of(loop.messages), view.memory.drafting)
    return (yield from view.context_steps(locate, query))


def _opening_of(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what the user said before anyone answered."""
    before = takewhile(lambda message: not isinstance(message, AIMessage | ToolMessage), messages)
    return [message for message in before if isinstance(message, HumanMessage)]


# -- entries of a view ----------------------------------------------------------------------------


def _turn_entries(
    loop: SyncedTurn, shown: Sequence[BaseMessage], earlier: Collection[str | None], key: ThreadKey
) -> list[Entry]:
    """Return the turn as the call shows it, as entries at the positions 1, 2, ..."""
    own = [one for one in shown if one.id not in earlier and not is_stand_in(one)]
    entries: list[Entry] = []
    for number, message in enumerate(own, 1):
        stored = loop.known.get(message.id or "")
        # Names that a view makes up are made of the entry's id: they must not change in a loop.
        entry_id = new_ulid() if stored is None else stored.id
        turn_id = str(loop.id)
        entries.append(
            entry_said(message, entry_id=entry_id, key=key, position=number, turn_id=turn_id)
        )
    return entries


def _condensed(
    before: list[Entry],
    shown: Sequence[BaseMessage],
    earlier: Collection[str | None],
    key: ThreadKey,
) -> list[Entry]:
    """Return what was said before, with a stand-in of the state for what it stands for."""
    places = [number for number, message in enumerate(shown) if is_stand_in(message)]
    if not places:
        return before
    stand_in = shown[places[-1]]
    kept = next((one.id for one in shown[places[-1] + 1 :] if one.id in earlier), None)
    live = [entry for entry in live_entries(before) if entry.role in SPOKEN]
    first = next((n for n, entry in enumerate(live) if entry.message_id == kept), len(live))
    gone = {entry.id for entry in live[:first]}
    entry_id = new_ulid()
    front = entry_said(stand_in, entry_id=entry_id, key=key, position=_FRONT, turn_id=entry_id)
    return [front, *(entry for entry in before if entry.id not in gone)]
