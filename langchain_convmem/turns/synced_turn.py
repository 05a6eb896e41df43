"""A turn of a state: what the state notes of it, and what is known of it in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NotRequired

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.view import CallContext, TurnEntries, find_turn_start, make_entry

NOTE_KEY: Final = "convmem_turn"
"""Where a state keeps its `TurnNote`."""


class TurnNote(TypedDict):
    """The current turn as a state keeps it: plain values that any checkpointer accepts."""

    id: str
    """The turn's id in the log, a ULID."""
    first: str
    """Id of the message it begins with."""
    user: str | None
    """The user of the turn."""
    generation: NotRequired[int]
    """The log's generation of that user when the note was made; `forget` raises it."""
    held: NotRequired[list[str]]
    """Ids of what the state held when the turn began, if the log follows removals."""
    until: NotRequired[int]
    """The last position of the log before that, as far as it was read."""
    position: NotRequired[int]
    """Where in the log the turn begins, if that is stored: nodes need not look it up."""
    run: NotRequired[int | None]
    """The run that made the note; see `NodeContext.run`."""


@dataclass(slots=True)
class SyncedTurn:
    """A turn in progress, synced to the log. Not thread-safe.

    Attributes:
        id: The turn; None where the state holds nothing of one.
        messages: Its messages in the state, but those that were undone in the log.
        known: Its live entries by message id, some perhaps of messages that left the state.
        abandoned: Ids of entries of replies that an attempt made which came to nothing.
        after: Id of the last message that is in the log.
        is_heard: Whether anything is stored of what the user said; if not, no answer is.
        own_tokens: What the memory's own models took before the next reply; see `OwnTokens`.
        edits: Messages that were edited in the log since the state was last seen.
    """

    id: str | None = None
    messages: Sequence[BaseMessage] = ()
    known: dict[str, Entry] = field(default_factory=dict)
    abandoned: Sequence[str] = ()
    after: str | None = None
    is_heard: bool = True
    own_tokens: Mapping[str, int] = field(default_factory=dict)
    edits: Sequence[BaseMessage] = ()

    @property
    def asked(self) -> Entry | None:
        """The first of its entries; None of a turn that is not stored."""
        return next(iter(self.known.values()), None)

    def make_entries(self, shown: Iterable[BaseMessage], key: ThreadKey) -> list[Entry]:
        """Return messages of the turn as entries at the positions 1, 2, ...

        Args:
            shown: What a model is to see of the turn.
            key: The thread.
        """
        turn_id = self.id or make_ulid()
        return [
            make_entry(
                message,
                # Names that a view makes up are made of the entry's id: they must not change.
                entry_id=self.known[message.id].id if message.id in self.known else make_ulid(),
                key=key,
                position=number,
                turn_id=turn_id,
            )
            for number, message in enumerate(shown, 1)
        ]

    def locate(
        self,
        entries: Sequence[Entry],
        before: Sequence[Entry],
        own: Iterable[Entry],
        aside: CallContext,
    ) -> TurnEntries:
        """Return the turn among the entries of its thread.

        Args:
            entries: Those that were read.
            before: Those that the model sees of what was said before.
            own: The turn, from `make_entries`.
            aside: What only this call shows.
        """
        end = max((entry.position for entry in entries), default=0)
        placed = [replace(entry, position=end + entry.position) for entry in own]
        is_whole = {entry.message_id for entry in entries}.issuperset(self.known)
        start = find_turn_start(entries, self.asked)
        return aside.add_to(TurnEntries(before, placed, start, is_whole=is_whole))

    def apply_edits(
        self, messages: Sequence[BaseMessage], held: Sequence[BaseMessage]
    ) -> list[BaseMessage]:
        """Return messages as they were edited in the log, if they say what the state holds."""
        texts = {message.id: message.content for message in held}
        edits = {edit.id: edit for edit in self.edits}
        return [
            edits.get(one.id, one) if texts.get(one.id) == one.content else one for one in messages
        ]


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that begins with what a state holds.

    Attributes:
        note: What the state is to note of it; None for an empty state.
        messages: The messages of the state as they are to be: without what was forgotten, or is to
            be answered otherwise, as they were edited in the log, and under their ids there.
        late: Of how many earlier turns replies were stored just now.
    """

    note: TurnNote | None
    messages: Sequence[BaseMessage] = ()
    late: int = 0

    def has_changed(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether the state is to hold others than these."""
        return [*map(id, messages)] != [*map(id, self.messages)]
