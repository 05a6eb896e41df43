"""From ranked segments to the blocks that a model reads. Pure.

Invariants: no line is in two blocks; lines inside a block are in the order of the dialogue and
neighbours of one another; blocks come best first; a budget is never exceeded, headers included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from langchain_convmem.recall.calibration import is_answered, select_worth
from langchain_convmem.recall.options import RecallQuery
from langchain_convmem.recall.ranking import Ranking
from langchain_convmem.recall.segments import SegmentTable, fold
from langchain_convmem.views.lines import LineMatch, Recall, RecalledBlock, Verdict, indent_text
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.speech import find_statements, is_courtesy

if TYPE_CHECKING:
    from numpy.typing import NDArray


Passage: TypeAlias = "tuple[tuple[int, int], ...]"
"""Stretches of a segment's text, in order: where each starts and ends."""
_GAP = "[...]"
_OLDER = ", older"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# "Three weeks" says more than "21 days", but "8 days" more than "a week".
_UNITS = (("years", 365), ("months", 30), ("weeks", 7), ("days", 1))
_DAY_MS = 24 * 3_600_000
# After this many segments in a row that no longer fit, the rest of the ranking hardly will.
_MISSES = 50
# A reply up to so many characters is understood by what it answers alone.
_SHORT_REPLY = 120
# A segment up to so many characters is shown whole.
_SHORT = 120
# Our own counter takes no character for fewer tokens.
_LEAST_TOKENS = 1 / 6


@dataclass(frozen=True, slots=True)
class TableView:
    """The lines that blocks may be built from, and how they look.

    Attributes:
        table: The lines.
        allowed: Which segments may come back; a window ends before any other.
        query: What is asked, and how much is shown.
        older: Segments of which a later statement about the same thing comes first; the headers of
            their blocks say so.
        leading: The segment that comes first: a block that holds it is not older.
        loose: Segments of which only what they state is worth its room; None: of none.
    """

    table: SegmentTable
    allowed: NDArray[np.bool_]
    query: RecallQuery
    older: frozenset[int] = frozenset()
    leading: int | None = None
    loose: NDArray[np.bool_] | None = None

    def look_beyond(self, line: int, step: int) -> int | None:
        """Return the line after (`step` 1) or before (-1) one, whether it may be shown or not."""
        crosses = self.query.settings.cross_sessions
        return self.table.find_next_line(line, step, cross_sessions=crosses)

    def list_window(self, line: int, window: tuple[int, int]) -> list[int]:
        """Return the line with what its window reaches, in the order of the dialogue."""
        found = [line]
        for step, reach in zip((-1, 1), window, strict=True):
            at = line
            for _ in range(reach):
                beyond = self.look_beyond(at, step)
                if beyond is None or not self.allowed[self.table.list_segments(beyond).start]:
                    break
                at = beyond
                found.append(at)
        return sorted(found)

    # -- text -------------------------------------------------------------------------------------

    def find_passage(self, number: int) -> Passage | None:
        """Return what of a segment's text is worth its room, None for all of it."""
        if self.loose is None or not self.loose[number]:
            return None
        start, end = self.table.get_span(number)
        # What is shown whole need not be read.
        return _find_statement(self.table.get_text(number)) if end - start > _SHORT else None

    def render(self, group: LineGroup) -> str:
        """Return a date header (UTC), then `Speaker: text` for each line, verbatim.

        Only these begin at the margin: further lines of a text are indented. Of a long line only
        the chosen segments stand there, or passages of them, with `[...]` for what is left out.
        By the settings the header also gives the age of the first line; it says so where all of
        the group is out of date.
        """
        chosen = set(chain.from_iterable(group.lines.values())) if self.older else set()
        is_older = self.leading not in chosen and not self.older.isdisjoint(chosen)
        days = self.table.lines[next(iter(group.lines))].time_ms // _DAY_MS
        now_ms = self.query.now_ms if self.query.settings.age_in_header else None
        age = None if now_ms is None else now_ms // _DAY_MS - days
        header = _render_day(days, age)
        texts = [f"{header[:-1]}{_OLDER}]" if is_older else header]
        for number in group.lines:
            line = self.table.lines[number]
            texts.append(f"{line.speaker}: {indent_text(self._render_line(number, group))}")
        return "\n".join(texts)

    def _render_line(self, number: int, group: LineGroup) -> str:
        chosen, whole = group.lines[number], self.table.lines[number].text
        is_cut = not group.passages.keys().isdisjoint(chosen)
        if not is_cut and len(chosen) == len(self.table.list_segments(number)):
            return whole
        stretches: list[tuple[int, int]] = []
        for segment in sorted(chosen):
            first, last = self.table.get_span(segment)
            for start, end in group.passages.get(segment, ((0, last - first),)):
                touches = bool(stretches) and stretches[-1][1] == first + start
                begin = stretches.pop()[0] if touches else first + start
                stretches.append((begin, first + end))
        return _cut(whole, tuple(stretches))


@dataclass(slots=True, eq=False)
class LineGroup:
    """Lines to return as one block; compared by identity.

    Attributes:
        lines: Line numbers in the order of the dialogue, each with its chosen segments.
        hits: The segments that brought the group about, best first.
        passages: Of segments that are not shown whole, what is shown.
        text: What a model reads, where a budget asked for it; else empty.
        tokens: How many tokens that takes.
    """

    lines: dict[int, set[int]]
    hits: list[int] = field(default_factory=list)
    passages: dict[int, Passage] = field(default_factory=dict)
    text: str = ""
    tokens: int = 0


@lru_cache(maxsize=4096)
def _render_day(days: int, age: int | None) -> str:
    try:
        day = _EPOCH + timedelta(days=days)
    except OverflowError:
        # A time from a foreign file may lie outside the calendar.
        return "[undated]"
    if age is None or age < 0:
        return f"[{day:%Y-%m-%d}]"
    for unit, size in _UNITS:
        if age >= 2 * size:
            return f"[{day:%Y-%m-%d}, {age // size} {unit} ago]"
    return f"[{day:%Y-%m-%d}, {('today', 'yesterday')[age]}]"


@lru_cache(maxsize=256)
def _cut(text: str, stretches: Passage) -> str:
    # Kept for a moment: a budget measures what is shown in the end.
    parts: list[str] = []
    at = 0
    for start, end in stretches:
        if text[at:start].strip():
            parts.append(_GAP)
        parts.append(text[start:end].strip())
        at = end
    if text[at:].strip():
        parts.append(_GAP)
    return " ".join(parts)


# -- blocks ------------------------------------------------------------------------------------


def pack(
    ranked: Iterable[int], ground: TableView, max_blocks: int | None = None
) -> list[LineGroup]:
    """Return the groups of the best segments, best first.

    Lines that do not fit a budget are skipped in favour of shorter, lower-ranked ones, and lines
    next to each other share a group, so that they share a header. Without a budget groups merge
    where their windows overlap, and the ranking is followed further down until there are
    `max_blocks`; where it ends first, windows are smaller.

    Args:
        ranked: Segment numbers, best first.
        ground: Where they stand.
        max_blocks: No more groups than this; None for no limit.
    """
    query, settings = ground.query, ground.query.settings
    window = settings.window if query.max_tokens is None else settings.budget_window
    before, after = (window, window) if isinstance(window, int) else window
    reaches = range(max(before, after), -1, -1)
    windows = [(min(reach, before), min(reach, after)) for reach in reaches]
    if query.max_tokens is not None:
        return _Packer(ground, windows, max_blocks, query.max_tokens).take(ranked)
    numbers = select_first_of_lines(ranked, ground.table)
    for smaller in windows:
        groups = _Packer(ground, [smaller], max_blocks).take(numbers)
        if len(groups) >= min(max_blocks or 1, len(numbers)):
            break
    return groups


@dataclass(slots=True)
class _Packer:
    """Groups in the making, with the room that is left; of the windows the first that fits."""

    ground: TableView
    windows: Sequence[tuple[int, int]]
    max_blocks: int | None
    room: int | None = None
    groups: list[LineGroup] = field(default_factory=list)
    # The lines of groups, and in a budget those next to them.
    reached: set[int | None] = field(default_factory=set)

    def take(self, ranked: Iterable[int]) -> list[LineGroup]:
        """Return the groups of the segments that fit."""
        hits: list[tuple[int, int]] = []
        misses = 0
        for number in ranked:
            if misses == _MISSES or (self.room is None and len(self.groups) == self.max_blocks):
                break
            line = self.ground.table.find_line_number(number)
            if self._add(number, line):
                hits.append((line, number))
                misses = 0
            else:
                misses += 1
        group_of = {line: group for group in self.groups for line in group.lines}
        for line, number in hits:
            group_of[line].hits.append(number)
        return self.groups

    def _add(self, number: int, at: int) -> bool:
        """Add a segment with the first window that fits; return whether one did."""
        line, windows = self.ground.table.lines[at], self.windows
        if self.room is not None and line.role == "assistant" and len(line.text) <= _SHORT_REPLY:
            windows = [(max(before, 1), after) for before, after in windows] + [*windows]
        for window in windows:
            lines = self.ground.list_window(at, window)
            near = self._find_near(lines)
            if not near and len(self.groups) == self.max_blocks:
                break  # the windows that follow reach no further
            chosen = {one: self._choose_segments(one, number, at, window) for one in lines}
            passage = self.ground.find_passage(number)
            merged = _merge(chosen, near, {} if passage is None else {number: passage})
            if self._fits(merged, near):
                self._replace(near, merged)
                return True
        return False

    def _choose_segments(self, line: int, hit: int, at: int, window: tuple[int, int]) -> set[int]:
        """Return which segments of a line in the window of a hit are worth their room."""
        segments, (before, after) = self.ground.table.list_segments(line), window
        if line != at:
            return {segments[-1] if line < at else segments[0]}
        first, last = hit - bool(before), hit + bool(after)
        return {*range(max(first, segments.start), min(last + 1, segments.stop))}

    def _find_near(self, lines: Sequence[int]) -> list[LineGroup]:
        """Return the groups that hold one of the lines, or in a budget the next one, best first."""
        if self.reached.isdisjoint(lines):
            return []
        reached = {*self._reach(lines)}
        return [group for group in self.groups if not reached.isdisjoint(group.lines)]

    def _reach(self, lines: Sequence[int]) -> list[int | None]:
        """Return the lines, and in a budget those next to them."""
        if self.room is None:
            return [*lines]
        look = self.ground.look_beyond
        return [look(lines[0], -1), *lines, look(lines[-1], 1)]

    def _fits(self, merged: LineGroup, replaced: Sequence[LineGroup]) -> bool:
        """Return whether there is room for a group in place of others, and take it."""
        if self.room is None:
            return True
        merged.text, count = self.ground.render(merged), self.ground.query.count_text
        room = self.room + sum([group.tokens for group in replaced])
        # Counting takes as long as all else: what is far too long need not be counted.
        if count is count_text_tokens and len(merged.text) * _LEAST_TOKENS > room:
            return False
        merged.tokens = count(merged.text)
        if merged.tokens > room:
            return False
        self.room = room - merged.tokens
        return True

    def _replace(self, near: Sequence[LineGroup], merged: LineGroup) -> None:
        """Put a group in the place of the best one that went into it."""
        at = self.groups.index(near[0]) if near else len(self.groups)
        self.groups[at : at + 1] = [merged]
        for group in near[1:]:
            self.groups.remove(group)
        self.reached.update(self._reach([*merged.lines]))


def _merge(
    chosen: dict[int, set[int]], groups: Sequence[LineGroup], passages: Mapping[int, Passage]
) -> LineGroup:
    """Return the group of chosen lines and groups, so far without hits."""
    lines, shown = dict(chosen), dict(passages)
    for group in groups:
        shown.update(group.passages)
        for line, segments in group.lines.items():
            lines[line] = lines.get(line, set()) | segments
    return LineGroup({line: lines[line] for line in sorted(lines)}, passages=shown)


# -- from a ranking to an answer ---------------------------------------------------------------

# What half precision may add to a cosine: one that equals the threshold must not surpass it.
_COSINE_ROUNDING = 2**-11
# A part this many standard deviations above the mean is worth naming as a reason.
_TELLING = 1.0


def build_recall(ranking: Ranking, problems: Sequence[str] = ()) -> Recall:
    """Return the recall that the query of a ranking asks for, with problems to report."""
    query, table = ranking.view.query, ranking.view.table
    hits, loose = _select_hits(ranking)
    leading = next(iter(hits), None)
    ground = TableView(table, ranking.view.allowed, query, ranking.older, leading, loose)
    groups = build_groups(hits, ground)
    best = select_first_of_lines(hits, table, query.ranking)
    own_hits = [select_first_of_lines(group.hits, table) for group in groups]
    named = {*best, *chain(*own_hits)}
    held = ranking.view.held.find_shared(named, len(table))
    written = _write_matches(ranking, held)
    shown = [line for group in groups for line in group.lines]
    left = ranking.view.allowed.copy()
    left[[number for line in shown for number in table.list_segments(line)]] = False
    least, view = query.threshold, ranking.view
    if not hits and isinstance(least, int | float) and view.similarity[view.allowed].any():
        most = view.similarity[view.allowed].max()
        said = f"no line surpasses the threshold of {least}: the best cosine is {most:.2f}"
        problems = [*problems, said]
    if query.scope.where and len(table) and not ranking.view.allowed.any():
        names = ", ".join(query.scope.where)
        problems = [*problems, f"no line fits the filter ({names}); check names and values"]
    verdict: Verdict = "nothing" if not groups else "related"
    shown_hits = {number: held[number] for number in chain(*own_hits)}
    if not is_courtesy(query.text) and is_answered(ranking, shown_hits):
        verdict = "answered"
    return Recall(
        matches=tuple([written[number] for number in best]),
        blocks=tuple(
            make_block(group, [written[number] for number in numbers], ground)
            for group, numbers in zip(groups, own_hits, strict=True)
        ),
        best_rejected=float(ranking.relevance[left].max()) if left.any() else None,
        problems=tuple(problems),
        verdict=verdict,
    )


def _select_hits(ranking: Ranking) -> tuple[memoryview[int], NDArray[np.bool_] | None]:
    """Return the ranked segments that the threshold lets pass, and which are loosely related."""
    # A view makes integers only of those numbers that are looked at.
    threshold = ranking.view.query.threshold
    if threshold == "auto":
        kept, loose = select_worth(ranking)
        loose &= ranking.view.by_user
        return ranking.sort(kept).data, loose
    least = -np.inf if threshold is None else threshold
    return ranking.sort(ranking.view.similarity > least + _COSINE_ROUNDING).data, None


@lru_cache(maxsize=4096)
def _find_statement(text: str) -> Passage | None:
    # Kept, since what somebody told of themselves is loosely related to many a question.
    return tuple(find_statements(text)) or None


def build_groups(ranked: Iterable[int], ground: TableView) -> list[LineGroup]:
    """Return as many groups as the query asks for, of segments that come best first."""
    query, settings = ground.query, ground.query.settings
    if not settings.cosine_only:
        ranked = _skip_repeats(ranked, ground.table, again=query.max_tokens is None)
    if settings.refill or query.k is None:
        return pack(ranked, ground, query.k)
    return pack(select_first_of_lines(ranked, ground.table, query.k), ground)


def _skip_repeats(numbers: Iterable[int], table: SegmentTable, *, again: bool) -> Iterator[int]:
    """Yield segments in order, of those that say the same only the first.

    Args:
        numbers: Segments, best first.
        table: What they say.
        again: Whether the others follow in the end: of a number of blocks none may be missing.
    """
    said: set[str] = set()
    repeated: list[int] = []
    for number in numbers:
        text = fold(table.get_text(number))
        if text in said:
            repeated.append(number)
        else:
            said.add(text)
            yield number
    if again:
        yield from repeated


def select_first_of_lines(
    numbers: Iterable[int], table: SegmentTable, most: int | None = None
) -> list[int]:
    """Return the first segment of each of so many lines, in the given order."""
    best: dict[int, int] = {}
    for number in numbers:
        if len(best) == most:
            break
        best.setdefault(table.find_line_number(number), number)
    return list(best.values())


def make_block(group: LineGroup, matches: Sequence[LineMatch], ground: TableView) -> RecalledBlock:
    """Return a group with its text and those of the hits that stand in it, best first."""
    return RecalledBlock(
        lines=tuple([ground.table.lines[number] for number in group.lines]),
        text=group.text or ground.render(group),
        matches=tuple(matches),
        relevance=matches[0].relevance,
        similarity=matches[0].similarity,
    )


def _write_matches(ranking: Ranking, held: Mapping[int, Collection[str]]) -> dict[int, LineMatch]:
    """Return the match of each segment, given the terms of the question that each holds."""
    query, table, terms = ranking.view.query, ranking.view.table, ranking.view.terms
    counts_words = not query.settings.cosine_only
    term_of = {terms[term]: term for term in ranking.view.held.rarities if counts_words}
    spans = ranking.view.spans if counts_words else []
    found: dict[int, LineMatch] = {}
    for number, terms_held in held.items():
        line = table.find_line(number)
        words = [word for word, term in term_of.items() if term in terms_held]
        meaning, kind = ranking.meaning.item(number), ranking.kinds.item(number)
        own = meaning + ranking.words.item(number) + kind
        reasons = (
            ("meaning", meaning >= _TELLING),
            ("kind", kind >= _TELLING),
            (f"words: {', '.join(words)}", words),
            ("speaker", ranking.said_by.item(number) > 0),
            ("date", any(since_ms <= line.time_ms < until_ms for since_ms, until_ms in spans)),
            ("neighbours", ranking.around.item(number) > max(own, 0.0)),
        )
        why = tuple([reason for reason, is_true in reasons if is_true])
        relevance, similarity = ranking.relevance.item(number), ranking.view.similarity.item(number)
        found[number] = LineMatch(line, relevance, similarity, why, table.get_place(number)[2])
    return found
