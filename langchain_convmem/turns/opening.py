"""How a turn begins: which of a call's messages are stored, and what its model sees of them.

A turn is new, or the thread has it already: it is tried again, said otherwise, or goes on with the
results of its tools. Written as steps, for both forms of every host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.history import LiveThread, read_all_steps
from langchain_convmem.ids import new_ulid
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.entries import entry_said, is_answered, said_before, start_of
from langchain_convmem.turns.messages import Incoming
from langchain_convmem.turns.reconcile import Reconciled, continue_turn, reconcile
from langchain_convmem.turns.view import CallContext, TurnEntries
from langchain_convmem.views.codec import draft_of, role_of, text_pieces
from langchain_convmem.views.copies import handed_out
from langchain_convmem.views.drafting import is_remembered
from langchain_convmem.views.editing import replacing, rewinding
from langchain_convmem.views.live import live_entries

if TYPE_CHECKING:
    from langchain_convmem.turns.turn_memory import TurnMemory

__all__ = ["Opening", "TurnOpener"]

_ATTEMPT = "attempt_of"
"""Key in the user entry's `aux`: the run whose retries are the same turn."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A turn that has begun.

    Attributes:
        key: The thread.
        human: What the user says, as the model gets it.
        kept: What the write hook left of it.
        asked: The user's entry; None of a turn that is not stored.
        earlier: Entries of what was said before it and came with the same call.
        loop: Entries that follow it: calls of its earlier rounds, and their results.
        continues: Whether an open turn goes on.
        instructions: System messages of this call.
        context_only: What else only this call shows.
        context_before: The entry that this stands before; None for what the user says.
    """

    key: ThreadKey
    human: HumanMessage
    kept: BaseMessage | None
    asked: Entry | None
    earlier: Sequence[Entry] = ()
    loop: Sequence[Entry] = ()
    continues: bool = False
    instructions: Sequence[BaseMessage] = ()
    context_only: Sequence[BaseMessage] = ()
    context_before: Entry | None = field(default=None)

    @property
    def rounds(self) -> frozenset[str]:
        """Ids of the turn's entries that a reply follows, and does not replace."""
        return frozenset(entry.id for entry in self.loop)

    def locate(self, entries: Sequence[Entry]) -> TurnEntries:
        """Return the turn among the entries of its thread, which is seen as it was before."""
        before, start = said_before(entries, self.asked), start_of(entries, self.asked)
        known = {entry.id for entry in before}
        shown = [*before, *(entry for entry in self.earlier if entry.id not in known)]
        asked = self._make_unstored(start) if self.asked is None else self._show_in_full()
        turn = TurnEntries(shown, [asked, *self.loop], start)
        stands_before = None if self.context_before is None else self.context_before.turn_id
        return CallContext(self.instructions, self.context_only, stands_before).add_to(turn)

    def _show_in_full(self) -> Entry:
        """Return the user's entry with what the user said: the write hook is not for this turn."""
        asked = cast("Entry", self.asked)
        return replace(asked, message=self.human, contents=text_pieces(self.human))

    def _make_unstored(self, position: int) -> Entry:
        """Return the user's message as the entry it would be, for a turn that is not stored."""
        entry_id = new_ulid()
        return entry_said(
            self.human, entry_id=entry_id, key=self.key, position=position, turn_id=entry_id
        )


@dataclass(frozen=True, slots=True)
class TurnOpener:
    """Begins a turn with what a call says.

    Attributes:
        memory: Where the thread is.
        key: The thread.
        incoming: What the call says.
        kept: What the write hook left of what the user says.
        remember: Whether anything is stored.
        attempt_of: The run whose retries are the same turn.
    """

    memory: TurnMemory
    key: ThreadKey
    incoming: Incoming
    kept: BaseMessage | None
    remember: bool
    attempt_of: str | None

    def open(self, thread: LiveThread) -> Steps[tuple[LiveThread, Opening]]:
        """Store what is new, and return the turn, with the thread as it was before.

        Raises:
            InvalidMessageError: If the call goes on with a turn that is not open.
        """
        if self.incoming.continues:
            return thread, (yield from self._continue(thread))
        human = cast("HumanMessage", self.incoming.human)
        asked = self._find_attempt(thread.entries, human)
        meant = Reconciled(new=[human]) if asked is not None else self._compare(thread)
        if meant is None:
            whole = yield from read_all_steps(self.memory.log, thread)
            meant = cast("Reconciled", self._compare(whole))
            if meant.again is not None or meant.replaces is not None:
                thread = whole  # else only the comparison took all of it
        asked = asked or meant.again
        aside = list(meant.context_only)
        earlier: Sequence[Entry] = ()
        if asked is None:
            if self.remember and self.kept is not None:
                turn_id = new_ulid()
                earlier, asked = yield from self._store(thread, meant, turn_id)
                if meant.replaces is None and asked.turn_id != turn_id:
                    thread = yield from self._take_back_after(thread, asked)
            else:
                aside += meant.new[:-1]
        return thread, Opening(
            self.key,
            human,
            self.kept,
            asked,
            earlier,
            instructions=self.incoming.instructions,
            context_only=aside,
            context_before=meant.context_before,
        )

    def _compare(self, thread: LiveThread) -> Reconciled | None:
        return reconcile(
            thread.entries,
            self.incoming.said,
            is_whole=thread.part is None,
            stored_form=self._to_stored_form,
        )

    def _to_stored_form(self, message: BaseMessage) -> BaseMessage | None:
        if message is self.incoming.human:
            return self.kept  # the write hook was asked already
        return self.memory.drafting.hooked(message) if is_remembered(message) else None

    # -- a turn that is new, or said otherwise ----------------------------------------------------

    def _store(
        self, thread: LiveThread, meant: Reconciled, turn_id: str
    ) -> Steps[tuple[Sequence[Entry], Entry]]:
        """Return the entries of what is new; the last is what the user says, in a turn of this id.

        The log keeps the turn of a message whose id it knows.
        """
        kept = cast("BaseMessage", self.kept)
        drafts = list(self._draft_earlier(meant.new[:-1]))
        retracting: Sequence[Draft] = ()
        draft = draft_of(kept, turn_id=turn_id)
        if meant.replaces is not None:
            old = meant.replaces.message_id
            *retracting, draft = replacing(thread.entries, old, kept, keep_later=False)
        aux = {} if self.attempt_of is None else {_ATTEMPT: self.attempt_of}
        drafts = [*retracting, *drafts, replace(draft, metadata=Metadata(aux=aux))]
        added: list[Entry] = yield step(self.memory.log, "append", self.key, drafts)
        *earlier, asked = added[len(retracting) :]
        return earlier, asked

    def _take_back_after(self, thread: LiveThread, asked: Entry) -> Steps[LiveThread]:
        """Retract what followed a message of the archive, if its id was said with another text.

        Returns:
            All of the thread.
        """
        last = thread.entries[-1].position if thread.entries else 0
        thread = yield from read_all_steps(self.memory.log, thread)
        is_older = any(
            entry.turn_id == asked.turn_id and entry.id != asked.id for entry in thread.entries
        )
        if is_older and asked.position > last:
            drafts = rewinding(thread.entries, asked.id)
            yield step(self.memory.log, "append", self.key, drafts)
        return thread

    def _draft_earlier(self, messages: Sequence[BaseMessage]) -> Iterator[Draft]:
        """Yield drafts of what was said elsewhere before this turn: each question opens one."""
        turn_id, role = new_ulid(), ""
        for message in messages:
            if role_of(message) == "user" and role != "user":
                turn_id = new_ulid()
            role = role_of(message)
            yield from self.memory.drafting.drafts([message], turn_id=turn_id)

    # -- a turn that the thread has ---------------------------------------------------------------

    def _find_attempt(self, entries: Sequence[Entry], human: HumanMessage) -> Entry | None:
        """Return the user's entry of a turn that this run tries again, if it does."""
        if self.attempt_of is None or human.id is not None:
            return None  # a message with an id is recognised by it
        live = live_entries(entries)
        for entry in reversed(live):
            if self._is_attempt(entry):
                return None if is_answered(live, entry.turn_id) else entry
        return None

    def _is_attempt(self, entry: Entry) -> bool:
        return (
            entry.role == "user"
            and entry.metadata.aux.get(_ATTEMPT) == self.attempt_of
            and entry.message is not None
            and self.kept is not None
            and entry.message.content == self.kept.content
        )

    def _continue(self, thread: LiveThread) -> Steps[Opening]:
        found = continue_turn(thread.entries, self.incoming.results)
        asked = found.asked
        results = yield from self._store_results(found.results, asked, thread.entries[-1].position)
        others = {asked.id, *(entry.id for entry in results)}
        loop = [
            entry
            for entry in live_entries(thread.entries)
            if entry.id in found.kept and entry.id not in others
        ]
        return Opening(
            self.key,
            cast("HumanMessage", handed_out(asked)),
            asked.message,
            asked,
            loop=[*loop, *results],
            continues=True,
            instructions=self.incoming.instructions,
        )

    def _store_results(
        self, results: Sequence[BaseMessage], asked: Entry, last: int
    ) -> Steps[Sequence[Entry]]:
        drafts = self.memory.drafting.drafts(results, turn_id=asked.turn_id)
        if not self.remember or len(drafts) < len(results):
            return [
                entry_said(
                    message,
                    entry_id=new_ulid(),
                    key=self.key,
                    position=last + number,
                    turn_id=asked.turn_id,
                )
                for number, message in enumerate(results, 1)
            ]
        if not drafts:
            return []
        return (yield step(self.memory.log, "append", self.key, drafts))  # type: ignore[no-any-return]  # steps are not typed
