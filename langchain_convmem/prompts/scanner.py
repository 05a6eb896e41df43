r"""Characters to comments, and what is left to lines: one scan from left to right.

What opens first wins: `/*` inside a line comment opens nothing, `//` inside a block comment hides
nothing. An address (`://` up to the next white space) is text throughout, so neither
`https://host//path` nor `https://host/*` is cut; nor is quoted text, `{{"//"}}`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from langchain_convmem.prompts.diagnostics import Findings
from langchain_convmem.prompts.variables import QUOTED
from langchain_convmem.views.lines import INDENT

Range: TypeAlias = tuple[int, int]
"""Positions of a piece of the text in code points, half-open."""


# Without groups: with them, the search for the first character of a mark takes ten times as long.
_MARK = re.compile(rf"{QUOTED.pattern}|://[^ \t\r\n]*|//[^\r\n]*|/\*|\*/")
_LINE_END = re.compile(r"\r\n|\n|\r")
_HEADING = re.compile(r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))(?=\*\*)")


class Line(NamedTuple):
    """A line with its comments taken out; a block comment may have joined several source lines.

    Attributes:
        text: The characters left, white space as in the source.
        start: Position of the first of them in the source.
        pieces: If comments were taken out, pairs for each piece left: where it starts in `text`,
            and its position in the source.
    """

    text: str
    start: int
    pieces: tuple[tuple[int, int], ...]

    def locate(self, offset: int) -> int:
        """Return the source position of `text[offset]`; just after the end is allowed."""
        if not self.pieces:
            return self.start + offset
        piece = bisect_right(self.pieces, offset, key=itemgetter(0)) - 1
        start, position = self.pieces[piece]
        return position + offset - start

    @property
    def position(self) -> int:
        """Source position of the first character that is not white space."""
        return self.locate(len(self.text) - len(self.text.lstrip()))


def find_comments(text: str, findings: Findings) -> list[Range]:
    """Return where the comments stand, in order; what is wrong with them goes to `findings`."""
    comments: list[Range] = []
    # Without it, a text of openers alone would be searched to its end for each of them.
    last_close = text.rfind("*/")
    is_open = False
    position = 0
    while (mark := _MARK.search(text, position)) is not None:
        start, position = mark.span()
        kind = text[start : start + 2]
        if kind == "//":
            comments.append((start, position))
        elif kind == "/*" and position <= last_close:
            close = text.index("*/", position)
            nested = text.find("/*", position, close)
            if nested >= 0:
                message = "comments cannot be nested: the first '*/' ends the comment"
                findings.add("error", message, nested)
            position = close + 2
            comments.append((start, position))
        elif kind == "/*" and not is_open:
            is_open = True
            findings.add("error", "this comment is not closed by '*/'; it stays in the text", start)
        elif kind == "*/":
            findings.add("warning", "'*/' closes no comment; it stays in the text", start)
    return comments


def read_lines(text: str, comments: Iterable[Range]) -> Iterator[Line]:
    """Return the lines, in order; one that holds nothing but comments is left out."""
    ahead = deque(comments)
    pieces: list[Range] = []
    begin = 0
    line_ends = (newline.span() for newline in _LINE_END.finditer(text))
    for end, behind in chain(line_ends, [(len(text), len(text))]):
        while ahead and ahead[0][0] < end:
            opened, closed = ahead.popleft()
            pieces.append((begin, opened))
            begin = closed
        if begin > end:  # this line end is inside a block comment
            continue
        if not pieces:
            yield Line(text[begin:end], begin, ())
        else:
            pieces.append((begin, end))
            kept = [(start, stop) for start, stop in pieces if start < stop]
            if any(text[start:stop].strip() for start, stop in kept):
                yield _join_line(text, kept)
            pieces = []
        begin = behind


def _join_line(text: str, pieces: list[Range]) -> Line:
    texts = [text[begin:stop] for begin, stop in pieces]
    offsets = accumulate((len(piece) for piece in texts), initial=0)
    starts = [begin for begin, _ in pieces]
    places = tuple(zip(offsets, starts, strict=False))
    return Line("".join(texts), starts[0], places)


# -- How sections stand in a system prompt --------------------------------------------------------


SUMMARY_TITLE_KEY = "*MessageSummaryTitle*"
"""Key of the Meta section whose value is the title over a conversation's summary."""


def format_heading(title: str | None) -> str:
    """Return the line over a section, with its line end; nothing for None."""
    return "" if title is None else f"**{title}:**\n"


def escape_headings(text: str) -> str:
    """Return a text that is filled in; lines of it that look like a heading are indented."""
    return _HEADING.sub(INDENT, text) if "**" in text else text


def join_blocks(blocks: Iterable[tuple[str, str]]) -> str:
    """Join pairs of heading and text in order; a blank text goes, with its heading."""
    return "\n\n".join(head + text for head, text in blocks if text.strip())
