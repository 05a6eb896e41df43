"""One procedure for two worlds: effects, and the synchronous and the async driver that run them.

What calls a log, an embedder or a model is written once, as a generator of `Effect`s. `run_sync`
makes each call directly, `run_async` awaits its twin, so the two never drift apart and nothing but
the call itself differs:

    def count_steps(log: MessageLog, key: ThreadKey) -> Steps[int]:
        entries = yield from perform(log.entries, log.aentries, key)
        return len(entries)

`sync` and `twin` make the two public methods of such a procedure:

    @sync
    def count(self) -> Steps[int]:
        return count_steps(self.log, self.key)

    acount = twin(count)
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Effect:
    """One call to the outside world, in both forms."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]


Steps: TypeAlias = Generator[Effect, Any, R]
"""A procedure that yields its calls, gets their results back, and returns an `R`."""


def make_effect(
    call: Callable[P, R],
    acall: Callable[P, Awaitable[R]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Effect:
    """Return one call as an effect, for whoever yields it; see `perform`."""
    return Effect(
        functools.partial(call, *args, **kwargs), functools.partial(acall, *args, **kwargs)
    )


def perform(
    call: Callable[P, R],
    acall: Callable[P, Awaitable[R]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Steps[R]:
    """Make one call, from steps, and return its result.

    Args:
        call: What a synchronous driver calls.
        acall: Its twin, which an asynchronous driver awaits.
        args: Passed to either.
        kwargs: Passed to either.
    """
    result: R = yield make_effect(call, acall, *args, **kwargs)
    return result


def run_sync(steps: Steps[R]) -> R:
    """Run a procedure with direct calls and return its result.

    An exception of a call is raised inside the procedure, at the step that caused it.
    """
    try:
        with mark_awaited():
            effect = next(steps)
            while True:
                result, failure = None, None
                give_way()
                try:
                    result = effect.call()
                except BaseException as error:  # noqa: BLE001 - handed to the procedure
                    failure = error
                effect = resume(steps, result, failure)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        failure = None  # its traceback holds this frame


async def run_async(steps: Steps[R]) -> R:
    """Run a procedure by awaiting the twins of its calls, and return its result."""
    try:
        with mark_awaited():
            effect = next(steps)
            while True:
                result, failure = None, None
                try:
                    result = await effect.acall()
                except BaseException as error:  # noqa: BLE001 - handed to the procedure
                    failure = error
                effect = resume(steps, result, failure)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        failure = None  # its traceback holds this frame


def resume(steps: Generator[Any, Any, Any], result: Any, failure: BaseException | None) -> Any:
    """Hand a procedure what came of its call, and return what it yields next.

    Outside of any handler: an error that the procedure raises instead would carry this one along.
    """
    try:
        return steps.send(result) if failure is None else steps.throw(failure)
    finally:
        del failure  # its traceback holds this frame


def sync(procedure: Callable[P, Steps[R]]) -> Callable[P, R]:
    """Make a method that runs its steps with direct calls; see `twin` for the other."""

    @functools.wraps(procedure)
    def run_directly(*args: P.args, **kwargs: P.kwargs) -> R:
        return run_sync(procedure(*args, **kwargs))

    _sign(run_directly, procedure)
    return run_directly


def twin(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Make the asynchronous twin of a method that `sync` made: same arguments, result and errors.

    Nothing in it blocks the event loop: each call's own twin is awaited.
    """
    procedure: Callable[P, Steps[R]] = method.__wrapped__  # type: ignore[attr-defined]

    @functools.wraps(method)
    async def run_awaiting(*args: P.args, **kwargs: P.kwargs) -> R:
        return await run_async(procedure(*args, **kwargs))

    _sign(run_awaiting, procedure)
    name_twin(run_awaiting, method, owner=method.__qualname__.rpartition(".")[0])
    return run_awaiting


def name_twin(twin: Callable[..., Any], method: Callable[..., Any], *, owner: str) -> None:
    """Name and document the asynchronous twin of a method after it.

    Args:
        twin: The twin.
        method: The method.
        owner: Name of the class that has the twin; empty for a function.
    """
    name = method.__name__
    twin.__name__ = f"a{name}"
    twin.__qualname__ = f"{owner}.a{name}".lstrip(".")
    twin.__doc__ = f"Async `{name}`; blocks no event loop.\n\n{method.__doc__}"


def _sign(function: Any, procedure: Callable[..., Any]) -> None:
    """Let `help` and editors show a method as it is called: with what its steps return."""
    signature = inspect.signature(procedure)
    returned = str(signature.return_annotation)
    result = returned[len("Steps[") : -1] if returned.startswith("Steps[") else returned
    function.__signature__ = signature.replace(return_annotation=result)
    function.__annotations__ = {**procedure.__annotations__, "return": result}


# -- work in the background gives way to those who wait for an answer ---------------------------

_HELD_S = 0.001
_PAUSE_S = 0.0005
_PATIENCE_S = 0.01
_background = threading.local()
# One for each call that somebody waits for. Not a number: to append and to pop need no lock, which
# a fork could leave held.
_awaited: deque[None] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_awaited.clear)


@contextmanager
def mark_background() -> Iterator[None]:
    """Run the block as work that nobody waits for; see `give_way`."""
    before: float | None = getattr(_background, "since", None)
    _background.since = time.perf_counter()
    try:
        yield
    finally:
        _background.since = before


@contextmanager
def mark_awaited() -> Iterator[None]:
    """Run the block as work that somebody waits for, unless this thread works in the background."""
    if getattr(_background, "since", None) is not None:
        yield
        return
    _awaited.append(None)
    try:
        yield
    finally:
        with suppress(IndexError):  # begun before a fork
            _awaited.pop()


def give_way() -> None:
    """Let others run if this thread works in the background, and has run for a millisecond.

    Python's interpreter runs one thread at a time. Whoever waits for it gets it after five
    milliseconds, and a turn waits anew after each of its many calls of a database: beside a thread
    that computes, it takes several times as long. So say this where work takes long, in loops.
    While somebody waits for an answer, a tenth of the time is left to work in the background.
    """
    since: float | None = getattr(_background, "since", None)
    if since is None or time.perf_counter() - since <= _HELD_S:
        return
    end = time.perf_counter() + _PATIENCE_S
    time.sleep(_PAUSE_S)
    while _awaited and time.perf_counter() < end:
        time.sleep(_PAUSE_S)
    _background.since = time.perf_counter()
