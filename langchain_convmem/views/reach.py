"""How far back a thread is read for its next view, so that no view reads an archive.

A view shows the latest messages within its budget, the system messages, and the summaries with
what they do not cover. `LiveReach` tells a log that reads backwards what it can skip and when it
has enough; the view of what was read is then that of the whole thread, with these limits:

- What a provider compacted counts only as far as the budget reaches; it is always nearer than
  that where the provider saw the thread within the same budget.
- What is a system message between messages further back stands before all that is shown.
- Names are written into the text where several people speak within reach.
- Messages further back are not counted: `Context.left_out` says that there are some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from langchain_convmem.ids import is_ulid
from langchain_convmem.records import Entry, Stretch
from langchain_convmem.views.live import (
    find_live_entries,
    find_nodes,
    find_uncovered,
    merge_entries,
)
from langchain_convmem.views.messages import TokenCounter
from langchain_convmem.views.pins import is_pin, read_pin
from langchain_convmem.views.tool_calls import find_answered_calls

_RESERVE = 1.25
"""How much further than its budget a view's entries reach: what is shown may weigh less."""


class LiveReach:
    """What the next view of a thread needs, for one read of it; see `MessageLog.read_back`.

    Attributes:
        floor: All entries after this position were read; 0: all of them.
        is_cut: Whether something that a view could show lies before it.
    """

    def __init__(self, max_tokens: int | None, token_counter: TokenCounter) -> None:
        """Prepare for a budget of `max_tokens`; None needs all that no summary covers."""
        self._tokens = None if max_tokens is None else round(_RESERVE * max_tokens)
        self._count = token_counter
        self._framing: Sequence[Entry] = ()
        self._named: Collection[str] = ()
        self._covered_ends: list[int] = []
        self.floor = 0
        self.is_cut = False

    def find_stretches(self, framing: Sequence[Entry]) -> Sequence[Stretch]:
        """Return where entries may stand that no summary covers, and what is before each of them.

        Args:
            framing: The thread's system messages, summaries and control entries, by position.
        """
        self._framing = framing
        found: list[Stretch] = []
        after = 0
        is_covered = any(entry.cover is not None for entry in framing)
        summaries = find_nodes(find_live_entries(framing)) if is_covered else []
        for first, last in _join_ranges(summaries, framing):
            if first > after + 1:
                found.append((max(after - 1, 0), first - 1))
            after = last
            self._covered_ends.append(last)
        self.floor = after
        return [*found, (max(after - 1, 0), None)]

    def find_named(self, framing: Sequence[Entry]) -> Collection[str]:
        """Return the ids of messages of pins: what was done to a message may take its pin away."""
        pinned = (read_pin(entry) for entry in framing if is_pin(entry))
        self._named = {pin.message_id for pin in pinned if pin.message_id is not None}
        return self._named

    def is_enough(self, page: Sequence[Entry]) -> bool:
        """Return whether a view needs nothing before these entries.

        Args:
            page: The entries read so far of `find_stretches`, by position.
        """
        if self._tokens is None or not page:
            return False
        live = find_live_entries(merge_entries(self._framing, page))
        said = [entry for entry in find_uncovered(live) if entry.role != "system"]
        cut = self._find_cut(said, page)
        if cut is None:
            return False
        self.floor, self.is_cut = max(self.floor, cut), True
        return True

    def is_certain(self, entries: Sequence[Entry]) -> bool:
        """Return whether the order of a conversation can be told from the entries of a read.

        A turn stands where it began, and that may be where a summary covers it.
        """
        if not self.floor or self.is_cut:
            return True
        unknown = self._find_unknown_turns(entries, is_from_start=True)
        return not any(one.turn_id in unknown for one in find_uncovered(find_live_entries(entries)))

    def select_needed(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries of a read without those that a view of all would leave out."""
        if not self.is_cut:
            return list(entries)
        shown = {entry.id for entry in find_uncovered(find_live_entries(entries))}
        return [
            entry
            for entry in entries
            if entry.position > self.floor
            or entry.role == "system"
            or entry.id not in shown
            or entry.message_id in self._named
        ]

    def _find_cut(self, said: Sequence[Entry], page: Sequence[Entry]) -> int | None:
        """Return the position after which all is needed, and nothing before it.

        What follows it weighs enough, begins with a user's message, and is complete: every turn
        and tool loop of it was read from its beginning, and all before it was said before.
        """
        calls = {result: call for call, result in find_answered_calls(said)}
        highest = list(accumulate((entry.position for entry in said), max))
        unknown = self._find_unknown_turns(page)
        lowest, weight = page[-1].position, 0
        waiting: set[str] = set()
        for number in range(len(said) - 1, 0, -1):
            entry, earlier = said[number], said[number - 1]
            if entry.turn_id in unknown:
                return None
            lowest = min(lowest, entry.position)
            weight += 0 if entry.message is None else self._count([entry.message])
            waiting.discard(entry.id)
            waiting.update(calls[name] for name in [entry.id] if name in calls)
            opens = entry.role == "user" and earlier.role != "user"
            is_alone = earlier.turn_id != entry.turn_id and highest[number - 1] < lowest
            if weight >= (self._tokens or 0) and opens and is_alone and not waiting:
                return lowest - 1
        return None

    def _find_unknown_turns(
        self, entries: Sequence[Entry], *, is_from_start: bool = False
    ) -> Collection[str]:
        """Return the turns that may have begun before the first entry of theirs that was read."""
        seen: set[str] = set()
        unknown: set[str] = set()
        before = None if is_from_start else entries[0].id
        ends = list(self._covered_ends)
        for entry in entries:
            turn = entry.turn_id
            while ends and entry.position >= ends[0]:
                before = entry.id  # what a summary covers was not read
                ends.pop(0)
            if entry.control is None and turn not in seen:
                seen.add(turn)
                if not (turn == entry.id or before is None or _is_newer(turn, before)):
                    unknown.add(turn)
        return unknown


def _is_newer(turn_id: str, entry_id: str) -> bool:
    """Return whether a turn is known to have begun after an entry."""
    return is_ulid(turn_id) and turn_id > entry_id


def _join_ranges(summaries: Iterable[Entry], framing: Iterable[Entry]) -> list[tuple[int, int]]:
    """Return the positions that summaries cover as ranges, ascending, with framing between them."""
    covers = (one.cover for one in summaries if one.cover is not None)
    known = {entry.position for entry in framing}
    found: list[tuple[int, int]] = []
    for first, end in sorted(part for cover in covers for part in cover.ranges):
        last = max(end, found[-1][1] if found else 0)
        while last + 1 in known:
            last += 1
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found
