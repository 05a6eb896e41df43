"""What the next summary must cover: a snapshot of the turns that no summary stands for yet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from langchain_convmem.records import Cover, Entry, ThreadKey, Turn
from langchain_convmem.views.live import (
    covered_by,
    live_entries,
    live_summary,
    summary_chain,
)
from langchain_convmem.views.summary_text import TextStyle, end_sentence, window_text
from langchain_convmem.views.tool_calls import answered_calls
from langchain_convmem.views.turns import has_calls, runs, turn_of

__all__ = [
    "SummaryWindow",
    "closing_points",
    "cover_of",
    "crossing_results",
    "said_since",
    "summary_window",
    "window_of",
]


@dataclass(frozen=True, slots=True)
class SummaryWindow:
    """The turns that the next summary must cover, as they were when it was asked for.

    A value: taking one changes nothing, and what arrives afterwards does not change it. `str()` of
    it is its `format()`.

    Attributes:
        key: The thread.
        turns: In display order, without placeholders and system turns; ends with a reply of the
            assistant behind which no tool is awaited. Empty when there is nothing to summarise.
        previous: The summary that the next one continues, if there is one and turns to add to it.
        cover: Positions and digest of the entries in `turns`.
    """

    key: ThreadKey
    turns: tuple[Turn, ...] = ()
    previous: Turn | None = None
    cover: Cover = field(default_factory=partial(Cover, ()))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to summarise."""
        return not self.turns

    @property
    def summary_ids(self) -> tuple[str, ...]:
        """What the next summary refers to: the previous summary's id, then the turns' ids."""
        before = () if self.previous is None else (self.previous.id,)
        return (*before, *(turn.id for turn in self.turns))

    @property
    def entry_ids(self) -> tuple[str, ...]:
        """Ids of the entries in `turns`, in order."""
        return tuple(entry.id for turn in self.turns for entry in turn.entries)

    def __str__(self) -> str:
        return self.format()

    def format(
        self,
        *,
        include_previous: bool = True,
        preamble: str = "",
        user_tag: str = "User",
        assistant_tag: str = "Assistant",
        tool_tag: str | None = "Tool",
        summary_tag: str = "Previous Dialogue",
        prefix: str = "[",
        postfix: str = "]: ",
        separator: str = " ",
        closure: str = "\n",
        summary_closure: str = "\n\n",
        transformer: Callable[[str], str] = end_sentence,
    ) -> str:
        """Return the text to give to whoever summarises.

        One line for each speaker of each turn; a message's `name` stands in place of its tag. The
        text is data: it may hold anything that was said, closures and tags included.

        Args:
            include_previous: Put the previous summary first. Without it the summariser has to
                know it otherwise, since the next summary takes its place.
            preamble: Put in front as it is.
            user_tag: Who a user's line is from, if the message has no name.
            assistant_tag: Who an assistant's line is from, if the message has no name.
            tool_tag: Who a tool's line is from; None leaves out tool calls and results.
            summary_tag: What stands before the previous summary.
            prefix: Before a tag.
            postfix: Behind a tag.
            separator: Between the pieces of a line.
            closure: Between lines.
            summary_closure: Between the previous summary and the first line.
            transformer: Applied to each piece without the white space around it; the default ends
                sentences.

        Returns:
            The text; of an empty window, the preamble alone.
        """
        style = TextStyle(
            tags={"user": user_tag, "assistant": assistant_tag, "tool": tool_tag},
            summary_tag=summary_tag,
            prefix=prefix,
            postfix=postfix,
            separator=separator,
            closure=closure,
            summary_closure=summary_closure,
            transformer=transformer,
        )
        previous = self.previous if include_previous else None
        return preamble + window_text(self.turns, previous, style)


def summary_window(key: ThreadKey, entries: Sequence[Entry]) -> SummaryWindow:
    """Return what the next summary of a thread must cover.

    Args:
        key: The thread.
        entries: Its entries by ascending position, control entries included.
    """
    live = live_entries(entries)
    before = live_summary(live)
    said = said_since(live, before)
    ends = closing_points(said)
    return window_of(key, entries, said[: ends[-1]] if ends else (), before)


def said_since(live: Sequence[Entry], summary: Entry | None) -> list[Entry]:
    """Return what was said that neither a summary covers nor those it builds on, in order.

    Args:
        live: Live entries.
        summary: One of them; None is for all that was said.
    """
    chain = [] if summary is None else summary_chain(live, summary)
    covered = covered_by(live, chain)
    return [
        entry
        for entry in live
        if entry.role not in ("summary", "system") and entry.id not in covered
    ]


def window_of(
    key: ThreadKey, entries: Sequence[Entry], covered: Sequence[Entry], previous: Entry | None
) -> SummaryWindow:
    """Return the window of a summary that covers these entries and continues another summary.

    Args:
        key: The thread.
        entries: Its entries by ascending position, those to cover among them.
        covered: What `said_since(previous)` begins with, up to one of its closing points.
        previous: What the next summary continues.
    """
    found = runs(covered)
    if not found:
        return SummaryWindow(key)
    return SummaryWindow(
        key,
        turns=tuple(turn_of(run) for run in found),
        previous=None if previous is None else turn_of([previous]),
        # Blank messages are in no turn, but left uncovered they would be mended again each time.
        cover=cover_of(entries, covered),
    )


def closing_points(said: Sequence[Entry]) -> list[int]:
    """Return where a window may end: how many entries it then covers, ascending.

    That is behind replies across which no tool call reaches. So neither a question that waits for
    an answer nor an open tool loop is ever covered.
    """
    found = runs(said)
    at = {entry.id: number for number, entry in enumerate(said)}
    pairs = answered_calls([entry for run in found for entry in run])
    crossed = sorted((at[call], at[result]) for call, result in pairs)
    points: list[int] = []
    reach, upcoming = -1, 0
    for run in found:
        last = run[-1]
        place = at[last.id]
        while upcoming < len(crossed) and crossed[upcoming][0] <= place:
            reach = max(reach, crossed[upcoming][1])
            upcoming += 1
        if last.role == "assistant" and not has_calls(last) and reach <= place:
            points.append(place + 1)
    return points


def crossing_results(entries: Sequence[Entry], covered: Collection[str]) -> list[str]:
    """Return the ids of results that are not covered although their call is."""
    pairs = answered_calls(entries)
    return [result for call, result in pairs if call in covered and result not in covered]


def cover_of(entries: Iterable[Entry], covered: Sequence[Entry]) -> Cover:
    """Return ranges of positions that hold the covered entries and no other spoken entry.

    Entries that are retracted at present break a range, since they may come back.

    Args:
        entries: The thread's entries.
        covered: Those to cover, in display order.
    """
    wanted = {entry.id for entry in covered}
    spoken = (entry for entry in entries if entry.role not in ("summary", "control"))
    ranges: list[tuple[int, int]] = []
    is_open = False
    for entry in sorted(spoken, key=lambda entry: entry.position):
        if entry.id in wanted:
            first = ranges.pop()[0] if is_open else entry.position
            ranges.append((first, entry.position))
        is_open = entry.id in wanted
    return Cover(tuple(ranges), _digest(covered))


def _digest(covered: Iterable[Entry]) -> str:
    ids = "\n".join(entry.id for entry in covered)
    return hashlib.blake2b(ids.encode(), digest_size=16).hexdigest()
