"""What the model is called with: the thread up to this turn, with recalled lines, from the log.

Built anew for every call, so that no state has to carry it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.errors import BudgetError
from langchain_convmem.history import LiveThread, note_steps, read_all_steps, read_live_steps
from langchain_convmem.ids import new_ulid
from langchain_convmem.memory.conversation_memory import ConversationMemory
from langchain_convmem.records import Context, DialogLine, Entry, RecalledBlock, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.turns.entries import (
    entry_said,
    framing,
    said_before,
    start_of,
    summary_text,
    user_text_before,
)
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.rendering import (
    MessageList,
    fenced,
    folded,
    recalled_messages,
)
from langchain_convmem.turns.view import recalled_in_turn
from langchain_convmem.views.codec import text_pieces
from langchain_convmem.views.context import Profile, context
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.tokens import count_tokens

__all__ = ["Outlook", "outlook_steps"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What there is to answer from.

    Attributes:
        messages: What was said in the thread, up to and with this turn; fresh copies.
        blocks: Recalled lines of other places.
        by_time: Whether they are shown oldest first, rather than in their order.
        summary: The live summary; empty without one.
    """

    messages: list[BaseMessage]
    blocks: tuple[RecalledBlock, ...]
    by_time: bool
    summary: str

    @property
    def given(self) -> list[BaseMessage]:
        """The messages, with the recalled lines folded into what the user said last."""
        asked = self._asked
        if asked is None:
            return list(self.messages)
        message = self.messages[asked]
        said = folded(message, self.recalled) if isinstance(message, HumanMessage) else message
        return [*self.messages[:asked], said, *self.messages[asked + 1 :]]

    @property
    def recalled(self) -> str:
        """The recalled lines as a model reads them."""
        return fenced(self.blocks, by_time=self.by_time)

    @property
    def line_refs(self) -> list[str]:
        """What names the recalled lines in a state."""
        return [_line_ref(line) for block in self.blocks for line in block.lines]

    @property
    def _asked(self) -> int | None:
        places = [at for at, one in enumerate(self.messages) if isinstance(one, HumanMessage)]
        return places[-1] if places else None

    def payload(self, slots: Collection[str] | None) -> list[BaseMessage] | dict[str, Any]:
        """Return what a chain takes: messages, or for one with slots a dict as if wrapped."""
        given = self.given
        if slots is None:
            return given
        at = len(given) if self._asked is None else self._asked
        plain = "recalled" in slots
        return {
            "history": MessageList(given[:at]),
            "input": MessageList((self.messages if plain else given)[at:]),
            "recalled": recalled_messages(self.recalled),
            "summary": self.summary,
            "messages": MessageList(given),
        }


def _line_ref(line: DialogLine) -> str:
    """Return what names a line in a state: its entry, and which line of it."""
    return line.entry_id if line.part == 0 else f"{line.entry_id}#{line.part + 1}"


@dataclass(frozen=True, slots=True)
class _Own:
    """What belongs to this turn.

    Attributes:
        stored: Entries of the log, in order.
        seen: What the model sees of the turn: these, or the state's messages as entries.
    """

    stored: Sequence[Entry]
    seen: Sequence[Entry]


@dataclass(slots=True)
class _Viewer:
    """Reads a thread for one call. Not thread-safe."""

    memory: ConversationMemory
    key: ThreadKey
    switches: TurnOptions
    profile: Profile
    known: Collection[str]
    now: Sequence[BaseMessage]

    def own(self, entries: Sequence[Entry]) -> _Own:
        """Return what belongs to this turn; a state says it in full and in its own order."""
        stored = [entry for entry in live_entries(entries) if entry.message_id in self.known]
        if not self.now:
            return _Own(stored, stored)
        by_id = {entry.message_id: entry for entry in stored}
        turn_id = stored[0].turn_id if stored else new_ulid()
        end = max((entry.position for entry in entries), default=0)
        seen = [
            entry_said(
                message,
                entry_id=by_id[message.id].id if message.id in by_id else new_ulid(),
                key=self.key,
                position=end + number,
                turn_id=turn_id,
            )
            for number, message in enumerate(self.now, start=1)
            if message.id in by_id or message.id not in self.known
        ]
        return _Own(stored, seen)

    def so_far(self, entries: Sequence[Entry], own: _Own) -> list[Entry]:
        """Return the thread as it was when the turn began, with what belongs to the turn."""
        first = min(own.stored, key=lambda entry: entry.position, default=None)
        ids = {entry.id for entry in own.stored}
        before = [entry for entry in said_before(entries, first) if entry.id not in ids]
        return sorted([*before, *own.seen], key=lambda entry: entry.position)

    def options(self, own: _Own) -> dict[str, Any]:
        budget = self.switches.history_tokens
        # The history's budget does not count what is said now.
        now = [entry.message for entry in own.seen if entry.message is not None]
        return {
            "profile": self.profile,
            "max_tokens": None if budget is None else budget + count_tokens(now),
        }

    def viewed(self) -> Steps[tuple[Context, LiveThread, _Own]]:
        """Return the view, the entries it was made of, and those of this turn."""
        log = self.memory.log
        thread = yield from read_live_steps(log, self.key)
        own = self.own(thread.entries)
        view = self._of_part(thread, own)
        if view is None:
            thread = yield from read_all_steps(log, thread)
            own = self.own(thread.entries)
            view = self._of_all(thread, own)
        if self.switches.remember:
            yield from note_steps(log, thread, view, self.options(own))
        return view, thread, own

    def _of_part(self, thread: LiveThread, own: _Own) -> Context | None:
        """Return the view; None if it takes more of the thread."""
        read = {entry.message_id for entry in thread.entries}
        if not read.issuperset(self.known) or not all(thread.holds(e.position) for e in own.stored):
            return None
        seen = replace(thread, entries=self.so_far(thread.entries, own))
        return seen.viewed(**self.options(own))

    def _of_all(self, thread: LiveThread, own: _Own) -> Context:
        seen = self.so_far(thread.entries, own)
        try:
            return context(seen, **self.options(own))
        except BudgetError:
            # What was never answered is one exchange with this turn; it must not block the thread.
            return context([*framing(seen), *own.seen], **self.options(own))

    def recalled(
        self, view: Context, thread: LiveThread, own: _Own, *, is_first: bool
    ) -> Steps[tuple[tuple[RecalledBlock, ...], bool]]:
        """Return lines of other places than those that the model sees anyway, or later ones.

        And whether they come by time. A relevance buffer takes in what is found `is_first` alone.
        """
        if not self.switches.recall:
            return (), True
        end = max((entry.position for entry in thread.entries), default=0)
        start = start_of(thread.entries, own.stored[0]) if own.stored else end + 1
        return (
            yield from recalled_in_turn(
                self.memory.line_recall,
                self.key,
                "\n".join(self._asked_for(own)),
                view.positions.union(range(start, end + 1)),
                before=self._said_before(thread, own),
                remember=is_first and self.switches.remember,
                **self.switches.recall_limits,
            )
        )

    def _said_before(self, thread: LiveThread, own: _Own) -> str | None:
        """Return what the user said just before this turn."""
        turn_id = own.seen[0].turn_id if own.seen else None
        return user_text_before(self.so_far(thread.entries, own), turn_id)

    def _asked_for(self, own: _Own) -> Iterator[str]:
        """Yield what may be searched for of what the user says: an embedder may be another's."""
        for entry in own.seen:
            if entry.role == "user" and entry.message is not None:
                kept = self.memory.drafting.hooked(entry.message)
                yield from () if kept is None else text_pieces(kept)


def outlook_steps(
    memory: ConversationMemory,
    key: ThreadKey,
    known: Collection[str],
    *,
    switches: TurnOptions,
    now: Sequence[BaseMessage] = (),
    profile: Profile = "strict",
    recalled_ids: Collection[str] | None = None,
) -> Steps[Outlook]:
    """Return what there is to answer from.

    Args:
        memory: Whose log and recall.
        key: The thread.
        known: Ids of the messages of this turn that the log has, be they retracted since.
        switches: Budgets.
        now: The messages of this turn as the state has them, stored or not; nothing if only the
            log has them.
        profile: Whose rules the messages keep.
        recalled_ids: Lines that were recalled before: others are left out. None recalls anew.
    """
    viewer = _Viewer(memory, key, switches, profile, known, now)
    view, thread, own = yield from viewer.viewed()
    is_first = recalled_ids is None
    blocks, by_time = yield from viewer.recalled(view, thread, own, is_first=is_first)
    if recalled_ids is not None:
        blocks = tuple(
            one for one in blocks if any(_line_ref(x) in recalled_ids for x in one.lines)
        )
    summary = summary_text(viewer.so_far(thread.entries, own))
    return Outlook(view.messages, blocks, by_time, summary)
