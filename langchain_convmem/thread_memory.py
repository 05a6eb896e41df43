"""`MemoryThread`: one thread of a memory, as a conversation reads and writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config

from langchain_convmem.conversation.threads import ThreadView
from langchain_convmem.errors import (
    ConfigError,
    ConversationError,
    LogError,
)
from langchain_convmem.history import cut_reply, fork_thread, read_live
from langchain_convmem.ids import make_ulid
from langchain_convmem.locks import FifoLock
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey
from langchain_convmem.turns.messages import (
    check_question,
    join_thread,
    mark_unstored,
)
from langchain_convmem.turns.options import TurnOptions, get_current_context, read_user_id
from langchain_convmem.turns.recalled import RECALL_SOURCE, fold_recalled, join_system
from langchain_convmem.turns.replies import PartialReplyHandler, assign_free_ids
from langchain_convmem.turns.tracing import TurnTrace, stamp_config
from langchain_convmem.turns.turn import TURN_QUEUE
from langchain_convmem.turns.view import (
    ModelContext,
    TurnEntries,
    TurnView,
    find_turn_start,
    make_entry,
)
from langchain_convmem.views.codec import get_role, get_text_pieces
from langchain_convmem.views.edits import INTERRUPTED, plan_rewind, plan_undo
from langchain_convmem.views.live import find_live_entries, find_retracted_ids
from langchain_convmem.views.messages import build_message, is_remembered
from langchain_convmem.views.providers import Provider
from langchain_convmem.views.shown import Context

if TYPE_CHECKING:
    from langchain_convmem.turns.memory import TurnMemory


@dataclass(frozen=True, slots=True)
class MemoryThread:
    """A thread whose log, summaries and recalled lines a conversation goes by; see `ThreadMemory`.

    Thread-safe. Turns of conversations and of wrapped chains over one thread share one line.

    Attributes:
        memory: The memory.
        key: The thread.
        options: Budgets, and what is recalled; a send may set its own.
        provider: Provider rules for the messages.
        model: The name of the model, by which tokens are counted; None if it is not known.
        running: Turns that have begun and are not over.
        edited: Ids of messages that what is asked next is said instead of.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    provider: Provider
    model: str | None = None
    running: set[str] = field(default_factory=set, repr=False, compare=False)
    edited: set[str] = field(default_factory=set, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"thread {self.key.thread_id!r}"

    @property
    def lock(self) -> FifoLock:
        """The line of all who run turns over this thread in the process."""
        return TURN_QUEUE.get_lock((self.memory.log_place, self.key))

    def count(self) -> AbstractContextManager[None]:
        """Let who closes the memory wait until the block has run."""
        return self.memory.active_turns.count()

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config of a send with what its runs are found by; see `stamp_config`."""
        stamped = stamp_config(config, None, thread_id=self.key.thread_id)
        return PartialReplyHandler(self.memory.token_counters.learn).listen(stamped)

    # -- what is asked ----------------------------------------------------------------------------

    def select_asked(self, sent: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what is new of what is sent, and what only this call shows; see `ThreadMemory`.

        System messages steer the call that brings them. A list that holds replies and fits the
        thread is a chat that is shown again: see `join`.
        """
        steering = [mark_unstored(one) for one in sent if get_role(one) == "system"]
        said = [one for one in sent if get_role(one) != "system"]
        if not said:
            return list(sent)
        if _is_chat(said):
            said = self._reconcile(said)
        return [*steering, *said]

    def _reconcile(self, said: list[BaseMessage]) -> list[BaseMessage]:
        log = self.memory.log
        thread = read_live(log, self.key)
        shown = {entry.id for entry in thread.entries}
        form = self.memory.drafting.filter_message
        thread, meant = join_thread(log, thread, said, form)
        if meant.replaces is not None:
            if meant.replaces.id not in shown:
                return said[-1:]  # the archive is not taken back
            self.edited.add(meant.replaces.message_id)
            return [said[-1].model_copy(update={"id": meant.replaces.message_id})]
        if meant.again is not None:
            live = [entry for entry in find_live_entries(thread.entries) if entry.role != "summary"]
            is_latest = meant.again.turn_id == live[-1].turn_id
            return [build_message(meant.again)] if is_latest else said[-1:]
        return list(meant.new)

    # -- what the model sees ----------------------------------------------------------------------

    def read_view(self, asked: Sequence[BaseMessage]) -> ThreadView:
        """Return the summary, what was said since, and what is asked with recalled lines."""
        look = self._look()
        with look.trace.mark_internal():
            human, kept = self._find_query(asked)
            if human is not None and not (is_remembered(human) and is_remembered(kept)):
                # Of a question that is not stored, nothing is: no call, no result, no reply.
                look = replace(look, options=replace(look.options, remember=False))
            first = next((one for one in asked if is_remembered(one)), None)
            begins = kept if first is human else first
            is_edit = begins is not None and begins.id in self.edited
            turn_id = make_ulid()
            locate = partial(self._locate, asked, begins, turn_id, is_edit)
            context = look.read_view(locate)
            again = _find_replaced(context.thread.entries, begins, is_edit=is_edit)
            self.edited.clear()
            start = context.turn.start
            note = _Note(look, context.view, human, kept, turn_id, start - 1, again)
            if not asked:
                return ThreadView(tuple(context.view.messages), (), note)
            query = "" if kept is None else "\n".join(get_text_pieces(kept))
            context = look.add_recalled(context, look.recall_lines(context, query))
            look.trace.dispatch_event("convmem.context", context.counts)
        return _split_view(context, asked, note)

    def _look(self) -> TurnView:
        """Return how a send looks at the thread, by the config that it runs under.

        Raises:
            ConfigError: If that sets an option that there is not, or names another user.
        """
        config = ensure_config()
        configurable = config["configurable"]
        user_id = read_user_id(configurable, get_current_context())
        if None not in (user_id, self.key.user_id) and user_id != self.key.user_id:
            msg = (
                f"the conversation is of the user {self.key.user_id!r}, and this call names "
                f"{user_id!r}; name that user, or none"
            )
            raise ConfigError(msg)
        options = self.options.merge_call(configurable)
        trace = TurnTrace(config)
        return TurnView(self.memory, self.key, options, self.provider, trace, model=self.model)

    def _find_query(
        self, asked: Sequence[BaseMessage]
    ) -> tuple[HumanMessage | None, BaseMessage | None]:
        """Return what the user says now, and what of it may be stored and searched for.

        Raises:
            InvalidMessageError: If it is blank.
        """
        human = next((one for one in reversed(asked) if isinstance(one, HumanMessage)), None)
        if human is None or not is_remembered(human):
            return human, None
        check_question(human)
        return human, self.memory.drafting.apply_hook(human)

    def _locate(
        self,
        asked: Sequence[BaseMessage],
        begins: BaseMessage | None,
        turn_id: str,
        is_edit: bool,
        entries: Sequence[Entry],
    ) -> TurnEntries:
        """Return what is asked as the turn that it would be, in the place of the same one."""
        first = find_turn_start(entries, None)
        again = _find_replaced(entries, begins, is_edit=is_edit)
        own = [
            make_entry(
                message, entry_id=make_ulid(), key=self.key, position=first + n, turn_id=turn_id
            )
            for n, message in enumerate(asked)
        ]
        return TurnEntries([one for one in entries if one.id not in again], own, first)

    # -- writing ----------------------------------------------------------------------------------

    def begin(self, asked: Sequence[BaseMessage], view: ThreadView, asked_ms: int) -> None:
        """Store what is asked before the model is called: it was said, whatever happens now."""
        note: _Note = view.note
        self.memory.check_call()
        self.running.add(note.turn_id)
        made = Metadata(timing={"creation": asked_ms})
        drafts = [replace(draft, metadata=made) for draft in self._draft(asked, note)]
        if not drafts:
            return
        if note.again:
            drafts.insert(0, note.retract(note.again, "replaced"))
        try:
            self.memory.log.append(self.key, drafts)
        except LogError as error:
            msg = f"what was asked could not be stored ({error}); the model was not called"
            raise LogError(msg, thread_id=self.key.thread_id) from error

    def add(self, said: Sequence[BaseMessage], view: ThreadView, timing: Mapping[str, int]) -> None:
        """Store the rest of the turn in one write."""
        note: _Note = view.note
        trace = note.look.trace
        with trace.mark_internal():
            drafts = self._draft(said, note)
            if drafts:
                known = drafts[-1].metadata
                aux = {**known.aux, **trace.own_tokens.to_aux()}
                metadata = replace(known, timing=dict(timing), aux=aux)
                drafts[-1] = replace(drafts[-1], metadata=metadata)
                try:
                    self.memory.log.append(self.key, drafts)
                    trace.report_stored(drafts)
                    trace.report_own_models()
                except LogError as error:
                    msg = f"the turn could not be stored ({error}); the reply is in `text`"
                    thread_id = self.key.thread_id
                    raise LogError(msg, thread_id=thread_id, text=said[-1].text) from error
            self.running.discard(note.turn_id)
            if drafts:
                self.memory.note_turn(self.key)

    def settle(self, said: Sequence[BaseMessage], view: ThreadView) -> None:
        """Compact the thread if that is due."""
        note: _Note = view.note
        if note.look.options.remember and any(map(is_remembered, said)):
            with note.look.trace.mark_internal():
                self.memory.compact(self.key, note.view, said)

    def retract(
        self, said: Sequence[BaseMessage], view: ThreadView, reason: Literal["failed", "cancelled"]
    ) -> None:
        """Retract the turn: views skip it, but the log keeps what was stored."""
        note: _Note = view.note
        log, stored = self.memory.log, list[Entry]()
        try:
            # Asked for, not remembered: whatever ended the turn may have hidden what a write did.
            entries = log.entries(self.key, after=note.position)
            # With the control entry that took an earlier answer back: it counts again.
            stored += [one for one in entries if one.turn_id == note.turn_id]
            rest = self._draft(map(_drop_id, said), note)
            if rest:
                stored += log.append(self.key, rest)
        finally:  # also where the write hook refuses what was said
            self.running.discard(note.turn_id)
            if stored:
                control = note.retract((entry.id for entry in stored), reason)
                log.append(self.key, [control])

    def _draft(self, messages: Iterable[BaseMessage], note: _Note) -> list[Draft]:
        if not note.look.options.remember:
            return []
        kept = [message for message in messages if is_remembered(message)]
        names = {message.id for message in kept if message.id}
        taken = self._find_taken(names, note.again)
        fresh = assign_free_ids(kept, taken, lambda _: None)
        # The write hook was asked about the user's message for the view.
        answers = {number: note.kept for number, one in enumerate(kept) if one is note.human}
        drafts = self.memory.drafting.build_all(fresh, turn_id=note.turn_id, answers=answers)
        return [_mark_interrupted(draft) for draft in drafts]

    def _find_taken(self, names: Collection[str], gone: Collection[str]) -> set[str]:
        """Return those of these ids that messages of the thread bear; retracted ones do not."""
        if not names:
            return set()
        log = self.memory.log
        found = log.find(self.key, names)
        if not found:
            return set()
        first = min(entry.position for entry in found)
        dead = find_retracted_ids(log.entries(self.key, after=first - 1))
        return {entry.message_id for entry in found if entry.id not in {*dead, *gone}}

    # -- looking back -----------------------------------------------------------------------------

    def read_messages(self) -> list[BaseMessage]:
        """Return copies of all messages, including those covered by summaries."""
        return [build_message(entry) for entry in self._read_said()]

    def _read_said(self) -> list[Entry]:
        return [
            entry
            for entry in find_live_entries(self.memory.log.entries(self.key))
            if entry.role != "summary" and entry.turn_id not in self.running
        ]

    def undo(self, turns: int) -> list[BaseMessage]:
        """Take back the last exchanges; see `ConversationHistory.undo`."""
        drafts, undone = plan_undo(self.memory.log.entries(self.key), turns)
        self._append(drafts)
        return [build_message(entry) for entry in undone]

    def cut(self, heard: int | str, message_id: str | None) -> BaseMessage | None:
        """Cut a reply to what was heard of it; see `ConversationHistory.cut_reply`."""
        cut = cut_reply(self.memory.log, self.key, self.memory.drafting, heard, message_id)
        return None if cut is None else build_message(cut)

    def mark(self) -> Any:
        """Return the id of the last message; None if nothing was said."""
        said = self._read_said()
        return said[-1].message_id if said else None

    def rewind(self, mark: Any) -> None:
        """Take back what was said since a mark; see `ThreadMemory`."""
        try:
            drafts = plan_rewind(self.memory.log.entries(self.key), mark)
        except LookupError as error:
            raise ConversationError(
                f"thread {self.key.thread_id!r} no longer shows the message of this checkpoint"
            ) from error
        self._append(drafts)

    def _append(self, drafts: Sequence[Draft]) -> None:
        if drafts:
            self.memory.log.append(self.key, drafts)

    def branch(self) -> MemoryThread:
        """Return a fork of the thread, without the turn that runs."""
        last = self.mark() if self.running else None
        if self.running and last is None:
            return replace(
                self, key=ThreadKey(self.key.user_id, make_ulid()), running=set(), edited=set()
            )
        key = fork_thread(self.memory.log, self.key, last, None)
        return replace(self, key=key, running=set(), edited=set())


class _Note(NamedTuple):
    """How a turn looked at the thread, what it saw, and how its entries are found.

    Attributes:
        look: How it looked, and where that is reported.
        view: What the thread showed.
        human: What the user says.
        kept: What the write hook left of it.
        turn_id: The turn's id in the log.
        position: No entry of the turn stands at or before it.
        again: Ids of the entries of the same turn as it was before: the message was sent again.
    """

    look: TurnView
    view: Context
    human: HumanMessage | None
    kept: BaseMessage | None
    turn_id: str
    position: int
    again: Collection[str] = ()

    def retract(self, ids: Iterable[str], reason: RetractReason) -> Draft:
        """Return a draft that takes entries back in this turn."""
        control = Control(tuple(ids), reason)
        return Draft(role="control", turn_id=self.turn_id, control=control)


def _is_chat(said: Sequence[BaseMessage]) -> bool:
    """Return whether a list shows a chat: a reply, and in the end what the user says now."""
    *before, last = said
    is_result = isinstance(said[0], ToolMessage)  # of a call that waits for it
    return (
        isinstance(last, HumanMessage)
        and bool(get_text_pieces(last))
        and not is_result
        and any(get_role(one) == "assistant" for one in before)
    )


def _find_replaced(
    entries: Sequence[Entry], begins: BaseMessage | None, *, is_edit: bool
) -> list[str]:
    """Return the ids of what a turn takes the place of, if it begins with a message of the thread.

    Args:
        entries: The thread.
        begins: What is asked first, as it would be stored.
        is_edit: Whether it is said instead of the message of its id, and of all that follows that;
            else it is the latest turn that is answered anew, if this says the same.
    """
    if not isinstance(begins, HumanMessage) or not begins.id:
        return []
    live = [entry for entry in find_live_entries(entries) if entry.role != "summary"]
    if is_edit:
        numbers = [n for n, one in enumerate(live) if begins.id == one.message_id]
        return [entry.id for entry in live[numbers[-1] :]] if numbers else []
    turn = [entry for entry in live if entry.turn_id == live[-1].turn_id]
    said = turn[0].message if turn else None
    is_same = isinstance(said, HumanMessage) and said.content == begins.content
    return [entry.id for entry in turn] if is_same and begins.id == turn[0].message_id else []


def _split_view(context: ModelContext, asked: Sequence[BaseMessage], note: _Note) -> ThreadView:
    """Return what was seen in two: what was said before, and what is asked."""
    names = {message.id for message in asked}
    messages = context.view.messages
    first = len(messages)
    while first and messages[first - 1].id in names:
        first -= 1
    before, now = messages[:first], list(messages[first:])
    if context.recall_place == "system":
        before = join_system(before, context.recalled, source=RECALL_SOURCE)
        return ThreadView(tuple(before), tuple(now), note)
    for number in reversed(range(len(now))):
        human = now[number]
        if isinstance(human, HumanMessage):
            # Templates put the parts of a message together without a space between them.
            now[number] = fold_recalled(human, context.recalled and f"{context.recalled}\n\n")
            break
    return ThreadView(tuple(before), tuple(now), note)


def _mark_interrupted(draft: Draft) -> Draft:
    """Return a draft whose entry says that the reply was cut off, if the message does."""
    message = draft.message
    if message is None or not message.response_metadata.get(INTERRUPTED):
        return draft
    known = draft.metadata
    return replace(draft, metadata=replace(known, attributes=(*known.attributes, INTERRUPTED)))


def _drop_id(message: BaseMessage) -> BaseMessage:
    # The same message may be sent again, and is no repetition then.
    return message.model_copy(update={"id": None})
