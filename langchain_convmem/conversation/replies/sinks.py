"""Where the text of a reply and of its channels is gathered."""

from __future__ import annotations

__all__ = ["TextSink"]


class TextSink:
    """Text between marks. The line ends that stand beside a mark belong to it, not to the text.

    Those at the end are held back until it is known what follows.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.has_text = False
        self._new: list[str] = []
        self._line_ends = 0
        self._is_behind_mark = False

    def write(self, text: str) -> None:
        """Add text."""
        if self._is_behind_mark:
            text = text.lstrip("\n")
        body = text.rstrip("\n")
        if body:
            self._new.append("\n" * self._line_ends + body)
            self._line_ends = 0
            self.has_text = True
        if text:
            self._is_behind_mark = False
        self._line_ends += len(text) - len(body)

    def mark(self) -> None:
        """Note that a mark stands here."""
        self._is_behind_mark = True
        if not self.has_text:
            self._line_ends = 0

    def finish(self) -> None:
        """Note that nothing follows."""
        if not self._is_behind_mark and self._line_ends:
            self._new.append("\n" * self._line_ends)
        self._line_ends = 0

    def take(self) -> str:
        """Return what is new since the last time."""
        new, self._new = "".join(self._new), []
        return new
