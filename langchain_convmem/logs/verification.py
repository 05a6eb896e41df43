"""Whole logs of every kind: each entry is read, and what is not as it was written is named.

A log compares checksums wherever it reads, so to verify one is to read all of it. Entries that are
missing are not noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from langchain_convmem.effects import Steps, perform, run_async, run_sync
from langchain_convmem.errors import ConfigError
from langchain_convmem.protocols import MessageLog, OwnerListing
from langchain_convmem.records import Entry, Owner, ThreadKey

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the entries read so far, and all there are."""

MOST_KEPT = 1_000
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Finding:
    """An entry that is damaged.

    Attributes:
        user_id: Of the thread; None where it belongs to no user, or where that cannot be told.
        thread_id: Of the thread; None where it cannot be told.
        position: Of the entry.
        entry_id: Its id, or `damaged-POSITION` where that cannot be read; `forget` takes both.
        what: What is wrong, in a few words.
    """

    user_id: str | None
    thread_id: str | None
    position: int
    entry_id: str
    what: str


@dataclass(frozen=True, slots=True)
class LogReport:
    """What a check of a log found.

    Attributes:
        owners: Users, and threads of no user.
        threads: Of all owners.
        entries: Control entries included, and those that are damaged.
        damaged: Those that are not as they were written; the first 1,000.
        problems: One sentence for each of these, which names thread and position and shows no
            message text; the first 1,000.
        more: How many problems there are beyond these.
    """

    owners: int
    threads: int
    entries: int
    damaged: tuple[Finding, ...]
    problems: tuple[str, ...]
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_log(log: MessageLog, *, progress: Progress | None = None) -> LogReport:
    """Read a whole log and return what is wrong with it.

    Others may write meanwhile.

    Args:
        log: A log that is an `OwnerListing`.
        progress: Called as entries are read.

    Raises:
        ConfigError: If the log cannot list its owners.
    """
    return run_sync(_Verification(log, progress).verify_steps(_require_listing(log)))


async def averify_log(log: MessageLog, *, progress: Progress | None = None) -> LogReport:
    """Read a whole log and return what is wrong with it; see `verify_log`."""
    return await run_async(_Verification(log, progress).verify_steps(_require_listing(log)))


def _require_listing(log: MessageLog) -> OwnerListing:
    if isinstance(log, OwnerListing):
        return log
    raise ConfigError(f"{log!r} cannot list its users, so that nobody can read all of it")


@dataclass(slots=True)
class _Verification:
    """One check of one log."""

    log: MessageLog
    progress: Progress | None
    entries: int = 0
    total: int = 0
    more: int = 0
    damaged: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def verify_steps(self, listing: OwnerListing) -> Steps[LogReport]:
        owners: list[Owner] = yield from perform(listing.owners, listing.aowners)
        keys = yield from self._list_threads(owners)
        for key in keys:
            entries: list[Entry] = yield from perform(self.log.entries, self.log.aentries, key)
            self._note_entries(entries)
        return LogReport(
            owners=len(owners),
            threads=len(keys),
            entries=self.entries,
            damaged=tuple(self.damaged),
            problems=tuple(self.problems),
            more=self.more,
        )

    def _list_threads(self, owners: Iterable[Owner]) -> Steps[list[ThreadKey]]:
        keys = []
        for user_id in dict.fromkeys(owner.user_id for owner in owners):
            infos = yield from perform(self.log.threads, self.log.athreads, user_id)
            keys += [info.key for info in infos]
            self.total += sum(info.entries for info in infos)
        return keys

    def _note_entries(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.entries += 1
            if entry.damage:
                self._note_damage(entry)
        if self.progress is not None:
            self.progress(self.entries, max(self.entries, self.total))

    def _note_damage(self, entry: Entry) -> None:
        if len(self.problems) == MOST_KEPT:
            self.more += 1
            return
        key = entry.key
        found = Finding(key.user_id, key.thread_id, entry.position, entry.id, entry.damage)
        self.damaged.append(found)
        self.problems.append(f"{describe_place(key, entry.position)}: {entry.damage}")


def describe_place(key: ThreadKey | None, position: int) -> str:
    """Return where an entry is, in words; a key of None is that of a thread that is not known."""
    if key is None:
        return f"position {position} of no known thread"
    user = "" if key.user_id is None else f" of user {key.user_id!r:.{_SHOWN_CHARS}}"
    return f"position {position} of thread {key.thread_id!r:.{_SHOWN_CHARS}}{user}"
