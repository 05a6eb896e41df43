"""What the session of a model has really received: its text, and who wrote which part of it."""

from __future__ import annotations

import copy
from typing import Literal, Self

Origin = Literal["prompt", "reply"]
"""Who wrote a part of the session's text: the template or the model."""


class SentText:
    """The text of a session. Not thread-safe."""

    __slots__ = ("_replies", "_text")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._text = ""
        self._replies: tuple[range, ...] = ()

    def __len__(self) -> int:
        return len(self._text)

    def copy(self) -> Self:
        """Return one that grows apart from this."""
        return copy.copy(self)

    def append(self, text: str, origin: Origin) -> None:
        """Add what the session received."""
        if origin == "reply":
            self._replies += (range(len(self), len(self) + len(text)),)
        self._text += text

    def cut(self, length: int) -> None:
        """Forget everything after the first `length` code points."""
        self._text = self._text[:length]
        self._replies = tuple(
            range(one.start, min(one.stop, length)) for one in self._replies if one.start < length
        )

    def read(self, start: int = 0, end: int | None = None) -> str:
        """Return the text from code point `start`, up to `end`."""
        return self._text[start:end]

    def get_origin(self, place: int) -> Origin:
        """Return who wrote the code point at `place`, which must be within the text."""
        return "reply" if any(place in one for one in self._replies) else "prompt"

    def match(self, text: str) -> int:
        """Return how many code points the session's text and another share at the beginning."""
        if text.startswith(self._text):
            return len(self)
        low, high = 0, min(len(self), len(text))
        while low < high:
            middle = (low + high + 1) // 2
            if self._text.startswith(text[low:middle], low):
                low = middle
            else:
                high = middle - 1
        return low
