"""Where the next delimiter stands in a text that is still coming."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["Delimiters"]


class Delimiters:
    """Texts to look for. The leftmost wins, and of those that begin alike the longest.

    That holds for a text in pieces as for the whole: what may yet become a delimiter is waited for.
    """

    def __init__(self, texts: Collection[str]) -> None:
        """Prepare the search; none of the texts may be empty."""
        longest_first = sorted(texts, key=len, reverse=True)
        self._longest = max(map(len, texts), default=0)
        self._whole = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        begun = [_beginnings(text[:-1]) for text in longest_first if text[1:]]
        self._begun = re.compile(rf"(?:{'|'.join(begun) or '(?!)'})\Z")

    def find(self, data: str, start: int, *, is_end: bool) -> tuple[int, str | None]:
        """Return up to where there is no delimiter, and the one that stands there.

        It is None if there is none, or if more text must tell. At most as much is waited for as
        the longest is long.

        Args:
            data: The text.
            start: Where to look from.
            is_end: Whether no more text comes.
        """
        found = self._whole.search(data, start)
        place = len(data) if found is None else found.start()
        if not is_end:
            begun = self._begun.search(data, max(start, len(data) - self._longest + 1))
            if begun is not None and begun.start() <= place:
                return begun.start(), None
        return place, None if found is None else found.group()


def _beginnings(text: str) -> str:
    """Return the pattern of all beginnings of a text that are not empty."""
    pattern = ""
    for character in reversed(text):
        pattern = re.escape(character) + (f"(?:{pattern})?" if pattern else "")
    return pattern
