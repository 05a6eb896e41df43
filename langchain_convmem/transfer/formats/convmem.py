"""An export of ours: one JSON object per line, everything about an entry, written and read back.

    {"convmem": "entry", "codec": 1, "user_id", "thread_id", "id", "position", "turn_id", "role",
     "message"?, "contents"?, "control"?, "cover"?, "metadata", "damage"?}
    {"convmem": "thread", "user_id", "thread_id", "title"}

The titles of threads stand after the entries. Messages and values are in the form of the codec, so
that what JSON lacks comes back as it was. An entry that was damaged when it was exported says so,
and is passed over when the file is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Control, Cover, Entry, Metadata, Owner, Role, ThreadKey
from langchain_convmem.titles import list_titles
from langchain_convmem.transfer.source import Form, Node, Source, Words
from langchain_convmem.transfer.threads import (
    ImportedThread,
    Reader,
    build_entry_thread,
    read_title,
    rename_threads,
)
from langchain_convmem.views.codec import (
    decode_body,
    decode_metadata,
    encode_body,
    encode_metadata,
    make_draft,
    redraft,
)

_MARK = "entry"
_THREAD_MARK = "thread"
_PAGE = 500
"""Entries per read."""
_BODY = {"v": "codec", "m": "message", "c": "contents", "k": "control", "o": "cover"}
_METADATA = {"a": "attributes", "t": "timing", "s": "summary_ids", "x": "aux"}
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What a terminal or another reader of lines could take for more than text."""


# -- writing ------------------------------------------------------------------------------------


def export_rows(log: MessageLog, owner: Owner, *, thread_id: str | None = None) -> Iterator[str]:
    """Yield one line per entry, without line breaks, in the order of writing.

    The titles of threads come last. `read_threads` reads a file of these lines, and `store_thread`
    writes what it read to any log: messages, metadata, edits and summaries come back as they were.

    Args:
        log: Where from.
        owner: Whose entries.
        thread_id: Those of this thread only.
    """
    cursor = 0
    keys: dict[ThreadKey, None] = {}
    while (page := log.changes(owner, cursor, limit=_PAGE)).entries:
        for entry in page.entries:
            if thread_id in (None, entry.key.thread_id):
                keys[entry.key] = None
                yield encode_entry(entry)
        cursor = page.cursor
    titles = list_titles(log, keys)
    yield from (_encode_title(key, titles[key]) for key in keys if key in titles)


def _encode_title(key: ThreadKey, title: str) -> str:
    return _write_row({"convmem": _THREAD_MARK, **asdict(key), "title": title})


def encode_entry(entry: Entry) -> str:
    """Return the entry as one line of JSON, without a line end."""
    body = json.loads(encode_body(redraft(entry)))
    metadata = json.loads(encode_metadata(entry.metadata) or "{}")
    row = {
        "convmem": _MARK,
        **asdict(entry.key),
        "id": entry.id,
        "position": entry.position,
        "turn_id": entry.turn_id,
        "role": entry.role,
        **{name: body[short] for short, name in _BODY.items() if short in body},
        "metadata": {
            name: metadata[short] for short, name in _METADATA.items() if short in metadata
        },
        **({"damage": entry.damage} if entry.damage else {}),
    }
    return _write_row(row)


def _write_row(row: dict[str, Any]) -> str:
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# -- reading ------------------------------------------------------------------------------------


class _Entry(Form):
    # The dataclasses in it take lists for tuples, which strict ones would not.
    model_config = ConfigDict(strict=False, extra="ignore")

    user_id: Words | None = None
    thread_id: Words
    id: Words
    position: Annotated[int, Field(ge=1)]
    turn_id: Words
    role: Role
    message: dict[str, Any] | None = None
    contents: list[str] = Field([])
    control: Control | None = None
    cover: Cover | None = None
    metadata: Metadata


class _Mark(Form):
    convmem: Literal["entry", "thread"]
    thread_id: Words
    title: Any = None
    damage: Any = None


def fits_export(source: Source) -> bool:
    """Return whether the first line is an exported entry."""
    sample = source.sample
    return isinstance(sample, dict) and sample.get("convmem") == _MARK


def read_export(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the exported threads with all their entries.

    Raises:
        ImportFormatError: If a line is not such an entry, the lines of a thread are out of order,
            or the file holds entries of several users.
    """
    threads: dict[str, list[Entry]] = {}
    users: dict[str | None, str] = {}
    titles: dict[str, str] = {}
    for node in source.row_nodes():
        mark = node.parse(_Mark)
        if mark.damage is not None:
            continue
        if mark.convmem == _THREAD_MARK:
            titles[mark.thread_id] = read_title(mark.title)
            continue
        entry = _read_entry(node)
        users.setdefault(entry.key.user_id, node.location)
        if len(users) > 1:
            node.fail(f"entries of the user of {next(iter(users.values()))} only")
        threads.setdefault(entry.key.thread_id, []).append(entry)
    for name, entries in threads.items():
        root = Node([entry.id for entry in entries], source.path, f"thread {name!r}")
        if any(first.position >= second.position for first, second in pairwise(entries)):
            root.fail("entries in ascending order of position")
        if len({entry.id for entry in entries}) < len(entries):
            root.fail("entries with ids of their own")
    found = [
        build_entry_thread(name, entries, title=titles.get(name, ""))
        for name, entries in threads.items()
    ]
    return rename_threads(found, thread_id, source.path)


def _read_entry(node: Node) -> Entry:
    row = node.parse(_Entry)
    if (row.control is not None) != (row.role == "control"):
        node.fail('the member "control" for the role control, and for no other')
    if row.message is None and row.role not in ("control", "summary"):
        node.fail('an object with the key "message"')
    try:
        message, contents, *_ = decode_body(_encode_members(node.value, _BODY))
        stored = _encode_members(node.value["metadata"], _METADATA)
        entry = Entry(
            id=row.id,
            key=ThreadKey(row.user_id, row.thread_id),
            position=row.position,
            turn_id=row.turn_id,
            role=row.role,
            message=message,
            contents=contents,
            metadata=decode_metadata(stored, created_ms=0),
            control=row.control,
            cover=row.cover,
        )
        check_storable(entry)
    except (ValueError, TypeError, RecursionError) as error:
        node.fail(f"an exported entry ({error})")
    return entry


def _encode_members(values: dict[str, Any], names: dict[str, str]) -> str:
    """Return the members that `names` lists under their short names, as the codec's JSON text."""
    members = {short: values.get(name) for short, name in names.items()}
    return json.dumps({short: value for short, value in members.items() if value is not None})


def check_storable(entry: Entry) -> None:
    """Raise the codec's error for an entry that it cannot keep."""
    if entry.message is not None:
        make_draft(entry.message)
    encode_body(redraft(entry))
    encode_metadata(entry.metadata)


FORM = 'an export of convmem {"convmem": "entry", "thread_id", "message", ...} on each line'
READER = Reader("convmem", FORM, fits_export, read_export)
