"""Messages in LangGraph's checkpoints: a SQLite file of langgraph-checkpoint-sqlite.

Each thread is read from its latest checkpoint, channel `messages`; subgraphs have their own
namespaces and are left aside. LangGraph's own serializer reads the bytes, held to its list of safe
types: no class is imported because a file names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import MissingExtraError
from langchain_convmem.transfer.messages import FoundMessage, read_stored_message, repair_timestamp
from langchain_convmem.transfer.source import MAX_FILE_BYTES, Database, Node, refuse
from langchain_convmem.transfer.threads import ImportedThread, build_thread, rename_threads

FORM = "a SQLite file with LangGraph checkpoints (thread_id, checkpoint_id, checkpoint)"
_CHANNEL = "messages"
_COLUMNS = {"thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint"}
_LATEST = """
SELECT thread_id, checkpoint_id, type, checkpoint, length(checkpoint) FROM checkpoints AS one
WHERE checkpoint_ns = '' AND checkpoint_id =
  (SELECT max(checkpoint_id) FROM checkpoints
   WHERE thread_id = one.thread_id AND checkpoint_ns = '')
ORDER BY checkpoint_id
"""


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
    for name, checkpoint_id, kind, data, size in database.rows(_LATEST):
        location = f"checkpoint {checkpoint_id} of thread {name!r}"
        if size is not None and size > MAX_FILE_BYTES:
            refuse(database.path, location, f"is {size:,} bytes; the limit is {MAX_FILE_BYTES:,}")
        checkpoint = None
        with ErrorTrap(ValueError, TypeError, LookupError, NotImplementedError) as trap:
            checkpoint = serializer.loads_typed((kind, data))
        if trap.reason:
            problem = f"cannot be read by LangGraph's serializer: {trap.reason}"
            refuse(database.path, location, problem)
        found = _read_messages(checkpoint, database.path, location)
        if found:
            label = Node(name, database.path, location).label()
            threads.append(build_thread(label, found, database.path, number_repeats=True))
    return rename_threads(threads, thread_id, database.path)


def _make_serializer() -> Any:
    try:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    except ImportError as error:
        raise MissingExtraError.build("reading LangGraph checkpoints", "langgraph") from error
    try:
        return JsonPlusSerializer(allowed_msgpack_modules=None)
    except TypeError as error:
        msg = (
            "this release of langgraph-checkpoint imports whatever a file names; "
            "upgrade it with: pip install 'langgraph-checkpoint>=4.0.1'"
        )
        raise MissingExtraError(msg, extra="langgraph") from error


def _read_messages(checkpoint: Any, path: str, location: str) -> list[FoundMessage]:
    root = Node(checkpoint, path, location)
    values = root.member("channel_values")
    if not values.has(_CHANNEL):
        versions = root.optional("channel_versions")
        if versions is not None and versions.has(_CHANNEL):
            root.fail("the messages themselves; LangGraph kept them as changes here")
        return []
    channel = Node(values.value[_CHANNEL], path, f"{location}, {_CHANNEL}")
    return [_read_message(item) for item in channel.items()]


def _read_message(item: Node) -> FoundMessage:
    if isinstance(item.value, BaseMessage):
        return repair_timestamp(item.value, item.location)
    # A message class of somebody's own comes back as its fields.
    if isinstance(item.value, Mapping) and "type" in item.value:
        stored = {"type": item.value["type"], "data": dict(item.value)}
        return read_stored_message(Node(stored, item.path, item.location))
    return read_stored_message(item)
