"""Plain values to DynamoDB attribute values, for maps that an application writes itself.

What the service would refuse becomes NULL and is reported; nothing raises, so that one odd value
never costs the rest of a map. The log itself stores its entries as text and needs none of this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, TypeAlias

AttributeValue: TypeAlias = dict[str, Any]
"""One value under the name of its type, such as `{"S": "text"}`."""

Report: TypeAlias = Callable[[str], None]

_LOGGER = logging.getLogger(__name__)
_MAX_DEPTH = 32
_MAX_DIGITS = 38
_MAX_EXPONENT = 125
_MIN_EXPONENT = -130


def to_dynamodb(
    maps: Iterable[Mapping[str, Any]], *, report: Report | None = None
) -> list[dict[str, AttributeValue]]:
    """Return maps of plain values as maps of DynamoDB attribute values, in order.

    None becomes NULL, text S, booleans BOOL, numbers N with their own text (`1.10` stays so),
    bytes B, lists and tuples L, maps M, and sets of one kind SS, NS or BS.

    Whatever has no counterpart becomes NULL as a whole, and its neighbours stay: a value of
    another type, an empty or mixed set, a map with a key that is no text, NaN, an infinity, a
    number of more than 38 digits, text with lone surrogates, or what lies deeper than 32 levels. At
    the top, where there is no NULL for a whole map, just the entry with such a key is left out.

    Args:
        maps: For instance what `ConversationHistory.to_maps` returns.
        report: Called with a sentence for each value that became NULL, naming its place; by default
            it is logged as an error.
    """
    tell = report if report is not None else _LOGGER.error
    return [_convert_map(fields, f"[{place}]", 0, tell) for place, fields in enumerate(maps)]


def _convert_map(
    fields: Mapping[Any, Any], path: str, depth: int, tell: Report
) -> dict[str, AttributeValue]:
    converted = {}
    for key, value in fields.items():
        if isinstance(key, str) and _is_unicode(key):
            converted[str.__str__(key)] = _convert(value, f"{path}.{key}", depth, tell)
        else:
            tell(f"{path} has the key {key!r}, which is no text; that entry is left out")
    return converted


def _report_null(path: str, why: str, tell: Report) -> AttributeValue:
    tell(f"{path} {why}; it becomes NULL")
    return {"NULL": True}


def _convert(value: Any, path: str, depth: int, tell: Report) -> AttributeValue:
    if depth > _MAX_DEPTH:
        return _report_null(path, f"lies deeper than {_MAX_DEPTH} levels", tell)
    if isinstance(value, list | tuple):
        return {"L": [_convert(v, f"{path}[{n}]", depth + 1, tell) for n, v in enumerate(value)]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and _is_unicode(key) for key in value):
            return {"M": _convert_map(value, path, depth + 1, tell)}
        return _report_null(path, "is a map with a key that is no text", tell)
    found = _convert_set(value) if isinstance(value, AbstractSet) else _convert_scalar(value)
    return found or _report_null(
        path, f"holds {_describe(value)}, which DynamoDB cannot keep", tell
    )


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return "text with lone surrogates"
    if isinstance(value, int):
        return "a number that is too long"
    if isinstance(value, float | Decimal):
        return f"the number {value!s:.20}"
    if isinstance(value, AbstractSet):
        return "a set of several kinds" if value else "an empty set"
    return f"a {type(value).__name__}"


def _convert_scalar(value: Any) -> AttributeValue | None:
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):  # before int, which it is too
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": str.__str__(value)} if _is_unicode(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return {"B": bytes(value)}
    digits = _write_number(value)
    return None if digits is None else {"N": digits}


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _write_number(value: Any) -> str | None:
    """Return a number's text if the service can keep it exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int) and abs(value) >= 10 ** (_MAX_EXPONENT + 1):
        return None  # before it is made text, which may take long or be forbidden
    # A subclass may print itself otherwise, as enums and the floats of NumPy do.
    text = (
        int.__repr__(value)
        if isinstance(value, int)
        else float.__repr__(value)
        if isinstance(value, float)
        else Decimal.__str__(value)
    )
    exact = Decimal(text)
    return text if exact.is_finite() and _is_within_limits(exact) else None


def _is_within_limits(exact: Decimal) -> bool:
    if not exact:
        return True
    digits = "".join(map(str, exact.as_tuple().digits)).strip("0")
    return len(digits) <= _MAX_DIGITS and _MIN_EXPONENT <= exact.adjusted() <= _MAX_EXPONENT


def _convert_set(members: AbstractSet[Any]) -> AttributeValue | None:
    """Return a set of one kind, its members sorted so that equal sets look equal."""
    values = [_convert_scalar(member) for member in members]
    kinds = {next(iter(value)) for value in values if value is not None}
    if None in values or len(kinds) != 1:
        return None
    [kind] = kinds
    kept = [value[kind] for value in values if value is not None]
    if kind == "N":
        # 0.1 and Decimal("0.1") differ here, but are one number there.
        kept = list({Decimal(digits): digits for digits in kept}.values())
    return {f"{kind}S": sorted(kept)} if kind in ("S", "N", "B") else None
