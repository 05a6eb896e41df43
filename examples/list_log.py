"""A whole message log in memory, written with the kit `langchain_convmem.logs.base`.

The page "Your own log" says what its methods promise.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.ids import get_now_ms, get_ulid_ms
from langchain_convmem.logs import base as kit
from langchain_convmem.message_log import CACHE_PREFIX
from langchain_convmem.records import ForgetReceipt, Owner, StateDocument, ThreadInfo, ThreadKey
from langchain_convmem.views.codec import load_json

if TYPE_CHECKING:
    from langchain_convmem.records import Changes, Draft, Entry


class ListLog(kit.StoredLog):
    """A log whose rows are a list, so it ends with its process."""

    def __init__(self) -> None:
        """Make an empty log."""
        self.rows, self.documents = [], {}
        self.last_position = self.generation = 0
        self.lock, self.is_closed = threading.RLock(), False

    def check_open(self) -> None:
        """Refuse what comes after `close`."""
        if self.is_closed:
            raise LogClosedError("the list is closed; make a new one")

    def close(self) -> None:
        """Close the log; what it held is gone with it."""
        self.is_closed = True
        super().close()

    def read(self, *scopes: Owner | ThreadKey) -> list[tuple[ThreadKey, kit.Row]]:
        """Return rows with their threads, of these threads or owners; without any, all."""
        self.check_open()
        with self.lock:
            pairs = list(self.rows)
        return [(key, row) for key, row in pairs if not scopes or {key, key.owner} & {*scopes}]

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append entries, all or none; see `MessageLog.append`."""
        del durable  # memory lasts only as long as its process
        batch = kit.encode_drafts(drafts)
        with self.lock:
            stored = [row for _, row in self.read(key)]
            plan = kit.plan_append(batch, stored, first_position=self.last_position + 1)
            # Only the encoded text is kept: the message objects belong to the caller.
            self.rows += [(key, replace(row, decoded=None)) for row in plan.added]
            self.last_position += len(plan.added)
        return plan.build_entries(key)

    def entries(
        self, key: ThreadKey, *, after: int = 0, until: int | None = None, last: int | None = None
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        end = kit.cap_bound(until)
        rows = [row for _, row in self.read(key) if after < row.position <= end]
        first = max(0, len(rows) - kit.cap_count(last))
        return [kit.decode_entry(key, row) for row in rows[first:]]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        kit.check_ids(message_ids)
        entries = [entry for entry in self.entries(key) if entry.control is None]
        return [entry for entry in entries if entry.message_id in message_ids]

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata; see `MessageLog.annotate`."""
        added = {"attributes": attributes, "timing": timing, "aux": aux}
        with self.lock:
            for _, row in self.read(key):
                if row.id == entry_id:
                    row.metadata = kit.annotate_metadata(row.metadata, **added)
                    return kit.decode_entry(key, row)
        raise LogError(f"thread {key.thread_id!r} has no entry {entry_id!r}; see entries")

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        kit.check_user(user_id)
        found = {}
        for key, row in reversed(self.read()):
            if key.user_id == user_id:
                found.setdefault(key, []).append(get_ulid_ms(row.id))
        return [ThreadInfo(key, len(ms), min(ms), max(ms)) for key, ms in found.items()]

    def owners(self) -> list[Owner]:
        """Return all owners; see `MessageLog.owners`."""
        return list({key.owner: None for key, _ in self.read()})

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return what is new behind a cursor; see `MessageLog.changes`."""
        with self.lock:
            rows = [pair for pair in self.read(owner) if pair[1].position > cursor]
            return kit.build_changes(rows[: kit.cap_count(limit)], cursor, self.generation)

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase entries, a thread or an owner; see `MessageLog.forget`."""
        kit.check_scope(scope, entry_ids)
        with self.lock:
            rows, documents = self.read(scope), self.documents.keys()
            documents = [one for one in documents if scope in (one[0], one[0].owner)]
            threads = {key for key, _ in rows + documents}
            if entry_ids is not None:
                rows = [pair for pair in rows if self.is_named(pair[1], entry_ids)]
                documents = [one for one in documents if one[1].startswith(CACHE_PREFIX)]
                threads = set()
            positions = {row.position for _, row in rows}
            self.rows = [pair for pair in self.rows if pair[1].position not in positions]
            for one in documents:
                del self.documents[one]
            self.generation += 1
        return ForgetReceipt(len(rows), len(threads), 0, len(documents), at_ms=get_now_ms())

    def is_named(self, row: kit.Row, entry_ids: Collection[str]) -> bool:
        """Say whether an entry goes by one of these ids."""
        return row.id in entry_ids or kit.read_message_id(row.id, row.body) in entry_ids

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return a document beside a thread; see `MessageLog.get_state`."""
        self.check_open()
        text, version = self.documents.get((key, name), (None, None))
        return None if version is None else StateDocument(load_json(text), version)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None, durable: bool = True
    ) -> StateDocument | None:
        """Write a document if it has the expected version; see `MessageLog.set_state`."""
        del durable
        text = kit.encode_state(value)
        with self.lock:
            found = self.get_state(key, name)
            if (found.version if found else None) != expected:
                return None
            self.documents[key, name] = text, kit.make_version(expected)
            return self.get_state(key, name)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete a document; see `MessageLog.delete_state`."""
        self.check_open()
        with self.lock:
            self.documents.pop((key, name), None)
