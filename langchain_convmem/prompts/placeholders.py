r"""`{{ name }}` in a text, and the cleaning of white space. Pure functions of strings.

A placeholder stands on one line, starts at the first `{{` and ends at the next `}}`. Values that
are filled in are never parsed, so braces, `$` and backslashes in them are only text. A
placeholder in quotes, `{{"text"}}`, ends behind the second quote and stands for what is between
the two: the way to write what would mean something otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = [
    "MAX_FILLED",
    "QUOTED",
    "Filler",
    "Occurrence",
    "Placeholder",
    "clean_lines",
    "clean_name",
    "fill_pieces",
    "find_placeholders",
    "open_placeholder",
    "split_pieces",
    "unquote",
]

MAX_FILLED = 1 << 24
"""Code points that constants may fill into one file: a small file cannot grow without limit."""

QUOTED = re.compile(r'\{\{[ \t]*"[^"\s](?:[^"\r\n]*[^"\s])?"[ \t]*\}\}')
"""Quoted text; it starts and ends with a visible character, so it cannot undo cleaning."""

_BLANK_RUN = re.compile(r"[ \t]+")


class Placeholder(NamedTuple):
    """A placeholder of a text: its cleaned name, and where it stands (half-open, code points).

    Attributes:
        name: The name; of quoted text, with the quotes.
        start: First code point, an opening brace.
        end: One behind the last closing brace.
        quoted: The text that stands between quotes; empty if it is a name.
    """

    name: str
    start: int
    end: int
    quoted: str = ""


class Occurrence(NamedTuple):
    """Where a run-time variable stands in a section's raw text.

    Attributes:
        function_name: The function whose value goes there.
        start: First code point, an opening brace.
        end: One behind the last closing brace.
    """

    function_name: str
    start: int
    end: int


def clean_name(text: str) -> str:
    """Return `text` with runs of blanks and tabs as one blank, and none at its ends."""
    return _clean_runs(text.strip())


def clean_lines(lines: Iterable[str]) -> str:
    """Return the lines as a section's text: indentation kept, other white space tokens saved.

    Runs of blanks and tabs behind the first visible character become one blank, white space at
    line ends goes, and so do blank lines at both ends; several blank lines become one.
    """
    cleaned: list[str] = []
    for line in lines:
        text = _clean_line(line)
        if text or (cleaned and cleaned[-1]):
            cleaned.append(text)
    if cleaned and not cleaned[-1]:
        cleaned.pop()
    return "\n".join(cleaned)


def _clean_line(line: str) -> str:
    visible = line.lstrip()
    indent = line[: len(line) - len(visible)]
    return indent + _clean_runs(visible.rstrip()) if visible else ""


def _clean_runs(text: str) -> str:
    return _BLANK_RUN.sub(" ", text) if "  " in text or "\t" in text else text


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """Return the placeholders of `text`, in order, without overlap."""
    start = text.find("{{")
    line_end = -1
    while start >= 0:
        # Both searches end with the line, or many lines would be searched again and again.
        if line_end < start:
            line_end = text.find("\n", start)
            line_end = len(text) if line_end < 0 else line_end
        quoted = QUOTED.match(text, start, line_end)
        close = quoted.end() - 2 if quoted else text.find("}}", start + 2, line_end)
        if close < 0:
            start = text.find("{{", line_end)
            continue
        name = clean_name(text[start + 2 : close])
        yield Placeholder(name, start, close + 2, name[1:-1] if quoted else "")
        start = text.find("{{", close + 2)


def open_placeholder(line: str) -> int:
    """Return the offset of a `{{` that is not closed on its line, or -1."""
    behind = 0
    for placeholder in find_placeholders(line):
        behind = placeholder.end
    return line.find("{{", behind)


def unquote(text: str) -> str:
    """Return `text` with what stands in quoted placeholders; all else stays."""
    return Filler({}, {}).fill(text)[0] if "{{" in text else text


class Filler:
    """Fills constants and quoted text into sections, and finds where variables stand there.

    Not thread-safe: it counts what it fills in.
    """

    def __init__(self, constants: Mapping[str, str], variables: Mapping[str, str]) -> None:
        """Create it for one file.

        Args:
            constants: Name -> value as it was written; variables in it count as the section's.
            variables: Name -> function name. A constant of the same name goes before it.
        """
        self.is_full = False
        """Whether something stayed because constants would have filled in too much."""
        self._variables = {name: at for name, at in variables.items() if name not in constants}
        self._room = MAX_FILLED
        self._values: dict[str, tuple[str, list[Occurrence]]] = {}
        # Values are filled once, while no constant is known: constants never name each other.
        self._values = {name: self.fill(value) for name, value in constants.items()}

    def fill(self, text: str) -> tuple[str, list[Occurrence]]:
        """Return the text after filling, and where variables stand in it."""
        parts: list[str] = []
        occurrences: list[Occurrence] = []
        behind = length = 0
        for placeholder in find_placeholders(text):
            value, inner = self._value(placeholder, text)
            lead = text[behind : placeholder.start]
            length += len(lead)
            occurrences += [_moved(occurrence, length) for occurrence in inner]
            parts += [lead, value]
            length += len(value)
            behind = placeholder.end
        return "".join([*parts, text[behind:]]), occurrences

    def _value(self, placeholder: Placeholder, text: str) -> tuple[str, list[Occurrence]]:
        """Return what takes the placeholder's place."""
        name, start, end, quoted = placeholder
        if quoted:
            return quoted, []
        value = self._values.get(name)
        if value is not None and len(value[0]) <= self._room:
            self._room -= len(value[0])
            return value
        self.is_full = self.is_full or value is not None
        written = text[start:end]
        if name in self._variables:
            return written, [Occurrence(self._variables[name], 0, end - start)]
        return written, []


def _moved(occurrence: Occurrence, by: int) -> Occurrence:
    function_name, start, end = occurrence
    return Occurrence(function_name, start + by, end + by)


def split_pieces(text: str, occurrences: Iterable[Occurrence]) -> list[str]:
    """Cut `text` at its variables: literal text at even places, function names at odd ones."""
    pieces: list[str] = []
    behind = 0
    for function_name, start, end in occurrences:
        pieces += [text[behind:start], function_name]
        behind = end
    return [*pieces, text[behind:]]


def fill_pieces(pieces: Sequence[str], values: Mapping[str, str]) -> str:
    """Put the values back where `split_pieces` cut."""
    return "".join(values[piece] if place % 2 else piece for place, piece in enumerate(pieces))
