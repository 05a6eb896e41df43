"""Turns as plain maps, which `history.to_maps()` gives out: a JSON list, or one map on each line.

    {"id", "message": {"role", "contents": [text, ...]}, "metadata": {"timing": {"creation"}, ...}}

Texts, speakers' roles, ids and times come back; of a turn with `messages`, these. A turn that a
sink was given several times counts as it was given last, and one that was marked as retracted not
at all. Summaries and placeholders are made anew where they are needed. The file is one thread,
named after its stem.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.transfer.messages import (
    Block,
    FoundMessage,
    build_content,
    build_stamp,
    make_text_block,
    read_stored_message,
)
from langchain_convmem.transfer.source import Node, Source, parse_json
from langchain_convmem.transfer.threads import ImportedThread, build_thread, rename_threads

FORM = 'turns of to_maps() [{"id", "message": {"role", "contents"}, "metadata"}]'
_MADE_ANEW = "summary"
_RETRACTED = "retracted"
_MESSAGES: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}
_ROLES = ("user", "assistant", "system", "tool", _MADE_ANEW)


def fits_maps(source: Source) -> bool:
    """Return whether the file starts with the map of a turn."""
    sample = source.sample
    if not isinstance(sample, dict) or "id" not in sample:
        return False
    message = sample.get("message")
    return isinstance(message, dict) and message.keys() - {"messages"} == {"role", "contents"}


def read_maps(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread.

    Raises:
        ImportFormatError: If an item is not the map of a turn, or all of them are empty.
    """
    latest: dict[str, Node] = {}
    for node in _list_nodes(source):
        own_id = node.member("id").label()
        latest[own_id] = node
    found = [one for own_id, node in latest.items() for one in _read_turn(own_id, node)]
    thread = build_thread(Path(source.path).stem, found, source.path)
    return rename_threads([thread] if found else [], thread_id, source.path)


def _list_nodes(source: Source) -> Iterator[Node]:
    if source.has_rows:
        for number, row in source.rows():
            value = parse_json(row, source.path, first_line=number)
            yield Node(value, source.path, f"line {number}")
        return
    root = Node(source.document, source.path, "$")
    yield from root.items() if root.is_a(list) else [root]


def _read_turn(own_id: str, node: Node) -> list[FoundMessage]:
    message = node.member("message")
    role = message.member("role")
    if role.value not in _ROLES:
        role.fail(f"one of {', '.join(_ROLES)}")
    if role.value == _MADE_ANEW or _RETRACTED in _list_marks(node):
        return []
    parts = message.optional("messages")
    if parts is not None:
        found = [read_stored_message(part) for part in parts.items()]
        for one in found:
            one.message.additional_kwargs = {**_read_time(node), **one.message.additional_kwargs}
        return found
    texts = [item.text_or_blank() for item in message.member("contents").items()]
    content = build_content([make_text_block(text) for text in texts])
    if not content:
        return []
    return [FoundMessage(_build_message(role.value, content, own_id, node), node.location)]


def _build_message(
    role: str, content: str | list[str | Block], own_id: str, node: Node
) -> BaseMessage:
    extra = _read_time(node)
    if role == "tool":
        call_id = f"call-{own_id}"
        return ToolMessage(
            content=content, tool_call_id=call_id, id=own_id, additional_kwargs=extra
        )
    return _MESSAGES[role](content=content, id=own_id, additional_kwargs=extra)


def _read_time(node: Node) -> dict[str, Any]:
    metadata = node.optional("metadata")
    timing = None if metadata is None else metadata.optional("timing")
    created = None if timing is None else timing.optional("creation")
    return build_stamp(None if created is None else created.time())


def _list_marks(node: Node) -> list[str]:
    metadata = node.optional("metadata")
    marks = None if metadata is None else metadata.optional("attribute")
    return [] if marks is None else [one.text_or_blank() for one in marks.items()]
