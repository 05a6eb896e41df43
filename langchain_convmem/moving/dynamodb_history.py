"""Items of `DynamoDBChatMessageHistory`: `{SessionId, History: [{type, data}, ...]}`.

Read as boto3 returns them, as the command line prints them (`{"Items": [...]}`), and as exports to
S3 write them (`{"Item": {...}}` per line), with DynamoDB's type tags or without. Each item is a
thread.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from langchain_convmem.moving.node import Node
from langchain_convmem.moving.source import Source, parse_json
from langchain_convmem.moving.stored_messages import stored_message
from langchain_convmem.moving.threads import ImportedThread, renamed, thread_of_messages

__all__ = ["FORM", "fits_dynamodb", "read_dynamodb"]

FORM = 'items of DynamoDBChatMessageHistory {"SessionId", "History": [{"type", "data"}]}'


def fits_dynamodb(source: Source) -> bool:
    """Return whether the file is such an item, or starts with one."""
    sample = source.sample
    if not isinstance(sample, dict):
        return False
    listed = sample.get("Items")
    if isinstance(listed, list) and listed:
        sample = listed[0]
    item = sample.get("Item", sample) if isinstance(sample, dict) else None
    return isinstance(item, dict) and "History" in item


def read_dynamodb(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return one thread per item, named by its SessionId; empty histories are left out.

    Raises:
        ImportFormatError: If an item is not as the form says.
    """
    threads = [_thread(_untagged(item)) for item in _items(source)]
    spoken = [thread for thread in threads if thread.messages]
    return renamed(spoken, thread_id, source.path)


def _items(source: Source) -> Iterator[Node]:
    for node in _roots(source):
        listed = node.optional("Items")
        for item in [node] if listed is None else listed.items():
            yield item.optional("Item") or item


def _roots(source: Source) -> Iterator[Node]:
    if source.has_rows:
        for number, row in source.rows():
            value = parse_json(row, source.path, first_line=number)
            yield Node(value, source.path, f"line {number}")
        return
    root = Node(source.document, source.path, "$")
    yield from root.items() if root.is_a(list) else [root]


def _thread(item: Node) -> ImportedThread:
    found = [stored_message(node) for node in item.member("History").items()]
    name = item.member("SessionId").label()
    return thread_of_messages(name, found, item.path, number_repeats=True)


# -- type tags ----------------------------------------------------------------------------------


def _untagged(item: Node) -> Node:
    """Return the item as plain JSON values."""
    history = item.member("History")
    if not history.is_a(dict):
        return item
    try:
        values = {name: _plain(item.value[name]) for name in item.names()}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        item.fail(f"an item with DynamoDB's type tags throughout ({error})")
    return Node(values, item.path, item.location)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


_TAGS: dict[str, Callable[[Any], Any]] = {
    "S": str,
    "N": _number,
    "BOOL": bool,
    "NULL": lambda _: None,
    "B": base64.b64decode,
    "L": lambda items: [_plain(item) for item in items],
    "M": lambda members: {name: _plain(value) for name, value in members.items()},
    "SS": list,
    "NS": lambda items: [_number(item) for item in items],
    "BS": lambda items: [base64.b64decode(item) for item in items],
}


def _plain(tagged: Any) -> Any:
    [(tag, value)] = tagged.items()
    if tag not in _TAGS:
        msg = f"{tag!r} is no type of DynamoDB"
        raise ValueError(msg)
    return _TAGS[tag](value)
