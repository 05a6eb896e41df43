"""A call of a tool, as a model wrote it, and the JSON that most of them write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Call",
    "JsonEnd",
    "NamedJson",
    "Syntax",
    "as_json_text",
    "broken",
    "call_of",
    "json_calls",
    "json_end",
    "json_value",
    "stepped",
    "with_texts",
]

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args")
_IDS = ("id", "tool_call_id")
_MAX_DEPTH = 100
_DECODER = json.JSONDecoder(strict=False)
_BETWEEN = re.compile(r"[\s,;\[\]]*")
"""What stands around maps. A list is no more than that: one that is not closed has whole maps."""
_VALUE = re.compile(r'\{\s*["}]|\[\s*[\[{"]')
_UNFINISHED_TEXT = "Unterminated string"
_EMPTY_LIST = re.compile(r"\s*\[\s*\]\s*")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Call(NamedTuple):
    """A call.

    Attributes:
        name: The tool; None if the model did not say.
        arguments: A map as JSON; None if they cannot be read.
        text: What the model wrote.
        id: What the model calls it by, if anything.
        texts: Arguments as they were written, where their types had to be guessed from that.
    """

    name: str | None
    arguments: str | None
    text: str
    id: str | None = None
    texts: Mapping[str, str] = MappingProxyType({})


class JsonEnd(Enum):
    """How JSON ends: whole, or right so far and within a text, or otherwise."""

    RIGHT = 0
    IN_TEXT = 1
    WRONG = 2


Syntax: TypeAlias = Callable[[str], list[Call]]
"""Reads what stands in a fence; what cannot be read becomes a broken call."""


def broken(text: str, name: str | None = None) -> Call:
    """Return a call that cannot be read."""
    return Call(name, None, text)


def call_of(name: Any, arguments: Any, text: str, call_id: Any = None) -> Call:
    """Return a call, broken if the name is no name or the arguments are no map.

    Args:
        name: The name that the model gave.
        arguments: A map, the JSON of one, or None for no arguments.
        text: What the model wrote.
        call_id: What the model calls it by, if anything.
    """
    if not isinstance(name, str) or not name.strip():
        return broken(text)
    if isinstance(arguments, str):
        arguments = json_value(arguments) if arguments.strip() else {}
    written = _written({} if arguments is None else arguments)
    # A mere number is no id: the next reply begins to count anew.
    is_id = isinstance(call_id, str) and call_id != "" and not call_id.isdigit()
    return Call(_clean(name.strip()), written, text, _clean(call_id) if is_id else None)


def json_value(text: str) -> Any:
    """Return the value of JSON, also with line ends in its texts; a text itself if it is none."""
    try:
        return json.loads(text, strict=False)
    except (RecursionError, ValueError):
        return text


def json_end(text: str) -> JsonEnd:
    """Return how the JSON in a text ends; right if there is none."""
    place = _VALUE.search(text)
    while place is not None:
        try:
            _, end = _DECODER.raw_decode(text, place.start())
        except json.JSONDecodeError as error:
            is_open = error.msg.startswith(_UNFINISHED_TEXT)
            return JsonEnd.IN_TEXT if is_open else JsonEnd.WRONG
        except RecursionError:
            return JsonEnd.WRONG
        place = _VALUE.search(text, end)
    return JsonEnd.RIGHT


def json_calls(text: str) -> list[Call]:
    """Read maps with a name and arguments, one or several, in a list or not."""
    found: list[Call] = []
    place = stepped(_BETWEEN, text, 0)
    while place < len(text):
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (RecursionError, ValueError):
            return [*found, broken(text[place:])]
        found.append(_of_value(value, text[place:end]))
        place = stepped(_BETWEEN, text, end)
    return found if found or _EMPTY_LIST.fullmatch(text) else [broken(text)]


@dataclass(frozen=True)
class NamedJson:
    """The syntax of calls whose arguments are JSON, and whose name stands before.

    Attributes:
        before: A pattern of what stands before the arguments, with the groups `name` and, if
            models give ids, `id`. What it repeats it should take whole (`++`), or a long text that
            does not fit takes long to refuse.
        behind: A pattern of what may stand behind them.
    """

    before: str
    behind: str = ""

    def __call__(self, text: str) -> list[Call]:
        """Read one call or several."""
        heads, tails = self._patterns
        found: list[Call] = []
        place = 0
        while place < len(text):
            head = heads.match(text, place)
            if head is None:
                return [*found, broken(text[place:])]
            try:
                arguments, end = _DECODER.raw_decode(text, head.end())
            except (RecursionError, ValueError):
                return [*found, broken(text[place:], head["name"])]
            given = head.groupdict()
            found.append(call_of(given["name"], arguments, text[place:end], given.get("id")))
            place = stepped(tails, text, end)
        return found or [broken(text)]

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        behind = rf"\s*+(?:{self.behind})?+\s*+"
        return re.compile(rf"\s*+{self.before}\s*+"), re.compile(behind)


def stepped(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return the place behind what fits a pattern, if anything stands there that does."""
    found = pattern.match(text, place)
    return place if found is None else found.end()


def with_texts(call: Call, names: Collection[str]) -> Call:
    """Return a call whose arguments of these names are texts, whatever else they look like.

    An argument that was guessed to be nothing stays so.
    """
    texts = {name: text for name, text in call.texts.items() if name in names}
    if call.arguments is None or not texts:
        return call
    guessed = json.loads(call.arguments)
    told = {name: text for name, text in texts.items() if guessed[name] is not None}
    return call._replace(arguments=_written({**guessed, **told}))


def as_json_text(text: str) -> str:
    """Return a text in JSON."""
    return json.dumps(text, ensure_ascii=False)


def _of_value(value: Any, text: str) -> Call:
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        inner = {**value, **value["function"]}
        return _of_value({key: one for key, one in inner.items() if key != "function"}, text)
    if not isinstance(value, Mapping):
        return broken(text)
    name = _first(value, (*_NAMES, "function"))
    return call_of(name, _first(value, _ARGUMENTS), text, _first(value, _IDS))


def _first(value: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((value[key] for key in keys if key in value), None)


def _written(arguments: Any) -> str | None:
    """Return arguments as JSON that every reader of JSON takes; None if they are no map."""
    if not isinstance(arguments, dict) or not _is_shallow(arguments, _MAX_DEPTH):
        return None
    try:
        return _clean(json.dumps(arguments, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError):
        return None


def _is_shallow(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return True
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in value)


def _clean(text: str) -> str:
    """Replace halves of characters, which neither files nor wires can hold."""
    return _SURROGATES.sub("\ufffd", text)
