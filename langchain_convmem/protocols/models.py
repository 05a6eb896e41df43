"""What counts tokens and writes summaries, and the tags of runs that the memory starts itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.messages import MessageLikeRepresentation

    from langchain_convmem.records import SummaryRequest

__all__ = ["INTERNAL_TAG", "INTERNAL_TAGS", "Summarizer", "TokenCounter"]

TokenCounter: TypeAlias = "Callable[[Iterable[MessageLikeRepresentation]], int]"
"""Counts the tokens of messages; the signature that `trim_messages` takes too."""

INTERNAL_TAG = "langchain_convmem:internal"
"""Tag of every run that the memory itself starts."""

INTERNAL_TAGS = (INTERNAL_TAG, "nostream")
"""By `nostream` LangGraph leaves a model out of what `stream_mode="messages"` shows."""


@runtime_checkable
class Summarizer(Protocol):
    """Writes summaries. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """What stands with a summary as its author: a model's name, or a procedure's."""
        ...

    def summarize(self, request: SummaryRequest) -> str:
        """Return the summary of what the request holds.

        Raises:
            SummaryError: If there is none; nothing is compacted then.
        """
        ...

    async def asummarize(self, request: SummaryRequest) -> str:
        """Return the summary, without blocking the event loop."""
        ...
