"""Dialog lines: the strings of an entry that recall searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_convmem.records import DialogLine, Entry, Scalar
from langchain_convmem.views.codec import line_time_ms
from langchain_convmem.views.copies import message_key

__all__ = ["DEFAULT_SPEAKERS", "LINE_FIELDS", "dialog_lines", "session_of", "tags_of"]

DEFAULT_SPEAKERS = {"user": "User", "assistant": "Assistant"}
"""Labels of lines whose message has no name."""

LINE_FIELDS = ("speaker", "role", "session", "thread_id", "user_id")
"""What every line has a value for; no tag has such a name."""

# The time is a field of its own, too.
_NO_TAGS = frozenset((*LINE_FIELDS, "timestamp"))
# Providers put whole reasonings beside a message; nobody filters by one.
_LONGEST_TAG = 256


def dialog_lines(entry: Entry) -> list[DialogLine]:
    """Return the entry's dialog lines in order.

    Only what the user and the assistant said are lines: no tool results, no reasoning, no system
    messages, no summaries.
    """
    message = entry.message
    label = DEFAULT_SPEAKERS.get(entry.role)
    if label is None or message is None:
        return []
    session = session_of(message.additional_kwargs)
    time_ms = line_time_ms(message)
    message_id = message_key(entry)
    tags = tags_of(message.additional_kwargs)
    return [
        DialogLine(
            line_id=message_id if part == 0 else f"{message_id}#{part + 1}",
            key=entry.key,
            position=entry.position,
            part=part,
            speaker=message.name or label,
            text=text,
            time_ms=entry.metadata.timing["creation"] if time_ms is None else time_ms,
            session=session,
            role=entry.role,
            entry_id=entry.id,
            tags=tags,
        )
        for part, text in enumerate(entry.contents)
    ]


def session_of(marks: Mapping[str, Any]) -> str | None:
    """Return the sitting that a message's `additional_kwargs` name, if they do."""
    session = marks.get("session")
    return None if session is None else str(session)


def tags_of(marks: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the short plain values of a message's `additional_kwargs`, by key."""
    return {key: value for key, value in marks.items() if key not in _NO_TAGS and _is_tag(value)}


def _is_tag(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TAG
    return value is None or isinstance(value, int | float)
