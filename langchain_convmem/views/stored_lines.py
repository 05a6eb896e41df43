"""Dialog lines of what a log has stored, without making a message of it. Pure.

A cold index reads all that a user ever said, and needs nothing of a message but its text, its name
and its marks. What is stored of plain texts tells them at once; whatever is not certain to be one
is left to the codec, so that the same lines come out, and the same errors.
"""

from __future__ import annotations

import json
from typing import Any

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import ulid_ms
from langchain_convmem.records import DialogLine, Role, ThreadKey
from langchain_convmem.views.codec import CODEC_VERSION, decode_metadata, time_ms_of
from langchain_convmem.views.lines import DEFAULT_SPEAKERS, session_of, tags_of

__all__ = ["plain_lines"]

_BODY = frozenset({"v", "m"})
_TYPES = ("human", "ai")
_NONE = type(None)
_KINDS: dict[str, frozenset[type]] = {
    "content": frozenset({str}),
    "type": frozenset({str}),
    "name": frozenset({str, _NONE}),
    "id": frozenset({str, _NONE}),
    "additional_kwargs": frozenset({dict}),
    "response_metadata": frozenset({dict}),
    "usage_metadata": frozenset({dict, _NONE}),
}
"""What the fields of a message may hold that is certain to be one."""
_NO_KIND: frozenset[type] = frozenset()
_TOKENS = frozenset({"input_tokens", "output_tokens", "total_tokens"})
_DETAILS = frozenset({"input_token_details", "output_token_details"})
_decoded = json.JSONDecoder().raw_decode


def plain_lines(
    key: ThreadKey, entry_id: str, position: int, role: Role, body: str, *, metadata: str | None
) -> list[DialogLine] | None:
    """Return what `dialog_lines` does of a stored entry; None where that has to be asked.

    Args:
        key: The entry's thread.
        entry_id: Its ULID.
        position: Its position.
        role: Its role.
        body: What `encode_body` wrote.
        metadata: What `encode_metadata` wrote.
    """
    label = DEFAULT_SPEAKERS.get(role)
    # Tags for what JSON lacks begin with a dollar, and halves of characters are escaped.
    # One character is found far sooner than two.
    if label is None or ("$" in body and '"$' in body) or ("\\" in body and "\\u" in body):
        return None
    try:
        message = _plain_message(_from_json(body))
        if message is None:
            return None
        marks = message.get("additional_kwargs", {})
        stamp = marks.get("timestamp")
        time_ms = stamp if type(stamp) is int else time_ms_of(stamp)
        if time_ms is None or metadata is not None:
            created_ms = _created_ms(entry_id, metadata)
            time_ms = created_ms if time_ms is None else time_ms
    except (ValueError, InvalidMessageError):
        return None
    text = message.get("content", "")
    if not text.strip():
        return []
    line = DialogLine(
        line_id=message.get("id") or entry_id,
        key=key,
        position=position,
        part=0,
        speaker=message.get("name") or label,
        text=text,
        time_ms=time_ms,
        session=session_of(marks),
        role=role,
        entry_id=entry_id,
        tags=tags_of(marks),
    )
    return [line]


def _from_json(text: str) -> Any:
    """Return the value of JSON text without blanks around it; None for what is not quite that."""
    value, end = _decoded(text)
    return value if end == len(text) else None


def _created_ms(entry_id: str, metadata: str | None) -> int:
    return decode_metadata(metadata, created_ms=ulid_ms(entry_id)).timing["creation"]


def _plain_message(body: Any) -> dict[str, Any] | None:
    """Return the fields of a body's message if they are certain to make one, of one text."""
    if type(body) is not dict or body.keys() != _BODY or body["v"] != CODEC_VERSION:
        return None
    fields = body["m"]
    if type(fields) is not dict or fields.get("type") not in _TYPES:
        return None
    for name, value in fields.items():
        if type(value) not in _KINDS.get(name, _NO_KIND):
            return None
    is_plain = "tool_calls" not in fields.get("additional_kwargs", ())
    return fields if is_plain and _is_usage(fields.get("usage_metadata")) else None


def _is_usage(value: Any) -> bool:
    """Return whether this is certain to be what an AIMessage takes for its usage."""
    if value is None:
        return True
    if type(value) is not dict or not _TOKENS <= value.keys() <= _TOKENS | _DETAILS:
        return False
    details = [value[name] for name in _DETAILS & value.keys()]
    counts = [value[name] for name in _TOKENS]
    for one in details:
        if type(one) is not dict:
            return False
        counts += one.values()
    return all(type(count) is int for count in counts)
