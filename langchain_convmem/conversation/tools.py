"""Tools of a conversation: what a model may call, who allows it, and how calls are answered."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, is_typeddict

from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from langchain_convmem.background import run_in_thread, start_in_thread
from langchain_convmem.causes import describe_error, describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.views.tool_calls import find_calls

ToolLike: TypeAlias = BaseTool | Callable[..., Any] | type[BaseModel] | Mapping[str, Any]
"""A tool or function, which can be run; a class of pydantic or a typed dict, or a map, which only
describe one."""

ToolHandler: TypeAlias = Callable[[ToolCall], Any]
"""Whether a call may run: True, False, a reason against it, or the call to run instead; or what
awaits one of these."""


_logger = logging.getLogger("langchain_convmem")


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    bindable: Any
    schema: dict[str, Any]
    runnable: BaseTool | None = None


@dataclass(frozen=True, slots=True)
class ToolRun:
    """How the calls of a reply are run.

    Attributes:
        config: Passed to the tools; `max_concurrency` bounds how many run at once.
        handler: Whether a call may run. What it raises ends the turn.
        stopped: Once it has an error, that is raised without waiting for tools that run, whose
            results are dropped. Asynchronous runs are ended by cancelling the task.
        prefers_async: Whether a tool that is a function and a coroutine runs as the latter.
    """

    config: RunnableConfig | None = None
    handler: ToolHandler | None = None
    stopped: Future[None] = field(default_factory=Future)
    prefers_async: bool = True

    def check(self) -> None:
        """Go on, unless the turn is to end early."""
        if self.stopped.done():
            self.stopped.result()


class ToolSet:
    """The tools of a conversation, in order. Immutable and thread-safe, as far as the tools are."""

    def __init__(self, tools: Sequence[ToolLike] = ()) -> None:
        """Create the set.

        Raises:
            ConfigError: If one is not a tool, or two have one name.
        """
        if not isinstance(tools, Iterable) or isinstance(tools, Mapping | str):
            raise ConfigError(f"the tools are {describe_value(tools)}; pass a list of tools")
        self._tools = tuple(map(_describe_tool, tools))
        self._runnable = {tool.name: tool.runnable for tool in self._tools if tool.runnable}
        self.names = tuple(tool.name for tool in self._tools)
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise ConfigError(f"more than one tool is called {twice[0]!r}; rename all but one")

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """Descriptions in OpenAI's form, as templates read them; copies."""
        return copy.deepcopy([tool.schema for tool in self._tools])

    @property
    def bindable(self) -> list[Any]:
        """What `bind_tools` of a chat model takes."""
        return [tool.bindable for tool in self._tools]

    def can_run(self, name: str) -> bool:
        """Return whether a call is answered here, if only as unknown: not by the caller."""
        return name in self._runnable or name not in self.names

    def answer(self, calls: Sequence[ToolCall], run: ToolRun) -> list[ToolMessage]:
        """Run calls and return one answer for each, in their order.

        First the handler is asked about every call that can be run, in the order of the calls;
        then the allowed ones run.

        Returns:
            Results. A tool that is unknown, denied or raises is answered with "Error: ..." and
            `status="error"`. KeyboardInterrupt and cancellation are raised.
        """
        run = replace(run, prefers_async=False)
        outcome = start_in_thread(lambda: asyncio.run(self.aanswer(calls, run)))
        both: list[Future[Any]] = [outcome, run.stopped]
        wait(both, return_when=FIRST_COMPLETED)
        run.check()
        return outcome.result()

    async def aanswer(self, calls: Sequence[ToolCall], run: ToolRun) -> list[ToolMessage]:
        """Run calls without blocking the event loop; see `answer`."""
        decided: list[ToolCall | ToolMessage] = []
        for call in calls:
            verdict: Any = True
            if run.handler is not None and call["name"] in self._runnable:
                verdict = await _ask(run.handler, copy.deepcopy(call))
                run.check()
            decided.append(self._decide(call, verdict))
        limit = (run.config or {}).get("max_concurrency")
        room = asyncio.Semaphore(max(1, 32 if limit is None else limit))

        async def answer(call: ToolCall | ToolMessage) -> ToolMessage:
            if isinstance(call, ToolMessage):
                return call
            async with room:
                run.check()
                tool = self._runnable[call["name"]]
                return await _run(tool, call, run)

        return await _gather(map(answer, decided))

    def _decide(self, call: ToolCall, verdict: Any) -> ToolCall | ToolMessage:
        """Return the call to run, or the answer to one that does not run."""
        if verdict is False or isinstance(verdict, str):
            return _refuse(call, "the call was denied" + (f": {verdict}" if verdict else ""))
        made = call if verdict is True else verdict
        if not isinstance(made, Mapping) or not isinstance(made.get("args"), Mapping):
            raise ConfigError(
                f"the tool handler returned {describe_value(verdict)} for {call['name']!r}; return "
                "True, False, a reason against the call, or the call to run instead"
            )
        name = made.get("name", call["name"])
        if name in self._runnable:
            args = copy.deepcopy(dict(made["args"]))  # the call stands in the history
            return ToolCall(type="tool_call", name=name, args=args, id=call["id"] or "")
        known = ", ".join(self._runnable) or "none"
        return _refuse(call, f"there is no tool {name!r} to run; there are: {known}")


# -- What may be a tool ---------------------------------------------------------------------------


def _describe_tool(given: Any) -> _Tool:
    if isinstance(given, Mapping):
        return _describe_map(copy.deepcopy(dict(given)))
    name = getattr(given, "__name__", None)
    is_schema = is_typeddict(given) or (isinstance(given, type) and issubclass(given, BaseModel))
    if not (is_schema or isinstance(given, BaseTool)):
        if isinstance(given, type) or not callable(given) or not name:
            raise ConfigError(
                f"{given!r:.80} is not a tool; pass a function with a name, a BaseTool, a pydantic "
                "class or a map"
            )
        kind = "coroutine" if inspect.iscoroutinefunction(given) else "func"
        try:
            given = StructuredTool.from_function(
                **{kind: given}, parse_docstring=True, error_on_invalid_docstring=False
            )
        except (TypeError, ValueError, NameError) as error:
            raise ConfigError(
                f"the function {name!r} cannot be described as a tool: {error}; give it a "
                "docstring and type its arguments, or use langchain_core.tools.tool"
            ) from error
    schema = convert_to_openai_tool(given)
    return _Tool(schema["function"]["name"], given, schema, None if is_schema else given)


def _describe_map(given: dict[str, Any]) -> _Tool:
    """Return a tool that a map describes; a provider's own tools have no form but their own."""
    schema = given
    with suppress(LookupError, TypeError, ValueError):
        schema = convert_to_openai_tool(given)
    function = schema.get("function")
    told = function if isinstance(function, dict) else given
    name = told.get("name") or given.get("type") or next(iter(given), None)
    if not isinstance(name, str):
        raise ConfigError(f"{describe_value(given)} does not describe a tool; it needs a 'name'")
    return _Tool(name, given, schema)


# -- The border to tools and handlers: they may raise anything, and the model is told -------------


async def _ask(function: Any, *args: Any) -> Any:
    """Return what a function of the caller's says, plain or async."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    found = await run_in_thread(lambda: function(*args))
    return await found if inspect.isawaitable(found) else found


async def _gather(calls: Iterable[Coroutine[Any, Any, ToolMessage]]) -> list[ToolMessage]:
    """Return what calls return, in their order; if one raises, the others are cancelled."""
    tasks = list(map(asyncio.ensure_future, calls))
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(tool: BaseTool, call: ToolCall, run: ToolRun) -> ToolMessage:
    try:
        if _runs_as_coroutine(tool, run):
            return _make_answer(call, await tool.ainvoke(call, run.config))
        return _make_answer(call, await run_in_thread(lambda: tool.invoke(call, run.config)))
    except Exception as error:
        kinds = [f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__]
        if "langgraph.errors.GraphBubbleUp" in kinds:
            raise  # LangGraph stops its graph here, to go on later
        _logger.debug("tool %r failed: %s", call["name"], describe_error(error))
        told = "" if isinstance(error, ToolException) else type(error).__name__
        return _refuse(call, ": ".join(filter(None, [told, str(error)])) or "the tool failed")


def _runs_as_coroutine(tool: BaseTool, run: ToolRun) -> bool:
    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is not None and (run.prefers_async or tool.func is None)
    # LangChain asks the same.
    return run.prefers_async and type(tool)._arun is not BaseTool._arun  # noqa: SLF001


# -- What a model is told of a call ---------------------------------------------------------------


def _refuse(call: Mapping[str, Any], reason: str) -> ToolMessage:
    """Return the answer to a call that nothing came of."""
    own, name = str(call.get("id") or ""), call.get("name")
    return ToolMessage(f"Error: {reason}", tool_call_id=own, name=name, status="error")


def answer_cancelled(message: BaseMessage) -> list[ToolMessage]:
    """Return answers that close the calls of a message which nobody will answer any more."""
    return [_refuse(call, "the call was cancelled") for call in find_calls(message)]


def answer_invalid(message: BaseMessage) -> list[ToolMessage]:
    """Return answers to the calls of a message that cannot be read."""
    told = "this call cannot be read ({}); make it again"
    broken = getattr(message, "invalid_tool_calls", ())
    return [_refuse(call, told.format(call["error"] or "no valid JSON")) for call in broken]


def _make_answer(call: ToolCall, result: Any) -> ToolMessage:
    """Return what a tool returned as the answer to the call, in the form LangChain gives it."""
    if not isinstance(result, ToolMessage):
        kind = type(result).__name__
        return _refuse(call, f"the tool returned a {kind}, which only a graph can carry out")
    update = {"tool_call_id": call["id"], "name": result.name or call["name"]}
    return result.model_copy(update=update)


# -- Calls that a history leaves open -------------------------------------------------------------


def find_unanswered_calls(history: Iterable[BaseMessage]) -> list[ToolCall]:
    """Return the calls that no later result answers, in order.

    A result answers the latest earlier call of its id that is still open: some models use an id
    anew in every reply.
    """
    waiting: list[ToolCall] = []
    for message in history:
        if isinstance(message, ToolMessage):
            ids = [call["id"] for call in waiting]
            if message.tool_call_id in ids:
                del waiting[ids.index(message.tool_call_id)]
        waiting += find_calls(message)
    return waiting
