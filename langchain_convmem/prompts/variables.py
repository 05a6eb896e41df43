"""Variables of prompt files: the functions behind them, and where `{{ name }}` stands in a text.

A variable function takes no arguments, is known by name, and is called whenever its value is
needed. It is foreign code: whatever it raises is caught here, at one place, and recorded.
"""

from __future__ import annotations

import inspect
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from langchain_convmem.background import ask, can_await
from langchain_convmem.errors import ConfigError

VariableFunction: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]
"""Returns the text that takes the place of a variable; called anew for every render."""

Failed: TypeAlias = Callable[[str, Exception], None]
"""Is told the name of a variable function, and what it raised."""

F = TypeVar("F", bound=VariableFunction)
_LOG = logging.getLogger(__name__)
REGISTRY: dict[str, VariableFunction] = {}


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
        REGISTRY[known_as] = wanted
        return wanted

    return register if function is None else register(function)


def check_functions(functions: Mapping[str, VariableFunction]) -> None:
    """Refuse what cannot serve as variable functions.

    Raises:
        ConfigError: If they have no names, a name is not an identifier, or what it names cannot be
            called without arguments.
    """
    if not isinstance(functions, Mapping):
        raise ConfigError(f"functions must be a map of names to functions, got {functions!r:.80}")
    for name, function in functions.items():
        if not name.isidentifier():
            raise ConfigError(f"{name!r} is not a function name: use letters, digits and '_'")
        if not callable(function) or not _needs_nothing(function):
            raise ConfigError(
                f"the variable function {name!r} must be a function that can be called without "
                f"arguments, got {function!r}"
            )


def _is_asynchronous(function: VariableFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def combine_functions(
    functions: Mapping[str, VariableFunction], own: Mapping[str, VariableFunction] | None
) -> dict[str, VariableFunction]:
    """Return the functions with those of one call in front.

    Raises:
        ConfigError: See `check_functions`.
    """
    check_functions(own or {})
    return {**functions, **(own or {})}


def _needs_nothing(function: VariableFunction) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:
        # Some functions written in C tell nothing of their arguments.
        return True
    return True


def evaluate(
    names: Iterable[str],
    functions: Mapping[str, VariableFunction],
    *,
    strict: bool = False,
    failed: Failed | None = None,
) -> dict[str, str]:
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
    found = {name: functions.get(name, REGISTRY.get(name)) for name in names}
    for name, function in found.items():
        if function is not None and _is_asynchronous(function) and not can_await():
            raise ConfigError(
                f"the variable function {name!r} is asynchronous; use arender, aformat, or "
                "ainvoke and astream of the chain"
            )
    values: dict[str, str] = {}
    for name, function in found.items():
        try:
            values[name] = _call(name, function)
        except Exception as error:
            if strict and isinstance(error, StopIteration):  # which no future can carry
                raise RuntimeError(f"variable function {name!r} raised StopIteration") from error
            if strict:
                raise
            if failed is None:
                _LOG.exception("variable function %r failed; its value is an empty string", name)
            else:
                failed(name, error)
            values[name] = ""
    return values


def _call(name: str, function: VariableFunction | None) -> str:
    if function is None:
        raise LookupError(f"no variable function is registered as {name!r}")
    value: Any = function()
    value = ask(lambda: value, lambda: value) if _is_asynchronous(function) else value
    if not isinstance(value, str):
        kind = type(value).__name__
        raise TypeError(f"variable function {name!r} must return a string, got {kind}")
    return value


@variable_function(name="getDate")
def get_date() -> str:
    """Return the local date as dd/MM/yyyy."""
    return time.strftime("%d/%m/%Y")


@variable_function(name="getTime")
def get_time() -> str:
    """Return the local time of day as HH:mm:ss."""
    return time.strftime("%H:%M:%S")


@variable_function(name="getIsoDate")
def get_iso_date() -> str:
    """Return the local date as yyyy-MM-dd, which reads the same everywhere."""
    return time.strftime("%Y-%m-%d")


# -- `{{ name }}` in a text, and the cleaning of white space --------------------------------------

QUOTED = re.compile(r'\{\{[ \t]*"[^"\s](?:[^"\r\n]*[^"\s])?"[ \t]*\}\}')
"""Quoted text; it starts and ends with a visible character, so it cannot undo cleaning."""

_BLANK_RUN = re.compile(rf"({QUOTED.pattern})|[ \t]+")


class Placeholder(NamedTuple):
    """A placeholder of a text: its cleaned name, and where it stands (half-open, code points).

    Attributes:
        name: The name; of quoted text, with the quotes.
        start: First code point, an opening brace.
        end: One after the last closing brace.
        quoted: The text that stands between quotes; empty if it is a name.
    """

    name: str
    start: int
    end: int
    quoted: str = ""


class Occurrence(NamedTuple):
    """Where a run-time variable stands in a section's raw text.

    Attributes:
        function_name: The function whose value goes there.
        start: First code point, an opening brace.
        end: One after the last closing brace.
    """

    function_name: str
    start: int
    end: int


def clean_name(text: str) -> str:
    """Return `text` with runs of blanks and tabs as one blank, and none at its ends."""
    return _clean_runs(text.strip())


def clean_lines(lines: Iterable[str]) -> str:
    """Return the lines as a section's text: indentation kept, other white space tokens saved.

    Runs of blanks and tabs after the first visible character become one blank, white space at
    line ends goes, and so do blank lines at both ends; several blank lines become one.
    """
    cleaned: list[str] = []
    for line in lines:
        visible = line.lstrip()
        indent = line[: len(line) - len(visible)]
        text = indent + _clean_runs(visible.rstrip()) if visible else ""
        if text or (cleaned and cleaned[-1]):
            cleaned.append(text)
    return "\n".join(cleaned).removesuffix("\n")


def _clean_runs(text: str) -> str:
    has_runs = "  " in text or "\t" in text
    # What is quoted is left as it is.
    return _BLANK_RUN.sub(lambda found: found[1] or " ", text) if has_runs else text


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """Return the placeholders of `text`, in order, without overlap."""
    start = text.find("{{")
    line_end = -1
    while start >= 0:
        # Both searches end with the line, or many lines would be searched again and again.
        if line_end < start:
            line_end = text.find("\n", start)
            line_end = len(text) if line_end < 0 else line_end
        quoted = QUOTED.match(text, start, line_end)
        close = quoted.end() - 2 if quoted else text.find("}}", start + 2, line_end)
        if close < 0:
            start = text.find("{{", line_end)
            continue
        name = text[start + 2 : close].strip()
        yield Placeholder(_clean_runs(name), start, close + 2, name[1:-1] if quoted else "")
        start = text.find("{{", close + 2)


def unquote(text: str) -> str:
    """Return `text` with what stands in quoted placeholders; all else stays."""
    return Filler({}, {}).fill(text)[0] if "{{" in text else text


class Filler:
    """Fills constants and quoted text into sections, and finds where variables stand there."""

    def __init__(self, constants: Mapping[str, str], variables: Mapping[str, str]) -> None:
        """Create it for one file.

        Args:
            constants: Name -> value as it was written; variables in it count as the section's.
            variables: Name -> function name. A constant of the same name goes before it.
        """
        self._variables = {name: at for name, at in variables.items() if name not in constants}
        self._values: dict[str, tuple[str, list[Occurrence]]] = {}
        # Values are filled once, while no constant is known: constants never name each other.
        self._values = {name: self.fill(value) for name, value in constants.items()}

    def fill(self, text: str) -> tuple[str, list[Occurrence]]:
        """Return the text after filling, and where variables stand in it."""
        parts: list[str] = []
        occurrences: list[Occurrence] = []
        behind = length = 0
        for placeholder in find_placeholders(text):
            value, inner = self._look_up(placeholder, text)
            lead = text[behind : placeholder.start]
            length += len(lead)
            occurrences += [
                Occurrence(name, start + length, end + length) for name, start, end in inner
            ]
            parts += [lead, value]
            length += len(value)
            behind = placeholder.end
        return "".join([*parts, text[behind:]]), occurrences

    def _look_up(self, placeholder: Placeholder, text: str) -> tuple[str, list[Occurrence]]:
        """Return what takes the placeholder's place."""
        name, start, end, quoted = placeholder
        if quoted:
            return quoted, []
        if name in self._values:
            return self._values[name]
        function = self._variables.get(name)
        return text[start:end], [Occurrence(function, 0, end - start)] if function else []


def split_pieces(text: str, occurrences: Iterable[Occurrence]) -> list[str]:
    """Cut `text` at its variables: literal text at even places, function names at odd ones."""
    pieces: list[str] = []
    behind = 0
    for function_name, start, end in occurrences:
        pieces += [text[behind:start], function_name]
        behind = end
    return [*pieces, text[behind:]]


def fill_pieces(pieces: Sequence[str], values: Mapping[str, str]) -> str:
    """Put the values back where `split_pieces` cut."""
    return "".join(values[piece] if place % 2 else piece for place, piece in enumerate(pieces))
