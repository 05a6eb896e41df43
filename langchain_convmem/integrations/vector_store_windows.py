"""From what a store proposes to lines as the log has them, with those around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations.vector_store_border import Found
from langchain_convmem.integrations.vector_store_ledger import Head, Ledger
from langchain_convmem.integrations.vector_store_rows import Row
from langchain_convmem.protocols import MessageLog
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.scopes import Scope
from langchain_convmem.records import DialogLine, Entry, Owner, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.views.lines import dialog_lines

__all__ = ["Ground", "StoreScope", "Surveyor"]

# Reading so many positions too many costs less than another call.
_NEAR = 32


@dataclass(frozen=True, slots=True)
class StoreScope:
    """What may come back, as far as a store can tell.

    Attributes:
        owner: Whose lines.
        within: Only this thread.
        exclude: Positions that must not come back, by thread.
    """

    owner: Owner
    within: ThreadKey | None
    exclude: Mapping[ThreadKey, Collection[int]]

    @classmethod
    def of(cls, scope: Scope) -> StoreScope:
        """Return a scope as stores filter by it.

        Raises:
            ConfigError: If it is more than an owner or one of their threads.
        """
        beyond = {
            "several owners": len(scope.owners) > 1,
            "filter": bool(scope.where),
            "since": scope.since_ms is not None,
            "until": scope.until_ms is not None,
        }
        asked = [name for name, is_asked in beyond.items() if is_asked]
        if asked:
            msg = (
                f"recall over a vector store does not support {', '.join(asked)}: it searches the "
                "lines of one owner, or of one thread (within); LineRecall supports them all"
            )
            raise ConfigError(msg)
        (owner,) = scope.owners
        return cls(owner, scope.within, scope.exclude)

    def allows(self, row: Row) -> bool:
        """Return whether the lines of an entry may come back."""
        key = self.key_of(row)
        if self.within not in (None, key):
            return False
        return row.is_said and row.position not in self.exclude.get(key, ())

    def key_of(self, row: Row) -> ThreadKey:
        """Return the thread of an entry."""
        return ThreadKey(self.owner.user_id, row.thread_id)


@dataclass(slots=True)
class Ground:
    """The lines that were read, as a table like that of a recall in memory.

    Attributes:
        table: Stretches of dialogue. Between two that do not touch stand lines of no meaning, so
            that no window and no smoothing reaches across.
        gaps: The numbers of those lines' segments.
        scores: The store's score of each segment it proposed, by number.
    """

    table: SegmentTable = field(default_factory=SegmentTable)
    gaps: list[int] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    def add(
        self, lines: Iterable[DialogLine], scores: Mapping[tuple[str, int, int], float]
    ) -> None:
        """Append a stretch of dialogue, with the scores by entry id, part and segment."""
        for line in lines:
            for segment, number in enumerate(self.table.add(line)):
                score = scores.get((line.entry_id, line.part, segment))
                if score is not None:
                    self.scores[number] = score

    def part(self, last: DialogLine, reach: int) -> None:
        """Keep what follows apart from `last`, farther than `reach` lines."""
        for _ in range(reach + 1):
            self.gaps += self.table.add(replace(last, text="-", entry_id=""))


class Surveyor:
    """Reads what one recall needs: chunks of the ledger once each, and windows of the log."""

    def __init__(self, log: MessageLog, ledger: Ledger, head: Head, scope: StoreScope) -> None:
        """Create it; nothing is read yet."""
        self._log = log
        self._ledger = ledger
        self._head = head
        self._scope = scope
        self._chunks: dict[int, list[Row]] = {}

    def known(self, found: Iterable[Found]) -> Steps[list[Found]]:
        """Return what the ledger confirms and the scope allows, in the same order, each once."""
        kept: dict[tuple[str, int, int], Found] = {}
        for one in found:
            rows = yield from self._chunk(self._head.chunk_of(one.position))
            row = next((row for row in rows if row.entry_id == one.entry_id), None)
            if row is None or not self._scope.allows(row) or one.part not in range(len(row.counts)):
                continue
            if one.segment in range(row.counts[one.part]):
                kept.setdefault((one.entry_id, one.part, one.segment), one)
        return list(kept.values())

    def expects_lines(self) -> Steps[bool]:
        """Return whether the store should find anything, by what was noted last."""
        rows = yield from self._chunk(len(self._head.firsts) - 1)
        return any(self._scope.allows(row) for row in rows)

    def ground(self, found: Sequence[Found], reach: int) -> Steps[Ground]:
        """Read the entries that were found, with `reach` of those around each that have lines."""
        scores = {(one.entry_id, one.part, one.segment): one.score for one in found}
        ground = Ground()
        last: DialogLine | None = None
        for near in _read_together((yield from self._stretches(found, reach))):
            entries = yield from self._read(near[0][0], near[-1][-1])
            for stretch in near:
                if last is not None and last.key == self._scope.key_of(stretch[0]):
                    ground.part(last, reach)
                # What the log no longer has is left out, whatever ledger and store say.
                there = [entries[row.entry_id] for row in stretch if row.entry_id in entries]
                lines = [line for entry in there for line in dialog_lines(entry)]
                ground.add(lines, scores)
                last = lines[-1] if lines else last
        return ground

    def _read(self, first: Row, last: Row) -> Steps[dict[str, Entry]]:
        """Return the entries of a thread from one to another, by id."""
        key, after, until = self._scope.key_of(first), first.position - 1, last.position
        entries: list[Entry] = yield step(self._log, "entries", key, after=after, until=until)
        return {entry.id: entry for entry in entries}

    def _stretches(self, found: Sequence[Found], reach: int) -> Steps[list[list[Row]]]:
        """Return the windows around what was found, merged where they touch, by thread."""
        rows: dict[tuple[str, int], Row] = {}
        following: dict[int, int] = {}
        for one in found:
            thread = yield from self._around(one, reach + 1)
            at = next(n for n, row in enumerate(thread) if row.entry_id == one.entry_id)
            seen = thread[max(at - reach - 1, 0) : at + reach + 2]
            following.update((a.position, b.position) for a, b in pairwise(seen))
            window = thread[max(at - reach, 0) : at + reach + 1]
            rows.update(((row.thread_id, row.position), row) for row in window)
        stretches: list[list[Row]] = []
        for row in (rows[place] for place in sorted(rows)):
            if stretches and following.get(stretches[-1][-1].position) == row.position:
                stretches[-1].append(row)
            else:
                stretches.append([row])
        return stretches

    def _around(self, one: Found, reach: int) -> Steps[list[Row]]:
        """Return the said entries of a thread around one: `reach` on each side if they are near.

        Near is the same chunk of the ledger or the next one: what lies farther apart in the log
        of a user was hardly said in one sitting.
        """
        number = self._head.chunk_of(one.position)
        rows = yield from self._chunk(number)
        thread_id = next(row.thread_id for row in rows if row.entry_id == one.entry_id)
        thread = _said_in(thread_id, rows)
        at = [row.entry_id for row in thread].index(one.entry_id)
        short_before, short_behind = at < reach, len(thread) - at <= reach
        if short_before:
            thread = [*_said_in(thread_id, (yield from self._chunk(number - 1))), *thread]
        if short_behind:
            thread += _said_in(thread_id, (yield from self._chunk(number + 1)))
        return thread

    def _chunk(self, number: int) -> Steps[list[Row]]:
        if number not in self._chunks:
            self._chunks[number] = yield from self._ledger.chunk(self._head, number)
        return self._chunks[number]


def _read_together(stretches: Iterable[list[Row]]) -> list[list[list[Row]]]:
    """Return the stretches in groups that one read of a thread gets cheaply."""
    groups: list[list[list[Row]]] = []
    for stretch in stretches:
        last = groups[-1][-1][-1] if groups else None
        near = last is not None and stretch[0].position - last.position <= _NEAR
        if last is not None and near and last.thread_id == stretch[0].thread_id:
            groups[-1].append(stretch)
        else:
            groups.append([stretch])
    return groups


def _said_in(thread_id: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.thread_id == thread_id and row.is_said]
