"""Plain values to JSON text and back, exactly.

Values that JSON lacks are tagged (`$bytes`, `$datetime`, ...), and what cannot be kept is refused
while writing, never lost while reading.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from langchain_convmem.errors import InvalidMessageError

__all__ = ["MAX_DEPTH", "dumps", "loads"]

MAX_DEPTH = 100
"""Levels of lists and maps within each other."""

_PLAIN = frozenset({str, int, bool, type(None)})
"""What JSON has too, subclasses apart."""

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_SECOND_TIME = "~"
"""Behind an hour that the clock shows twice, when summer time ends."""
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _tag_float(value: float) -> Any:
    # A subclass may print itself otherwise: np.float64("nan") as "np.float64(nan)".
    return value if math.isfinite(value) else {"$float": float.__repr__(value)}


def _plain_text(value: str) -> str:
    return str.__str__(value)  # str() of a mixed-in enum names the member, not its value


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    float: _tag_float,
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    datetime: lambda value: {"$datetime": value.isoformat() + _SECOND_TIME * value.fold},
    date: lambda value: {"$date": value.isoformat()},
    Decimal: lambda value: {"$decimal": str(value)},
}
_COLLECTIONS: dict[type, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": base64.b64decode,
    "$datetime": lambda text: datetime.fromisoformat(text.rstrip(_SECOND_TIME)).replace(
        fold=text.count(_SECOND_TIME)
    ),
    "$date": date.fromisoformat,
    "$decimal": Decimal,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$points": lambda points: "".join(map(chr, points)),
    "$map": dict,
}


def _tag(value: Any, path: str, depth: int = 0) -> Any:
    """Return `value` in plain JSON; `path` names it in an error."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > MAX_DEPTH:
        msg = f"{path} is nested deeper than {MAX_DEPTH} levels; flatten it before storing"
        raise InvalidMessageError(msg)
    if kind is dict or isinstance(value, Mapping):
        return _tag_mapping(value, path, depth)
    if isinstance(value, list):
        return _tag_items(value, path, depth)
    tag = next((tag for base, tag in _COLLECTIONS.items() if isinstance(value, base)), None)
    if tag is not None:
        items = _tag_items(value, path, depth)
        # Equal sets must make equal text, whatever order they are walked in.
        return {tag: items if tag == "$tuple" else sorted(items, key=json.dumps)}
    for base, encode in _ENCODERS.items():
        if isinstance(value, base):
            return encode(value)
    if isinstance(value, str | int):  # subclasses such as enums keep their plain value
        return _plain_text(value) if isinstance(value, str) else int(value)
    msg = (
        f"{path} holds a {kind.__module__}.{kind.__qualname__}, which cannot be stored; "
        "convert it to text, numbers, lists or dicts first"
    )
    raise InvalidMessageError(msg)


def _tag_items(items: Iterable[Any], path: str, depth: int) -> list[Any]:
    return [
        item if type(item) in _PLAIN else _tag(item, f"{path}[{n}]", depth + 1)
        for n, item in enumerate(items)
    ]


def _tag_mapping(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            msg = f"{path} has the key {key!r}; only text keys can be stored"
            raise InvalidMessageError(msg)
        name = key if type(key) is str else _plain_text(key)
        plain[name] = item if type(item) in _PLAIN else _tag(item, f"{path}.{name}", depth + 1)
    # A caller's own mapping may look like one of our tags; as pairs it cannot. Pairs also keep
    # keys that a JSON reader would change.
    looks_tagged = len(plain) == 1 and next(iter(plain)).startswith("$")
    if looks_tagged or any(_SURROGATE_PAIR.search(key) for key in plain if not key.isascii()):
        return {"$map": [[key, item] for key, item in plain.items()]}
    return plain


def _untagged(found: dict[str, Any]) -> Any:
    """Return what a map of the text stands for; the maps within it have been asked already."""
    if len(found) == 1:
        [(tag, inner)] = found.items()
        decode = _DECODERS.get(tag)
        if decode is not None:
            return decode(inner)
    return found


_from_json = json.JSONDecoder(object_hook=_untagged).decode


def dumps(value: Any, *, what: str = "value") -> str:
    """Return `value` as compact JSON text that `loads` restores exactly.

    Raises:
        InvalidMessageError: If a part of it cannot be kept; the message names the part.
    """
    plain = _tag(value, what)
    try:
        text = _to_json(plain)
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidMessageError(f"{what} cannot be stored: {error}") from error
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates survive as escapes only
        text = json.dumps(_apart(plain), separators=(",", ":"))
    return text


def _apart(plain: Any) -> Any:
    """Return tagged values with texts of two surrogates in a row as code points.

    A JSON reader would join the escapes of a high and a low one to a single character.
    """
    if isinstance(plain, str):
        return {"$points": list(map(ord, plain))} if _SURROGATE_PAIR.search(plain) else plain
    if isinstance(plain, list):
        return [_apart(item) for item in plain]
    if isinstance(plain, dict):
        return {key: _apart(item) for key, item in plain.items()}
    return plain


def loads(text: str) -> Any:
    """Return the value that `dumps` wrote."""
    return _from_json(text)
