"""The nodes `recall`, `model` and `record`, and the helper for a model node of one's own.

What is said is in the log before a model is called, and a node that runs again stores nothing
twice: messages keep their ids. Two kinds of state are served. One without messages holds ids and
plain values, and the log keeps the words; one with messages is followed, edits included.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.integrations.langgraph.keeping import (
    asked_in_turn,
    keep_asked,
    keep_reply,
    keep_state,
    turn_of_exchange,
)
from langchain_convmem.integrations.langgraph.moment import Moment
from langchain_convmem.integrations.langgraph.replies import Reply
from langchain_convmem.integrations.langgraph.state import asked_in, messages_in, value_in
from langchain_convmem.integrations.langgraph.syncing import latest_exchange
from langchain_convmem.integrations.langgraph.viewing import Outlook, outlook_steps
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.memory.chain_shape import provider_profile
from langchain_convmem.memory.replies import reply_messages
from langchain_convmem.memory.turn import TurnSwitches
from langchain_convmem.steps import Steps, arun, run, step
from langchain_convmem.views.context import Profile

__all__ = ["amodel_messages", "model_messages", "model_node", "recall_node", "record_node"]

Update = dict[str, Any]


def recall_node(
    memory: ConversationMemory,
    *,
    recall: bool = True,
    max_tokens: int = 1000,
    k: int | None = None,
    messages_key: str = "messages",
    follow_edits: bool = True,
) -> Runnable[Any, Update]:
    """Return the node that stores what the user says, and looks for lines that fit it.

    It comes before the model. It writes `turn_id` and `recalled_ids` to the state, where the state
    has such keys, and takes `input` out of it. Where the graph was told to begin from an earlier
    checkpoint, the thread goes back with it.

    Args:
        memory: Whose log and recall; stays the caller's to close.
        recall: Whether to look for lines.
        max_tokens: Budget of the recalled text (characters / 4).
        k: Recall exactly so many blocks instead.
        messages_key: Where a state keeps its messages, if it does.
        follow_edits: Whether a message that was taken out of the state goes out of the thread's
            views too. Turn it off where old messages are removed to keep the state small.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    _require_langgraph("recall_node")
    switches = TurnSwitches(recall=recall, max_tokens=max_tokens, k=k)
    nodes = _Nodes(memory, switches, messages_key, follow_edits)
    return _node("recall", nodes.recalling)


def record_node(
    memory: ConversationMemory, *, messages_key: str = "messages", follow_edits: bool = True
) -> Runnable[Any, Update]:
    """Return the node that stores the reply.

    It comes behind the model, and behind the tool loop if there is one. A state without messages
    brings the reply as the node `model` left it, or under `answer`: text, a message or messages.

    Args:
        memory: Whose log; stays the caller's to close.
        messages_key: Where a state keeps its messages, if it does.
        follow_edits: See `recall_node`.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    _require_langgraph("record_node")
    nodes = _Nodes(memory, TurnSwitches(), messages_key, follow_edits)
    return _node("record", nodes.recording)


def model_node(
    memory: ConversationMemory,
    model: Runnable[Any, Any],
    *,
    recall: bool = True,
    max_tokens: int = 1000,
    k: int | None = None,
    history_tokens: int | None = None,
    messages_key: str = "messages",
) -> Runnable[Any, Update]:
    """Return the node that calls a model with the thread, read from the log, and recalled lines.

    Args:
        memory: Whose log and recall; stays the caller's to close.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain or an agent.
        recall: Whether the model is shown recalled lines.
        max_tokens: Budget of the recalled text; see `recall_node`, which takes the same.
        k: Recall exactly so many blocks instead.
        history_tokens: Budget of what was said in the thread before; None is all of it.
        messages_key: Where a state keeps its messages, if it does.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    _require_langgraph("model_node")
    switches = TurnSwitches(
        recall=recall, max_tokens=max_tokens, k=k, history_tokens=history_tokens
    )
    return _calling(_Nodes(memory, switches, messages_key), model)


def model_messages(
    memory: ConversationMemory,
    state: Any,
    config: RunnableConfig,
    *,
    profile: Profile = "strict",
    max_tokens: int = 1000,
    k: int | None = None,
    history_tokens: int | None = None,
    messages_key: str = "messages",
) -> list[BaseMessage]:
    """Return the messages to call a model with, from a node of one's own.

    They are the thread up to this turn, valid for the provider, with the recalled lines folded
    into what the user says. What the state has new is stored first.

    Args:
        memory: Whose log and recall.
        state: The node's state.
        config: The node's config.
        profile: Whose rules the messages keep.
        max_tokens: Budget of the recalled text; see `recall_node`, which takes the same.
        k: Recall exactly so many blocks instead.
        history_tokens: Budget of what was said in the thread before; None is all of it.
        messages_key: Where a state keeps its messages, if it does.

    Raises:
        ConfigError: If the config names no thread, or the state holds no turn.
    """
    switches = TurnSwitches(max_tokens=max_tokens, k=k, history_tokens=history_tokens)
    nodes = _Nodes(memory, switches, messages_key)
    return run(nodes.looking(state, config, profile)).given


async def amodel_messages(
    memory: ConversationMemory,
    state: Any,
    config: RunnableConfig,
    *,
    profile: Profile = "strict",
    max_tokens: int = 1000,
    k: int | None = None,
    history_tokens: int | None = None,
    messages_key: str = "messages",
) -> list[BaseMessage]:
    """Return the messages to call a model with; see `model_messages`."""
    switches = TurnSwitches(max_tokens=max_tokens, k=k, history_tokens=history_tokens)
    nodes = _Nodes(memory, switches, messages_key)
    return (await arun(nodes.looking(state, config, profile))).given


@dataclass(frozen=True, slots=True)
class _Asking:
    """A call of the model in the making."""

    outlook: Outlook
    payload: Any
    taken: Collection[str] | None
    """Ids of the state's messages; None if the state keeps none."""
    messages_key: str
    started_ms: int

    def answered(self, output: Any) -> Update:
        """Return what the state learns of the model's output."""
        messages = reply_messages(output, self.outlook.given)
        if self.taken is None:
            timing = {"llmStart": self.started_ms, "llmEnd": now_ms()}
            reply = Reply(messages, timing)
            return {"reply": reply.to_text(), "answer": reply.text}
        return {self.messages_key: [self._with_free_id(message) for message in messages]}

    def _with_free_id(self, message: BaseMessage) -> BaseMessage:
        """Return a message that replaces none: a cached model repeats its ids."""
        if message.id and message.id not in (self.taken or ()):
            return message
        return message.model_copy(update={"id": new_ulid()})


@dataclass(frozen=True, slots=True)
class _Nodes:
    """What nodes do, as steps. Thread-safe: it only holds settings."""

    memory: ConversationMemory
    switches: TurnSwitches
    messages_key: str = "messages"
    follow_edits: bool = True

    def recalling(self, state: Any, config: RunnableConfig) -> Steps[Update]:
        """Store what the user says, and look for lines."""
        moment = Moment.of(config)
        messages = messages_in(state, self.messages_key, moment)
        if messages is None:
            return (yield from self._recalling_input(state, moment))
        yield from self._keep(messages, moment, whole=True)
        outlook = yield from self._facing(messages, moment)
        turn_id = yield from turn_of_exchange(self.memory.log, moment, messages)
        return {"turn_id": turn_id, "recalled_ids": outlook.line_refs}

    def _recalling_input(self, state: Any, moment: Moment) -> Steps[Update]:
        asked = asked_in(state, moment)
        fresh: Update = {"reply": "", "answer": ""}
        if not self._switched(moment).remember:
            outlook = yield from self._outlook(moment, unstored=[asked])
            return {**fresh, "recalled_ids": outlook.line_refs}
        before = value_in(state, "turn_id")
        entry = yield from keep_asked(self.memory.log, moment, asked, before)
        outlook = yield from self._outlook(moment, [entry.message_id])
        return {
            **fresh,
            "turn_id": entry.turn_id,
            "recalled_ids": outlook.line_refs,
            "input": "" if isinstance(value_in(state, "input"), str) else None,
        }

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
        if self._switched(moment).remember:
            turn_id = _turn_in(state)
            yield from keep_reply(self.memory.log, moment, turn_id, reply)
        return {"reply": "", "answer": reply.text}

    def looking(self, state: Any, config: RunnableConfig, profile: Profile) -> Steps[Outlook]:
        """Store what is new, and return what there is to answer from."""
        moment = Moment.of(config)
        ids = value_in(state, "recalled_ids")
        messages = messages_in(state, self.messages_key, moment)
        if messages is not None:
            yield from self._keep(messages, moment, whole=False)
            return (yield from self._facing(messages, moment, profile=profile, recalled_ids=ids))
        if not self._switched(moment).remember:
            said = [asked_in(state, moment)]
            return (
                yield from self._outlook(moment, unstored=said, profile=profile, recalled_ids=ids)
            )
        stored = yield from asked_in_turn(self.memory.log, moment, _turn_in(state))
        return (yield from self._outlook(moment, stored, profile=profile, recalled_ids=ids))

    def asking(
        self, state: Any, config: RunnableConfig, model: Runnable[Any, Any]
    ) -> Steps[_Asking]:
        """Return the call of the model."""
        outlook = yield from self.looking(state, config, provider_profile(model))
        messages = value_in(state, self.messages_key)
        taken = None if messages is None else {message.id for message in messages}
        payload = outlook.payload(model)
        return _Asking(outlook, payload, taken, self.messages_key, now_ms())

    def _switched(self, moment: Moment) -> TurnSwitches:
        return self.switches.overridden(moment.configurable)

    def _keep(self, messages: Sequence[BaseMessage], moment: Moment, *, whole: bool) -> Steps[None]:
        if self._switched(moment).remember and messages:
            follow = self.follow_edits
            yield from keep_state(self.memory.log, moment, messages, follow=follow, whole=whole)

    def _facing(
        self, messages: Sequence[BaseMessage], moment: Moment, **options: Any
    ) -> Steps[Outlook]:
        """Return what there is to answer the latest exchange of a state from."""
        now = messages[latest_exchange(messages) :]
        ids = [message.id or "" for message in now]
        if self._switched(moment).remember:
            return (yield from self._outlook(moment, ids, **options))
        found = yield step(self.memory.log, "find", moment.key, ids)
        known = {entry.message_id for entry in found}
        unstored = [message for message in now if message.id not in known]
        return (yield from self._outlook(moment, known, unstored=unstored, **options))

    def _outlook(
        self, moment: Moment, said: Collection[str] = (), **options: Any
    ) -> Steps[Outlook]:
        switches = self._switched(moment)
        return (yield from outlook_steps(self.memory, moment, said, switches=switches, **options))


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


# -- as runnables --------------------------------------------------------------------------------


def _node(name: str, job: Callable[[Any, RunnableConfig], Steps[Update]]) -> Runnable[Any, Update]:
    def call(state: Any, config: RunnableConfig) -> Update:
        return run(job(state, config))

    async def acall(state: Any, config: RunnableConfig) -> Update:
        return await arun(job(state, config))

    return RunnableLambda(call, acall, name=name)


def _calling(nodes: _Nodes, model: Runnable[Any, Any]) -> Runnable[Any, Update]:
    def call(state: Any, config: RunnableConfig) -> Update:
        asking = run(nodes.asking(state, config, model))
        return asking.answered(model.invoke(asking.payload, config))

    async def acall(state: Any, config: RunnableConfig) -> Update:
        asking = await arun(nodes.asking(state, config, model))
        return asking.answered(await model.ainvoke(asking.payload, config))

    return RunnableLambda(call, acall, name="model")


def _require_langgraph(what: str) -> None:
    try:
        importlib.import_module("langgraph.graph")
    except ImportError as error:
        raise MissingExtraError.for_extra(what, "langgraph") from error
