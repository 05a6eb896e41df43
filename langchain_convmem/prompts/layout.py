"""How sections stand in a system prompt: heading, text, one blank line between sections."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SUMMARY_TITLE_KEY", "heading", "join_blocks"]

SUMMARY_TITLE_KEY = "*MessageSummaryTitle*"
"""Key of the Meta section whose value is the title over a conversation's summary."""


def heading(title: str | None) -> str:
    """Return the line over a section, with its line end; nothing for None."""
    return "" if title is None else f"**{title}:**\n"


def join_blocks(blocks: Iterable[tuple[str, str]]) -> str:
    """Join pairs of heading and text in order; a blank text goes, with its heading."""
    return "\n\n".join(head + text for head, text in blocks if text.strip())
