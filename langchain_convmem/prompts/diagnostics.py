"""What is wrong with a prompt file, and where: one value per finding, printed as compilers do.

Lines and columns count from 1, columns in code points of the source line. A byte order mark at
the start of the text is not a column.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias
from unicodedata import east_asian_width

from langchain_convmem.errors import PromptSyntaxError

Level: TypeAlias = Literal["error", "warning"]
"""`error`: what was written has no effect; `warning`: it is hardly meant so."""

_LINE_END = re.compile(r"\r\n|\n|\r")
_SHOWN_COLUMNS = 120
_CUT = "..."


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding; `str()` shows the message, the source line and a caret.

    Attributes:
        level: How bad it is.
        message: What was found and what to do, without the place.
        line: Line of the source, from 1.
        column: Column of the source line in code points, from 1.
        source_line: The line as it stands in the source, without its end.
        name: What was parsed: a path, or `<text>`.
    """

    level: Level
    message: str
    line: int
    column: int
    source_line: str = ""
    name: str = "<text>"

    def __str__(self) -> str:
        place = f"{_make_printable(self.name)}:{self.line}:{self.column}"
        text = f"{place}: {self.level}: {_make_printable(self.message)}"
        if not self.source_line.strip():
            return text
        shown, caret = _cut_excerpt(self.source_line, self.column)
        return f"{text}\n    {shown}\n    {caret}"

    def to_error(self) -> PromptSyntaxError:
        """Return the exception that says the same."""
        return PromptSyntaxError(
            str(self),
            path=self.name,
            line=self.line,
            column=self.column,
            source_line=self.source_line,
        )


class Findings:
    """Collects the diagnostics of one text. Not thread-safe: each parse has its own."""

    def __init__(self, name: str, text: str) -> None:
        """Create an empty collection for `text`, which is called `name` in what is printed."""
        self._name = name
        self._text = text
        self._found: list[Diagnostic] = []

    @cached_property
    def _lines(self) -> list[str]:
        return _LINE_END.split(self._text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in _LINE_END.finditer(self._text))]

    def find_line(self, position: int) -> int:
        """Return the line of the character at `position`, from 1."""
        return bisect_right(self._starts, position)

    def add(self, level: Level, message: str, position: int) -> None:
        """Add a finding at a position of the text, in code points."""
        line = self.find_line(position)
        column = position - self._starts[line - 1] + 1
        source_line = self._lines[line - 1]
        self._found.append(Diagnostic(level, message, line, column, source_line, self._name))

    def sort(self) -> tuple[Diagnostic, ...]:
        """Return all findings by place in the source; those of one place as they were added."""
        return tuple(sorted(self._found, key=lambda found: (found.line, found.column)))


def _make_printable(text: str) -> str:
    # A prompt file may come from anywhere, and a terminal obeys escape sequences.
    return "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in text)


def _cut_excerpt(source_line: str, column: int) -> tuple[str, str]:
    """Return the part of the line around the column, and the line that carries the caret."""
    start = max(0, min(column - 1 - _SHOWN_COLUMNS // 2, len(source_line) - _SHOWN_COLUMNS))
    end = start + _SHOWN_COLUMNS
    lead = _CUT if start else ""
    tail = _CUT if end < len(source_line) else ""
    shown = _make_printable(source_line[start:end])
    before = lead + shown[: column - 1 - start]
    wide = {char: " " * (1 + (east_asian_width(char) in "WF")) for char in before if char != "\t"}
    margin = "".join(wide.get(char, char) for char in before)
    return f"{lead}{shown}{tail}", f"{margin}^"


OnProblem: TypeAlias = Callable[[Diagnostic], object]
"""Is told what went wrong in a call that goes on."""
