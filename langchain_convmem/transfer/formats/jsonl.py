"""JSONL: one message per line, `{role, content, id?, name?, timestamp?, session?}`.

Lines may also be messages of the OpenAI API, with tool calls and parts; see `openai`. Further keys
are left aside. The file is one thread, named after its stem.
"""

from __future__ import annotations

from pathlib import Path

from langchain_convmem.transfer.formats.openai import MessageReader
from langchain_convmem.transfer.source import MAX_LINE_BYTES, Node, Source, parse_json, refuse
from langchain_convmem.transfer.threads import ImportedThread, build_thread

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
    found = [reader.read(_read_node(source, number, row)) for number, row in source.rows()]
    return [build_thread(thread_id or Path(source.path).stem, found, source.path)]


def _read_node(source: Source, number: int, row: str) -> Node:
    location = f"line {number}"
    size = len(row.encode(errors="surrogatepass"))
    if size > MAX_LINE_BYTES:
        refuse(source.path, location, f"is {size:,} bytes long; the limit is {MAX_LINE_BYTES:,}")
    return Node(parse_json(row, source.path, first_line=number), source.path, location)
