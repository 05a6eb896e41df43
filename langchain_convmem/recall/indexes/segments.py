"""Cutting a long line into segments that are searched on their own. Pure.

Invariant: the segments of a text follow each other without gap or overlap, so joining them gives
the text back, character by character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

__all__ = ["SEGMENT_CHARS", "UNCUT_CHARS", "Place", "Segment", "split_line"]

Place: TypeAlias = tuple[int, int, int]
"""What names a segment among those of its owner: its entry's position, line of it, part of that."""

SEGMENT_CHARS = 400
"""About how many characters a segment holds at most."""

UNCUT_CHARS = 500
"""A line up to this long is one segment: a cut would cost more context than it wins."""

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_BREAK = re.compile(r"\n\s*")
# A full stop ends a sentence only before a blank, so that "3.5" and "a.b" stay whole; the
# ideographic marks end one wherever they stand.
_CLOSING = r"[\"'\u2019\u201d)\]]*"
_IDEOGRAPHIC = "[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\u2019\u201d]*"
_SENTENCE = re.compile(rf"[.!?\u2026]{_CLOSING}\s+|{_IDEOGRAPHIC}\s*")
_WORD = re.compile(r"\s+")
_BORDERS = (_PARAGRAPH, _LINE_BREAK, _SENTENCE, _WORD)


class Segment(NamedTuple):
    """A piece of a text: `text[start:end]`."""

    start: int
    end: int


def split_line(
    text: str, *, target: int = SEGMENT_CHARS, uncut: int = UNCUT_CHARS
) -> list[Segment]:
    """Return the segments of a line, in order; a line of at most `uncut` characters has one.

    Cuts fall behind paragraphs where possible, else behind lines, sentences or words, and inside a
    word only if it alone is longer than `target`.

    Args:
        text: The line.
        target: Characters of a segment at most; the last one may have up to `uncut`.
        uncut: Characters up to which a line stays whole; at least `target`.
    """
    if len(text) <= uncut:
        return [Segment(0, len(text))]
    segments: list[Segment] = []
    for start, end in _pieces(text, Segment(0, len(text)), target, 0):
        if segments and end - segments[-1].start <= target:
            segments[-1] = Segment(segments[-1].start, end)
        else:
            segments.append(Segment(start, end))
    # A tail of a few words says nothing on its own.
    if len(segments) > 1 and len(text) - segments[-2].start <= uncut:
        segments[-2:] = [Segment(segments[-2].start, len(text))]
    return segments


def _pieces(text: str, span: Segment, target: int, level: int) -> Iterator[Segment]:
    """Yield the smallest pieces of `span` needed, each at most `target` long, in order."""
    if span.end - span.start <= target:
        yield span
    elif level == len(_BORDERS):
        for start in range(span.start, span.end, target):
            yield Segment(start, min(start + target, span.end))
    else:
        for piece in _cut(text, span, _BORDERS[level]):
            yield from _pieces(text, piece, target, level + 1)


def _cut(text: str, span: Segment, border: re.Pattern[str]) -> Iterator[Segment]:
    start = span.start
    for match in border.finditer(text, span.start, span.end):
        yield Segment(start, match.end())
        start = match.end()
    if start < span.end:
        yield Segment(start, span.end)
