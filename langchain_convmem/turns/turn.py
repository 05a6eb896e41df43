"""What is stored of a turn, for every host, and the line in which the turns of a thread wait."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from weakref import WeakValueDictionary

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import LogError
from langchain_convmem.forks import make_lock
from langchain_convmem.history import LiveThread, read_all
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.locks import FifoLock
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey
from langchain_convmem.turns.memory import TurnMemory
from langchain_convmem.turns.messages import continue_turn, find_results, join_thread
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.recalled import RECALLED
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids, mark_interrupted
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import (
    ModelContext,
    TurnEntries,
    TurnView,
    make_entry,
    note_recalled,
    place_turn,
)
from langchain_convmem.views.codec import get_role, get_text_pieces, make_draft
from langchain_convmem.views.edits import plan_replace
from langchain_convmem.views.live import find_live_entries, merge_entries
from langchain_convmem.views.messages import is_remembered
from langchain_convmem.views.summaries import find_summaries_over

if TYPE_CHECKING:
    from langchain_convmem.turns.chains import ChainShape


def measure_times(started_ms: int, first_token_ms: int | None = None) -> dict[str, int]:
    """Return the times of a reply that ends now, by the names of `Metadata.timing`."""
    timing = {"llmStart": started_ms, "llmEnd": get_now_ms()}
    if first_token_ms is not None:
        timing["firstToken"] = first_token_ms
    return timing


# -- One turn -------------------------------------------------------------------------------------
Status: TypeAlias = Literal["done", "interrupted", "failed", "cancelled"]
"""How messages end a turn."""

Opening: TypeAlias = tuple[LiveThread, Entry | None, list[Entry], Sequence[Entry]]
"""How a turn began: the thread before it, the user's entry in the log if the turn is stored, what
the model sees of the turn, and entries of what came with the same call and was said before it."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn of a thread, from what is said to what is stored of the answer.

    `begin`, then the model, then `finish`, then `settle`: each may wait for the log, so that a
    coroutine calls them by `background.hop` and `background.finish`. Not thread-safe: one turn, one
    caller at a time.

    Attributes:
        memory: Where the thread is.
        key: The thread.
        options: What the model gets, and whether the turn is stored.
        shape: What the chain takes.
        trace: Where the turn is reported.
        record_recall: Whether the reply's metadata says which lines were recalled for it.
        id: The turn's id in the log, for what is stored from now on.
        context: What the model gets; None before.
        started_ms: When the model was called.
        first_token_ms: When the first words of a stream came.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    shape: ChainShape
    trace: TurnTrace
    record_recall: bool = False
    id: str = ""
    context: ModelContext | None = None
    started_ms: int = 0
    first_token_ms: int | None = None
    _human: BaseMessage | None = field(default=None, init=False)
    """What the user says now, and what is to be stored of it."""
    _kept: BaseMessage | None = field(default=None, init=False)
    _asked_id: str | None = field(default=None, init=False)
    _since: int = field(default=0, init=False)
    _own_turns: set[str] = field(default_factory=set, init=False)
    _stored: Sequence[Draft] = field(default=(), init=False)

    # -- before the model -------------------------------------------------------------------------

    def begin(self, messages: Sequence[BaseMessage] = ()) -> ModelContext:
        """Store what is new of what is said, and return what the model gets.

        Args:
            messages: What a call brings: what the user says now, last, and what its caller sends
                along; or results of tools, or nothing, to go on with calls that are open. System
                messages, and those marked `remember=False`, are for this call alone.

        Raises:
            InvalidMessageError: If there are no open calls to go on with.
        """
        self.memory.check_call(self.options)
        with self.trace.mark_internal():
            steering = [one for one in messages if get_role(one) == "system"]
            said = [one for one in messages if get_role(one) != "system"]
            self._pass_hook(said)
            view = self.make_view()
            thread = view.read_thread()
            self._since = thread.entries[-1].position if thread.entries else 0
            opening = self._continue if self._human is None else self._open
            thread, asked, own, earlier = opening(thread, said)
            aside = [*steering, *(one for one in said[:-1] if not is_remembered(one))]

            def locate(entries: Sequence[Entry]) -> TurnEntries:
                turn = place_turn(entries, asked, own)
                before = merge_entries(turn.before, earlier)
                return replace(turn, before=before).add_aside(aside)

            # What is searched for is what is stored of what the user says.
            query = "" if self._kept is None else "\n".join(get_text_pieces(self._kept))
            context = view.build_context(locate, query, thread)
            self.trace.dispatch_event("convmem.context", context.count)
        self.context, self.started_ms = context, get_now_ms()
        self._asked_id = None if asked is None else asked.id
        self.id = own[-1].turn_id
        return context

    def make_view(self) -> TurnView:
        """Return what builds the view of the thread for the turn's model."""
        return TurnView(self.memory, self.key, self.options, self.shape, self.trace)

    def _pass_hook(self, said: Sequence[BaseMessage]) -> None:
        """Ask the write hook what is to be stored of what the user says, if anything is."""
        if not said or get_role(said[-1]) != "user":
            return
        self._human = said[-1]
        self._kept = self.memory.drafting.apply_hook(self._human)
        if not (is_remembered(self._human) and is_remembered(self._kept)):
            self.options = replace(self.options, remember=False)

    def _to_stored_form(self, message: BaseMessage) -> BaseMessage | None:
        if message is self._human:
            return self._kept  # the write hook was asked already
        return self.memory.drafting.filter_message(message)

    def _open(self, thread: LiveThread, said: Sequence[BaseMessage]) -> Opening:
        """Begin a turn that is new, or said otherwise, or to be answered once more."""
        human = cast("BaseMessage", self._human)
        thread, joined = join_thread(self.memory.log, thread, said, self._to_stored_form)
        # The user's own words: what the write hook takes away is not for this turn.
        shown: dict[str, Any] = {"message": human, "contents": get_text_pieces(human)}
        if joined.again is not None:
            return thread, joined.again, [replace(joined.again, **shown)], ()
        is_kept = self.options.remember
        kept = cast("BaseMessage", self._kept) if is_kept else human
        drafts = [*self._draft_chat(joined.new[:-1]), make_draft(kept, turn_id=make_ulid())]
        if joined.replaces is not None:
            thread = read_all(self.memory.log, thread)  # all that followed goes
        if joined.replaces is not None and is_kept:
            old = joined.replaces.message_id
            made = plan_replace(thread.entries, old, kept, keep_later=False)
            drafts = [replace(one, turn_id=made[-1].turn_id) for one in made]
        *earlier, own = self._keep(drafts, thread.entries, stores=is_kept)
        earlier = [entry for entry in earlier if entry.control is None]
        return thread, own if is_kept else None, [replace(own, **shown)], earlier

    def _continue(self, thread: LiveThread, said: Sequence[BaseMessage]) -> Opening:
        """Go on with a turn that the thread has, or that came with the call, by tools' results."""
        results = find_results(said)
        before = said[: len(said) - len(results)]
        news: Sequence[Entry] = ()
        if before:
            thread, joined = join_thread(self.memory.log, thread, before, self._to_stored_form)
            drafts = self._draft_chat(joined.new)
            news = self._keep(drafts, thread.entries, stores=self.options.remember)
        entries = [*thread.entries, *news]
        turn, results = continue_turn(entries, results)
        asked, turn_id = turn[0], turn[-1].turn_id
        self._kept = asked.message
        drafts = self.memory.drafting.build_all(results, turn_id=turn_id)
        is_all = len(drafts) == len(results)
        if not is_all:  # the write hook takes one away, which the model has to see
            drafts = [make_draft(result, turn_id=turn_id) for result in results]
        kept = self._keep(drafts, entries, stores=self.options.remember and is_all)
        told = {entry.message_id for entry in kept}
        loop = [entry for entry in turn if entry.message_id not in told]
        earlier = [entry for entry in news if entry not in turn]
        return thread, asked, [*loop, *kept], earlier

    def _draft_chat(self, messages: Sequence[BaseMessage]) -> list[Draft]:
        """Return drafts of what was said elsewhere before this turn: each question opens one."""
        turn_id, role = make_ulid(), ""
        drafts: list[Draft] = []
        for message in messages:
            if get_role(message) == "user" and role != "user":
                turn_id = make_ulid()
            role = get_role(message)
            drafts += self.memory.drafting.build_all([message], turn_id=turn_id)
        return drafts

    def _keep(
        self, drafts: Sequence[Draft], entries: Sequence[Entry], *, stores: bool
    ) -> Sequence[Entry]:
        """Return messages as entries: in the log, or as they would be after the thread's."""
        self._own_turns.update(str(draft.turn_id) for draft in drafts)
        if stores and drafts:
            return self.memory.log.append(self.key, drafts)
        last = entries[-1].position if entries else 0
        return [
            make_entry(cast("BaseMessage", draft.message), self.key, last + n, str(draft.turn_id))
            for n, draft in enumerate(drafts, 1)
        ]

    # -- after the model --------------------------------------------------------------------------

    def note_first_token(self) -> None:
        """Note that the first words of a stream came just now, if they did not before."""
        if self.first_token_ms is None:
            self.first_token_ms = get_now_ms()

    def finish(self, messages: Sequence[BaseMessage], status: Status = "done") -> None:
        """Store messages of the turn, in the place of what an attempt stored before.

        Args:
            messages: The reply, in order; nothing to store nothing.
            status: `interrupted` marks the last message as cut off. `failed` and `cancelled`
                retract the turn: views skip it, and the log keeps it. What they store has no ids
                of its own: the same messages may be sent again.
        """
        is_void = status in ("failed", "cancelled")
        if status == "interrupted" and messages:
            messages = [*messages[:-1], mark_interrupted(messages[-1])]
        if is_void:
            messages = [one.model_copy(update={"id": None}) for one in messages]
        with self.trace.mark_internal():
            try:
                drafts = self._write(messages)
            except LogError as error:
                error.text = messages[-1].text  # it was paid for, and nobody else has it
                raise
            finally:  # also where the write hook refuses what was said
                if is_void:
                    self._retract(cast("RetractReason", status))
            if drafts and not is_void:
                self.trace.report_stored(drafts)
                self.trace.report_own_models()
                self._stored = drafts
                self.memory.note_turn(self.key)

    def _write(self, messages: Sequence[BaseMessage]) -> Sequence[Draft]:
        """Append a reply, and return what was appended.

        What is there is read, and the reply appended, in one transaction where the log has any;
        what the write hook makes of the reply is asked before. To a question that was forgotten
        meanwhile nothing is appended.
        """
        context = self.context
        if context is None or not (messages and self.options.remember):
            return ()
        made = self.memory.drafting.build_all(messages, turn_id=self.id)
        if made:
            aux: dict[str, Any] = self.trace.own_tokens.to_aux()
            if self.record_recall and self.options.recall:
                aux[RECALLED] = note_recalled(context, self.memory.count_text)
            is_cut = messages[-1].response_metadata.get(INTERRUPTED)
            metadata = Metadata(
                attributes=(INTERRUPTED,) if is_cut else (),
                timing=measure_times(self.started_ms, self.first_token_ms),
                aux=aux,
            )
            made[-1] = replace(made[-1], metadata=metadata)
        drafts: list[Draft] = []

        def plan(there: Sequence[Entry]) -> list[Draft]:
            if self._asked_id is None or any(one.id == self._asked_id for one in there):
                drafts[:] = self._replace_attempt(context, made, there)
            return drafts

        ids, after = [one.id for one in messages if one.id], context.turn.start - 1
        self.memory.log.append_planned(self.key, plan, after=after, message_ids=ids)
        return drafts

    def _replace_attempt(
        self, context: ModelContext, made: Sequence[Draft], there: Sequence[Entry]
    ) -> Sequence[Draft]:
        """Return what to append: a reply, in the place of what an attempt stored before.

        Args:
            context: What the model got.
            made: The reply, in order.
            there: The thread's entries from the turn's first on, and those with the reply's ids.
        """
        said = [cast("BaseMessage", draft.message) for draft in made]
        named = assign_free_ids(said, [entry.message_id for entry in there], lambda _: None)
        drafts = [replace(draft, message=one) for draft, one in zip(made, named, strict=True)]
        seen = {entry.id for entry in context.turn.own}  # of which a reply takes no place
        live = find_live_entries([one for one in there if one.position >= context.turn.start])
        own = [one for one in live if one.turn_id == self.id and one.id not in seen]
        old = [one.id for one in own if one.role != "user"]
        if not old or not drafts:
            return drafts
        control = Control((*old, *find_summaries_over(live, old)), "replaced")
        return [Draft(role="control", turn_id=self.id, control=control), *drafts]

    def _retract(self, reason: RetractReason) -> None:
        """Retract what was stored since the turn began; what it took the place of counts again."""
        if not self.options.remember:
            return
        log, own = self.memory.log, {self.id, *self._own_turns}
        # Asked for, not remembered: whatever ended the turn may have hidden what a write did.
        entries = log.entries(self.key, after=self._since)
        gone = {entry.id for entry in entries if entry.turn_id in own}
        controls = [entry for entry in entries if entry.control is not None]
        gone |= {one.id for one in controls if one.control and one.control.replacement in gone}
        if gone:
            ids = tuple(entry.id for entry in entries if entry.id in gone)
            control = Draft(role="control", control=Control(ids, reason), turn_id=self.id or None)
            log.append(self.key, [control])

    def settle(self) -> None:
        """Compact the thread after a reply that was stored, if that is due."""
        if self._stored and self.context is not None and self.memory.compactor is not None:
            said = [draft.message for draft in self._stored if draft.message is not None]
            with self.trace.mark_internal():
                self.memory.compact(self.key, self.context.view, said)


# -- The line in which the turns of a thread wait -------------------------------------------------
Place: TypeAlias = tuple[Hashable, ThreadKey]
"""A thread and the log it is in: equal names in two logs are two threads."""

_LINES: WeakValueDictionary[Place, FifoLock] = WeakValueDictionary()
_LINES_LOCK = make_lock()


def get_line(place: Place) -> FifoLock:
    """Return the line in which the turns of a thread wait, in order of arrival.

    There is one per process, for synchronous and async turns alike; it lives as long as somebody
    has it.
    """
    with _LINES_LOCK:
        return _LINES.setdefault(place, FifoLock(place[1].thread_id))
