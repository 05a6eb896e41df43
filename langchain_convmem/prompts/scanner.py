r"""Characters to tokens, and tokens to lines without comments: one scan from left to right.

Every character of the text is in exactly one token. What opens first wins: `/*` inside a line
comment opens nothing, `//` inside a block comment hides nothing. An address (`://` up to the next
white space) is text throughout, so neither `https://host//path` nor `https://host/*` is cut.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from langchain_convmem.prompts.diagnostics import Findings, Where

__all__ = ["Line", "Token", "TokenKind", "read_lines", "scan"]

_MARK = re.compile(
    r"(?P<address>://[^ \t\r\n]*)"
    r"|(?P<line_comment>//[^\r\n]*)"
    r"|(?P<open>/\*)"
    r"|(?P<close>\*/)"
    r"|(?P<newline>\r\n|\n|\r)"
)
_LINE_END = re.compile(r"\r\n|\n|\r")


class TokenKind(Enum):
    """What a token is."""

    TEXT = "text"
    COMMENT = "comment"
    NEWLINE = "newline"


class Token(NamedTuple):
    """A piece of the source as it stands there.

    Attributes:
        kind: What it is. Only a comment may span several lines.
        text: The characters.
        line: Line of the first character, from 1.
        column: Column of the first character in code points, from 1.
    """

    kind: TokenKind
    text: str
    line: int
    column: int


class Line(NamedTuple):
    """A line with its comments taken out; a block comment may have joined several source lines.

    Attributes:
        text: The characters left, white space as in the source.
        pieces: The text tokens that `text` is made of, in order.
        offsets: Where each of them starts in `text`.
        number: Source line where it ends, from 1.
    """

    text: str
    pieces: tuple[Token, ...]
    offsets: tuple[int, ...]
    number: int

    def where(self, offset: int = 0) -> Where:
        """Return the source position of `text[offset]`; just behind the end is allowed."""
        if not self.pieces:
            return self.number, 1
        place = bisect_right(self.offsets, offset) - 1
        piece = self.pieces[place]
        return piece.line, piece.column + offset - self.offsets[place]

    @property
    def start(self) -> Where:
        """Source position of the first character that is no white space."""
        return self.where(len(self.text) - len(self.text.lstrip()))


def scan(text: str, findings: Findings) -> list[Token]:
    """Cut `text` into tokens, in order; what is wrong with its comments goes to `findings`."""
    return _Scanner(text, findings).tokens()


def read_lines(tokens: Iterable[Token]) -> Iterator[Line]:
    """Join tokens to lines, in order; a line that holds nothing but comments is left out."""
    pieces: list[Token] = []
    commented = False
    number = 1
    for token in tokens:
        number = token.line
        if token.kind is TokenKind.TEXT:
            pieces.append(token)
        elif token.kind is TokenKind.COMMENT:
            commented = True
        else:
            if not commented or _has_text(pieces):
                yield _line(pieces, number)
            pieces, commented = [], False
    if _has_text(pieces):
        yield _line(pieces, number)


def _has_text(pieces: list[Token]) -> bool:
    return any(piece.text.strip() for piece in pieces)


def _line(pieces: list[Token], number: int) -> Line:
    if len(pieces) == 1:
        return Line(pieces[0].text, tuple(pieces), (0,), number)
    ends = list(accumulate((len(piece.text) for piece in pieces), initial=0))
    text = "".join(piece.text for piece in pieces)
    return Line(text, tuple(pieces), tuple(ends[:-1]), number)


class _Scanner:
    """The scan of one text; holds the place it has come to."""

    def __init__(self, text: str, findings: Findings) -> None:
        self._text = text
        self._findings = findings
        self._tokens: list[Token] = []
        self._line = 1
        self._line_start = 0
        self._pending = 0
        self._unclosed = False

    def tokens(self) -> list[Token]:
        position = 0
        while (mark := _MARK.search(self._text, position)) is not None:
            position = self._at(mark)
        self._take_text(len(self._text))
        return self._tokens

    def _at(self, mark: re.Match[str]) -> int:
        """Take the mark and return where the scan goes on."""
        start, end = mark.span()
        match mark.lastgroup:
            case "newline":
                self._take(TokenKind.NEWLINE, start, end)
                self._line += 1
                self._line_start = end
            case "line_comment":
                self._note_glued(start, start + 2)
                self._take(TokenKind.COMMENT, start, end)
            case "open":
                return self._block(start, end)
            case "close":
                message = "'*/' closes no comment; it stays in the text"
                self._findings.warning(message, self._where(start))
        return end

    def _block(self, start: int, body: int) -> int:
        close = -1 if self._unclosed else self._text.find("*/", body)
        if close < 0:
            self._note_unclosed(start)
            return body
        end = close + 2
        nested = self._text.find("/*", body, close)
        if nested >= 0:
            message = "comments cannot be nested: the first '*/' ends the comment"
            self._findings.error(message, self._where_ahead(start, nested))
        self._note_glued(start, end)
        self._take(TokenKind.COMMENT, start, end)
        self._line, column = self._where_ahead(start, end)
        self._line_start = end - column + 1
        return end

    def _take(self, kind: TokenKind, start: int, end: int) -> None:
        self._take_text(start)
        self._tokens.append(Token(kind, self._text[start:end], *self._where(start)))
        self._pending = end

    def _take_text(self, end: int) -> None:
        start = self._pending
        if end > start:
            self._tokens.append(Token(TokenKind.TEXT, self._text[start:end], *self._where(start)))

    def _where(self, position: int) -> Where:
        return self._line, position - self._line_start + 1

    def _where_ahead(self, start: int, end: int) -> Where:
        """Return the place of `end`; `start` is on the current line."""
        line, line_start = self._line, self._line_start
        for newline in _LINE_END.finditer(self._text, start, end):
            line, line_start = line + 1, newline.end()
        return line, end - line_start + 1

    def _note_unclosed(self, start: int) -> None:
        # Once there is no '*/' ahead, looking for it again would make the scan quadratic.
        if not self._unclosed:
            message = "this comment is not closed by '*/'; it stays in the text"
            self._findings.error(message, self._where(start))
        self._unclosed = True

    def _note_glued(self, start: int, end: int) -> None:
        before = self._text[max(start - 1, 0) : start]
        after = self._text[end : end + 1]
        if before.isalnum() and after.strip():
            message = "a comment starts inside a word here; it is taken out of the text"
            self._findings.info(message, self._where(start))
