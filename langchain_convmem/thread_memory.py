"""`MemoryThread`: one thread of a memory, as a conversation reads and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config

from langchain_convmem.conversation.threads import ThreadView
from langchain_convmem.errors import ConfigError, ConversationError
from langchain_convmem.history import cut_reply, fork_thread, read_live
from langchain_convmem.ids import make_ulid
from langchain_convmem.locks import FifoLock
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.messages import check_question, join_thread, mark_unstored
from langchain_convmem.turns.options import TurnOptions, get_current_context, read_user_id
from langchain_convmem.turns.recalled import RECALL_SOURCE, fold_recalled, join_system
from langchain_convmem.turns.replies import PartialReplyHandler
from langchain_convmem.turns.tracing import TurnTrace, stamp_config
from langchain_convmem.turns.turn import Turn, get_line
from langchain_convmem.turns.view import ModelContext
from langchain_convmem.views.codec import get_role
from langchain_convmem.views.edits import plan_rewind, plan_undo
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import build_message

if TYPE_CHECKING:
    from langchain_convmem.turns.chains import ChainShape
    from langchain_convmem.turns.memory import TurnMemory


@dataclass(frozen=True, slots=True)
class MemoryThread:
    """A thread whose log, summaries and recalled lines a conversation goes by; see `ThreadMemory`.

    Thread-safe. Turns of conversations and of wrapped chains over one thread share one line.

    Attributes:
        memory: The memory.
        key: The thread.
        options: Budgets, and what is recalled; a send may set its own.
        shape: Whose rules the messages keep, and what reads them.
        running: Turns that have begun and are not over.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    shape: ChainShape
    running: set[str] = field(default_factory=set, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"thread {self.key.thread_id!r}"

    @property
    def lock(self) -> FifoLock:
        """The line of all who run turns over this thread in the process."""
        return get_line((self.memory.log_place, self.key))

    def count(self) -> AbstractContextManager[None]:
        """Let who closes the memory wait until the block has run."""
        return self.memory.active_turns.count()

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config of a send with what its runs are found by; see `stamp_config`."""
        stamped = stamp_config(config, thread_id=self.key.thread_id)
        return PartialReplyHandler(self.memory.token_counters.learn).listen(stamped)

    # -- what is asked ----------------------------------------------------------------------------

    def select_asked(self, sent: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what is new of what is sent, and what only this call shows; see `ThreadMemory`.

        System messages steer the call that brings them. A list that holds replies and fits the
        thread is a chat that is shown again: see `join`.
        """
        steering = [mark_unstored(one) for one in sent if get_role(one) == "system"]
        said = [one for one in sent if get_role(one) != "system"]
        has_reply = any(get_role(one) == "assistant" for one in said)
        if has_reply and isinstance(said[-1], HumanMessage):
            # A result that comes first answers a call that waits: all that follows is said now.
            said = said if isinstance(said[0], ToolMessage) else self._reconcile(said)
        return [*steering, *said]

    def _reconcile(self, said: list[BaseMessage]) -> list[BaseMessage]:
        log, form = self.memory.log, self.memory.drafting.filter_message
        _, meant = join_thread(log, read_live(log, self.key), said, form)
        known = meant.again or meant.replaces
        if known is None:
            return list(meant.new)
        if said[-1].id is None:
            return [build_message(known)]
        return [said[-1].model_copy(update={"id": known.message_id})]

    # -- the turn ---------------------------------------------------------------------------------

    def read_view(self, asked: Sequence[BaseMessage]) -> ThreadView:
        """Return the summary, what was said since, and what is asked with recalled lines."""
        for message in asked:
            check_question(message)
        turn = self._make_turn()
        return _split_view(turn.look(asked), asked, turn)

    def _make_turn(self) -> Turn:
        """Return a turn, by the config that its send runs under.

        Raises:
            ConfigError: If that sets an option that there is not, or names another user.
        """
        config = ensure_config()
        configurable = config["configurable"]
        user_id = read_user_id(configurable, get_current_context())
        if None not in (user_id, self.key.user_id) and str(user_id) != self.key.user_id:
            msg = (
                f"the conversation is of the user {self.key.user_id!r}, and this call names "
                f"{user_id!r}; name that user, or none"
            )
            raise ConfigError(msg)
        return Turn(
            memory=self.memory,
            key=self.key,
            options=self.options.merge_call(configurable),
            shape=self.shape,
            trace=TurnTrace(config),
            running=self.running,
        )

    # -- looking back -----------------------------------------------------------------------------

    def read_messages(self) -> list[BaseMessage]:
        """Return copies of all messages, including those covered by summaries."""
        live = find_live_entries(self.memory.log.entries(self.key))
        said = (entry for entry in live if entry.role != "summary")
        return [build_message(entry) for entry in said if entry.turn_id not in self.running]

    def undo(self, turns: int) -> list[BaseMessage]:
        """Take back the last exchanges; see `ConversationHistory.undo`."""
        drafts, undone = plan_undo(self.memory.log.entries(self.key), turns)
        self.memory.log.append(self.key, drafts)
        return [build_message(entry) for entry in undone]

    def cut(self, heard: int | str, message_id: str | None) -> BaseMessage | None:
        """Cut a reply to what was heard of it; see `ConversationHistory.cut_reply`."""
        cut = cut_reply(self.memory.log, self.key, self.memory.drafting, heard, message_id)
        return None if cut is None else build_message(cut)

    def rewind(self, message_id: str | None) -> None:
        """Take back what was said after a message; see `ThreadMemory`."""
        try:
            drafts = plan_rewind(self.memory.log.entries(self.key), message_id)
        except LookupError as error:
            msg = f"thread {self.key.thread_id!r} no longer shows the message of this checkpoint"
            raise ConversationError(msg) from error
        self.memory.log.append(self.key, drafts)

    def branch(self) -> MemoryThread:
        """Return a fork of the thread, without the turn that runs."""
        said = self.read_messages() if self.running else []
        if self.running and not said:
            key = ThreadKey(self.key.user_id, make_ulid())
        else:
            last = said[-1].id if said else None
            key = fork_thread(self.memory.log, self.key, last, None)
        return replace(self, key=key, running=set())


def _split_view(context: ModelContext, asked: Sequence[BaseMessage], turn: Turn) -> ThreadView:
    """Return what was seen in two: what was said before, and what is asked."""
    names, messages = {message.id for message in asked}, context.view.messages
    first = len(messages)
    while first and messages[first - 1].id in names:
        first -= 1
    before, now = messages[:first], messages[first:]
    if asked and context.recall_place == "system":
        before = join_system(before, context.recalled, source=RECALL_SOURCE)
        return ThreadView(tuple(before), tuple(now), turn)
    humans = [n for n, one in enumerate(now) if isinstance(one, HumanMessage)]
    for number in humans[-1:]:
        # Templates put the parts of a message together without a space between them.
        recalled = context.recalled and f"{context.recalled}\n\n"
        now[number] = fold_recalled(cast("HumanMessage", now[number]), recalled)
    return ThreadView(tuple(before), tuple(now), turn)
