"""What each call of a PostgreSQL log does, as steps: checks, transactions, and one more try."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from langchain_convmem.effects import Step, Steps, step
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.logs.postgres import beside, reading, writing
from langchain_convmem.logs.postgres.connections import Connections
from langchain_convmem.logs.postgres.erasing import forget
from langchain_convmem.logs.postgres.schema import is_current, migrate
from langchain_convmem.logs.postgres.transactions import (
    ConnectionLostError,
    Job,
    Mode,
    Transaction,
)
from langchain_convmem.logs.rows import (
    check_ids,
    check_scope,
    check_user,
    encode,
    next_version,
    state_text,
)
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    StateDocument,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import loads

__all__ = ["Calls"]

T = TypeVar("T")

_SEGMENTS_AT_ONCE = 1000
"""Segments per transaction: an owner's other writers wait for one such portion at most."""
_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Between questions about a commit whose answer was lost."""


class Calls:
    """One method per call, each returning the steps that make it, for `run` or `arun`."""

    def __init__(self, connections: Connections) -> None:
        """Make calls over `connections`."""
        self._connections = connections
        self._prepared = False

    # -- the log --------------------------------------------------------------------------------

    def setup(self) -> Steps[None]:
        """Create or migrate the schema if need be."""
        self._connections.check_open()
        if not self._prepared:
            if not (yield from self._tried(Mode.READ, is_current)):
                yield from self._tried(Mode.ERASE, migrate)
            self._prepared = True

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool
    ) -> Steps[list[Entry]]:
        """See `MessageLog.append`."""
        encoded = encode(drafts)
        self._connections.check_open()
        if not encoded:
            return []
        job = partial(writing.append, key=key, encoded=encoded)
        return (yield from self._call(Mode.RELAXED if relaxed else Mode.WRITE, job))

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str],
        timing: Mapping[str, int] | None,
        aux: Mapping[str, Any] | None,
    ) -> Steps[Entry]:
        """See `MessageLog.annotate`."""
        job = partial(
            writing.annotate,
            key=key,
            entry_id=entry_id,
            attributes=attributes,
            timing=timing,
            aux=aux,
        )
        return (yield from self._call(Mode.WRITE, job))

    def entries(
        self, key: ThreadKey, *, after: int, until: int | None, last: int | None
    ) -> Steps[list[Entry]]:
        """See `MessageLog.entries`."""
        job = partial(reading.entries, key=key, after=after, until=until, last=last)
        return (yield from self._call(Mode.READ, job))

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> Steps[list[Entry]]:
        """See `MessageLog.find`."""
        check_ids(message_ids)
        job = partial(reading.find, key=key, message_ids=frozenset(message_ids))
        return (yield from self._call(Mode.READ, job))

    def threads(self, user_id: str | None) -> Steps[list[ThreadInfo]]:
        """See `MessageLog.threads`."""
        check_user(user_id)
        job = partial(reading.threads, user_id=user_id)
        return (yield from self._call(Mode.READ, job))

    def owners(self) -> Steps[list[Owner]]:
        """See `OwnerListing.owners`."""
        return (yield from self._call(Mode.READ, reading.owners))

    def changes(self, owner: Owner, cursor: int, *, limit: int | None) -> Steps[Changes]:
        """See `MessageLog.changes`."""
        job = partial(reading.changes, owner=owner, cursor=cursor, limit=limit)
        return (yield from self._call(Mode.READ, job))

    def line_changes(self, owner: Owner, cursor: int, *, limit: int | None) -> Steps[LineChanges]:
        """See `LineSource.line_changes`."""
        job = partial(reading.line_changes, owner=owner, cursor=cursor, limit=limit)
        return (yield from self._call(Mode.READ, job))

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None
    ) -> Steps[ForgetReceipt]:
        """See `MessageLog.forget`."""
        check_scope(scope, entry_ids)
        ids = None if entry_ids is None else tuple(entry_ids)
        job = partial(forget, scope=scope, entry_ids=ids)
        return (yield from self._call(Mode.ERASE, job))

    # -- documents and segments -----------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> Steps[StateDocument | None]:
        """See `ThreadState.get_state`."""
        job = partial(beside.get_state, key=key, name=name)
        return (yield from self._call(Mode.READ, job))

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> Steps[StateDocument | None]:
        """See `ThreadState.set_state`."""
        text = state_text(value)
        version = next_version(expected)
        job = partial(
            beside.set_state, key=key, name=name, text=text, expected=expected, version=version
        )
        written = yield from self._call(Mode.WRITE, job)
        return StateDocument(loads(text), version) if written else None

    def delete_state(self, key: ThreadKey, name: str) -> Steps[None]:
        """See `ThreadState.delete_state`."""
        job = partial(beside.delete_state, key=key, name=name)
        yield from self._call(Mode.WRITE, job)

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int
    ) -> Steps[list[StoredSegment]]:
        """See `SegmentCache.load_segments`."""
        job = partial(beside.load_segments, owner=owner, fingerprint=fingerprint, after=after)
        return (yield from self._call(Mode.READ, job))

    def save_segments(
        self, owner: Owner, fingerprint: str, rows: Sequence[StoredSegment]
    ) -> Steps[None]:
        """See `SegmentCache.save_segments`. They can be made again, so no disk is waited for."""
        for start in range(0, len(rows), _SEGMENTS_AT_ONCE):
            portion = rows[start : start + _SEGMENTS_AT_ONCE]
            job = partial(beside.save_segments, owner=owner, fingerprint=fingerprint, rows=portion)
            yield from self._call(Mode.RELAXED, job)

    def segment_fingerprints(self, owner: Owner) -> Steps[list[str]]:
        """See `SegmentCache.segment_fingerprints`."""
        return (yield from self._call(Mode.READ, partial(beside.segment_fingerprints, owner=owner)))

    def delete_segments(self, owner: Owner, fingerprint: str) -> Steps[int]:
        """See `SegmentCache.delete_segments`."""
        portion = partial(
            beside.delete_segments, owner=owner, fingerprint=fingerprint, most=_SEGMENTS_AT_ONCE
        )
        deleted = gone = yield from self._call(Mode.RELAXED, portion)
        while gone == _SEGMENTS_AT_ONCE:
            gone = yield from self._call(Mode.RELAXED, portion)
            deleted += gone
        return deleted

    # -- running them ---------------------------------------------------------------------------

    def _call(self, mode: Mode, job: Job[T]) -> Steps[T]:
        yield from self.setup()
        return (yield from self._tried(mode, job))

    def _tried(self, mode: Mode, job: Job[T]) -> Steps[T]:
        """Run a job; once more, on a new connection, where the first was lost before its commit.

        A server that restarted leaves every idle connection broken, and the first call to use one
        would fail for nothing: what was not committed is undone.
        """
        try:
            return (yield from self._once(mode, job))
        except ConnectionLostError:
            yield step(self._connections, "drop_idle")
        return (yield from self._once(mode, job))

    def _once(self, mode: Mode, job: Job[T]) -> Steps[T]:
        """Run a job; one whose commit was carried out is done, whether the answer came or not."""
        try:
            result: T = yield step(self._connections, "transact", mode, job)
        except ConnectionLostError as lost:
            if lost.transaction is None or not lost.transaction.committing:
                raise
            result = yield from self._outcome(lost, lost.transaction)
        return result

    def _outcome(self, lost: ConnectionLostError, transaction: Transaction) -> Steps[Any]:
        """Ask the server what became of a commit whose answer was lost."""
        yield step(self._connections, "drop_idle")
        for pause_s in _PAUSES_S:
            fate = yield from self._fate(transaction)
            if fate == "committed":
                return transaction.result
            if fate == "aborted":
                raise LogUnavailableError(f"{lost}; nothing was written") from lost
            yield Step(partial(time.sleep, pause_s), partial(asyncio.sleep, pause_s))
        msg = f"{lost}; whether it was written is not known: repeat it with the same message ids"
        raise LogUnavailableError(msg) from lost

    def _fate(self, transaction: Transaction) -> Steps[str | None]:
        job = partial(_status, xid=transaction.xid)
        try:
            fate: str | None = yield step(self._connections, "transact", Mode.READ, job)
        except LogUnavailableError:
            return None  # the server may be back for the next question
        return fate


def _status(tx: Transaction, xid: str | None) -> Steps[str | None]:
    [(status,)] = yield tx.query("SELECT pg_xact_status(%s::text::xid8)", xid)
    fate: str | None = status
    return fate
