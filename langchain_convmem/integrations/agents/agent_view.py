"""What the model of an agent sees: the thread from the log, and the turn as the run has it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.ids import new_ulid
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.turns.entries import SPOKEN, entry_said, said_before, start_of
from langchain_convmem.turns.state_sync import SyncedTurn, is_stand_in
from langchain_convmem.turns.view import (
    ModelContext,
    Recalled,
    TurnEntries,
    TurnView,
    searchable_text,
)
from langchain_convmem.views.live import live_entries

__all__ = ["AgentView", "RecalledTurns"]

_FRONT = 0
"""Where a stand-in stands: before every position of a log."""


class RecalledTurns:
    """What was recalled for the latest turns, so that all calls of one loop read the same.

    Thread-safe. In another process a turn that goes on recalls anew.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._found: OrderedDict[Any, Recalled] = OrderedDict()

    def get(self, name: Any) -> Recalled | None:
        """Return what was recalled, if it is still here."""
        with self._lock:
            return self._found.get(name)

    def keep(self, name: Any, found: Recalled) -> None:
        """Keep what was recalled; the oldest one leaves."""
        with self._lock:
            self._found[name] = found
            while len(self._found) > self._most:
                self._found.popitem(last=False)


@dataclass(frozen=True, slots=True)
class AgentView:
    """The messages for one call of the model.

    Attributes:
        view: How the turn looks at its thread and at others.
        recalled: What earlier calls of the same turn recalled.
    """

    view: TurnView
    recalled: RecalledTurns = field(repr=False)

    def context_steps(
        self, loop: SyncedTurn, state: Sequence[BaseMessage], shown: Sequence[BaseMessage]
    ) -> Steps[ModelContext]:
        """Return the thread up to the turn, and the turn, with recalled lines in its question.

        Args:
            loop: The turn.
            state: The messages of the state.
            shown: What the call would show; other middleware may have changed it.
        """
        own = {message.id for message in loop.messages}
        earlier = {message.id for message in state} - own
        key = self.view.key
        turn = _turn_entries(loop, shown, earlier, key)
        asked = next(iter(loop.known.values()), None)  # None of a turn that is not to be stored

        def locate(entries: Sequence[Entry]) -> TurnEntries:
            before = _condensed(said_before(entries, asked), shown, earlier, key)
            end = max((entry.position for entry in before), default=0)
            placed = [replace(entry, position=end + entry.position) for entry in turn]
            return TurnEntries(before, placed, start_of(entries, asked))

        context = yield from self.view.view_steps(locate)
        return context.with_recalled((yield from self._recalled(loop, context)))

    def _recalled(self, loop: SyncedTurn, context: ModelContext) -> Steps[Recalled]:
        """Return what the turn recalled first, as far as it fits beside what it has become."""
        query = searchable_text(_opening_of(loop.messages), self.view.memory.drafting)
        name = (self.view.key, loop.id, query, self.view.options)
        found = self.recalled.get(name)
        if found is None:
            found = yield from self.view.recall_steps(context, query)
            self.recalled.keep(name, found)
        return replace(found, room=self.view.recall_room(context))


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
