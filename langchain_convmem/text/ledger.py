"""What the session of a model has really received: its text, in parts."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

Origin = Literal["prompt", "reply"]
"""Who wrote a part of the session's text: the template or the model."""


class SessionLedger:
    """The text of a session, in parts. Not thread-safe."""

    __slots__ = ("_ends", "_origins", "_parts")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._ends: list[int] = []
        self._origins: list[Origin] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def copy(self) -> SessionLedger:
        """Return one that grows apart from this."""
        twin = SessionLedger()
        twin._parts[:] = self._parts
        twin._ends[:] = self._ends
        twin._origins[:] = self._origins
        return twin

    def append(self, text: str, origin: Origin) -> None:
        """Add what the session received."""
        if text:
            self._ends.append(len(self) + len(text))
            self._parts.append(text)
            self._origins.append(origin)

    def cut(self, length: int) -> None:
        """Forget everything after the first `length` code points."""
        number, within = self._locate(length)
        if number == len(self._parts):
            return
        part, origin = self._parts[number][:within], self._origins[number]
        del self._parts[number:], self._ends[number:], self._origins[number:]
        self.append(part, origin)

    def read(self, start: int = 0, end: int | None = None) -> str:
        """Return the text from code point `start`, up to `end`."""
        number, within = self._locate(start)
        last = len(self._parts) if end is None else bisect_right(self._ends, end) + 1
        rest = "".join(self._parts[number:last])[within:]
        return rest if end is None else rest[: max(0, end - start)]

    def get_origin(self, place: int) -> Origin:
        """Return who wrote the code point at `place`, which must be within the text."""
        return self._origins[self._locate(place)[0]]

    def match(self, text: str) -> int:
        """Return how many code points the session's text and another share at the beginning."""
        seen = 0
        for part in self._parts:
            if not text.startswith(part, seen):
                return seen + _match_length(part, text[seen : seen + len(part)])
            seen += len(part)
        return seen

    def _locate(self, offset: int) -> tuple[int, int]:
        """Return the part that holds a code point, and where in it."""
        number = bisect_right(self._ends, offset)
        return number, offset - (self._ends[number - 1] if number else 0)


def _match_length(one: str, other: str) -> int:
    """Return how many code points two texts share at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
