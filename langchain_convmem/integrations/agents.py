"""Memory for agents made with `langchain.agents.create_agent`.

`ConversationMemoryMiddleware` needs the extra `agents`; `search_dialog_tool` needs nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypeAlias, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.effects import Steps, arun, run
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.streams import carried_through
from langchain_convmem.turns.messages import check_question
from langchain_convmem.turns.options import TurnOptions, read_key
from langchain_convmem.turns.replies import HeardReplies, hearing
from langchain_convmem.turns.state_sync import (
    NOTE_KEY,
    NodeContext,
    StateSync,
    SyncedTurn,
    TurnNote,
    check_user,
    find_aside,
    is_stand_in,
    remove_superseded,
    rename_known,
)
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import SPOKEN, entry_said, measure_times, said_before, start_of
from langchain_convmem.turns.view import (
    CallContext,
    ModelContext,
    TurnEntries,
    TurnView,
    searchable_text,
)
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.providers import Profile, profile_for, resolved

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
    raise MissingExtraError.for_extra("ConversationMemoryMiddleware", "agents") from error


KeepState: TypeAlias = Literal["all", "turn"]


T = TypeVar("T")


_ToolResult: TypeAlias = "ToolMessage | Command[Any]"


_Keep: TypeAlias = Callable[[ToolMessage], Steps[ToolMessage]]


class RememberedState(AgentState[Any]):
    """The agent's state, and which turn of the log is under way; callers see nothing of that."""

    convmem_turn: NotRequired[Annotated[TurnNote, PrivateStateAttr]]


class ConversationMemoryMiddleware(AgentMiddleware[RememberedState, Any, Any]):
    """Gives an agent a memory, without touching what its state says.

    The model sees the thread as the log has it, valid for its provider, then the turn under way as
    the run has it; lines recalled from elsewhere stand in the user's message, fenced and marked as
    data. What the user says is stored before the model is called, what the model and the tools
    say as it comes, all of a turn under one `turn_id`. Of a stream that breaks or is cancelled, the
    words that came are stored, marked `interrupted`; a later attempt takes their place. What
    another middleware makes of a stored message replaces it. A write that fails is raised.

    Call the agent with `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id`
    is required. The context may name the user instead (`user_id`). A call may set options for
    itself, by the same names: `"memory": {"recall": False}`, also under `configurable`; only
    `remember` is none of an agent, whose state would hold what the log lacks. Without a
    checkpointer, pass what is new only.

    Put it last in the list, so that it sees the model that is really called. Thread-safe; one
    object serves any number of threads.
    """

    state_schema = RememberedState

    def __init__(
        self,
        memory: ConversationMemory,
        *,
        recall: bool = True,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int = 0,
        profile: Profile | None = None,
        keep_state: KeepState = "all",
    ) -> None:
        """Give agents this memory.

        Args:
            memory: Stays the caller's to close.
            recall: Whether to recall lines of earlier conversations.
            recall_tokens: Budget of the recalled text (characters / 4).
            recall_k: Recall exactly so many blocks instead.
            history_tokens: Budget of what was said before the turn; None is all of it. The oldest
                exchanges are left out whole; the turn under way does not count.
            context_tokens: One budget for all that the model gets; see `ConversationMemory.wrap`.
            reserved_tokens: Of these, so many are left for the agent's own prompt and its tools.
            profile: Whose rules the messages keep; None goes by the model of each call.
            keep_state: `all` leaves the agent's messages as they are. `turn` takes those of
                earlier turns out of the state when a new one begins, once the log has them: the
                checkpoints stop growing, and the agent returns the messages of its turn only.

        Raises:
            ConfigError: If `keep_state` is neither, or an option makes no sense.
        """
        super().__init__()
        if keep_state not in ("all", "turn"):
            raise ConfigError(f"keep_state must be 'all' or 'turn', got {keep_state!r}")
        self.memory = memory
        self.keep_state = keep_state
        self.tools = []
        self._options = TurnOptions(
            recall=recall,
            recall_tokens=recall_tokens,
            recall_k=recall_k,
            history_tokens=history_tokens,
            context_tokens=context_tokens,
            reserved_tokens=reserved_tokens,
        )
        self._turn_memory = memory.turn_memory
        self._turn_memory.check_options(self._options)
        self._profile = None if profile is None else resolved(profile)

    # -- a turn begins and ends -----------------------------------------------------------------

    def before_agent(self, state: RememberedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Store what the user says, and what else the log does not have yet."""
        return run(_as_internal(self._beginning(state, runtime)))

    async def abefore_agent(
        self, state: RememberedState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Store what the user says; see `before_agent`."""
        return await arun(_as_internal(self._beginning(state, runtime)))

    def _beginning(
        self, state: RememberedState, runtime: Runtime[Any]
    ) -> Steps[dict[str, Any] | None]:
        messages: list[Any] = state["messages"]
        sync = self._sync(runtime)
        earlier = state.get(NOTE_KEY)
        check_user(earlier, sync.context.key)
        if messages:
            check_question(messages[-1])
        begun = yield from sync.begin(messages, earlier)
        note, messages = begun.note, begun.apply(messages)
        if note is None:
            return None
        update: dict[str, Any] = {NOTE_KEY: note}
        if begun.changes:
            update["messages"] = list(begun.changes)
        ids = [note.get("names", {}).get(str(one.id), one.id) for one in messages]
        before = ids.index(note["first"]) if note["first"] in ids else 0
        if self.keep_state == "turn" and before:
            # Removals would show up among the messages of a stream; this does not.
            aside = find_aside(messages[:before], note, sync.context)
            kept = [*aside.instructions, *aside.messages]
            update["messages"] = Overwrite([*kept, *messages[before:]])
        return update

    def after_agent(self, state: RememberedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Store what other middleware said last, and take out what was answered again."""
        return run(_as_internal(self._ending(state, runtime)))

    async def aafter_agent(
        self, state: RememberedState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Store what other middleware said last; see `after_agent`."""
        return await arun(_as_internal(self._ending(state, runtime)))

    def _ending(
        self, state: RememberedState, runtime: Runtime[Any]
    ) -> Steps[dict[str, Any] | None]:
        sync = self._sync(runtime)
        note = yield from _note_of(state, sync)
        if note is None:
            return None
        yield from sync.finish(note, state["messages"])
        yield from self._turn_memory.after_turn_steps(sync.context.key)
        removed = remove_superseded(state["messages"], note)
        return {"messages": removed} if removed else None

    # -- the model ------------------------------------------------------------------------------

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Show the model the thread, and store what it says."""
        loop, shown = run(_as_internal(self._prepared(request)))
        started_ms = now_ms()
        with hearing() as heard:
            try:
                response = handler(shown)
            except BaseException:
                run(_as_internal(self._broken_off(request, loop, heard, started_ms)))
                raise
        return run(_as_internal(self._answered(request, loop, response, heard, started_ms)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Show the model the thread, and store what it says; see `wrap_model_call`."""
        loop, shown = await arun(_as_internal(self._prepared(request)))
        started_ms = now_ms()
        with hearing() as heard:
            try:
                response = await handler(shown)
            except GeneratorExit:
                raise  # the loop is gone, and nothing can be awaited
            except BaseException:
                job = self._broken_off(request, loop, heard, started_ms)
                await carried_through(arun(_as_internal(job)))
                raise
        return await carried_through(
            arun(_as_internal(self._answered(request, loop, response, heard, started_ms)))
        )

    def _prepared(
        self, request: ModelRequest[Any]
    ) -> Steps[tuple[SyncedTurn | None, ModelRequest[Any]]]:
        sync = self._sync(request.runtime)
        state = request.state
        note = yield from _note_of(state, sync)
        if note is None:
            return None, request
        loop = yield from sync.catch_up(state["messages"], note)
        profile = self._profile or profile_for(request.model)
        trace = TurnTrace(get_config())
        view = TurnView(self._turn_memory, sync.context.key, self._read_options(), profile, trace)
        held, shown = rename_known(state["messages"], note), rename_known(request.messages, note)
        shown = loop.apply_edits(shown, held)
        ids = {message.id for message in held}
        aside = find_aside([one for one in shown if one.id in ids], note, sync.context)
        with trace.internal():
            context = yield from agent_context_steps(view, loop, held, shown, aside)
        loop.own_tokens = trace.own_tokens.counts()
        yield from trace.told("convmem.context", context.counts)
        return loop, _showing(request, context.given)

    def _answered(
        self,
        request: ModelRequest[Any],
        loop: SyncedTurn | None,
        response: ModelResponse[Any],
        heard: HeardReplies,
        started_ms: int,
    ) -> Steps[ModelResponse[Any]]:
        if loop is None:
            return response
        sync = self._sync(request.runtime)
        timing = measure_times(started_ms, heard.first_token_ms)
        said = yield from sync.reply(loop, response.result, request.state["messages"], timing)
        return replace(response, result=said)

    def _broken_off(
        self,
        request: ModelRequest[Any],
        loop: SyncedTurn | None,
        heard: HeardReplies,
        started_ms: int,
    ) -> Steps[None]:
        said = heard.broken()
        if loop is not None and said:
            timing = measure_times(started_ms, heard.first_token_ms)
            sync = self._sync(request.runtime)
            yield from sync.reply_broken(loop, said, request.state["messages"], timing)

    # -- tools ----------------------------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _ToolResult]
    ) -> _ToolResult:
        """Store what a tool returns, whatever becomes of those that run beside it.

        Tools may return lists of messages and commands, too, whatever LangChain's types say.
        """
        keep = run(_as_internal(self._calling(request)))
        kept: _ToolResult = run(_as_internal(_kept(handler(request), keep)))
        return kept

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[_ToolResult]],
    ) -> _ToolResult:
        """Store what a tool returns; see `wrap_tool_call`."""
        keep = await arun(_as_internal(self._calling(request)))
        result = await handler(request)
        return await carried_through(arun(_as_internal(_kept(result, keep))))

    def _calling(self, request: ToolCallRequest) -> Steps[_Keep | None]:
        """Make sure that the call is stored; return what stores its result."""
        sync = self._sync(request.runtime)
        call_id = request.tool_call["id"]
        note = yield from _note_of(request.state, sync)
        if note is None or call_id is None:
            return None
        caller = yield from sync.call(note, request.state["messages"], call_id)
        if caller is None:
            return None
        return lambda result: sync.result(note, caller, result, call_id)

    # -- the run --------------------------------------------------------------------------------

    def _sync(self, runtime: Any) -> StateSync:
        config = get_config()
        self._read_options()  # options that make no sense are refused before anything is stored
        key = read_key(config.get("configurable", {}), runtime.context, host="the agent")
        context, trace = NodeContext.of(config, key), TurnTrace(config)
        return StateSync(
            self.memory.log, self._turn_memory.drafting, context, is_one_turn=True, trace=trace
        )

    def _read_options(self) -> TurnOptions:
        """Return the options of the run.

        Raises:
            ConfigError: If it sets one that there is not, or `remember`.
        """
        options = self._options.for_call(get_config().get("configurable", {}))
        if not options.remember:
            msg = "an agent cannot run with remember=False; leave the middleware out for such runs"
            raise ConfigError(msg)
        return options


def _as_internal(job: Steps[T]) -> Steps[T]:
    """Run the steps of a hook as the memory's own work, and report what it took."""
    trace = TurnTrace(get_config())
    with trace.internal():
        done = yield from job
        yield from trace.report_own_models()
    return done


def _note_of(state: Any, sync: StateSync) -> Steps[TurnNote | None]:
    """Return the turn under way, also where the run went past the hook that notes it."""
    note: TurnNote | None = state.get(NOTE_KEY)
    check_user(note, sync.context.key)
    return (yield from sync.begin(state["messages"])).note if note is None else note


def _showing(request: ModelRequest[Any], messages: Sequence[BaseMessage]) -> ModelRequest[Any]:
    """Return the request with these messages; what frames them joins the agent's own prompt."""
    head = next(
        (n for n, one in enumerate(messages) if not isinstance(one, SystemMessage)), len(messages)
    )
    shown: dict[str, Any] = {"messages": list(messages[head:])}
    framing = [message.content for message in messages[:head]]
    if framing:
        own = [] if request.system_message is None else [request.system_message.content]
        shown["system_message"] = SystemMessage(_joined([*own, *framing]))
    return request.override(**shown)


def _joined(contents: Sequence[str | list[Any]]) -> str | list[Any]:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(str, contents))
    blocks: list[Any] = []
    for content in contents:
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return blocks


def _kept(result: Any, keep: _Keep | None) -> Steps[Any]:
    """Return what a tool returned, with each tool message in it as `keep` returns it."""
    if keep is None:
        return result
    if isinstance(result, ToolMessage):
        return (yield from keep(result))
    if isinstance(result, list):
        every = list(result)
        for number, one in enumerate(result):
            every[number] = yield from _kept(one, keep)
        return every
    if isinstance(result, Command):
        update = _update_of(result)
        if isinstance(update.get("messages"), list):
            messages = yield from _kept(update["messages"], keep)
            return replace(result, update={**update, "messages": messages})
    return result


def _update_of(command: Command[Any]) -> dict[str, Any]:
    """Return what a command changes in this agent's own state."""
    update = command.update
    return update if command.graph is None and isinstance(update, dict) else {}


# -- What the model of an agent sees --------------------------------------------------------------


_FRONT = 0


"""Where a stand-in stands: before every position of a log."""


def agent_context_steps(
    view: TurnView,
    loop: SyncedTurn,
    state: Sequence[BaseMessage],
    shown: Sequence[BaseMessage],
    aside: CallContext,
) -> Steps[ModelContext]:
    """Return the thread up to the turn, and the turn, with recalled lines in its question.

    Args:
        view: How the turn looks at its thread and at others.
        loop: The turn.
        state: The messages of the state.
        shown: What the call would show; other middleware may have changed it.
        aside: What of it only this call shows.
    """
    own = {message.id for message in loop.messages}
    earlier = {message.id for message in state} - own
    turn = _turn_entries(loop, shown, earlier, view.key)
    asked = next(iter(loop.known.values()), None)  # None of a turn that is not to be stored

    def locate(entries: Sequence[Entry]) -> TurnEntries:
        before = _condensed(said_before(entries, asked), shown, earlier, view.key)
        end = max((entry.position for entry in before), default=0)
        placed = [replace(entry, position=end + entry.position) for entry in turn]
        return aside.add_to(TurnEntries(before, placed, start_of(entries, asked)))

    query = searchable_text(_opening_of(loop.messages), view.memory.drafting)
    return (yield from view.context_steps(locate, query))


def _opening_of(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what the user said before anyone answered."""
    before = takewhile(lambda message: not isinstance(message, AIMessage | ToolMessage), messages)
    return [message for message in before if isinstance(message, HumanMessage)]


# -- entries of a view ----------------------------------------------------------------------------
def _turn_entries(
    loop: SyncedTurn, shown: Sequence[BaseMessage], earlier: Collection[str | None], key: ThreadKey
) -> list[Entry]:
    """Return the turn as the call shows it, as entries at the positions 1, 2, ..."""
    own = [one for one in shown if one.id not in earlier and not is_stand_in(one)]
    entries: list[Entry] = []
    for number, message in enumerate(own, 1):
        stored = loop.known.get(message.id or "")
        # Names that a view makes up are made of the entry's id: they must not change in a loop.
        entry_id = new_ulid() if stored is None else stored.id
        turn_id = str(loop.id)
        entries.append(
            entry_said(message, entry_id=entry_id, key=key, position=number, turn_id=turn_id)
        )
    return entries


def _condensed(
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
    live = [entry for entry in live_entries(before) if entry.role in SPOKEN]
    first = next((n for n, entry in enumerate(live) if entry.message_id == kept), len(live))
    gone = {entry.id for entry in live[:first]}
    entry_id = new_ulid()
    front = entry_said(stand_in, entry_id=entry_id, key=key, position=_FRONT, turn_id=entry_id)
    return [front, *(entry for entry in before if entry.id not in gone)]
