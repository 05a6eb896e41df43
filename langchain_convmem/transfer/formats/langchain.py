"""Stores of LangChain and LangGraph.

Items of `DynamoDBChatMessageHistory`, `{SessionId, History: [{type, data}, ...]}`, as boto3 returns
them, as the command line prints them (`{"Items": [...]}`), and as exports to S3 write them
(`{"Item": {...}}` on each line), with DynamoDB's type tags or without. Each item is a thread.

Tables of `SQLChatMessageHistory` in a SQLite file, `message_store(id, session_id, message)`. The
table may have any name; its columns tell. Each session is a thread, in the order of the rows.

Checkpoints in a SQLite file of langgraph-checkpoint-sqlite. Each thread is read from its latest
checkpoint, channel `messages`; subgraphs have namespaces of their own and are left aside.
LangGraph's own serializer reads the bytes, held to its list of safe types: no class is imported
because a file names it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import Field

from langchain_convmem.causes import ErrorTrap, describe_value
from langchain_convmem.errors import MissingExtraError
from langchain_convmem.transfer.source import (
    Database,
    Form,
    Label,
    Node,
    Source,
    parse_json,
    refuse,
)
from langchain_convmem.transfer.threads import (
    FoundMessage,
    ImportedThread,
    Reader,
    build_thread,
    read_stored_message,
    rename_threads,
    repair_timestamp,
)

# -- items of DynamoDB ----------------------------------------------------------------------------


class _Item(Form):
    SessionId: Label
    History: list[Any]


def fits_dynamodb(source: Source) -> bool:
    """Return whether the file is such an item, or starts with one."""
    item = unwrap_item(source.sample)
    return isinstance(item, dict) and "History" in item


def read_dynamodb(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return one thread per item, named by its SessionId; empty histories are left out.

    Raises:
        ImportFormatError: If an item is not as the form says.
    """
    threads = [_read_item(node) for node in list_items(source)]
    spoken = [thread for thread in threads if thread.messages]
    return rename_threads(spoken, thread_id, source.path)


def _read_item(node: Node) -> ImportedThread:
    item = node.parse(_Item)
    found = [read_stored_message(one) for one in node.at(item.History, "History").items()]
    return build_thread(item.SessionId, found, node.path)


def unwrap_item(value: Any) -> Any:
    """Return the item that a value of a file is, or its first one."""
    for name in ("Items", "Item"):
        inner = value.get(name) if isinstance(value, dict) else None
        value = inner[0] if isinstance(inner, list) and inner else inner or value
    return value


def list_items(source: Source) -> Iterator[Node]:
    """Yield the items of a file of DynamoDB as plain values, or of one that is plain already.

    Raises:
        ImportFormatError: If only a part of an item has type tags.
    """
    for node in source.nodes():
        wrapped = isinstance(node.value, dict) and isinstance(node.value.get("Items"), list)
        for item in node.at(node.value["Items"], "Items").items() if wrapped else [node]:
            inner = item.value.get("Item") if isinstance(item.value, dict) else None
            yield _untag(item if inner is None else item.at(inner, "Item"))


def _untag(item: Node) -> Node:
    values = list(item.value.values()) if isinstance(item.value, dict) else []
    if not any(isinstance(one, dict) and one.keys() & {"L", "M"} for one in values):
        return item
    with ErrorTrap(ValueError, TypeError, LookupError, AttributeError):
        plain = {name: _strip_tags(one) for name, one in item.value.items()}
        return Node(plain, item.path, item.location)
    return item.fail("an item with DynamoDB's type tags throughout")


_TAGS: dict[str, Callable[[Any], Any]] = {
    "S": str,
    "N": json.loads,
    "BOOL": bool,
    "NULL": lambda _: None,
    "B": base64.b64decode,
    "L": lambda items: [_strip_tags(item) for item in items],
    "M": lambda members: {name: _strip_tags(value) for name, value in members.items()},
    "SS": list,
    "NS": lambda items: [json.loads(item) for item in items],
    "BS": lambda items: [base64.b64decode(item) for item in items],
}


def _strip_tags(tagged: Any) -> Any:
    [(tag, value)] = tagged.items()
    if tag not in _TAGS:
        msg = f"{describe_value(tag)} is not a type of DynamoDB"
        raise ValueError(msg)
    return _TAGS[tag](value)


# -- tables of SQL --------------------------------------------------------------------------------


def fits_sql_history(database: Database) -> bool:
    """Return whether the file has such a table."""
    return bool(_find_tables(database))


def _find_tables(database: Database) -> list[str]:
    needed = {"id", "session_id", "message"}
    return [name for name, columns in database.tables().items() if columns >= needed]


def read_sql_history(database: Database, thread_id: str | None) -> list[ImportedThread]:
    """Return one thread per session, named by its id.

    Raises:
        ImportFormatError: If a row is not as LangChain writes it.
    """
    threads = [
        build_thread(name, found, database.path)
        for table in _find_tables(database)
        for name, found in _read_sessions(database, table).items()
    ]
    return rename_threads(threads, thread_id, database.path)


def _read_sessions(database: Database, table: str) -> dict[str, list[FoundMessage]]:
    quoted = table.replace('"', '""')
    query = f'SELECT id, session_id, message FROM "{quoted}" ORDER BY id'
    sessions: dict[str, list[FoundMessage]] = {}
    for row_id, session_id, stored in database.rows(query):
        place = f"table {table}, row {row_id}"
        if not isinstance(stored, str) or not session_id:
            refuse(database.path, place, "expected a session_id, and a message as JSON text")
        value = parse_json(stored, database.path, place)
        found = read_stored_message(Node(value, database.path, place))
        found.message.id = found.message.id or f"row-{row_id}"
        sessions.setdefault(str(session_id), []).append(found)
    return sessions


# -- checkpoints of LangGraph ---------------------------------------------------------------------

_COLUMNS = {"thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint"}
_LATEST = """
SELECT thread_id, checkpoint_id, type, checkpoint FROM checkpoints AS one
WHERE checkpoint_ns = '' AND checkpoint_id =
  (SELECT max(checkpoint_id) FROM checkpoints
   WHERE thread_id = one.thread_id AND checkpoint_ns = '')
ORDER BY checkpoint_id
"""


class _Checkpoint(Form):
    channel_values: dict[str, Any]
    channel_versions: dict[str, Any] = Field({})


def fits_checkpoints(database: Database) -> bool:
    """Return whether the file has a table of checkpoints."""
    return database.tables().get("checkpoints", frozenset()) >= _COLUMNS


def read_checkpoints(database: Database, thread_id: str | None) -> list[ImportedThread]:
    """Return one thread per thread with messages, the longest unchanged first.

    Raises:
        ImportFormatError: If a checkpoint cannot be read.
        MissingExtraError: If langgraph is not installed, or too old to read files safely.
    """
    serializer = _make_serializer()
    threads = []
    for name, checkpoint_id, kind, data in database.rows(_LATEST):
        place = f"checkpoint {checkpoint_id} of thread {name!r}"
        checkpoint = None
        with ErrorTrap(ValueError, TypeError, LookupError, NotImplementedError) as trap:
            checkpoint = serializer.loads_typed((kind, data))
        if trap.reason:
            problem = f"cannot be read by LangGraph's serializer: {trap.reason}"
            refuse(database.path, place, problem)
        found = _read_channel(Node(checkpoint, database.path, place))
        if found:
            threads.append(build_thread(str(name), found, database.path))
    return rename_threads(threads, thread_id, database.path)


def _make_serializer() -> Any:
    try:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    except ImportError as error:
        raise MissingExtraError.build("reading LangGraph checkpoints", "langgraph") from error
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def _read_channel(root: Node) -> list[FoundMessage]:
    read = root.parse(_Checkpoint)
    held = read.channel_values.get("messages")
    if held is not None:
        return [_read_message(item) for item in root.at(held, "messages").items()]
    if "messages" in read.channel_versions:
        root.fail("the messages themselves; LangGraph kept them as changes here")
    return []


def _read_message(item: Node) -> FoundMessage:
    if isinstance(item.value, BaseMessage):
        return repair_timestamp(item.value, item.location)
    # A message class of somebody's own comes back as its fields.
    if isinstance(item.value, Mapping) and "type" in item.value and "data" not in item.value:
        item = item.at({"type": item.value["type"], "data": dict(item.value)})
    return read_stored_message(item)


DYNAMODB_FORM = 'items of DynamoDBChatMessageHistory {"SessionId", "History": [{"type", "data"}]}'
CHECKPOINTS_FORM = "a SQLite file with LangGraph checkpoints (thread_id, checkpoint_id, checkpoint)"
SQL_FORM = "a SQLite file with a table of SQLChatMessageHistory (id, session_id, message)"
READERS = (
    Reader("dynamodb_history", DYNAMODB_FORM, fits_dynamodb, read_dynamodb),
    Reader("checkpoints", CHECKPOINTS_FORM, fits_checkpoints, read_checkpoints, Database),
    Reader("sql_history", SQL_FORM, fits_sql_history, read_sql_history, Database),
)
