"""From ranked segments to the blocks that a model reads. Pure.

Invariants: no line is in two blocks; lines inside a block are in the order of the dialogue and
neighbours of one another; blocks come best first; a budget is never exceeded, headers included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from langchain_convmem.recall.calibration import is_covered_by_one, select_related
from langchain_convmem.recall.options import RecallQuery, find_spans
from langchain_convmem.recall.ranking import Ranking
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.views.lines import indent_text
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.shown import LineMatch, Recall, RecalledBlock, Verdict
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
_NO_WINDOW = (0, 0)
_GAP = "[...]"
_OLDER = ", older"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# "Three weeks" says more than "21 days", but "8 days" more than "a week".
_UNITS = (("years", 365), ("months", 30), ("weeks", 7), ("days", 1))
_DAY_MS = 24 * 3_600_000
# After this many segments in a row that no longer fit, the rest of the ranking hardly will.
_MISSES = 50
_CHARS_PER_TOKEN = 6
"""More characters than this no token of a spoken line has on average, by any counter."""


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
        passage: Returns what of a segment's text is worth its room, None for all of it.
    """

    table: SegmentTable
    allowed: NDArray[np.bool_]
    cross_sessions: bool = False
    now_ms: int | None = None
    older: frozenset[int] = frozenset()
    passage: Callable[[int], Passage | None] = field(default=show_whole)

    def find_next_line(self, line: int, step: int) -> int | None:
        """Return the line after (`step` 1) or before (-1), if it may share a block."""
        found = self.table.find_next_line(line, step, cross_sessions=self.cross_sessions)
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
    group: LineGroup,
    table: SegmentTable,
    now_ms: int | None = None,
    older: frozenset[int] = frozenset(),
) -> str:
    """Return a date header (UTC), then `Speaker: text` for each line, verbatim.

    Only these begin at the margin: further lines of a text are indented.
    Of a long line only the chosen segments stand there, or passages of them, with `[...]` for what
    is left out. With `now_ms` the header also gives the age of the first line.
    Where a chosen segment is among the `older` ones, it says that too.
    """
    first = table.get_line(next(iter(group.lines)))
    texts = [_render_header(first.time_ms, now_ms, is_older=_is_older(group.lines, older))]
    for number, chosen in group.lines.items():
        texts.append(_render_line(number, chosen, table, group.passages))
    return "\n".join(texts)


def _is_older(lines: Mapping[int, set[int]], older: frozenset[int]) -> bool:
    return bool(older) and not older.isdisjoint(chain.from_iterable(lines.values()))


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


# -- a budget of tokens ------------------------------------------------------------------------


def fill_budget(
    ranked: Iterable[int],
    ground: TableView,
    max_tokens: int,
    *,
    window: Window = 0,
    max_blocks: int | None = None,
    count_text: TextCounter = count_text_tokens,
) -> list[LineGroup]:
    """Return the groups of the best segments that fit, best first.

    Lines that do not fit are skipped in favour of shorter, lower-ranked ones.
    Neighbouring lines share a group, so that they share a header.

    Args:
        ranked: Segment numbers, best first.
        ground: Where they stand.
        max_tokens: Of the text of all groups together.
        window: Lines to add around a segment, fewer where they do not fit.
        max_blocks: No more groups than this.
        count_text: Counts the tokens of a text.
    """
    before, after = _split_window(window)
    smaller_windows = [
        (min(reach, before), min(reach, after)) for reach in range(max(before, after), -1, -1)
    ]
    filler = _BudgetPacker(ground, max_tokens, max_blocks, smaller_windows, count_text)
    held = filler.group_of
    hits: list[tuple[int, int]] = []
    misses = 0
    for number, line, chars in _measure_segments(ranked, ground.table):
        if line in held and number in held[line].lines[line]:
            hits.append((line, number))
        # No text is that much shorter in tokens: most misses end here.
        elif chars <= filler.room * _CHARS_PER_TOKEN and filler.add(number, line):
            hits.append((line, number))
            misses = 0
        else:
            misses += 1
            if misses == _MISSES:
                break
    return _add_hits(filler.groups, hits)


def _add_hits(groups: list[LineGroup], hits: Iterable[tuple[int, int]]) -> list[LineGroup]:
    """Return the groups with the segments that brought them about, best first: (line, number)."""
    group_of = {line: group for group in groups for line in group.lines}
    for line, number in hits:
        group_of[line].hits.append(number)
    return groups


def _measure_segments(ranked: Iterable[int], table: SegmentTable) -> Iterator[tuple[int, int, int]]:
    """Yield each segment with its line and the length of its text.

    They are looked up for many at once; one by one that would take longer.
    """
    left = iter(ranked)
    while some := list(islice(left, _MISSES)):
        yield from zip(
            some, table.find_line_numbers(some), table.measure_lengths(some), strict=True
        )


class _BudgetPacker:
    """Groups in the making, with the room that is left."""

    def __init__(
        self,
        ground: TableView,
        room: int,
        max_blocks: int | None,
        windows: Sequence[tuple[int, int]],
        count_text: TextCounter,
    ) -> None:
        """Begin without groups; of these windows the first that fits is taken."""
        self.groups: list[LineGroup] = []
        self._ground = ground
        self._table = ground.table
        self.room = room
        self._max_blocks = max_blocks
        self._windows = windows
        self._count_text = count_text
        self.group_of: dict[int, LineGroup] = {}

    def add(self, number: int, line: int) -> bool:
        """Add a segment with the first window that fits; return whether one did."""
        ground = self._ground
        for window in self._windows:
            if window == _NO_WINDOW:
                chosen = {line: {number}}
            else:
                reached = _list_window(ground, line, window)
                chosen = {at: _choose_segments(self._table, at, number, window) for at in reached}
            adjacent = self._find_adjacent(chosen)
            if not adjacent and len(self.groups) == self._max_blocks:
                continue
            passage = ground.passage(number)
            shown = {} if passage is None else {number: passage}
            merged = (
                _merge_groups(chosen, adjacent, shown)
                if adjacent
                else LineGroup(chosen, passages=shown)
            )
            merged.text = render(merged, self._table, ground.now_ms, ground.older)
            merged.tokens = cost = self._count_text(merged.text)
            for group in adjacent:
                cost -= group.tokens
            if cost <= self.room:
                self.room -= cost
                self._replace(adjacent, merged)
                return True
        return False

    def _find_adjacent(self, lines: dict[int, set[int]]) -> list[LineGroup]:
        """Return the groups that overlap the lines or touch them, best first."""
        first, last = next(iter(lines)), next(reversed(lines))
        beyond = self._ground.cross_sessions
        before, after = self._table.find_adjacent_lines(first, last, cross_sessions=beyond)
        near = (before, *lines, after)
        # What stands in a group may come back, or it would not stand there.
        group_of = self.group_of
        if group_of.keys().isdisjoint(near):
            return []
        touched = [group_of[line] for line in near if line in group_of]
        return [group for group in self.groups if group in touched]

    def _replace(self, adjacent: Sequence[LineGroup], merged: LineGroup) -> None:
        # The merged group takes the place of the best one that went into it.
        if adjacent:
            self.groups[self.groups.index(adjacent[0])] = merged
            for group in adjacent[1:]:
                self.groups.remove(group)
        else:
            self.groups.append(merged)
        for line in merged.lines:
            self.group_of[line] = merged


# -- a number of blocks ------------------------------------------------------------------------


def take_blocks(
    ranked: Iterable[int], ground: TableView, k: int, *, window: Window, refill: bool = True
) -> list[LineGroup]:
    """Return k groups, best first, or one per line where fewer lines are ranked.

    Each hit comes with its window. Overlapping windows merge, and the ranking is followed further
    down until there are k groups. Where it ends first, the best k lines share the lines around
    them out: each line goes to the nearest hit, so the windows no longer overlap.

    Without `refill` the best k lines are hits, in fewer groups where their windows overlap.
    """
    table = ground.table
    best: dict[int, int] = {}
    groups: list[LineGroup] = []
    for number in ranked:
        line = table.find_line_number(number)
        if line in best:
            continue
        if (len(groups) if refill else len(best)) == k:
            return _add_hits(groups, best.items())
        best[line] = number
        lines = _list_window(ground, line, window)
        chosen = {at: _choose_segments(table, at, number, window) for at in lines}
        groups = _add_group(groups, chosen)
    if not refill or len(groups) >= min(k, len(best)):
        return _add_hits(groups, best.items())
    return _share_lines(list(best.values())[:k], ground, window)


def _add_group(groups: list[LineGroup], chosen: dict[int, set[int]]) -> list[LineGroup]:
    overlapping = [group for group in groups if not chosen.keys().isdisjoint(group.lines)]
    merged = _merge_groups(chosen, overlapping)
    if not overlapping:
        return [*groups, merged]
    # The merged group takes the place of the best one that went into it.
    return [
        merged if group is overlapping[0] else group
        for group in groups
        if group is overlapping[0] or group not in overlapping
    ]


def _merge_groups(
    chosen: dict[int, set[int]],
    groups: Sequence[LineGroup],
    passages: Mapping[int, Passage] | None = None,
) -> LineGroup:
    """Return the group of chosen lines and groups, so far without hits."""
    lines, shown = dict(chosen), dict(passages or {})
    for group in groups:
        shown.update(group.passages)
        for line, segments in group.lines.items():
            lines[line] = lines[line] | segments if line in lines else segments
    return LineGroup({line: lines[line] for line in sorted(lines)}, passages=shown)


def _share_lines(hits: Sequence[int], ground: TableView, window: Window) -> list[LineGroup]:
    """Return one group per hit; a line in several windows goes to the nearest, then best hit."""
    table = ground.table
    nearest: dict[int, tuple[int, int]] = {}
    for rank, hit in enumerate(hits):
        own = table.find_line_number(hit)
        lines = _list_window(ground, own, window)
        for at, line in enumerate(lines):
            claim = (abs(at - lines.index(own)), rank)
            nearest[line] = min(claim, nearest.get(line, claim))
    groups = [LineGroup({}, [hit]) for hit in hits]
    for line, (_, rank) in sorted(nearest.items()):
        groups[rank].lines[line] = _choose_segments(table, line, hits[rank], window)
    return groups


# -- from a ranking to an answer ---------------------------------------------------------------

# A part this many standard deviations above the mean is worth naming as a reason.
_TELLING = 1.0
# A segment up to so many characters is shown whole.
_SHORT = 120
# A line answers that holds this share of what is asked about, and comes so near to the evidence for
# the best one. `python -m benchmarks.personal` counts verdicts by kind of question.
_ANSWERING = 0.66
_NEAR_BEST = 0.8


class Answer(NamedTuple):
    """A recall, and the groups that its blocks were made of, in the same order."""

    recall: Recall
    groups: list[LineGroup]


def select_hits(
    query: RecallQuery,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    allowed: NDArray[np.bool_],
) -> Ranking:
    """Return the ranked segments that the threshold lets pass."""
    if query.threshold == "auto":
        kept, loose = select_related(
            query.text, ranking, table, lexical, allowed, before=query.before
        )
        return ranking.select_where(kept, loose)
    return ranking if query.threshold is None else ranking.select_above(query.threshold)


def build_recall(
    query: RecallQuery,
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    *,
    allowed: NDArray[np.bool_],
    hits: Ranking | None = None,
    problems: Sequence[str] = (),
) -> Answer:
    """Return the recall that `query` asks for, with what it was made of.

    Args:
        query: How much, and above what similarity.
        ranking: Segments, best first.
        table: Where they stand.
        lexical: Their terms.
        allowed: Which segments may come back at all, also as the surroundings of a hit.
        hits: Those of the ranking that may be hits, in their own order; None is `select_hits`.
        problems: To report.
    """
    if hits is None:
        hits = select_hits(query, ranking, table, lexical, allowed)
    settings = query.settings
    ground = TableView(
        table,
        allowed,
        settings.cross_sessions,
        query.header_now_ms,
        hits.older,
        _make_passages(hits, table),
    )
    groups = build_groups(query, hits, ground)
    best = select_first_of_lines(hits, table, query.ranking)
    own_hits = [
        select_first_of_lines(group.hits, table) if len(group.hits) > 1 else group.hits
        for group in groups
    ]
    numbers = dict.fromkeys(chain(best, *own_hits))
    written = _write_matches(query, ranking, table, lexical, numbers)
    shown = {line for group in groups for line in group.lines}
    rejected = (
        float(ranking.columns.relevance[number])
        for number in ranking
        if table.find_line_number(number) not in shown
    )
    recall = Recall(
        matches=tuple(written[number] for number in best),
        blocks=tuple(
            make_block(group, [written[number] for number in numbers], ground)
            for group, numbers in zip(groups, own_hits, strict=True)
        ),
        best_rejected=next(rejected, None),
        problems=tuple(problems),
        verdict=_judge(query, groups, ranking, table, lexical, allowed=allowed),
    )
    return Answer(recall, groups)


def _judge(
    query: RecallQuery,
    groups: Sequence[LineGroup],
    ranking: Ranking,
    table: SegmentTable,
    lexical: LexicalIndex,
    *,
    allowed: NDArray[np.bool_],
) -> Verdict:
    """Return whether what is shown holds what is asked; neither thanks nor askings do."""
    if not groups:
        return "nothing"
    hits = np.array([number for group in groups for number in group.hits], dtype=np.int64)
    evidence = ranking.columns.evidence[hits]
    best = float(evidence.max())
    near = hits[evidence >= best - (1 - _NEAR_BEST) * abs(best)].tolist()
    asks, ignorant = lexical.select_marked("asks"), lexical.select_marked("ignorant")
    saying = [number for number in near if not (asks[number] or ignorant[number])]
    if is_courtesy(query.text):
        return "related"
    asked = query.search_text
    is_answer = is_covered_by_one(asked, saying, table, lexical, allowed, share=_ANSWERING)
    return "answered" if is_answer else "related"


def _make_passages(hits: Ranking, table: SegmentTable) -> Callable[[int], Passage | None]:
    """Return what of a segment is worth its room: of a loosely related one, what it states."""
    if hits.loose is None:
        return show_whole
    is_passage = hits.loose & table.select_role("user")

    def find_passage(number: int) -> Passage | None:
        if not is_passage.item(number):
            return None
        text = table.get_text(number)
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
    if settings.skip_repeats:
        ranked = _skip_repeats(ranked, ground.table, again=query.max_tokens is None)
    if query.max_tokens is None:
        k, window = query.k or 0, settings.window
        return take_blocks(ranked, ground, k, window=window, refill=settings.refill)
    return fill_budget(
        ranked,
        ground,
        query.max_tokens,
        window=settings.budget_window,
        max_blocks=query.k,
        count_text=query.count_text,
    )


def _skip_repeats(numbers: Iterable[int], table: SegmentTable, *, again: bool) -> Iterator[int]:
    """Yield segments in order, of those that say the same only the first.

    Args:
        numbers: Segments, best first.
        table: What they say.
        again: Whether the others follow in the end: of a number of blocks none may be missing.
    """
    first_of: dict[int, int] = {}
    repeated: list[int] = []
    folded = table.hash_folded
    for number in numbers:
        first = first_of.setdefault(folded(number), number)
        if first == number or not table.has_same_text(first, number):
            yield number
        else:
            repeated.append(number)
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
    table = ground.table
    return RecalledBlock(
        lines=tuple([table.get_line(number) for number in group.lines]),
        text=group.text or render(group, table, ground.now_ms, ground.older),
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
    if query.settings.lexical_weight:
        terms = extract_query_terms(query.search_text, lexical)
        term_of = {terms[term]: term for term in lexical.find_documents(terms)}
    spans: list[Span] = []
    if query.now_ms is not None and query.settings.date_bonus:
        spans = find_spans(query.text, query.before, query.now_ms)
    columns = ranking.columns
    at = list(numbers)
    # Of a few rows plain numbers take less time than arrays.
    parts = (
        columns.relevance,
        columns.similarity,
        columns.meaning,
        columns.words,
        columns.speaker,
        columns.own,
        columns.smoothed,
    )
    rows = zip(*(column.take(at).tolist() for column in parts), strict=True)
    words = list(term_of)
    places = lexical.find_shared(list(term_of.values()), list(numbers))
    found: dict[int, LineMatch] = {}
    for number, held, row in zip(numbers, places, rows, strict=True):
        relevance, similarity, meaning, word_part, speaker, own, smoothed = row
        line = table.find_line(number)
        reasons = ["meaning"] if meaning >= _TELLING else []
        if own - meaning - word_part >= _TELLING:
            reasons.append("kind")
        if held:
            reasons.append(f"words: {', '.join([words[place] for place in held])}")
        if speaker > 0:
            reasons.append("speaker")
        if spans and any(since_ms <= line.time_ms < until_ms for since_ms, until_ms in spans):
            reasons.append("date")
        if smoothed - own > max(own, 0.0):
            reasons.append("neighbours")
        found[number] = LineMatch(line, relevance, similarity, tuple(reasons))
    return found
