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
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, Owner, RetractReason, Role, ThreadKey
from langchain_convmem.titles import list_titles
from langchain_convmem.transfer.source import Node, Source, parse_json
from langchain_convmem.transfer.threads import (
    ImportedThread,
    count_sessions,
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

FORM = 'an export of convmem {"convmem": "entry", "thread_id", "message", ...} on each line'
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
    """Yield one line per entry, without line ends, in the order in which they were written.

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
    return _write_row(
        {
            "convmem": _THREAD_MARK,
            "user_id": key.user_id,
            "thread_id": key.thread_id,
            "title": title,
        }
    )


def encode_entry(entry: Entry) -> str:
    """Return the entry as one line of JSON, without a line end."""
    body = json.loads(encode_body(redraft(entry)))
    metadata = json.loads(encode_metadata(entry.metadata) or "{}")
    row = {
        "convmem": _MARK,
        "user_id": entry.key.user_id,
        "thread_id": entry.key.thread_id,
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
    for number, row in source.rows():
        node = Node(parse_json(row, source.path, first_line=number), source.path, f"line {number}")
        if node.has("damage"):
            continue
        if node.member("convmem").value == _THREAD_MARK:
            titles[node.member("thread_id").text()] = read_title(node, "title")
            continue
        entry = _read_entry(node)
        users.setdefault(entry.key.user_id, node.location)
        if len(users) > 1:
            node.fail(f"entries of the user of {next(iter(users.values()))} only")
        threads.setdefault(entry.key.thread_id, []).append(entry)
    found = [
        replace(_build_thread(name, entries, source), title=titles.get(name, ""))
        for name, entries in threads.items()
    ]
    return rename_threads(found, thread_id, source.path)


def _build_thread(name: str, entries: list[Entry], source: Source) -> ImportedThread:
    root = Node([entry.id for entry in entries], source.path, f"thread {name!r}")
    if any(first.position >= second.position for first, second in pairwise(entries)):
        root.fail("entries in ascending order of position")
    if len({entry.id for entry in entries}) < len(entries):
        root.fail("entries with ids of their own")
    messages = tuple(
        entry.message.model_copy(update={"id": entry.message.id or entry.id})
        for entry in entries
        if entry.message is not None
    )
    return ImportedThread(name, messages, count_sessions(messages), entries=tuple(entries))


def _read_entry(node: Node) -> Entry:
    position, role = node.member("position"), node.member("role")
    if type(position.value) is not int or position.value < 1:
        position.fail("a whole number from 1")
    if role.value not in get_args(Role):
        role.fail(f"one of {', '.join(get_args(Role))}")
    user = node.optional("user_id")
    key = ThreadKey(None if user is None else user.text(), node.member("thread_id").text())
    _check_parts(node)
    try:
        message, contents, control, cover = decode_body(_encode_members(node, _BODY))
        metadata = decode_metadata(
            _encode_members(node.member("metadata"), _METADATA), created_ms=0
        )
        entry = Entry(
            id=node.member("id").text(),
            key=key,
            position=position.value,
            turn_id=node.member("turn_id").text(),
            role=role.value,
            message=message,
            contents=contents,
            metadata=metadata,
            control=control,
            cover=cover,
        )
        _check_storable(entry)
    except (ValueError, TypeError, RecursionError) as error:
        node.fail(f"an exported entry ({error})")
    return entry


def _encode_members(node: Node, names: dict[str, str]) -> str:
    """Return the members that `names` lists under their short names, as the codec's JSON text."""
    fields = {short: node.value[name] for short, name in names.items() if node.has(name)}
    return json.dumps(fields)


def _check_storable(entry: Entry) -> None:
    if entry.message is not None:
        make_draft(entry.message)
    encode_body(redraft(entry))
    encode_metadata(entry.metadata)


def _check_parts(node: Node) -> None:
    """Refuse parts that do not belong together, or whose kinds the codec takes on trust."""
    role = node.member("role").value
    if node.has("control") != (role == "control"):
        node.fail('the member "control" for the role control, and for no other')
    if not node.has("message") and role not in ("control", "summary"):
        node.member("message")
    for item in _list_items(node, "contents"):
        item.text_or_blank()
    control, cover = node.optional("control"), node.optional("cover")
    if control is not None:
        _check_control(control)
    if cover is not None:
        _check_cover(cover)
    _check_metadata(node.member("metadata"))


def _check_control(control: Node) -> None:
    for item in control.member("retracts").items():
        item.text_or_blank()
    reason, new = control.member("reason"), control.optional("replacement")
    if reason.value not in get_args(RetractReason):
        reason.fail(f"one of {', '.join(get_args(RetractReason))}")
    if new is not None:
        new.text()


def _check_cover(cover: Node) -> None:
    for pair in cover.member("ranges").items():
        numbers = [item.value for item in pair.items()]
        if [type(number) for number in numbers] != [int, int]:
            pair.fail("two positions")
    for name in ("digest", "model", "prompt_version"):
        cover.member(name).text_or_blank()


def _check_metadata(metadata: Node) -> None:
    for name in ("attributes", "summary_ids"):
        for item in _list_items(metadata, name):
            item.text_or_blank()
    timing = metadata.optional("timing")
    for name in [] if timing is None else timing.names():
        if timing is not None and type(timing.value[name]) is not int:
            timing.fail("whole milliseconds")
    aux = metadata.optional("aux")
    if aux is not None and not aux.is_a(dict):
        aux.fail("an object")


def _list_items(node: Node, name: str) -> Iterator[Node]:
    found = node.optional(name)
    if found is not None:
        yield from found.items()
