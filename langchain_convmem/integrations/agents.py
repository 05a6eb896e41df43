"""Memory for agents made with `langchain.agents.create_agent`.

`ConversationMemoryMiddleware` requires the extra `agents`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from operator import is_
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypeAlias, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.background import finish, hop
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.turns.messages import check_question, mark_unstored
from langchain_convmem.turns.node_context import NodeContext
from langchain_convmem.turns.options import RecallPlace, TurnOptions, read_key
from langchain_convmem.turns.replies import PartialReplyHandler, collect_replies
from langchain_convmem.turns.state_sync import (
    StateSync,
    drop_earlier,
    find_aside,
    find_exchange,
    is_stand_in,
    name_messages,
    rename_known,
)
from langchain_convmem.turns.synced_turn import NOTE_KEY, SyncedTurn, TurnNote
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import measure_times
from langchain_convmem.turns.view import (
    SPOKEN,
    CallContext,
    ModelContext,
    TurnEntries,
    TurnView,
    join_searchable,
    list_earlier_entries,
    make_entry,
)
from langchain_convmem.views.codec import get_role
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.providers import ModelFacts, Provider, find_provider, resolve_provider

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langgraph.runtime import Runtime

    from langchain_convmem.memory import ConversationMemory


# -- `ConversationMemoryMiddleware`: the memory of agents made with `create_agent` ----------------


try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import PrivateStateAttr
    from langgraph.config import get_config
    from langgraph.types import Command, Overwrite
except ImportError as error:
    raise MissingExtraError.build("ConversationMemoryMiddleware", "agents") from error


KeepState: TypeAlias = Literal["all", "turn"]


T = TypeVar("T")


_ToolResult: TypeAlias = "ToolMessage | Command[Any]"


class RememberedState(AgentState[Any]):
    """The agent's state plus the current turn of the log, which callers do not see."""

    convmem_turn: NotRequired[Annotated[TurnNote, PrivateStateAttr]]


class ConversationMemoryMiddleware(AgentMiddleware[RememberedState, Any, Any]):
    """Gives an agent a memory without changing its state.

    The model sees the thread as the log has it, valid for its provider, then the turn under way as
    the run has it; lines recalled from elsewhere stand in the user's message, fenced and marked as
    data. The user's message is stored before the model is called; what the model and the tools
    say as it comes, all of a turn under one `turn_id`. Of a stream that breaks or is cancelled, the
    words that came are stored, marked `interrupted`; a later attempt takes their place. What
    another middleware changes in a stored message replaces it. Failed writes are raised.

    Call the agent with `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id`
    is required. The context may name the user instead (`user_id`). A call may set options for
    itself, by the same names: `"memory": {"recall": False}`, also under `configurable`. Of a turn
    with `remember=False` nothing is stored: the state holds what the user said in it marked with
    `additional_kwargs={"remember": False}`. Without a checkpointer, pass only new messages.

    Put it last in the list, so that it sees the model that is actually called. Thread-safe; one
    instance can serve any number of threads.
    """

    state_schema = RememberedState

    def __init__(
        self,
        memory: ConversationMemory,
        *,
        provider: Provider | None = None,
        keep_state: KeepState = "all",
        recall: bool | None = None,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        recall_place: RecallPlace | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int | None = None,
        profile_tokens: int | None = None,
        remember: bool | None = None,
        options: TurnOptions | None = None,
    ) -> None:
        """Give agents this memory.

        Args:
            memory: The memory to use; the caller closes it.
            provider: Whose rules the messages keep; None goes by the model of each call.
            keep_state: `all` leaves the agent's messages as they are. `turn` takes those of
                earlier turns out of the state when a new one begins, once the log has them: the
                checkpoints stop growing, and the agent returns the messages of its turn only.
            recall: This and what follows are options of a turn, each as `TurnOptions` says it;
                None leaves one as `options` has it.
            recall_tokens: Budget of the recalled text.
            recall_k: Number of blocks to recall instead.
            recall_place: Where recalled lines stand.
            history_tokens: Budget for earlier messages of the thread.
            context_tokens: One budget for all that the model gets.
            reserved_tokens: Of these, what is left for the agent's own prompt and its tools.
            profile_tokens: Budget of what is known of the user, which joins the agent's prompt.
            remember: Whether turns are stored; the state marks what the user says in others.
            options: The options as one value; None takes the defaults.

        Raises:
            ConfigError: If `keep_state` is neither, or an option is invalid.
        """
        picked = TurnOptions.pick(options, locals())
        super().__init__()
        if keep_state not in ("all", "turn"):
            raise ConfigError(f"keep_state must be 'all' or 'turn', got {keep_state!r}")
        self.memory = memory
        self.keep_state = keep_state
        self.tools = []
        self._options = picked
        self._turn_memory = get_turn_memory(memory)
        self._turn_memory.check_options(self._options)
        self._provider = None if provider is None else resolve_provider(provider)

    # -- A turn begins and ends -----------------------------------------------------------------

    def before_agent(self, state: RememberedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Store the user's message and anything else missing from the log."""
        return self._run(runtime, partial(self._begin, state))

    async def abefore_agent(
        self, state: RememberedState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Store the user's message; see `before_agent`."""
        return await hop(lambda: self._run(runtime, partial(self._begin, state)))

    def _begin(self, state: RememberedState, hook: AgentHook) -> dict[str, Any] | None:
        self._turn_memory.check_call(recalls=hook.options.recall)
        held: list[Any] = state["messages"]
        if held:
            check_question(held[-1])
        messages = name_messages(held, hook.sync.context)
        if not hook.options.remember:
            messages = _mark_question(messages)
        begun = hook.sync.begin(messages, state.get(NOTE_KEY))
        if begun.note is None:
            return None
        messages = begun.apply(messages)
        if self.keep_state == "turn":
            messages = drop_earlier(messages, begun.note, hook.sync.context)
        update: dict[str, Any] = {NOTE_KEY: begun.note}
        if not _are_same(messages, held):
            # Removals would show up among the messages of a stream; this does not.
            update["messages"] = Overwrite(messages)
        return update

    def after_agent(self, state: RememberedState, runtime: Runtime[Any]) -> None:
        """Store the last changes by other middleware."""
        self._run(runtime, partial(self._end, state))
        self._run(runtime, partial(self._settle, state))

    async def aafter_agent(self, state: RememberedState, runtime: Runtime[Any]) -> None:
        """Store what is missing from the log; see `after_agent`."""
        await finish(lambda: self._run(runtime, partial(self._end, state)))
        await hop(lambda: self._run(runtime, partial(self._settle, state)))

    def _end(self, state: RememberedState, hook: AgentHook) -> None:
        note = hook.find_note(state)
        if note is None:
            return
        hook.sync.finish(note, state["messages"])
        if hook.options.remember:
            self._turn_memory.note_turn(hook.sync.context.key)

    def _settle(self, state: RememberedState, hook: AgentHook) -> None:
        """Compact the thread after a turn of which anything is stored, if that is due."""
        if hook.find_note(state) is not None:
            self._turn_memory.compact(hook.sync.context.key)

    # -- The model ------------------------------------------------------------------------------

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with the thread and store its reply."""
        run = partial(self._run, request.runtime)
        asked = run(partial(self._prepare, request))
        with collect_replies() as heard:
            try:
                response = handler(asked.request)
            except BaseException:
                run(partial(asked.store_broken, heard))
                raise
        return run(partial(asked.store_answer, response, heard))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the thread and store its reply; see `wrap_model_call`."""
        run = partial(self._run, request.runtime)
        asked = await hop(lambda: run(partial(self._prepare, request)))
        with collect_replies() as heard:
            try:
                response = await handler(asked.request)
            except GeneratorExit:
                raise  # the loop is gone, and nothing can be awaited
            except BaseException:
                await finish(lambda: run(partial(asked.store_broken, heard)))
                raise
        return await finish(lambda: run(partial(asked.store_answer, response, heard)))

    def _prepare(self, request: ModelRequest[Any], hook: AgentHook) -> AgentCall:
        sync, trace = hook.sync, hook.trace
        state: Any = request.state
        note = hook.find_note(state)
        if note is None:
            return AgentCall(request, None, get_now_ms())
        loop = sync.catch_up(state["messages"], note)
        provider = self._provider or find_provider(request.model)
        model = ModelFacts.read(request.model)
        self._turn_memory.use_model(model)
        view = TurnView(self._turn_memory, sync.context.key, hook.options, provider, trace)
        held, shown = rename_known(state["messages"], note), rename_known(request.messages, note)
        shown = loop.apply_edits(shown, held)
        ids = {message.id for message in held}
        aside = find_aside([one for one in shown if one.id in ids], note, sync.context)
        context = _read_context(view, loop, held, shown, aside)
        loop.own_tokens = trace.own_tokens.to_counts()
        trace.dispatch_event("convmem.context", context.count)
        return AgentCall(_show(request, context.given), loop, get_now_ms())

    # -- Tools ----------------------------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolResult]
    ) -> _ToolResult:
        """Store a tool's result, even if tools that run in parallel fail.

        Tools may also return lists of messages and commands, despite LangChain's types. A tool that
        acts is not called for another user, nor where its result could not be stored.
        """
        self._run(request.runtime, partial(_check_turn, request))
        store = partial(_store_results, request, handler(request))
        return cast("_ToolResult", self._run(request.runtime, store))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[_ToolResult]],
    ) -> _ToolResult:
        """Store a tool's result; see `wrap_tool_call`."""
        await hop(lambda: self._run(request.runtime, partial(_check_turn, request)))
        store = partial(_store_results, request, await handler(request))
        return await finish(lambda: cast("_ToolResult", self._run(request.runtime, store)))

    # -- The run --------------------------------------------------------------------------------

    def _run(self, runtime: Any, step: Callable[[AgentHook], T]) -> T:
        """Do a step of a hook as the memory's own work, and report what it took.

        Raises:
            ConfigError: If the run names no thread, or sets an option that there is not; nothing
                is stored then.
        """
        config = get_config()
        configurable = config.get("configurable", {})
        options = self._options.merge_call(configurable)
        key = read_key(configurable, runtime.context, host="the agent")
        trace = TurnTrace(config)
        sync = StateSync(
            self.memory.log,
            self._turn_memory.drafting,
            NodeContext.read(config, key),
            is_one_turn=True,
            trace=trace,
        )
        return trace.run_internal(partial(step, AgentHook(sync, options, trace)))


def _mark_question(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with what the user says now marked as not to be stored."""
    start = find_exchange(messages)
    said = [mark_unstored(one) if get_role(one) == "user" else one for one in messages[start:]]
    return [*messages[:start], *said]


def _are_same(messages: Sequence[BaseMessage], others: Sequence[BaseMessage]) -> bool:
    return len(messages) == len(others) and all(map(is_, messages, others))


@dataclass(frozen=True, slots=True)
class AgentHook:
    """One call of a hook.

    Attributes:
        sync: Keeps the log in step with the agent's state.
        options: What holds for the turn.
        trace: Its callbacks.
    """

    sync: StateSync
    options: TurnOptions
    trace: TurnTrace

    def find_note(self, state: Any) -> TurnNote | None:
        """Return the turn under way, also where the run went past the hook that notes it."""
        return self.sync.find_note(state["messages"], state.get(NOTE_KEY))


# -- What the model says, and what its tools return -----------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A call of the agent's model.

    Attributes:
        request: What the model gets.
        turn: The turn; None if nothing of it is stored.
        started_ms: When the call begins.
    """

    request: ModelRequest[Any]
    turn: SyncedTurn | None
    started_ms: int

    def store_answer(
        self, response: ModelResponse[Any], heard: PartialReplyHandler, hook: AgentHook
    ) -> ModelResponse[Any]:
        """Store the reply; return it with the ids under which it is stored."""
        if self.turn is None:
            return response
        held, timing = self.request.state["messages"], self._measure(heard)
        said = hook.sync.store_reply(self.turn, response.result, held, timing)
        return replace(response, result=said)

    def store_broken(self, heard: PartialReplyHandler, hook: AgentHook) -> None:
        """Store the words that came of a reply that broke off."""
        said = heard.collect_broken()
        if self.turn is not None and said:
            held, timing = self.request.state["messages"], self._measure(heard)
            hook.sync.store_broken_reply(self.turn, said, held, timing)

    def _measure(self, heard: PartialReplyHandler) -> Mapping[str, int]:
        return measure_times(self.started_ms, heard.first_token_ms)


def _check_turn(request: ToolCallRequest, hook: AgentHook) -> None:
    """Check that the turn is the user's and that the log is open; nothing is stored yet.

    Raises:
        ConfigError: If the state is of another user.
        LogClosedError: If the log is closed.
    """
    if hook.find_note(request.state) is not None:
        hook.sync.log.entries(hook.sync.context.key, last=1)


def _store_results(request: ToolCallRequest, returned: Any, hook: AgentHook) -> Any:
    """Store the results in what a tool returned; return it with the ids that they have."""
    note, call_id = hook.find_note(request.state), request.tool_call["id"]
    if note is None or call_id is None:
        return returned
    store = hook.sync.begin_results(note, cast("Any", request.state)["messages"], call_id)

    def visit(found: Any) -> Any:
        if isinstance(found, ToolMessage):
            return store(found)
        if isinstance(found, list):
            return list(map(visit, found))
        if isinstance(found, Command) and isinstance(_read_update(found).get("messages"), list):
            update = _read_update(found)
            return replace(found, update={**update, "messages": visit(update["messages"])})
        return found

    return visit(returned)


def _read_update(command: Command[Any]) -> dict[str, Any]:
    """Return what a command changes in this agent's own state."""
    update = command.update
    return update if command.graph is None and isinstance(update, dict) else {}


# -- What the model of an agent sees --------------------------------------------------------------


def _show(request: ModelRequest[Any], messages: Sequence[BaseMessage]) -> ModelRequest[Any]:
    """Return the request with these messages; what frames them joins the agent's own prompt."""
    head = next(
        (n for n, one in enumerate(messages) if not isinstance(one, SystemMessage)), len(messages)
    )
    shown: dict[str, Any] = {"messages": list(messages[head:])}
    framing = [message.content for message in messages[:head]]
    if framing:
        own = [] if request.system_message is None else [request.system_message.content]
        shown["system_message"] = SystemMessage(_join_contents([*own, *framing]))
    return request.override(**shown)


def _join_contents(contents: Sequence[str | list[Any]]) -> str | list[Any]:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(str, contents))
    blocks: list[Any] = []
    for content in contents:
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return blocks


_FRONT = 0
"""Where a stand-in stands: before every position of a log."""


def _read_context(
    view: TurnView,
    loop: SyncedTurn,
    state: Sequence[BaseMessage],
    shown: Sequence[BaseMessage],
    aside: CallContext,
) -> ModelContext:
    """Build the model's messages: the thread, the turn, and recalled lines in the question.

    Args:
        view: How the turn looks at its thread and at others.
        loop: The turn.
        state: The messages of the state.
        shown: What the call would show; other middleware may have changed it.
        aside: The part of it that only this call shows.
    """
    own = {message.id for message in loop.messages}
    earlier = {message.id for message in state} - own
    said = [one for one in shown if one.id not in earlier and not is_stand_in(one)]
    turn = loop.make_entries(said, view.key)

    def locate(entries: Sequence[Entry]) -> TurnEntries:
        before = list_earlier_entries(entries, loop.asked)
        before = _put_stand_in(before, shown, earlier, view.key)
        return loop.locate(entries, before, turn, aside)

    query = join_searchable(_select_opening(loop.messages), view.memory.drafting)
    return view.build_context(locate, query)


def _select_opening(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what the user said before anyone answered."""
    before = takewhile(lambda message: not isinstance(message, AIMessage | ToolMessage), messages)
    return [message for message in before if isinstance(message, HumanMessage)]


def _put_stand_in(
    before: list[Entry],
    shown: Sequence[BaseMessage],
    earlier: Collection[str | None],
    key: ThreadKey,
) -> list[Entry]:
    """Return what was said before, with a stand-in of the state for what it stands for."""
    places = [number for number, message in enumerate(shown) if is_stand_in(message)]
    if not places:
        return before
    stand_in = shown[places[-1]]
    kept = next((one.id for one in shown[places[-1] + 1 :] if one.id in earlier), None)
    live = [entry for entry in find_live_entries(before) if entry.role in SPOKEN]
    first = next((n for n, entry in enumerate(live) if entry.message_id == kept), len(live))
    gone = {entry.id for entry in live[:first]}
    entry_id = make_ulid()
    front = make_entry(stand_in, entry_id=entry_id, key=key, position=_FRONT, turn_id=entry_id)
    return [front, *(entry for entry in before if entry.id not in gone)]
