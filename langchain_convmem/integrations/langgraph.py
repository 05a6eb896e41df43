"""A memory in LangGraph: the nodes `recall`, `model`, `record` and `summarize`, and a graph.

Needs the extra `langgraph`. The log keeps what was said; a checkpointer keeps where a graph stands.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, get_type_hints

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableLike
from langchain_core.runnables.config import ensure_config
from typing_extensions import TypedDict

from langchain_convmem.effects import Steps, arun, run, step
from langchain_convmem.errors import ConfigError, InvalidMessageError, MissingExtraError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey
from langchain_convmem.streams import carried_through
from langchain_convmem.turns.chains import ChainShape, read_chain
from langchain_convmem.turns.messages import check_question, mark_unstored, read_input, reconcile
from langchain_convmem.turns.options import TurnOptions, TurnSettings, read_key
from langchain_convmem.turns.replies import INTERRUPTED, HeardReplies, read_reply, reply_messages
from langchain_convmem.turns.state_sync import (
    NOTE_KEY,
    NodeContext,
    StateSync,
    SyncedTurn,
    TurnNote,
    check_user,
    find_aside,
    latest_exchange,
    remove_superseded,
    rewind_turns,
    select_spoken,
)
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import (
    TurnMemory,
    draft_reply,
    entry_said,
    is_answered,
    measure_times,
    said_before,
    start_of,
)
from langchain_convmem.turns.view import CallContext, ModelContext, TurnEntries, TurnView
from langchain_convmem.views.codec import (
    decode_message,
    dumps,
    encode_message,
    loads,
    role_of,
)
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.providers import Profile, resolved

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


# -- The state of a graph with a memory: what it holds, in whatever form it comes -----------------


class MemoryState(TypedDict, total=False):
    """Ids and plain values: what a checkpointer keeps of a turn when the log keeps the words.

    A pydantic model or a dataclass with these fields does as well; all of them need a default.

    Attributes:
        input: What the user says now: text, content blocks or a `HumanMessage`. `recall` takes it
            out of the state once it is in the log, and `record` where nothing of it is stored.
        turn_id: The turn that is answered, or was last.
        recalled_ids: Which lines the model is reminded of: entry ids, `id#2` for a further line.
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


def memory_graph(
    memory: ConversationMemory,
    model: RunnableLike[Any, Any],
    *,
    state_schema: type[Any] = MemoryState,
    recall: bool = True,
    recall_tokens: int | None = None,
    recall_k: int | None = None,
    history_tokens: int | None = None,
    context_tokens: int | None = None,
    reserved_tokens: int = 0,
    remember: bool = True,
    profile: Profile | None = None,
    follow_edits: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    name: str = "memory",
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph of the nodes `recall`, `model` and `record`, and `summarize` if there is need.

    It runs by itself, or as a node of another graph whose state has the same keys. Call it with
    `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is required. A call
    may set options for itself, by the same names: `"memory": {"recall": False}`, also under
    `configurable`.

    Args:
        memory: Whose log and recall; stays the caller's to close.
        model: What `ConversationMemory.wrap` takes: a chat model, a chain or an agent.
        state_schema: A TypedDict, pydantic model or dataclass. With a key `messages` (such as
            LangGraph's `MessagesState`) the state keeps the messages, and the log follows it; with
            the keys of `MemoryState` it holds ids and plain values.
        recall: Whether to recall lines of earlier conversations.
        recall_tokens: Budget of the recalled text (characters / 4).
        recall_k: Recall exactly so many blocks instead.
        history_tokens: Budget of what was said in the thread before; None is all of it.
        context_tokens: One budget for all that the model gets; see `ConversationMemory.wrap`.
        reserved_tokens: Of these, so many are left for what stands outside the messages.
        remember: Whether turns are stored.
        profile: Whose rules the messages keep; None goes by the model.
        follow_edits: See `recall_node`.
        checkpointer: LangGraph's; None takes that of the graph around it, if there is one.
        name: The graph's name in traces.

    Raises:
        ConfigError: If an option makes no sense.
        MissingExtraError: If langgraph is not installed.
    """
    options: TurnSettings = {
        "recall": recall,
        "recall_tokens": recall_tokens,
        "recall_k": recall_k,
        "history_tokens": history_tokens,
        "context_tokens": context_tokens,
        "reserved_tokens": reserved_tokens,
        "remember": remember,
    }
    nodes = memory_nodes(
        memory,
        options,
        model=model,
        profile=profile,
        follow_edits=follow_edits,
        keeps_lines="recalled_ids" in get_type_hints(state_schema),
    )

    from langgraph.graph import END, START, StateGraph

    builder, noted = StateGraph(state_schema), with_note(state_schema)
    names = ["recall", "model", "record", *(["summarize"] if memory.summarizes else [])]
    for node in names:
        builder.add_node(node, nodes[node], input_schema=noted)
    for before, after in pairwise([START, *names, END]):
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
        "record": _node("record", jobs.recording, is_last=True),
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
    memory.turn_memory.check_options(chosen)
    if parts.get("profile") is not None:
        resolved(parts["profile"])
    return Jobs(memory.turn_memory, chosen, **parts)


def _shape(profile: Profile) -> ChainShape:
    return ChainShape(slots=None, profile=profile)


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
    name: str,
    job: Callable[[Any, RunnableConfig, TurnTrace], Steps[Update]],
    *,
    is_last: bool = False,
) -> Runnable[Any, Update]:
    def call(state: Any, config: RunnableConfig) -> Update:
        update = run(_run_traced(job, state, config))
        reader = StreamReader.of(config) if is_last else None
        if reader is not None:
            reader.settle()
        return update

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
        reader = StreamReader.of(config)
        if reader is not None:
            leaving = partial(jobs.leaving, update=update)
            reader.expect(lambda: run(_run_traced(leaving, state, config)))
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


# -- What the nodes do, as steps ------------------------------------------------------------------


Update = dict[str, Any]


_PLAIN = ChainShape(slots=None, profile="strict")


"""What is known of a model that a node does not see."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A call of the model in the making.

    Attributes:
        context: What there is to answer from.
        payload: What the model is called with.
        taken: Ids of the state's messages; None if the state keeps none.
        messages_key: Where the state keeps them.
        is_kept: Whether the turn is stored.
        started_ms: When the call begins.
        speaker: Under whose name the replies stand that name nobody.
    """

    context: ModelContext
    payload: Any
    taken: Collection[str | None] | None
    messages_key: str
    is_kept: bool
    started_ms: int
    speaker: str | None = None

    def answered(self, output: Any, heard: HeardReplies) -> Update:
        """Return what the state learns of the model's output, and of what was heard of it."""
        reply = read_reply(output, self.context.given, heard=heard.message)
        messages = [self._named(message) for message in reply.messages]
        if self.taken is None:
            timing = measure_times(self.started_ms, heard.first_token_ms)
            carried = Reply(messages, timing, self.is_kept, reply.aux)
            return {"reply": carried.to_text(), "answer": carried.text}
        return {self.messages_key: [self._with_free_id(message) for message in messages]}

    def _named(self, message: BaseMessage) -> BaseMessage:
        if self.speaker is None or message.name or message.type != "ai":
            return message
        return message.model_copy(update={"name": self.speaker})

    def _with_free_id(self, message: BaseMessage) -> BaseMessage:
        """Return a message that replaces none: a cached model repeats its ids."""
        if message.id and message.id not in (self.taken or ()):
            return message
        return message.model_copy(update={"id": new_ulid()})


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One execution of a node.

    Attributes:
        node: Where in the run of the graph it is, and in which thread.
        options: What holds for the turn.
        trace: Its callbacks.
    """

    node: NodeContext
    options: TurnOptions
    trace: TurnTrace


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of the nodes. Thread-safe: it only holds settings.

    Attributes:
        memory: Whose log and recall.
        options: What holds for every turn, unless a call sets it.
        messages_key: Where a state keeps its messages, if it does.
        follow_edits: Whether what leaves the state leaves the views.
        model: What the node `model` calls; None where that is a node of the application's.
        profile: Whose rules the messages keep; None goes by the model.
        speaker: Under whose name the model's replies stand; None leaves them as they are.
        keeps_lines: Whether the state keeps which lines were recalled; if not, the node `model`
            recalls them itself, and the node `recall` need not.
    """

    memory: TurnMemory
    options: TurnOptions
    messages_key: str = "messages"
    follow_edits: bool = True
    model: Runnable[Any, Any] | None = None
    profile: Profile | None = None
    speaker: str | None = None
    keeps_lines: bool = True

    # -- recall ---------------------------------------------------------------------------------

    def recalling(self, state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Update]:
        """Store what the user says, and look for lines."""
        run = self._run(config, trace)
        messages = messages_in(state, self.messages_key, run.node)
        if messages is None:
            return (yield from self._recalling_input(state, run))
        check_answerable(messages)
        check_question(messages[-1])
        note: TurnNote | None = None
        changes: list[BaseMessage] = []
        if run.options.remember:
            begun = yield from self._sync(state, run).begin(messages, _note_in(state))
            note, messages = begun.note, begun.apply(messages)
            changes = list(begun.changes)
        turn, found = yield from self._exchange(messages, run, note)
        update: Update = {NOTE_KEY: note}
        if self.keeps_lines:
            context = yield from self._context(turn, run)
            turn_id = found[-1].turn_id if found else ""
            update |= {"turn_id": turn_id, "recalled_ids": context.line_refs}
        if not run.options.remember and not run.node.is_sent:
            # The next call stores what the state has new; what is not to be stored says so itself.
            new = [message for message in turn.now if message.id not in turn.known]
            changes = [mark_unstored(message) for message in new]
        return {**update, self.messages_key: changes} if changes else update

    def _recalling_input(self, state: Any, run: NodeRun) -> Steps[Update]:
        asked = asked_in(state, run.node)
        if not run.options.remember or self.memory.drafting.draft(asked) is None:
            context = yield from self._context(StateTurn(run.node.key, (), [asked]), run)
            reply = Reply((), is_kept=False).to_text()
            return {"reply": reply, "answer": "", "recalled_ids": context.line_refs}
        before = value_in(state, "turn_id")
        entry = yield from keep_asked(self.memory, run.node, asked, before)
        context = yield from self._context(StateTurn(run.node.key, [entry.message_id]), run)
        return {
            "reply": "",
            "answer": "",
            "turn_id": entry.turn_id,
            "recalled_ids": context.line_refs,
            "input": _emptied(state),
        }

    # -- record ---------------------------------------------------------------------------------

    def recording(self, state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Update]:
        """Store the reply."""
        run = self._run(config, trace)
        messages = messages_in(state, self.messages_key, run.node)
        if messages is not None:
            note = yield from self._find_note(state, messages, run)
            yield from self._catch_up(state, messages, run, note)
            removed = remove_superseded(messages, note)
            return {self.messages_key: removed} if removed else {}
        reply = yield from self._record_reply(state, state, run)
        if reply is None:
            return {}
        update: Update = {"reply": "", "answer": reply.text}
        return update if reply.is_kept else {**update, "input": _emptied(state)}

    def _record_reply(self, state: Any, carrier: Any, run: NodeRun) -> Steps[Reply | None]:
        """Store the reply that a state or an update carries; return it, or None without one."""
        reply = Reply.of(value_in(carrier, "reply"), value_in(carrier, "answer"))
        if reply is not None and reply.is_kept and run.options.remember:
            drafts = yield from keep_reply(self.memory, run.node, _turn_in(state), reply)
            yield from run.trace.report_stored(drafts)
        return reply

    # -- summarize ------------------------------------------------------------------------------

    def summarizing(self, _state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Update]:
        """Compact the thread if that is due; the state learns nothing of it."""
        run = self._run(config, trace)
        if run.options.remember:
            yield from self.memory.after_turn_steps(run.node.key)
        return {}

    # -- model ----------------------------------------------------------------------------------

    def asking(self, state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Asking]:
        """Return the call of the model."""
        shape = _PLAIN
        if self.model is not None:
            shape = ChainShape.of(self.model, config.get("configurable", {}), self.profile)
        context = yield from self.looking(state, config, trace, shape=shape)
        messages = value_in(state, self.messages_key)
        taken = None if messages is None else {message.id for message in messages}
        is_kept = messages is not None or Reply.is_kept_in(value_in(state, "reply"))
        return Asking(
            context,
            context.payload(),
            taken,
            self.messages_key,
            is_kept,
            now_ms(),
            self.speaker,
        )

    def looking(
        self, state: Any, config: RunnableConfig, trace: TurnTrace, *, shape: ChainShape
    ) -> Steps[ModelContext]:
        """Store what is new, and return what there is to answer from."""
        run = self._run(config, trace)
        messages = messages_in(state, self.messages_key, run.node)
        if messages is not None:
            note = yield from self._find_note(state, messages, run)
            synced = yield from self._catch_up(state, messages, run, note)
            messages = synced.apply_edits(messages, messages)
            turn, _ = yield from self._exchange(messages, run, note)
        elif Reply.is_kept_in(value_in(state, "reply")):
            known = yield from asked_in_turn(self.memory, run.node, _turn_in(state))
            turn = StateTurn(run.node.key, known)
        else:
            turn = StateTurn(run.node.key, (), [asked_in(state, run.node)])
        only = value_in(state, "recalled_ids")
        context = yield from self._context(turn, run, shape=shape, only=only)
        yield from trace.told("convmem.context", context.counts)
        return context

    def calling(
        self,
        state: Any,
        config: RunnableConfig,
        trace: TurnTrace,
        *,
        update: Update,
    ) -> Steps[None]:
        """Store a reply that calls tools before they run."""
        replies = update.get(self.messages_key)
        if replies and getattr(replies[-1], "tool_calls", None):
            yield from self.leaving(state, config, trace, update=update)

    def leaving(
        self,
        state: Any,
        config: RunnableConfig,
        trace: TurnTrace,
        *,
        update: Update,
    ) -> Steps[None]:
        """Store a reply that the state does not have yet."""
        run = self._run(config, trace)
        held = messages_in(state, self.messages_key, run.node)
        if held is None:
            yield from self._record_reply(state, update, run)
        else:
            messages = [*held, *update[self.messages_key]]
            note = yield from self._find_note(state, messages, run)
            yield from self._catch_up(state, messages, run, note)

    def breaking(
        self,
        state: Any,
        config: RunnableConfig,
        trace: TurnTrace,
        *,
        asking: Asking,
        heard: HeardReplies,
    ) -> Steps[None]:
        """Store the words of a reply that broke off."""
        run = self._run(config, trace)
        said, timing = heard.broken(), measure_times(asking.started_ms, heard.first_token_ms)
        if not (said and asking.is_kept and run.options.remember):
            return
        messages = messages_in(state, self.messages_key, run.node)
        if messages is None:
            reply, turn_id = Reply(said, timing), _turn_in(state)
            drafts = yield from keep_reply(self.memory, run.node, turn_id, reply, is_broken=True)
            if drafts:
                yield from trace.report_stored(drafts)
        else:
            sync = self._sync(state, run)
            note = yield from self._find_note(state, messages, run)
            turn = yield from sync.catch_up(messages, note)
            yield from sync.reply_broken(turn, said, messages, timing)

    # -- what they share ------------------------------------------------------------------------

    def _run(self, config: RunnableConfig, trace: TurnTrace) -> NodeRun:
        configurable = config.get("configurable", {})
        node = NodeContext.of(config, read_key(configurable, host="the graph"))
        return NodeRun(node, self.options.for_call(configurable, self.model), trace)

    def _sync(self, state: Any, run: NodeRun) -> StateSync:
        check_user(_note_in(state), run.node.key)
        return StateSync(
            self.memory.log,
            self.memory.drafting,
            run.node,
            follows_removals=self.follow_edits,
            trace=run.trace,
        )

    def _find_note(
        self, state: Any, messages: Sequence[BaseMessage], run: NodeRun
    ) -> Steps[TurnNote | None]:
        """Return the note of the turn: the state's, or what is found of a chat that was sent."""
        note = _note_in(state)
        if note is None and run.options.remember:
            note = yield from self._sync(state, run).find_note(messages)
        return note

    def _catch_up(
        self, state: Any, messages: Sequence[BaseMessage], run: NodeRun, note: TurnNote | None
    ) -> Steps[SyncedTurn]:
        """Store what the state has new of the latest turn, and return it."""
        if not run.options.remember:
            return SyncedTurn()
        return (yield from self._sync(state, run).catch_up(messages, note))

    def _exchange(
        self, messages: Sequence[BaseMessage], run: NodeRun, note: TurnNote | None
    ) -> Steps[tuple[StateTurn, list[Entry]]]:
        """Return the latest exchange of a state, and the log's entries of it, dead ones too."""
        spoken = select_spoken(messages, run.node, note)
        start = latest_exchange(spoken)
        names = [message.id for message in spoken]
        if note is not None and note["first"] in names[start:]:
            start = names.index(note["first"])  # what stands before was forgotten, or answered
        now, names = spoken[start:], names[start:]
        found: list[Entry] = yield step(self.memory.log, "find", run.node.key, names)
        known = {entry.message_id for entry in found}
        return StateTurn(run.node.key, known, now, find_aside(messages, note, run.node)), found

    def _context(
        self,
        turn: StateTurn,
        run: NodeRun,
        *,
        shape: ChainShape = _PLAIN,
        only: Collection[str] | None = None,
    ) -> Steps[ModelContext]:
        """Return what there is to answer from.

        Args:
            turn: The turn that the state is in.
            run: The node that runs.
            shape: What the model takes.
            only: Lines that were recalled before: others are left out. None recalls anew.
        """
        key, trace = run.node.key, run.trace
        view = TurnView(self.memory, key, run.options, shape.profile, trace, shape.slots)
        return (yield from view.context_steps(turn.locate, only=only))


def _note_in(state: Any) -> TurnNote | None:
    note: TurnNote | None = value_in(state, NOTE_KEY)
    return note


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


# -- The state of a graph with a memory: what it holds, in whatever form it comes -----------------


_ROLE_FIELDS = frozenset({"type", "data"})


"""Keys of a message that LangChain wrote down."""


def with_note(schema: type[Any]) -> Any:
    """Return what the nodes of a graph read: its state, and which turn is under way.

    A state without messages names its turn itself. Callers see nothing of the note.
    """
    keys = get_type_hints(schema, include_extras=True)
    if "messages" not in keys:
        return schema
    return TypedDict("NotedState", {**keys, NOTE_KEY: TurnNote}, total=False)  # type: ignore[operator]


def value_in(state: Any, key: str) -> Any:
    """Return a value of a state that is a mapping or an object; None if there is none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def messages_in(state: Any, key: str, context: NodeContext) -> list[BaseMessage] | None:
    """Return the messages of a state, each with an id; None if the state keeps none.

    What a `Send` carries has passed no reducer, so messages without an id get one here, in place
    and the same in every attempt.

    Raises:
        ConfigError: If what is there is no list of messages, or a message has no id.
    """
    found = value_in(state, key)
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


def asked_in(state: Any, context: NodeContext) -> HumanMessage:
    """Return what the user says in a state without messages, with an id.

    The id is the same in every attempt of this node, so that a retry stores nothing twice.

    Raises:
        ConfigError: If the state holds nothing to answer, or several messages.
        InvalidMessageError: If what it holds is no message, or a blank one.
    """
    given = value_in(state, "input") or None
    incoming = read_input(HumanMessage(given) if _is_content(given) else given)
    said = incoming.human
    if said is None:
        msg = (
            "the state holds nothing to answer: invoke the graph with {'input': ...} (text, content"
            f" blocks or a message), or give it a 'messages' key; got input={_describe(given)}"
        )
        raise ConfigError(msg)
    if len(incoming.messages) > 1:
        msg = (
            f"the state's input holds {len(incoming.messages)} messages; pass what the user says "
            "now, or take a state with a 'messages' key"
        )
        raise ConfigError(msg)
    return said if said.id else said.model_copy(update={"id": context.place.task})


def check_answerable(messages: Sequence[BaseMessage]) -> None:
    """Check that somebody says something in a state, other than instructions.

    Raises:
        ConfigError: If nobody does.
    """
    if all(role_of(message) == "system" for message in messages):
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
class Reply:
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
            InvalidMessageError: If a message holds what cannot be stored.
        """
        fields = {
            "messages": [encode_message(message) for message in self.messages],
            "timing": dict(self.timing),
            "is_kept": self.is_kept,
            "aux": dict(self.aux),
        }
        return dumps(fields, what="reply")

    @classmethod
    def of(cls, reply: Any, answer: Any) -> Reply | None:
        """Return the reply that a state holds: of the node `model`, or of a node of the user's.

        Raises:
            ConfigError: If it is of neither kind.
        """
        carried = _carried(reply) if reply else None
        if not answer or (carried is not None and carried.messages):
            return carried
        try:
            messages = reply_messages(answer, [AIMessage("")])
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
        return not reply or _carried(reply).is_kept


def _carried(reply: Any) -> Reply:
    try:
        fields = loads(reply)
        messages = [decode_message(one) for one in fields["messages"]]
        return Reply(messages, fields["timing"], fields["is_kept"], fields["aux"])
    except (ValueError, TypeError, LookupError) as error:
        kind = type(reply).__name__
        msg = f"state['reply'] is not what the node 'model' writes, but of type {kind}"
        raise ConfigError(msg) from error


# -- a state without messages --------------------------------------------------------------------
def keep_asked(
    memory: TurnMemory, context: NodeContext, asked: HumanMessage, current: str | None
) -> Steps[Entry]:
    """Store what the user says, and go back first where the run was told where to begin.

    The same text once more, without an id of its own, is the same turn as long as nobody answered.

    Args:
        memory: Whose log.
        context: Where the node stands.
        asked: What is said, with an id; something of it is to be stored.
        current: The turn that the state knows, if it knows one.

    Returns:
        The entry, which may have been there before.
    """
    log = memory.log
    back = yield from _going_back(log, context, current)
    metadata = context.metadata("turn", current or None)
    draft = memory.drafting.draft(asked, metadata=metadata)
    is_unnamed = asked.id == context.place.task
    if is_unnamed and context.since is None and not context.is_sent:
        said = [asked.model_copy(update={"id": None})]
        entries = yield step(log, "entries", context.key, last=_PAGE)
        kept = None if draft is None else draft.message
        meant = reconcile(entries, said, stored_form=lambda _: kept)
        if meant is not None and meant.again is not None:
            return meant.again
    *_, entry = yield step(log, "append", context.key, [*back, draft])
    return entry  # type: ignore[no-any-return]  # what a step returns is not typed


def keep_reply(
    memory: TurnMemory,
    context: NodeContext,
    turn_id: str,
    reply: Reply,
    *,
    is_broken: bool = False,
) -> Steps[list[Draft]]:
    """Store the reply of a turn, in the place of an earlier one; return what was appended.

    One that broke off does not take the place of a whole one.
    """
    log = memory.log
    turn = yield from _turn_entries(log, context, turn_id)
    back = yield from _going_back(log, context, turn_id)
    names = {message.id for message in reply.messages if message.id}
    found: list[Entry] = yield step(log, "find", context.key, names)
    start = start_of(turn, turn[0])
    entries: list[Entry] = yield step(log, "entries", context.key, after=start - 1)
    if is_broken and is_answered(live_entries(entries), turn_id):
        return []
    drafts = draft_reply(
        memory.drafting,
        reply.messages,
        turn_id=turn_id,
        entries=entries,
        found=found,
        metadata=Metadata((INTERRUPTED,) if is_broken else (), reply.timing, aux=reply.aux),
        new_id=lambda number: f"{turn_id}-{number}",  # the same in every attempt
    )
    if back or drafts:
        yield step(log, "append", context.key, [*back, *drafts])
    return drafts


def asked_in_turn(memory: TurnMemory, context: NodeContext, turn_id: str) -> Steps[list[str]]:
    """Return the ids of what the user said in a turn."""
    turn = yield from _turn_entries(memory.log, context, turn_id)
    return [entry.message_id for entry in turn if entry.role == "user"]


def _turn_entries(log: MessageLog, context: NodeContext, turn_id: str) -> Steps[list[Entry]]:
    """Return the live entries of a turn.

    Raises:
        ConfigError: If the thread has none.
    """
    for last in (_PAGE, None):
        entries: list[Entry] = yield step(log, "entries", context.key, last=last)
        turn = [entry for entry in live_entries(entries) if entry.turn_id == turn_id]
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


def _going_back(log: MessageLog, context: NodeContext, current: str | None) -> Steps[list[Draft]]:
    """Return what takes back the turns that the graph has left by beginning from a checkpoint."""
    if context.since is None:
        return []
    return rewind_turns((yield step(log, "entries", context.key)), context, current)


# -- A graph's turn among the entries of its thread -----------------------------------------------


@dataclass(frozen=True, slots=True)
class StateTurn:
    """The turn that a state is in.

    Attributes:
        key: The thread.
        known: Ids of the messages of this turn that the log has, be they retracted since.
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
        stored = [entry for entry in live_entries(entries) if entry.message_id in self.known]
        first = min(stored, key=lambda entry: entry.position, default=None)
        ids = {entry.id for entry in stored}
        before = [entry for entry in said_before(entries, first) if entry.id not in ids]
        read = {entry.message_id for entry in entries}
        turn = TurnEntries(
            before,
            self._as_said(entries, stored) if self.now else stored,
            start_of(entries, first),
            is_whole=read.issuperset(self.known),
        )
        return self.aside.add_to(turn)

    def _as_said(self, entries: Sequence[Entry], stored: Sequence[Entry]) -> list[Entry]:
        """Return the state's messages as the entries that they are or would be."""
        by_id = {entry.message_id: entry for entry in stored}
        turn_id = stored[0].turn_id if stored else new_ulid()
        end = max((entry.position for entry in entries), default=0)
        return [
            entry_said(
                message,
                entry_id=by_id[message.id].id if message.id in by_id else new_ulid(),
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
    """Whether somebody still reads, and what is to be done if not. Thread-safe."""

    def __init__(self) -> None:
        """Begin with somebody who reads, and nothing to do."""
        self._lock = threading.Lock()
        self._has_left = False
        self._job: Callable[[], None] | None = None

    @staticmethod
    def of(config: RunnableConfig) -> StreamReader | None:
        """Return the reader of the run that a node is in; None of one that nobody streams."""
        reader = config.get("configurable", {}).get(_READER)
        return reader if isinstance(reader, StreamReader) else None

    def expect(self, job: Callable[[], None]) -> None:
        """Do a job if the reader has left; else keep it, in case they leave before `settle`."""
        with self._lock:
            if not self._has_left:
                self._job = job
                return
        job()

    def settle(self) -> None:
        """Forget the job: another node has done it."""
        with self._lock:
            self._job = None

    def leave(self) -> None:
        """Note that nobody reads any more."""
        with self._lock:
            self._has_left = True

    def do_rest(self) -> None:
        """Do the job that is left."""
        with self._lock:
            job, self._job = self._job, None
        if job is not None:
            job()


def watch_reader(
    graph: CompiledStateGraph[Any, Any, Any, Any], *, last: str
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph do what its nodes expect of it if the reader of a stream leaves.

    Args:
        graph: Changed in place, and returned.
        last: The node that does it otherwise. Where a run waits in front of this node, nothing
            is left to do: the run goes on from there.
    """
    graph.__class__ = _watched_class(last)
    return graph


@cache
def _watched_class(last: str) -> type[Any]:
    from langgraph.graph.state import CompiledStateGraph

    class WatchedGraph(CompiledStateGraph[Any, Any, Any, Any]):
        """A graph that sees to the end of a turn whose reader has left."""

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
                        if not self._waits(config):
                            reader.do_rest()
                        raise

        def _waits(self, config: RunnableConfig) -> bool:
            """Return whether the run can be resumed in front of the last node."""
            is_kept = getattr(self.checkpointer, "get_tuple", None) is not None
            return is_kept and last in self.get_state(config).next

    return WatchedGraph
