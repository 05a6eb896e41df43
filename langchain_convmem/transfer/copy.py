"""Copying a log into another, owner by owner and thread by thread.

A state document in the other log keeps, per owner, how far the copy has come, so that a later copy
looks at the threads that changed alone. What is there already is recognised by its keys.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from langchain_convmem.background import to_async
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import (
    Control,
    Cover,
    Draft,
    Entry,
    Owner,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.titles import DOCUMENT
from langchain_convmem.views.codec import redraft
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.summaries import find_pins, translate_record

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
        damaged: What could not be copied: entries that are damaged, and what stands for missing
            ones; see `Entry.damage`. The next copy looks for them again, so that they follow
            once they were repaired.
    """

    owners: int
    threads: int
    entries: int
    written: int
    short: tuple[ShortThread, ...]
    damaged: tuple[Entry, ...] = ()


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
    known, and so are the titles of threads. Ids of entries and positions are the other log's own.
    Other state documents and indexes are not copied: they are made again; nor is what is added to
    an entry's metadata after the entry was copied. While a copy runs, nobody else should write to
    its threads in `target`.

    What is damaged in `source` is named in the report and left out.

    Args:
        source: Stays open, and may be written to meanwhile.
        target: Stays open.
        source_name: Names `source` in the document that keeps how far the copy has come.
        owners: Whose entries; None is all.
        progress: Called with the entries looked at, and all.

    Raises:
        ConfigError: If `target` keeps no state documents, or `source` cannot list its owners.
        LogError: If two copies of the same log run at once; start one of them again.
    """
    return _LogCopy(source, target, source_name, progress).copy(owners)


acopy_log = to_async(copy_log)


@dataclass(slots=True)
class _LogCopy:
    """One run of a copy."""

    source: MessageLog
    target: MessageLog
    source_name: str
    progress: Callable[[int, int], None]
    done: int = 0
    total: int = 0
    written: int = 0
    damaged: list[Entry] = field(default_factory=list)

    def copy(self, owners: Iterable[Owner] | None) -> CopyReport:
        wanted = list(self.source.owners() if owners is None else owners)
        listed = {
            info.key: info
            for user_id in dict.fromkeys(owner.user_id for owner in wanted)
            for info in self.source.threads(user_id)
            if info.key.owner in set(wanted)
        }
        self.total = sum(info.entries for info in listed.values())
        for owner in wanted:
            before = self.done
            self._copy_owner(owner)
            self.done = before + sum(
                info.entries for key, info in listed.items() if key.owner == owner
            )
            self._report(0)
        self._copy_titles(listed)
        short = self._find_short(listed)
        damaged = tuple(self.damaged)
        return CopyReport(len(wanted), len(listed), self.total, self.written, short, damaged)

    def _report(self, more: int) -> None:
        self.progress(min(self.done + more, self.total), self.total)

    def _copy_owner(self, owner: Owner) -> None:
        document = _StateDocument(self.target, owner, self.source_name)
        cursor, generation = document.read()
        changed: dict[ThreadKey, None] = {}
        while True:
            page = self.source.changes(owner, cursor, limit=_PAGE)
            if page.generation != generation and cursor:
                # Something was forgotten: what is before the cursor may no longer be what it was.
                cursor, generation = 0, page.generation
                continue
            generation = page.generation
            if not page.entries:
                break
            changed |= dict.fromkeys(entry.key for entry in page.entries)
            cursor = page.cursor
        damaged = len(self.damaged)
        for key in changed:
            entries = self.source.entries(key)
            self.damaged += [entry for entry in entries if entry.damage]
            sound = [entry for entry in entries if not entry.damage]
            self.written += replay(self.target, key, sound, report=self._report)
            self.done += len(entries)
        # What is damaged may have been repaired when the next copy comes.
        document.write(cursor if len(self.damaged) == damaged else 0, generation)

    def _copy_titles(self, listed: Iterable[ThreadKey]) -> None:
        """Copy titles, and what is archived; a title of the source takes the place of another."""
        for _, keys in groupby(listed, key=lambda key: key.user_id):
            wanted = list(keys)
            here = self.source.get_states(wanted, DOCUMENT)
            there = self.target.get_states(wanted, DOCUMENT) if here else {}
            for key, new in here.items():
                old = there.get(key)
                if old is None or new.value != old.value:
                    version = None if old is None else old.version
                    self.target.set_state(key, DOCUMENT, new.value, expected=version)

    def _find_short(self, listed: Mapping[ThreadKey, ThreadInfo]) -> tuple[ShortThread, ...]:
        found = {
            info.key: info.entries
            for user_id in dict.fromkeys(key.user_id for key in listed)
            for info in self.target.threads(user_id)
        }
        left_out = Counter(entry.key for entry in self.damaged)
        expected = {key: info.entries - left_out[key] for key, info in listed.items()}
        return tuple(
            ShortThread(key, count, found.get(key, 0))
            for key, count in expected.items()
            if found.get(key, 0) < count
        )


class _StateDocument:
    """Keeps how far the copy of one owner's entries has come."""

    def __init__(self, log: MessageLog, owner: Owner, source_name: str) -> None:
        anonymous = owner.thread_id
        self._log = log
        self._key = ThreadKey(owner.user_id, _STATE_THREAD if anonymous is None else anonymous)
        digest = hashlib.blake2b(source_name.encode("utf-8", "surrogatepass"), digest_size=12)
        self._name = f"copy of {digest.hexdigest()}"
        self._version: int | None = None
        self._value = {"cursor": 0, "generation": 0}

    def read(self) -> tuple[int, int]:
        """Return the cursor to go on from, and the generation it was read in."""
        found = self._log.get_state(self._key, self._name)
        if found is not None:
            self._value, self._version = found.value, found.version
        return self._value["cursor"], self._value["generation"]

    def write(self, cursor: int, generation: int) -> None:
        """Keep the cursor, unless another copy kept one meanwhile."""
        value = {"cursor": cursor, "generation": generation}
        if value == self._value:
            return
        if self._log.set_state(self._key, self._name, value, expected=self._version) is None:
            raise LogError("another copy of the same log is running; start again when it is done")


# -- one thread: its entries in order, each once --------------------------------------------------

_BATCH = 200
"""Entries per append."""


def replay(
    log: MessageLog,
    key: ThreadKey,
    source: Sequence[Entry],
    *,
    report: Callable[[int], None] = lambda _done: None,
) -> int:
    """Write the entries of a thread into another log; return how many were not there yet.

    The thread in the other log may hold an earlier part of the copy; while it is being copied,
    nobody else should write there.

    Args:
        log: The other log.
        key: The thread in it.
        source: All entries of the thread, in order of position.
        report: Called with the entries looked at.
    """
    return _Replay(log, key, source).run(report)


class _Replay:
    """Writes the entries of one thread that are not there yet."""

    def __init__(self, log: MessageLog, key: ThreadKey, source: Sequence[Entry]) -> None:
        """Recognise what was copied before."""
        self._log = log
        self._key = key
        self._source = source
        self._ids: dict[str, str] = {}
        self._positions: list[tuple[int, int]] = []
        self._written = 0
        there = [entry for entry in log.entries(key) if not entry.damage]
        self._last = there[-1].position if there else 0
        found = match_copies(source, there)
        for entry in source:
            if entry.id in found:
                self._adopt(entry, found[entry.id])

    def run(self, report: Callable[[int], None]) -> int:
        """Write what is missing; return how many entries that were."""
        missing = [entry for entry in self._source if entry.id not in self._ids]
        done = len(self._source) - len(missing)
        batch: list[Entry] = []
        at = 0
        while at < len(missing):
            entry = missing[at]
            if _refers(entry) or len(batch) >= _BATCH:
                batch = self._write(batch)
                report(done + at)
            following = missing[at + 1] if at + 1 < len(missing) else None
            new_id = None if entry.control is None else entry.control.replacement
            if following is not None and new_id == following.id:
                # The mark names the id of the new text, which follows right after it.
                self._write_replacement(entry, following)
                at += 2
                continue
            batch = self._write([entry]) if _refers(entry) else [*batch, entry]
            at += 1
        self._write(batch)
        return self._written

    def _write(self, entries: list[Entry]) -> list[Entry]:
        """Write entries; return an empty list, for the next ones."""
        if entries:
            drafts = [self._translate(entry) for entry in entries]
            before = self._last
            copies = self._log.append(self._key, drafts, durable=False)
            for entry, copy in zip(entries, copies, strict=True):
                self._written += copy.position > before
                self._settle(entry, copy)
        return []

    def _write_replacement(self, mark: Entry, entry: Entry) -> None:
        """Write a new text, then the mark that puts it in the old one's place.

        The log makes the mark by itself where the old text is still there under the same key.
        """
        before = self._last
        self._write([entry])
        new_id = self._ids[entry.id]
        retracted = () if mark.control is None else mark.control.retracts
        expected = [self._translate_id(other) for other in retracted]
        if expected == [new_id]:
            return  # a write hook made both texts the same, so nothing was replaced
        later = self._log.entries(self._key, after=before)
        made = [item for item in later if item.control and item.control.replacement == new_id]
        if made and made[0].control and list(made[0].control.retracts) == expected:
            self._written += 1
            self._adopt(mark, made[0])
            return
        if made:
            # Another version counts under the key, which the original left as it was.
            undo = Draft(role="control", control=Control((made[0].id,), "rewind"))
            self._log.append(self._key, [undo], durable=False)
        self._write([mark])

    def _adopt(self, entry: Entry, copy: Entry) -> None:
        """Take what is there for the entry's copy; a mark that the log made is completed."""
        said, there = entry.metadata, copy.metadata
        if entry.control is not None and there != said:
            self._log.annotate(
                self._key,
                copy.id,
                attributes=said.attributes[len(there.attributes) :],
                timing=said.timing,
                aux=said.aux,
            )
        self._settle(entry, copy)

    def _settle(self, entry: Entry, copy: Entry) -> None:
        self._ids[entry.id] = copy.id
        if entry.control is None:
            insort(self._positions, (entry.position, copy.position))
        self._last = max(self._last, copy.position)

    # -- in the other log's words ---------------------------------------------------------------

    def _translate(self, entry: Entry) -> Draft:
        draft = redraft(entry)
        message = entry.message
        if message is not None and not message.id:
            message = message.model_copy(update={"id": entry.id})
        known = entry.metadata
        summary_ids = tuple(self._ids.get(other, other) for other in known.summary_ids)
        return replace(
            draft,
            message=message,
            metadata=replace(known, summary_ids=summary_ids, aux=self._translate_aux(entry)),
            control=None if entry.control is None else self._translate_control(entry.control),
            cover=None if entry.cover is None else self._translate_cover(entry.cover),
        )

    def _translate_aux(self, entry: Entry) -> Mapping[str, Any]:
        """Return what stands with an entry; a summary's names ids and places of others."""
        if entry.role != "summary":
            return entry.metadata.aux
        return translate_record(entry, self._ids, dict(self._positions))

    def _translate_control(self, control: Control) -> Control:
        new = control.replacement
        return replace(
            control,
            retracts=tuple(self._translate_id(other) for other in control.retracts),
            replacement=None if new is None else self._ids.get(new),
        )

    def _translate_id(self, entry_id: str) -> str:
        """Return the copy's id; of what was forgotten, an id that stands in the same place.

        Views put a replacement where the retracted entry stood, and find that place by the ids
        before it.
        """
        if entry_id in self._ids:
            return self._ids[entry_id]
        before = [copy for original, copy in self._ids.items() if original < entry_id]
        return f"{max(before, default='')} {entry_id}"

    def _translate_cover(self, cover: Cover) -> Cover:
        return replace(cover, ranges=tuple(self._translate_range(*pair) for pair in cover.ranges))

    def _translate_range(self, first: int, last: int) -> tuple[int, int]:
        """Return the positions of the copies of what lies within.

        Where nothing is left of it, a range that holds nothing, in the same place: views keep a
        summary after what was said before it.
        """
        start = bisect_left(self._positions, (first, 0))
        end = bisect_left(self._positions, (last + 1, 0))
        inside = [copy for _, copy in self._positions[start:end]]
        if inside:
            return min(inside), max(inside)
        before = self._positions[start - 1][1] if start else 0
        return before + 1, before


def _refers(entry: Entry) -> bool:
    return entry.control is not None or entry.cover is not None


def copy_thread(log: MessageLog, origin: ThreadKey, target: ThreadKey) -> list[str]:
    """Copy a thread with its title into another of the same log; return the ids of its entries.

    A copy that was cut short goes on. Where the other thread begins with all that this one shows,
    and goes on, nothing is copied: an application sent it along when the user spoke first.

    Raises:
        ConfigError: If there is no such thread, or the other one holds entries of its own.
        LogError: If an entry is damaged.
    """
    here, there = log.entries(origin), log.entries(target)
    if not here:
        msg = f"there is no thread {origin.thread_id!r} of user {origin.user_id!r}"
        raise ConfigError(msg)
    for entry in here:
        if entry.damage:
            msg = f"entry {entry.id!r} of thread {origin.thread_id!r} is damaged; forget it first"
            raise LogError(msg, thread_id=origin.thread_id, position=entry.position)
    if origin != target and _is_gone_on_with(here, there):
        return [entry.id for entry in here]
    if origin == target or len(match_copies(here, there)) < len(there):
        msg = f"user {target.user_id!r} has a thread {target.thread_id!r} already; fork one of both"
        raise ConfigError(msg)
    replay(log, target, here)
    title = log.get_state(origin, DOCUMENT)
    if title is not None:
        log.set_state(target, DOCUMENT, title.value, expected=None)
    return [entry.id for entry in here]


def _is_gone_on_with(here: Sequence[Entry], there: Sequence[Entry]) -> bool:
    """Return whether a thread begins with all that another one shows, which has no pins."""
    live = (find_live_entries(entries) for entries in (here, there))
    said, known = ([(one.role, one.contents) for one in some if one.message] for some in live)
    return bool(said) and known[: len(said)] == said and known != said and not find_pins(here)


# -- what was copied before ------------------------------------------------------------------------


def match_copies(source: Sequence[Entry], target: Sequence[Entry]) -> dict[str, Entry]:
    """Return the entry of `target` that each entry of `source` became, by the latter's id.

    Entries that were not copied are left out.

    Args:
        source: A thread's entries in order of position.
        target: Those of the thread they were copied to, in order of position.
    """
    waiting: dict[Hashable, deque[Entry]] = defaultdict(deque)
    for entry in target:
        waiting[_identify(entry)].append(entry)
    found = {}
    for entry in source:
        same = waiting.get(_identify(entry))
        while same:
            candidate = same.popleft()
            if _is_copy(candidate, entry):
                found[entry.id] = candidate
                break
    _match_replacements(source, target, found)
    return found


def _identify(entry: Entry) -> Hashable:
    """Return what a copy has in common with its original."""
    if entry.message is not None:
        return entry.message.id or entry.id
    reason = None if entry.control is None else entry.control.reason
    return entry.role, reason, entry.turn_id, entry.metadata.timing.get("creation"), entry.contents


def _is_copy(candidate: Entry, entry: Entry) -> bool:
    if candidate.message is None or entry.message is None:
        return True
    return candidate.message.model_copy(update={"id": entry.message.id}) == entry.message


def _match_replacements(
    source: Sequence[Entry], target: Sequence[Entry], found: dict[str, Entry]
) -> None:
    """Add the marks of replacement that the other log made by itself."""
    marks = {
        entry.control.replacement: entry
        for entry in target
        if entry.control is not None and entry.control.replacement is not None
    }
    for entry in source:
        if entry.control is None or entry.control.replacement is None or entry.id in found:
            continue
        new = found.get(entry.control.replacement)
        if new is not None and new.id in marks:
            found[entry.id] = marks[new.id]
