"""The summaries of a thread as the tree that they are, for whoever looks at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_convmem.records import Entry, Turn
from langchain_convmem.views.live import find_frontier, find_live_entries, get_level, make_turn
from langchain_convmem.views.summaries import get_days

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, repr=False)
class SummaryNode:
    """A summary with those that it was made of.

    `print()` shows the tree below it, one line for each summary.

    Attributes:
        turn: The summary; its `contents` are the text.
        level: How many layers of summaries lie under it; 0 where it was written of what was said,
            or on top of another summary.
        ranges: Closed ranges of positions of the entries that it stands for, ascending; where it
            continues another summary, without those of that one.
        days: The first and the last day that it tells of, such as "2023-05-08"; empty where that
            is not known.
        children: The summaries that it was made of, or that it continues, in their order.
    """

    turn: Turn
    level: int = 0
    ranges: tuple[tuple[int, int], ...] = ()
    days: tuple[str, ...] = ()
    children: tuple[SummaryNode, ...] = field(default=())

    @property
    def id(self) -> str:
        """Id of the summary's entry."""
        return self.turn.id

    @property
    def text(self) -> str:
        """What the summary tells, its pieces as lines."""
        return "\n".join(self.turn.contents)

    @property
    def leaves(self) -> tuple[SummaryNode, ...]:
        """The summaries at the ends of the branches, in order; of a leaf, itself."""
        if not self.children:
            return (self,)
        return tuple(leaf for child in self.children for leaf in child.leaves)

    def __repr__(self) -> str:
        places = ", ".join(f"{first}-{last}" for first, last in self.ranges)
        days = " to ".join(dict.fromkeys(self.days))
        told = " ".join(self.text.split())
        shown = told if len(told) <= _SHOWN_CHARS else f"{told[:_SHOWN_CHARS]}..."
        marks = [f"level {self.level}", f"positions {places}" if places else "", days]
        line = f"SummaryNode({', '.join(filter(None, marks))}: {shown!r})"
        below = [f"  {text}" for child in self.children for text in repr(child).splitlines()]
        return "\n".join([line, *below])


def build_summary_tree(entries: Sequence[Entry]) -> list[SummaryNode]:
    """Return the summaries that a model reads, with those below, in order of what they stand for.

    Args:
        entries: A thread's entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    by_id = {entry.id: entry for entry in live if entry.role == "summary"}
    return [_build_node(top, by_id, frozenset()) for top in find_frontier(live)]


def _build_node(summary: Entry, by_id: Mapping[str, Entry], above: frozenset[str]) -> SummaryNode:
    names = [name for name in summary.metadata.summary_ids if name in by_id and name not in above]
    return SummaryNode(
        turn=make_turn([summary]),
        level=get_level(summary),
        ranges=summary.cover.ranges if summary.cover is not None else (),
        days=get_days(summary),
        children=tuple(_build_node(by_id[name], by_id, above | {summary.id}) for name in names),
    )
