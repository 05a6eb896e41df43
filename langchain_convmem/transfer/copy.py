"""Copying a log into another, owner by owner, in the order of their changes.

A state document in the other log keeps, per owner, how far the copy has come, so that an
interrupted copy goes on from there. What the document does not know is recognised by its keys.
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
from langchain_convmem.views.pins import find_pins
from langchain_convmem.views.summaries import translate_record

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
    replays: dict[ThreadKey, Replay] = field(default_factory=dict)
    damaged: dict[tuple[ThreadKey, int], Entry] = field(default_factory=dict)
    left_out: set[tuple[ThreadKey, int]] = field(default_factory=set)

    def copy(self, owners: Iterable[Owner] | None) -> CopyReport:
        wanted = list(self.source.owners() if owners is None else owners)
        wanted_owners = frozenset(wanted)
        listed: dict[ThreadKey, ThreadInfo] = {}
        for user_id in dict.fromkeys(owner.user_id for owner in wanted):
            infos = self.source.threads(user_id)
            listed.update((info.key, info) for info in infos if info.key.owner in wanted_owners)
        self.total = sum(info.entries for info in listed.values())
        for owner in wanted:
            self._copy_owner(owner, _count_entries(listed.values(), owner))
        self._copy_titles(listed)
        short = self._verify(listed)
        self.progress(self.total, self.total)
        damaged = tuple(self.damaged.values())
        return CopyReport(len(wanted), len(listed), self.total, self.written, short, damaged)

    def _copy_titles(self, listed: Iterable[ThreadKey]) -> None:
        """Copy titles, and what is archived; a title of the source takes the place of another."""
        source, target = self.source, self.target
        for _, keys in groupby(listed, key=lambda key: key.user_id):
            wanted = list(keys)
            here = source.get_states(wanted, DOCUMENT)
            if not here:
                continue
            there = target.get_states(wanted, DOCUMENT)
            for key in wanted:
                new, old = here.get(key), there.get(key)
                if new is not None and (old is None or new.value != old.value):
                    version = None if old is None else old.version
                    target.set_state(key, DOCUMENT, new.value, expected=version)

    def _copy_owner(self, owner: Owner, count: int) -> None:
        document = _StateDocument(self.target, owner, self.source_name)
        cursor, generation = document.read()
        before = self.done
        self.replays.clear()
        while True:
            page = self.source.changes(owner, cursor, limit=_PAGE)
            if page.generation != generation and cursor:
                # Something was forgotten: what is before the cursor may no longer be what it was.
                cursor, generation = 0, page.generation
                continue
            generation = page.generation
            if not page.entries:
                break
            self._copy_page(page.entries)
            cursor = page.cursor
            is_settled = all(replay.is_settled for replay in self.replays.values())
            if is_settled and not self._is_damaged(owner):
                document.write(cursor, generation)
            self.done += len(page.entries)
            self.progress(min(self.done, self.total), self.total)
        for replay in self.replays.values():
            replay.finish()
        self.written += sum(replay.written for replay in self.replays.values())
        # What is damaged may have been repaired when the next copy comes.
        document.write(0 if self._is_damaged(owner) else cursor, generation)
        self.done = before + count
        self.progress(self.done, self.total)

    def _is_damaged(self, owner: Owner) -> bool:
        return any(key.owner == owner for key, _ in self.damaged)

    def _select_sound(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries that can be copied, and note the others."""
        sound = []
        for entry in entries:
            if entry.damage:
                self.damaged[entry.key, entry.position] = entry
            else:
                sound.append(entry)
        return sound

    def _copy_page(self, entries: Sequence[Entry]) -> None:
        self.left_out.update((entry.key, entry.position) for entry in entries if entry.damage)
        for key, run_of_thread in groupby(entries, key=lambda entry: entry.key):
            replay = self.replays.get(key)
            if replay is None:
                replay = self.replays[key] = self._begin_replay(key)
            replay.feed(self._select_sound(run_of_thread))

    def _begin_replay(self, key: ThreadKey) -> Replay:
        """Return the replay of a thread, which knows what was copied before."""
        replay = Replay(self.target, key)
        there = self.target.entries(key)
        if there:
            here = self._select_sound(self.source.entries(key))
            replay.begin(here, [entry for entry in there if not entry.damage])
        return replay

    def _verify(self, listed: dict[ThreadKey, ThreadInfo]) -> tuple[ShortThread, ...]:
        found: dict[ThreadKey, int] = {}
        for user_id in dict.fromkeys(key.user_id for key in listed):
            infos = self.target.threads(user_id)
            found.update((info.key, info.entries) for info in infos)
        left_out = Counter(key for key, _ in self.left_out)
        expected = {key: info.entries - left_out[key] for key, info in listed.items()}
        return tuple(
            ShortThread(key, count, found.get(key, 0))
            for key, count in expected.items()
            if found.get(key, 0) < count
        )


def _count_entries(infos: Iterable[ThreadInfo], owner: Owner) -> int:
    return sum(info.entries for info in infos if info.key.owner == owner)


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
        written = self._log.set_state(self._key, self._name, value, expected=self._version)
        if written is None:
            raise LogError("another copy of the same log is running; start again when it is done")
        self._value, self._version = value, written.version


# -- one thread: its entries in order, each once --------------------------------------------------

_BATCH = 200
"""Entries per append."""


class Replay:
    """Copies the entries of one thread, fed in order of position. Not thread-safe.

    The thread in the other log may hold an earlier part of the copy; while it is being copied,
    nobody else should write there.
    """

    def __init__(self, log: MessageLog, key: ThreadKey) -> None:
        """Prepare to write into the thread `key` of `log`; `begin` comes next."""
        self._log = log
        self._key = key
        self._ids: dict[str, str] = {}
        self._positions: list[tuple[int, int]] = []
        self._mark: Entry | None = None
        self._last = 0
        self.written = 0
        """Entries that were not there before."""

    @property
    def is_settled(self) -> bool:
        """Whether everything that was fed is written: no mark waits for its new text."""
        return self._mark is None

    def begin(self, source: Sequence[Entry], target: Sequence[Entry]) -> None:
        """Recognise what was copied before.

        Args:
            source: All entries of the thread; may be empty where `target` is.
            target: All entries of the thread in the other log.
        """
        found = match_copies(source, target)
        self._last = target[-1].position if target else 0
        for entry in source:
            if entry.id in found:
                self._adopt(entry, found[entry.id])

    def feed(self, entries: Sequence[Entry]) -> None:
        """Write those of the entries that are not there yet."""
        batch: list[Entry] = []
        for entry in entries:
            if entry.id in self._ids:
                continue
            if self._mark is not None or _refers(entry) or len(batch) >= _BATCH:
                self._write(batch)
                batch = []
            mark, self._mark = self._mark, None
            if mark is not None and _find_replacement(mark) == entry.id:
                self._write_replacement(mark, entry)
                continue
            self._write([mark] if mark is not None else [])
            if _find_replacement(entry) is None or _find_replacement(entry) in self._ids:
                batch.append(entry)
            else:
                # It names the id of the new text, which follows right after it.
                self._mark = entry
        self._write(batch)

    def finish(self) -> None:
        """Write a mark whose new text never came: somebody had it forgotten."""
        mark, self._mark = self._mark, None
        self._write([mark] if mark is not None else [])

    def _write(self, entries: list[Entry]) -> None:
        if not entries:
            return
        drafts = [self._translate(entry) for entry in entries]
        before = self._last
        copies = self._log.append(self._key, drafts, durable=False)
        for entry, copy in zip(entries, copies, strict=True):
            self.written += copy.position > before
            self._settle(entry, copy)

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
            self.written += 1
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


def _find_replacement(entry: Entry) -> str | None:
    """Return the id of the new text, for a mark of replacement."""
    return None if entry.control is None else entry.control.replacement


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
    replay = Replay(log, target)
    replay.begin(here, there)
    replay.feed(here)
    replay.finish()
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
