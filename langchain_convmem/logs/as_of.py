"""`LogAsOf`: a log as it was at an earlier time, read-only; what `memory.as_of` reads.

Time is that of the entries' ids: when they were written, not when they were said. What was erased
since is not there either; what was added to an entry's metadata later is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn, TypeAlias

from langchain_convmem.causes import describe_value
from langchain_convmem.effects import Steps, perform, run_async, run_sync
from langchain_convmem.errors import ConfigError, ReadOnlyError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_ulid_ms, is_ulid
from langchain_convmem.protocols import (
    LineSource,
    MessageLog,
    OwnerListing,
    SegmentCache,
    is_valid_for,
)
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.lines import make_dialog_lines

PointInTime: TypeAlias = "datetime | int | str"
"""A moment: with its zone, in milliseconds since the epoch, as ISO 8601, or the id of an entry."""

_PAGE = 2_000


class LogBound:
    """Up to where a log is read: a time, or an entry."""

    def __init__(self, when: PointInTime) -> None:
        """Read a point in time.

        Args:
            when: A datetime with its zone; milliseconds since the epoch; ISO 8601 (a day alone is
                its beginning, and what names no zone is UTC); or the id of an entry, with which
                the log ends.

        Raises:
            ConfigError: If it is none of these.
        """
        self._last: str | None = None
        if isinstance(when, str) and is_ulid(when):
            self._last = when
            self.time_ms = get_ulid_ms(when)
        else:
            self.time_ms = _read_time(when)

    def is_before_end(self, entry_id: str) -> bool:
        """Return whether an entry had been written."""
        if self._last is not None:
            return entry_id <= self._last
        return get_ulid_ms(entry_id) <= self.time_ms


def _read_time(when: Any) -> int:
    if isinstance(when, str):
        try:
            when = datetime.fromisoformat(when)
        except ValueError:
            raise _make_refusal(when) from None
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ConfigError(f"as_of needs a datetime with its zone, got {describe_value(when)}")
        return int(when.timestamp() * 1000)
    if isinstance(when, bool) or not isinstance(when, int) or when < 0:
        raise _make_refusal(when)
    return when


def _make_refusal(when: object) -> ConfigError:
    msg = (
        "as_of takes a datetime with its zone, milliseconds since the epoch, ISO 8601 such as "
        f"'2026-05-01T12:00Z', or the id of an entry, got {describe_value(when)}"
    )
    return ConfigError(msg)


class LogAsOf:
    """A log as it was; a `MessageLog` that refuses every write. Thread-safe.

    Closing it closes nothing: the log that it reads stays the caller's.
    """

    def __init__(self, log: MessageLog, bound: LogBound) -> None:
        """Read a log up to a bound."""
        self.log = log
        self._bound = bound
        self._lock = make_lock()
        self._ends: dict[tuple[Owner, int], int] = {}

    def __repr__(self) -> str:
        return f"LogAsOf({self.log!r})"

    # -- reading ----------------------------------------------------------------------------------

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        return self._select(self.log.entries(key, after=after, until=until), last)

    async def aentries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries, without blocking the event loop."""
        return self._select(await self.log.aentries(key, after=after, until=until), last)

    def _select(self, entries: Iterable[Entry], last: int | None = None) -> list[Entry]:
        known = [entry for entry in entries if self._bound.is_before_end(entry.id)]
        return known if last is None else known[len(known) - min(last, len(known)) :]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries of message ids; see `MessageLog.find`."""
        return self._select(self.log.find(key, message_ids))

    async def afind(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Find entries, without blocking the event loop."""
        return self._select(await self.log.afind(key, message_ids))

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return the threads that a user had, latest first; see `MessageLog.threads`."""
        return run_sync(self._list_threads_steps(user_id))

    async def athreads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, without blocking the event loop."""
        return await run_async(self._list_threads_steps(user_id))

    def _list_threads_steps(self, user_id: str | None) -> Steps[list[ThreadInfo]]:
        now: list[ThreadInfo] = yield from perform(self.log.threads, self.log.athreads, user_id)
        then = []
        for info in now:
            if self._bound.time_ms >= info.last_ms and self._is_complete(info):
                then.append(info)
                continue
            if info.first_ms > self._bound.time_ms:
                continue
            entries: list[Entry] = yield from perform(self.entries, self.aentries, info.key)
            if entries:
                last_ms = max(get_ulid_ms(entry.id) for entry in entries)
                then.append(replace(info, entries=len(entries), last_ms=last_ms))
        return sorted(then, key=lambda info: info.last_ms, reverse=True)

    def _is_complete(self, info: ThreadInfo) -> bool:
        """Return whether nothing of a thread can have been written since."""
        return self._bound.time_ms > info.last_ms

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after a cursor; see `MessageLog.changes`."""
        return run_sync(self._read_changes_steps(owner, cursor, limit))

    async def achanges(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return changes, without blocking the event loop."""
        return await run_async(self._read_changes_steps(owner, cursor, limit))

    def _read_changes_steps(self, owner: Owner, cursor: int, limit: int | None) -> Steps[Changes]:
        found: list[Entry] = []
        at = self._skip(owner, cursor)
        size = _PAGE if limit is None else limit
        while True:
            page: Changes = yield from perform(
                self.log.changes, self.log.achanges, owner, at, limit=size
            )
            found += self._select(page.entries)
            if not page.entries or page.cursor == at:
                break
            at = page.cursor
            if limit is not None and found:
                return Changes(tuple(found), at, page.generation)
        if not found:
            self._note_end(owner, cursor, at)
        return Changes(tuple(found), at if found else cursor, page.generation)

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return lines after a cursor; see `LineSource.line_changes`."""
        read = self._choose_lines()
        lines: list[Any] = []
        controls: list[Entry] = []
        at = self._skip(owner, cursor)
        size = _PAGE if limit is None else limit
        while True:
            page = read(owner, at, limit=size)
            lines += (line for line in page.lines if self._bound.is_before_end(line.entry_id))
            controls += self._select(page.controls)
            if page.cursor == at:
                break
            at = page.cursor
            if page.is_last:
                break
            if limit is not None and (lines or controls):
                return LineChanges(tuple(lines), tuple(controls), at, page.generation)
        is_empty = not lines and not controls
        if is_empty:
            self._note_end(owner, cursor, at)
        end = cursor if is_empty else at
        return LineChanges(tuple(lines), tuple(controls), end, page.generation, is_last=True)

    def _choose_lines(self) -> Callable[..., LineChanges]:
        log = self.log
        if isinstance(log, LineSource) and is_valid_for(log, "line_changes", "changes"):
            return log.line_changes

        def read(owner: Owner, cursor: int, *, limit: int | None) -> LineChanges:
            page = log.changes(owner, cursor, limit=limit)
            return LineChanges(
                tuple(line for entry in page.entries for line in make_dialog_lines(entry)),
                tuple(entry for entry in page.entries if entry.control is not None),
                page.cursor if page.entries else cursor,
                page.generation,
                not page.entries,
            )

        return read

    def _skip(self, owner: Owner, cursor: int) -> int:
        """Return from where to read on: what was written since was passed over before."""
        with self._lock:
            return max(cursor, self._ends.get((owner, cursor), cursor))

    def _note_end(self, owner: Owner, cursor: int, at: int) -> None:
        """Note that nothing that is shown stands between a cursor and a later one."""
        with self._lock:
            self._ends[owner, cursor] = at

    # -- what recall has kept ---------------------------------------------------------------------

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return what recall keeps of lines, later ones among them; see `SegmentCache`."""
        if not isinstance(self.log, SegmentCache):
            return []
        return self.log.load_segments(owner, fingerprint, after=after)

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Keep nothing."""

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return the fingerprints of what is kept; see `SegmentCache`."""
        if not isinstance(self.log, SegmentCache):
            return []
        return self.log.segment_fingerprints(owner)

    def owners(self) -> list[Owner]:
        """Return whose entries the log holds now; see `OwnerListing`."""
        return list(self._get_owner_listing().owners())

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        return list(await self._get_owner_listing().aowners())

    def _get_owner_listing(self) -> OwnerListing:
        if not isinstance(self.log, OwnerListing):
            raise ConfigError(f"{type(self.log).__name__} cannot list whose entries it has")
        return self.log

    # -- writing, which is refused ----------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Refuse; nothing is written into the past."""
        del key, drafts, durable
        _refuse()

    async def aappend(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Refuse; nothing is written into the past."""
        return self.append(key, drafts, durable=durable)

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Refuse; nothing is written into the past."""
        del key, entry_id, attributes, timing, aux
        _refuse()

    async def aannotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Refuse; nothing is written into the past."""
        refuse = partial(self.annotate, key, entry_id, attributes=attributes)
        return refuse(timing=timing, aux=aux)

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Refuse; the log itself forgets, and then its past has forgotten as well."""
        del scope, entry_ids
        _refuse()

    async def aforget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Refuse; see `forget`."""
        return self.forget(scope, entry_ids)

    def close(self) -> None:
        """Close nothing."""

    async def aclose(self) -> None:
        """Close nothing."""


def _refuse() -> NoReturn:
    msg = (
        "a memory as_of an earlier time is read-only; write with the memory that it was made of, "
        "or fork the thread there with memory.fork(...)"
    )
    raise ReadOnlyError(msg)
