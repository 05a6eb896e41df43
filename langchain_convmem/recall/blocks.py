"""From ranked segments to the blocks that a model reads. Pure.

Invariants: no line is in two blocks; lines inside a block are in the order of the dialogue and
neighbours of one another; blocks come best first; a budget is never exceeded, headers included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.recall.calibration import is_answered, select_worth
from langchain_convmem.recall.options import RecallQuery, find_spans
from langchain_convmem.recall.ranking import Ranking
from langchain_convmem.recall.segments import SegmentTable, fold
from langchain_convmem.views.lines import LineMatch, Recall, RecalledBlock, Verdict, indent_text
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.analysis import extract_query_terms
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.dates import Span
from langchain_convmem.words.speech import find_statements, is_courtesy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Window: TypeAlias = "int | tuple[int, int]"
"""Lines on each side of a hit, or how many before it and how many after."""
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


def show_whole(_number: int) -> Passage | None:
    """Show all of every segment."""
    return None


@dataclass(frozen=True, slots=True)
class TableView:
    """The lines that blocks may be built from.

    Attributes:
        table: The lines.
        allowed: Which segments may come back; a window ends before any other.
        cross_sessions: Whether a block may hold lines of two sessions of a thread.
        now_ms: The time from which headers count a block's age; None omits ages.
        older: Segments of which a later statement about the same thing comes first; the headers of
            their blocks say so.
        leading: The segment that comes first: a block that holds it is not older.
        passage: Returns what of a segment's text is worth its room, None for all of it.
    """

    table: SegmentTable
    allowed: NDArray[np.bool_]
    cross_sessions: bool = False
    now_ms: int | None = None
    older: frozenset[int] = frozenset()
    leading: int | None = None
    passage: Callable[[int], Passage | None] = field(default=show_whole)

    def is_short_reply(self, number: int) -> bool:
        """Return whether a segment is a short line of the assistant, which answers another line."""
        line = self.table.find_line(number)
        return line.role == "assistant" and len(line.text) <= _SHORT_REPLY

    def render(self, group: LineGroup) -> str:
        """Return the text of a group; its header says so where all of it is out of date."""
        chosen = set(chain.from_iterable(group.lines.values())) if self.older else set()
        is_older = self.leading not in chosen and not self.older.isdisjoint(chosen)
        return render(group, self.table, self.now_ms, is_older=is_older)

    def look_beyond(self, line: int, step: int) -> int | None:
        """Return the line after (`step` 1) or before (-1) one, whether it may be shown or not."""
        return self.table.find_next_line(line, step, cross_sessions=self.cross_sessions)

    def find_next_line(self, line: int, step: int) -> int | None:
        """Return the line after (`step` 1) or before (-1), if it may share a block."""
        found = self.look_beyond(line, step)
        if found is None or not self.allowed[self.table.list_segments(found).start]:
            return None
        return found


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


# -- text --------------------------------------------------------------------------------------


def render(
    group: LineGroup, table: SegmentTable, now_ms: int | None = None, *, is_older: bool = False
) -> str:
    """Return a date header (UTC), then `Speaker: text` for each line, verbatim.

    Only these begin at the margin: further lines of a text are indented.
    Of a long line only the chosen segments stand there, or passages of them, with `[...]` for what
    is left out. With `now_ms` the header also gives the age of the first line.
    """
    first = table.get_line(next(iter(group.lines)))
    texts = [_render_header(first.time_ms, now_ms, is_older=is_older)]
    for number, chosen in group.lines.items():
        texts.append(_render_line(number, chosen, table, group.passages))
    return "\n".join(texts)


def _render_line(
    number: int, chosen: set[int], table: SegmentTable, passages: Mapping[int, Passage]
) -> str:
    line = table.get_line(number)
    shown = line.text
    is_cut = bool(passages) and not passages.keys().isdisjoint(chosen)
    if is_cut or len(chosen) < len(table.list_segments(number)):
        shown = _render_pieces(number, chosen, table, passages)
    return f"{line.speaker}: {indent_text(shown)}"


def _render_header(time_ms: int, now_ms: int | None, *, is_older: bool = False) -> str:
    days = time_ms // _DAY_MS
    header = _render_day(days, None if now_ms is None else now_ms // _DAY_MS - days)
    return f"{header[:-1]}{_OLDER}]" if is_older else header


@lru_cache(maxsize=4096)
def _render_day(days: int, age: int | None) -> str:
    try:
        day = _EPOCH + timedelta(days=days)
    except OverflowError:
        # A time from a foreign file may lie outside the calendar.
        return "[undated]"
    distance = "" if age is None or age < 0 else f", {_describe_age(age)}"
    return f"[{day:%Y-%m-%d}{distance}]"


def _describe_age(days: int) -> str:
    if days <= 1:
        return "yesterday" if days else "today"
    unit, size = next(pair for pair in _UNITS if days >= 2 * pair[1])
    return f"{days // size} {unit} ago"


def _render_pieces(
    line_number: int, chosen: set[int], table: SegmentTable, passages: Mapping[int, Passage]
) -> str:
    return _cut(table.get_line(line_number).text, tuple(_find_spans(chosen, table, passages)))


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


def _find_spans(
    chosen: set[int], table: SegmentTable, passages: Mapping[int, Passage]
) -> list[tuple[int, int]]:
    """Return what is shown of a line, those that touch as one."""
    stretches: list[tuple[int, int]] = []
    for number in sorted(chosen):
        first, last = table.get_span(number)
        for start, end in passages.get(number, ((0, last - first),)):
            if stretches and stretches[-1][1] == first + start:
                stretches[-1] = (stretches[-1][0], first + end)
            else:
                stretches.append((first + start, first + end))
    return stretches


# -- lines around a hit ------------------------------------------------------------------------


def _split_window(window: Window) -> tuple[int, int]:
    return (window, window) if isinstance(window, int) else window


def _list_window(ground: TableView, line: int, window: Window) -> list[int]:
    """Return the line with what its window reaches, in the order of the dialogue."""
    reach_before, reach_after = _split_window(window)
    before, after = _walk(ground, line, -1, reach_before), _walk(ground, line, 1, reach_after)
    return [*reversed(before), line, *after]


def _walk(ground: TableView, line: int, step: int, reach: int) -> list[int]:
    lines: list[int] = []
    at = line
    while len(lines) < reach:
        following = ground.find_next_line(at, step)
        if following is None:
            break
        at = following
        lines.append(at)
    return lines


def _choose_segments(table: SegmentTable, line: int, hit: int, window: Window) -> set[int]:
    """Return which segments of a line in the window of a hit are worth their room."""
    segments = table.list_segments(line)
    if len(segments) == 1:
        return set(segments)
    hit_line = table.find_line_number(hit)
    if line == hit_line:
        before, after = (min(reach, 1) for reach in _split_window(window))
        return set(range(max(hit - before, segments.start), min(hit + after + 1, segments.stop)))
    return {segments[-1] if line < hit_line else segments[0]}


# -- blocks ------------------------------------------------------------------------------------


def pack(
    ranked: Iterable[int],
    ground: TableView,
    *,
    window: Window = 0,
    max_tokens: int | None = None,
    max_blocks: int | None = None,
    count_text: TextCounter = count_text_tokens,
) -> list[LineGroup]:
    """Return the groups of the best segments, best first.

    Lines that do not fit a budget are skipped in favour of shorter, lower-ranked ones, and lines
    next to each other share a group, so that they share a header. Without a budget groups merge
    where their windows overlap, and the ranking is followed further down until there are
    `max_blocks`; where it ends first, windows are smaller.

    Args:
        ranked: Segment numbers, best first.
        ground: Where they stand.
        window: Lines to add around a segment, fewer where they do not fit a budget.
        max_tokens: Of the text of all groups together; None for no budget.
        max_blocks: No more groups than this; None for no limit.
        count_text: Counts the tokens of a text.
    """
    windows = _shrink(window)
    if max_tokens is not None:
        packer = _BlockPacker(ground, windows, max_tokens, max_blocks, count_text)
        return packer.take(ranked)
    numbers = select_first_of_lines(ranked, ground.table)
    for smaller in windows:
        groups = _BlockPacker(ground, [smaller], None, max_blocks, count_text).take(numbers)
        if len(groups) >= min(max_blocks or 1, len(numbers)):
            break
    return groups


def _shrink(window: Window) -> list[tuple[int, int]]:
    """Return a window and the smaller ones, down to none."""
    before, after = _split_window(window)
    reaches = range(max(before, after), -1, -1)
    return [(min(reach, before), min(reach, after)) for reach in reaches]


class _BlockPacker:
    """Groups in the making, with the room that is left."""

    def __init__(
        self,
        ground: TableView,
        windows: Sequence[tuple[int, int]],
        room: int | None,
        max_blocks: int | None,
        count_text: TextCounter,
    ) -> None:
        """Begin without groups; of these windows the first that fits is taken."""
        self._ground = ground
        self._windows = windows
        self._room = room
        self._max_blocks = max_blocks
        self._count_text = count_text
        self._groups: list[LineGroup] = []
        self._group_of: dict[int, LineGroup] = {}

    def take(self, ranked: Iterable[int]) -> list[LineGroup]:
        """Return the groups of the segments that fit."""
        hits: list[tuple[int, int]] = []
        misses = 0
        for number in ranked:
            if self._room is None and len(self._groups) == self._max_blocks:
                break
            line = self._ground.table.find_line_number(number)
            if self._add(number, line):
                hits.append((line, number))
                misses = 0
                continue
            misses += 1
            if misses == _MISSES:
                break
        for line, number in hits:
            self._group_of[line].hits.append(number)
        return self._groups

    def _add(self, number: int, line: int) -> bool:
        """Add a segment with the first window that fits; return whether one did."""
        ground = self._ground
        windows = self._windows
        if self._room is not None and ground.is_short_reply(number):
            windows = [(max(before, 1), after) for before, after in windows] + [*windows]
        for window in windows:
            lines = _list_window(ground, line, window)
            chosen = {at: _choose_segments(ground.table, at, number, window) for at in lines}
            near = self._find_near(lines)
            if not near and len(self._groups) == self._max_blocks:
                continue
            passage = ground.passage(number)
            merged = _merge(chosen, near, {} if passage is None else {number: passage})
            if self._fits(merged, near):
                self._replace(near, merged)
                return True
        return False

    def _find_near(self, lines: Sequence[int]) -> list[LineGroup]:
        """Return the groups that hold one of the lines, or in a budget the next one, best first."""
        reached = lines
        if self._room is not None:
            around = self._ground.look_beyond(lines[0], -1), self._ground.look_beyond(lines[-1], 1)
            reached = [*lines, *(line for line in around if line is not None)]
        touched = {id(self._group_of[line]) for line in reached if line in self._group_of}
        return [group for group in self._groups if id(group) in touched] if touched else []

    def _fits(self, merged: LineGroup, replaced: Sequence[LineGroup]) -> bool:
        """Return whether there is room for a group in place of others, and take it."""
        if self._room is None:
            return True
        merged.text = self._ground.render(merged)
        merged.tokens = self._count_text(merged.text)
        room = self._room + sum(group.tokens for group in replaced) - merged.tokens
        if room < 0:
            return False
        self._room = room
        return True

    def _replace(self, near: Sequence[LineGroup], merged: LineGroup) -> None:
        """Put a group in the place of the best one that went into it."""
        at = self._groups.index(near[0]) if near else len(self._groups)
        self._groups[at : at + 1] = [merged]
        for group in near[1:]:
            self._groups.remove(group)
        for line in merged.lines:
            self._group_of[line] = merged


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

# A part this many standard deviations above the mean is worth naming as a reason.
_TELLING = 1.0
# A segment up to so many characters is shown whole.
_SHORT = 120
# A reply up to so many characters is understood by what it answers alone.
_SHORT_REPLY = 120


class Answer(NamedTuple):
    """A recall, and for each of its blocks the segments of its matches."""

    recall: Recall
    hits: list[list[int]]


def build_recall(
    query: RecallQuery,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    *,
    problems: Sequence[str] = (),
) -> Answer:
    """Return the recall that `query` asks for, with what it was made of.

    Args:
        query: How much, and above what similarity.
        ranking: Segments, best first.
        table: Where they stand.
        lexical: Their terms.
        problems: To report.
    """
    hits, loose = _select_hits(query, ranking, table, lexical)
    ground = TableView(
        table,
        ranking.ranked,
        query.settings.cross_sessions,
        query.header_now_ms,
        ranking.older,
        next(iter(hits), None),
        _make_passages(loose, table),
    )
    groups = build_groups(query, hits, ground)
    best = select_first_of_lines(hits, table, query.ranking)
    own_hits = [select_first_of_lines(group.hits, table) for group in groups]
    written = _write_matches(query, ranking, table, lexical, {*best, *chain(*own_hits)})
    shown = {line for group in groups for line in group.lines}
    rejected = (
        float(ranking.relevance[number])
        for number in ranking
        if table.find_line_number(number) not in shown
    )
    if not hits and isinstance(query.threshold, float) and len(ranking):
        most = ranking.similarity[ranking.order].max()
        said = (
            f"no line surpasses the threshold of {query.threshold}: the best cosine is {most:.2f}"
        )
        problems = [*problems, said]
    verdict: Verdict = "nothing" if not groups else "related"
    shown_hits = np.array(list(chain(*own_hits)), dtype=np.int64)
    if not is_courtesy(query.text) and is_answered(query, shown_hits, ranking, table, lexical):
        verdict = "answered"
    blocks = [
        make_block(group, [written[number] for number in numbers], ground)
        for group, numbers in zip(groups, own_hits, strict=True)
    ]
    recall = Recall(
        matches=tuple(written[number] for number in best),
        blocks=tuple(blocks),
        best_rejected=next(rejected, None),
        problems=tuple(problems),
        verdict=verdict,
    )
    return Answer(recall, own_hits)


def _select_hits(
    query: RecallQuery, ranking: Ranking, table: SegmentTable, lexical: LexicalIndex
) -> tuple[list[int], NDArray[np.bool_] | None]:
    """Return the ranked segments that the threshold lets pass, and which are loosely related."""
    if query.threshold == "auto":
        kept, loose = select_worth(query, ranking, table, lexical)
        return ranking.order[kept[ranking.order]].tolist(), loose
    if query.threshold is None:
        return list(ranking), None
    return ranking.select_above(query.threshold).tolist(), None


def _make_passages(
    loose: NDArray[np.bool_] | None, table: SegmentTable
) -> Callable[[int], Passage | None]:
    """Return what of a segment is worth its room: of a loosely related one, what it states."""
    if loose is None:
        return show_whole
    is_passage = loose & table.select_role("user")

    def find_passage(number: int) -> Passage | None:
        text = table.get_text(number) if is_passage[number] else ""
        # What is shown whole need not be read.
        return _find_statement(text) if len(text) > _SHORT else None

    return find_passage


@lru_cache(maxsize=4096)
def _find_statement(text: str) -> Passage | None:
    # Kept, since what somebody told of themselves is loosely related to many a question.
    return tuple(find_statements(text)) or None


def build_groups(query: RecallQuery, ranked: Iterable[int], ground: TableView) -> list[LineGroup]:
    """Return as many groups as the query asks for, of segments that come best first."""
    settings = query.settings
    if not settings.cosine_only:
        ranked = _skip_repeats(ranked, ground.table, again=query.max_tokens is None)
    is_budget, most = query.max_tokens is not None, query.k
    if not (is_budget or settings.refill):
        ranked, most = select_first_of_lines(ranked, ground.table, most), None
    return pack(
        ranked,
        ground,
        window=settings.budget_window if is_budget else settings.window,
        max_tokens=query.max_tokens,
        max_blocks=most,
        count_text=query.count_text,
    )


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
        lines=tuple([ground.table.get_line(number) for number in group.lines]),
        text=group.text or ground.render(group),
        matches=tuple(matches),
        relevance=matches[0].relevance,
        similarity=matches[0].similarity,
    )


def _write_matches(
    query: RecallQuery,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    numbers: Collection[int],
) -> dict[int, LineMatch]:
    """Return the match of each segment; all at once take hardly longer than one."""
    term_of: dict[str, str] = {}
    spans: list[Span] = []
    if not query.settings.cosine_only:
        terms = extract_query_terms(query.search_text, lexical)
        term_of = {terms[term]: term for term in lexical.find_documents(terms)}
        spans = find_spans(query.text, query.before, query.now_ms or 0) if query.now_ms else []
    words = list(term_of)
    places = lexical.find_shared(list(term_of.values()), list(numbers))
    found: dict[int, LineMatch] = {}
    for number, held in zip(numbers, places, strict=True):
        line = table.find_line(number)
        own = ranking.meaning[number] + ranking.words[number] + ranking.kinds[number]
        reasons = {
            "meaning": ranking.meaning[number] >= _TELLING,
            "kind": ranking.kinds[number] >= _TELLING,
            f"words: {', '.join(words[place] for place in held)}": held,
            "speaker": ranking.said_by[number] > 0,
            "date": any(since_ms <= line.time_ms < until_ms for since_ms, until_ms in spans),
            "neighbours": ranking.around[number] > max(own, 0.0),
        }
        why = tuple(reason for reason, is_true in reasons.items() if is_true)
        relevance, similarity = ranking.relevance.item(number), ranking.similarity.item(number)
        found[number] = LineMatch(line, relevance, similarity, why)
    return found
