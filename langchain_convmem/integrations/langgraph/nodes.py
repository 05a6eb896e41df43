"""The nodes `recall`, `model` and `record`, and the helper for a model node of one's own.

What is said is in the log before a model is called, and a node that runs again stores nothing
twice: messages keep their ids. Two kinds of state are served. One without messages holds ids and
plain values, and the log keeps the words; one with messages is followed, edits included.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, Unpack

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableLike

from langchain_convmem.errors import MissingExtraError
from langchain_convmem.integrations.langgraph.jobs import Jobs, Update
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.steps import Steps, arun, run
from langchain_convmem.streams import carried_through
from langchain_convmem.turns.chain_shape import ChainShape, read_chain
from langchain_convmem.turns.heard_replies import HeardReplies
from langchain_convmem.turns.options import TurnOptions, TurnSettings
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.views.context import Profile
from langchain_convmem.views.profiles import resolved

__all__ = [
    "amodel_messages",
    "memory_nodes",
    "model_messages",
    "model_node",
    "recall_node",
    "record_node",
    "summarize_node",
]

T = TypeVar("T")


def recall_node(
    memory: ConversationMemory,
    *,
    messages_key: str = "messages",
    follow_edits: bool = True,
    **options: Unpack[TurnSettings],
) -> Runnable[Any, Update]:
    """Return the node that stores what the user says, and looks for lines that fit it.

    It comes before the model. It writes `turn_id` and `recalled_ids` to the state, where the state
    has such keys, and takes `input` out of it. Where the graph was told to begin from an earlier
    checkpoint, the thread goes back with it.

    Args:
        memory: Whose log and recall; stays the caller's to close.
        messages_key: Where a state keeps its messages, if it does.
        follow_edits: Whether a message that was taken out of the state goes out of the thread's
            views too. Turn it off where old messages are removed to keep the state small.
        **options: `recall`, `recall_tokens` and the others of `TurnOptions`; the same as those of
            the model's node.

    Raises:
        ConfigError: If an option is unknown or makes no sense.
        MissingExtraError: If langgraph is not installed.
    """
    return memory_nodes(memory, options, messages_key=messages_key, follow_edits=follow_edits)[
        "recall"
    ]


def record_node(
    memory: ConversationMemory,
    *,
    messages_key: str = "messages",
    follow_edits: bool = True,
    remember: bool = True,
) -> Runnable[Any, Update]:
    """Return the node that stores the reply.

    It comes after the model, and after the tool loop if there is one. A state without messages
    brings the reply as the node `model` left it, or under `answer`: text, a message or messages.

    Args:
        memory: Whose log; stays the caller's to close.
        messages_key: Where a state keeps its messages, if it does.
        follow_edits: See `recall_node`.
        remember: Whether turns are stored.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    options: TurnSettings = {"remember": remember}
    return memory_nodes(memory, options, messages_key=messages_key, follow_edits=follow_edits)[
        "record"
    ]


def summarize_node(memory: ConversationMemory) -> Runnable[Any, Update]:
    """Return the node that compacts the thread when that is due.

    It comes after `record`. It works by the memory's options: in the node, in the background, or by
    telling whoever does it; a memory without a summarizer does nothing. What it covers leaves the
    model's view, not the log, and not the state of a graph that keeps messages.

    Args:
        memory: Whose log and summarizer; stays the caller's to close.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    return memory_nodes(memory, {})["summarize"]


def model_node(
    memory: ConversationMemory,
    model: RunnableLike[Any, Any],
    *,
    name: str | None = None,
    profile: Profile | None = None,
    messages_key: str = "messages",
    **options: Unpack[TurnSettings],
) -> Runnable[Any, Update]:
    """Return the node that calls a model with the thread, read from the log, and recalled lines.

    Args:
        memory: Whose log and recall; stays the caller's to close.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain, an agent or a function.
        name: Under whose name the replies stand, where several speak in one graph. Replies that
            bear a name already keep it.
        profile: Whose rules the messages keep; None goes by the model.
        messages_key: Where a state keeps its messages, if it does.
        **options: `recall`, `history_tokens` and the others of `TurnOptions`; the same as those of
            `recall_node`.

    Raises:
        ConfigError: If an option is unknown or makes no sense.
        MissingExtraError: If langgraph is not installed.
    """
    nodes = memory_nodes(
        memory, options, messages_key=messages_key, model=model, profile=profile, speaker=name
    )
    return nodes["model"]


def model_messages(
    memory: ConversationMemory,
    state: Any,
    config: RunnableConfig,
    *,
    profile: Profile = "strict",
    messages_key: str = "messages",
    **options: Unpack[TurnSettings],
) -> list[BaseMessage]:
    """Return the messages to call a model with, from a node of one's own.

    They are the thread up to this turn, valid for the provider, with the recalled lines folded
    into what the user says. What the state has new is stored first.

    Args:
        memory: Whose log and recall.
        state: The node's state.
        config: The node's config.
        profile: Whose rules the messages keep.
        messages_key: Where a state keeps its messages, if it does.
        **options: See `model_node`.

    Raises:
        ConfigError: If the config names no thread, the state holds no turn, or an option is
            unknown or makes no sense.
    """
    jobs = _jobs(memory, options, messages_key=messages_key)
    looking = partial(jobs.looking, shape=_shape(profile))
    return run(_run_traced(looking, state, config)).given


async def amodel_messages(
    memory: ConversationMemory,
    state: Any,
    config: RunnableConfig,
    *,
    profile: Profile = "strict",
    messages_key: str = "messages",
    **options: Unpack[TurnSettings],
) -> list[BaseMessage]:
    """Return the messages to call a model with; see `model_messages`."""
    jobs = _jobs(memory, options, messages_key=messages_key)
    looking = partial(jobs.looking, shape=_shape(profile))
    return (await arun(_run_traced(looking, state, config))).given


# -- as runnables --------------------------------------------------------------------------------


def memory_nodes(
    memory: ConversationMemory,
    options: TurnSettings,
    *,
    model: RunnableLike[Any, Any] | None = None,
    **parts: Any,
) -> dict[str, Runnable[Any, Update]]:
    """Return all nodes by name; `model` is among them where there is one.

    Args:
        memory: Whose log and recall.
        options: What holds for every turn.
        model: What the node `model` calls.
        **parts: The others of `Jobs`.

    Raises:
        ConfigError: If an option is unknown or makes no sense.
        MissingExtraError: If langgraph is not installed.
    """
    model = None if model is None else read_chain(model)
    jobs = _jobs(memory, options, model=model, **parts)
    nodes = {
        "recall": _node("recall", jobs.recalling),
        "record": _node("record", jobs.recording),
        "summarize": _node("summarize", jobs.summarizing),
    }
    return nodes if model is None else {**nodes, "model": _model_node(jobs, model)}


def _jobs(
    memory: ConversationMemory,
    options: TurnSettings,
    **parts: Any,
) -> Jobs:
    _require_langgraph()
    chosen = TurnOptions.of(options, where="a node")
    memory.check_options(chosen)
    if parts.get("profile") is not None:
        resolved(parts["profile"])
    return Jobs(memory, chosen, **parts)


def _shape(profile: Profile) -> ChainShape:
    return ChainShape(slots=None, profile=profile, is_fixed=True)


def _run_traced(
    job: Callable[[Any, RunnableConfig, TurnTrace], Steps[T]], state: Any, config: RunnableConfig
) -> Steps[T]:
    """Run a job as the memory's own work, and report what it took."""
    trace = TurnTrace(config)
    with trace.internal():
        done = yield from job(state, config, trace)
        yield from trace.report_own_models()
    return done


def _node(
    name: str, job: Callable[[Any, RunnableConfig, TurnTrace], Steps[Update]]
) -> Runnable[Any, Update]:
    def call(state: Any, config: RunnableConfig) -> Update:
        return run(_run_traced(job, state, config))

    async def acall(state: Any, config: RunnableConfig) -> Update:
        return await arun(_run_traced(job, state, config))

    return RunnableLambda(call, acall, name=name)


def _model_node(jobs: Jobs, model: Runnable[Any, Any]) -> Runnable[Any, Update]:
    def call(state: Any, config: RunnableConfig) -> Update:
        asking = run(_run_traced(jobs.asking, state, config))
        heard = HeardReplies()
        try:
            update = asking.answered(model.invoke(asking.payload, heard.listen(config)), heard)
        except BaseException:
            run(_run_traced(partial(jobs.breaking, asking=asking, heard=heard), state, config))
            raise
        run(_run_traced(partial(jobs.calling, update=update), state, config))
        return update

    async def acall(state: Any, config: RunnableConfig) -> Update:
        asking = await arun(_run_traced(jobs.asking, state, config))
        heard = HeardReplies()
        try:
            update = asking.answered(
                await model.ainvoke(asking.payload, heard.listen(config)), heard
            )
        except GeneratorExit:
            raise  # the loop is gone, and nothing can be awaited
        except BaseException:
            breaking = partial(jobs.breaking, asking=asking, heard=heard)
            await carried_through(arun(_run_traced(breaking, state, config)))
            raise
        await arun(_run_traced(partial(jobs.calling, update=update), state, config))
        return update

    return RunnableLambda(call, acall, name="model")


def _require_langgraph() -> None:
    try:
        importlib.import_module("langgraph.graph")
    except ImportError as error:
        raise MissingExtraError.for_extra("this node", "langgraph") from error
