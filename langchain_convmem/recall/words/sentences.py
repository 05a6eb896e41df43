"""The sentences of a text, and what is pasted into it. Pure."""

# ruff: noqa: RUF001, E501 - letters of the languages themselves
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["HAS_WORD", "Piece", "pieces"]

# A line that begins like a letter, after the request to work on it, opens the letter itself.
_PASTED = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*|\"[^\"]{60,}\"|\u201c[^\u201d]{60,}\u201d|\u201e[^\u201c\u201d]{60,}[\u201c\u201d]"
    r"|\u00ab[^\u00bb]{60,}\u00bb|\u300c[^\u300d]{30,}\u300d|^'(?:[^']|(?<=\w)'(?=\w))+'"
    r"|(?<=\n)(?:dear|sehr geehrte\w*|lieber?|ch[eè]re?s?|madame|monsieur|estimad[oa]s?|querid[oa]s?"
    r"|gentil[ei]|car[oa]|egregi[oa]|prezad[oa]s?|beste|geachte|уважаем\w+)\b[^\n]{1,60},[ \t]*\n.*",
    re.DOTALL | re.MULTILINE,
)
_PASTE_SIGNS = re.compile('[`>"\u201c\u201e\u00ab\u300c\n]')
_BOUNDARY = re.compile(
    "[.!?\u2026\u3002\uff01\uff1f\u061f\n]+[\"'\u201d\u2019\u00bb)\\]*_\u300d\u300f]*"
)
_ENDS_UNSPACED = frozenset("\n\u3002\uff01\uff1f\u061f")

# What stands before a period that ends no sentence: a title, an initial, a number, "e.g.".
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:mr|mrs|ms|dr|prof|st|vs|no|nr|approx|etc|bzw|ca|usw|mme|mlle|m|sr|sra|srta|sig|"
    r"dott|ing|avv|ул|д|г|\d{1,2}|[^\W\d_](?:\.[^\W\d_])*)\.$"
)


class Piece(NamedTuple):
    """A sentence or a pasted passage, by where it stands."""

    start: int
    end: int
    is_pasted: bool


def pieces(lowered: str) -> Iterator[Piece]:
    """Yield the sentences of a text and what is pasted into it, in order, without blanks."""
    start = 0
    if _PASTE_SIGNS.search(lowered):
        for pasted in _PASTED.finditer(lowered):
            yield from _sentences(lowered, start, pasted.start())
            yield from _trimmed(lowered, pasted.start(), pasted.end(), is_pasted=True)
            start = pasted.end()
    yield from _sentences(lowered, start, len(lowered))


def _sentences(lowered: str, start: int, end: int) -> Iterator[Piece]:
    for boundary in _BOUNDARY.finditer(lowered, start, end):
        stop = boundary.end()
        marks_end = boundary[0]
        if not (lowered[stop : stop + 1].isspace() or _ENDS_UNSPACED.intersection(marks_end)):
            continue
        if marks_end == "." and _ABBREVIATED.search(lowered, max(start, stop - 12), stop):
            continue
        yield from _trimmed(lowered, start, stop)
        start = stop
    yield from _trimmed(lowered, start, end)


def _trimmed(lowered: str, start: int, end: int, *, is_pasted: bool = False) -> Iterator[Piece]:
    sentence = lowered[start:end]
    bare = sentence.lstrip()
    if HAS_WORD.search(bare):
        start = end - len(bare)
        yield Piece(start, start + len(bare.rstrip()), is_pasted)


HAS_WORD = re.compile(r"\w")
