"""What an application passes to be asked: a chat model, another Runnable, or a function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langchain_convmem.background import ask
from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import SummaryError

INTERNAL_TAG = "langchain_convmem:internal"
"""Tag of every run that the memory itself starts."""
INTERNAL_TAGS = (INTERNAL_TAG, "nostream")
"""By `nostream` LangGraph leaves a model out of what `stream_mode="messages"` shows."""

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


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """What somebody who was asked answered, or why they did not.

    Attributes:
        value: The answer; None where there is none.
        reason: What may be said of the error instead; empty if there was none.
        cause: The error, if it quotes nothing of what was given.
    """

    value: Any = field(default=None, repr=False)
    reason: str = ""
    cause: Exception | None = None


def make_config(run_name: str) -> RunnableConfig:
    """Return what marks a call behind a turn, so that neither streams nor traces take it for one.

    Args:
        run_name: What traces call it.
    """
    tags, metadata = list(INTERNAL_TAGS), {"lc_source": "convmem"}
    return {"run_name": run_name, "tags": tags, "metadata": metadata}


def ask_runnable(
    runnable: Runnable[Any, Any], messages: list[BaseMessage], run_name: str, texts: Iterable[str]
) -> AskedAnswer:
    """Return what a Runnable answers to messages; see `ask_safely` and `make_config`."""
    config = make_config(run_name)
    return ask_safely(
        partial(runnable.invoke, messages, config),
        partial(runnable.ainvoke, messages, config),
        texts,
    )


def ask_safely(
    call: Callable[[], Any], acall: Callable[[], Awaitable[Any]], texts: Iterable[str]
) -> AskedAnswer:
    """Return the answer of code that is not ours; what it raises becomes a reason.

    Args:
        call: The call.
        acall: Its asynchronous twin; see `background.ask`.
        texts: What it was given, which no error may quote.

    Raises:
        SummaryError: If it raises one.
    """
    with ErrorTrap(Exception, texts=texts, passes=SummaryError) as trap:
        return AskedAnswer(ask(call, acall))
    return AskedAnswer(None, trap.reason, trap.cause)


def _run_in_own_loop(function: Callable[..., Coroutine[Any, Any, Any]], asked: Any) -> Any:
    """Call an async function from synchronous code."""
    answer = function(asked)
    try:
        return asyncio.run(answer)
    finally:
        answer.close()  # where a loop runs already, it was never begun
