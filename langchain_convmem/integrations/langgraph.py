"""A memory in LangGraph: the nodes `recall`, `model`, `record` and `summarize`, and a graph.

Requires the extra `langgraph`. The log keeps messages; a checkpointer keeps graph state.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, get_type_hints

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableLike
from langchain_core.runnables.config import ensure_config
from typing_extensions import TypedDict

from langchain_convmem.background import finish, hop, to_async
from langchain_convmem.errors import ConfigError, InvalidMessageError, MissingExtraError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey
from langchain_convmem.turns.chains import ChainShape, read_chain
from langchain_convmem.turns.memory import TurnMemory, get_turn_memory
from langchain_convmem.turns.messages import check_question, join, mark_unstored, read_input
from langchain_convmem.turns.options import TurnOptions, TurnSettings, read_key
from langchain_convmem.turns.provenance import NodeContext
from langchain_convmem.turns.replies import (
    INTERRUPTED,
    PartialReplyHandler,
    read_reply,
    read_reply_messages,
)
from langchain_convmem.turns.state_sync import (
    NOTE_KEY,
    StateSync,
    SyncedTurn,
    TurnNote,
    find_aside,
    find_exchange,
    remove_superseded,
    rewind_turns,
    select_spoken,
)
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import draft_reply, measure_times
from langchain_convmem.turns.view import (
    CallContext,
    ModelContext,
    TurnEntries,
    TurnView,
    find_turn_start,
    is_answered,
    list_earlier_entries,
    make_entry,
)
from langchain_convmem.views.codec import (
    decode_message,
    dump_json,
    encode_message,
    get_role,
    load_json,
)
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.providers import Provider, resolve_provider

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


# -- The state of a graph with a memory: what it holds, in whatever form it comes -----------------


class MemoryState(TypedDict, total=False):
    """Ids and plain values that a checkpointer keeps of a turn; the log keeps the text.

    A pydantic model or dataclass with these fields works too; each field needs a default.

    Attributes:
        input: The user's new message: text, content blocks or a `HumanMessage`. `recall` removes it
            from the state once it is stored; `record` does so if it is not stored at all.
        turn_id: The current turn, or the last one.
        recalled_ids: The recalled lines: entry ids, with `id#2` for an entry's second line.
        reply: What the model said, as JSON text, on its way into the log, and whether it is to go
            there; empty afterwards.
        answer: The text of the latest reply.
    """

    input: Any
    turn_id: str
    recalled_ids: list[str]
    reply: str
    answer: Any


# -- A ready graph --------------------------------------------------------------------------------


def create_memory_graph(
    memory: ConversationMemory,
    model: RunnableLike[Any, Any],
    *,
    state_schema: type[Any] = MemoryState,
    provider: Provider | None = None,
    follow_edits: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    name: str = "memory",
    **options: Unpack[TurnSettings],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph of the nodes `recall`, `model`, `record` and, if needed, `summarize`.

    It runs by itself, or as a node of another graph whose state has the same keys. Call it with
    `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is required. A call
    may set options for itself, by the same names: `"memory": {"recall": False}`, also under
    `configurable`.

    Args:
        memory: The memory to use; the caller closes it.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain or an agent.
        state_schema: A TypedDict, pydantic model or dataclass. With a key `messages` (such as
            LangGraph's `MessagesState`) the state keeps the messages, and the log follows it; with
            the keys of `MemoryState` it holds ids and plain values.
        provider: Provider rules for the messages; None derives them from the model.
        follow_edits: See `recall_node`.
        checkpointer: LangGraph's; None uses the parent graph's, if any.
        name: The graph's name in traces.
        **options: `recall`, `history_tokens` and the others of `TurnOptions`.

    Raises:
        ConfigError: If an option is unknown or invalid.
        MissingExtraError: If langgraph is not installed.
    """
    nodes = _make_nodes(
        memory,
        options,
        model=read_chain(model),
        provider=provider,
        follow_edits=follow_edits,
        keeps_lines="recalled_ids" in get_type_hints(state_schema),
    )
    runnables = {
        "recall": _make_node("recall", nodes, NodeRun.recall),
        "model": _make_model_node(nodes),
        "record": _make_node("record", nodes, NodeRun.record, is_last=True),
    }
    if get_turn_memory(memory).summaries.has_summarizer:
        runnables["summarize"] = _make_node("summarize", nodes, NodeRun.summarize)

    from langgraph.graph import END, START, StateGraph

    builder, noted = StateGraph(state_schema), _add_note(state_schema)
    for node, runnable in runnables.items():
        builder.add_node(node, runnable, input_schema=noted)
    for before, after in pairwise([START, *runnables, END]):
        builder.add_edge(before, after)
    return watch_reader(builder.compile(checkpointer=checkpointer, name=name), last="record")


# -- The nodes `recall`, `model` and `record`, and the helper for a model node of one's own -------


T = TypeVar("T")


def recall_node(
    memory: ConversationMemory,
    *,
    messages_key: str = "messages",
    follow_edits: bool = True,
    **options: Unpack[TurnSettings],
) -> Runnable[Any, Update]:
    """Return the node that stores the user's message and recalls related lines.

    It comes before the model. It writes `turn_id` and `recalled_ids` to the state, where the state
    has such keys, and takes `input` out of it. Where the graph was told to begin from an earlier
    checkpoint, the thread goes back with it.

    Args:
        memory: The memory to use; the caller closes it.
        messages_key: The state key that holds messages, if any.
        follow_edits: Whether a message removed from the state is also removed from the thread's
            views. Turn it off if old messages are removed only to keep the state small.
        **options: `recall`, `recall_tokens` and the others of `TurnOptions`; the same as those of
            the model's node.

    Raises:
        ConfigError: If an option is unknown or invalid.
        MissingExtraError: If langgraph is not installed.
    """
    nodes = _make_nodes(memory, options, messages_key=messages_key, follow_edits=follow_edits)
    return _make_node("recall", nodes, NodeRun.recall)


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
        memory: The memory to use; the caller closes it.
        messages_key: The state key that holds messages, if any.
        follow_edits: See `recall_node`.
        remember: Whether to store turns.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    nodes = _make_nodes(
        memory, {"remember": remember}, messages_key=messages_key, follow_edits=follow_edits
    )
    return _make_node("record", nodes, NodeRun.record, is_last=True)


def summarize_node(memory: ConversationMemory) -> Runnable[Any, Update]:
    """Return the node that compacts the thread when due.

    It comes after `record`. It works by the memory's options: in the node, in the background, or by
    notifying a worker; without a summarizer it does nothing. What a summary covers leaves the
    model's view, not the log, and not the state of a graph that keeps messages.

    Args:
        memory: The memory to use; the caller closes it.

    Raises:
        MissingExtraError: If langgraph is not installed.
    """
    nodes = _make_nodes(memory, {})
    return _make_node("summarize", nodes, NodeRun.summarize)


def model_node(
    memory: ConversationMemory,
    model: RunnableLike[Any, Any],
    *,
    name: str | None = None,
    provider: Provider | None = None,
    messages_key: str = "messages",
    **options: Unpack[TurnSettings],
) -> Runnable[Any, Update]:
    """Return the node that calls a model with the thread, read from the log, and recalled lines.

    Args:
        memory: The memory to use; the caller closes it.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain, an agent or a function.
        name: The name of the replies' speaker, if a graph has several models. Replies that
            already have a name keep it.
        provider: Provider rules for the messages; None derives them from the model.
        messages_key: The state key that holds messages, if any.
        **options: `recall`, `history_tokens` and the others of `TurnOptions`; the same as those of
            `recall_node`.

    Raises:
        ConfigError: If an option is unknown or invalid.
        MissingExtraError: If langgraph is not installed.
    """
    nodes = _make_nodes(
        memory,
        options,
        messages_key=messages_key,
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
    messages_key: str = "messages",
    **options: Unpack[TurnSettings],
) -> list[BaseMessage]:
    """Return the messages for calling a model from a custom node.

    They are the thread up to this turn, valid for the provider, with the recalled lines folded
    into the user's message. New messages of the state are stored first.

    Args:
        memory: Whose log and recall.
        state: The node's state.
        config: The node's config.
        provider: Provider rules for the messages.
        messages_key: The state key that holds messages, if any.
        **options: See `model_node`.

    Raises:
        ConfigError: If the config names no thread, the state holds no turn, or an option is
            unknown or invalid.
    """
    nodes = _make_nodes(memory, options, messages_key=messages_key)
    shape = replace(_PLAIN, provider=provider)
    return nodes.run(state, config, lambda run: run.read_context(shape)).given


amodel_messages = to_async(model_messages)


# -- The nodes as runnables -----------------------------------------------------------------------


def _make_nodes(memory: ConversationMemory, options: TurnSettings, **parts: Any) -> MemoryNodes:
    """Return what the nodes do, with these options for every turn.

    Args:
        memory: Whose log and recall.
        options: Options of every turn.
        **parts: The others of `MemoryNodes`.

    Raises:
        ConfigError: If an option is unknown or invalid.
        MissingExtraError: If langgraph is not installed.
    """
    _require_langgraph()
    chosen = TurnOptions.from_settings(options, where="a node")
    get_turn_memory(memory).check_options(chosen)
    if parts.get("provider") is not None:
        resolve_provider(parts["provider"])
    return MemoryNodes(get_turn_memory(memory), chosen, **parts)


def _make_node(
    name: str,
    nodes: MemoryNodes,
    step: Callable[[NodeRun], Update],
    *,
    is_last: bool = False,
) -> Runnable[Any, Update]:
    """Return a node that does one step; the last one stores what was received."""

    def call(state: Any, config: RunnableConfig) -> Update:
        update = nodes.run(state, config, step)
        if is_last:
            StreamReader.find(config).settle()
        return update

    async def acall(state: Any, config: RunnableConfig) -> Update:
        run = partial(nodes.run, state, config, step)
        return await (finish(run) if is_last else hop(run))

    return RunnableLambda(call, acall, name=name)


def _make_model_node(nodes: MemoryNodes) -> Runnable[Any, Update]:
    model = cast("Runnable[Any, Any]", nodes.model)

    def call(state: Any, config: RunnableConfig) -> Update:
        run = partial(nodes.run, state, config)
        asked = run(NodeRun.prepare_call)
        heard = PartialReplyHandler(nodes.memory.token_counters.learn)
        try:
            update = asked.answer(model.invoke(asked.payload, heard.listen(config)), heard)
        except BaseException:
            run(partial(NodeRun.store_broken, asked=asked, heard=heard))
            raise
        storing = partial(run, partial(NodeRun.store_reply, update=update))
        if asked.calls_tools(update):
            storing()
        StreamReader.find(config).expect(storing)
        return update

    async def acall(state: Any, config: RunnableConfig) -> Update:
        run = partial(nodes.run, state, config)
        asked = await hop(lambda: run(NodeRun.prepare_call))
        heard = PartialReplyHandler(nodes.memory.token_counters.learn)
        try:
            output = await model.ainvoke(asked.payload, heard.listen(config))
            update = asked.answer(output, heard)
        except GeneratorExit:
            raise  # the loop is gone, and nothing can be awaited
        except BaseException:
            await finish(partial(run, partial(NodeRun.store_broken, asked=asked, heard=heard)))
            raise
        if asked.calls_tools(update):
            await finish(partial(run, partial(NodeRun.store_reply, update=update)))
        return update

    return RunnableLambda(call, acall, name="model")


def _require_langgraph() -> None:
    try:
        importlib.import_module("langgraph.graph")
    except ImportError as error:
        raise MissingExtraError.build("this node", "langgraph") from error


# -- What the nodes do ----------------------------------------------------------------------------


Update = dict[str, Any]


_PLAIN = ChainShape(slots=None, provider="strict")
"""What is known of a model that a node does not see."""


@dataclass(frozen=True, slots=True)
class MemoryNodes:
    """What the nodes of a graph are given. Thread-safe: it only holds settings.

    Attributes:
        memory: Whose log and recall.
        options: Options of every turn unless a call overrides them.
        messages_key: The state key that holds messages, if any.
        follow_edits: Whether removals from the state apply to the views.
        model: What the node `model` calls; None if the application provides that node.
        provider: Provider rules for the messages; None derives them from the model.
        speaker: The speaker name for replies; None leaves them unchanged.
        keeps_lines: Whether the state keeps which lines were recalled; if not, the node `model`
            recalls them itself, and the node `recall` need not.
    """

    memory: TurnMemory
    options: TurnOptions
    messages_key: str = "messages"
    follow_edits: bool = True
    model: Runnable[Any, Any] | None = None
    provider: Provider | None = None
    speaker: str | None = None
    keeps_lines: bool = True

    def run(self, state: Any, config: RunnableConfig, step: Callable[[NodeRun], T]) -> T:
        """Do a step of a node as the memory's own work, and report what it took."""
        configurable = config.get("configurable", {})
        place = NodeContext.read(config, read_key(configurable, host="the graph"))
        options = self.options.merge_call(configurable, self.model)
        run = NodeRun(self, state, place, options, TurnTrace(config))
        return run.trace.run_internal(partial(step, run))


@dataclass(frozen=True)
class NodeRun:
    """One run of a node, and the steps that nodes do. Not thread-safe.

    Attributes:
        nodes: What the nodes are given.
        state: The state that it got.
        place: Its place in the graph's run, and its thread.
        options: What holds for the turn.
        trace: Its callbacks.
    """

    nodes: MemoryNodes
    state: Any
    place: NodeContext
    options: TurnOptions
    trace: TurnTrace

    # -- Recall ---------------------------------------------------------------------------------

    def recall(self) -> Update:
        """Store the user's message and recall lines."""
        messages = self.messages
        if messages is None:
            return self._recall_input()
        _check_answerable(messages)
        check_question(messages[-1])
        self.nodes.memory.check_call(recalls=self.options.recall)
        note: TurnNote | None = None
        changes: list[BaseMessage] = []
        if self.options.remember:
            begun = self._sync.begin(messages, self.note)
            note, messages = begun.note, begun.apply(messages)
            changes = list(begun.changes)
        turn, found = self._find_exchange(messages, note)
        update: Update = {NOTE_KEY: note}
        if self.nodes.keeps_lines:
            turn_id = found[-1].turn_id if found else ""
            update |= {"turn_id": turn_id, "recalled_ids": self._gather_context(turn).line_refs}
        if not self.options.remember and not self.place.is_sent:
            # The next call stores what the state has new; what is not to be stored says so itself.
            new = [message for message in turn.now if message.id not in turn.known]
            changes = [mark_unstored(message) for message in new]
        return {**update, self.nodes.messages_key: changes} if changes else update

    def _recall_input(self) -> Update:
        asked, memory = _read_asked(self.state, self.place), self.nodes.memory
        update: Update = {"answer": ""}
        if self.options.remember and memory.drafting.build(asked) is not None:
            entry = _store_asked(memory, self.place, asked, self.read("turn_id"))
            turn = StateTurn(self.place.key, [entry.message_id])
            update |= {"reply": "", "turn_id": entry.turn_id, "input": self.emptied_input}
        else:
            turn = StateTurn(self.place.key, (), [asked])
            update["reply"] = CarriedReply((), is_kept=False).to_text()
        return {**update, "recalled_ids": self._gather_context(turn).line_refs}

    # -- Record ---------------------------------------------------------------------------------

    def record(self) -> Update:
        """Store the reply."""
        update = self._store_reply()
        if self.options.remember:
            self.nodes.memory.note_turn(self.place.key)
        return update

    def _store_reply(self) -> Update:
        if self.messages is not None:
            note, _ = self._catch_up(self.messages)
            removed = remove_superseded(self.messages, note)
            return {self.nodes.messages_key: removed} if removed else {}
        reply = self._store_carried(self.state)
        if reply is None:
            return {}
        update: Update = {"reply": "", "answer": reply.text}
        return update if reply.is_kept else {**update, "input": self.emptied_input}

    # -- Summarize ------------------------------------------------------------------------------

    def summarize(self) -> Update:
        """Compact the thread if due; the state does not change."""
        if self.options.remember:
            self.nodes.memory.check_call()
            self.nodes.memory.compact(self.place.key)
        return {}

    # -- Model ----------------------------------------------------------------------------------

    def prepare_call(self) -> ModelCall:
        """Return the call of the model."""
        nodes, shape = self.nodes, _PLAIN
        if nodes.model is not None:
            shape = ChainShape.from_chain(nodes.model, self.place.configurable, nodes.provider)
            nodes.memory.use_model(shape.model, nodes.model)
        context = self.read_context(shape)
        has_messages = self.messages is not None
        return ModelCall(
            context,
            context.build_payload(),
            {message.id for message in self.messages or ()} if has_messages else None,
            nodes.messages_key,
            has_messages or CarriedReply.is_kept_in(self.read("reply")),
            get_now_ms(),
            nodes.speaker,
        )

    def read_context(self, shape: ChainShape) -> ModelContext:
        """Store what is new and return the context to answer from."""
        if self.messages is not None:
            note, synced = self._catch_up(self.messages)
            messages = synced.apply_edits(self.messages, self.messages)
            turn, _ = self._find_exchange(messages, note)
        elif CarriedReply.is_kept_in(self.read("reply")):
            entries = _read_turn(self.nodes.memory.log, self.place, self.turn_id)
            known = [entry.message_id for entry in entries if entry.role == "user"]
            turn = StateTurn(self.place.key, known)
        else:
            turn = StateTurn(self.place.key, (), [_read_asked(self.state, self.place)])
        context = self._gather_context(turn, shape=shape, only=self.read("recalled_ids"))
        self.trace.dispatch_event("convmem.context", context.counts)
        return context

    def store_reply(self, update: Update) -> None:
        """Store a reply that is not yet in the state."""
        if self.messages is None:
            self._store_carried(update)
        else:
            self._catch_up([*self.messages, *update[self.nodes.messages_key]])

    def store_broken(self, asked: ModelCall, heard: PartialReplyHandler) -> None:
        """Store the text of an interrupted reply."""
        said, timing = heard.collect_broken(), measure_times(asked.started_ms, heard.first_token_ms)
        if not (said and asked.is_kept and self.options.remember):
            return
        if self.messages is None:
            _store_carried_reply(self, CarriedReply(said, timing), is_broken=True)
        else:
            _, turn = self._catch_up(self.messages)
            self._sync.store_broken_reply(turn, said, self.messages, timing)

    # -- What they share ------------------------------------------------------------------------

    @cached_property
    def _sync(self) -> StateSync:
        return StateSync(
            self.nodes.memory.log,
            self.nodes.memory.drafting,
            self.place,
            follows_removals=self.nodes.follow_edits,
            trace=self.trace,
        )

    def _catch_up(self, messages: Sequence[BaseMessage]) -> tuple[TurnNote | None, SyncedTurn]:
        """Store what these messages have new of the latest turn; return its note, and the turn."""
        if not self.options.remember:
            return self.note, SyncedTurn()
        note = self._sync.find_note(messages, self.note)
        return note, self._sync.catch_up(messages, note)

    def _store_carried(self, carrier: Any) -> CarriedReply | None:
        """Store the reply that a state or an update carries; return it, or None without one."""
        reply = CarriedReply.read(_read_value(carrier, "reply"), _read_value(carrier, "answer"))
        if reply is not None and reply.is_kept and self.options.remember:
            _store_carried_reply(self, reply)
        return reply

    def _find_exchange(
        self, messages: Sequence[BaseMessage], note: TurnNote | None
    ) -> tuple[StateTurn, list[Entry]]:
        """Return the latest exchange of a state, and the log's entries of it, dead ones too."""
        spoken = select_spoken(messages, self.place, note)
        start = find_exchange(spoken)
        names = [message.id or "" for message in spoken]
        if note is not None and note["first"] in names[start:]:
            start = names.index(note["first"])  # what stands before was forgotten, or answered
        key = self.place.key
        found = self.nodes.memory.log.find(key, names[start:])
        known = {entry.message_id for entry in found}
        aside = find_aside(messages, note, self.place)
        return StateTurn(key, known, spoken[start:], aside), found

    def _gather_context(
        self,
        turn: StateTurn,
        *,
        shape: ChainShape = _PLAIN,
        only: Collection[str] | None = None,
    ) -> ModelContext:
        """Return what there is to answer from.

        Args:
            turn: The turn that the state is in.
            shape: What the model takes.
            only: Lines that were recalled before: others are left out. None recalls anew.
        """
        view = TurnView(
            self.nodes.memory,
            self.place.key,
            self.options,
            shape.provider,
            self.trace,
            shape.slots,
            shape.model.name,
        )
        return view.build_context(turn.locate, only=only)

    # -- What the state says --------------------------------------------------------------------

    def read(self, key: str) -> Any:
        """Return a value of the state; None if there is none."""
        return _read_value(self.state, key)

    @cached_property
    def messages(self) -> list[BaseMessage] | None:
        """The messages of the state, each with an id; None if it keeps none.

        Raises:
            ConfigError: If the value is not a list of messages, or a message has no id.
        """
        return _read_messages(self.state, self.nodes.messages_key, self.place)

    @property
    def note(self) -> TurnNote | None:
        """The turn that the state noted last."""
        note: TurnNote | None = self.read(NOTE_KEY)
        return note

    @property
    def turn_id(self) -> str:
        """The turn that a state without messages is in.

        Raises:
            ConfigError: If it names none.
        """
        turn_id = self.read("turn_id")
        if not isinstance(turn_id, str) or not turn_id:
            msg = (
                f"the state is in no turn (turn_id={turn_id!r}): the node 'recall' must run "
                "first, and the state needs the keys of MemoryState, or 'messages'"
            )
            raise ConfigError(msg)
        return turn_id

    @property
    def emptied_input(self) -> str | None:
        """What stands for `input` where the user's words are no longer needed."""
        return "" if isinstance(self.read("input"), str) else None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call being prepared.

    Attributes:
        context: The context that the model answers from.
        payload: What the model is called with.
        taken: Ids of the state's messages; None if the state keeps none.
        messages_key: Where the state keeps them.
        is_kept: Whether the turn is stored.
        started_ms: When the call begins.
        speaker: The name for replies that have none.
    """

    context: ModelContext
    payload: Any
    taken: Collection[str | None] | None
    messages_key: str
    is_kept: bool
    started_ms: int
    speaker: str | None = None

    def answer(self, output: Any, heard: PartialReplyHandler) -> Update:
        """Return the state update for the model's output."""
        reply = read_reply(output, self.context.given, heard=heard.message)
        messages = [self._name(message) for message in reply.messages]
        if self.taken is None:
            timing = measure_times(self.started_ms, heard.first_token_ms)
            carried = CarriedReply(messages, timing, self.is_kept, reply.aux)
            return {"reply": carried.to_text(), "answer": carried.text}
        return {self.messages_key: [self._give_free_id(message) for message in messages]}

    def calls_tools(self, update: Update) -> bool:
        """Return whether a reply calls tools: it is stored before they run."""
        replies = update.get(self.messages_key)
        return bool(replies and getattr(replies[-1], "tool_calls", None))

    def _name(self, message: BaseMessage) -> BaseMessage:
        if self.speaker is None or message.name or message.type != "ai":
            return message
        return message.model_copy(update={"name": self.speaker})

    def _give_free_id(self, message: BaseMessage) -> BaseMessage:
        """Return a message that replaces none: a cached model repeats its ids."""
        if message.id and message.id not in (self.taken or ()):
            return message
        return message.model_copy(update={"id": make_ulid()})


# -- Reading a state, in whatever form it comes ---------------------------------------------------


_ROLE_FIELDS = frozenset({"type", "data"})
"""Keys of a message that LangChain wrote down."""


def _add_note(schema: type[Any]) -> Any:
    """Return the input schema of the nodes: the state plus the current turn.

    A state without messages names its turn itself. Callers do not see the note.
    """
    keys = get_type_hints(schema, include_extras=True)
    if "messages" not in keys:
        return schema
    return TypedDict("NotedState", {**keys, NOTE_KEY: TurnNote}, total=False)  # type: ignore[operator]


def _read_value(state: Any, key: str) -> Any:
    """Return a value from a state, either a mapping or an object; None if absent."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def _read_messages(state: Any, key: str, context: NodeContext) -> list[BaseMessage] | None:
    """Return the messages of a state, each with an id; None if the state keeps none.

    What a `Send` carries has passed no reducer, so messages without an id get one here, in place
    and the same in every attempt.

    Raises:
        ConfigError: If the value is not a list of messages, or a message has no id.
    """
    found = _read_value(state, key)
    if found is None:
        return None
    if not isinstance(found, Sequence) or not all(isinstance(one, BaseMessage) for one in found):
        msg = f"state[{key!r}] must be a list of messages, got {_describe(found)}"
        raise ConfigError(msg)
    for number, message in enumerate(found):
        if not message.id and not context.is_sent:
            msg = (
                f"message {number} of state[{key!r}] has no id, so the log could not know it "
                "again; declare the key as Annotated[list[AnyMessage], add_messages]"
            )
            raise ConfigError(msg)
        message.id = message.id or f"{context.place.task}-{number}"
    return list(found)


def _read_asked(state: Any, context: NodeContext) -> HumanMessage:
    """Return the user's message from a state without messages, with an id.

    The id is the same in every attempt of the node, so retries store nothing twice.

    Raises:
        ConfigError: If the state holds nothing to answer, or several messages.
        InvalidMessageError: If the input is not a message, or is blank.
    """
    given = _read_value(state, "input") or None
    incoming = read_input(HumanMessage(given) if _is_content(given) else given)
    said = incoming.human
    if said is None:
        msg = (
            "the state holds nothing to answer: invoke the graph with {'input': ...} (text, content"
            f" blocks or a message), or give it a 'messages' key; got input={_describe(given)}"
        )
        raise ConfigError(msg)
    count = len(incoming.instructions) + len(incoming.said)
    if count > 1:
        msg = (
            f"the state's input holds {count} messages; pass what the user says "
            "now, or take a state with a 'messages' key"
        )
        raise ConfigError(msg)
    return said if said.id else said.model_copy(update={"id": context.place.task})


def _check_answerable(messages: Sequence[BaseMessage]) -> None:
    """Check that a state holds more than instructions.

    Raises:
        ConfigError: If it holds only system messages, or none.
    """
    if all(get_role(message) == "system" for message in messages):
        found = "system messages alone" if messages else "no messages"
        msg = (
            f"the state holds nothing to answer: it has {found}; invoke the graph with what the "
            "user says, {'messages': [('user', ...)]}"
        )
        raise ConfigError(msg)


def _is_content(value: Any) -> bool:
    """Return whether a list is the content of one message: texts and content blocks."""
    return isinstance(value, list) and all(
        isinstance(one, str)
        or (isinstance(one, dict) and "role" not in one and not _ROLE_FIELDS.issubset(one))
        for one in value
    )


def _describe(value: Any) -> str:
    """Return what a value is, without what it says."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


# -- A reply on its way from the model into the log, as plain text in the state -------------------


_PAGE = 64
"""So many of the latest entries are read first: a turn in progress is among them."""


@dataclass(frozen=True, slots=True)
class CarriedReply:
    """What a model answered, and when.

    Attributes:
        messages: All that is new, in order; the answer is the last. None of them before the model
            was called.
        timing: Milliseconds since the epoch by name.
        is_kept: Whether the turn is stored.
        aux: What is noted with the answer.
    """

    messages: Sequence[BaseMessage]
    timing: Mapping[str, int] = field(default_factory=dict)
    is_kept: bool = True
    aux: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of the answer."""
        last = self.messages[-1] if self.messages else None
        return str(last.text) if isinstance(last, AIMessage) else ""

    def to_text(self) -> str:
        """Return the reply as JSON text.

        Raises:
            InvalidMessageError: If a message cannot be stored.
        """
        fields = {
            "messages": [encode_message(message) for message in self.messages],
            "timing": dict(self.timing),
            "is_kept": self.is_kept,
            "aux": dict(self.aux),
        }
        return dump_json(fields, what="reply")

    @classmethod
    def read(cls, reply: Any, answer: Any) -> CarriedReply | None:
        """Read the reply from a state, written by the node `model` or by a custom node.

        Raises:
            ConfigError: If it has neither form.
        """
        carried = _decode_reply(reply) if reply else None
        if not answer or (carried is not None and carried.messages):
            return carried
        try:
            messages = read_reply_messages(answer, [AIMessage("")])
        except InvalidMessageError as error:
            kind = type(answer).__name__
            msg = f"state['answer'] must be text, a message or messages, not of type {kind}"
            raise ConfigError(msg) from error
        return cls(messages, is_kept=carried is None or carried.is_kept)

    @staticmethod
    def is_kept_in(reply: Any) -> bool:
        """Return whether a state is in a turn that is stored.

        Raises:
            ConfigError: If the state's reply is none.
        """
        return not reply or _decode_reply(reply).is_kept


def _decode_reply(reply: Any) -> CarriedReply:
    try:
        fields = load_json(reply)
        messages = [decode_message(one) for one in fields["messages"]]
        return CarriedReply(messages, fields["timing"], fields["is_kept"], fields["aux"])
    except (ValueError, TypeError, LookupError) as error:
        kind = type(reply).__name__
        msg = f"state['reply'] is not what the node 'model' writes, but of type {kind}"
        raise ConfigError(msg) from error


# -- A state without messages --------------------------------------------------------------------
def _store_asked(
    memory: TurnMemory, context: NodeContext, asked: HumanMessage, current: str | None
) -> Entry:
    """Store the user's message; rewind first if the run starts from an earlier checkpoint.

    The same text without an id of its own is the same turn until it is answered.

    Args:
        memory: Whose log.
        context: Where the node stands.
        asked: What is said, with an id; something of it is to be stored.
        current: The turn that the state knows, if it knows one.

    Returns:
        The entry, which may have been there before.
    """
    back = _draft_rewind(memory.log, context, current)
    metadata = context.make_metadata("turn", current or None)
    draft = memory.drafting.build(asked, metadata=metadata)
    is_unnamed = asked.id == context.place.task
    if is_unnamed and context.since is None and not context.is_sent:
        said = [asked.model_copy(update={"id": None})]
        entries = memory.log.entries(context.key, last=_PAGE)
        kept = None if draft is None else draft.message
        meant = join(entries, said, stored_form=lambda _: kept)
        if meant.again is not None:
            return meant.again
    return memory.log.append(context.key, [*back, *filter(None, [draft])])[-1]


def _store_carried_reply(run: NodeRun, reply: CarriedReply, *, is_broken: bool = False) -> None:
    """Store the reply of a turn, in the place of an earlier one, and report it.

    An interrupted reply never replaces a complete one.
    """
    log, place, turn_id = run.nodes.memory.log, run.place, run.turn_id
    turn = _read_turn(log, place, turn_id)
    back = _draft_rewind(log, place, turn_id)
    names = {message.id for message in reply.messages if message.id}
    found = log.find(place.key, names)
    entries = log.entries(place.key, after=find_turn_start(turn, turn[0]) - 1)
    if is_broken and is_answered(find_live_entries(entries), turn_id):
        return
    drafts = draft_reply(
        run.nodes.memory.drafting,
        reply.messages,
        turn_id=turn_id,
        entries=entries,
        found=found,
        metadata=Metadata((INTERRUPTED,) if is_broken else (), reply.timing, aux=reply.aux),
        new_id=lambda number: f"{turn_id}-{number}",  # the same in every attempt
    )
    if back or drafts:
        log.append(place.key, [*back, *drafts])
    if drafts or not is_broken:
        run.trace.report_stored(drafts)


def _read_turn(log: MessageLog, context: NodeContext, turn_id: str) -> list[Entry]:
    """Return the live entries of a turn.

    Raises:
        ConfigError: If the thread has none.
    """
    for last in (_PAGE, None):
        entries = log.entries(context.key, last=last)
        turn = [entry for entry in find_live_entries(entries) if entry.turn_id == turn_id]
        # Where the page begins within the turn, some of it may lie before.
        is_all = last is None or len(entries) < last
        if turn and (is_all or entries[0].turn_id != turn_id):
            return turn
    msg = (
        f"thread {context.key.thread_id!r} of user {context.key.user_id!r} has no turn "
        f"{turn_id!r}, which the graph's state names: it was forgotten or undone, or this call "
        "names another user; pass the same user_id in every call, also beside the config of a "
        "snapshot"
    )
    raise ConfigError(msg)


def _draft_rewind(log: MessageLog, context: NodeContext, current: str | None) -> list[Draft]:
    """Return what takes back the turns that the graph has left by beginning from a checkpoint."""
    if context.since is None:
        return []
    return rewind_turns(log.entries(context.key), context, current)


# -- A graph's turn among the entries of its thread -----------------------------------------------


@dataclass(frozen=True, slots=True)
class StateTurn:
    """The turn that a state is in.

    Attributes:
        key: The thread.
        known: Ids of this turn's messages in the log, including retracted ones.
        now: The messages of this turn as the state has them, stored or not; nothing if only the
            log has them.
        aside: What else only this call shows.
    """

    key: ThreadKey
    known: Collection[str]
    now: Sequence[BaseMessage] = ()
    aside: CallContext = field(default_factory=CallContext)

    def locate(self, entries: Sequence[Entry]) -> TurnEntries:
        """Return the turn among entries; a state says it in full and in its own order."""
        stored = [entry for entry in find_live_entries(entries) if entry.message_id in self.known]
        first = min(stored, key=lambda entry: entry.position, default=None)
        ids = {entry.id for entry in stored}
        before = [entry for entry in list_earlier_entries(entries, first) if entry.id not in ids]
        read = {entry.message_id for entry in entries}
        turn = TurnEntries(
            before,
            self._as_said(entries, stored) if self.now else stored,
            find_turn_start(entries, first),
            is_whole=read.issuperset(self.known),
        )
        return self.aside.add_to(turn)

    def _as_said(self, entries: Sequence[Entry], stored: Sequence[Entry]) -> list[Entry]:
        """Return the state's messages as the entries that they are or would be."""
        by_id = {entry.message_id: entry for entry in stored}
        turn_id = stored[0].turn_id if stored else make_ulid()
        end = max((entry.position for entry in entries), default=0)
        return [
            make_entry(
                message,
                entry_id=by_id[message.id].id if message.id in by_id else make_ulid(),
                key=self.key,
                position=end + number,
                turn_id=turn_id,
            )
            for number, message in enumerate(self.now, start=1)
            if message.id in by_id or message.id not in self.known
        ]


# -- The reader of a synchronous stream, who may leave it before a graph has come to its end ------


_READER = "__convmem_reader"
"""Where `configurable` holds the reader. LangGraph keeps no such key in its checkpoints."""


class StreamReader:
    """Tracks whether a stream is still read, and what to do if not. Thread-safe."""

    def __init__(self) -> None:
        """Begin with somebody who reads, and nothing to do."""
        self._lock = make_lock()
        self._has_left = False
        self._action: Callable[[], None] | None = None

    @staticmethod
    def find(config: RunnableConfig) -> StreamReader:
        """Return the reader of the current run; one who never leaves if it is not streamed."""
        reader = config.get("configurable", {}).get(_READER)
        return reader if isinstance(reader, StreamReader) else StreamReader()

    def expect(self, action: Callable[[], None]) -> None:
        """Run an action if the reader has left; else keep it, in case they leave by `settle`."""
        with self._lock:
            if not self._has_left:
                self._action = action
                return
        action()

    def settle(self) -> None:
        """Forget the action: another node has done it."""
        with self._lock:
            self._action = None

    def leave(self) -> None:
        """Note that the reader has left."""
        with self._lock:
            self._has_left = True

    def do_rest(self) -> None:
        """Run the action that is left."""
        with self._lock:
            action, self._action = self._action, None
        if action is not None:
            action()


def watch_reader(
    graph: CompiledStateGraph[Any, Any, Any, Any], *, last: str
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph finish its turn if the reader of a stream leaves.

    Args:
        graph: Changed in place, and returned.
        last: The node that does it otherwise. Where a run waits in front of this node, nothing
            is left to do: the run goes on from there.
    """
    graph.__class__ = _make_watched_class(last)
    return graph


@cache
def _make_watched_class(last: str) -> type[Any]:
    from langgraph.graph.state import CompiledStateGraph

    class WatchedGraph(CompiledStateGraph[Any, Any, Any, Any]):
        """A graph that finishes a turn whose reader has left."""

        def stream(
            self,
            input: Any,  # noqa: A002 - LangGraph's name
            config: RunnableConfig | None = None,
            **options: Any,
        ) -> Iterator[Any]:
            reader, config = StreamReader(), ensure_config(config)
            config["configurable"] = {**config.get("configurable", {}), _READER: reader}
            stream: Any = super().stream
            with closing(stream(input, config, **options)) as parts:
                for part in parts:
                    try:
                        yield part
                    except GeneratorExit:
                        reader.leave()
                        parts.close()  # waits for the node that runs
                        if not self._is_waiting(config):
                            reader.do_rest()
                        raise

        def _is_waiting(self, config: RunnableConfig) -> bool:
            """Return whether the run can be resumed in front of the last node."""
            is_kept = getattr(self.checkpointer, "get_tuple", None) is not None
            return is_kept and last in self.get_state(config).next

    return WatchedGraph
