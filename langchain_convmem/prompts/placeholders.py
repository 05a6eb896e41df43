"""`{{ name }}` in a text, and the cleaning of white space. Pure functions of strings.

A placeholder stands on one line, starts at the first `{{` and ends at the next `}}`. Values that
are filled in are never looked at again, so braces, `$` and backslashes in them are only text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = [
    "Occurrence",
    "Placeholder",
    "clean_lines",
    "clean_name",
    "fill_constants",
    "fill_pieces",
    "find_occurrences",
    "find_placeholders",
    "open_placeholder",
    "split_pieces",
]

_BLANK_RUN = re.compile(r"[ \t]+")


class Placeholder(NamedTuple):
    """A placeholder of a text: its cleaned name, and where it stands (half-open, code points)."""

    name: str
    start: int
    end: int


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
    return _BLANK_RUN.sub(" ", text.strip())


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
    return indent + _BLANK_RUN.sub(" ", visible.rstrip()) if visible else ""


def find_placeholders(text: str) -> Iterator[Placeholder]:
    """Return the placeholders of `text`, in order, without overlap."""
    offset = 0
    for line in text.split("\n"):
        for start, end in _spans(line):
            yield Placeholder(clean_name(line[start + 2 : end - 2]), offset + start, offset + end)
        offset += len(line) + 1


def open_placeholder(line: str) -> int:
    """Return the offset of a `{{` that is not closed on its line, or -1."""
    behind = 0
    for _, end in _spans(line):
        behind = end
    return line.find("{{", behind)


def _spans(line: str) -> Iterator[tuple[int, int]]:
    start = line.find("{{")
    while start >= 0 and (close := line.find("}}", start + 2)) >= 0:
        yield start, close + 2
        start = line.find("{{", close + 2)


def fill_constants(text: str, constants: Mapping[str, str]) -> str:
    """Return `text` with the placeholders that name a constant replaced, once."""
    parts: list[str] = []
    behind = 0
    for name, start, end in find_placeholders(text):
        if name in constants:
            parts += [text[behind:start], constants[name]]
            behind = end
    return "".join([*parts, text[behind:]])


def find_occurrences(text: str, variables: Mapping[str, str]) -> tuple[Occurrence, ...]:
    """Return where variables stand in `text`, ascending; `variables` maps names to functions."""
    return tuple(
        Occurrence(variables[name], start, end)
        for name, start, end in find_placeholders(text)
        if name in variables
    )


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
