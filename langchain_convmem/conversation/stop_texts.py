"""Cutting a text that comes in pieces where a stop text begins."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_convmem.conversation.replies.delimiters import Delimiters

__all__ = ["StopTexts"]


class StopTexts:
    """Lets a text through up to the first stop text, which may lie across pieces.

    What may yet become a stop text is held back; of two that begin at one place the longer one
    counts. However the text is cut into pieces, the same of it comes through.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Look for `texts`; empty ones are left out."""
        self._delimiters = Delimiters({text for text in texts if text})
        self._held = ""
        self.found = ""
        """The stop text that came; empty until one does."""

    def feed(self, piece: str) -> str:
        """Return what can be told of the text so far to stand before any stop text."""
        return self._let_through(piece, is_end=False)

    def rest(self) -> str:
        """Return what was held back; no more text comes."""
        return self._let_through("", is_end=True)

    def _let_through(self, piece: str, *, is_end: bool) -> str:
        if self.found:
            return ""
        data = self._held + piece
        place, found = self._delimiters.find(data, 0, is_end=is_end)
        self.found = found or ""
        self._held = "" if found else data[place:]
        return data[:place]
