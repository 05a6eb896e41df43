"""What an append adds to a thread, decided from what the thread holds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from langchain_convmem.ids import new_ulid
from langchain_convmem.integrations.base_store_layout import StoredRow
from langchain_convmem.logs.rows import (
    Row,
    entry_of,
    message_id_of,
    own_id,
    replacement_control,
    same_payload,
)
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.views.codec import encode_body
from langchain_convmem.views.live import retracted_ids

__all__ = ["EncodedDraft", "ThreadIndex", "planned"]

EncodedDraft = tuple[Draft, str, str | None]
"""A draft with its body and metadata text."""

_ANY = ThreadKey(None, "-")  # controls are judged by their ids alone


class ThreadIndex:
    """Which messages a thread holds, by their ids: a cache, made from the thread's rows.

    Attributes:
        generation: That of the owner when it was made; with another one it is void.
        base: That of the owner.
        size: How many of the thread's entries it has seen.
        numbers: The number of every entry by the entry's id.
    """

    def __init__(self, generation: int, base: int) -> None:
        """Make the index of an empty thread."""
        self.generation = generation
        self.base = base
        self.size = 0
        self.numbers: dict[str, int] = {}
        self._versions: dict[str, list[str]] = {}
        self._controls: list[Entry] = []
        self._dead: frozenset[str] | None = frozenset()

    def add(self, rows: Iterable[StoredRow]) -> None:
        """Take in further rows, in order."""
        for item in rows:
            row = item.row
            self.size += 1
            self.numbers[row.id] = item.number
            if row.role == "control":
                self._controls.append(entry_of(_ANY, row))
                self._dead = None
            else:
                self._versions.setdefault(message_id_of(row.id, row.body), []).append(row.id)

    def live(self, message_id: str | None) -> str | None:
        """Return the id of the entry that counts as the message, if one does."""
        versions = () if message_id is None else self._versions.get(message_id, ())
        if not versions:
            return None
        if self._dead is None:
            self._dead = retracted_ids(self._controls)
        dead = self._dead
        return next((version for version in reversed(versions) if version not in dead), None)

    def named(self, message_ids: Iterable[str]) -> list[int]:
        """Return the numbers of all entries with these message ids, in order."""
        versions = (self._versions.get(message_id, ()) for message_id in set(message_ids))
        return sorted(self.numbers[version] for some in versions for version in some)


def planned(
    encoded: Sequence[EncodedDraft],
    index: ThreadIndex,
    there: Mapping[str, Row],
    place: Callable[[], tuple[int, int]],
    thread_id: str,
) -> tuple[list[StoredRow], list[Row]]:
    """Return the rows to write, and the row that each draft is or already was.

    Args:
        encoded: The drafts.
        index: What the thread holds; takes in what is planned.
        there: Rows by entry id: those of live messages that drafts may repeat.
        place: Gives the next number and position.
        thread_id: The thread.
    """
    plan = _Plan(index, dict(there), place, thread_id)
    answers = [plan.put(*parts) for parts in encoded]
    return plan.rows, answers


class _Plan:
    """An append under way."""

    def __init__(
        self,
        index: ThreadIndex,
        known: dict[str, Row],
        place: Callable[[], tuple[int, int]],
        thread_id: str,
    ) -> None:
        self._index = index
        self._known = known
        self._place = place
        self._thread_id = thread_id
        self.rows: list[StoredRow] = []

    def put(self, draft: Draft, body: str, metadata: str | None) -> Row:
        live = self._index.live(own_id(draft))
        before = None if live is None else self._known.get(live)
        if before is None:
            return self._add(new_ulid(), draft, body, metadata)
        if same_payload(before.body, body):
            return before
        mark_id, entry_id = new_ulid(), new_ulid()
        mark = replacement_control(before.id, entry_id)
        self._add(mark_id, mark, encode_body(mark), None)
        return self._add(entry_id, replace(draft, turn_id=before.turn_id), body, metadata)

    def _add(self, entry_id: str, draft: Draft, body: str, metadata: str | None) -> Row:
        number, position = self._place()
        row = Row(entry_id, position, draft.turn_id or entry_id, draft.role, body, metadata)
        item = StoredRow(self._thread_id, number, row)
        self.rows.append(item)
        self._known[entry_id] = row
        self._index.add([item])
        return row
