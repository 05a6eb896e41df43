"""`LogAsOf`: a log as it was at an earlier time, read-only; what `memory.as_of` reads.

Time is that of the entries' ids: when they were written, not when they were said. What was erased
since is not there either; what was added to an entry's metadata later is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import get_ulid_ms, is_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import (
    Changes,
    Entry,
    Owner,
    StateDocument,
    StoredSegment,
    ThreadInfo,
    ThreadKey,
)

PointInTime: TypeAlias = "datetime | int | str"
"""A moment: with its zone, in milliseconds since the epoch, as ISO 8601, or the id of an entry."""

# Where so many entries in a row are later, all that follow are.
_PAGE = 500


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
        self._last = when if isinstance(when, str) and is_ulid(when) else None
        self.time_ms = _read_time(when) if self._last is None else get_ulid_ms(self._last)

    def is_before_end(self, entry_id: str) -> bool:
        """Return whether an entry had been written; of one without a sound id, nobody knows."""
        if not is_ulid(entry_id):
            return True
        if self._last is not None:
            return entry_id <= self._last
        return get_ulid_ms(entry_id) <= self.time_ms


def _read_time(when: Any) -> int:
    if isinstance(when, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(when)
            when = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if isinstance(when, datetime) and when.tzinfo is not None:
        return int(when.timestamp() * 1000)
    if type(when) is int and when >= 0:
        return when
    found = describe_value(when) + (" without one" if isinstance(when, datetime) else "")
    msg = (
        "as_of and before take a datetime with its zone, milliseconds since the epoch, ISO 8601 "
        f"such as '2026-05-01T12:00Z', or the id of an entry, got {found}"
    )
    raise ConfigError(msg)


class LogAsOf(MessageLog):
    """A log as it was; a `MessageLog` that refuses every write. Thread-safe.

    Closing it closes nothing: the log that it reads stays the caller's.
    """

    def __init__(self, log: MessageLog, bound: LogBound) -> None:
        """Read a log up to a bound."""
        self.log = log
        self._bound = bound
        self.keeps_segments = log.keeps_segments

    def __repr__(self) -> str:
        return f"LogAsOf({self.log!r})"

    # -- reading ----------------------------------------------------------------------------------

    def entries(
        self, key: ThreadKey, *, after: int = 0, until: int | None = None, last: int | None = None
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        known = self._select(self.log.entries(key, after=after, until=until))
        return known if last is None else known[len(known) - min(last, len(known)) :]

    def _select(self, entries: Iterable[Entry]) -> list[Entry]:
        return [entry for entry in entries if self._bound.is_before_end(entry.id)]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries of message ids; see `MessageLog.find`."""
        return self._select(self.log.find(key, message_ids))

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return the threads that a user had, latest first; see `MessageLog.threads`."""
        then = []
        for info in self.log.threads(user_id):
            if info.last_ms < self._bound.time_ms:
                then.append(info)
            elif info.first_ms <= self._bound.time_ms and (known := self.entries(info.key)):
                latest = known[-1].id
                last_ms = get_ulid_ms(latest) if is_ulid(latest) else info.first_ms
                then.append(replace(info, entries=len(known), last_ms=last_ms))
        return sorted(then, key=lambda info: info.last_ms, reverse=True)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after a cursor; see `MessageLog.changes`."""
        found: list[Entry] = []
        while True:
            page = self.log.changes(owner, cursor, limit=_PAGE)
            known = self._select(page.entries)[: None if limit is None else limit - len(found)]
            if not known:
                return Changes(tuple(found), cursor, page.generation)
            found += known
            cursor = known[-1].position

    def owners(self) -> list[Owner]:
        """Return whose entries the log holds now; see `MessageLog.owners`."""
        return self.log.owners()

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return no document: which there were then, nobody knows."""
        del key, name
        return None

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return what recall keeps of lines, later ones among them; what is derived anew goes."""
        return self.log.load_segments(owner, fingerprint, after=after)

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return the fingerprints of what is kept; see `MessageLog.segment_fingerprints`."""
        return self.log.segment_fingerprints(owner)

    # -- writing, which is refused ----------------------------------------------------------------

    def _refuse_to_write(self, *_: Any, **__: Any) -> Any:
        """Refuse; nothing is written into the past, and what the log forgets is gone from it too.

        Raises:
            LogError: Always.
        """
        msg = (
            "a memory as_of an earlier time is read-only; write with the memory that it was made "
            "of, or fork the thread there with memory.fork(...)"
        )
        raise LogError(msg)

    append = annotate = forget = set_state = delete_state = append_planned = _refuse_to_write
