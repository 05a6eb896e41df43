"""Tools as given, in the forms that models and templates want them in."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, is_typeddict

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from langchain_convmem.conversation.tools.answering import (
    ResultHook,
    ToolHandler,
    answers_steps,
)
from langchain_convmem.errors import ConfigError
from langchain_convmem.steps import Steps

__all__ = ["ToolLike", "ToolSet"]

ToolLike: TypeAlias = BaseTool | Callable[..., Any] | type[BaseModel] | Mapping[str, Any]
"""A tool or function, which can be run; a class of pydantic or a typed dict, or a map, which only
describe one."""


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
            ConfigError: If one is no tool, or two have one name.
        """
        if not isinstance(tools, Iterable) or isinstance(tools, Mapping | str):
            raise ConfigError(f"the tools are {tools!r:.80}; pass a list of tools")
        self._tools = tuple(_tool(tool) for tool in tools)
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"more than one tool is called {twice[0]!r}; rename all but one")
        self._runnable = {tool.name: tool.runnable for tool in self._tools if tool.runnable}

    @classmethod
    def of(cls, tools: ToolSet | Sequence[ToolLike] | None) -> ToolSet:
        """Return tools as a set: a set as it is, None as an empty one.

        Raises:
            ConfigError: If one is no tool, or two have one name.
        """
        return tools if isinstance(tools, ToolSet) else cls(() if tools is None else tools)

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

    def answers_steps(
        self,
        calls: Sequence[ToolCall],
        *,
        config: RunnableConfig | None = None,
        handler: ToolHandler | None = None,
        on_result: ResultHook | None = None,
        parallel: bool = True,
        cancelled: Future[Any] | None = None,
    ) -> Steps[list[ToolMessage]]:
        """Run calls and return one answer for each, in their order.

        First the handler is asked about every call that can be run, then the allowed ones run,
        then the hook sees every answer: each of these in the order of the calls.

        Args:
            calls: What the model called.
            config: Passed to the tools; `max_concurrency` bounds how many run at once.
            handler: Whether a call may run: True, False, a reason against it, or another call to
                run instead. A plain or async function; what it raises ends the turn.
            on_result: Gets each call and its answer, and returns what to tell the model instead,
                or None. A plain or async function; what it raises ends the turn.
            parallel: Whether calls run at once.
            cancelled: Concerns synchronous turns: once it has a result, `TurnCancelledError` is
                raised without waiting for tools that run, whose results are dropped. If it has
                an exception, that is raised.

        Returns:
            Results. A tool that is unknown, denied or raises is answered with "Error: ..." and
            `status="error"`. KeyboardInterrupt and cancellation are raised.
        """
        return answers_steps(
            self._runnable,
            calls,
            config=config,
            handler=handler,
            on_result=on_result,
            parallel=parallel,
            cancelled=cancelled,
        )


# -- what may be a tool ---------------------------------------------------------------------------


def _tool(given: Any) -> _Tool:
    if isinstance(given, Mapping):
        return _described(dict(given))
    if is_typeddict(given) or (isinstance(given, type) and issubclass(given, BaseModel)):
        schema = convert_to_openai_tool(given)
        return _Tool(schema["function"]["name"], given, schema)
    if not isinstance(given, BaseTool):
        given = _of_function(given)
    return _Tool(given.name, given, convert_to_openai_tool(given), given)


def _of_function(given: Any) -> BaseTool:
    name = getattr(given, "__name__", None)
    if isinstance(given, type) or not callable(given) or not name:
        raise ConfigError(
            f"{given!r:.80} is no tool; pass a function with a name, a BaseTool, a pydantic class "
            "or a map"
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


def _described(given: dict[str, Any]) -> _Tool:
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
        raise ConfigError(f"{given!r:.80} describes no tool; it needs a 'name'")
    return _Tool(own, given, schema)
