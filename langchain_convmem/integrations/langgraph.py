"""A memory in LangGraph: the nodes `recall`, `model`, `record` and `summarize`, and a graph.

Requires the extra `langgraph`. The state is `MessagesState` or a subclass. The log keeps what was
said, a checkpointer keeps the state, and the log follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, get_type_hints

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableLike
from typing_extensions import TypedDict

from langchain_convmem.background import finish, hop, to_async
from langchain_convmem.errors import ConfigError, InvalidMessageError, MissingExtraError
from langchain_convmem.integrations.state_run import KeepState, ModelCall, StateRun, check_settings
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.turns.chains import ChainShape, read_chain
from langchain_convmem.turns.memory import RecallPlace, TurnMemory, TurnOptions, get_turn_memory
from langchain_convmem.turns.state_sync import (
    NOTE_KEY,
    BegunTurn,
    SyncedTurn,
    TurnNote,
    name_messages,
)
from langchain_convmem.turns.turn import PartialReplyHandler, check_question, read_reply
from langchain_convmem.turns.view import ModelContext
from langchain_convmem.views.codec import get_role
from langchain_convmem.views.providers import Provider, resolve_provider

try:
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import Overwrite
except ImportError as error:
    raise MissingExtraError.build("a memory in a graph", "langgraph") from error

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


Update: TypeAlias = dict[str, Any]
T = TypeVar("T")


# -- A ready graph --------------------------------------------------------------------------------


def create_memory_graph(
    memory: ConversationMemory,
    model: RunnableLike[Any, Any],
    *,
    state_schema: type[Any] | None = None,
    keep_state: KeepState = "all",
    follow_edits: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    name: str = "memory",
    provider: Provider | None = None,
    options: TurnOptions | None = None,
    recall: bool | None = None,
    recall_tokens: int | None = None,
    recall_k: int | None = None,
    recall_place: RecallPlace | None = None,
    history_tokens: int | None = None,
    context_tokens: int | None = None,
    reserved_tokens: int | None = None,
    profile_tokens: int | None = None,
    remember: bool | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph of the nodes `recall`, `model`, `record` and, if needed, `summarize`.

    It runs alone, or as a node of another graph whose state has messages. Call it with
    `{"messages": [...]}` and `config={"configurable": {"thread_id": ..., "user_id": ...}}`;
    `thread_id` is required. A call can override options, also under `configurable`:
    `"memory": {"recall": False}`. Thread-safe.

    Args:
        memory: The memory to use; the caller closes it.
        model: A chat model, a chain or an agent, as in `ConversationMemory.wrap`.
        state_schema: LangGraph's `MessagesState` (the default) or a subclass.
        keep_state: See `recall_node`.
        follow_edits: See `recall_node`.
        checkpointer: LangGraph's checkpointer; None uses the parent graph's, if any.
        name: The graph's name in traces.
        provider: Provider rules for the messages; None derives them from the model.
        options: Options as one value; the keywords below override it. See `TurnOptions`.
        recall: Whether to recall lines from earlier conversations.
        recall_tokens: Budget for recalled text.
        recall_k: Number of blocks to recall instead.
        recall_place: Whether recalled lines go into the user's message or the system message.
        history_tokens: Budget for earlier messages of the thread.
        context_tokens: One budget for everything that the model gets.
        reserved_tokens: The part of it that stays free.
        profile_tokens: Budget for the user's profile.
        remember: Whether turns are stored.

    Raises:
        ConfigError: If an option is invalid.
    """
    chosen = TurnOptions.pick(options, locals())
    nodes = MemoryNodes(
        get_turn_memory(memory),
        chosen,
        model=read_chain(model),
        provider=provider,
        keep_state=keep_state,
        follow_edits=follow_edits,
    )
    runnables = {
        "recall": _make_node("recall", nodes, NodeRun.recall),
        "model": _make_model_node(nodes),
        "record": _make_node("record", nodes, NodeRun.record),
    }
    if get_turn_memory(memory).compactor is not None:
        runnables["summarize"] = _make_node("summarize", nodes, NodeRun.summarize)

    schema = MessagesState if state_schema is None else state_schema
    # The state plus the current turn, which callers lack.
    keys = {**get_type_hints(schema, include_extras=True), NOTE_KEY: TurnNote}
    noted: Any = TypedDict("NotedState", keys, total=False)  # type: ignore[misc]
    builder = StateGraph(schema)
    for node, runnable in runnables.items():
        builder.add_node(node, runnable, input_schema=noted)
    for before, after in pairwise([START, *runnables, END]):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=checkpointer, name=name)


# -- The nodes `recall`, `model` and `record`, and the helper for a model node of one's own -------


def recall_node(
    memory: ConversationMemory,
    *,
    keep_state: KeepState = "all",
    follow_edits: bool = True,
    options: TurnOptions | None = None,
    recall: bool | None = None,
    remember: bool | None = None,
) -> Runnable[Any, Update]:
    """Return the node that stores the user's message.

    It comes before the model, whose node recalls. Where the graph was told to begin from an earlier
    checkpoint, the thread goes back with it. A reply that no `record_node` stored is stored now,
    if the state holds it.

    Args:
        memory: The memory to use; the caller closes it.
        keep_state: `all` leaves the messages as they are. `turn` takes those of earlier turns out
            of the state when a new one begins, once the log has them: checkpoints stop growing, a
            run returns the messages of its turn only, and the log follows no removals.
        follow_edits: Whether a message removed from the state is also removed from the thread's
            views. Turn it off if old messages are removed only to keep the state small.
        options: Options as one value; the keywords below override it. See `TurnOptions`.
        recall: Whether the model's node is going to recall lines.
        remember: Whether turns are stored.

    Raises:
        ConfigError: If an option is invalid.
    """
    chosen = TurnOptions.pick(options, locals())
    nodes = MemoryNodes(
        get_turn_memory(memory),
        chosen,
        keep_state=keep_state,
        follow_edits=follow_edits,
    )
    return _make_node("recall", nodes, NodeRun.recall)


def record_node(memory: ConversationMemory, *, remember: bool = True) -> Runnable[Any, Update]:
    """Return the node that stores the reply.

    It comes after the model, and after the tool loop if there is one.

    Args:
        memory: The memory to use; the caller closes it.
        remember: Whether turns are stored.

    Raises:
        ConfigError: If an option is invalid.
    """
    nodes = MemoryNodes(get_turn_memory(memory), TurnOptions(remember=remember))
    return _make_node("record", nodes, NodeRun.record)


def summarize_node(memory: ConversationMemory) -> Runnable[Any, Update]:
    """Return the node that compacts the thread when due.

    It comes after `record`. The memory's `summarize_when` says whether the node waits for the
    summary; without a summarizer, it does nothing. What a summary covers leaves the model's view,
    but neither the log nor the state.

    Args:
        memory: The memory to use; the caller closes it.
    """
    nodes = MemoryNodes(get_turn_memory(memory), TurnOptions())
    return _make_node("summarize", nodes, NodeRun.summarize)


def model_node(
    memory: ConversationMemory,
    model: RunnableLike[Any, Any],
    *,
    name: str | None = None,
    provider: Provider | None = None,
    options: TurnOptions | None = None,
    recall: bool | None = None,
    remember: bool | None = None,
) -> Runnable[Any, Update]:
    """Return the node that calls a model with the thread, read from the log, and recalled lines.

    Args:
        memory: The memory to use; the caller closes it.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain, an agent or a function.
        name: The name of the replies' speaker, if a graph has several models. Replies that
            already have a name keep it.
        provider: Provider rules for the messages; None derives them from the model.
        options: Options as one value; those named here go before it. See `TurnOptions`.
        recall: Whether to recall lines from earlier conversations.
        remember: Whether turns are stored.

    Raises:
        ConfigError: If an option is invalid.
    """
    chosen = TurnOptions.pick(options, locals())
    nodes = MemoryNodes(
        get_turn_memory(memory),
        chosen,
        model=read_chain(model),
        provider=provider,
        speaker=name,
    )
    return _make_model_node(nodes)


def model_messages(
    memory: ConversationMemory,
    state: Any,
    config: RunnableConfig,
    *,
    provider: Provider = "strict",
    options: TurnOptions | None = None,
    recall: bool | None = None,
    remember: bool | None = None,
) -> list[BaseMessage]:
    """Return the messages for calling a model from a custom node.

    They are the thread up to this turn, valid for the provider, with the recalled lines folded
    into the user's message. New messages of the state are stored first. Put the reply under the
    state's messages, and `record_node` behind: without one, the next turn stores the reply, if a
    checkpointer keeps it.

    Args:
        memory: Whose log and recall.
        state: The node's state.
        config: The node's config.
        provider: Provider rules for the messages.
        options: Options as one value; those named here go before it. See `TurnOptions`.
        recall: Whether to recall lines from earlier conversations.
        remember: Whether turns are stored.

    Raises:
        ConfigError: If the config names no thread, the state holds no messages, or an option is
            invalid.
    """
    chosen = TurnOptions.pick(options, locals())
    nodes = MemoryNodes(get_turn_memory(memory), chosen)
    shape = ChainShape(None, resolve_provider(provider))
    return nodes.run(state, config, lambda run: run.read_context(shape)[0]).given


amodel_messages = to_async(model_messages)


# -- The nodes as runnables -----------------------------------------------------------------------


def _make_node(
    name: str, nodes: MemoryNodes, step: Callable[[NodeRun], Update]
) -> Runnable[Any, Update]:
    """Return a node that does one step; what it was given is stored also where it is cancelled."""

    def call(state: Any, config: RunnableConfig) -> Update:
        return nodes.run(state, config, step)

    async def acall(state: Any, config: RunnableConfig) -> Update:
        run = partial(nodes.run, state, config, step)
        return await (finish(run) if name == "record" else hop(run))

    return RunnableLambda(call, acall, name=name)


def _make_model_node(nodes: MemoryNodes) -> Runnable[Any, Update]:
    """Return the node that calls the model; words of a reply that breaks off are stored."""
    model = cast("Runnable[Any, Any]", nodes.model)

    def call(state: Any, config: RunnableConfig) -> Update:
        run = partial(nodes.run, state, config)
        asked, context = run(NodeRun.prepare)
        try:
            output = model.invoke(
                *context.make_call(asked.heard.listen(config), {}, "input", "history")
            )
        except BaseException:
            run(lambda step: asked.store_broken(step.base))
            raise
        return run(lambda step: step.store_answer(asked, context, output))

    async def acall(state: Any, config: RunnableConfig) -> Update:
        run = partial(nodes.run, state, config)
        asked, context = await hop(lambda: run(NodeRun.prepare))
        try:
            output = await model.ainvoke(
                *context.make_call(asked.heard.listen(config), {}, "input", "history")
            )
        except GeneratorExit:
            raise  # the loop is gone, and nothing can be awaited
        except BaseException:
            await finish(lambda: run(lambda step: asked.store_broken(step.base)))
            raise
        return await finish(lambda: run(lambda step: step.store_answer(asked, context, output)))

    return RunnableLambda(call, acall, name="model")


# -- What the nodes do ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryNodes:
    """What the nodes of a graph are given. Thread-safe: it only holds settings.

    Attributes:
        memory: Whose log and recall.
        options: Options of every turn unless a call overrides them.
        keep_state: Whether messages of earlier turns stay in the state.
        follow_edits: Whether removals from the state apply to the views.
        model: What the node `model` calls; None if the application provides that node.
        provider: Provider rules for the messages; None derives them from the model.
        speaker: The speaker name for replies; None leaves them unchanged.

    Raises:
        ConfigError: If a setting is invalid.
    """

    memory: TurnMemory
    options: TurnOptions
    keep_state: KeepState = "all"
    follow_edits: bool = True
    model: Runnable[Any, Any] | None = None
    provider: Provider | None = None
    speaker: str | None = None

    def __post_init__(self) -> None:
        """Validate the settings."""
        check_settings(self.memory, self.options, self.keep_state, self.provider)

    def run(self, state: Any, config: RunnableConfig, step: Callable[[NodeRun], T]) -> T:
        """Do a step of a node; see `StateRun.open`."""
        run = StateRun.open(self.memory, self.options, config, host="the graph")
        return run.trace.run_internal(lambda: step(NodeRun(self, state, run)))


@dataclass(frozen=True)
class NodeRun:
    """One run of a node, and the steps that nodes do. Not thread-safe.

    Attributes:
        nodes: What the nodes are given.
        state: The state that it got.
        base: The step in the graph's run.
    """

    nodes: MemoryNodes
    state: Any
    base: StateRun

    def recall(self) -> Update:
        """Store what the user says, and what else is new.

        Raises:
            ConfigError: If the state holds only system messages, or none.
        """
        messages, run, nodes = self.messages, self.base, self.nodes
        if all(get_role(message) == "system" for message in messages):
            found = "system messages alone" if messages else "no messages"
            msg = (
                f"the state holds nothing to answer: it has {found}; invoke the graph with what "
                "the user says, {'messages': [('user', ...)]}"
            )
            raise ConfigError(msg)
        check_question(messages[-1])
        nodes.memory.check_call(run.options)
        begun = run.begin(messages, self.note, nodes.keep_state)
        if begun.note is not None and not (nodes.follow_edits and nodes.keep_state == "all"):
            begun.note["held"] = []
        # Removals would show up among the messages of a stream; this does not.
        if begun.has_changed(messages) and not run.sync.context.is_sent:
            return {NOTE_KEY: begun.note, "messages": Overwrite([*begun.messages])}
        return {NOTE_KEY: begun.note}

    def record(self) -> Update:
        """Store the reply, and note what the state holds."""
        note = self.note
        if self.base.options.remember:
            self.catch_up()
            self.nodes.memory.note_turn(self.base.key)
            if note is not None and note["held"]:
                return {NOTE_KEY: {**note, "held": [str(one.id) for one in self.messages]}}
        return {}

    def summarize(self) -> Update:
        """Compact the thread if due; the state does not change."""
        if self.base.options.remember:
            self.nodes.memory.compact(self.base.key)
        return {}

    def prepare(self) -> tuple[ModelCall, ModelContext]:
        """Return a call of the model, and what the model gets."""
        nodes, configurable = self.nodes, self.base.trace.config.get("configurable", {})
        model = cast("Runnable[Any, Any]", nodes.model)
        shape = ChainShape.from_chain(model, configurable, nodes.provider)
        context, turn = self.read_context(shape)
        turn.own_tokens = self.base.trace.get_own_tokens()
        return ModelCall(turn, PartialReplyHandler()), context

    def store_answer(self, call: ModelCall, context: ModelContext, output: Any) -> Update:
        """Store what the model answers, and return the state update.

        Each message is under the speaker's name, and an id that no other of the thread has: a
        cached model repeats its ids.

        Raises:
            InvalidMessageError: If the model answers nothing.
        """
        heard, speaker = call.heard.message, self.nodes.speaker
        if output is None and heard is None:
            msg = "the model returned None; let it return a message, a text or a list of messages"
            raise InvalidMessageError(msg)
        said = [
            one.model_copy(update={"name": speaker})
            if speaker and get_role(one) == "assistant" and not one.name
            else one
            for one in read_reply(output, context.given, heard=heard)
        ]
        return {"messages": call.store(said, self.base)}

    def read_context(self, shape: ChainShape) -> tuple[ModelContext, SyncedTurn]:
        """Store what is new; return the context to answer from, and the turn."""
        begun, turn = self.catch_up()
        return self.base.read_context(begun, turn, begun.messages, shape), turn

    def catch_up(self) -> tuple[BegunTurn, SyncedTurn]:
        """Store what the state has new of the latest turn; return it as it is noted."""
        begun, sync = BegunTurn(None, self.messages), self.base.sync
        if self.base.options.remember:
            begun = sync.find_turn(self.messages, self.note)
        return begun, sync.catch_up(begun.messages, begun.note)

    @cached_property
    def messages(self) -> list[BaseMessage]:
        """The messages of the state, each with an id.

        What a `Send` carries has passed no reducer, so messages without an id get one here, the
        same in every attempt.

        Raises:
            ConfigError: If the value is not a list of messages, or a message has no id.
        """
        state, context = self.state, self.base.sync.context
        found: Any = state.get("messages") if isinstance(state, Mapping) else state
        is_list = isinstance(found, Sequence)
        if not is_list or not all(isinstance(one, BaseMessage) for one in found):
            msg = (
                f"state['messages'] must be a list of messages, got a value of type "
                f"{type(found).__name__}; take langgraph.graph.MessagesState, or a subclass, and "
                "call with {'messages': [...]}"
            )
            raise ConfigError(msg)
        if not (context.is_sent or all(message.id for message in found)):
            msg = (
                "a message of state['messages'] has no id, so the log could not know it again; "
                "declare the key as Annotated[list[AnyMessage], add_messages]"
            )
            raise ConfigError(msg)
        return name_messages(found, context)

    @property
    def note(self) -> TurnNote | None:
        """The turn that the state noted last."""
        return cast("TurnNote | None", self.state.get(NOTE_KEY))
