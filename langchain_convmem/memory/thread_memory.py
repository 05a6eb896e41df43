"""One thread of a memory, as a conversation reads and writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, ensure_config

from langchain_convmem.errors import (
    ConfigError,
    HistoryWriteError,
    LogError,
    UnknownCheckpointError,
)
from langchain_convmem.gates import Gate
from langchain_convmem.history import fork_steps
from langchain_convmem.ids import new_ulid
from langchain_convmem.protocols import ThreadView
from langchain_convmem.records import Context, Control, Draft, Entry, Metadata, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.entries import entry_said, start_of
from langchain_convmem.turns.options import TurnOptions, current_context, read_user_id
from langchain_convmem.turns.queue import TURN_QUEUE
from langchain_convmem.turns.rendering import folded
from langchain_convmem.turns.replies import with_free_ids
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import ModelContext, TurnEntries, TurnView
from langchain_convmem.views.codec import text_pieces
from langchain_convmem.views.context import Profile
from langchain_convmem.views.copies import handed_out
from langchain_convmem.views.drafting import is_remembered
from langchain_convmem.views.editing import rewinding, undoing
from langchain_convmem.views.live import live_entries

if TYPE_CHECKING:
    from langchain_convmem.turns.turn_memory import TurnMemory

__all__ = ["MemoryThread"]


@dataclass(frozen=True, slots=True)
class MemoryThread:
    """A thread whose log, summaries and recalled lines a conversation goes by; see `ThreadMemory`.

    Thread-safe. Turns of conversations and of wrapped chains over one thread share one line.

    Attributes:
        memory: The memory.
        key: The thread.
        options: Budgets, and what is recalled; a send may set its own.
        profile: Whose rules the messages keep.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    profile: Profile

    def __repr__(self) -> str:
        return f"thread {self.key.thread_id!r}"

    @property
    def gate(self) -> Gate:
        """The line of all who run turns over this thread in the process."""
        return TURN_QUEUE.gate((self.memory.log_place, self.key))

    # -- what the model sees ----------------------------------------------------------------------

    def view_steps(self, asked: Sequence[BaseMessage]) -> Steps[ThreadView]:
        """Return the summary, what was said since, and what is asked with recalled lines."""
        look, kept = self._look(), self._searched(asked)
        context = yield from look.view_steps(partial(self._locate, asked))
        note = _Note(look.options, context.view, *kept)
        if not asked:
            return ThreadView(tuple(context.view.messages), (), note)
        query = "" if note.kept is None else "\n".join(text_pieces(note.kept))
        context = context.with_recalled((yield from look.recall_steps(context, query)))
        yield from look.trace.told("convmem.context", context.counts)
        return _parted(context, asked, note)

    def _look(self) -> TurnView:
        config = ensure_config()
        options = self._options_of(config)
        return TurnView(self.memory, self.key, options, self.profile, TurnTrace(config))

    def _options_of(self, config: RunnableConfig) -> TurnOptions:
        """Return the options of a send.

        Raises:
            ConfigError: If its config sets one that there is not, or names another user.
        """
        configurable = config.get("configurable", {})
        user_id = read_user_id(configurable, current_context())
        if None not in (user_id, self.key.user_id) and user_id != self.key.user_id:
            msg = (
                f"the conversation is of the user {self.key.user_id!r}, and this call names "
                f"{user_id!r}; name that user, or none"
            )
            raise ConfigError(msg)
        return self.options.for_call(configurable)

    def _searched(
        self, asked: Sequence[BaseMessage]
    ) -> tuple[HumanMessage | None, BaseMessage | None]:
        """Return what the user says now, and what of it may be searched for."""
        human = next((one for one in reversed(asked) if isinstance(one, HumanMessage)), None)
        if human is None or not human.content or not is_remembered(human):
            return human, None
        return human, self.memory.drafting.hooked(human)

    def _locate(self, asked: Sequence[BaseMessage], entries: Sequence[Entry]) -> TurnEntries:
        """Return what is asked as the turn that it would be."""
        first, turn_id = start_of(entries, None), new_ulid()
        own = [
            entry_said(
                message, entry_id=new_ulid(), key=self.key, position=first + n, turn_id=turn_id
            )
            for n, message in enumerate(asked)
        ]
        return TurnEntries(entries, own, first)

    # -- writing ----------------------------------------------------------------------------------

    def add_steps(
        self, messages: Sequence[BaseMessage], view: ThreadView, timing: Mapping[str, int]
    ) -> Steps[None]:
        """Store a whole turn in one write; then let the thread be compacted if that is due."""
        note = view.note if isinstance(view.note, _Note) else None
        drafts = yield from self._drafts(messages, note)
        if not drafts:
            return
        drafts[-1] = replace(drafts[-1], metadata=Metadata((), dict(timing)))
        try:
            yield step(self.memory.log, "append", self.key, drafts)
            yield from TurnTrace(ensure_config()).report_stored(drafts)
        except LogError as error:
            msg = f"the turn could not be stored ({error}); the reply is in `text`"
            thread_id = self.key.thread_id
            raise HistoryWriteError(msg, thread_id=thread_id, text=messages[-1].text) from error
        if note is not None:
            yield from self.memory.after_turn_steps(self.key, note.view, messages)

    def failed_steps(
        self, messages: Sequence[BaseMessage], reason: Literal["failed", "cancelled"]
    ) -> Steps[None]:
        """Store the messages of a failed turn and take them back: views skip them."""
        drafts = yield from self._drafts([_unnamed(message) for message in messages])
        if drafts and self._options_of(ensure_config()).remember:
            entries: list[Entry] = yield step(self.memory.log, "append", self.key, drafts)
            control = Control(tuple(entry.id for entry in entries), reason)
            draft = Draft(role="control", turn_id=entries[0].turn_id, control=control)
            yield step(self.memory.log, "append", self.key, [draft])

    def _drafts(
        self, messages: Iterable[BaseMessage], note: _Note | None = None
    ) -> Steps[list[Draft]]:
        if note is not None and not note.options.remember:
            return []
        kept = [message for message in messages if is_remembered(message)]
        answers = {} if note is None else dict(note.answers(kept))
        names = {message.id for message in kept if message.id}
        found: list[Entry] = yield step(self.memory.log, "find", self.key, names)
        fresh = with_free_ids(kept, {entry.message_id for entry in found}, lambda _: None)
        return self.memory.drafting.drafts(fresh, turn_id=new_ulid(), answers=answers)

    # -- looking back -----------------------------------------------------------------------------

    def messages_steps(self) -> Steps[list[BaseMessage]]:
        """Return copies of all that was said, whatever summaries cover it."""
        return [handed_out(entry) for entry in (yield from self._said())]

    def _said(self) -> Steps[list[Entry]]:
        entries = yield from self._entries()
        return [entry for entry in live_entries(entries) if entry.role != "summary"]

    def _entries(self) -> Steps[list[Entry]]:
        entries: list[Entry] = yield step(self.memory.log, "entries", self.key)
        return entries

    def undo_steps(self, turns: int) -> Steps[list[BaseMessage]]:
        """Take back the last exchanges; see `ConversationHistory.undo`."""
        drafts, undone = undoing((yield from self._entries()), turns)
        yield from self._appended(drafts)
        return [handed_out(entry) for entry in undone]

    def mark_steps(self) -> Steps[Any]:
        """Return the id of the last entry; None if nothing was said."""
        said = yield from self._said()
        return said[-1].id if said else None

    def rewind_steps(self, mark: Any) -> Steps[None]:
        """Take back what was said since a mark; see `ThreadMemory`."""
        try:
            drafts = rewinding((yield from self._entries()), mark)
        except LookupError as error:
            raise UnknownCheckpointError(
                f"thread {self.key.thread_id!r} no longer shows the message of this checkpoint"
            ) from error
        yield from self._appended(drafts)

    def _appended(self, drafts: Sequence[Draft]) -> Steps[None]:
        if drafts:
            yield step(self.memory.log, "append", self.key, drafts)

    def branch_steps(self) -> Steps[MemoryThread]:
        """Return a fork of the thread."""
        key = yield from fork_steps(self.memory.log, self.key, None, None)
        return replace(self, key=key)


class _Note(NamedTuple):
    """How a turn looked at the thread, and what it saw."""

    options: TurnOptions
    view: Context
    human: HumanMessage | None
    kept: BaseMessage | None

    def answers(self, messages: Sequence[BaseMessage]) -> Iterator[tuple[int, BaseMessage | None]]:
        """Yield what the write hook, asked for the view, answered to the user's message."""
        for number, message in enumerate(messages):
            if message is self.human and message.content:
                yield number, self.kept


def _parted(context: ModelContext, asked: Sequence[BaseMessage], note: _Note) -> ThreadView:
    """Return what was seen in two: what was said before, and what is asked."""
    names = {message.id for message in asked}
    messages = context.view.messages
    first = len(messages)
    while first and messages[first - 1].id in names:
        first -= 1
    before, now = messages[:first], list(messages[first:])
    for number in reversed(range(len(now))):
        human = now[number]
        if isinstance(human, HumanMessage):
            # Templates put the parts of a message together without a space between them.
            now[number] = folded(human, context.recalled and f"{context.recalled}\n\n")
            break
    return ThreadView(tuple(before), tuple(now), note)


def _unnamed(message: BaseMessage) -> BaseMessage:
    # The same message may be sent again, and is no repetition then.
    return message.model_copy(update={"id": None})
