"""What is stored of a turn, for every host, and the line in which the turns of a thread wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast
from weakref import WeakValueDictionary

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import LogError, ThreadBusyError
from langchain_convmem.forks import make_lock
from langchain_convmem.history import LiveThread, read_all
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.locks import FifoLock
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import TurnMemory
from langchain_convmem.turns.messages import Joined, continue_turn, find_results, join_thread
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.recalled import RECALLED
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids, mark_interrupted
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import (
    CallContext,
    ModelContext,
    Place,
    TurnEntries,
    TurnView,
    find_turn_start,
    has_same_content,
    is_answered,
    list_earlier_entries,
    make_entry,
    note_recalled,
)
from langchain_convmem.views.codec import get_role, get_text_pieces, make_draft
from langchain_convmem.views.counting import get_text_counter
from langchain_convmem.views.edits import plan_replace, plan_rewind
from langchain_convmem.views.live import find_live_entries, find_retracted_ids
from langchain_convmem.views.messages import DraftBuilder, build_message, is_remembered
from langchain_convmem.views.summaries import find_summaries_over


# -- What is stored of a turn: once for every host, whatever is tried again -----------------------
def draft_reply(
    drafting: DraftBuilder,
    messages: Iterable[BaseMessage],
    *,
    turn_id: str,
    entries: Sequence[Entry],
    found: Iterable[Entry],
    metadata: Metadata,
    new_id: Callable[[int], str | None] = lambda _: None,
    answers: Mapping[int, BaseMessage | None] | None = None,
) -> list[Draft]:
    """Return what to append: a reply, in the place of what an attempt stored before.

    Nothing if all of it is there already, or nothing of it is to be stored.

    Args:
        drafting: What is stored of a message.
        messages: The reply, in order.
        turn_id: The turn.
        entries: The thread's entries from the turn's first on.
        found: Entries that have ids of the messages.
        metadata: Goes to the last message.
        new_id: Makes the id of a message that has no free one of its own; see `assign_free_ids`.
        answers: What the write hook made of the messages already; see `Drafting.drafts`.
    """
    taken = {entry.message_id for entry in found if entry.turn_id != turn_id}
    fresh = assign_free_ids(messages, taken, new_id)
    drafts = drafting.build_all(fresh, turn_id=turn_id, answers=answers)
    if not drafts:
        return []
    gone: list[str] = []
    kept = 0
    live = find_live_entries(entries)
    for entry in live:
        if entry.turn_id != turn_id or entry.role == "user":
            continue
        if any(_is_same(entry, draft) for draft in drafts):
            kept += 1
        else:
            gone.append(entry.id)
    if kept == len(drafts) and not gone:
        return []
    drafts[-1] = replace(drafts[-1], metadata=metadata)
    if gone:
        gone += find_summaries_over(live, gone)
        control = Control(tuple(gone), "replaced")
        drafts.insert(0, Draft(role="control", turn_id=turn_id, control=control))
    return drafts


def _is_same(entry: Entry, draft: Draft) -> bool:
    has_id = draft.message is not None and draft.message.id == entry.message_id
    return has_id and has_same_content(entry, draft)


def _mark_cut(draft: Draft) -> Draft:
    """Return a draft whose entry says that the reply was cut off, if its message does."""
    message, known = draft.message, draft.metadata
    is_cut = message is not None and message.response_metadata.get(INTERRUPTED)
    if not is_cut or INTERRUPTED in known.attributes:
        return draft
    return replace(draft, metadata=replace(known, attributes=(*known.attributes, INTERRUPTED)))


def measure_times(started_ms: int, first_token_ms: int | None = None) -> dict[str, int]:
    """Return the times of a reply that ends now, by the names of `Metadata.timing`."""
    timing = {"llmStart": started_ms, "llmEnd": get_now_ms()}
    if first_token_ms is not None:
        timing["firstToken"] = first_token_ms
    return timing


# -- One turn -------------------------------------------------------------------------------------
Status: TypeAlias = Literal["open", "done", "interrupted", "failed", "cancelled"]
"""How messages of a turn end it: not yet, since calls are to be answered, or for good."""

_ATTEMPT = "attempt_of"
"""Key in the user entry's `aux`: the run whose retries are the same turn."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How a turn began.

    Attributes:
        asked: The user's entry in the log; None of a turn that is not stored.
        own: What the model sees of the turn: what the user says, calls of its earlier rounds, and
            their results.
        earlier: Entries of what was said before it and came with the same call.
        call: What only this call shows.
    """

    asked: Entry | None
    own: Sequence[Entry]
    earlier: Sequence[Entry] = ()
    call: CallContext = field(default_factory=CallContext)

    def locate(self, entries: Sequence[Entry]) -> TurnEntries:
        """Return the turn among the entries of its thread, which is seen as it was before."""
        start = find_turn_start(entries, self.asked)
        before = list_earlier_entries(entries, self.asked)
        if self.earlier:
            known = {entry.id for entry in before}
            before += [entry for entry in self.earlier if entry.id not in known]
        return self.call.add_to(TurnEntries(before, self.own, start))


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
        retry_of: The run whose retries are the same turn.
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
    retry_of: str | None = None
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
            steering, said, aside = self._sort(messages)
            self._pass_hook(said)
            view = self.make_view()
            thread = view.read_thread()
            self._since = thread.entries[-1].position if thread.entries else 0
            call = CallContext(steering, aside)
            if self._human is None:
                thread, opening = self._continue(thread, said, call)
            else:
                thread, opening = self._open(thread, said, call)
            query = "" if self._kept is None else "\n".join(get_text_pieces(self._kept))
            context = view.build_context(opening.locate, query, thread=thread)
            self.trace.dispatch_event("convmem.context", context.count)
        self.context, self.started_ms = context, get_now_ms()
        self._asked_id = None if opening.asked is None else opening.asked.id
        self.id = opening.own[-1].turn_id
        self.rounds = frozenset([entry.id for entry in opening.own[1:]])
        return context

    def _sort(
        self, messages: Sequence[BaseMessage]
    ) -> tuple[list[BaseMessage], list[BaseMessage], list[BaseMessage]]:
        """Return system messages, what is said, and what of it before the last is not stored."""
        steering: list[BaseMessage] = []
        said: list[BaseMessage] = []
        for message in messages:
            (steering if get_role(message) == "system" else said).append(message)
        aside = [one for one in said[:-1] if not is_remembered(one)] if len(said) > 1 else []
        return steering, said, aside

    def make_view(self) -> TurnView:
        """Return what builds the view of the thread for the turn's model."""
        shape = self.shape
        return TurnView(
            self.memory, self.key, self.options, shape.provider, self.trace, shape.slots
        )

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

    def _open(
        self, thread: LiveThread, said: Sequence[BaseMessage], call: CallContext
    ) -> tuple[LiveThread, Opening]:
        """Store what is new, and return the thread as it was before, with the turn."""
        human = cast("BaseMessage", self._human)
        asked = self._find_attempt(thread.entries, human)
        joined = Joined(again=asked)
        if asked is None:
            whole, joined = join_thread(self.memory.log, thread, said, self._to_stored_form)
            asked = joined.again
            if joined.replaces is not None:
                thread = read_all(self.memory.log, whole)  # all that followed goes
            elif asked is not None:
                thread = whole  # else only the comparison took all of it
        if asked is None and not (self.options.remember and self._kept is not None):
            drafts = [*self._draft_chat(joined.new[:-1]), make_draft(human, turn_id=make_ulid())]
            *before, own = self._make_entries(drafts, thread.entries)
            return thread, Opening(None, [own], before, call)
        earlier: Sequence[Entry] = ()
        if asked is None:
            turn_id = make_ulid()
            earlier, asked = self._store_new(thread, joined, turn_id)
            if joined.replaces is None and asked.turn_id != turn_id:
                self._own_turns.add(asked.turn_id)
                thread = self._take_back_after(thread, asked)
        # The user's own words: what the write hook takes away is not for this turn.
        own = replace(asked, message=human, contents=get_text_pieces(human))
        return thread, Opening(asked, [own], earlier, call)

    def _store_new(
        self, thread: LiveThread, joined: Joined, turn_id: str
    ) -> tuple[Sequence[Entry], Entry]:
        """Return the entries of what is new; the last is what the user says, in a turn of this id.

        The log keeps the turn of a message whose id it knows.
        """
        kept = cast("BaseMessage", self._kept)
        retracting: Sequence[Draft] = ()
        draft = make_draft(kept, turn_id=turn_id)
        if joined.replaces is not None:
            old = joined.replaces.message_id
            *retracting, draft = plan_replace(thread.entries, old, kept, keep_later=False)
            retracting = [replace(one, turn_id=turn_id) for one in retracting]
        if self.retry_of is not None:
            draft = replace(draft, metadata=Metadata(aux={_ATTEMPT: self.retry_of}))
        earlier = self._draft_chat(joined.new[:-1]) if len(joined.new) > 1 else ()
        drafts = [*retracting, *earlier, draft]
        self._own_turns |= {turn_id, str(draft.turn_id)}
        *before, asked = self.memory.log.append(self.key, drafts)[len(retracting) :]
        return before, asked

    def _take_back_after(self, thread: LiveThread, asked: Entry) -> LiveThread:
        """Retract what followed a message of the archive, if its id was said with another text.

        Returns:
            All of the thread.
        """
        last = thread.entries[-1].position if thread.entries else 0
        thread = read_all(self.memory.log, thread)
        is_older = any(
            entry.turn_id == asked.turn_id and entry.id != asked.id for entry in thread.entries
        )
        if is_older and asked.position > last:
            drafts = plan_rewind(thread.entries, asked.id)
            self.memory.log.append(
                self.key, [replace(one, turn_id=asked.turn_id) for one in drafts]
            )
        return thread

    def _find_attempt(self, entries: Sequence[Entry], human: BaseMessage) -> Entry | None:
        """Return the user's entry of a turn that this run tries again, if it does."""
        if self.retry_of is None or human.id is not None or self._kept is None:
            return None  # a message with an id is recognised by it
        live = find_live_entries(entries)
        for entry in reversed(live):
            is_attempt = entry.role == "user" and entry.metadata.aux.get(_ATTEMPT) == self.retry_of
            if is_attempt and entry.message and entry.message.content == self._kept.content:
                return None if is_answered(live, entry.turn_id) else entry
        return None

    # -- a turn that the thread has ---------------------------------------------------------------

    def _continue(
        self, thread: LiveThread, said: Sequence[BaseMessage], call: CallContext
    ) -> tuple[LiveThread, Opening]:
        """Store what leads to the results of tools that a turn goes on with, and them."""
        results = find_results(said)
        before = said[: len(said) - len(results)]
        entries = list(thread.entries)
        if before:
            thread, joined = join_thread(self.memory.log, thread, before, self._to_stored_form)
            news = self._keep(list(self._draft_chat(joined.new)), thread.entries)
            entries = [*thread.entries, *news]
        found = continue_turn(entries, results)
        self._own_turns.add(found.turn_id)
        self._kept = found.asked.message
        drafts = self.memory.drafting.build_all(found.results, turn_id=found.turn_id)
        if len(drafts) < len(results):  # the write hook takes one away, which the model has to see
            drafts = [make_draft(result, turn_id=found.turn_id) for result in found.results]
            kept: Sequence[Entry] = self._make_entries(drafts, entries)
        else:
            kept = self._keep(drafts, entries)
        asked, stored = found.asked, {entry.id for entry in kept}
        loop = [
            entry
            for entry in find_live_entries(entries)
            if entry.id in found.kept and entry.id not in {asked.id, *stored}
        ]
        earlier = [entry for entry in entries[len(thread.entries) :] if entry.id not in found.kept]
        return thread, Opening(asked, [asked, *loop, *kept], earlier, call)

    def _draft_chat(self, messages: Sequence[BaseMessage]) -> Iterator[Draft]:
        """Yield drafts of what was said elsewhere before this turn: each question opens one."""
        turn_id, role = make_ulid(), ""
        for message in messages:
            if get_role(message) == "user" and role != "user":
                turn_id = make_ulid()
            role = get_role(message)
            self._own_turns.add(turn_id)
            yield from self.memory.drafting.build_all([message], turn_id=turn_id)

    def _keep(self, drafts: Sequence[Draft], entries: Sequence[Entry]) -> Sequence[Entry]:
        """Store messages, if this turn is stored, and return their entries."""
        if not drafts:
            return []
        if not self.options.remember:
            return self._make_entries(drafts, entries)
        return self.memory.log.append(self.key, drafts)

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
        metadata = self._make_metadata(context, status, aux)
        drafting, start, rounds = self.memory.drafting, context.turn.start, self.rounds
        answers = drafting.ask_hook(messages)
        drafts: list[Draft] = []

        def plan(there: Sequence[Entry]) -> list[Draft]:
            if self._asked_id is not None and all(one.id != self._asked_id for one in there):
                return []  # forgotten meanwhile, and so is what answers it
            drafts[:] = draft_reply(
                drafting,
                messages,
                turn_id=self.id,
                entries=[one for one in there if one.position >= start and one.id not in rounds],
                found=self._find_taken(context, there),
                metadata=metadata,
                answers=answers,
            )
            drafts[:] = map(_mark_cut, drafts)
            return drafts

        appended = self.memory.log.append_planned(
            self.key,
            plan,
            after=start - 1,
            message_ids=[message.id for message in messages if message.id],
        )
        if status == "open":
            self.rounds = rounds | {entry.id for entry in appended}
        return drafts, appended

    def _find_taken(self, context: ModelContext, found: Sequence[Entry]) -> list[Entry]:
        """Return the entries of other turns whose ids are taken: not what was taken back."""
        others = [entry for entry in found if entry.turn_id != self.id]
        gone = find_retracted_ids(context.thread.entries) if others else ()
        return [entry for entry in others if entry.id not in gone]

    def _make_metadata(
        self, context: ModelContext, status: Status, aux: Mapping[str, Any]
    ) -> Metadata:
        noted = dict(aux)
        if self.record_recall and self.options.recall:
            counter = self.memory.token_counter
            noted[RECALLED] = note_recalled(context, get_text_counter(counter))
        noted |= self.trace.own_tokens.to_aux()
        attributes = (INTERRUPTED,) if status == "interrupted" else ()
        return Metadata(attributes, measure_times(self.started_ms, self.first_token_ms), aux=noted)

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


# -- The line in which the turns of a thread wait -------------------------------------------------
class TurnQueue:
    """Lets turns of one thread run in order of arrival, synchronous and async alike.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._guard = make_lock()
        self._locks: WeakValueDictionary[Place, FifoLock] = WeakValueDictionary()

    def get_lock(self, place: Place) -> FifoLock:
        """Return the lock of a thread; it lives as long as somebody has it.

        Its waits raise a `ThreadBusyError` if they take too long, or if this very turn already
        holds the thread, so that waiting would never end.
        """
        with self._guard:
            lock = self._locks.get(place)
            if lock is None:
                lock = self._locks[place] = _make_lock(place[1].thread_id)
            return lock


def _make_lock(thread_id: str) -> FifoLock:
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

    return FifoLock(make_late_error, make_reentry_error)


TURN_QUEUE = TurnQueue()
"""One per process: whatever runs turns over one thread takes turns as well."""
