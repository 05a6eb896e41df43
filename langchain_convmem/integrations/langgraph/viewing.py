"""What the model is called with: the thread up to this turn, with recalled lines, from the log.

Built anew for every call, so that no state has to carry it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable

from langchain_convmem.errors import BudgetError
from langchain_convmem.history import LiveThread, note_steps, read_all_steps, read_live_steps
from langchain_convmem.ids import new_ulid
from langchain_convmem.integrations.langgraph.moment import Moment
from langchain_convmem.memory.chain_shape import prompt_slots, takes_messages
from langchain_convmem.memory.conversation_memory import ConversationMemory
from langchain_convmem.memory.rendering import MessageList, fenced, folded, recalled_messages
from langchain_convmem.memory.turn import TurnSwitches
from langchain_convmem.memory.turn_entries import said_before, start_of, summary_text
from langchain_convmem.records import Context, DialogLine, Entry, RecalledBlock, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.views.codec import role_of, text_pieces
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
        summary: The live summary; empty without one.
    """

    messages: list[BaseMessage]
    blocks: tuple[RecalledBlock, ...]
    summary: str

    @property
    def given(self) -> list[BaseMessage]:
        """The messages, with the recalled lines folded into what the user said last."""
        asked = self._asked
        if asked is None:
            return list(self.messages)
        message = self.messages[asked]
        said = (
            folded(message, fenced(self.blocks)) if isinstance(message, HumanMessage) else message
        )
        return [*self.messages[:asked], said, *self.messages[asked + 1 :]]

    @property
    def line_refs(self) -> list[str]:
        """What names the recalled lines in a state."""
        return [_line_ref(line) for block in self.blocks for line in block.lines]

    @property
    def _asked(self) -> int | None:
        places = [at for at, one in enumerate(self.messages) if isinstance(one, HumanMessage)]
        return places[-1] if places else None

    def payload(self, inner: Runnable[Any, Any]) -> list[BaseMessage] | dict[str, Any]:
        """Return what `inner` takes: messages, or a dict as a wrapped chain gets it."""
        given = self.given
        if takes_messages(inner):
            return given
        recalled = fenced(self.blocks)
        at = len(given) if self._asked is None else self._asked
        plain = "recalled" in prompt_slots(inner)
        return {
            "history": MessageList(given[:at]),
            "input": MessageList((self.messages if plain else given)[at:]),
            "recalled": recalled_messages(recalled),
            "summary": self.summary,
            "messages": MessageList(given),
        }


def _line_ref(line: DialogLine) -> str:
    """Return what names a line in a state: its entry, and which line of it."""
    return line.entry_id if line.part == 0 else f"{line.entry_id}#{line.part + 1}"


@dataclass(slots=True)
class _Viewer:
    """Reads a thread for one call. Not thread-safe."""

    memory: ConversationMemory
    key: ThreadKey
    switches: TurnSwitches
    profile: Profile
    said: Collection[str]
    unstored: Sequence[BaseMessage]

    def own(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries of this turn that the model sees."""
        stored = [entry for entry in live_entries(entries) if entry.message_id in self.said]
        end = max((entry.position for entry in entries), default=0)
        turn_id = new_ulid()
        made_up = [
            _unstored(self.key, end + number, turn_id, message)
            for number, message in enumerate(self.unstored, start=1)
        ]
        return [*stored, *made_up]

    def so_far(self, entries: Sequence[Entry], own: Sequence[Entry]) -> list[Entry]:
        """Return the thread as it was when the turn began, with what belongs to the turn."""
        first = min(own, key=lambda entry: entry.position, default=None)
        ids = {entry.id for entry in own}
        before = [entry for entry in said_before(entries, first) if entry.id not in ids]
        return sorted([*before, *own], key=lambda entry: entry.position)

    def options(self, own: Sequence[Entry]) -> dict[str, Any]:
        budget = self.switches.history_tokens
        # The history's budget does not count what is said now.
        now = [entry.message for entry in own if entry.message is not None]
        return {
            "profile": self.profile,
            "max_tokens": None if budget is None else budget + count_tokens(now),
        }

    def viewed(self) -> Steps[tuple[Context, LiveThread, list[Entry]]]:
        """Return the view, the entries it was made of, and those of this turn."""
        log = self.memory.log
        thread = yield from read_live_steps(log, self.key)
        own = self.own(thread.entries)
        view = self._of_part(thread, own)
        if view is None:
            thread = yield from read_all_steps(log, thread)
            own = self.own(thread.entries)
            view = self._of_all(thread, own)
        yield from note_steps(log, thread, view, self.options(own))
        return view, thread, own

    def _of_part(self, thread: LiveThread, own: list[Entry]) -> Context | None:
        """Return the view; None if it takes more of the thread."""
        known = {entry.message_id for entry in own}
        if not known.issuperset(self.said) or not all(thread.holds(e.position) for e in own):
            return None
        try:
            seen = replace(thread, entries=self.so_far(thread.entries, own))
            return seen.viewed(**self.options(own))
        except BudgetError:
            return None

    def _of_all(self, thread: LiveThread, own: list[Entry]) -> Context:
        seen = self.so_far(thread.entries, own)
        try:
            return context(seen, **self.options(own))
        except BudgetError:
            # What was never answered is one exchange with this turn; it must not block the thread.
            framing = [one for one in seen if one.role not in ("user", "assistant", "tool")]
            return context([*framing, *own], **self.options(own))

    def recalled(
        self, view: Context, thread: LiveThread, own: Sequence[Entry]
    ) -> Steps[tuple[RecalledBlock, ...]]:
        """Return lines of other places than those that the model sees anyway, or later ones."""
        asked = [entry for entry in own if entry.role == "user"]
        query = "\n".join(text for entry in asked for text in entry.contents)
        if not query or not self.switches.recall:
            return ()
        start = start_of(thread.entries, own[0])
        later = {entry.position for entry in thread.entries if entry.position >= start}
        found = yield from self.memory.line_recall.recall_steps(
            self.key.owner,
            query,
            exclude={self.key: view.positions | later},
            k=self.switches.k,
            max_tokens=self.switches.max_tokens if self.switches.k is None else None,
        )
        return found.blocks


def _unstored(key: ThreadKey, position: int, turn_id: str, message: BaseMessage) -> Entry:
    """Return a message as the entry it would be, for a turn that is not to be stored."""
    return Entry(
        id=new_ulid(),
        key=key,
        position=position,
        turn_id=turn_id,
        role=role_of(message),
        message=message,
        contents=text_pieces(message),
    )


def outlook_steps(
    memory: ConversationMemory,
    moment: Moment,
    said: Collection[str],
    *,
    switches: TurnSwitches,
    profile: Profile = "strict",
    recalled_ids: Collection[str] | None = None,
    unstored: Sequence[BaseMessage] = (),
) -> Steps[Outlook]:
    """Return what there is to answer from.

    Args:
        memory: Whose log and recall.
        moment: Where the node stands.
        said: Ids of the messages of this turn that the model sees, all in the log.
        switches: Budgets.
        profile: Whose rules the messages keep.
        recalled_ids: Lines that were recalled before: others are left out. None recalls anew.
        unstored: Messages of this turn that are not in the log, and stay out of it.
    """
    viewer = _Viewer(memory, moment.key, switches, profile, said, unstored)
    view, thread, own = yield from viewer.viewed()
    blocks = yield from viewer.recalled(view, thread, own)
    if recalled_ids is not None:
        blocks = tuple(
            one for one in blocks if any(_line_ref(x) in recalled_ids for x in one.lines)
        )
    summary = summary_text(viewer.so_far(thread.entries, own))
    return Outlook(view.messages, blocks, summary)
