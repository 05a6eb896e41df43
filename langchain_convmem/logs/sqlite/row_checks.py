"""What is wrong with a row of a SQLite log, in words that show no message text. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from langchain_convmem.ids import ulid_number, ulid_text
from langchain_convmem.logs.rows import key_hash, message_id_of
from langchain_convmem.logs.sqlite.rows import ROLES, unpack
from langchain_convmem.views.codec import decode_body, decode_metadata, loads

__all__ = [
    "DocumentColumns",
    "EntryColumns",
    "Garbled",
    "JudgedEntry",
    "OwnerColumns",
    "SegmentColumns",
    "ThreadColumns",
    "document_faults",
    "judged_entry",
    "lenient_text",
    "owner_faults",
    "segment_faults",
    "thread_faults",
]

_SHOWN_CHARS = 80
_HALF_FLOAT_BYTES = 2


class Garbled:
    """Stands for text that is no UTF-8; it is not kept, since it may be of a message."""

    def __repr__(self) -> str:
        return "(no valid text)"


def lenient_text(raw: bytes) -> str | Garbled:
    """Return stored text, whatever it is: a `text_factory` that never fails."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Garbled()


def _name(value: Any) -> str:
    """Return a user's or a thread's id as it may be shown."""
    return f"{value!r:.{_SHOWN_CHARS}}"


def _place(position: Any, thread_id: Any, user_id: Any) -> str:
    """Return where a row belongs; both names are None where the tables above it are damaged."""
    if thread_id is None:
        return f"position {position} of no known thread"
    of_user = f" of user {_name(user_id)}" if user_id else ""
    return f"position {position} of thread {_name(thread_id)}{of_user}"


# -- owners and threads -------------------------------------------------------------------------


class OwnerColumns(NamedTuple):
    """A row of `owners`, and the epoch of the file."""

    user_id: Any
    lone_thread: Any
    generation: Any
    epoch: Any


def owner_faults(row: OwnerColumns) -> Iterator[str]:
    """Yield what is wrong with an owner."""
    name = f"user {_name(row.user_id)}" if row.user_id else f"lone thread {_name(row.lone_thread)}"
    if not (isinstance(row.user_id, str) and isinstance(row.lone_thread, str)):
        yield f"{name} has a name that is no text"
    elif bool(row.user_id) == bool(row.lone_thread):
        yield f"{name} is not just one of a user and a lone thread"
    if not isinstance(row.generation, int) or not isinstance(row.epoch, int):
        yield f"{name} has a generation that is no number"
    elif not 0 <= row.generation <= row.epoch:
        yield f"{name} is of generation {row.generation}, but the file's epoch is {row.epoch}"


class ThreadColumns(NamedTuple):
    """A row of `threads`, and the names of its owner."""

    thread_id: Any
    user_id: Any
    lone_thread: Any


def thread_faults(row: ThreadColumns) -> Iterator[str]:
    """Yield what is wrong with a thread."""
    name = f"thread {_name(row.thread_id)}"
    if not isinstance(row.thread_id, str) or not row.thread_id:
        yield f"{name} has an id that is no text"
    if row.user_id is None:
        yield f"{name} has no owner"
    elif row.user_id == "" and row.thread_id != row.lone_thread:
        yield f"{name} of no user belongs to the lone thread {_name(row.lone_thread)}"


# -- entries ------------------------------------------------------------------------------------


class EntryColumns(NamedTuple):
    """A row of `entries`, and the names of its thread."""

    position: Any
    id: Any
    turn: Any
    role: Any
    key_hash: Any
    body: Any
    metadata: Any
    thread: Any
    thread_id: Any
    user_id: Any
    generation: Any
    is_numbered: Any

    @property
    def place(self) -> str:
        """Position and thread, in words."""
        return _place(self.position, self.thread_id, self.user_id)


class JudgedEntry(NamedTuple):
    """What is wrong with an entry, and the ids that it points at if it is a control entry."""

    faults: list[str]
    targets: tuple[str, ...]


def judged_entry(row: EntryColumns) -> JudgedEntry:
    """Return what is wrong with an entry, seen by itself."""
    faults = list(_column_faults(row))
    targets: tuple[str, ...] = ()
    try:
        _, _, control, _ = decode_body(row.body)
    except (TypeError, ValueError):
        # What the decoder says may quote the message.
        faults.append("its body cannot be read")
    else:
        faults += _key_faults(row)
        if (row.role == ROLES.index("control")) != (control is not None):
            faults.append("its role and its body do not agree on whether it is a control entry")
        if control is not None:
            replacement = () if control.replacement is None else (control.replacement,)
            targets = (*control.retracts, *replacement)
    return JudgedEntry([f"{row.place}: {fault}" for fault in faults], targets)


def _column_faults(row: EntryColumns) -> Iterator[str]:
    if row.thread_id is None:
        yield "it belongs to no thread"
    if row.position < 1:
        yield "its position is not positive"
    if not _can(ulid_text, row.id):
        yield "its id is damaged"
    elif row.is_numbered and ulid_number(ulid_text(row.id)) != row.position:
        yield "its id tells another position"
    if row.turn is not None and not _can(unpack, row.turn):
        yield "its turn is damaged"
    if row.role not in range(len(ROLES)):
        yield "its role is unknown"
    if not _can(lambda text: decode_metadata(text, created_ms=0), row.metadata):
        yield "its metadata cannot be read"


def _can(read: Any, value: Any) -> bool:
    try:
        read(value)
    except (TypeError, ValueError):
        return False
    return True


def _key_faults(row: EntryColumns) -> Iterator[str]:
    if not _can(ulid_text, row.id):
        return
    is_control = row.role == ROLES.index("control")
    key = None if is_control else key_hash(message_id_of(ulid_text(row.id), row.body))
    if row.key_hash != key:
        yield "its message would not be found by its id"


# -- documents and segments ---------------------------------------------------------------------


class DocumentColumns(NamedTuple):
    """A row of `documents`, and the names of its thread."""

    name: Any
    version: Any
    value: Any
    thread_id: Any
    user_id: Any


def document_faults(row: DocumentColumns) -> Iterator[str]:
    """Yield what is wrong with a state document."""
    whose = f"thread {_name(row.thread_id)}" if row.thread_id is not None else "no known thread"
    of_user = f" of user {_name(row.user_id)}" if row.user_id else ""
    name = f"document {_name(row.name)} of {whose}{of_user}"
    if row.thread_id is None:
        yield f"{name} belongs to no thread"
    if not isinstance(row.name, str) or not isinstance(row.version, int):
        yield f"{name} has a damaged name or version"
    if not isinstance(row.value, str) or not _can(loads, row.value):
        yield f"{name} cannot be read"


class SegmentColumns(NamedTuple):
    """A row of `segments` without its vector, what it refers to, and the names of its thread."""

    position: Any
    terms: Any
    vector_kind: Any
    vector_bytes: Any
    entry: Any
    fingerprint: Any
    thread_id: Any
    user_id: Any


def segment_faults(row: SegmentColumns) -> Iterator[str]:
    """Yield what is wrong with a derived index row."""
    place = _place(row.position, row.thread_id, row.user_id)
    if row.entry is None:
        yield f"{place}: an index row belongs to no entry"
    if not isinstance(row.fingerprint, str):
        yield f"{place}: an index row belongs to no embedder"
    if not isinstance(row.terms, str):
        yield f"{place}: the words of an index row are no text"
    if row.vector_kind != "null" and (
        row.vector_kind != "blob" or row.vector_bytes % _HALF_FLOAT_BYTES
    ):
        yield f"{place}: the vector of an index row is damaged"
