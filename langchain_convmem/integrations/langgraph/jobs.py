"""What the nodes do, as steps: the same for both forms of a node, and for nodes of one's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.integrations.langgraph.keeping import (
    asked_in_turn,
    keep_asked,
    keep_reply,
    keep_state,
)
from langchain_convmem.integrations.langgraph.moment import Moment
from langchain_convmem.integrations.langgraph.replies import Reply
from langchain_convmem.integrations.langgraph.state import (
    asked_in,
    messages_in,
    not_to_store,
    value_in,
)
from langchain_convmem.integrations.langgraph.syncing import latest_exchange
from langchain_convmem.integrations.langgraph.viewing import Outlook, outlook_steps
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.records import Entry
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.chain_shape import chain_shape
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.replies import reply_messages
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
        moment = Moment.of(config)
        messages = messages_in(state, self.messages_key, moment)
        if messages is None:
            return (yield from self._recalling_input(state, moment))
        yield from self._keep(messages, moment, whole=True)
        now, found = yield from self._exchange(messages, moment)
        outlook = yield from self._facing(now, found, moment)
        update: Update = {
            "turn_id": found[-1].turn_id if found else "",
            "recalled_ids": outlook.line_refs,
        }
        if not self._switched(moment).remember and not moment.is_sent:
            # The next call stores what the state has new; what is not to be stored says so itself.
            known = {entry.message_id for entry in found}
            update[self.messages_key] = [not_to_store(one) for one in now if one.id not in known]
        return update

    def _recalling_input(self, state: Any, moment: Moment) -> Steps[Update]:
        asked = asked_in(state, moment)
        if not self._switched(moment).remember or self.memory.drafting.draft(asked) is None:
            outlook = yield from self._outlook(moment, now=[asked])
            reply = Reply((), is_kept=False).to_text()
            return {"reply": reply, "answer": "", "recalled_ids": outlook.line_refs}
        before = value_in(state, "turn_id")
        entry = yield from keep_asked(self.memory, moment, asked, before)
        outlook = yield from self._outlook(moment, [entry.message_id])
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
        moment = Moment.of(config)
        messages = messages_in(state, self.messages_key, moment)
        if messages is not None:
            yield from self._keep(messages, moment, whole=False)
            return {}
        reply = Reply.of(value_in(state, "reply"), value_in(state, "answer"))
        if reply is None:
            return {}
        update: Update = {"reply": "", "answer": reply.text}
        if not reply.is_kept:
            return {**update, "input": _emptied(state)}
        if self._switched(moment).remember:
            yield from keep_reply(self.memory, moment, _turn_in(state), reply)
        return update

    # -- summarize ------------------------------------------------------------------------------

    def summarizing(self, _state: Any, config: RunnableConfig) -> Steps[Update]:
        """Compact the thread if that is due; the state learns nothing of it."""
        moment = Moment.of(config)
        if self._switched(moment).remember:
            yield from self.memory.after_turn_steps(moment.key)
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
        moment = Moment.of(config)
        options = {"profile": profile, "recalled_ids": value_in(state, "recalled_ids")}
        messages = messages_in(state, self.messages_key, moment)
        if messages is not None:
            yield from self._keep(messages, moment, whole=False)
            now, found = yield from self._exchange(messages, moment)
            return (yield from self._facing(now, found, moment, **options))
        if not Reply.is_kept_in(value_in(state, "reply")):
            return (yield from self._outlook(moment, now=[asked_in(state, moment)], **options))
        stored = yield from asked_in_turn(self.memory, moment, _turn_in(state))
        return (yield from self._outlook(moment, stored, **options))

    # -- what they share ------------------------------------------------------------------------

    def _switched(self, moment: Moment) -> TurnOptions:
        return self.switches.overridden(moment.configurable)

    def _keep(self, messages: Sequence[BaseMessage], moment: Moment, *, whole: bool) -> Steps[None]:
        if self._switched(moment).remember and messages:
            follow = self.follow_edits
            yield from keep_state(self.memory, moment, messages, follow=follow, whole=whole)

    def _exchange(
        self, messages: Sequence[BaseMessage], moment: Moment
    ) -> Steps[tuple[Sequence[BaseMessage], list[Entry]]]:
        """Return the latest exchange of a state, and the log's entries of it, dead ones too."""
        now = messages[latest_exchange(messages) :]
        found: list[Entry] = yield step(
            self.memory.log, "find", moment.key, [message.id for message in now]
        )
        return now, found

    def _facing(
        self,
        now: Sequence[BaseMessage],
        found: Sequence[Entry],
        moment: Moment,
        **options: Any,
    ) -> Steps[Outlook]:
        """Return what there is to answer the latest exchange of a state from."""
        known = {entry.message_id for entry in found}
        return (yield from self._outlook(moment, known, now=now, **options))

    def _outlook(
        self, moment: Moment, known: Collection[str] = (), **options: Any
    ) -> Steps[Outlook]:
        switches = self._switched(moment)
        return (yield from outlook_steps(self.memory, moment, known, switches=switches, **options))


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
