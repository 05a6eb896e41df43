"""JSONL: one message per line, `{role, content, id?, name?, timestamp?, session?}`.

Lines may also be messages of the OpenAI API, with tool calls and parts; see `openai`. Further keys
are left aside. The file is one thread, named after its stem.
"""

from __future__ import annotations

from pathlib import Path

from langchain_convmem.moving.node import Node
from langchain_convmem.moving.openai import MessageReader
from langchain_convmem.moving.source import MAX_LINE_BYTES, Source, parse_json, refuse
from langchain_convmem.moving.threads import ImportedThread, thread_of_messages

__all__ = ["FORM", "fits_jsonl", "read_jsonl"]

FORM = 'JSONL with {"role", "content", "id"?, "name"?, "timestamp"?, "session"?} on each line'


def fits_jsonl(source: Source) -> bool:
    """Return whether the file has several lines of objects, or one that is a message."""
    if source.has_rows:
        return True
    sample = source.document
    return isinstance(sample, dict) and bool({"role", "content"} & sample.keys())


def read_jsonl(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread.

    Raises:
        ImportFormatError: If a line is not such a message.
    """
    reader = MessageReader()
    found = [reader.read(_node(source, number, row)) for number, row in source.rows()]
    return [thread_of_messages(thread_id or Path(source.path).stem, found, source.path)]


def _node(source: Source, number: int, row: str) -> Node:
    location = f"line {number}"
    size = len(row.encode(errors="surrogatepass"))
    if size > MAX_LINE_BYTES:
        refuse(source.path, location, f"is {size:,} bytes long; the limit is {MAX_LINE_BYTES:,}")
    return Node(parse_json(row, source.path, first_line=number), source.path, location)
