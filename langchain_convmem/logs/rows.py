"""Rows between a log and its storage: encoding, keys and equality, the same for every log."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_convmem.errors import ConfigError, CorruptEntryError
from langchain_convmem.ids import ulid_ms
from langchain_convmem.records import (
    Changes,
    Control,
    DialogLine,
    Draft,
    Entry,
    LineChanges,
    Metadata,
    Owner,
    Role,
    ThreadKey,
)
from langchain_convmem.views.codec import (
    DecodedBody,
    decode_body,
    decode_metadata,
    dumps,
    encode_body,
    encode_metadata,
    loads,
)
from langchain_convmem.views.lines import dialog_lines, plain_lines

__all__ = [
    "Row",
    "annotated",
    "bounded",
    "built_entry",
    "changes_of",
    "check_ids",
    "check_scope",
    "check_user",
    "encode",
    "entry_of",
    "key_hash",
    "line_changes_of",
    "merged",
    "message_id_of",
    "next_version",
    "own_id",
    "replacement_control",
    "same_payload",
    "state_text",
]

_MOST = 2**63 - 1
"""The largest integer of every database; positions and counts stay far below."""


def bounded(number: int | None) -> int:
    """Return a bound of positions or of a count as an integer that a database takes; None: most."""
    return _MOST if number is None else max(-_MOST, min(number, _MOST))


# Not frozen: that makes each of many rows slower to make.
@dataclass(slots=True)
class Row:
    """An entry as it is stored: columns and JSON text. Treat it as read-only."""

    id: str
    position: int
    turn_id: str
    role: Role
    body: str
    metadata: str | None


def encode(drafts: Sequence[Draft]) -> list[tuple[Draft, str, str | None]]:
    """Return each draft with its body and metadata text; raises before anything is written."""
    return [(draft, encode_body(draft), encode_metadata(draft.metadata)) for draft in drafts]


def entry_of(key: ThreadKey, row: Row) -> Entry:
    """Return the entry of a row.

    Raises:
        CorruptEntryError: If the row cannot be read; the message names thread and position.
    """
    try:
        decoded = decode_body(row.body)
        metadata = decode_metadata(row.metadata, created_ms=ulid_ms(row.id))
    except ValueError as error:
        msg = (
            f"entry {row.position} of thread {key.thread_id!r} cannot be read: {error}; "
            "restore it from a backup, or forget it by its id "
            f"({row.id})"
        )
        raise CorruptEntryError(msg, thread_id=key.thread_id, position=row.position) from error
    return built_entry(key, row, decoded, metadata)


def built_entry(key: ThreadKey, row: Row, decoded: DecodedBody, metadata: Metadata) -> Entry:
    """Return the entry of a row whose body and metadata were decoded."""
    message, contents, control, cover = decoded
    return Entry(
        id=row.id,
        key=key,
        position=row.position,
        turn_id=row.turn_id,
        role=row.role,
        message=message,
        contents=contents,
        metadata=metadata,
        control=control,
        cover=cover,
    )


def changes_of(rows: Iterable[tuple[ThreadKey, Row]], cursor: int, generation: int) -> Changes:
    """Return rows behind a cursor as entries; see `MessageLog.changes`.

    Raises:
        CorruptEntryError: If a row cannot be read; the message names thread and position.
    """
    entries = tuple(entry_of(key, row) for key, row in rows)
    return Changes(entries, entries[-1].position if entries else cursor, generation)


def line_changes_of(
    rows: Iterable[tuple[ThreadKey, Row]], cursor: int, generation: int, limit: int | None
) -> LineChanges:
    """Return the dialog lines of rows behind a cursor; see `LineSource.line_changes`.

    Args:
        rows: All that the log has behind the cursor, but no more than the limit.
        cursor: Where they begin.
        generation: See `Changes`.
        limit: How many were asked for.

    Raises:
        CorruptEntryError: If a row cannot be read; the message names thread and position.
    """
    lines: list[DialogLine] = []
    controls: list[Entry] = []
    count = 0
    for count, (key, row) in enumerate(rows, 1):  # noqa: B007 - what is left of it counts
        cursor = row.position
        found = plain_lines(key, row.id, cursor, row.role, row.body, metadata=row.metadata)
        if found is None:
            entry = entry_of(key, row)
            found = dialog_lines(entry)
            if entry.control is not None:
                controls.append(entry)
        lines += found
    is_last = limit is None or count < limit
    return LineChanges(tuple(lines), tuple(controls), cursor, generation, is_last)


def merged(found: Iterable[Entry], entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of both, each once, in order of position."""
    by_position = {entry.position: entry for entry in (*found, *entries)}
    return [by_position[position] for position in sorted(by_position)]


def key_hash(message_id: str) -> int:
    """Return 31 bits that find a message's id in an index without storing the id twice.

    Other ids may share them: compare the id of what was found.
    """
    digest = hashlib.blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=4)
    return int.from_bytes(digest.digest(), "big") >> 1


def own_id(draft: Draft) -> str | None:
    """Return the message's own id; an empty one, as some services send, is none."""
    return (draft.message.id or None) if draft.message is not None else None


def message_id_of(entry_id: str, body: str) -> str:
    """Return the key of a stored message within its thread: its own id, else the entry's."""
    try:
        return json.loads(body)["m"]["id"] or entry_id
    except (ValueError, TypeError, LookupError):
        # Without a message, without an id, or damaged: such an entry goes by its own id, so that
        # it can still be forgotten.
        return entry_id


def same_payload(first: str, second: str) -> bool:
    """Return whether two bodies hold the same message, its id aside."""
    return _without_id(first) == _without_id(second)


def _without_id(body: str) -> str:
    fields = json.loads(body)
    fields.get("m", {}).pop("id", None)
    # As text, since True, 1 and 1.0 are equal as values.
    return json.dumps(fields, sort_keys=True)


def check_scope(scope: Owner | ThreadKey, entry_ids: Collection[str] | None) -> None:
    """Refuse what would forget something else than was meant.

    Raises:
        ConfigError: If entry ids come as one text or without their thread.
    """
    if entry_ids is not None and not isinstance(scope, ThreadKey):
        raise ConfigError("entry_ids need the thread they belong to; pass a ThreadKey")
    if isinstance(entry_ids, str):
        raise ConfigError(f"entry_ids must be a collection of ids, got the text {entry_ids!r}")


def check_ids(message_ids: Collection[str]) -> None:
    """Refuse one text where several ids are meant: its letters would be taken for ids.

    Raises:
        ConfigError: If the ids come as one text.
    """
    if isinstance(message_ids, str):
        raise ConfigError(f"message_ids must be a collection of ids, got the text {message_ids!r}")


def check_user(user_id: str | None) -> None:
    """Refuse an id that no user can have, such as an empty one: it must not be taken for None.

    Raises:
        ConfigError: If it is empty, no text, or no valid Unicode.
    """
    if user_id is not None:
        Owner(user_id=user_id)


def replacement_control(old_id: str, new_id: str) -> Draft:
    """Return the control entry that puts `new_id` in the place of `old_id`."""
    return Draft(role="control", control=Control((old_id,), "replaced", new_id))


def annotated(
    text: str | None,
    *,
    attributes: Sequence[str],
    timing: Mapping[str, int] | None,
    aux: Mapping[str, Any] | None,
) -> str | None:
    """Return stored metadata with additions: attributes append, the others overwrite by name."""
    before: dict[str, Any] = loads(text) if text else {}
    metadata = Metadata(
        attributes=(*before.get("a", ()), *attributes),
        timing={**before.get("t", {}), **(timing or {})},
        summary_ids=tuple(before.get("s", ())),
        aux={**before.get("x", {}), **(aux or {})},
    )
    return encode_metadata(metadata)


def state_text(value: Any) -> str:
    """Return a state document as JSON text; refuses what JSON cannot keep."""
    return dumps(value, what="state document")


def next_version(before: int | None) -> int:
    """Return a version greater than `before`, and than any deleted document's version was."""
    return max((before or 0) + 1, time.time_ns() // 1000)
