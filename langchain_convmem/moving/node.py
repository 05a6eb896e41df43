"""Checked access to JSON: a value that knows where it stands. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from langchain_convmem.moving.source import MAX_LINE_BYTES, refuse
from langchain_convmem.moving.times import TIME_FORMS, parse_seconds, parse_time

__all__ = ["Node"]

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}
_SHOWN_CHARS = 40


def _shown(value: Any) -> str:
    """Return what was found, short enough for one sentence."""
    if isinstance(value, dict):
        keys = ", ".join(list(value)[:5])
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    shown = ascii(value)
    return shown if len(shown) <= _SHOWN_CHARS else shown[:_SHOWN_CHARS] + "..."


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value and its place: a line (`line 3`) or a path from the root (`$.lines[2]`).

    Every method that hands out a value raises `ImportFormatError` where it is another kind.
    """

    value: Any
    path: str
    location: str

    def fail(self, expected: str) -> NoReturn:
        """Refuse the file: here stands something else than `expected`."""
        refuse(self.path, self.location, f"found {_shown(self.value)}, expected {expected}")

    def has(self, name: str) -> bool:
        """Return whether this is an object with a member `name` that is not null."""
        return isinstance(self.value, dict) and self.value.get(name) is not None

    def names(self) -> list[str]:
        """Return the names of the object's members, in the order of the file."""
        self._expect(dict)
        return list(self.value)

    def is_blank(self) -> bool:
        """Return whether this is text that says nothing."""
        return isinstance(self.value, str) and not self.value.strip()

    def member(self, name: str) -> Node:
        """Return the object's member; it must be there and not be null."""
        self._expect(dict)
        if name not in self.value:
            self.fail(f'an object with the key "{name}"')
        node = self._child(name)
        if node.value is None:
            node.fail("a value")
        return node

    def optional(self, name: str) -> Node | None:
        """Return the object's member, or None where it is missing or null."""
        self._expect(dict)
        return self._child(name) if self.has(name) else None

    def items(self) -> Iterator[Node]:
        """Yield the list's items in order."""
        self._expect(list)
        for number, item in enumerate(self.value):
            yield Node(item, self.path, f"{self.location}[{number}]")

    def text(self) -> str:
        """Return the text, verbatim; it must say something, fit the limit and be encodable."""
        self._expect(str)
        if self.is_blank():
            self.fail("text that is not blank")
        return self.text_or_blank()

    def text_or_blank(self) -> str:
        """Return the text, verbatim, which may be empty; it must fit the limit and be encodable."""
        self._expect(str)
        text: str = self.value
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            half = ascii(text[error.start])
            refuse(self.path, self.location, f"found {half}, half of a surrogate pair")
        if size > MAX_LINE_BYTES:
            limit = f"the limit for one line is {MAX_LINE_BYTES:,}"
            refuse(self.path, self.location, f"found {size:,} bytes of text; {limit}")
        return text

    def label(self) -> str:
        """Return an id or a session label: text, or a whole number as text."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        if not isinstance(self.value, str):
            self.fail("text or a whole number")
        return self.text()

    def time(self) -> datetime:
        """Return the moment, in UTC."""
        try:
            return parse_time(self.value)
        except ValueError:
            self.fail(TIME_FORMS)

    def seconds(self) -> datetime:
        """Return the moment that a number of seconds since the epoch names, in UTC."""
        try:
            return parse_seconds(self.value)
        except ValueError:
            self.fail("a time: seconds since the epoch")

    def is_a(self, kind: type) -> bool:
        """Return whether the value is of a JSON kind: `dict`, `list`, `str`."""
        return isinstance(self.value, kind)

    def _child(self, name: str) -> Node:
        joint = "." if self.location.startswith("$") or "," in self.location else ", "
        return Node(self.value[name], self.path, f"{self.location}{joint}{name}")

    def _expect(self, kind: type) -> None:
        if not isinstance(self.value, kind):
            self.fail(_KINDS[kind])
