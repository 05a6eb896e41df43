"""A graph's turn among the entries of its thread: as the log has it, and as the state says it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_convmem.ids import new_ulid
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.entries import entry_said, said_before, start_of
from langchain_convmem.turns.view import CallContext, TurnEntries
from langchain_convmem.views.live import live_entries

__all__ = ["StateTurn"]


@dataclass(frozen=True, slots=True)
class StateTurn:
    """The turn that a state is in.

    Attributes:
        key: The thread.
        known: Ids of the messages of this turn that the log has, be they retracted since.
        now: The messages of this turn as the state has them, stored or not; nothing if only the
            log has them.
        aside: What else only this call shows.
    """

    key: ThreadKey
    known: Collection[str]
    now: Sequence[BaseMessage] = ()
    aside: CallContext = field(default_factory=CallContext)

    def locate(self, entries: Sequence[Entry]) -> TurnEntries:
        """Return the turn among entries; a state says it in full and in its own order."""
        stored = [entry for entry in live_entries(entries) if entry.message_id in self.known]
        first = min(stored, key=lambda entry: entry.position, default=None)
        ids = {entry.id for entry in stored}
        before = [entry for entry in said_before(entries, first) if entry.id not in ids]
        read = {entry.message_id for entry in entries}
        turn = TurnEntries(
            before,
            self._as_said(entries, stored) if self.now else stored,
            start_of(entries, first),
            is_whole=read.issuperset(self.known),
        )
        return self.aside.add_to(turn)

    def _as_said(self, entries: Sequence[Entry], stored: Sequence[Entry]) -> list[Entry]:
        """Return the state's messages as the entries that they are or would be."""
        by_id = {entry.message_id: entry for entry in stored}
        turn_id = stored[0].turn_id if stored else new_ulid()
        end = max((entry.position for entry in entries), default=0)
        return [
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
