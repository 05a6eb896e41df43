"""What is stored of a turn, for every host, and the line in which the turns of a thread wait."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from weakref import WeakValueDictionary

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import LogError, ThreadBusyError
from langchain_convmem.forks import make_lock
from langchain_convmem.history import LiveThread, read_all
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.locks import FifoLock
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey
from langchain_convmem.turns.memory import TurnMemory
from langchain_convmem.turns.messages import (
    continue_turn,
    find_results,
    join_thread,
)
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.recalled import RECALLED
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids, mark_interrupted
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import (
    CallContext,
    ModelContext,
    TurnEntries,
    TurnView,
    find_turn_start,
    has_same_content,
    list_earlier_entries,
    make_entry,
    note_recalled,
)
from langchain_convmem.views.codec import get_role, get_text_pieces, make_draft
from langchain_convmem.views.edits import plan_replace
from langchain_convmem.views.live import find_live_entries, find_retracted_ids
from langchain_convmem.views.messages import build_message, get_text_counter, is_remembered
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
Status: TypeAlias = Literal["open", "done", "interrupted", "failed", "cancelled"]
"""How messages of a turn end it: not yet, since calls are to be answered, or for good."""

Opening: TypeAlias = tuple[LiveThread, Entry | None, list[Entry], Sequence[Entry]]
"""How a turn began: the thread before it, the user's entry in the log if the turn is stored, what
the model sees of the turn, and entries of what came with the same call and was said before it."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn of a thread, from what is said to what is stored of the answer.

    `begin`, then the model, then `finish`, perhaps several times, then `settle`: each may wait for
    the log, so that a coroutine calls them by `background.hop` and `background.finish`. Not
    thread-safe: one turn, one caller at a time.

    Attributes:
        memory: Where the thread is.
        key: The thread.
        options: What the model gets, and whether the turn is stored.
        shape: What the chain takes.
        trace: Where the turn is reported.
        record_recall: Whether the reply's metadata says which lines were recalled for it.
        id: The turn's id in the log, for what is stored from now on.
        rounds: Ids of entries of the turn that a reply follows, and does not replace.
        context: What the model gets; None before.
        started_ms: When the model was called.
        first_token_ms: When the first words of a stream came.
        stored: What was stored of the reply.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    shape: ChainShape
    trace: TurnTrace
    record_recall: bool = False
    id: str = ""
    rounds: frozenset[str] = frozenset()
    context: ModelContext | None = None
    started_ms: int = 0
    first_token_ms: int | None = None
    stored: Sequence[Draft] = ()
    _asked_id: str | None = field(default=None, init=False)
    _human: BaseMessage | None = field(default=None, init=False)
    _kept: BaseMessage | None = field(default=None, init=False)
    _since: int = field(default=0, init=False)
    _own_turns: set[str] = field(default_factory=set, init=False)

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
        self.memory.check_call(recalls=self.options.recall)
        with self.trace.mark_internal():
            said = [one for one in messages if get_role(one) != "system"]
            steering = [one for one in messages if get_role(one) == "system"]
            aside = CallContext(steering, [one for one in said[:-1] if not is_remembered(one)])
            self._pass_hook(said[-1:])
            view = self.make_view()
            thread = view.read_thread()
            self._since = thread.entries[-1].position if thread.entries else 0
            opening = self._continue if self._human is None else self._open
            thread, asked, own, earlier = opening(thread, said)

            def locate(entries: Sequence[Entry]) -> TurnEntries:
                before = list_earlier_entries(entries, asked)
                known = {entry.id for entry in before} if earlier else ()
                before += [entry for entry in earlier if entry.id not in known]
                return aside.add_to(TurnEntries(before, own, find_turn_start(entries, asked)))

            context = view.build_context(locate, self._query, thread=thread)
            self.trace.dispatch_event("convmem.context", context.count)
        self.context, self.started_ms = context, get_now_ms()
        self._asked_id = None if asked is None else asked.id
        self.id = own[-1].turn_id
        self.rounds = frozenset([entry.id for entry in own[1:]])
        return context

    def make_view(self) -> TurnView:
        """Return what builds the view of the thread for the turn's model."""
        parts = (self.memory, self.key, self.options, self.shape.provider, self.trace)
        return TurnView(*parts, self.shape.slots)

    @property
    def _query(self) -> str:
        """What is searched for: what is stored of what the user says."""
        return "" if self._kept is None else "\n".join(get_text_pieces(self._kept))

    def _pass_hook(self, said: Sequence[BaseMessage]) -> None:
        """Ask the write hook what is to be stored of what the user says, if anything is."""
        human = said[-1] if said else None
        if human is None or get_role(human) != "user":
            return
        self._human = human
        self._kept = self.memory.drafting.apply_hook(human)
        if not (is_remembered(human) and is_remembered(self._kept)):
            self.options = replace(self.options, remember=False)

    def _to_stored_form(self, message: BaseMessage) -> BaseMessage | None:
        if message is self._human:
            return self._kept  # the write hook was asked already
        return self.memory.drafting.filter_message(message)

    # -- a turn that is new, or said otherwise ----------------------------------------------------

    def _open(self, thread: LiveThread, said: Sequence[BaseMessage]) -> Opening:
        """Store what is new, and return the thread as it was before, with the turn."""
        human = cast("BaseMessage", self._human)
        whole, joined = join_thread(self.memory.log, thread, said, self._to_stored_form)
        asked = joined.again
        if joined.replaces is not None:
            thread = read_all(self.memory.log, whole)  # all that followed goes
        elif asked is not None:
            thread = whole  # else only the comparison took all of it
        earlier: Sequence[Entry] = ()
        if asked is None:
            stores = self.options.remember and self._kept is not None
            kept = self._kept if stores and self._kept is not None else human
            turn_id = make_ulid()
            *retracting, draft = [make_draft(kept, turn_id=turn_id)]
            if stores and joined.replaces is not None:
                old = joined.replaces.message_id
                *retracting, draft = plan_replace(thread.entries, old, kept, keep_later=False)
                retracting = [replace(one, turn_id=turn_id) for one in retracting]
            self._own_turns |= {turn_id, str(draft.turn_id)}
            drafts = [*retracting, *self._draft_chat(joined.new[:-1]), draft]
            *earlier, own = self._keep(drafts, thread.entries, stores=stores)[len(retracting) :]
            asked = own if stores else None
        # The user's own words: what the write hook takes away is not for this turn.
        said_now = replace(asked or own, message=human, contents=get_text_pieces(human))
        return thread, asked, [said_now], earlier

    # -- a turn that the thread has ---------------------------------------------------------------

    def _continue(self, thread: LiveThread, said: Sequence[BaseMessage]) -> Opening:
        """Store what leads to the results of tools that a turn goes on with, and them."""
        results = find_results(said)
        before = said[: len(said) - len(results)]
        news: Sequence[Entry] = ()
        if before:
            thread, joined = join_thread(self.memory.log, thread, before, self._to_stored_form)
            drafts = list(self._draft_chat(joined.new))
            news = self._keep(drafts, thread.entries, stores=self.options.remember)
        entries = [*thread.entries, *news]
        found = continue_turn(entries, results)
        self._own_turns.add(found.turn_id)
        self._kept = found.asked.message
        drafts = self.memory.drafting.build_all(found.results, turn_id=found.turn_id)
        is_all = len(drafts) == len(results)
        if not is_all:  # the write hook takes one away, which the model has to see
            drafts = [make_draft(result, turn_id=found.turn_id) for result in found.results]
        kept = self._keep(drafts, entries, stores=self.options.remember and is_all)
        asked, stored = found.asked, {entry.id for entry in kept}
        loop = [
            entry
            for entry in find_live_entries(entries)
            if entry.id in found.kept and entry.id not in {asked.id, *stored}
        ]
        earlier = [entry for entry in news if entry.id not in found.kept]
        return thread, asked, [asked, *loop, *kept], earlier

    def _draft_chat(self, messages: Sequence[BaseMessage]) -> Iterator[Draft]:
        """Yield drafts of what was said elsewhere before this turn: each question opens one."""
        turn_id, role = make_ulid(), ""
        for message in messages:
            if get_role(message) == "user" and role != "user":
                turn_id = make_ulid()
            role = get_role(message)
            self._own_turns.add(turn_id)
            yield from self.memory.drafting.build_all([message], turn_id=turn_id)

    def _keep(
        self, drafts: Sequence[Draft], entries: Sequence[Entry], *, stores: bool
    ) -> Sequence[Entry]:
        """Return messages as entries, in the log where they are stored."""
        if stores and drafts:
            return self.memory.log.append(self.key, drafts)
        return self._make_entries(drafts, entries)

    def _make_entries(self, drafts: Sequence[Draft], entries: Sequence[Entry]) -> list[Entry]:
        """Return messages as the entries that they would be after these."""
        last = entries[-1].position if entries else 0
        return [
            make_entry(
                draft.message,
                entry_id=make_ulid(),
                key=self.key,
                position=last + number,
                turn_id=str(draft.turn_id),
            )
            for number, draft in enumerate(drafts, 1)
            if draft.message is not None
        ]

    # -- after the model --------------------------------------------------------------------------

    def note_first_token(self) -> None:
        """Note that the first words of a stream came just now, if they did not before."""
        if self.first_token_ms is None:
            self.first_token_ms = get_now_ms()

    def finish(
        self,
        messages: Sequence[BaseMessage],
        status: Status = "done",
        *,
        aux: Mapping[str, Any] | None = None,
    ) -> list[BaseMessage]:
        """Store messages of the turn, in the place of what an attempt stored before.

        Args:
            messages: The reply, in order; nothing to store nothing.
            status: `open` for a reply whose calls are to be answered, and for results: what comes
                next follows them. `interrupted` marks the last message as cut off. `failed` and
                `cancelled` retract the turn: views skip it, and the log keeps it. What they store
                has no ids of its own: the same messages may be sent again.
            aux: What is noted with the last message.

        Returns:
            The messages under the ids that they are stored under.
        """
        is_void = status in ("failed", "cancelled")
        if status == "interrupted" and messages:
            messages = [*messages[:-1], mark_interrupted(messages[-1])]
        if is_void:
            messages = [one.model_copy(update={"id": None}) for one in messages]
        with self.trace.mark_internal():
            try:
                drafts, entries = self._write(messages, status, aux or {})
            except LogError as error:
                error.text = messages[-1].text  # it was paid for, and nobody else has it
                raise
            finally:  # also where the write hook refuses what was said
                if is_void:
                    self._retract(cast("RetractReason", status))
            if drafts and not is_void:
                self.trace.report_stored(drafts)
                self.trace.report_own_models()
                if status != "open":
                    self.stored = drafts
                    self.memory.note_turn(self.key)
        stored = [build_message(entry) for entry in entries if entry.message is not None]
        return stored if len(stored) == len(messages) else list(messages)

    def _write(
        self, messages: Sequence[BaseMessage], status: Status, aux: Mapping[str, Any]
    ) -> tuple[list[Draft], list[Entry]]:
        """Append a reply, and return what was appended, before and after.

        What is there is read, and the reply appended, in one transaction where the log has any;
        what the write hook makes of the reply is asked before. To a question that was forgotten
        meanwhile nothing is appended.
        """
        context = self.context
        if context is None or not (messages and self.options.remember):
            return [], []
        metadata = self._make_metadata(context, aux)
        answers, start = self.memory.drafting.ask_hook(messages), context.turn.start
        drafts: list[Draft] = []

        def plan(there: Sequence[Entry]) -> list[Draft]:
            if self._asked_id is None or any(one.id == self._asked_id for one in there):
                drafts[:] = self._draft_reply(context, messages, answers, there, metadata)
            return drafts

        ids = [message.id for message in messages if message.id]
        log = self.memory.log
        appended = log.append_planned(self.key, plan, after=start - 1, message_ids=ids)
        if status == "open":
            self.rounds |= {entry.id for entry in appended}
        return drafts, appended

    def _draft_reply(
        self,
        context: ModelContext,
        messages: Sequence[BaseMessage],
        answers: Mapping[int, BaseMessage | None],
        there: Sequence[Entry],
        metadata: Metadata,
    ) -> list[Draft]:
        """Return what to append: a reply, in the place of what an attempt stored before.

        Nothing if all of it is there already, or nothing of it is to be stored.

        Args:
            context: What the model got.
            messages: The reply, in order.
            answers: What the write hook made of the messages.
            there: The thread's entries from the turn's first on, and those with their ids.
            metadata: Goes to the last message.
        """
        taken = {entry.message_id for entry in self._find_taken(context, there)}
        fresh = assign_free_ids(messages, taken, lambda _: None)
        made = self.memory.drafting.build_all(fresh, turn_id=self.id, answers=answers)
        drafts = list(map(_mark_cut, made))
        start, rounds = context.turn.start, self.rounds
        entries = [one for one in there if one.position >= start and one.id not in rounds]
        live = find_live_entries(entries)
        old = [one for one in live if one.turn_id == self.id and one.role != "user"]
        gone = [one.id for one in old if not any(_is_same(one, draft) for draft in drafts)]
        if not drafts or (not gone and len(old) == len(drafts)):
            return []
        attributes = drafts[-1].metadata.attributes
        drafts[-1] = replace(drafts[-1], metadata=replace(metadata, attributes=attributes))
        if gone:
            gone += find_summaries_over(live, gone)
            control = Control(tuple(gone), "replaced")
            drafts.insert(0, Draft(role="control", turn_id=self.id, control=control))
        return drafts

    def _find_taken(self, context: ModelContext, found: Sequence[Entry]) -> list[Entry]:
        """Return the entries of other turns whose ids are taken: not what was taken back."""
        others = [entry for entry in found if entry.turn_id != self.id]
        gone = find_retracted_ids(context.thread.entries) if others else ()
        return [entry for entry in others if entry.id not in gone]

    def _make_metadata(self, context: ModelContext, aux: Mapping[str, Any]) -> Metadata:
        noted = dict(aux)
        if self.record_recall and self.options.recall:
            counter = self.memory.token_counter
            noted[RECALLED] = note_recalled(context, get_text_counter(counter))
        noted |= self.trace.own_tokens.to_aux()
        return Metadata((), measure_times(self.started_ms, self.first_token_ms), aux=noted)

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
        said = [draft.message for draft in self.stored if draft.message is not None]
        if said and self.context is not None:
            with self.trace.mark_internal():
                self.memory.compact(self.key, self.context.view, said)


def _is_same(entry: Entry, draft: Draft) -> bool:
    has_id = draft.message is not None and draft.message.id == entry.message_id
    return has_id and has_same_content(entry, draft)


def _mark_cut(draft: Draft) -> Draft:
    """Return a draft whose entry says that the reply was cut off, if its message does."""
    message, known = draft.message, draft.metadata
    if message is None or not message.response_metadata.get(INTERRUPTED):
        return draft
    attributes = tuple(dict.fromkeys((*known.attributes, INTERRUPTED)))
    return replace(draft, metadata=replace(known, attributes=attributes))


# -- The line in which the turns of a thread wait -------------------------------------------------
Place: TypeAlias = tuple[Hashable, ThreadKey]
"""A thread and the log it is in: equal names in two logs are two threads."""

_LINES: WeakValueDictionary[Place, FifoLock] = WeakValueDictionary()
_LINES_LOCK = make_lock()


def get_line(place: Place) -> FifoLock:
    """Return the line in which the turns of a thread wait, in order of arrival.

    There is one per process, for synchronous and async turns alike; it lives as long as somebody
    has it. Its waits raise a `ThreadBusyError` if they take too long, or if this very turn already
    holds the thread, so that waiting would never end.
    """
    thread_id = place[1].thread_id

    def make_late_error(timeout_s: float) -> ThreadBusyError:
        msg = (
            f"thread {thread_id!r} was still busy after {timeout_s:g} s; is a stream of it left "
            "open? Close it, or raise queue_timeout_s, busy_timeout_s for a conversation"
        )
        return ThreadBusyError(msg, thread_id=thread_id)

    def make_reentry_error() -> ThreadBusyError:
        msg = (
            f"a turn of thread {thread_id!r} started another turn of the same thread, "
            "which would wait for itself; use another thread_id inside the chain"
        )
        return ThreadBusyError(msg, thread_id=thread_id)

    with _LINES_LOCK:
        return _LINES.setdefault(place, FifoLock(make_late_error, make_reentry_error))
