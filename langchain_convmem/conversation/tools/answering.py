"""The border to tools: they may raise anything, and the model is told.

Nothing else is caught here: what the caller's own handler and hook raise ends the turn.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool

from langchain_convmem.conversation.tools.results import answered, failed, refused, rewritten
from langchain_convmem.conversation.worker_threads import in_own_loop, in_thread, in_threads
from langchain_convmem.errors import ConfigError
from langchain_convmem.steps import Step, Steps

__all__ = ["ResultHook", "ToolHandler", "answers_steps"]

_logger = logging.getLogger("langchain_convmem")

_MOST_AT_ONCE = 32
Verdict: TypeAlias = bool | str | ToolCall
ToolHandler: TypeAlias = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
"""Whether a call may run: True, False, a reason against it, or the call to run instead."""
ResultHook: TypeAlias = Callable[[ToolCall, ToolMessage], Any]
"""What to tell the model instead of an answer: text, a message, another value; None for as is."""


def answers_steps(
    tools: Mapping[str, BaseTool],
    calls: Sequence[ToolCall],
    *,
    config: RunnableConfig | None,
    handler: ToolHandler | None,
    on_result: ResultHook | None,
    parallel: bool,
    cancelled: Future[Any] | None,
) -> Steps[list[ToolMessage]]:
    """Return one answer for each call, in order; see `ToolSet.answers_steps`."""
    decided: list[ToolCall | ToolMessage] = []
    for call in calls:
        decided.append((yield from _decision_steps(tools, call, handler)))  # noqa: PERF401
    allowed = [(tools[call["name"]], call) for call in decided if not isinstance(call, ToolMessage)]
    at_most = _at_most(config, len(allowed)) if parallel else 1
    results = yield Step(
        lambda: _run(allowed, config, at_most=at_most, cancelled=cancelled),
        lambda: _arun(allowed, config, at_most=at_most),
    )
    waiting = iter(results)
    answers = [item if isinstance(item, ToolMessage) else next(waiting) for item in decided]
    if on_result is None:
        return answers
    seen = []
    for call, answer in zip(calls, answers, strict=True):
        seen.append(
            rewritten(answer, (yield _asked(on_result, copy.deepcopy(call), answer.model_copy())))
        )
    return seen


def _at_most(config: RunnableConfig | None, count: int) -> int:
    limit = (config or {}).get("max_concurrency")
    return max(1, min(_MOST_AT_ONCE if limit is None else limit, count))


# -- whether a call may run -----------------------------------------------------------------------


def _decision_steps(
    tools: Mapping[str, BaseTool], call: ToolCall, handler: ToolHandler | None
) -> Steps[ToolCall | ToolMessage]:
    """Return the call to run, or the answer to one that does not run."""
    if call["name"] not in tools:
        return refused(call, _unknown(call["name"], tools))
    if handler is None:
        return call
    verdict = yield _asked(handler, copy.deepcopy(call))
    if verdict is True:
        return call
    if verdict is False:
        return refused(call, "the call was denied")
    if isinstance(verdict, str):
        return refused(call, f"the call was denied: {verdict}")
    return _changed(call, verdict, tools)


def _changed(call: ToolCall, verdict: Any, tools: Mapping[str, BaseTool]) -> ToolCall | ToolMessage:
    if not isinstance(verdict, Mapping) or not isinstance(verdict.get("args"), Mapping):
        raise ConfigError(
            f"the tool handler returned {verdict!r:.80} for {call['name']!r}; return True, False, "
            "a reason against the call, or the call to run instead"
        )
    name = verdict.get("name", call["name"])
    if name not in tools:
        return refused(call, _unknown(name, tools))
    return ToolCall(type="tool_call", name=name, args=dict(verdict["args"]), id=call["id"])


def _unknown(name: str, tools: Mapping[str, BaseTool]) -> str:
    return f"there is no tool {name!r} to run; there are: {', '.join(tools) or 'none'}"


def _asked(function: Callable[..., Any], *args: Any) -> Step:
    """Return the step that calls a function of the caller's, plain or async."""
    return Step(partial(_ask, function, *args), partial(_aask, function, *args))


def _ask(function: Callable[..., Any], *args: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return in_own_loop(lambda: function(*args))
    found = function(*args)
    return in_own_loop(lambda: found) if inspect.isawaitable(found) else found


async def _aask(function: Callable[..., Any], *args: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    found = await in_thread(lambda: function(*args))
    return await found if inspect.isawaitable(found) else found


# -- running --------------------------------------------------------------------------------------

_Allowed: TypeAlias = Sequence[tuple[BaseTool, ToolCall]]


def _run(
    allowed: _Allowed,
    config: RunnableConfig | None,
    *,
    at_most: int,
    cancelled: Future[Any] | None,
) -> list[ToolMessage]:
    jobs = [partial(_invoke, tool, call, config) for tool, call in allowed]
    # One after the other in the caller's own thread, unless somebody may want to stop waiting.
    if at_most == 1 and cancelled is None:
        return [job() for job in jobs]
    return in_threads(jobs, at_most=at_most, cancelled=cancelled)


async def _arun(
    allowed: _Allowed, config: RunnableConfig | None, *, at_most: int
) -> list[ToolMessage]:
    room = asyncio.Semaphore(at_most)

    async def answer(tool: BaseTool, call: ToolCall) -> ToolMessage:
        async with room:
            return await _ainvoke(tool, call, config)

    tasks = [asyncio.ensure_future(answer(tool, call)) for tool, call in allowed]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _invoke(tool: BaseTool, call: ToolCall, config: RunnableConfig | None) -> ToolMessage:
    request = _request(call)
    try:
        if _has_coroutine(tool) and not _has_function(tool):
            return answered(call, in_own_loop(lambda: tool.ainvoke(request, config)))
        return answered(call, tool.invoke(request, config))
    except Exception as error:  # noqa: BLE001
        return _told(call, error)


async def _ainvoke(tool: BaseTool, call: ToolCall, config: RunnableConfig | None) -> ToolMessage:
    request = _request(call)
    try:
        if _has_coroutine(tool):
            return answered(call, await tool.ainvoke(request, config))
        return answered(call, await in_thread(lambda: tool.invoke(request, config)))
    except Exception as error:  # noqa: BLE001
        return _told(call, error)


def _request(call: ToolCall) -> ToolCall:
    """Return the call as LangChain's tools take it: with an id they answer with a message.

    A copy, since the call stands in the history.
    """
    args = copy.deepcopy(call["args"])
    return ToolCall(type="tool_call", name=call["name"], args=args, id=call["id"] or "")


def _told(call: ToolCall, error: Exception) -> ToolMessage:
    if _is_pause(error):
        raise error
    _logger.debug("tool %r raised an error; the model is told", call["name"], exc_info=error)
    return failed(call, error)


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
