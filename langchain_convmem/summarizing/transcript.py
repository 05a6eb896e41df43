"""What was said, as text that a summariser reads: data, escaped, in pieces that fit. Pure.

Invariant: every text, tool call and tool result of a window stands in exactly one piece, or, where
it is longer than one, in several that follow each other. Each piece tells the day and the speaker
of its first words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from langchain_convmem.records import Turn
from langchain_convmem.views.codec import line_time_ms
from langchain_convmem.views.summary_text import TextStyle, turn_lines
from langchain_convmem.views.times import day_text
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.views.window import SummaryWindow

__all__ = ["Line", "escaped", "in_pieces", "transcript_lines"]

_TAGS = re.compile(r"<(?=\s*/?\s*(?:transcript|previous_summary|missing)\b)", re.IGNORECASE)
_INDENT = "  "
"""Before further lines of a text, so that none of them passes for a line of a speaker."""
_STYLE = TextStyle(
    tags={"user": "User", "assistant": "Assistant", "tool": "Tool"},
    summary_tag="Summary",
    prefix="",
    postfix=": ",
    separator=" ",
    closure="\n",
    summary_closure="\n\n",
    transformer=lambda piece: f"\n{_INDENT}".join(piece.splitlines()),
)


def escaped(text: str) -> str:
    """Return the text with imitations of the tags that fence it defused."""
    return _TAGS.sub("&lt;", text)


@dataclass(frozen=True, slots=True)
class Line:
    """What one speaker says in one go.

    Attributes:
        text: What is told, with the speaker in front; further lines of it are indented.
        speaker: Who said it; empty if that is not known.
        day: When, such as "2023-05-08" (UTC); empty if that is not known.
    """

    text: str
    speaker: str = ""
    day: str = ""


def transcript_lines(window: SummaryWindow) -> list[Line]:
    """Return what the window's turns say, line by line."""
    return [
        Line(text, speaker, _day(turn))
        for turn in window.turns
        for speaker, text in turn_lines(turn, _STYLE)
    ]


def _day(turn: Turn) -> str:
    first = turn.entries[0]
    said_ms = None if first.message is None else line_time_ms(first.message)
    time_ms = first.metadata.timing.get("creation") if said_ms is None else said_ms
    return "" if time_ms is None else day_text(time_ms)


def in_pieces(lines: Iterable[Line], max_tokens: int) -> list[str]:
    """Return the lines joined to as few pieces as hold at most so many tokens each.

    The date stands wherever the day changes, so that "yesterday" can be told, and at the beginning
    of each piece. A line that is longer than a piece may be is cut, behind a blank where there is
    one; each part names the speaker.

    Args:
        lines: What was said.
        max_tokens: At least 16; dates and names that would take half of it or more are left out.
    """
    pieces: list[str] = []
    piece, room, shown = "", max_tokens, ""
    for line in lines:
        date = _short(f"({line.day})\n" if line.day else "", max_tokens)
        for part in _parts(line, max_tokens - count_text_tokens(date)):
            text = part if date in ("", shown) else date + part
            if piece and count_text_tokens(text) > room:
                pieces.append(piece)
                piece, room, shown, text = "", max_tokens, "", date + part
            piece += text
            shown = date or shown
            # Rounded up part by part, so the joined text is never larger.
            room -= count_text_tokens(text)
    return [*pieces, piece] if piece else pieces


def _parts(line: Line, max_tokens: int) -> Iterator[str]:
    """Yield a line in parts, each with a line break behind it."""
    text, tag = line.text, ""
    again = _short(f"{line.speaker}: " if line.speaker else "", max_tokens) or _INDENT
    room = max_tokens - 1  # for the line break
    while count_text_tokens(tag) + count_text_tokens(text) > room:
        fitting = room - count_text_tokens(tag)
        # One token holds at least a character: this much fits in any script.
        end = fitting if not text.isascii() else 4 * fitting
        blank = text.rfind(" ", end // 2, end)
        end = end if blank < 0 else blank + 1
        yield f"{tag}{text[:end]}\n"
        text, tag = text[end:], again
    yield f"{tag}{text}\n"


def _short(text: str, max_tokens: int) -> str:
    return text if 2 * count_text_tokens(text) < max_tokens else ""
