"""What to compact: from the entries of a thread to the window of its next summary. Pure.

The latest conversation stays as it was said, down to the low mark; all that is older is covered,
each entry by exactly one summary. A window ends behind a reply across which no tool call reaches,
so the question that waits for an answer and an open tool loop stay, however large they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from langchain_core.messages import BaseMessage

from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.summarizing.settings import Size, SummarySettings
from langchain_convmem.views.live import (
    covered_by,
    live_entries,
    live_summary,
    summary_chain,
)
from langchain_convmem.views.tokens import count_tokens
from langchain_convmem.views.window import (
    SummaryWindow,
    closing_points,
    said_since,
    window_of,
)

__all__ = ["ROLLED", "Plan", "make_plan", "remade_plan", "rolled_of", "size_of"]

ROLLED = "rolled"
"""Key of a summary's record: how many summaries since the last that was made of what was said."""

TokenCount = Callable[[Sequence[BaseMessage]], int]


@dataclass(frozen=True, slots=True)
class Plan:
    """A compaction to be made.

    Attributes:
        window: What the summary covers, and the summary that it continues.
        rolled: How many summaries it builds on since the last one made of what was said.
        is_redone: Whether it takes the place of a summary of the same window.
    """

    window: SummaryWindow
    rolled: int
    is_redone: bool = False


def size_of(said: Sequence[Entry], count: TokenCount = count_tokens) -> Size:
    """Return how large what these entries say is."""
    return Size(sum(_tokens(entry, count) for entry in said), len(said))


def make_plan(
    key: ThreadKey,
    entries: Sequence[Entry],
    settings: SummarySettings,
    *,
    force: bool = False,
    rebuild: bool = False,
    count: TokenCount = count_tokens,
) -> Plan | None:
    """Return what to compact now; None where nothing is due, or nothing may be covered.

    Args:
        key: The thread.
        entries: Its entries by ascending position, control entries included. What no summary
            covers and the live summary are enough, unless to `rebuild`.
        settings: The marks.
        force: Compact all that may be covered, whatever the marks say.
        rebuild: Cover what was said since the last summary that was not made on top of another
            one's text alone, as it was said.
        count: Counts the tokens of messages.
    """
    live = live_entries(entries)
    newest = live_summary(live)
    said = said_since(live, newest)
    if not force and not settings.is_due(size_of(said, count)):
        return None
    end = _end(said, settings, count, force=force)
    if not end:
        return None
    if newest is not None and rebuild:
        base = _firsthand(live, newest)
        left = {entry.id for entry in said[end:]}
        covered = [entry for entry in said_since(live, base) if entry.id not in left]
        return Plan(window_of(key, entries, covered, base), 0)
    rolled = 0 if newest is None else rolled_of(newest) + 1
    return Plan(window_of(key, entries, said[:end], newest), rolled)


def remade_plan(key: ThreadKey, entries: Sequence[Entry]) -> Plan | None:
    """Return the plan by which the live summary was made; None if there is none.

    Args:
        key: The thread.
        entries: All its entries by ascending position.
    """
    live = live_entries(entries)
    newest = live_summary(live)
    if newest is None:
        return None
    chain = summary_chain(live, newest)
    base = chain[1] if len(chain) > 1 else None
    covered = covered_by(live, [newest])
    told = [entry for entry in said_since(live, base) if entry.id in covered]
    return Plan(window_of(key, entries, told, base), rolled_of(newest), is_redone=True)


def _tokens(entry: Entry, count: TokenCount) -> int:
    return 0 if entry.message is None else count([entry.message])


def _end(
    said: Sequence[Entry], settings: SummarySettings, count: TokenCount, *, force: bool
) -> int:
    """Return how many entries to cover: the fewest that leave little enough."""
    points = closing_points(said)
    if force or not points:
        return points[-1] if points else 0
    covered = list(accumulate((_tokens(entry, count) for entry in said), initial=0))
    for point in points:
        rest = Size(covered[-1] - covered[point], len(said) - point)
        if settings.is_small(rest):
            return point
    return points[-1]


def _firsthand(live: Sequence[Entry], newest: Entry) -> Entry:
    """Return the newest summary that was made of what was said; else the oldest there is."""
    chain = summary_chain(live, newest)
    return next((one for one in chain if not rolled_of(one)), chain[-1])


def rolled_of(summary: Entry) -> int:
    """Return how many summaries this one builds on since the last made of what was said."""
    record = summary.metadata.aux.get("summary")
    return int(record.get(ROLLED, 0)) if isinstance(record, dict) else 0
