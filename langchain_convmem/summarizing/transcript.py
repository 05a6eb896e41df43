"""What was said, as text that a summariser reads: data, escaped, in pieces that fit. Pure.

Invariant: every text, tool call and tool result of a window stands in exactly one piece; joining
the pieces gives the whole transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from langchain_convmem.records import Turn
from langchain_convmem.views.codec import line_time_ms
from langchain_convmem.views.summary_text import TextStyle, window_text
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.views.window import SummaryWindow

__all__ = ["escaped", "in_pieces", "transcript_lines"]

_TAGS = re.compile(r"<(?=\s*/?\s*(?:transcript|previous_summary|missing)\b)", re.IGNORECASE)
_STYLE = TextStyle(
    tags={"user": "User", "assistant": "Assistant", "tool": "Tool"},
    summary_tag="Summary",
    prefix="",
    postfix=": ",
    separator=" ",
    closure="\n",
    summary_closure="\n\n",
    transformer=lambda piece: "\n  ".join(piece.splitlines()),
)
"""Further lines of a text are indented, so that none of them passes for a line of a speaker."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def escaped(text: str) -> str:
    """Return the text with imitations of the tags that fence it defused."""
    return _TAGS.sub("&lt;", text)


def transcript_lines(window: SummaryWindow) -> list[str]:
    """Return what the window's turns say, line by line, each ending with a line break.

    A line with the date stands wherever the day (UTC) changes, so that "yesterday" can be told.
    """
    lines: list[str] = []
    day = ""
    for turn in window.turns:
        text = window_text([turn], None, _STYLE)
        if not text:
            continue
        today = _day(turn)
        if today and today != day:
            lines.append(f"({today})\n")
            day = today
        lines.append(f"{text}\n")
    return lines


def _day(turn: Turn) -> str:
    first = turn.entries[0]
    said_ms = None if first.message is None else line_time_ms(first.message)
    time_ms = first.metadata.timing.get("creation") if said_ms is None else said_ms
    try:
        return "" if time_ms is None else f"{_EPOCH + timedelta(milliseconds=time_ms):%Y-%m-%d}"
    except OverflowError:
        return ""


def in_pieces(lines: Iterable[str], max_tokens: int) -> list[str]:
    """Return the lines joined to as few pieces as hold at most so many tokens each.

    A line that is longer than a piece may be is cut, behind a blank where there is one.
    """
    pieces: list[str] = []
    piece, room = "", max_tokens
    for part in (part for line in lines for part in _cut(line, max_tokens)):
        tokens = count_text_tokens(part)
        if piece and tokens > room:
            pieces.append(piece)
            piece, room = "", max_tokens
        piece += part
        # Rounded up part by part, so the joined text is never larger.
        room -= tokens
    return [*pieces, piece] if piece else pieces


def _cut(line: str, max_tokens: int) -> Iterator[str]:
    while count_text_tokens(line) > max_tokens:
        # One token holds at least a character: this much fits in any script.
        end = max_tokens if not line.isascii() else 4 * max_tokens
        blank = line.rfind(" ", end // 2, end)
        end = end if blank < 0 else blank + 1
        yield line[:end]
        line = line[end:]
    if line:
        yield line
