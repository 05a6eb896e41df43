"""What an application passes to be asked: a chat model, another Runnable, or a function."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from itertools import chain
from typing import Any, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableLambda,
    RunnableSequence,
)
from langchain_core.tracers.context import register_configure_hook

from langchain_convmem.background import ask, can_await
from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import ConfigError, SummaryError

INTERNAL_TAGS = ("langchain_convmem:internal", "nostream")
"""Tags of runs of the memory's own; `nostream` hides them from LangGraph's `messages` streams."""

RunnableLike: TypeAlias = Runnable[Any, Any] | Callable[..., Any]
"""A Runnable, or a plain or async function, that gets messages and returns a message or text."""


def as_runnable(value: object) -> Runnable[Any, Any] | None:
    """Return what may be asked as a Runnable; None if it can be asked nothing."""
    if isinstance(value, Runnable):
        return value
    if isinstance(value, type) or not callable(value):
        return None
    return RunnableLambda(value)


# -- What is asynchronous alone -------------------------------------------------------------------

_OWN_LOOP: ContextVar[bool] = ContextVar("convmem_own_loop", default=False)


@contextmanager
def allow_own_loop() -> Iterator[None]:
    """Let coroutines run in event loops of their own: in a worker, nobody's loop waits for them."""
    token = _OWN_LOOP.set(True)
    try:
        yield
    finally:
        _OWN_LOOP.reset(token)


def check_askable(asked: object, what: str, way_out: str) -> None:
    """Refuse what is asynchronous alone in a synchronous call, which cannot await it.

    Args:
        asked: What would be asked.
        what: What it is.
        way_out: Which calls can ask it.

    Raises:
        ConfigError: If nothing here can await it.
    """
    if _is_async_only(asked) and not (can_await() or _OWN_LOOP.get()):
        msg = (
            f"{what} is a coroutine function, which a synchronous call cannot await; call "
            f"{way_out} instead, or pass a plain function"
        )
        raise ConfigError(msg)


def _is_async_only(asked: object) -> bool:
    if isinstance(asked, RunnableSequence):
        return any(map(_is_async_only, asked.steps))
    if isinstance(asked, RunnableBinding):
        return _is_async_only(asked.bound)
    if isinstance(asked, RunnableLambda):
        return not hasattr(asked, "func")
    return iscoroutinefunction(asked) or iscoroutinefunction(type(asked).__call__)


def invoke(
    runnable: Runnable[Any, Any], messages: list[BaseMessage], config: RunnableConfig
) -> Any:
    """Return what a Runnable answers to a synchronous call that `check_askable` let pass."""
    if _is_async_only(runnable):
        return asyncio.run(runnable.ainvoke(messages, config))
    return runnable.invoke(messages, config)


# -- Asking ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """What somebody who was asked answered, or why they did not.

    Attributes:
        value: The answer; None where there is none.
        reason: What may be said of the error instead; empty if there was none.
    """

    value: Any = field(default=None, repr=False)
    reason: str = ""


def make_config(run_name: str) -> RunnableConfig:
    """Return what marks a call behind a turn, so that neither streams nor traces take it for one.

    Args:
        run_name: What traces call it.
    """
    tags, metadata = list(INTERNAL_TAGS), {"lc_source": "convmem"}
    return {"run_name": run_name, "tags": tags, "metadata": metadata}


def ask_runnable(
    runnable: Runnable[Any, Any], messages: list[BaseMessage], run_name: str
) -> AskedAnswer:
    """Return what a Runnable answers to messages; see `ask_safely` and `make_config`."""
    config = make_config(run_name)
    return ask_safely(
        partial(invoke, runnable, messages, config), partial(runnable.ainvoke, messages, config)
    )


def ask_safely(call: Callable[[], Any], acall: Callable[[], Awaitable[Any]]) -> AskedAnswer:
    """Return the answer of code that is not ours; what it raises becomes a reason.

    Args:
        call: The call.
        acall: The same for an event loop; see `background.ask`.

    Raises:
        SummaryError: If it raises one.
    """
    with ErrorTrap(Exception, passes=SummaryError) as trap:
        return AskedAnswer(ask(call, acall))
    return AskedAnswer(None, trap.reason)


# -- What the memory's own calls take -------------------------------------------------------------

OWN_TOKENS = "own_tokens"
"""Key in an entry's `aux`: what the memory's own model calls for it took."""


class OwnTokens(BaseCallbackHandler):
    """Counts the tokens of the memory's own model calls. Thread-safe."""

    run_inline = True
    ignore_chat_model = True

    def __init__(self) -> None:
        """Start without a call."""
        self._calls: list[dict[str, int]] = []

    def on_llm_end(self, response: Any, **_: Any) -> None:
        """Add the usage of one call."""
        counts = Counter(calls=1, input_tokens=0, output_tokens=0)
        for generation in chain.from_iterable(response.generations):
            usage = getattr(getattr(generation, "message", None), "usage_metadata", None) or {}
            counts.update({name: usage.get(name) or 0 for name in counts if name != "calls"})
        self._calls.append(counts)

    def to_aux(self) -> dict[str, dict[str, int]]:
        """Return the counts for an entry's `aux`; empty if no model was called."""
        return {OWN_TOKENS: self.to_counts()} if self._calls else {}

    def to_counts(self) -> dict[str, int]:
        """Return the counts; empty if no model was called."""
        total: Counter[str] = Counter()
        for counts in self._calls.copy():
            total.update(counts)
        return dict(total)


_COUNTING: ContextVar[OwnTokens | None] = ContextVar("convmem_own_tokens", default=None)
register_configure_hook(_COUNTING, inheritable=True)


@contextmanager
def count_own_calls() -> Iterator[OwnTokens]:
    """Count the tokens of all models that are called within, also by Runnables around them."""
    counted = OwnTokens()
    token = _COUNTING.set(counted)
    try:
        yield counted
    finally:
        _COUNTING.reset(token)
