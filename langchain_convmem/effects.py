"""One procedure for two worlds: the steps of a job, run by a synchronous or an async driver.

A job that needs several calls to a log or an embedder is written once, as a generator that yields
`Step`s and gets their results back. `run` makes each call directly, `arun` awaits its twin. So the
two never drift apart, and nothing but the call itself differs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One call to the outside world, in both forms."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]


Steps: TypeAlias = Generator[Step, Any, T]


def step(target: object, name: str, *args: Any, **kwargs: Any) -> Step:
    """Return the step that calls `target.name(...)`, or awaits `target.aname(...)`."""
    return Step(
        lambda: getattr(target, name)(*args, **kwargs),
        lambda: getattr(target, "a" + name)(*args, **kwargs),
    )


def run(steps: Steps[T]) -> T:
    """Run the steps with direct calls and return the job's result.

    An exception of a call is raised inside the job at the step that caused it.
    """
    try:
        pending = next(steps)
        while True:
            try:
                result = pending.call()
            except BaseException as error:  # noqa: BLE001 - handed to the job, which decides
                pending = steps.throw(error)
            else:
                pending = steps.send(result)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def arun(steps: Steps[T]) -> T:
    """Run the steps by awaiting their twins and return the job's result."""
    try:
        pending = next(steps)
        while True:
            try:
                result = await pending.acall()
            except BaseException as error:  # noqa: BLE001 - handed to the job, which decides
                pending = steps.throw(error)
            else:
                pending = steps.send(result)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
