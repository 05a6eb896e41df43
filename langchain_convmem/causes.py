"""What may be said of an error or a value that came from elsewhere: nothing that somebody said.

Exceptions of parsers, drivers and providers quote what they were given. Their words, and they
themselves as causes, would carry the text of messages into errors, tracebacks and logs.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

from pydantic_core import ValidationError

from langchain_convmem.errors import ConvMemError

_SHARED_CHARS = 8
"""So many characters in a row that text and error share are a quotation."""
_READ_CHARS = 20_000
_SHOWN_CHARS = 32
_SHOWN_PLACES = 3
_CODES = ("status_code", "errno", "sqlstate", "sqlite_errorname", "code")
_WORD = re.compile(r"[\w.:+-]+")


class UnreadableError(ValueError):
    """Something stored cannot be read, said in words of ours."""


class ErrorTrap:
    """Catches errors, so that what is raised after the block does not carry them along.

    An exception that is raised while another is handled keeps it as its context, whatever it is
    raised `from`; after the block nothing is handled any more:

        with ErrorTrap(ValueError) as trap:
            return parse(text)
        raise LogError(f"... cannot be read: {trap.reason}") from trap.cause

    Attributes:
        reason: What may be said of the error that was caught; see `describe_error`.
        cause: The error, if `texts` were given and it quotes none of them; else None.
    """

    def __init__(
        self,
        *kinds: type[Exception],
        texts: Iterable[str] | None = None,
        passes: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> None:
        """Catch errors of these kinds.

        Args:
            kinds: Others pass.
            texts: What must not be quoted; None is whatever the error says. Read on an error only.
            passes: These pass too.
        """
        self._kinds = kinds
        self._passes = passes
        self._texts = texts
        self.reason = ""
        self.cause: Exception | None = None

    def __enter__(self) -> Self:
        """Begin the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        """Keep what may be said of the error, and go on after the block."""
        if not isinstance(error, self._kinds) or isinstance(error, self._passes):
            return False
        self.reason = describe_error(error, self._texts)
        if self._texts is not None and not has_quotation(error, self._texts):
            self.cause = error
        return True


def describe_error(error: BaseException, texts: Iterable[str] | None = None) -> str:
    """Return what may be said of an error, by its type and what is known to hold no text.

    Args:
        error: One of ours is described by its words.
        texts: If the error quotes none of them, its own words are added; None trusts no words.
    """
    if isinstance(error, ConvMemError | UnreadableError):
        return str(error)
    name = type(error).__name__
    if texts is not None and not has_quotation(error, texts):
        return f"{name}: {error}".removesuffix(": ")
    return ", ".join([name, *_list_facts(error)])


def _list_facts(error: BaseException) -> Iterator[str]:
    """Yield what an error says beside its words."""
    if isinstance(error, json.JSONDecodeError):
        yield f"line {error.lineno}, column {error.colno}"
    elif isinstance(error, UnicodeDecodeError | UnicodeEncodeError):
        yield error.reason
    elif isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        for one in found[:_SHOWN_PLACES]:
            place = ".".join(describe_name(part) for part in one["loc"])
            yield f"{place}: {one['type']}" if place else str(one["type"])
    elif isinstance(error, OSError) and error.strerror:
        yield error.strerror
    else:
        codes = ((name, getattr(error, name, None)) for name in _CODES)
        yield from (f"{name} {value}" for name, value in codes if _is_code(value))


def _is_code(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and value.isupper())


def report_problem(
    log: logging.Logger, what: str, error: BaseException, texts: Iterable[str] | None = None
) -> str:
    """Log an error of foreign code that stops nothing, and return what may be said of it.

    Args:
        log: Gets the traceback as well, unless the error quotes a text.
        what: What did not come about.
        error: Why.
        texts: What the code was given; None is whatever the error says.
    """
    given = None if texts is None else tuple(texts)
    problem = f"{what}: {describe_error(error, given)}"
    is_silent = given is None or has_quotation(error, given)
    log.warning("%s", problem, exc_info=None if is_silent else error)
    return problem


def has_quotation(error: BaseException, texts: Iterable[str]) -> bool:
    """Return whether an error, or what led to it, says a piece of a text.

    A piece is eight characters in a row, or a whole text that is shorter; blanks and case do not
    count.
    """
    words = _fold(" ".join(_list_words(error)))[:_READ_CHARS]
    pieces = {words[n : n + _SHARED_CHARS] for n in range(len(words) - _SHARED_CHARS + 1)}
    return any(
        _has_shared_piece(pieces, words, _fold(form))
        for text in texts
        for form in _list_forms(text)
    )


def _has_shared_piece(pieces: set[str], words: str, text: str) -> bool:
    if len(text) < _SHARED_CHARS:
        return bool(text) and re.search(rf"\b{re.escape(text)}\b", words) is not None
    return any(text[n : n + _SHARED_CHARS] in pieces for n in range(len(text) - _SHARED_CHARS + 1))


def _list_words(error: BaseException) -> Iterator[str]:
    """Yield what an error and its causes say, each once."""
    seen: set[int] = set()
    open_errors: list[BaseException | None] = [error]
    while open_errors:
        one = open_errors.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield from (str(one), repr(one), *getattr(one, "__notes__", ()))
        open_errors += (one.__cause__, one.__context__)
        if isinstance(one, BaseExceptionGroup):
            open_errors += one.exceptions


def _list_forms(text: str) -> tuple[str, ...]:
    """Return a text as errors print it: as it is, escaped, and as bytes."""
    if text.isascii():
        return (text,)
    raw = text.encode("utf-8", "replace")
    return text, ascii(text)[1:-1], repr(raw)[2:-1]


def _fold(text: str) -> str:
    return " ".join(text.replace("\\n", " ").casefold().split())


# -- values ---------------------------------------------------------------------------------------


def describe_value(value: Any) -> str:
    """Return what a refused value is: numbers and single short words as they are, no text."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)[:_SHOWN_CHARS]
    if isinstance(value, str):
        is_word = len(value) <= _SHOWN_CHARS and _WORD.fullmatch(value) is not None
        return repr(value) if is_word or not value.strip() else f"text of {len(value)} characters"
    if isinstance(value, list | tuple | dict | set | frozenset) and not value:
        return repr(value)
    return f"a {type(value).__name__}"


def describe_name(value: Any) -> str:
    """Return the name of a field as it is, and of anything else what it is."""
    is_name = isinstance(value, str) and value.isidentifier() and len(value) <= _SHOWN_CHARS
    return value if is_name else describe_value(value)
