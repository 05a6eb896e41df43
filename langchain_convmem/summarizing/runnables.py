"""What an application passes to be asked: a chat model, another Runnable, or a function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from langchain_core.runnables import Runnable, RunnableLambda

RunnableLike: TypeAlias = Runnable[Any, Any] | Callable[..., Any]
"""A Runnable, or a plain or async function, that gets messages and returns a message or text."""


def as_runnable(value: object) -> Runnable[Any, Any] | None:
    """Return what may be asked as a Runnable; None if it can be asked nothing."""
    if isinstance(value, Runnable):
        return value
    if isinstance(value, type) or not callable(value):
        return None
    if inspect.iscoroutinefunction(value):
        return RunnableLambda(partial(_run_in_own_loop, value), afunc=value)
    return RunnableLambda(value)


def _run_in_own_loop(function: Callable[..., Coroutine[Any, Any, Any]], asked: Any) -> Any:
    """Call an async function from synchronous code."""
    answer = function(asked)
    try:
        return asyncio.run(answer)
    finally:
        answer.close()  # where a loop runs already, it was never begun
