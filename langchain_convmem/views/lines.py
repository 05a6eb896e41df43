"""Dialog lines: the strings of an entry that recall searches, and their times as text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import get_ulid_ms
from langchain_convmem.records import (
    DialogLine,
    Entry,
    Metadata,
    Role,
    Scalar,
    ThreadKey,
    Trust,
)
from langchain_convmem.views.codec import (
    CODEC_VERSION,
    EPOCH,
    decode_metadata,
    encode_metadata,
    get_line_time_ms,
    parse_time_ms,
)

DEFAULT_SPEAKERS = {"user": "User", "assistant": "Assistant"}
"""Labels of lines whose message has no name."""
LINE_FIELDS = ("speaker", "role", "session", "thread_id", "user_id", "trust")
"""What every line has a value for; no tag has such a name."""
# The time is a field of its own, too.
_NO_TAGS = frozenset((*LINE_FIELDS, "timestamp"))
# Providers put whole chains of thought beside a message; nobody filters by those.
_LONGEST_TAG = 256


IMPORTED = "imported"
"""Attribute of entries that were read from a file."""
_ONLY_IMPORTED = encode_metadata(Metadata(attributes=(IMPORTED,)))
"""The metadata of most of them, which need not be read again and again."""
_TRUST_OF_ROLES: Mapping[Role, Trust] = {"user": "user", "assistant": "model", "tool": "tool"}
_MARKS: Mapping[Any, Trust] = {"tool": "tool", "import": "import", "outside": "outside"}

INDENT = "  "
"""Before further lines of a text; what begins a line of its own is said by nobody."""

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROLS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_COLON = re.compile(r":\s+")


def indent_text(text: str) -> str:
    """Return a text whose further lines are indented, so that none passes for something else.

    All that ends a line for Python does; the text is the same but for white space.
    """
    if text.isprintable():  # which no line end is
        return text
    return f"\n{INDENT}".join(text.splitlines())


def clean_name(name: str) -> str:
    """Return a name or a label as one line that holds no second name.

    Line ends, control characters and white space become blanks, marks of direction go, and no
    blank follows a colon: `Name: ` ends with the first of them.
    """
    if name.isprintable() and ": " not in name and "  " not in name:
        return name.strip()
    return _COLON.sub(":", _CONTROLS.sub(" ", _BIDI.sub("", name))).strip()


def find_name(entry: Entry) -> str:
    """Return the name that an entry's message bears, as one line; empty without one."""
    return clean_name((entry.message and entry.message.name) or "")


def name_speaker(entry: Entry) -> str:
    """Return who said an entry, as one line: the message's name, else the role."""
    return find_name(entry) or DEFAULT_SPEAKERS.get(entry.role) or entry.role.capitalize()


def make_dialog_lines(entry: Entry) -> list[DialogLine]:
    """Return the entry's dialog lines in order.

    Only what the user and the assistant said are lines: no tool results, no reasoning, no system
    messages, no summaries.
    """
    message = entry.message
    label = DEFAULT_SPEAKERS.get(entry.role)
    if label is None or message is None:
        return []
    session = get_session(message.additional_kwargs)
    time_ms = get_line_time_ms(message)
    message_id = entry.message_id
    tags = get_tags(message.additional_kwargs)
    trust = find_trust(entry.role, message.additional_kwargs, entry.metadata.attributes)
    return [
        DialogLine(
            line_id=message_id if part == 0 else f"{message_id}#{part + 1}",
            key=entry.key,
            position=entry.position,
            part=part,
            speaker=clean_name(message.name or "") or label,
            text=text,
            time_ms=entry.metadata.timing["creation"] if time_ms is None else time_ms,
            session=session,
            role=entry.role,
            entry_id=entry.id,
            tags=tags,
            trust=trust,
        )
        for part, text in enumerate(entry.contents)
    ]


def get_session(marks: Mapping[str, Any]) -> str | None:
    """Return the session that a message's `additional_kwargs` name, if they do."""
    session = marks.get("session")
    return None if session is None else clean_name(str(session))


def find_trust(role: Role, marks: Mapping[str, Any], attributes: Collection[str]) -> Trust:
    """Return who answers for a message.

    Args:
        role: Whose it is.
        marks: Its `additional_kwargs`. `trust` there may say "tool", "import" or "outside", never
            more than the message would have without.
        attributes: Those of its entry.
    """
    marked = marks.get("trust")
    if isinstance(marked, str) and marked in _MARKS:
        return _MARKS[marked]
    if IMPORTED in attributes:
        return "import"
    return _TRUST_OF_ROLES.get(role, "outside")


def get_tags(marks: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the short plain values of a message's `additional_kwargs`, by key."""
    return {key: value for key, value in marks.items() if key not in _NO_TAGS and _is_tag(value)}


def _is_tag(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TAG
    return value is None or isinstance(value, int | float)


# -- Dialog lines of what a log has stored, without making a message of it ------------------------
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
_decode_json = json.JSONDecoder().raw_decode


def read_plain_lines(
    key: ThreadKey, entry_id: str, position: int, role: Role, body: str, *, metadata: str | None
) -> list[DialogLine] | None:
    """Return what `make_dialog_lines` does of a stored entry; None where that has to be asked.

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
    attributes: Collection[str] = ()
    try:
        fields, end = _decode_json(body)
        message = _check_plain_message(fields) if end == len(body) else None
        if message is None:
            return None
        marks = message.get("additional_kwargs", {})
        stamp = marks.get("timestamp")
        time_ms = stamp if stamp is None or type(stamp) is int else parse_time_ms(stamp)
        if metadata == _ONLY_IMPORTED and time_ms is not None:
            attributes = (IMPORTED,)
        elif time_ms is None and metadata is None:
            time_ms = get_ulid_ms(entry_id)
        elif time_ms is None or metadata is not None:
            known = decode_metadata(metadata, created_ms=get_ulid_ms(entry_id))
            time_ms = known.timing["creation"] if time_ms is None else time_ms
            attributes = known.attributes
    except (ValueError, InvalidMessageError):
        return None
    text, name = message.get("content", ""), message.get("name")
    if not text.strip():
        return []
    line = DialogLine(
        line_id=message.get("id") or entry_id,
        key=key,
        position=position,
        part=0,
        speaker=(clean_name(name) or label) if name else label,
        text=text,
        time_ms=time_ms,
        session=get_session(marks) if marks else None,  # most have none, and each call counts
        role=role,
        entry_id=entry_id,
        tags=get_tags(marks) if marks else {},
        trust=find_trust(role, marks, attributes),
    )
    return [line]


def _check_plain_message(body: Any) -> dict[str, Any] | None:
    """Return the fields of a body's message if they are certain to make one, of one text."""
    if type(body) is not dict or body.keys() != _BODY or body["v"] != CODEC_VERSION:
        return None
    fields = body["m"]
    if type(fields) is not dict or fields.get("type") not in _TYPES:
        return None
    for name, value in fields.items():
        if type(value) not in _KINDS.get(name, _NO_KIND):
            return None
    return None if "tool_calls" in fields.get("additional_kwargs", ()) else fields


# -- Times of lines and entries as moments and as text, in UTC ------------------------------------
def get_moment(time_ms: int) -> datetime | None:
    """Return the moment of a time in milliseconds since the epoch; None outside the calendar."""
    try:
        return EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def format_iso_time(time_ms: int) -> str | None:
    """Return a time as ISO 8601 text; None outside the calendar."""
    moment = get_moment(time_ms)
    return None if moment is None else moment.isoformat()


def format_day(time_ms: int) -> str:
    """Return the day of a time, such as "2023-05-08"; empty outside the calendar."""
    moment = get_moment(time_ms)
    return "" if moment is None else moment.date().isoformat()
