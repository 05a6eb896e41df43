"""Dialog lines: the strings of an entry that recall searches."""

from __future__ import annotations

from langchain_convmem.records import DialogLine, Entry
from langchain_convmem.views.codec import line_time_ms
from langchain_convmem.views.copies import message_key

__all__ = ["DEFAULT_SPEAKERS", "dialog_lines"]

DEFAULT_SPEAKERS = {"user": "User", "assistant": "Assistant"}
"""Labels of lines whose message has no name."""


def dialog_lines(entry: Entry) -> list[DialogLine]:
    """Return the entry's dialog lines in order.

    Only what the user and the assistant said are lines: no tool results, no reasoning, no system
    messages, no summaries.
    """
    message = entry.message
    label = DEFAULT_SPEAKERS.get(entry.role)
    if label is None or message is None:
        return []
    session = message.additional_kwargs.get("session")
    time_ms = line_time_ms(message)
    message_id = message_key(entry)
    return [
        DialogLine(
            line_id=message_id if part == 0 else f"{message_id}#{part + 1}",
            key=entry.key,
            position=entry.position,
            part=part,
            speaker=message.name or label,
            text=text,
            time_ms=entry.metadata.timing["creation"] if time_ms is None else time_ms,
            session=None if session is None else str(session),
            role=entry.role,
            entry_id=entry.id,
        )
        for part, text in enumerate(entry.contents)
    ]
