"""Tools of a conversation: what a model may call, who allows it, and how calls are answered."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, is_typeddict

from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from langchain_convmem.background import run_in_thread, start_in_thread
from langchain_convmem.causes import describe_error, describe_value
from langchain_convmem.errors import ConfigError, TurnCancelledError
from langchain_convmem.views.media import read_media
from langchain_convmem.views.tool_calls import find_calls

ToolLike: TypeAlias = BaseTool | Callable[..., Any] | type[BaseModel] | Mapping[str, Any]
"""A tool or function, which can be run; a class of pydantic or a typed dict, or a map, which only
describe one."""

Verdict: TypeAlias = bool | str | ToolCall

ToolHandler: TypeAlias = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
"""Whether a call may run: True, False, a reason against it, or the call to run instead."""

_CANCELLED = "the call was cancelled"
_MOST_AT_ONCE = 32
_logger = logging.getLogger("langchain_convmem")


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    bindable: Any
    schema: dict[str, Any]
    runnable: BaseTool | None = None


class ToolSet:
    """The tools of a conversation, in order. Immutable and thread-safe, as far as the tools are."""

    def __init__(self, tools: Sequence[ToolLike] = ()) -> None:
        """Create the set.

        Raises:
            ConfigError: If one is not a tool, or two have one name.
        """
        if not isinstance(tools, Iterable) or isinstance(tools, Mapping | str):
            raise ConfigError(f"the tools are {describe_value(tools)}; pass a list of tools")
        self._tools = tuple(_describe_tool(tool) for tool in tools)
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"more than one tool is called {twice[0]!r}; rename all but one")
        self._runnable = {tool.name: tool.runnable for tool in self._tools if tool.runnable}

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names, in order."""
        return tuple(tool.name for tool in self._tools)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """Descriptions in OpenAI's form, as templates read them; copies."""
        return copy.deepcopy([tool.schema for tool in self._tools])

    @property
    def bindable(self) -> list[Any]:
        """What `bind_tools` of a chat model takes."""
        return [tool.bindable for tool in self._tools]

    def is_executable(self, name: str) -> bool:
        """Return whether the tool can be run here; what is only described cannot."""
        return name in self._runnable

    def answer(
        self,
        calls: Sequence[ToolCall],
        *,
        config: RunnableConfig | None = None,
        handler: ToolHandler | None = None,
        cancelled: Future[Any] | None = None,
    ) -> list[ToolMessage]:
        """Run calls and return one answer for each, in their order.

        First the handler is asked about every call that can be run, in the order of the calls;
        then the allowed ones run.

        Args:
            calls: What the model called.
            config: Passed to the tools; `max_concurrency` bounds how many run at once.
            handler: Whether a call may run: True, False, a reason against it, or another call to
                run instead. A plain or async function; what it raises ends the turn.
            cancelled: Once it has a result, `TurnCancelledError` is raised without waiting for
                tools that run, whose results are dropped. If it has an exception, that is raised.
                Asynchronous runs are ended by cancelling the task.

        Returns:
            Results. A tool that is unknown, denied or raises is answered with "Error: ..." and
            `status="error"`. KeyboardInterrupt and cancellation are raised.
        """
        answering = partial(self._answer, calls, config, handler, cancelled, prefers_async=False)
        outcome = start_in_thread(lambda: asyncio.run(answering()))
        wait([outcome] if cancelled is None else [outcome, cancelled], return_when=FIRST_COMPLETED)
        check_cancelled(cancelled)
        return outcome.result()

    async def aanswer(
        self,
        calls: Sequence[ToolCall],
        *,
        config: RunnableConfig | None = None,
        handler: ToolHandler | None = None,
        cancelled: Future[Any] | None = None,
    ) -> list[ToolMessage]:
        """Run calls without blocking the event loop; see `answer`."""
        return await self._answer(calls, config, handler, cancelled, prefers_async=True)

    async def _answer(
        self,
        calls: Sequence[ToolCall],
        config: RunnableConfig | None,
        handler: ToolHandler | None,
        cancelled: Future[Any] | None,
        *,
        prefers_async: bool,
    ) -> list[ToolMessage]:
        """Run calls; a tool that is a function and a coroutine as the latter if `prefers_async`."""
        decided = [
            self._decide(
                call,
                await _ask(cancelled, handler, copy.deepcopy(call))
                if handler is not None and call["name"] in self._runnable
                else True,
            )
            for call in calls
        ]
        room = asyncio.Semaphore(_count_at_once(config))

        async def run(call: ToolCall) -> ToolMessage:
            async with room:
                check_cancelled(cancelled)
                tool = self._runnable[call["name"]]
                return await _run(tool, call, config, prefers_async=prefers_async)

        results = await _gather(run(one) for one in decided if not isinstance(one, ToolMessage))
        check_cancelled(cancelled)
        waiting = iter(results)
        return [one if isinstance(one, ToolMessage) else next(waiting) for one in decided]

    def _decide(self, call: ToolCall, verdict: Any) -> ToolCall | ToolMessage:
        """Return the call to run, or the answer to one that does not run."""
        if call["name"] not in self._runnable:
            return _refuse(call, _explain_unknown(call["name"], self._runnable))
        if verdict is True:
            return call
        if verdict is False or isinstance(verdict, str):
            return _refuse(call, "the call was denied" + (f": {verdict}" if verdict else ""))
        return _change_call(call, verdict, self._runnable)


def _count_at_once(config: RunnableConfig | None) -> int:
    limit = (config or {}).get("max_concurrency")
    return max(1, _MOST_AT_ONCE if limit is None else limit)


# -- What may be a tool ---------------------------------------------------------------------------


def _describe_tool(given: Any) -> _Tool:
    if isinstance(given, Mapping):
        return _describe_map(dict(given))
    if is_typeddict(given) or (isinstance(given, type) and issubclass(given, BaseModel)):
        schema = convert_to_openai_tool(given)
        return _Tool(schema["function"]["name"], given, schema)
    if not isinstance(given, BaseTool):
        given = _wrap_function(given)
    return _Tool(given.name, given, convert_to_openai_tool(given), given)


def _wrap_function(given: Any) -> BaseTool:
    name = getattr(given, "__name__", None)
    if isinstance(given, type) or not callable(given) or not name:
        raise ConfigError(
            f"{given!r:.80} is not a tool; pass a function with a name, a BaseTool, a pydantic "
            "class or a map"
        )
    is_async = inspect.iscoroutinefunction(given)
    make = partial(
        StructuredTool.from_function,
        **{"coroutine" if is_async else "func": given},
        error_on_invalid_docstring=False,
    )
    try:
        return make(parse_docstring=True)
    except (TypeError, ValueError, NameError) as error:
        raise ConfigError(
            f"the function {name!r} cannot be described as a tool: {error}; give it a docstring "
            "and type its arguments, or make it a tool with langchain_core.tools.tool"
        ) from error


def _describe_map(given: dict[str, Any]) -> _Tool:
    """Return a tool that a map describes; a provider's own tools have no form but their own."""
    given = copy.deepcopy(given)
    try:
        schema = convert_to_openai_tool(given)
    except (LookupError, TypeError, ValueError):
        schema = given
    function = schema.get("function", schema)
    name = function.get("name") if isinstance(function, Mapping) else None
    own = name or given.get("type") or next(iter(given), None)
    if not isinstance(own, str):
        raise ConfigError(f"{given!r:.80} does not describe a tool; it needs a 'name'")
    return _Tool(own, given, schema)


# -- Whether a call may run -----------------------------------------------------------------------


def _change_call(
    call: ToolCall, verdict: Any, tools: Mapping[str, BaseTool]
) -> ToolCall | ToolMessage:
    if not isinstance(verdict, Mapping) or not isinstance(verdict.get("args"), Mapping):
        raise ConfigError(
            f"the tool handler returned "
            f"{describe_value(verdict)} for {call['name']!r}; return True, False, "
            "a reason against the call, or the call to run instead"
        )
    name = verdict.get("name", call["name"])
    if name not in tools:
        return _refuse(call, _explain_unknown(name, tools))
    return ToolCall(type="tool_call", name=name, args=dict(verdict["args"]), id=call["id"])


def _explain_unknown(name: str, tools: Mapping[str, BaseTool]) -> str:
    return f"there is no tool {name!r} to run; there are: {', '.join(tools) or 'none'}"


async def _ask(cancelled: Future[Any] | None, function: Any, *args: Any) -> Any:
    """Return what a function of the caller's says, plain or async."""
    if inspect.iscoroutinefunction(function):
        found = await function(*args)
    else:
        found = await run_in_thread(lambda: function(*args))
        if inspect.isawaitable(found):
            found = await found
    check_cancelled(cancelled)
    return found


def check_cancelled(cancelled: Future[Any] | None) -> None:
    """Raise if a turn was cancelled; see `ToolSet.answer`."""
    if cancelled is None or not cancelled.done():
        return
    if not cancelled.cancelled():
        cancelled.result()
    raise TurnCancelledError("the turn was cancelled while tools ran; their results are dropped")


async def _gather(calls: Iterable[Coroutine[Any, Any, ToolMessage]]) -> list[ToolMessage]:
    """Return what calls return, in their order; if one raises, the others are cancelled."""
    tasks = list(map(asyncio.ensure_future, calls))
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# -- The border to tools: they may raise anything, and the model is told --------------------------


async def _run(
    tool: BaseTool, call: ToolCall, config: RunnableConfig | None, *, prefers_async: bool
) -> ToolMessage:
    request = _build_request(call)
    try:
        if _has_coroutine(tool) and (prefers_async or not _has_function(tool)):
            return _make_answer(call, await tool.ainvoke(request, config))
        return _make_answer(call, await run_in_thread(lambda: tool.invoke(request, config)))
    except Exception as error:  # noqa: BLE001
        return _report_error(call, error)


def _build_request(call: ToolCall) -> ToolCall:
    """Return the call as LangChain's tools take it: with an id they answer with a message.

    A copy, since the call stands in the history.
    """
    args = copy.deepcopy(call["args"])
    return ToolCall(type="tool_call", name=call["name"], args=args, id=call["id"] or "")


def _report_error(call: ToolCall, error: Exception) -> ToolMessage:
    if _is_pause(error):
        raise error
    _logger.debug("tool %r failed; the model is told: %s", call["name"], describe_error(error))
    return _make_failure(call, error)


def _is_pause(error: Exception) -> bool:
    """Return whether LangGraph stops its graph here, to go on later."""
    return any(
        kind.__module__ == "langgraph.errors" and kind.__name__ == "GraphBubbleUp"
        for kind in type(error).__mro__
    )


def _has_coroutine(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun  # noqa: SLF001 - what LangChain asks too


def _has_function(tool: BaseTool) -> bool:
    return not isinstance(tool, StructuredTool | Tool) or tool.func is not None


# -- What a model is told of a call ---------------------------------------------------------------


def _refuse(call: Mapping[str, Any], reason: str) -> ToolMessage:
    """Return the answer to a call that nothing came of."""
    return ToolMessage(
        f"Error: {reason}",
        tool_call_id=str(call.get("id") or ""),
        name=call.get("name"),
        status="error",
    )


def _make_failure(call: Mapping[str, Any], error: Exception) -> ToolMessage:
    """Return the answer to a call whose tool raised an error.

    The error's type is in `additional_kwargs["exception"]`.
    """
    kind = type(error).__name__
    # A ToolException is written for the model; of others the type often says more than the text.
    told = str(error) if isinstance(error, ToolException) else f"{kind}: {error}"
    answer = _refuse(call, told.removesuffix(": ") or kind)
    answer.additional_kwargs["exception"] = kind
    return answer


def answer_cancelled(calls: Iterable[ToolCall]) -> list[ToolMessage]:
    """Return answers, in order, that close calls which nobody will answer any more."""
    return [_refuse(call, _CANCELLED) for call in calls]


def _make_answer(call: ToolCall, result: Any) -> ToolMessage:
    """Return what a tool returned as the answer to the call.

    A `ToolMessage` is kept, text stays text, content blocks stay blocks, anything else is JSON.
    """
    if not isinstance(result, ToolMessage):
        kind = type(result).__name__
        return _refuse(call, f"the tool returned a {kind}, which only a graph can carry out")
    answer = result.model_copy()
    answer.tool_call_id = str(call["id"] or "")
    answer.name = answer.name or call["name"]
    content = answer.content
    if isinstance(content, list) and not (content and all(map(_is_block, content))):
        answer.content = _write_json(content)
    return answer


def _is_block(block: Any) -> bool:
    """Return whether a value is content, not just a map with a `type` (of a folder, say)."""
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "text":
        return isinstance(block.get("text"), str)
    media = read_media(block)
    return media is None or bool(media.data) or "source" in block


def _write_json(value: Any) -> str:
    """Return a value as JSON text; what JSON lacks is written as text."""
    return json.dumps(value, ensure_ascii=False, default=str)


# -- Calls that a history leaves open, and results that answer none -------------------------------


def find_unanswered_calls(history: Iterable[BaseMessage]) -> list[ToolCall]:
    """Return the calls that no later result answers, in order."""
    return _match_results(history)[0]


def find_stray_results(
    history: Sequence[BaseMessage], said: Sequence[BaseMessage]
) -> list[ToolMessage]:
    """Return the results that answer no call that is open before them."""
    _, stray = _match_results([*history, *said])
    return [one for one in stray if any(one is result for result in said)]


def _match_results(messages: Iterable[BaseMessage]) -> tuple[list[ToolCall], list[ToolMessage]]:
    """Return the calls without a result, and the results without a call.

    Results are matched by order too, since some models use an id anew in every reply: a result
    answers the latest earlier call of its id that is still open.
    """
    made: list[ToolCall] = []
    stray: list[ToolMessage] = []
    answered: set[int] = set()
    waiting: dict[str | None, list[int]] = {}
    for message in messages:
        if not isinstance(message, ToolMessage):
            calls = find_calls(message)
            waiting.update({call["id"]: [] for call in calls})
            for number, call in enumerate(calls, len(made)):
                waiting[call["id"]].append(number)
            made += calls
        elif waiting.get(message.tool_call_id):
            answered.add(waiting[message.tool_call_id].pop(0))
        else:
            stray.append(message)
    return [call for number, call in enumerate(made) if number not in answered], stray
