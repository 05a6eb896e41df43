"""Which entries count, and in which order: retractions, replacements, turns and summaries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from langchain_convmem.records import Cover, Entry


def find_retracted_ids(entries: Sequence[Entry]) -> frozenset[str]:
    """Return the ids that control entries take out of every view.

    A control entry that is itself retracted does nothing, so retracting an undo is a redo.
    """
    dead: set[str] = set()
    for entry in reversed(entries):
        if entry.control is not None and entry.id not in dead:
            dead.update(entry.control.retracts)
    return frozenset(dead)


def find_live_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that count, in the order of the conversation.

    Entries of one turn stand together, turns in the order of their first entry: two turns that
    ran at once read question, answer, question, answer. A replacement takes the place of what it
    replaces. A summary stands right after the last entry it covers.

    Args:
        entries: A thread's entries by ascending position, control entries included.
    """
    if _is_in_order(entries):
        return list(entries)
    dead = find_retracted_ids(entries)
    replaces = {
        control.replacement: control.retracts[0]
        for control in (entry.control for entry in entries if entry.id not in dead)
        if control is not None and control.replacement is not None and control.retracts
    }
    first_of_turn: dict[str, int] = {}
    place: dict[str, int] = {}
    for entry in entries:
        if entry.control is None:
            old = replaces.get(entry.id)
            place[entry.id] = entry.position if old is None else _find_place(old, place)
            first_of_turn.setdefault(entry.turn_id, place[entry.id])
    kept = [entry for entry in entries if entry.control is None and entry.id not in dead]
    spoken = [entry for entry in kept if entry.role != "summary"]
    spoken.sort(key=lambda entry: (first_of_turn[entry.turn_id], place[entry.id]))
    return _place_summaries(spoken, [entry for entry in kept if entry.role == "summary"])


def _is_in_order(entries: Iterable[Entry]) -> bool:
    """Return whether all count as they stand, as they mostly do."""
    began: dict[str, int] = {}
    latest = 0
    for entry in entries:
        if entry.control is not None or entry.role == "summary":
            return False
        start = began.setdefault(entry.turn_id, entry.position)
        if start < latest:
            return False
        latest = start
    return True


def _find_place(entry_id: str, place: Mapping[str, int]) -> int:
    """Return where an entry stood; one that was forgotten stood after the ids before its own."""
    if entry_id in place:
        return place[entry_id]
    return max((at for other, at in place.items() if other < entry_id), default=0)


# -- Summaries ------------------------------------------------------------------------------------
class EntryPlaces:
    """Spoken entries by position, so that what a summary covers is found without a scan."""

    def __init__(self, spoken: Sequence[Entry]) -> None:
        """Sort entries, no summaries among them; their numbers are their places in `spoken`."""
        pairs = sorted((entry.position, number) for number, entry in enumerate(spoken))
        self._positions = [position for position, _ in pairs]
        self._numbers = [number for _, number in pairs]

    def find_under(self, cover: Cover | None) -> list[int]:
        """Return the numbers of the entries that a summary with this cover stands for."""
        found: list[int] = []
        for first, last in cover.ranges if cover is not None else ():
            start = bisect_left(self._positions, first)
            found.extend(self._numbers[start : bisect_right(self._positions, last)])
        return found

    def find_up_to(self, position: int) -> list[int]:
        """Return the numbers of the entries at this position and before it."""
        return self._numbers[: bisect_right(self._positions, position)]


def _place_summaries(spoken: list[Entry], summaries: Sequence[Entry]) -> list[Entry]:
    """Return both in one list; a later summary of the same stretch stands after the earlier."""
    if not summaries:
        return spoken
    places = EntryPlaces(spoken)
    following: dict[int, list[Entry]] = {}
    for summary in summaries:
        # Where nothing it covers is left, it stays after what was said before it.
        covered = places.find_under(summary.cover) or places.find_up_to(_find_end(summary))
        following.setdefault(max(covered, default=-1), []).append(summary)
    ordered = list(following.get(-1, ()))
    for number, entry in enumerate(spoken):
        ordered.append(entry)
        ordered.extend(following.get(number, ()))
    return ordered


def _find_end(summary: Entry) -> int:
    ranges = summary.cover.ranges if summary.cover is not None else ()
    return ranges[-1][1] if ranges else summary.position


def find_live_summary(live: Sequence[Entry]) -> Entry | None:
    """Return the newest summary among live entries, if any."""
    summaries = [entry for entry in live if entry.role == "summary"]
    return max(summaries, key=lambda entry: entry.position, default=None)


def find_summary_chain(live: Sequence[Entry], newest: Entry | None = None) -> list[Entry]:
    """Return the live summary and the live ones it builds on, newest first.

    Args:
        live: Live entries.
        newest: Where to begin instead of at the live summary.
    """
    summary = find_live_summary(live) if newest is None else newest
    by_id = {entry.id: entry for entry in live if entry.role == "summary"}
    chain: list[Entry] = []
    seen: set[str] = set()
    while summary is not None and summary.id not in seen:
        seen.add(summary.id)
        chain.append(summary)
        earlier = (by_id[name] for name in summary.metadata.summary_ids if name in by_id)
        summary = next(earlier, None)
    return chain


def find_covers(live: Sequence[Entry], summaries: Iterable[Entry]) -> dict[str, str]:
    """Return which summary covers an entry: entry id to summary id, the first that does."""
    spoken = [entry for entry in live if entry.role != "summary"]
    places = EntryPlaces(spoken)
    found: dict[str, str] = {}
    for summary in summaries:
        for number in places.find_under(summary.cover):
            found.setdefault(spoken[number].id, summary.id)
    return found


def find_uncovered(live: Sequence[Entry]) -> list[Entry]:
    """Return the live entries that no link of the live summary's chain covers, in order."""
    covered = find_covers(live, find_summary_chain(live))
    return [entry for entry in live if entry.role != "summary" and entry.id not in covered]
