"""Run-time variables: functions without arguments, known by name, called whenever they are needed.

A variable function is foreign code: whatever it raises is caught here, at one place, and recorded.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar, overload

from langchain_convmem.errors import ConfigError

__all__ = [
    "VariableFunction",
    "check_functions",
    "evaluate",
    "registered_functions",
    "variable_function",
]

VariableFunction: TypeAlias = Callable[[], str]
"""Returns the text that takes the place of a variable; called anew for every render."""

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
        function: Takes no argument and returns a string.
        name: The name in prompt files; the function's own if empty.

    Returns:
        The function itself, or the decorator.

    Raises:
        ConfigError: If the name is none, or the function needs an argument or is asynchronous.
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
        ConfigError: If a name is no identifier, or its function needs an argument, is
            asynchronous or no function.
    """
    for name, function in functions.items():
        if not name.isidentifier():
            msg = f"{name!r} is no name for a variable function: use letters, digits and '_'"
            raise ConfigError(msg)
        if not callable(function) or _is_asynchronous(function) or not _takes_nothing(function):
            msg = (
                f"the variable function {name!r} must be a synchronous function that can be "
                f"called without arguments, got {function!r}"
            )
            raise ConfigError(msg)


def _is_asynchronous(function: VariableFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def _takes_nothing(function: VariableFunction) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:
        # Some functions written in C tell nothing of their arguments.
        return True
    return True


def evaluate(name: str, function: VariableFunction | None = None, *, strict: bool = False) -> str:
    """Return the value of a variable function now.

    Args:
        name: Its name in prompt files.
        function: What to call; None calls the function registered under the name.
        strict: Let the function's exception through instead of recording it.

    Returns:
        The value; an empty string if the function is missing, fails or returns no string, which
        is logged as an error of this module's logger.

    Raises:
        Exception: In strict mode, whatever the function raises; LookupError if there is none and
            TypeError if it returns no string.
    """
    try:
        return _call(name, _REGISTRY.get(name) if function is None else function)
    except Exception:
        if strict:
            raise
        _LOG.exception("variable function %r failed; its value is an empty string", name)
        return ""


def _call(name: str, function: VariableFunction | None) -> str:
    if function is None:
        msg = f"no variable function is registered as {name!r}"
        raise LookupError(msg)
    value: object = function()
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
