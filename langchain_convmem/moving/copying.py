"""Copying a log into another, owner by owner, in the order of their changes.

A state document in the other log keeps, per owner, how far the copy has come, so that an
interrupted copy goes on from there. What the document does not know is recognised by its keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from langchain_convmem.effects import Steps, arun, run, step
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.moving.replay import Replay
from langchain_convmem.protocols import MessageLog, OwnerListing, ThreadState
from langchain_convmem.records import (
    Changes,
    Entry,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)

__all__ = ["CopyReport", "ShortThread", "acopy_log", "copy_log"]

_PAGE = 500
"""Entries per read."""
_STATE_THREAD = "convmem copies"
"""Beside which thread of a user the document stands; no entry is ever written there."""


@dataclass(frozen=True, slots=True)
class ShortThread:
    """A thread of which the other log holds less.

    Attributes:
        key: The thread.
        expected: Entries in the log it was copied from.
        found: Entries in the log it was copied to.
    """

    key: ThreadKey
    expected: int
    found: int


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy did.

    Attributes:
        owners: Whose entries were looked at.
        threads: Their threads.
        entries: Their entries.
        written: Entries that were not in the other log before.
        short: Threads of which the other log holds fewer entries, counted at the end: something
            was forgotten there, or has gone wrong.
    """

    owners: int
    threads: int
    entries: int
    written: int
    short: tuple[ShortThread, ...]


def copy_log(
    source: MessageLog,
    target: MessageLog,
    *,
    source_name: str,
    owners: Iterable[Owner] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> CopyReport:
    """Copy everything that `source` holds into `target`; copying twice doubles nothing.

    Messages, metadata, edits and summaries are kept, and the ids by which messages and turns are
    known. Ids of entries and positions are the other log's own. State documents and indexes are
    not copied: they are made again; nor is what is added to an entry's metadata after the entry was
    copied. While a copy runs, nobody else should write to its threads in
    `target`.

    Args:
        source: Stays open, and may be written to meanwhile.
        target: Stays open.
        source_name: Names `source` in the document that keeps how far the copy has come.
        owners: Whose entries; None is everybody, which needs `source` to be an `OwnerListing`.
        progress: Called with the entries looked at, and all.

    Raises:
        ConfigError: If `target` keeps no state documents, or `source` cannot list its owners.
        LogError: If two copies of the same log run at once; start one of them again.
    """
    return run(_Copy(source, target, source_name, progress).steps(owners))


async def acopy_log(
    source: MessageLog,
    target: MessageLog,
    *,
    source_name: str,
    owners: Iterable[Owner] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> CopyReport:
    """Copy everything that `source` holds into `target`; see `copy_log`."""
    return await arun(_Copy(source, target, source_name, progress).steps(owners))


@dataclass(slots=True)
class _Copy:
    """One run."""

    source: MessageLog
    target: MessageLog
    source_name: str
    progress: Callable[[int, int], None]
    done: int = 0
    total: int = 0
    written: int = 0
    replays: dict[ThreadKey, Replay] = field(default_factory=dict)

    def steps(self, owners: Iterable[Owner] | None) -> Steps[CopyReport]:
        if not isinstance(self.target, ThreadState):
            msg = f"{self.target!r} keeps no state documents; copy into a log that does"
            raise ConfigError(msg)
        wanted = list(owners) if owners is not None else (yield from self._every_owner())
        everybody = frozenset(wanted)
        listed: dict[ThreadKey, ThreadInfo] = {}
        for user_id in dict.fromkeys(owner.user_id for owner in wanted):
            infos = yield step(self.source, "threads", user_id)
            listed.update((info.key, info) for info in infos if info.key.owner in everybody)
        self.total = sum(info.entries for info in listed.values())
        for owner in wanted:
            yield from self._copy_owner(owner, _count(listed.values(), owner))
        short = yield from self._verify(listed)
        self.progress(self.total, self.total)
        return CopyReport(len(wanted), len(listed), self.total, self.written, short)

    def _every_owner(self) -> Steps[list[Owner]]:
        if not isinstance(self.source, OwnerListing):
            msg = f"{self.source!r} cannot list its users; name those whose entries to copy"
            raise ConfigError(msg)
        found: list[Owner] = yield step(self.source, "owners")
        return found

    def _copy_owner(self, owner: Owner, count: int) -> Steps[None]:
        document = _StateDocument(self.target, owner, self.source_name)
        cursor, generation = yield from document.read()
        before = self.done
        self.replays.clear()
        while True:
            page: Changes = yield step(self.source, "changes", owner, cursor, limit=_PAGE)
            if page.generation != generation and cursor:
                # Something was forgotten: what is behind the cursor may no longer be what it was.
                cursor, generation = 0, page.generation
                continue
            generation = page.generation
            if not page.entries:
                break
            yield from self._copy_page(page.entries)
            cursor = page.cursor
            if all(replay.settled for replay in self.replays.values()):
                yield from document.write(cursor, generation)
            self.done += len(page.entries)
            self.progress(min(self.done, self.total), self.total)
        for replay in self.replays.values():
            yield from replay.finish()
        self.written += sum(replay.written for replay in self.replays.values())
        yield from document.write(cursor, generation)
        self.done = before + count
        self.progress(self.done, self.total)

    def _copy_page(self, entries: Sequence[Entry]) -> Steps[None]:
        for key, run_of_thread in groupby(entries, key=lambda entry: entry.key):
            replay = self.replays.get(key)
            if replay is None:
                replay = self.replays[key] = yield from self._begun(key)
            yield from replay.feed(list(run_of_thread))

    def _begun(self, key: ThreadKey) -> Steps[Replay]:
        """Return the replay of a thread, which knows what was copied before."""
        replay = Replay(self.target, key)
        there: list[Entry] = yield step(self.target, "entries", key)
        if there:
            here: list[Entry] = yield step(self.source, "entries", key)
            yield from replay.begin(here, there)
        return replay

    def _verify(self, listed: dict[ThreadKey, ThreadInfo]) -> Steps[tuple[ShortThread, ...]]:
        found: dict[ThreadKey, int] = {}
        for user_id in dict.fromkeys(key.user_id for key in listed):
            infos = yield step(self.target, "threads", user_id)
            found.update((info.key, info.entries) for info in infos)
        return tuple(
            ShortThread(key, info.entries, found.get(key, 0))
            for key, info in listed.items()
            if found.get(key, 0) < info.entries
        )


def _count(infos: Iterable[ThreadInfo], owner: Owner) -> int:
    return sum(info.entries for info in infos if info.key.owner == owner)


class _StateDocument:
    """Keeps how far the copy of one owner's entries has come."""

    def __init__(self, log: MessageLog, owner: Owner, source_name: str) -> None:
        lone = owner.thread_id
        self._log = log
        self._key = ThreadKey(owner.user_id, _STATE_THREAD if lone is None else lone)
        digest = hashlib.blake2b(source_name.encode("utf-8", "surrogatepass"), digest_size=12)
        self._name = f"copy of {digest.hexdigest()}"
        self._version: int | None = None
        self._value = {"cursor": 0, "generation": 0}

    def read(self) -> Steps[tuple[int, int]]:
        """Return the cursor to go on from, and the generation it was read in."""
        found: StateDocument | None = yield step(self._log, "get_state", self._key, self._name)
        if found is not None:
            self._value, self._version = found.value, found.version
        return self._value["cursor"], self._value["generation"]

    def write(self, cursor: int, generation: int) -> Steps[None]:
        """Keep the cursor, unless another copy kept one meanwhile."""
        value = {"cursor": cursor, "generation": generation}
        if value == self._value:
            return
        written: StateDocument | None = yield step(
            self._log, "set_state", self._key, self._name, value, expected=self._version
        )
        if written is None:
            raise LogError("another copy of the same log is running; start again when it is done")
        self._value, self._version = value, written.version
