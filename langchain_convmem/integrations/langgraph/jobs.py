"""What the nodes do, as steps: the same for both forms of a node, and for nodes of one's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.integrations.agents.run_scope import current_context, thread_of
from langchain_convmem.integrations.langgraph.replies import (
    Reply,
    asked_in_turn,
    keep_asked,
    keep_reply,
)
from langchain_convmem.integrations.langgraph.state import (
    asked_in,
    messages_in,
    not_to_store,
    value_in,
)
from langchain_convmem.integrations.langgraph.viewing import Outlook, outlook_steps
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.records import Entry
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.chain_shape import chain_shape
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.replies import reply_messages
from langchain_convmem.turns.state_sync import (
    NOTE_KEY,
    NodeContext,
    StateSync,
    TurnNote,
    check_user,
    latest_exchange,
)
from langchain_convmem.views.context import Profile

__all__ = ["Asking", "Jobs", "Update"]

Update = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asking:
    """A call of the model in the making.

    Attributes:
        outlook: What there is to answer from.
        payload: What the model is called with.
        taken: Ids of the state's messages; None if the state keeps none.
        messages_key: Where the state keeps them.
        is_kept: Whether the turn is stored.
        started_ms: When the call begins.
    """

    outlook: Outlook
    payload: Any
    taken: Collection[str | None] | None
    messages_key: str
    is_kept: bool
    started_ms: int

    def answered(self, output: Any) -> Update:
        """Return what the state learns of the model's output."""
        messages = reply_messages(output, self.outlook.given)
        if self.taken is None:
            timing = {"llmStart": self.started_ms, "llmEnd": now_ms()}
            reply = Reply(messages, timing, self.is_kept)
            return {"reply": reply.to_text(), "answer": reply.text}
        return {self.messages_key: [self._with_free_id(message) for message in messages]}

    def _with_free_id(self, message: BaseMessage) -> BaseMessage:
        """Return a message that replaces none: a cached model repeats its ids."""
        if message.id and message.id not in (self.taken or ()):
            return message
        return message.model_copy(update={"id": new_ulid()})


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of the nodes. Thread-safe: it only holds settings."""

    memory: ConversationMemory
    switches: TurnOptions
    messages_key: str = "messages"
    follow_edits: bool = True

    # -- recall ---------------------------------------------------------------------------------

    def recalling(self, state: Any, config: RunnableConfig) -> Steps[Update]:
        """Store what the user says, and look for lines."""
        context = _context_of(config)
        messages = messages_in(state, self.messages_key, context)
        if messages is None:
            return (yield from self._recalling_input(state, context))
        note: TurnNote | None = None
        if self._switched(context).remember:
            note = yield from self._sync(state, context).begin(messages, _note_in(state))
        now, found = yield from self._exchange(messages, context)
        outlook = yield from self._facing(now, found, context)
        update: Update = {
            "turn_id": found[-1].turn_id if found else "",
            "recalled_ids": outlook.line_refs,
            **_noted(state, note),
        }
        if not self._switched(context).remember and not context.is_sent:
            # The next call stores what the state has new; what is not to be stored says so itself.
            known = {entry.message_id for entry in found}
            update[self.messages_key] = [not_to_store(one) for one in now if one.id not in known]
        return update

    def _recalling_input(self, state: Any, context: NodeContext) -> Steps[Update]:
        asked = asked_in(state, context)
        if not self._switched(context).remember or self.memory.drafting.draft(asked) is None:
            outlook = yield from self._outlook(context, now=[asked])
            reply = Reply((), is_kept=False).to_text()
            return {"reply": reply, "answer": "", "recalled_ids": outlook.line_refs}
        before = value_in(state, "turn_id")
        entry = yield from keep_asked(self.memory, context, asked, before)
        outlook = yield from self._outlook(context, [entry.message_id])
        return {
            "reply": "",
            "answer": "",
            "turn_id": entry.turn_id,
            "recalled_ids": outlook.line_refs,
            "input": _emptied(state),
        }

    # -- record ---------------------------------------------------------------------------------

    def recording(self, state: Any, config: RunnableConfig) -> Steps[Update]:
        """Store the reply."""
        context = _context_of(config)
        messages = messages_in(state, self.messages_key, context)
        if messages is not None:
            return (yield from self._catch_up(state, messages, context))
        reply = Reply.of(value_in(state, "reply"), value_in(state, "answer"))
        if reply is None:
            return {}
        update: Update = {"reply": "", "answer": reply.text}
        if not reply.is_kept:
            return {**update, "input": _emptied(state)}
        if self._switched(context).remember:
            yield from keep_reply(self.memory, context, _turn_in(state), reply)
        return update

    # -- summarize ------------------------------------------------------------------------------

    def summarizing(self, _state: Any, config: RunnableConfig) -> Steps[Update]:
        """Compact the thread if that is due; the state learns nothing of it."""
        context = _context_of(config)
        if self._switched(context).remember:
            yield from self.memory.after_turn_steps(context.key)
        return {}

    # -- model ----------------------------------------------------------------------------------

    def asking(
        self, state: Any, config: RunnableConfig, model: Runnable[Any, Any]
    ) -> Steps[Asking]:
        """Return the call of the model."""
        shape = chain_shape(model, config.get("configurable", {}))
        outlook = yield from self.looking(state, config, shape.profile)
        messages = value_in(state, self.messages_key)
        taken = None if messages is None else {message.id for message in messages}
        payload = outlook.payload(shape.slots)
        is_kept = messages is not None or Reply.is_kept_in(value_in(state, "reply"))
        return Asking(outlook, payload, taken, self.messages_key, is_kept, now_ms())

    def looking(self, state: Any, config: RunnableConfig, profile: Profile) -> Steps[Outlook]:
        """Store what is new, and return what there is to answer from."""
        context = _context_of(config)
        options = {"profile": profile, "recalled_ids": value_in(state, "recalled_ids")}
        messages = messages_in(state, self.messages_key, context)
        if messages is not None:
            yield from self._catch_up(state, messages, context)
            now, found = yield from self._exchange(messages, context)
            return (yield from self._facing(now, found, context, **options))
        if not Reply.is_kept_in(value_in(state, "reply")):
            return (yield from self._outlook(context, now=[asked_in(state, context)], **options))
        stored = yield from asked_in_turn(self.memory, context, _turn_in(state))
        return (yield from self._outlook(context, stored, **options))

    def calling(
        self, state: Any, config: RunnableConfig, asking: Asking, update: Update
    ) -> Steps[Update]:
        """Store a reply that calls tools before they run; return what the state learns."""
        replies = update.get(self.messages_key) if asking.taken is not None else None
        if not replies or not getattr(replies[-1], "tool_calls", None):
            return update
        context = _context_of(config)
        messages = messages_in(state, self.messages_key, context) or []
        return {**update, **(yield from self._catch_up(state, [*messages, *replies], context))}

    # -- what they share ------------------------------------------------------------------------

    def _switched(self, context: NodeContext) -> TurnOptions:
        return self.switches.overridden(context.configurable)

    def _sync(self, state: Any, context: NodeContext) -> StateSync:
        check_user(_note_in(state), context.key)
        log, drafting = self.memory.log, self.memory.drafting
        return StateSync(log, drafting, context, follows_removals=self.follow_edits)

    def _catch_up(
        self, state: Any, messages: Sequence[BaseMessage], context: NodeContext
    ) -> Steps[Update]:
        """Store what the state has new of the latest turn; return what it learns of that."""
        if not self._switched(context).remember:
            return {}
        turn = yield from self._sync(state, context).catch_up(messages, _note_in(state))
        return _noted(state, turn.note)

    def _exchange(
        self, messages: Sequence[BaseMessage], context: NodeContext
    ) -> Steps[tuple[Sequence[BaseMessage], list[Entry]]]:
        """Return the latest exchange of a state, and the log's entries of it, dead ones too."""
        now = messages[latest_exchange(messages) :]
        found: list[Entry] = yield step(
            self.memory.log, "find", context.key, [message.id for message in now]
        )
        return now, found

    def _facing(
        self,
        now: Sequence[BaseMessage],
        found: Sequence[Entry],
        context: NodeContext,
        **options: Any,
    ) -> Steps[Outlook]:
        """Return what there is to answer the latest exchange of a state from."""
        known = {entry.message_id for entry in found}
        return (yield from self._outlook(context, known, now=now, **options))

    def _outlook(
        self, context: NodeContext, known: Collection[str] = (), **options: Any
    ) -> Steps[Outlook]:
        switches = self._switched(context)
        return (
            yield from outlook_steps(self.memory, context.key, known, switches=switches, **options)
        )


def _context_of(config: RunnableConfig) -> NodeContext:
    configurable = config.get("configurable", {})
    key = thread_of(configurable, current_context(), what="a graph with a memory")
    return NodeContext.of(config, key)


def _note_in(state: Any) -> TurnNote | None:
    note: TurnNote | None = value_in(state, NOTE_KEY)
    return note


def _noted(state: Any, note: TurnNote | None) -> Update:
    return {} if note is None or note == _note_in(state) else {NOTE_KEY: note}


def _turn_in(state: Any) -> str:
    """Return the turn that a state is in.

    Raises:
        ConfigError: If it names none.
    """
    turn_id = value_in(state, "turn_id")
    if not isinstance(turn_id, str) or not turn_id:
        msg = (
            f"the state is in no turn (turn_id={turn_id!r}): the node 'recall' must run first, and "
            "the state needs the keys of MemoryState, or 'messages'"
        )
        raise ConfigError(msg)
    return turn_id


def _emptied(state: Any) -> str | None:
    """Return what stands for `input` where the user's words are no longer needed."""
    return "" if isinstance(value_in(state, "input"), str) else None
