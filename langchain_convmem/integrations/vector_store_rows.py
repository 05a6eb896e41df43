"""What a vector store holds of one entry, and what is written down about it. Pure.

A document per segment. Its id is derived from owner, entry, part and segment, so that writing it
again changes nothing; its metadata says where the segment stands and whose it is. The text is there
to be embedded alone: what is recalled is read from the log.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document

from langchain_convmem.recall.embedding import encodable
from langchain_convmem.recall.indexes.segments import split_line
from langchain_convmem.records import Entry, Owner
from langchain_convmem.views.lines import dialog_lines

__all__ = ["OWNER", "THREAD", "Row", "document_ids", "documents_of", "owner_label", "safe_text"]

OWNER = "owner"
"""The metadata that every search of an owner's lines filters by."""

THREAD = "thread_id"
"""The metadata that a search of one thread filters by as well."""

_IDS = uuid.UUID("6f1c2d0e-2f0b-5d55-9a5c-3b7c9f0b8d11")
_CONTROL = -1


def safe_text(text: str) -> str:
    """Return an id as every store can keep it: escaped where it would have to be in JSON."""
    return json.dumps(encodable(text), ensure_ascii=False)[1:-1]


def owner_label(owner: Owner) -> str:
    """Return the name of an owner; no two share one."""
    if owner.user_id is None:
        return f"thread:{safe_text(owner.thread_id or '')}"
    return f"user:{safe_text(owner.user_id)}"


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as the ledger of a store notes it.

    Attributes:
        position: Of the entry, unique with its owner.
        entry_id: Of the entry.
        thread_id: Its thread.
        counts: Segments of each of its lines; empty for what nobody said, [-1] for a control.
        is_live: Whether it may be recalled. Entries that were retracted stay noted.
    """

    position: int
    entry_id: str
    thread_id: str
    counts: tuple[int, ...]
    is_live: bool = True

    @classmethod
    def of(cls, entry: Entry) -> Row:
        """Return the row of an entry that nothing retracts."""
        counts: tuple[int, ...] = (_CONTROL,)
        if entry.control is None:
            counts = tuple(len(_segments(line.text)) for line in dialog_lines(entry))
        return cls(entry.position, entry.id, entry.key.thread_id, counts)

    @classmethod
    def from_json(cls, value: list[Any]) -> Row:
        """Return what `to_json` gave."""
        position, entry_id, thread_id, counts, is_live = value
        return cls(position, entry_id, thread_id, tuple(counts), bool(is_live))

    def to_json(self) -> list[Any]:
        """Return the row as a short list of plain values."""
        return [self.position, self.entry_id, self.thread_id, [*self.counts], int(self.is_live)]

    @property
    def is_control(self) -> bool:
        """Whether the entry is a control."""
        return self.counts == (_CONTROL,)

    @property
    def is_said(self) -> bool:
        """Whether the entry has lines that may be recalled."""
        return self.is_live and any(count > 0 for count in self.counts)

    def retracted(self) -> Row:
        """Return the row of the same entry once it is retracted."""
        return replace(self, is_live=False)


def document_ids(owner: Owner, row: Row) -> list[str]:
    """Return the ids of all documents of an entry."""
    return [
        _document_id(owner, row.entry_id, part, segment)
        for part, count in enumerate(row.counts)
        for segment in range(count)
    ]


def _document_id(owner: Owner, entry_id: str, part: int, segment: int) -> str:
    return str(uuid.uuid5(_IDS, f"{owner_label(owner)}\n{entry_id}\n{part}\n{segment}"))


def documents_of(owner: Owner, entry: Entry) -> list[Document]:
    """Return the documents of an entry, in the order of `document_ids`."""
    found = []
    for line in dialog_lines(entry):
        for number, text in enumerate(_segments(line.text)):
            metadata: dict[str, Any] = {
                OWNER: owner_label(owner),
                THREAD: safe_text(line.key.thread_id),
                "entry_id": line.entry_id,
                "position": line.position,
                "part": line.part,
                "segment": number,
                "time": line.time_ms,
            }
            if owner.user_id is not None:
                metadata["user_id"] = safe_text(owner.user_id)
            document_id = _document_id(owner, line.entry_id, line.part, number)
            found.append(Document(id=document_id, page_content=text, metadata=metadata))
    return found


def _segments(text: str) -> list[str]:
    """Return the texts of a line's segments, as a store can keep them."""
    if not text.strip():
        return []
    # No column of text takes a NUL.
    return [encodable(text[start:end]).replace("\x00", " ") for start, end in split_line(text)]
