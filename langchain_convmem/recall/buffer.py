"""What was recalled for a thread lately: a list that newer blocks push older ones out of.

Kept as a document of the thread, which holds references alone: ids of entries, parts,
segments, and how well they matched. What they refer to is looked up in the index each time, so
that a forgotten or retracted line is never shown again, even from an old document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from langchain_convmem.errors import LogError
from langchain_convmem.message_log import CACHE_PREFIX, MessageLog
from langchain_convmem.recall.blocks import LineGroup, TableView, render
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.records import DialogLine, StateDocument, ThreadKey
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.shown import LineMatch, RecalledBlock
from langchain_convmem.views.tokens import count_text_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


BUFFER_DOCUMENT = f"{CACHE_PREFIX}relevance"
"""Name of the document. A cache, so that forgetting any entry of its thread deletes it."""


class BufferedLine(NamedTuple):
    """A line of a block, as the document names it.

    Attributes:
        entry_id: Its entry.
        part: Which of the entry's lines.
        segments: Which of the line's segments are shown, from 0.
        hit: Relevance and similarity, if this is what was looked for; None for what surrounds it.
    """

    entry_id: str
    part: int
    segments: tuple[int, ...]
    hit: tuple[float, float] | None

    @property
    def pieces(self) -> Iterator[tuple[str, int, int]]:
        """What it shows, segment by segment."""
        return ((self.entry_id, self.part, segment) for segment in self.segments)


BufferedBlock: TypeAlias = tuple[BufferedLine, ...]
"""Lines in the order of the dialogue, at least one of them a hit."""


class BufferLookup(NamedTuple):
    """A buffer, looked up.

    Attributes:
        kept: What the document should hold, newest first.
        shown: What a model reads of it, newest first; no line stands in two blocks.
    """

    kept: tuple[BufferedBlock, ...]
    shown: tuple[RecalledBlock, ...]


# -- a list that is pushed ---------------------------------------------------------------------


def push_blocks(
    found: Sequence[BufferedBlock], old: Sequence[BufferedBlock]
) -> list[BufferedBlock]:
    """Return the new blocks followed by the old ones.

    A block that newer ones show whole leaves; what was looked for in it is marked in those.
    """
    seen: set[tuple[str, int, int]] = set()
    blocks: list[BufferedBlock] = []
    for block in (*found, *old):
        pieces = {piece for line in block for piece in line.pieces}
        if pieces <= seen:
            hits = {line[:2]: line.hit for line in block}
            blocks = [_mark_hits(newer, hits) for newer in blocks]
        else:
            blocks.append(block)
        seen |= pieces
    return blocks


def _mark_hits(
    block: BufferedBlock, hits: Mapping[tuple[str, int], tuple[float, float] | None]
) -> BufferedBlock:
    return tuple(line._replace(hit=line.hit or hits.get(line[:2])) for line in block)


# -- the document ------------------------------------------------------------------------------


def to_document(blocks: Sequence[BufferedBlock]) -> dict[str, Any]:
    """Return the blocks as plain JSON."""
    return {
        "blocks": [
            [[line.entry_id, line.part, line.segments, line.hit] for line in block]
            for block in blocks
        ]
    }


def decode_blocks(value: Any) -> tuple[BufferedBlock, ...]:
    """Return the blocks of a document; empty if another version wrote it."""
    try:
        return tuple(tuple(map(_decode_line, block)) for block in value["blocks"])
    except (KeyError, TypeError, ValueError):
        return ()


def _decode_line(value: Sequence[Any]) -> BufferedLine:
    entry_id, part, segments, hit = value
    if min(segments) < 0:
        raise ValueError(segments)
    if hit is not None:
        relevance, similarity = hit
        hit = (float(relevance), float(similarity))
    return BufferedLine(str(entry_id), int(part), tuple(map(int, segments)), hit)


# -- references and lines ----------------------------------------------------------------------


def make_references(
    groups: Sequence[LineGroup], blocks: Sequence[RecalledBlock], table: SegmentTable
) -> tuple[BufferedBlock, ...]:
    """Return what the document holds of the blocks that were made of these groups."""
    return tuple(_make_reference(*both, table) for both in zip(groups, blocks, strict=True))


def _make_reference(group: LineGroup, block: RecalledBlock, table: SegmentTable) -> BufferedBlock:
    hits = {_make_line_name(one.line): (one.relevance, one.similarity) for one in block.matches}
    lines: list[BufferedLine] = []
    for number, segments in group.lines.items():
        name, first = _make_line_name(table.get_line(number)), table.list_segments(number).start
        shown = tuple(sorted(segment - first for segment in segments))
        lines.append(BufferedLine(*name, shown, hits.get(name)))
    return tuple(lines)


def _make_line_name(line: DialogLine) -> tuple[str, int]:
    """Return what names a line in all threads; ids of messages may be the same in two."""
    return line.entry_id, line.part


def select_living(blocks: Sequence[BufferedBlock], table: SegmentTable) -> list[BufferedBlock]:
    """Drop lines that no longer exist, and blocks that have lost all hits."""
    alive = (tuple(line for line in block if _number(line, table) is not None) for block in blocks)
    return [block for block in alive if any(line.hit for line in block)]


def _number(line: BufferedLine, table: SegmentTable) -> int | None:
    for number in table.list_entry_lines(line.entry_id):
        if table.get_line(number).part == line.part:
            # Cut otherwise by another version, its segments would be other text.
            return number if max(line.segments) < len(table.list_segments(number)) else None
    return None


# -- what a model reads ------------------------------------------------------------------------


class _Shown(NamedTuple):
    """A line that is shown: which of its segments, its figures if it is a hit, in which block."""

    segments: set[int]
    hit: tuple[float, float] | None
    order: int


def render_blocks(
    blocks: Sequence[BufferedBlock],
    table: SegmentTable,
    allowed: NDArray[np.bool_],
    *,
    max_tokens: int | None = None,
    count_text: TextCounter = count_text_tokens,
    fresh: Sequence[RecalledBlock] = (),
    now_ms: int | None = None,
) -> tuple[RecalledBlock, ...]:
    """Return the blocks as a model reads them, newest first.

    Blocks that share lines or are neighbours become one, at the place of the newest. Of one with
    lines that may not be shown, the stretches that hold a hit remain.

    Args:
        blocks: Newest first, without lines that are gone.
        table: Where the lines stand.
        allowed: Which segments may be shown.
        max_tokens: Budget of all of them; what does not fit is left out, as is whatever is older.
        count_text: Counts the tokens of a text.
        fresh: What the present question found; its matches say why.
        now_ms: The time from which headers count a block's age; None omits ages.
    """
    why = {_make_line_name(match.line): match for block in fresh for match in block.matches}
    ground = TableView(table, allowed, cross_sessions=True, now_ms=now_ms)
    lines: dict[int, _Shown] = {}
    shown: list[RecalledBlock] = []
    for order, block in enumerate(blocks):
        lines = lines | dict(_add_lines(lines, block, order, ground))
        following = [_make_block(stretch, ground, why) for stretch in _cut_stretches(lines, ground)]
        if max_tokens is not None and sum(count_text(one.text) for one in following) > max_tokens:
            break
        shown = following
    return tuple(shown)


def _add_lines(
    lines: Mapping[int, _Shown], block: BufferedBlock, order: int, ground: TableView
) -> Iterator[tuple[int, _Shown]]:
    """Yield the lines of a block that may be shown, with what newer blocks show of them."""
    for line in block:
        number = _number(line, ground.table)
        first = 0 if number is None else ground.table.list_segments(number).start
        if number is None or not ground.allowed[first]:
            continue
        segments = {first + segment for segment in line.segments}
        newer = lines.get(number, _Shown(segments, line.hit, order))
        yield number, _Shown(newer.segments | segments, newer.hit or line.hit, newer.order)


def _cut_stretches(lines: Mapping[int, _Shown], ground: TableView) -> list[dict[int, _Shown]]:
    """Return neighbouring lines together, where one of them is a hit, newest first."""
    stretches: list[dict[int, _Shown]] = []
    last: int | None = None
    for number in sorted(lines):
        if last is None or ground.find_next_line(last, 1) != number:
            stretches.append({})
        stretches[-1][number] = lines[number]
        last = number
    found = [stretch for stretch in stretches if any(line.hit for line in stretch.values())]
    return sorted(found, key=lambda stretch: min(line.order for line in stretch.values()))


def _make_block(
    stretch: Mapping[int, _Shown], ground: TableView, why: Mapping[tuple[str, int], LineMatch]
) -> RecalledBlock:
    lines = {number: ground.table.get_line(number) for number in stretch}
    matches = [
        why.get(_make_line_name(line)) or LineMatch(line, *hit)
        for number, line in lines.items()
        if (hit := stretch[number].hit) is not None
    ]
    matches.sort(key=lambda match: -match.relevance)
    group = LineGroup({number: one.segments for number, one in stretch.items()})
    return RecalledBlock(
        lines=tuple(lines.values()),
        text=render(group, ground.table, ground.now_ms),
        matches=tuple(matches),
        relevance=matches[0].relevance,
        similarity=matches[0].similarity,
    )


# -- reading and writing -----------------------------------------------------------------------


def update_buffer(
    log: MessageLog,
    key: ThreadKey,
    found: Sequence[BufferedBlock],
    look_up: Callable[[Sequence[BufferedBlock]], BufferLookup],
    *,
    remember: bool,
) -> tuple[tuple[RecalledBlock, ...], tuple[str, ...]]:
    """Push new blocks into a thread's buffer; return what it shows, and problems.

    If another turn wrote first, its document is read again, so neither loses blocks.

    Args:
        log: Keeps the document.
        key: The thread.
        found: The new blocks, best first.
        look_up: Returns a list of blocks as `BufferLookup`.
        remember: Whether to write. What is returned is the same.
    """
    try:
        while True:
            document: StateDocument | None = log.get_state(key, BUFFER_DOCUMENT)
            old = () if document is None else decode_blocks(document.value)
            kept, shown = look_up(push_blocks(found, old))
            if not remember or kept == old:
                return shown, ()
            version = None if document is None else document.version
            if log.set_state(key, BUFFER_DOCUMENT, to_document(kept), expected=version) is not None:
                return shown, ()
    except LogError as error:
        problem = f"the relevance buffer of {key.thread_id!r} could not be kept: {error}"
    return look_up(found).shown, (problem,)
