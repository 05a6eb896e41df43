"""A thread as a table: for people who look into it, on a terminal or in a notebook."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_convmem.records import Entry, Turn
from langchain_convmem.views.export import ExportCursor, first_unexported, turn_map
from langchain_convmem.views.live import live_entries, live_summary
from langchain_convmem.views.turns import model_turns, turns

__all__ = ["MAX_HTML_ROWS", "html_table", "text_table"]

MAX_HTML_ROWS = 200
"""How many of the latest turns a notebook shows."""

_NOTHING = "---"
_HEADER = "TURNS ('*' first for the model, '-' next to export, '^' last summary):"
_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b"})


def text_table(entries: Sequence[Entry], cursor: ExportCursor | None) -> str:
    """Return one line per turn: number, marks, role, pieces, id and metadata.

    Line ends, tabs and other control characters are escaped. A mark that stands behind the last
    turn is named in a line of its own.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        cursor: How far the default sink was served; None leaves out its mark.
    """
    shown = turns(entries)
    if not shown:
        return _NOTHING
    marks = _marks(entries, shown, cursor)
    lines = [f"{n}\t{_marks_at(n, marks)}\t{_turn_text(turn)}" for n, turn in enumerate(shown)]
    beyond = ", ".join(f"'{mark}' -> index {at}" for mark, at in marks.items() if at >= len(shown))
    return "\n".join([_HEADER, ",\n".join(lines) + ".", *([f".\t{beyond}."] if beyond else [])])


def _marks(
    entries: Sequence[Entry], shown: Sequence[Turn], cursor: ExportCursor | None
) -> dict[str, int]:
    """Return the number of the turn that each mark stands at, in the order of the marks."""
    number_of = {turn.id: number for number, turn in enumerate(shown)}
    said = (turn.id for turn in model_turns(entries) if turn.role != "system")
    firsts = [number_of[name] for name in said if name in number_of]
    marks = {"*": min(firsts, default=len(shown))}
    if cursor is not None:
        marks["-"] = first_unexported(entries, cursor)
    summary = live_summary(live_entries(entries))
    if summary is not None:
        marks["^"] = number_of[summary.id]
    return marks


def _marks_at(number: int, marks: Mapping[str, int]) -> str:
    return " ".join(mark for mark, at in marks.items() if at == number)


def _turn_text(turn: Turn) -> str:
    pieces = " ".join(f"'{_escaped(piece)}'" for piece in turn.contents)
    metadata = _escaped(_plain(turn_map(turn)["metadata"]))
    return f"[{turn.role}] {{{pieces}}} -- '{turn.id}' {metadata}"


def _escaped(text: str) -> str:
    """Return the text on one line and in its own order: a terminal obeys control characters."""
    visible = text.translate(_ESCAPES)
    if visible.isprintable():
        return visible
    return "".join(map(_escaped_character, visible))


def _escaped_character(character: str) -> str:
    # Joiners and wide blanks, which scripts and emoji are written with, stay as they are.
    if unicodedata.category(character) in _CONTROL or character in _BIDI:
        return character.encode("unicode_escape").decode()
    return character


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def html_table(entries: Sequence[Entry], cursor: ExportCursor | None) -> str:
    """Return the latest turns as an HTML table; whatever was said is escaped.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        cursor: How far the default sink was served; None leaves out its mark.
    """
    shown = turns(entries)
    marks = _marks(entries, shown, cursor)
    first = max(0, len(shown) - MAX_HTML_ROWS)
    rows = [
        _row("td", _cells(number, turn, marks))
        for number, turn in enumerate(shown[first:], start=first)
    ]
    left_out = f"<p>{first} earlier turns are not shown.</p>" if first else ""
    head = _row("th", ["#", "", "role", "contents", "id", "metadata"])
    return f"{left_out}<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _cells(number: int, turn: Turn, marks: Mapping[str, int]) -> list[str]:
    metadata = {key: item for key, item in turn_map(turn)["metadata"].items() if key != "timing"}
    texts = [str(number), _marks_at(number, marks), turn.role]
    said = "<br>".join(_html(piece) for piece in turn.contents)
    known = _plain(metadata) if metadata else ""
    return [*map(_html, texts), said, _html(turn.id), _html(known)]


def _html(text: str) -> str:
    """Return the text for HTML; lone surrogates, which no page can hold, as escapes."""
    valid = text.encode("utf-8", "backslashreplace").decode()
    return html.escape(valid).replace("\n", "<br>")


def _row(tag: str, cells: Iterable[str]) -> str:
    style = ' style="text-align:left;vertical-align:top"'
    return "<tr>" + "".join(f"<{tag}{style}>{cell}</{tag}>" for cell in cells) + "</tr>"
