"""Memory for agents made with `langchain.agents.create_agent`.

`ConversationMemoryMiddleware` requires the extra `agents`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeAlias, TypeVar, cast

from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage

from langchain_convmem.background import finish, hop
from langchain_convmem.errors import MissingExtraError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.integrations.state_run import KeepState, ModelCall, StateRun, check_settings
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import RecallPlace, TurnOptions, get_turn_memory
from langchain_convmem.turns.state_sync import (
    NOTE_KEY,
    BegunTurn,
    TurnNote,
    name_messages,
)
from langchain_convmem.turns.turn import PartialReplyHandler, check_question, collect_replies
from langchain_convmem.views.context import merge_messages
from langchain_convmem.views.providers import ModelFacts, Provider, find_provider

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest
    from langgraph.runtime import Runtime

    from langchain_convmem.memory import ConversationMemory

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import PrivateStateAttr
    from langgraph.config import get_config
    from langgraph.types import Command, Overwrite
except ImportError as error:
    raise MissingExtraError.build("ConversationMemoryMiddleware", "agents") from error

T = TypeVar("T")
_ToolResult: TypeAlias = "ToolMessage | Command[Any]"


class RememberedState(AgentState[Any]):
    """The agent's state plus the current turn of the log, which callers do not see."""

    convmem_turn: NotRequired[Annotated[TurnNote, PrivateStateAttr]]


class ConversationMemoryMiddleware(AgentMiddleware[RememberedState, Any, Any]):
    """Gives an agent a memory without changing its state.

    The model sees the thread from the log, in a form valid for its provider, and then the current
    turn from the run. The user's message includes recalled lines, fenced and marked as data. The
    user's message is stored before the model is called, and messages of the model and the tools as
    they arrive, with one `turn_id` per turn. If a stream breaks or is cancelled, the partial reply
    is stored, marked `interrupted`; a later attempt replaces it. If another middleware changes a
    stored message, the new version replaces it. Failed writes are raised.

    Call the agent with `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id`
    is required. The context can name the user instead (`user_id`). A call can override options,
    also under `configurable`: `"memory": {"recall": False}`. A turn with `remember=False` is not
    stored; in the state, its user message is marked with
    `additional_kwargs={"remember": False}`. Without a checkpointer, pass the new messages or the
    whole chat.

    Put it last in the list, so that it sees the model that is actually called; only what edits the
    model's messages, such as `ContextEditingMiddleware`, goes after it. Thread-safe; one instance
    can serve any number of threads.
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
            provider: Whose rules the messages follow; None detects the provider of each call's
                model.
            keep_state: `all` leaves the agent's messages unchanged. When a new turn begins, `turn`
                removes those of earlier turns from the state once the log has them: checkpoints
                stop growing, and the agent returns only the messages of its turn.
            recall: This and the following are options of a turn, explained in `TurnOptions`; None
                uses the value in `options`.
            recall_tokens: Budget for recalled text.
            recall_k: Number of blocks to recall instead.
            recall_place: Where recalled lines go.
            history_tokens: Budget for earlier messages of the thread.
            context_tokens: One budget for everything that the model gets.
            reserved_tokens: The part of it that is kept free for the agent's own prompt and tools.
            profile_tokens: Budget for the user's profile, which is added to the agent's prompt.
            remember: Whether turns are stored; the state marks user messages that are not.
            options: The options as one value; None uses the defaults.

        Raises:
            ConfigError: If `keep_state` or an option is invalid.
        """
        self._options = TurnOptions.pick(options, locals())
        self._turn_memory = get_turn_memory(memory)
        check_settings(self._turn_memory, self._options, keep_state, provider)
        super().__init__()
        self.memory = memory
        self.keep_state = keep_state
        self.tools = []
        self._provider = provider

    def __repr__(self) -> str:
        return f"ConversationMemoryMiddleware({self.memory!r}, keep_state={self.keep_state!r})"

    # -- A turn begins and ends -----------------------------------------------------------------

    def before_agent(self, state: RememberedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Store the user's message and anything else missing from the log."""
        return self._run(runtime, partial(self._begin, state))

    async def abefore_agent(
        self, state: RememberedState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Store the user's message; see `before_agent`."""
        return await hop(lambda: self._run(runtime, partial(self._begin, state)))

    def _begin(self, state: RememberedState, run: StateRun) -> dict[str, Any] | None:
        self._turn_memory.check_call(run.options)
        held: list[Any] = state["messages"]
        if held:
            check_question(held[-1])
        messages = name_messages(held, run.sync.context)
        begun = run.begin(messages, state.get(NOTE_KEY), self.keep_state)
        if begun.note is None:
            return None
        update: dict[str, Any] = {NOTE_KEY: {**begun.note, "held": []}}
        if begun.has_changed(held):
            # Removals would show up among the messages of a stream; this does not.
            update["messages"] = Overwrite([*begun.messages])
        return update

    def after_agent(self, state: RememberedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Store the last changes by other middleware, and note what the state holds."""
        noted = self._run(runtime, partial(self._end, state))
        self._run(runtime, partial(self._settle, state))
        return noted

    async def aafter_agent(
        self, state: RememberedState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Store what is missing from the log; see `after_agent`."""
        noted = await finish(lambda: self._run(runtime, partial(self._end, state)))
        await hop(lambda: self._run(runtime, partial(self._settle, state)))
        return noted

    def _end(self, state: RememberedState, run: StateRun) -> dict[str, Any] | None:
        turn = _find_turn(state, run)
        if turn.note is None:
            return None
        run.sync.catch_up(turn.messages, turn.note)
        if run.options.remember:
            self._turn_memory.note_turn(run.key)
        # Between two runs the application removes messages; around the calls of the model, other
        # middleware keeps the state small, and what it takes out stays in the views.
        held = [str(one.id) for one in state["messages"]]
        return {NOTE_KEY: {**turn.note, "held": held}} if self.keep_state == "all" else None

    def _settle(self, state: RememberedState, run: StateRun) -> None:
        """Compact the thread after a turn of which anything is stored, if that is due."""
        if _find_turn(state, run).note is not None:
            self._turn_memory.compact(run.key)

    # -- The model ------------------------------------------------------------------------------

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Call the model with the thread and store its reply."""
        run = partial(self._run, request.runtime)
        with collect_replies() as heard:
            shown, call = run(partial(self._prepare, request, heard))
            try:
                response = handler(shown)
            except BaseException:
                run(call.store_broken)
                raise
        return replace(response, result=run(partial(call.store, response.result)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the thread and store its reply; see `wrap_model_call`."""
        run = partial(self._run, request.runtime)
        with collect_replies() as heard:
            shown, call = await hop(lambda: run(partial(self._prepare, request, heard)))
            try:
                response = await handler(shown)
            except GeneratorExit:
                raise  # the loop is gone, and nothing can be awaited
            except BaseException:
                await finish(lambda: run(call.store_broken))
                raise
        said = await finish(lambda: run(partial(call.store, response.result)))
        return replace(response, result=said)

    def _prepare(
        self, request: ModelRequest[Any], heard: PartialReplyHandler, run: StateRun
    ) -> tuple[ModelRequest[Any], ModelCall]:
        turn = _find_turn(request.state, run)
        loop = run.sync.catch_up(turn.messages, turn.note)
        call = ModelCall(loop, heard)
        if turn.note is None:
            return request, call
        provider = self._provider or find_provider(request.model)
        shape = ChainShape(None, provider, model=ModelFacts.read(request.model))
        context = run.read_context(turn, loop, request.messages, shape)
        loop.own_tokens = run.trace.get_own_tokens()
        return _show(request, context.given), replace(call, started_ms=get_now_ms())

    # -- Tools ----------------------------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolResult]
    ) -> _ToolResult:
        """Store a tool's result, even if tools that run in parallel fail.

        Tools may also return lists of messages and commands, despite LangChain's types. A tool is
        not called for another user, nor if its result could not be stored.
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

    def _run(self, runtime: Any, step: Callable[[StateRun], T]) -> T:
        """Do a step of a hook; see `StateRun.open`."""
        run = StateRun.open(
            self._turn_memory,
            self._options,
            get_config(),
            host="the agent",
            context=runtime.context,
        )
        return run.trace.run_internal(partial(step, run))


def _find_turn(state: Any, run: StateRun) -> BegunTurn:
    """Return the turn under way, also where the run went past the hook that notes it."""
    return run.sync.find_turn(state["messages"], state.get(NOTE_KEY))


# -- What its tools return ------------------------------------------------------------------------


def _check_turn(request: ToolCallRequest, run: StateRun) -> None:
    """Check that the turn is the user's and that the log is open; nothing is stored yet.

    Raises:
        ConfigError: If the state is of another user.
        LogClosedError: If the log is closed.
    """
    if _find_turn(request.state, run).note is not None:
        run.memory.log.entries(run.key, last=1)


def _store_results(request: ToolCallRequest, returned: Any, run: StateRun) -> Any:
    """Store the results in what a tool returned; return it with the ids that they have."""
    begun = _find_turn(request.state, run)
    turn = run.sync.catch_up(begun.messages, begun.note)

    def visit(found: Any) -> Any:
        if isinstance(found, ToolMessage):
            return run.sync.store_result(turn, found)
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
    framing = list(takewhile(lambda one: one.type == "system", messages))
    shown: dict[str, Any] = {"messages": list(messages[len(framing) :])}
    if framing:
        own = [] if request.system_message is None else [request.system_message]
        joined = reduce(partial(merge_messages, between="\n\n"), [*own, *framing])
        shown["system_message"] = SystemMessage(joined.content)
    return request.override(**shown)
