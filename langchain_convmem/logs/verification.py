"""Whole logs of every kind: each entry is read, and what is not as it was written is named.

A log checks signatures and chains wherever it reads. So to verify one is to read all of it, and to
hold its threads against heads that somebody else keeps: a chain does not show from inside that its
tail is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from langchain_convmem.effects import Steps, perform, run_async, run_sync
from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.signatures import ThreadHead, Tombstone
from langchain_convmem.protocols import ChainedLog, MessageLog, OwnerListing
from langchain_convmem.records import Entry, Owner, ThreadKey

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the entries read so far, and all there are."""

_KEPT = 1_000
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Finding:
    """An entry that is damaged, or entries that are missing.

    Attributes:
        user_id: Of the thread; None where it belongs to no user, or where that cannot be told.
        thread_id: Of the thread; None where it cannot be told.
        position: Of the entry; of missing ones the last position at which one may have stood.
        entry_id: Its id, or a name in its place: `damaged-POSITION`, `missing-POSITION`. `forget`
            takes each of them.
        what: What is wrong, in a few words.
    """

    user_id: str | None
    thread_id: str | None
    position: int
    entry_id: str
    what: str

    @property
    def key(self) -> ThreadKey | None:
        """The thread, if it is known."""
        return None if self.thread_id is None else ThreadKey(self.user_id, self.thread_id)


@dataclass(frozen=True, slots=True)
class LogReport:
    """What a check of a log found.

    Attributes:
        owners: Users, and threads of no user.
        threads: Of all owners.
        entries: Control entries included, and those that are damaged.
        unsigned: How many of them an older release wrote, so that nothing can be told of them.
        damaged: Those that are not as they were written, and gaps; the first 1,000.
        problems: One sentence for each of these and for each head that is not met, which names
            thread and position and shows no message text; the first 1,000.
        more: How many problems there are beyond these.
    """

    owners: int
    threads: int
    entries: int
    unsigned: int
    damaged: tuple[Finding, ...]
    problems: tuple[str, ...]
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class VerifiableLog(ChainedLog, OwnerListing, MessageLog, Protocol):
    """A log that can be verified."""


def verify_log(
    log: MessageLog, *, against: Iterable[ThreadHead] = (), progress: Progress | None = None
) -> LogReport:
    """Read a whole log and return what is wrong with it.

    Others may write meanwhile.

    Args:
        log: A `ChainedLog` that is an `OwnerListing` too.
        against: Heads that were kept elsewhere, as `heads` returned them once. A thread whose chain
            does not hold its head has lost its tail, or was forgotten since.
        progress: Called as entries are read.

    Raises:
        ConfigError: If the log signs nothing, or cannot list its owners.
    """
    return run_sync(_Verification(_require_verifiable(log), progress).verify_steps(against))


async def averify_log(
    log: MessageLog, *, against: Iterable[ThreadHead] = (), progress: Progress | None = None
) -> LogReport:
    """Read a whole log and return what is wrong with it; see `verify_log`."""
    check = _Verification(_require_verifiable(log), progress)
    return await run_async(check.verify_steps(against))


def remove_damaged(log: MessageLog) -> tuple[Finding, ...]:
    """Forget what is damaged or missing in a log, entry by entry; return what was forgotten.

    Tombstones keep the chains of its threads. This is what can be done on a server; a SQLite file
    is restored from a backup by `SQLiteLog.repair`. Others may write meanwhile.

    Args:
        log: A `ChainedLog` that is an `OwnerListing` too.

    Raises:
        ConfigError: If the log signs nothing, or cannot list its owners.
    """
    return run_sync(_remove_steps(_require_verifiable(log)))


async def aremove_damaged(log: MessageLog) -> tuple[Finding, ...]:
    """Forget what is damaged or missing in a log; see `remove_damaged`."""
    return await run_async(_remove_steps(_require_verifiable(log)))


def _remove_steps(log: VerifiableLog) -> Steps[tuple[Finding, ...]]:
    removed: dict[Finding, None] = {}
    while True:  # a report names the first ones alone
        report = yield from _Verification(log, None).verify_steps(())
        found = [one for one in report.damaged if one not in removed]
        if not found:
            return tuple(removed)
        for key in dict.fromkeys(one.key for one in found):
            if key is not None:
                ids = [one.entry_id for one in found if one.key == key]
                yield from perform(log.forget, log.aforget, key, ids)
        removed.update(dict.fromkeys(found))


def _require_verifiable(log: MessageLog) -> VerifiableLog:
    if isinstance(log, ChainedLog) and isinstance(log, OwnerListing):
        return log
    raise ConfigError(f"{log!r} signs nothing, or cannot list its users; there is nothing to check")


@dataclass(slots=True)
class _Verification:
    """One check of one log."""

    log: VerifiableLog
    progress: Progress | None
    threads: int = 0
    entries: int = 0
    unsigned: int = 0
    total: int = 0
    more: int = 0
    damaged: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def verify_steps(self, against: Iterable[ThreadHead]) -> Steps[LogReport]:
        owners: list[Owner] = yield from perform(self.log.owners, self.log.aowners)
        wanted = {ThreadKey(head.user_id, head.thread_id): head for head in against}
        keys = yield from self._list_threads(owners)
        for key in keys:
            entries: list[Entry] = yield from perform(self.log.entries, self.log.aentries, key)
            self._note_entries(entries)
            if key in wanted:
                yield from self._compare(key, entries, wanted.pop(key))
        for key, head in wanted.items():
            yield from self._compare(key, [], head)
        return LogReport(
            owners=len(owners),
            threads=len(keys),
            entries=self.entries,
            unsigned=self.unsigned,
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
            self.unsigned += not entry.checksum and not entry.damage
            if entry.damage:
                if len(self.damaged) < _KEPT:
                    self.damaged.append(_describe_damage(entry))
                self._note_problem(f"{_describe_place(entry.key, entry.position)}: {entry.damage}")
        if self.progress is not None:
            self.progress(self.entries, max(self.entries, self.total))

    def _compare(self, key: ThreadKey, entries: list[Entry], head: ThreadHead) -> Steps[None]:
        """Hold a thread against a head of it that was kept elsewhere."""
        if any(_is_head(entry, head) for entry in entries):
            return
        erased = yield from perform(self.log.tombstones, self.log.atombstones, key)
        place = _describe_place(key, head.position)
        for problem in _find_lost_tail(entries, erased, head):
            self._note_problem(f"{place}: {problem}")

    def _note_problem(self, problem: str) -> None:
        if len(self.problems) < _KEPT:
            self.problems.append(problem)
        else:
            self.more += 1


def _describe_damage(entry: Entry) -> Finding:
    key = entry.key
    return Finding(key.user_id, key.thread_id, entry.position, entry.id, entry.damage)


def _is_head(entry: Entry, head: ThreadHead) -> bool:
    return (entry.position, entry.checksum) == (head.position, head.checksum)


def _find_lost_tail(
    entries: Iterable[Entry], erased: Iterable[Tombstone], head: ThreadHead
) -> Iterator[str]:
    """Yield what a head proves that no entry meets."""
    links = {one.position: one.checksum.hex() for one in erased}
    links |= {entry.position: entry.checksum for entry in entries}
    if links.get(head.position) == head.checksum:
        return
    last = max(links, default=0)
    if not links:
        yield "the thread is gone, though its head was kept: it was forgotten, or lost"
    elif last < head.position:
        yield f"the thread ends before its head that was kept, at position {last}"
    else:
        yield "it is not the entry whose head was kept"


def _describe_place(key: ThreadKey, position: int) -> str:
    user = "" if key.user_id is None else f" of user {key.user_id!r:.{_SHOWN_CHARS}}"
    return f"position {position} of thread {key.thread_id!r:.{_SHOWN_CHARS}}{user}"
