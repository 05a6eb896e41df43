"""Where the part of a thread begins that its next view needs, so that no view reads an archive.

What summaries cover, and what is older than any budget reaches, is read once and noted here. A
note is a cache: it says which positions a view of the thread can do without, as long as nothing
that came later refers to them. `is_current` tells, and whoever asks reads the whole thread if not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from langchain_convmem.ids import is_ulid
from langchain_convmem.records import Entry
from langchain_convmem.views.budget import TokenCount
from langchain_convmem.views.live import (
    live_entries,
    live_summary,
    retracted_ids,
    summary_chain,
    uncovered,
)
from langchain_convmem.views.profiles.names import first_speakers
from langchain_convmem.views.tool_calls import answered_calls

__all__ = ["LivePart", "is_current", "narrowed", "reads_alone"]

_FORM = 1
_MOST_KEPT = 32
_RESERVE = 1.25
"""A note made for a budget reaches back so many times as far, since budgets and threads change."""


@dataclass(frozen=True, slots=True)
class LivePart:
    """What a view needs of a thread that was read up to `upto`.

    Attributes:
        upto: The newest position when this was noted.
        newest_id: Id of the entry there; ids made later are greater.
        floor: Entries up to this position are not needed, but for those at `kept`.
        kept: Their positions: system messages and the live summary, with what they replaced.
        summary_id: The live summary's entry, if there was one.
        speakers: Up to two names that messages up to `floor` bear.
        is_whole: Whether nothing that a model would read lies before it. Otherwise it serves only
            views that leave something of it out for their budget.
        reach: So many tokens lie behind `floor` at least; 0 if all that counts does.
    """

    upto: int
    newest_id: str
    floor: int
    kept: tuple[int, ...]
    summary_id: str | None
    speakers: tuple[str, ...]
    is_whole: bool
    reach: int

    @classmethod
    def of(cls, document: Any) -> Self | None:
        """Return the note of a state document; None if it is none that this release wrote."""
        if not isinstance(document, dict) or document.get("form") != _FORM:
            return None
        fields = {name: value for name, value in document.items() if name != "form"}
        lists = {name: tuple(fields[name]) for name in ("kept", "speakers")}
        return cls(**{**fields, **lists})

    def to_document(self) -> dict[str, Any]:
        """Return the note as a state document."""
        return {
            "form": _FORM,
            "upto": self.upto,
            "newest_id": self.newest_id,
            "floor": self.floor,
            "kept": list(self.kept),
            "summary_id": self.summary_id,
            "speakers": list(self.speakers),
            "is_whole": self.is_whole,
            "reach": self.reach,
        }


# -- reading on from a note -----------------------------------------------------------------------


def is_current(part: LivePart, entries: Sequence[Entry]) -> bool:
    """Return whether a view of these entries is the view of the whole thread.

    Args:
        part: What was noted.
        entries: The thread's entries at `part.kept` and behind `part.floor`, by position.
    """
    by_id = {entry.id: entry for entry in entries}
    positions = {entry.position for entry in entries}
    fresh = [entry for entry in entries if entry.position > part.upto]
    known = {entry.turn_id for entry in entries if entry.position <= part.upto}
    return (
        positions.issuperset(part.kept)
        and _still_stands(part.summary_id, entries)
        and all(_is_known(name, by_id) for entry in fresh for name in _retracts(entry))
        and _begin_here(fresh, known, part.newest_id)
        and (part.is_whole or _are_asked_here(fresh, entries))
    )


def _retracts(entry: Entry) -> tuple[str, ...]:
    return () if entry.control is None else entry.control.retracts


def _still_stands(summary_id: str | None, entries: Sequence[Entry]) -> bool:
    """Return whether the summary is the live one, or the live one continues it."""
    if summary_id is None:
        return True
    chain = summary_chain(live_entries(entries))
    return summary_id in {summary.id for summary in chain}


def _is_known(entry_id: str, by_id: dict[str, Entry]) -> bool:
    """Return whether an entry is among these, and all that it retracts itself."""
    entry = by_id.get(entry_id)
    return entry is not None and all(_is_known(name, by_id) for name in _retracts(entry))


def _begin_here(fresh: Iterable[Entry], known: Collection[str], newest_id: str) -> bool:
    """Return whether no entry belongs to a turn that began before the noted part."""
    begun = set(known)
    for entry in fresh:
        turn = entry.turn_id
        is_new = turn == entry.id or (is_ulid(turn) and turn > newest_id)
        if entry.control is None and turn not in begun and not is_new:
            return False
        begun.add(turn)
    return True


def _are_asked_here(fresh: Iterable[Entry], entries: Sequence[Entry]) -> bool:
    """Return whether every new tool result has its call among the entries."""
    results = [entry.id for entry in fresh if entry.role == "tool"]
    return not results or {
        result for _, result in answered_calls(live_entries(entries))
    }.issuperset(results)


def reads_alone(page: Sequence[Entry]) -> bool:
    """Return whether the latest entries of a thread refer to nothing before the first of them."""
    if not page:
        return True
    first = page[0]
    part = LivePart(first.position, first.id, first.position, (), None, (), True, 0)
    return is_current(part, page[1:])


# -- noting ---------------------------------------------------------------------------------------


def narrowed(
    entries: Sequence[Entry],
    before: LivePart | None,
    *,
    max_tokens: int | None,
    token_counter: TokenCount,
    min_saved: int = 32,
) -> LivePart | None:
    """Return a note of what the next view needs; None where it would save too little.

    Args:
        entries: The thread's entries by position, or those that `before` says are needed.
        before: What was noted earlier, if `entries` are not the whole thread.
        max_tokens: The budget of the view, if it has one.
        token_counter: Counts the tokens of messages.
        min_saved: A note that saves fewer entries is not worth writing.
    """
    live = live_entries(entries)
    shown = uncovered(live)
    said = [entry for entry in shown if entry.role != "system"]
    # Two budgets in turn must not narrow and widen each other's note for ever.
    reach = max(round(_RESERVE * (max_tokens or 0)), 0 if before is None else before.reach)
    needed = _latest(said, reach, token_counter) if max_tokens or reach else said
    summary = live_summary(live)
    framing = [entry for entry in shown if entry.role == "system"]
    framing += [] if summary is None else [summary]
    floor = _floor(entries, needed)
    kept = sorted(position for position in _origins(entries, framing) if position <= floor)
    saved = sum(entry.position <= floor for entry in entries) - len(kept)
    if saved < min_saved or len(kept) > _MOST_KEPT:
        return None
    earlier = [entry for entry in live if entry.position <= floor and entry.position not in kept]
    speakers = () if before is None else before.speakers
    is_whole = len(needed) == len(said) and (before is None or before.is_whole)
    return LivePart(
        upto=entries[-1].position,
        newest_id=entries[-1].id,
        floor=floor,
        kept=tuple(kept),
        summary_id=None if summary is None else summary.id,
        speakers=first_speakers(earlier, speakers),
        is_whole=is_whole,
        reach=0 if is_whole else reach,
    )


def _latest(said: Sequence[Entry], tokens: int, count: TokenCount) -> Sequence[Entry]:
    """Return the latest exchanges that weigh so much, or all there are."""
    weight = 0
    for number in range(len(said) - 1, 0, -1):
        entry, earlier = said[number], said[number - 1]
        weight += 0 if entry.message is None else count([entry.message])
        if weight >= tokens and entry.role == "user" and earlier.role != "user":
            return said[number:]
    return said


def _floor(entries: Sequence[Entry], needed: Sequence[Entry]) -> int:
    """Return the position up to which nothing is needed, and no turn or tool loop is cut."""
    end = entries[-1].position if entries else 0
    floor = min(_origins(entries, needed), default=end + 1) - 1
    reaches = [*_turn_spans(entries), *_call_spans(entries)]
    while True:
        cut = [first for first, last in reaches if first <= floor < last]
        if not cut:
            return floor
        floor = min(cut) - 1


def _turn_spans(entries: Iterable[Entry]) -> Iterator[tuple[int, int]]:
    spans: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if entry.control is None and entry.role not in ("system", "summary"):
            first, _ = spans.get(entry.turn_id, (entry.position, 0))
            spans[entry.turn_id] = (first, entry.position)
    return iter(spans.values())


def _call_spans(entries: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    at = {entry.id: entry.position for entry in entries}
    for call, result in answered_calls(live_entries(entries)):
        yield at[call], at[result]


def _origins(entries: Sequence[Entry], shown: Iterable[Entry]) -> set[int]:
    """Return the positions of entries, of what they replaced, and of what says so."""
    at = {entry.id: entry for entry in entries}
    dead = retracted_ids(entries)
    replacing = {
        entry.control.replacement: entry
        for entry in entries
        if entry.control is not None and entry.id not in dead
    }
    found: set[int] = set()
    waiting = list(shown)
    while waiting:
        entry = waiting.pop()
        if entry.position not in found:
            found.add(entry.position)
            control = replacing.get(entry.id)
            origins = () if control is None else (control.id, *_retracts(control)[:1])
            waiting.extend(at[name] for name in origins if name in at)
    return found
