"""The nodes `recall`, `model` and `record`, and the helper for a model node of one's own.

What is said is in the log before a model is called, and a node that runs again stores nothing
twice: messages keep their ids. Two kinds of state are served. One without messages holds ids and
plain values, and the log keeps the words; one with messages is followed, edits included.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langchain_convmem.errors import MissingExtraError
from langchain_convmem.integrations.langgraph.jobs import Jobs, Update
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.steps import Steps, arun, run
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.views.context import Profile

__all__ = [
    "amodel_messages",
    "model_messages",
    "model_node",
    "recall_node",
    "record_node",
    "summarize_node",
]


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
    switches = TurnOptions(recall=recall, max_tokens=max_tokens, k=k)
    jobs = Jobs(memory, switches, messages_key, follow_edits)
    return _node("recall", jobs.recalling)


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
    jobs = Jobs(memory, TurnOptions(), messages_key, follow_edits)
    return _node("record", jobs.recording)


def summarize_node(memory: ConversationMemory) -> Runnable[Any, Update]:
    """Return the node that compacts the thread when that is due.

    It comes behind `record`. It works by the memory's options: in the node, behind its back, or by
    telling whoever does it; a memory without a summarizer does nothing. What it covers leaves the
    model's view, not the log, and not the state of a graph that keeps messages.

    Args:
        memory: Whose log and summarizer; stays the caller's to close.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    _require_langgraph("summarize_node")
    return _node("summarize", Jobs(memory, TurnOptions()).summarizing)


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
    switches = TurnOptions(recall=recall, max_tokens=max_tokens, k=k, history_tokens=history_tokens)
    return _calling(Jobs(memory, switches, messages_key), model)


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
    switches = TurnOptions(max_tokens=max_tokens, k=k, history_tokens=history_tokens)
    jobs = Jobs(memory, switches, messages_key)
    with TurnTrace(config).internal():
        return run(jobs.looking(state, config, profile)).given


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
    switches = TurnOptions(max_tokens=max_tokens, k=k, history_tokens=history_tokens)
    jobs = Jobs(memory, switches, messages_key)
    with TurnTrace(config).internal():
        return (await arun(jobs.looking(state, config, profile))).given


# -- as runnables --------------------------------------------------------------------------------


def _node(name: str, job: Callable[[Any, RunnableConfig], Steps[Update]]) -> Runnable[Any, Update]:
    def call(state: Any, config: RunnableConfig) -> Update:
        with TurnTrace(config).internal():
            return run(job(state, config))

    async def acall(state: Any, config: RunnableConfig) -> Update:
        with TurnTrace(config).internal():
            return await arun(job(state, config))

    return RunnableLambda(call, acall, name=name)


def _calling(jobs: Jobs, model: Runnable[Any, Any]) -> Runnable[Any, Update]:
    def call(state: Any, config: RunnableConfig) -> Update:
        with TurnTrace(config).internal():
            asking = run(jobs.asking(state, config, model))
        update = asking.answered(model.invoke(asking.payload, config))
        with TurnTrace(config).internal():
            return run(jobs.calling(state, config, asking, update))

    async def acall(state: Any, config: RunnableConfig) -> Update:
        with TurnTrace(config).internal():
            asking = await arun(jobs.asking(state, config, model))
        update = asking.answered(await model.ainvoke(asking.payload, config))
        with TurnTrace(config).internal():
            return await arun(jobs.calling(state, config, asking, update))

    return RunnableLambda(call, acall, name="model")


def _require_langgraph(what: str) -> None:
    try:
        importlib.import_module("langgraph.graph")
    except ImportError as error:
        raise MissingExtraError.for_extra(what, "langgraph") from error
