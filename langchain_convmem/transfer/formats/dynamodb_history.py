"""Items of `DynamoDBChatMessageHistory`: `{SessionId, History: [{type, data}, ...]}`.

Read as boto3 returns them, as the command line prints them (`{"Items": [...]}`), and as exports to
S3 write them (`{"Item": {...}}` per line), with DynamoDB's type tags or without. Each item is a
thread.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

from langchain_convmem.causes import ErrorTrap, describe_value
from langchain_convmem.transfer.messages import read_stored_message
from langchain_convmem.transfer.source import Node, Source, parse_json
from langchain_convmem.transfer.threads import ImportedThread, build_thread, rename_threads

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
    threads = [_read_thread(_untag(item)) for item in _list_items(source)]
    spoken = [thread for thread in threads if thread.messages]
    return rename_threads(spoken, thread_id, source.path)


def _list_items(source: Source) -> Iterator[Node]:
    for node in _list_roots(source):
        listed = node.optional("Items")
        for item in [node] if listed is None else listed.items():
            yield item.optional("Item") or item


def _list_roots(source: Source) -> Iterator[Node]:
    if source.has_rows:
        for number, row in source.rows():
            value = parse_json(row, source.path, first_line=number)
            yield Node(value, source.path, f"line {number}")
        return
    root = Node(source.document, source.path, "$")
    yield from root.items() if root.is_a(list) else [root]


def _read_thread(item: Node) -> ImportedThread:
    found = [read_stored_message(node) for node in item.member("History").items()]
    name = item.member("SessionId").label()
    return build_thread(name, found, item.path, number_repeats=True)


# -- type tags ----------------------------------------------------------------------------------


def _untag(item: Node) -> Node:
    """Return the item as plain JSON values."""
    history = item.member("History")
    if not history.is_a(dict):
        return item
    with ErrorTrap(ValueError, TypeError, LookupError, AttributeError):
        values = {name: _strip_tags(item.value[name]) for name in item.names()}
        return Node(values, item.path, item.location)
    return item.fail("an item with DynamoDB's type tags throughout")


def _parse_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


_TAGS: dict[str, Callable[[Any], Any]] = {
    "S": str,
    "N": _parse_number,
    "BOOL": bool,
    "NULL": lambda _: None,
    "B": base64.b64decode,
    "L": lambda items: [_strip_tags(item) for item in items],
    "M": lambda members: {name: _strip_tags(value) for name, value in members.items()},
    "SS": list,
    "NS": lambda items: [_parse_number(item) for item in items],
    "BS": lambda items: [base64.b64decode(item) for item in items],
}


def _strip_tags(tagged: Any) -> Any:
    [(tag, value)] = tagged.items()
    if tag not in _TAGS:
        msg = f"{describe_value(tag)} is not a type of DynamoDB"
        raise ValueError(msg)
    return _TAGS[tag](value)
