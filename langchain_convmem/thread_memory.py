"""`MemoryThread`: one thread of a memory, as a conversation reads and writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, ensure_config

from langchain_convmem.history import cut_reply, fork_thread
from langchain_convmem.ids import make_ulid
from langchain_convmem.locks import FifoLock
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import TurnMemory, TurnOptions, agree, read_ids
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import Turn, assign_free_ids, check_question, get_line
from langchain_convmem.turns.view import place_turn
from langchain_convmem.views.edits import plan_rewind, plan_undo
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder, copy_detached, read_counter

OnShown: TypeAlias = Callable[[BaseMessage, BaseMessage], None]
"""Gets a message as the thread will show it, and as the model sees it."""


@dataclass(slots=True, eq=False)
class MemoryThread:
    """A thread of a memory, for one conversation.

    Its turns wait in one line with those of wrapped chains. Methods that only read are thread-safe.

    Attributes:
        memory: The memory.
        key: The thread.
        options: What the model gets; a send may override them.
        shape: What the model takes, and whose rules the messages keep.
        is_plain: Whether the model sees the messages as they are, with nothing recalled or
            repaired.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    shape: ChainShape
    is_plain: bool = False
    _until: int | None = field(default=None, init=False)

    @classmethod
    def from_messages(cls, messages: Sequence[BaseMessage]) -> MemoryThread:
        """Return a thread of no memory, which lives as long as its conversation."""
        log, drafting, counter = InMemoryLog(), DraftBuilder(None), read_counter(None)
        memory, key = TurnMemory(log, drafting, counter), ThreadKey(None, make_ulid())
        # What is passed is kept: an id that comes twice, as from a cached model, is no edit here.
        log.append(key, drafting.build_all([*assign_free_ids(messages, (), lambda _: None)]))
        options, shape = TurnOptions(recall=False), ChainShape(None, "strict")
        return cls(memory, key, options, shape, is_plain=True)

    def __repr__(self) -> str:
        return f"thread {self.key.thread_id!r}"

    @property
    def lock(self) -> FifoLock:
        """The line of all who run turns over this thread in the process."""
        return get_line((self.memory.log_place, self.key))

    # -- the turn ---------------------------------------------------------------------------------

    def make_turn(self, config: RunnableConfig | None = None) -> Turn:
        """Return a turn under the config of its send.

        Raises:
            ConfigError: If the config sets an unknown option, or names another user.
        """
        config = ensure_config(config)
        configurable, own = config["configurable"], self.key.user_id
        _, named = read_ids(configurable)
        agree(own, named, f"the conversation is of the user {own!r}, and this call names {named!r}")
        return Turn(
            memory=self.memory,
            key=self.key,
            options=self.options.merge_call(configurable),
            shape=self.shape,
            trace=TurnTrace(config),
        )

    def peek(self) -> list[BaseMessage]:
        """Return what the model would see of the thread now; writes nothing."""
        if self.is_plain:
            return self.read_messages()
        locate = partial(place_turn, asked=None, own=[])
        return self.make_turn().make_view().read_view(locate).view.messages

    def begin(self, turn: Turn, asked: Sequence[BaseMessage], note: OnShown) -> list[BaseMessage]:
        """Store what is said, and return what the model sees.

        Until `finish` is called, readers do not see the turn.

        Args:
            turn: The turn.
            asked: What is said.
            note: Called if recalled lines are added to what the user says.
        """
        for message in asked:
            check_question(message)
        newest = self.memory.log.entries(self.key, last=1)
        self._until = newest[0].position if newest else 0
        context = turn.begin(asked)
        if self.is_plain:
            return _build_all(context.turn.entries)
        at = context.asked
        if at is not None and context.recalled and context.recall_place == "user":
            note(_build_all(context.turn.own)[0], context.given[at])
        return context.given

    def finish(self) -> None:
        """Let readers see the turn, which was stored or retracted."""
        self._until = None

    # -- looking back -----------------------------------------------------------------------------

    def read_messages(self) -> list[BaseMessage]:
        """Return copies of all messages, those that summaries cover included.

        While a turn runs, the thread is as it was before.
        """
        return _build_all(self.memory.log.entries(self.key, until=self._until))

    def undo(self, turns: int) -> list[BaseMessage]:
        """Take back the last exchanges; see `ConversationHistory.undo`."""
        drafts, undone = plan_undo(self.memory.log.entries(self.key), turns)
        self.memory.log.append(self.key, drafts)
        return _build_all(undone)

    def cut(self, heard: int | str, message_id: str | None) -> BaseMessage | None:
        """Cut a reply to what was heard of it; see `ConversationHistory.cut_reply`."""
        cut = cut_reply(self.memory.log, self.key, self.memory.drafting, heard, message_id)
        return None if cut is None else _build_all([cut])[0]

    def rewind(self, message_id: str | None) -> None:
        """Take back what was said after a message; None takes back all.

        Raises:
            ConversationError: If the thread does not hold the message any more.
        """
        drafts = plan_rewind(self.memory.log.entries(self.key), message_id)
        self.memory.log.append(self.key, drafts)

    def branch(self) -> MemoryThread:
        """Return a fork of the thread, without the turn that runs."""
        said = self.read_messages()
        key = ThreadKey(self.key.user_id, make_ulid())
        if said:
            key = fork_thread(self.memory.log, self.key, said[-1].id, key.thread_id)
        return replace(self, key=key)


def _build_all(entries: Sequence[Entry]) -> list[BaseMessage]:
    """Return copies of messages as they are, also with roles that only a template knows."""
    said = [one for one in find_live_entries(entries) if one.role != "summary"]
    return [copy_detached(one.message, id=one.message_id) for one in said if one.message]
