"""What the model of an agent sees: the thread from the log, and the turn as the run has it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.history import LiveThread, note_steps, read_all_steps, read_live_steps
from langchain_convmem.ids import new_ulid
from langchain_convmem.records import Context, Entry, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.turns.entries import (
    SPOKEN,
    entry_said,
    framing,
    said_before,
    start_of,
    user_text_before,
)
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.rendering import fenced, folded
from langchain_convmem.turns.state_sync import SyncedTurn, is_stand_in
from langchain_convmem.turns.view import recalled_in_turn
from langchain_convmem.views.codec import text_pieces
from langchain_convmem.views.context import Profile, context
from langchain_convmem.views.live import live_entries

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

__all__ = ["AgentView", "RecalledTexts"]

_FRONT = 0
"""Where a stand-in stands: before every position of a log."""


class RecalledTexts:
    """What was recalled for the latest turns, so that all calls of one loop read the same.

    Thread-safe. In another process a turn that goes on recalls anew.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._texts: OrderedDict[Any, str] = OrderedDict()

    def get(self, name: Any) -> str | None:
        """Return the text, if it is still here."""
        with self._lock:
            return self._texts.get(name)

    def keep(self, name: Any, text: str) -> None:
        """Keep the text; the oldest one leaves."""
        with self._lock:
            self._texts[name] = text
            while len(self._texts) > self._most:
                self._texts.popitem(last=False)


@dataclass(frozen=True, slots=True)
class AgentView:
    """The messages for one call of the model.

    Attributes:
        memory: Where the thread is, and what is recalled.
        key: The thread.
        switches: How much of both.
        profile: Whose rules the messages keep.
        recalled: What earlier calls of the same turn recalled.
    """

    memory: ConversationMemory
    key: ThreadKey
    switches: TurnOptions
    profile: Profile
    recalled: RecalledTexts = field(repr=False)

    def messages(
        self, loop: SyncedTurn, state: Sequence[BaseMessage], shown: Sequence[BaseMessage]
    ) -> Steps[list[BaseMessage]]:
        """Return the thread up to the turn, and the turn, with recalled lines in its question.

        Args:
            loop: The turn.
            state: The messages of the state.
            shown: What the call would show; other middleware may have changed it.
        """
        own = {message.id for message in loop.messages}
        earlier = {message.id for message in state} - own
        turn = _turn_entries(loop, shown, earlier, self.key)
        asked = next(iter(loop.known.values()), None)  # None of a turn that is not to be stored
        thread = yield from read_live_steps(self.memory.log, self.key)
        thread, view, alone = yield from self._viewed(thread, turn, asked, shown, earlier)
        yield from note_steps(self.memory.log, thread, view, self._options(alone))
        recalled = ""
        if self.switches.recall:
            later = _later(thread, asked)
            before = user_text_before(said_before(thread.entries, asked), None)
            recalled = yield from self._recalled(loop, view.positions | later, before)
        return _with_recalled(view.messages, alone.messages, recalled)

    # -- the thread -----------------------------------------------------------------------------

    def _options(self, alone: Context) -> dict[str, Any]:
        budget = self.switches.history_tokens
        # The history's budget does not count the turn that is under way.
        tokens = None if budget is None else budget + alone.tokens
        return {"profile": self.profile, "max_tokens": tokens}

    def _viewed(
        self,
        thread: LiveThread,
        turn: Sequence[Entry],
        asked: Entry | None,
        shown: Sequence[BaseMessage],
        earlier: Collection[str | None],
    ) -> Steps[tuple[LiveThread, Context, Context]]:
        """Return what was read of the thread, the view, and what of it cannot be left out."""

        def seen(thread: LiveThread) -> list[Entry]:
            before = _condensed(said_before(thread.entries, asked), shown, earlier, self.key)
            end = max((entry.position for entry in before), default=0)
            own = [replace(entry, position=end + entry.position) for entry in turn]
            return [*before, *own]

        def alone(entries: Sequence[Entry]) -> Context:
            own = entries[len(entries) - len(turn) :]
            return context([*framing(entries), *own], profile=self.profile)

        entries = seen(thread)
        rest = alone(entries)
        view = None
        if asked is None or thread.holds(start_of(thread.entries, asked)):
            view = replace(thread, entries=entries).viewed(**self._options(rest))
        if view is None:
            thread = yield from read_all_steps(self.memory.log, thread)
            entries = seen(thread)
            rest = alone(entries)
            # What was never answered is one exchange with the turn, and larger than any budget.
            view = replace(thread, entries=entries).viewed(**self._options(rest)) or rest
        return thread, view, rest

    # -- recalling ------------------------------------------------------------------------------

    def _recalled(self, loop: SyncedTurn, seen: Collection[int], before: str | None) -> Steps[str]:
        """Return fenced lines of other places than the positions that the model sees anyway.

        Args:
            loop: The turn.
            seen: The positions.
            before: What the user said just before.
        """
        # What the write hook takes out of a message must not reach an embedder either.
        asked = [self.memory.drafting.hooked(message) for message in _opening_of(loop.messages)]
        query = "\n".join(piece for one in asked if one is not None for piece in text_pieces(one))
        limits = self.switches.recall_limits
        name = (self.key, str(loop.id), query, *limits.values())
        text = self.recalled.get(name)
        if text is None:
            blocks, by_time = yield from recalled_in_turn(
                self.memory.line_recall, self.key, query, seen, before=before, **limits
            )
            text = fenced(blocks, by_time=by_time)
            self.recalled.keep(name, text)
        return text


def _later(thread: LiveThread, asked: Entry | None) -> set[int]:
    """Return the positions of the turn, and of what was said since it began."""
    start = None if asked is None else start_of(thread.entries, asked)
    positions = [entry.position for entry in thread.entries]
    return set() if start is None else {at for at in positions if at >= start}


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


def _with_recalled(
    view: list[BaseMessage], alone: Sequence[BaseMessage], recalled: str
) -> list[BaseMessage]:
    """Return the view with the recalled text in the message that the turn begins with.

    Args:
        view: The messages.
        alone: The turn without what was said before it.
        recalled: May be empty.
    """
    asked = sum(isinstance(message, HumanMessage) for message in alone)
    humans = [number for number, one in enumerate(view) if isinstance(one, HumanMessage)]
    if not recalled or not 0 < asked <= len(humans):
        return view
    at = humans[-asked]
    message = view[at]
    if isinstance(message, HumanMessage):
        view[at] = folded(message, recalled)
    return view
