"""Dialogue JSON: `{conversation_id?, speakers?, lines: [{id?, session?, time?, speaker, text}]}`.

Further keys, such as questions about the dialogue, are left aside. The file is one thread.
"""

from __future__ import annotations

from pathlib import Path

from langchain_convmem.transfer.messages import (
    ImportedLine,
    ImportedRole,
    cast_roles,
    name_speaker,
    space_times,
)
from langchain_convmem.transfer.source import Node, Source
from langchain_convmem.transfer.threads import ImportedThread, build_line_thread

FORM = 'dialogue JSON {"conversation_id"?, "speakers"?, "lines": [{"speaker", "text", ...}]}'


def fits_dialogue(source: Source) -> bool:
    """Return whether the file is one object with lines."""
    return isinstance(source.document, dict) and "lines" in source.document


def read_dialogue(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread, named by its conversation_id, else by the file's stem.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    root = Node(source.document, source.path, "$")
    named = root.optional("conversation_id")
    own_id = Path(source.path).stem if named is None else named.label()
    nodes = list(root.member("lines").items())
    if not nodes:
        root.member("lines").fail("at least one line")
    listed = root.optional("speakers")
    order = [] if listed is None else [node.text() for node in listed.items()]
    cast = cast_roles([*order, *(node.member("speaker").text() for node in nodes)])
    lines = space_times([_read_line(node, cast) for node in nodes])
    return [build_line_thread(thread_id or own_id, lines, source.path)]


def _read_line(node: Node, cast: dict[str, ImportedRole]) -> ImportedLine:
    speaker = node.member("speaker").text()
    own_id, time, session = node.optional("id"), node.optional("time"), node.optional("session")
    return ImportedLine(
        role=cast[speaker],
        text=node.member("text").text(),
        location=node.location,
        own_id=None if own_id is None else own_id.label(),
        name=name_speaker(speaker),
        time=None if time is None else time.time(),
        session=None if session is None else session.label(),
    )
