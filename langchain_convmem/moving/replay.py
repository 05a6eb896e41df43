"""Writing the entries of one thread into another log: in order, each once.

The other log gives ids and positions of its own, so whatever refers to entries (edits, summaries)
is put in its words. A message keeps the key it is known by: where it has no id of its own, that is
the id of its entry, which becomes the message's. So a copy can be made again, or taken up where it
was interrupted: what is there already is recognised, not doubled.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import replace

from langchain_convmem.effects import Steps, step
from langchain_convmem.moving.exported import draft_like
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Control, Cover, Draft, Entry, ThreadKey

__all__ = ["Replay", "counterparts"]

_BATCH = 200
"""Entries per append."""


def counterparts(source: Sequence[Entry], target: Sequence[Entry]) -> dict[str, Entry]:
    """Return the entry of `target` that each entry of `source` became, by the latter's id.

    Entries that were not copied are left out.

    Args:
        source: A thread's entries in order of position.
        target: Those of the thread they were copied to, in order of position.
    """
    waiting: dict[Hashable, deque[Entry]] = defaultdict(deque)
    for entry in target:
        waiting[_mark(entry)].append(entry)
    found = {}
    for entry in source:
        same = waiting.get(_mark(entry))
        while same:
            candidate = same.popleft()
            if _is_copy(candidate, entry):
                found[entry.id] = candidate
                break
    _match_replacements(source, target, found)
    return found


def _mark(entry: Entry) -> Hashable:
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


def _refers(entry: Entry) -> bool:
    return entry.control is not None or entry.cover is not None


def _replacement(entry: Entry) -> str | None:
    """Return the id of the new text, for a mark of replacement."""
    return None if entry.control is None else entry.control.replacement


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
    def settled(self) -> bool:
        """Whether everything that was fed is written: no mark waits for its new text."""
        return self._mark is None

    def begin(self, source: Sequence[Entry], target: Sequence[Entry]) -> Steps[None]:
        """Recognise what was copied before.

        Args:
            source: All entries of the thread; may be empty where `target` is.
            target: All entries of the thread in the other log.
        """
        found = counterparts(source, target)
        self._last = target[-1].position if target else 0
        for entry in source:
            if entry.id in found:
                yield from self._adopt(entry, found[entry.id])

    def feed(self, entries: Sequence[Entry]) -> Steps[None]:
        """Write those of the entries that are not there yet."""
        batch: list[Entry] = []
        for entry in entries:
            if entry.id in self._ids:
                continue
            if self._mark is not None or _refers(entry) or len(batch) >= _BATCH:
                yield from self._write(batch)
                batch = []
            mark, self._mark = self._mark, None
            if mark is not None and _replacement(mark) == entry.id:
                yield from self._write_replacement(mark, entry)
                continue
            yield from self._write([mark] if mark is not None else [])
            if _replacement(entry) is None or _replacement(entry) in self._ids:
                batch.append(entry)
            else:
                # It names the id of the new text, which stands right behind it.
                self._mark = entry
        yield from self._write(batch)

    def finish(self) -> Steps[None]:
        """Write a mark whose new text never came: somebody had it forgotten."""
        mark, self._mark = self._mark, None
        yield from self._write([mark] if mark is not None else [])

    def _write(self, entries: list[Entry]) -> Steps[None]:
        if not entries:
            return
        drafts = [self._draft(entry) for entry in entries]
        before = self._last
        copies = yield step(self._log, "append", self._key, drafts, relaxed=True)
        for entry, copy in zip(entries, copies, strict=True):
            self.written += copy.position > before
            self._settle(entry, copy)

    def _write_replacement(self, mark: Entry, entry: Entry) -> Steps[None]:
        """Write a new text, then the mark that puts it in the old one's place.

        The log makes the mark by itself where the old text is still there under the same key.
        """
        before = self._last
        yield from self._write([entry])
        new_id = self._ids[entry.id]
        expected = [] if mark.control is None else list(map(self._id, mark.control.retracts))
        if expected == [new_id]:
            return  # a write hook made both texts the same, so nothing was replaced
        later: list[Entry] = yield step(self._log, "entries", self._key, after=before)
        made = [item for item in later if item.control and item.control.replacement == new_id]
        if made and made[0].control and list(made[0].control.retracts) == expected:
            self.written += 1
            yield from self._adopt(mark, made[0])
            return
        if made:
            # Another version counts under the key, which the original left as it was.
            undo = Draft(role="control", control=Control((made[0].id,), "rewind"))
            yield step(self._log, "append", self._key, [undo], relaxed=True)
        yield from self._write([mark])

    def _adopt(self, entry: Entry, copy: Entry) -> Steps[None]:
        """Take what is there for the entry's copy; a mark that the log made is completed."""
        said, there = entry.metadata, copy.metadata
        if entry.control is not None and there != said:
            yield step(
                self._log,
                "annotate",
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

    def _draft(self, entry: Entry) -> Draft:
        draft = draft_like(entry)
        message = entry.message
        if message is not None and not message.id:
            message = message.model_copy(update={"id": entry.id})
        known = entry.metadata
        summary_ids = tuple(self._ids.get(other, other) for other in known.summary_ids)
        return replace(
            draft,
            message=message,
            metadata=replace(known, summary_ids=summary_ids),
            control=None if entry.control is None else self._control(entry.control),
            cover=None if entry.cover is None else self._cover(entry.cover),
        )

    def _control(self, control: Control) -> Control:
        new = control.replacement
        return replace(
            control,
            retracts=tuple(self._id(other) for other in control.retracts),
            replacement=None if new is None else self._ids.get(new),
        )

    def _id(self, entry_id: str) -> str:
        """Return the copy's id; of what was forgotten, an id that stands in the same place.

        Views put a replacement where the retracted entry stood, and find that place by the ids
        before it.
        """
        if entry_id in self._ids:
            return self._ids[entry_id]
        before = [copy for original, copy in self._ids.items() if original < entry_id]
        return f"{max(before, default='')} {entry_id}"

    def _cover(self, cover: Cover) -> Cover:
        return replace(cover, ranges=tuple(self._range(*pair) for pair in cover.ranges))

    def _range(self, first: int, last: int) -> tuple[int, int]:
        """Return the positions of the copies of what lies within.

        Where nothing is left of it, a range that holds nothing, in the same place: views keep a
        summary behind what was said before it.
        """
        start = bisect_left(self._positions, (first, 0))
        end = bisect_left(self._positions, (last + 1, 0))
        inside = [copy for _, copy in self._positions[start:end]]
        if inside:
            return min(inside), max(inside)
        before = self._positions[start - 1][1] if start else 0
        return before + 1, before
