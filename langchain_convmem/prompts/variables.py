"""Run-time variables: functions without arguments, known by name, called whenever they are needed.

A variable function is foreign code: whatever it raises is caught here, at one place, and recorded.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast, overload

from langchain_convmem.errors import ConfigError
from langchain_convmem.steps import Step, Steps

__all__ = [
    "Failed",
    "VariableFunction",
    "check_functions",
    "evaluate_steps",
    "overridden",
    "registered_functions",
    "variable_function",
]

VariableFunction: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]
"""Returns the text that takes the place of a variable; called anew for every render."""

Failed: TypeAlias = Callable[[str, Exception], None]
"""Is told the name of a variable function, and what it raised."""

F = TypeVar("F", bound=VariableFunction)

_LOG = logging.getLogger(__name__)
_REGISTRY: dict[str, VariableFunction] = {}


@overload
def variable_function(function: F, /) -> F: ...


@overload
def variable_function(*, name: str) -> Callable[[F], F]: ...


def variable_function(function: F | None = None, /, *, name: str = "") -> F | Callable[[F], F]:
    """Register a function for the Var sections of every prompt file parsed from now on.

    Works as a plain decorator and as `@variable_function(name="getMood")`. A name that is taken
    gets the new function, for files parsed earlier too. Safe to call from several threads.

    Args:
        function: Takes no argument and returns a string. An asynchronous one serves in
            asynchronous calls only.
        name: The name in prompt files; the function's own if empty.

    Returns:
        The function itself, or the decorator.

    Raises:
        ConfigError: If the name is none, or the function needs an argument.
    """

    def register(wanted: F) -> F:
        known_as = name or getattr(wanted, "__name__", "")
        check_functions({known_as: wanted})
        _REGISTRY[known_as] = wanted
        return wanted

    return register if function is None else register(function)


def registered_functions() -> dict[str, VariableFunction]:
    """Return a copy of the registry: the functions by their names in prompt files."""
    return dict(_REGISTRY)


def check_functions(functions: Mapping[str, VariableFunction]) -> None:
    """Refuse what cannot serve as variable functions.

    Raises:
        ConfigError: If a name is no identifier, or its function needs an argument or is none.
    """
    for name, function in functions.items():
        if not name.isidentifier():
            msg = f"{name!r} is no name for a variable function: use letters, digits and '_'"
            raise ConfigError(msg)
        if not callable(function) or not _takes_nothing(function):
            msg = (
                f"the variable function {name!r} must be a function that can be called without "
                f"arguments, got {function!r}"
            )
            raise ConfigError(msg)


def _is_asynchronous(function: VariableFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def overridden(
    functions: Mapping[str, VariableFunction], own: Mapping[str, VariableFunction] | None
) -> Mapping[str, VariableFunction]:
    """Return the functions with those of one call in front.

    Raises:
        ConfigError: See `check_functions`.
    """
    if own is None:
        return functions
    check_functions(own)
    return {**functions, **own}


def _takes_nothing(function: VariableFunction) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:
        # Some functions written in C tell nothing of their arguments.
        return True
    return True


def evaluate_steps(
    names: Iterable[str],
    functions: Mapping[str, VariableFunction],
    *,
    strict: bool = False,
    failed: Failed | None = None,
) -> Steps[dict[str, str]]:
    """Return the values of variable functions now; each is called once, one after the other.

    In an asynchronous run, synchronous functions run in a worker thread: they may block.

    Args:
        names: Their names in prompt files.
        functions: Functions that go before registered ones, by name.
        strict: Let a function's exception through instead of recording it.
        failed: Told of each failure of a run that is not strict; None logs them.

    Returns:
        Name -> value; an empty string where the function is missing, fails or returns no string.

    Raises:
        ConfigError: In a synchronous run, before any call, if a function is asynchronous.
        Exception: In strict mode, whatever a function raises; LookupError if there is none and
            TypeError if it returns no string.
    """
    found = {name: functions.get(name, _REGISTRY.get(name)) for name in names}
    yield Step(partial(_refuse_asynchronous, found), _no_refusal)
    values: dict[str, str] = {}
    for name, function in found.items():
        try:
            values[name] = _text(name, (yield _call(name, function)))
        except Exception as error:
            if strict:
                raise
            if failed is None:
                _LOG.exception("variable function %r failed; its value is an empty string", name)
            else:
                failed(name, error)
            values[name] = ""
    return values


def _refuse_asynchronous(functions: Mapping[str, VariableFunction | None]) -> None:
    for name, function in functions.items():
        if function is not None and _is_asynchronous(function):
            msg = (
                f"the variable function {name!r} is asynchronous; use arender, aformat, or "
                "ainvoke and astream of the chain"
            )
            raise ConfigError(msg)


async def _no_refusal() -> None:
    """Asynchronous runs take functions of both kinds."""


def _call(name: str, function: VariableFunction | None) -> Step:
    if function is None:
        msg = f"no variable function is registered as {name!r}"
        raise LookupError(msg)
    if _is_asynchronous(function):
        return Step(function, cast("Callable[[], Awaitable[str]]", function))
    return Step(function, partial(asyncio.to_thread, _in_thread, function))


def _in_thread(function: VariableFunction) -> Any:
    try:
        return function()
    except StopIteration as stop:
        # A future cannot carry it: whoever awaits the thread would wait for ever.
        raise RuntimeError("a variable function raised StopIteration") from stop


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        msg = f"variable function {name!r} must return a string, got {type(value).__name__}"
        raise TypeError(msg)
    return value


@variable_function(name="getDate")
def get_date() -> str:
    """Return the local date as dd/MM/yyyy."""
    return time.strftime("%d/%m/%Y")


@variable_function(name="getTime")
def get_time() -> str:
    """Return the local time of day as HH:mm:ss."""
    return time.strftime("%H:%M:%S")
