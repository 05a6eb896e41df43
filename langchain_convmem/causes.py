"""What may be said of an error or a value that came from elsewhere: nothing that somebody said.

Exceptions of parsers, drivers and providers quote what they were given. Their words, and they
themselves as causes, would carry the text of messages into errors, tracebacks and logs. So they are
named by type.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from pydantic_core import ValidationError

from langchain_convmem.errors import ConvMemError

_SHOWN_CHARS = 32
_SHOWN_PLACES = 3
_CODES = ("status_code", "errno", "sqlstate", "sqlite_errorname", "code")
_CODE = re.compile(r"-?[A-Z0-9_]{1,32}")
_WORD = re.compile(r"[\w.:+-]+")


class UnreadableError(ValueError):
    """Something stored, or what foreign code answered, cannot be read, said in words of ours."""


class ErrorTrap(AbstractContextManager["ErrorTrap", bool]):
    """Catches errors, so that what is raised after the block does not carry them along.

    An exception that is raised while another is handled keeps it as its context, whatever it is
    raised `from`; after the block nothing is handled any more:

        with ErrorTrap(ValueError) as trap:
            return parse(text)
        raise LogError(f"... cannot be read: {trap.reason}") from None

    Attributes:
        reason: What may be said of the error that was caught; see `describe_error`.
    """

    def __init__(self, *kinds: type[Exception], passes: type[Exception] | tuple[()] = ()) -> None:
        """Catch errors of these kinds.

        Args:
            kinds: Others pass.
            passes: This passes, too.
        """
        self._kinds = kinds
        self._passes = passes
        self.reason = ""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Keep what may be said of the error, and go on after the block."""
        if not isinstance(error, self._kinds) or isinstance(error, self._passes):
            return False
        self.reason = describe_error(error)
        return True


def describe_error(error: BaseException) -> str:
    """Return what may be said of an error: of one of ours its words, else what holds no text.

    That is its type, in brackets the types of at most two that it was raised from, and its codes.
    """
    if isinstance(error, ConvMemError | UnreadableError):
        return str(error)
    chain = (error, error.__cause__, getattr(error.__cause__, "__cause__", None))
    name, *led = dict.fromkeys(type(one).__name__ for one in chain if one is not None)
    return ", ".join([f"{name} ({', '.join(led)})" if led else name, *_list_facts(error)])


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
    else:
        codes = ((name, getattr(error, name, None)) for name in _CODES)
        yield from (f"{name} {value}" for name, value in codes if _CODE.fullmatch(str(value)))


def report_problem(log: logging.Logger, what: str, error: BaseException) -> str:
    """Log what did not come about and why, without a traceback, and return it."""
    problem = f"{what}: {describe_error(error)}"
    log.warning("%s", problem)
    return problem


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


_NEAR = 0.66
"""How much of two names is the same where one is taken for a slip of the other."""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return '; did you mean ...?' for the known name that is nearest; nothing if none is near."""
    from difflib import get_close_matches

    by_fold = {one.casefold(): one for one in sorted(known)}
    near = get_close_matches(name.casefold(), by_fold, n=1, cutoff=_NEAR)
    return f"; did you mean '{by_fold[near[0]]}'?" if near else ""
