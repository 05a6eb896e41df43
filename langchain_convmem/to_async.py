"""`to_async`: the asynchronous form of a method whose work is synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
S = TypeVar("S", bound="HasExecutor")
T = TypeVar("T")


class HasExecutor(Protocol):
    """What runs the asynchronous forms of its methods."""

    def get_executor(self) -> Executor | None:
        """Return the threads; None for those of the event loop."""
        ...


def to_async(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the asynchronous form of a method: it calls that method off the event loop.

    In the body of a class, `aowners = to_async(owners)`. Who overrides `owners` overrides both.
    """
    name = method.__name__

    @wraps(method, updated=())  # not that it is abstract
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        run: Callable[[], T] = partial(getattr(self, name), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self.get_executor(), run)

    call.__name__ = f"a{name}"
    call.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.a{name}"
    call.__doc__ = f"Async `{name}`; blocks no event loop.\n\n{method.__doc__ or ''}"
    return call
