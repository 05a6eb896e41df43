"""What every character of a prompt file is: in a section, a comment, a field, or diagnosed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from langchain_convmem.prompts.diagnostics import Findings
from langchain_convmem.prompts.fields import is_field
from langchain_convmem.prompts.parser import Block, split_blocks
from langchain_convmem.prompts.scanner import Line, find_comments, read_lines

__all__ = ["Span", "SpanKind", "read_spans"]


class SpanKind(Enum):
    """What a part of a prompt file is."""

    TITLE = "title"
    SECTION = "section"
    """The text of a prompt section, white space included."""
    FIELD = "field"
    COMMENT = "comment"
    BLANK = "blank"
    """White space between all these."""
    DROPPED = "dropped"
    """What has no effect; a diagnostic says so."""


class Span(NamedTuple):
    """A part of a prompt file's text.

    Attributes:
        kind: What it is.
        start: First code point, from 0; a byte order mark does not count.
        end: One behind the last code point.
        diagnosed_at: For what is dropped: line and column of the diagnostic that says so.
    """

    kind: SpanKind
    start: int
    end: int
    diagnosed_at: tuple[int, int] | None = None


def read_spans(text: str) -> list[Span]:
    """Return what every part of a prompt file's text is: they follow each other without a gap."""
    text = text.removeprefix("\ufeff")
    findings = Findings("<text>", text)
    comments = find_comments(text, findings)
    preamble, blocks = split_blocks(read_lines(text, comments))
    ignored = [line for line in preamble if line.text.strip()]
    kept = [(line, SpanKind.DROPPED, ignored[0].position) for line in ignored]
    for block in blocks:
        kept += _kinds(block)
    spans = [Span(SpanKind.COMMENT, start, end) for start, end in comments]
    for line, kind, position in kept:
        place = findings.place_of(position) if kind is SpanKind.DROPPED else None
        spans += [Span(kind, start, end, place) for start, end in line.ranges]
    return _with_blanks(sorted(spans, key=attrgetter("start")), len(text))


def _kinds(block: Block) -> Iterator[tuple[Line, SpanKind, int]]:
    """Return what the lines of the block are, and where the diagnostic stands if one is dropped."""
    if not block.has_effect:
        lines = [line for line in block.lines if line.text.strip()]
        yield from ((line, SpanKind.DROPPED, block.position) for line in [block.line, *lines])
        return
    yield block.line, SpanKind.TITLE, 0
    for line in block.lines:
        if block.is_prompt:
            yield line, SpanKind.SECTION, 0
        elif line.text.strip():
            kind = SpanKind.FIELD if is_field(line) else SpanKind.DROPPED
            yield line, kind, line.position


def _with_blanks(spans: Iterable[Span], length: int) -> list[Span]:
    whole: list[Span] = []
    behind = 0
    for span in [*spans, Span(SpanKind.BLANK, length, length)]:
        if span.start > behind:
            whole.append(Span(SpanKind.BLANK, behind, span.start))
        if span.end > span.start:
            whole.append(span)
        behind = span.end
    return whole
