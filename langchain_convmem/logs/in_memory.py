"""`InMemoryLog`: the same promises as a log on disk, for tests, scripts and `:memory:`."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms, get_ulid_ms
from langchain_convmem.logs.base import (
    AppendPlan,
    EncodedDraft,
    Row,
    TransactionTwins,
    annotate_metadata,
    annotate_row,
    build_changes,
    build_line_changes,
    check_ids,
    check_scope,
    check_user,
    decode_entry,
    encode_drafts,
    encode_state,
    list_own_ids,
    make_twin,
    make_version,
    merge_entries,
    note_damage,
    plan_append,
    read_message_id,
)
from langchain_convmem.logs.signatures import Signer
from langchain_convmem.protocols import CACHE_PREFIX, Stretch
from langchain_convmem.records import (
    CacheDraft,
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import load_json

P = ParamSpec("P")
T = TypeVar("T")


class InMemoryLog(TransactionTwins):
    """A message log that lives as long as the object. Thread-safe; one process only.

    Rows are kept encoded, so that a message changed after it was added, or after it was handed
    out, changes nothing here.
    """

    ends_with_process: Literal[True] = True
    """Nothing outlives the process, so what recall derives need not either."""

    def __init__(self) -> None:
        self._lock = make_lock()
        self._signer = Signer()
        self._threads: dict[ThreadKey, _StoredThread] = {}
        self._generations: dict[Owner, int] = {}
        self._epoch = 0
        self._position = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"InMemoryLog({len(self._threads)} threads)"

    async def _run_off_loop(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        await asyncio.sleep(0)  # nothing here waits, but other tasks must get their turn
        return call(*args, **kwargs)

    def close(self) -> None:
        """Refuse later calls. Idempotent."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError("the log in memory is closed; make a new InMemoryLog()")

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts; see `MessageLog.append`. `durable` changes nothing here."""
        del durable
        batch = encode_drafts(drafts)
        self._check_open()
        if not batch:
            return []
        with self._lock:
            thread = self._make_thread(key)
            plan = self._plan(thread, batch)
            self._position += len(plan.added)
            for row in plan.added:
                thread.add(row)
        return plan.build_entries(key)

    def _plan(self, thread: _StoredThread, batch: Sequence[EncodedDraft]) -> AppendPlan:
        return plan_append(
            batch,
            note_damage(self._signer, thread.key, thread.read_stored(batch)),
            first_position=self._position + 1,
            sign=partial(self._signer.sign, thread.key),
        )

    def _make_thread(self, key: ThreadKey) -> _StoredThread:
        self._generations.setdefault(key.owner, self._epoch)
        return self._threads.setdefault(key, _StoredThread(key))

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
        change = partial(annotate_metadata, attributes=attributes, timing=timing, aux=aux)
        with self._lock:
            self._check_open()
            rows = self._threads[key].rows if key in self._threads else []
            for number, row in enumerate(rows):
                if row.id == entry_id:
                    rows[number] = annotate_row(key, row, change, self._signer)
                    return decode_entry(key, rows[number], self._signer)
        msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
        raise LogError(msg, thread_id=key.thread_id)

    # -- reading --------------------------------------------------------------------------------

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        with self._lock:
            self._check_open()
            rows = self._threads[key].rows if key in self._threads else []
            start = bisect_right(rows, after, key=_get_position)
            stop = len(rows) if until is None else bisect_right(rows, until, key=_get_position)
            if last is not None:
                start = max(start, stop - max(last, 0))
            kept = rows[start:stop]
        return [decode_entry(key, row, self._signer) for row in kept]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        check_ids(message_ids)
        with self._lock:
            self._check_open()
            rows = self._threads.get(key, _StoredThread(key)).find(message_ids)
        return [decode_entry(key, row, self._signer) for row in rows]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        with self._lock:
            self._check_open()
            found = [
                (thread.rows[-1].id, _build_info(key, thread.rows))
                for key, thread in self._threads.items()
                if key.user_id == user_id and thread.rows
            ]
        return [info for _, info in sorted(found, key=lambda pair: pair[0], reverse=True)]

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        with self._lock:
            self._check_open()
            return list({key.owner for key, thread in self._threads.items() if thread.rows})

    aowners = make_twin(owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        rows, generation = self._read_later(owner, cursor, limit)
        return build_changes(rows, cursor, generation, self._signer)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines after the cursor in commit order; see `LineSource.line_changes`."""
        rows, generation = self._read_later(owner, cursor, limit)
        return build_line_changes(rows, cursor, generation, limit, self._signer)

    def _read_later(
        self, owner: Owner, cursor: int, limit: int | None
    ) -> tuple[list[tuple[ThreadKey, Row]], int]:
        """Return an owner's rows after a cursor, and the generation."""
        with self._lock:
            self._check_open()
            generation = self._generations.get(owner, self._epoch)
            rows = [
                (key, row)
                for key, thread in self._threads.items()
                if key.owner == owner
                for row in thread.rows
                if row.position > cursor
            ]
        rows.sort(key=lambda pair: pair[1].position)
        return rows if limit is None else rows[: max(limit, 0)], generation

    # -- several at once ------------------------------------------------------------------------

    def read_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries; see `ThreadTransactions.read_thread`."""
        with self._lock:
            document = self.get_state(key, name)
            found = [
                entry
                for after, until in stretches(document)
                for entry in self.entries(key, after=after, until=until)
            ]
        return document, found

    def append_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
        documents: Sequence[CacheDraft] = (),
    ) -> list[Entry]:
        """Append what was planned; see `ThreadTransactions.append_planned`."""
        with self._lock:
            found = merge_entries(self.find(key, message_ids), self.entries(key, after=after))
            appended = self.append(key, plan(found))
            for one in documents:
                self.set_state(key, one.name, one.value, expected=one.expected)
        return appended

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`."""
        check_scope(scope, entry_ids)
        with self._lock:
            self._check_open()
            owner = scope.owner if isinstance(scope, ThreadKey) else scope
            self._epoch += 1
            if owner in self._generations:
                self._generations[owner] = self._epoch
            if isinstance(scope, ThreadKey) and entry_ids is not None:
                return self._forget_entries(scope, frozenset(entry_ids))
            keys = [key for key in self._threads if scope in (key, key.owner)]
            gone = [self._threads.pop(key) for key in keys]
            if not any(key.owner == owner for key in self._threads):
                self._generations.pop(owner, None)
        return ForgetReceipt(
            entries=sum(len(thread.rows) for thread in gone),
            threads=len(gone),
            documents=sum(len(thread.documents) for thread in gone),
            at_ms=get_now_ms(),
        )

    def _forget_entries(self, key: ThreadKey, ids: frozenset[str]) -> ForgetReceipt:
        thread = self._threads.get(key, _StoredThread(key))
        rows, thread.rows, thread.versions = thread.rows, [], {}
        for row in rows:
            if ids.isdisjoint((row.id, read_message_id(row.id, row.body))):
                thread.add(row)
        count = len(rows) - len(thread.rows)
        caches = [name for name in thread.documents if name.startswith(CACHE_PREFIX)]
        for name in caches:
            del thread.documents[name]
        return ForgetReceipt(entries=count, documents=len(caches), at_ms=get_now_ms())

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        with self._lock:
            self._check_open()
            documents = self._threads[key].documents if key in self._threads else {}
            found = documents.get(name)
        return None if found is None else StateDocument(load_json(found[0]), found[1])

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        text = encode_state(value)
        with self._lock:
            self._check_open()
            found = self._threads[key].documents.get(name) if key in self._threads else None
            if (None if found is None else found[1]) != expected:
                return None
            version = make_version(expected)
            self._make_thread(key).documents[name] = (text, version)
        return StateDocument(load_json(text), version)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._lock:
            self._check_open()
            if key in self._threads:
                self._threads[key].documents.pop(name, None)

    def list_states(self, user_id: str | None, name: str) -> dict[str, StateDocument]:
        """Return the documents of one name by thread id; see `StateBatches`."""
        check_user(user_id)
        with self._lock:
            self._check_open()
            found = {
                key.thread_id: thread.documents[name]
                for key, thread in self._threads.items()
                if key.user_id == user_id and name in thread.documents
            }
        return {
            thread: StateDocument(load_json(text), version)
            for thread, (text, version) in found.items()
        }

    alist_states = make_twin(list_states)

    def add_states(self, user_id: str | None, name: str, values: Mapping[str, Any]) -> None:
        """Write documents where there are none; see `StateBatches`."""
        for thread_id, value in values.items():
            self.set_state(ThreadKey(user_id, thread_id), name, value, expected=None)

    aadd_states = make_twin(add_states)


@dataclass(slots=True)
class _StoredThread:
    key: ThreadKey
    rows: list[Row] = field(default_factory=list)
    versions: dict[str, list[int]] = field(default_factory=dict)  # message id -> places in rows
    documents: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        if row.role != "control":  # a control entry's id is no message's
            message_id = read_message_id(row.id, row.body)
            self.versions.setdefault(message_id, []).append(len(self.rows))
        self.rows.append(row)

    def find(self, message_ids: Iterable[str]) -> list[Row]:
        places = {place for name in message_ids for place in self.versions.get(name, ())}
        return [self.rows[place] for place in sorted(places)]

    def read_stored(self, batch: Iterable[EncodedDraft]) -> list[Row]:
        """Return what `plan_append` asks for."""
        found = self.find(list_own_ids(batch))
        return found and [*found, *(row for row in self.rows if row.role == "control")]


def _get_position(row: Row) -> int:
    return row.position


def _build_info(key: ThreadKey, rows: Sequence[Row]) -> ThreadInfo:
    return ThreadInfo(key, len(rows), get_ulid_ms(rows[0].id), get_ulid_ms(rows[-1].id))
