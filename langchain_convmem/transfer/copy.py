"""Copying a log into another, thread by thread.

What is there already is recognised by its keys, so a copy that was cut short goes on, and a later
one adds what is new.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from langchain_convmem.background import to_async
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Control, Draft, Entry, Owner, ThreadInfo, ThreadKey
from langchain_convmem.titles import DOCUMENT
from langchain_convmem.views.codec import redraft
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.summaries import find_pins, translate_record


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy.

    Attributes:
        owners: Whose entries were looked at.
        threads: Their threads.
        entries: Their entries.
        written: Entries that were not in the other log before.
        short: Threads of which the other log holds fewer entries, counted at the end, each with
            the entries here and there: something has gone wrong.
        damaged: What could not be copied: entries that are damaged, and what stands for missing
            ones; see `Entry.damage`. They follow with the next copy once they were repaired.
    """

    owners: int
    threads: int
    entries: int
    written: int
    short: tuple[tuple[ThreadKey, int, int], ...]
    damaged: tuple[Entry, ...] = ()


def copy_log(
    source: MessageLog,
    target: MessageLog,
    *,
    owners: Iterable[Owner] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> CopyReport:
    """Copy everything in `source` to `target`; copying again adds nothing twice.

    Messages, metadata, edits and summaries are kept, and the ids by which messages and turns are
    known, and so are the titles of threads. Ids of entries and positions are the other log's own.
    Other state documents and indexes are not copied: they are made again; nor is what is added to
    an entry's metadata after the entry was copied. While a copy runs, nobody else should write to
    its threads in `target`.

    What is damaged in `source` is named in the report and left out.

    Args:
        source: Stays open, and may be written to meanwhile.
        target: Stays open.
        owners: Whose entries; None is all.
        progress: Called with the entries looked at, and all.

    Raises:
        ConfigError: If `source` cannot list its owners.
    """
    wanted = list(source.owners() if owners is None else owners)
    listed = {key: info for key, info in _list_threads(source, wanted) if key.owner in set(wanted)}
    total = sum(info.entries for info in listed.values())
    done = written = 0
    damaged: list[Entry] = []
    for key in listed:

        def report(at: int, before: int = done) -> None:
            progress(min(before + at, total), total)

        entries = source.entries(key)
        damaged += [entry for entry in entries if entry.damage]
        sound = [entry for entry in entries if not entry.damage]
        written += replay(target, key, sound, report=report)
        _copy_title(source, key, target, key)
        done += len(entries)
        progress(min(done, total), total)
    found = dict(_list_threads(target, wanted))
    left_out = Counter(entry.key for entry in damaged)
    short = []
    for key, info in listed.items():
        expected, there = info.entries - left_out[key], found[key].entries if key in found else 0
        if there < expected:
            short.append((key, expected, there))
    return CopyReport(len(wanted), len(listed), total, written, tuple(short), tuple(damaged))


acopy_log = to_async(copy_log)


def _list_threads(
    log: MessageLog, owners: Iterable[Owner]
) -> Iterator[tuple[ThreadKey, ThreadInfo]]:
    for user_id in dict.fromkeys(owner.user_id for owner in owners):
        yield from ((info.key, info) for info in log.threads(user_id))


def _copy_title(source: MessageLog, origin: ThreadKey, target: MessageLog, key: ThreadKey) -> None:
    """Copy a thread's title, and whether it is archived, in the place of another title."""
    new = source.get_state(origin, DOCUMENT)
    old = None if new is None else target.get_state(key, DOCUMENT)
    if new is not None and (old is None or new.value != old.value):
        target.set_state(key, DOCUMENT, new.value, expected=None if old is None else old.version)


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
        missing: list[Entry] = []
        for entry in self._source:
            if entry.id not in self._ids:
                # A mark that names a new text comes right before it, and is written after it.
                replaced = missing and missing[-1].control
                is_new = replaced and replaced.replacement == entry.id
                missing.insert(len(missing) - bool(is_new), entry)
        done = len(self._source) - len(missing)
        for refers, group in groupby(missing, key=_refers):
            entries = list(group)
            size = 1 if refers else _BATCH
            for at in range(0, len(entries), size):
                self._write(entries[at : at + size])
                report(done + at)
            done += len(entries)
        return self._written

    def _write(self, entries: Sequence[Entry]) -> None:
        """Write entries; one that others refer to, or that refers to others, by itself."""
        control, before = entries[0].control, self._last
        new_id = self._ids.get(control.replacement or "") if control else None
        if new_id is not None and self._find_mark(entries[0], new_id):
            return
        drafts = [self._translate(entry) for entry in entries]
        copies = self._log.append(self._key, drafts, durable=False)
        for entry, copy in zip(entries, copies, strict=True):
            self._written += copy.position > before
            self._settle(entry, copy)

    def _find_mark(self, mark: Entry, new_id: str) -> bool:
        """Return whether the log has put a new text, which came last, in the old one's place.

        It does so by itself where the old text is still there under the same key.
        """
        retracted = mark.control.retracts if mark.control else ()
        expected = [self._translate_id(other) for other in retracted]
        if expected == [new_id]:
            return True  # a write hook made both texts the same, so nothing was replaced
        later = self._log.entries(self._key, after=self._last - 2)
        made = [one for one in later if one.control and one.control.replacement == new_id]
        if made and made[0].control and list(made[0].control.retracts) == expected:
            self._written += 1
            self._adopt(mark, made[0])
            return True
        if made:
            # Another version counts under the key, which the original left as it was.
            undo = Draft(role="control", control=Control((made[0].id,), "rewind"))
            self._log.append(self._key, [undo], durable=False)
        return False

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
        message, control, cover, known = entry.message, entry.control, entry.cover, entry.metadata
        if message is not None and not message.id:
            message = message.model_copy(update={"id": entry.id})
        if control is not None:
            retracts = tuple(self._translate_id(other) for other in control.retracts)
            new_id = self._ids.get(control.replacement or "")
            control = replace(control, retracts=retracts, replacement=new_id)
        if cover is not None:
            cover = replace(
                cover, ranges=tuple(self._translate_range(*pair) for pair in cover.ranges)
            )
        aux = known.aux
        if entry.role == "summary":
            aux = translate_record(entry, self._ids, dict(self._positions))
        summary_ids = tuple(self._ids.get(other, other) for other in known.summary_ids)
        metadata = replace(known, summary_ids=summary_ids, aux=aux)
        return replace(
            redraft(entry), message=message, metadata=metadata, control=control, cover=cover
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
    is_copy = len(match_copies(here, there)) == len(there)
    if origin != target and not is_copy and _is_gone_on_with(here, there):
        return [entry.id for entry in here]
    if origin == target or not is_copy:
        msg = f"user {target.user_id!r} has a thread {target.thread_id!r} already; fork one of both"
        raise ConfigError(msg)
    replay(log, target, here)
    _copy_title(log, origin, log, target)
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
