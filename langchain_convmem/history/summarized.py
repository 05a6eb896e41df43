"""The part of a history that deals with summaries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from langchain_convmem.errors import ConfigError, InvalidMessageError, StaleWindowError
from langchain_convmem.history.added_turn import AddedTurn
from langchain_convmem.history.thread import LogThread
from langchain_convmem.records import Entry, Turn
from langchain_convmem.steps import Steps, arun, run, step
from langchain_convmem.views.live import live_entries, live_summary
from langchain_convmem.views.summaries import (
    applied_summary,
    check_kept,
    checked_pieces,
    summary_draft,
    undoing_summary,
)
from langchain_convmem.views.turns import turn_of
from langchain_convmem.views.window import SummaryWindow, summary_window

__all__ = ["SummarizedThread"]


class SummarizedThread(LogThread):
    """Windows to summarise, and the summaries that were made of them."""

    def summary_window(self) -> SummaryWindow:
        """Return what the next summary must cover, as it is now.

        It ends with the last reply behind which no tool is awaited, so that what the user said
        last stays out; placeholders and system messages stay out too. Empty when there is nothing
        new. Taking a window changes nothing.
        """
        return run(self._viewed(partial(summary_window, self.key)))

    async def asummary_window(self) -> SummaryWindow:
        """Return what the next summary must cover; see `summary_window`."""
        return await arun(self._viewed(partial(summary_window, self.key)))

    def add_summary(
        self,
        text: str | Sequence[str],
        window: SummaryWindow,
        *,
        model: str = "",
        prompt_version: str = "",
    ) -> AddedTurn:
        """Put a summary in the place of a window's turns, and return its turn.

        The log keeps what it covers. What was added since the window was taken stays as it is,
        behind the summary. Adding the same text to the same window again changes nothing.

        Args:
            text: The summary; blank pieces are left out.
            window: What was summarised.
            model: Name of the model or procedure that wrote it.
            prompt_version: Version of the prompt that it was asked for with.

        Raises:
            InvalidMessageError: If the text is blank or the window empty, or if the write hook
                stores nothing of the text; nothing is written.
            StaleWindowError: If something in the window was undone, replaced, forgotten or
                summarised since; nothing is written.
            ConfigError: If the window is of another thread.
        """
        return run(self._summarizing(text, window, model, prompt_version))

    async def aadd_summary(
        self,
        text: str | Sequence[str],
        window: SummaryWindow,
        *,
        model: str = "",
        prompt_version: str = "",
    ) -> AddedTurn:
        """Put a summary in the place of a window's turns; see `add_summary`."""
        return await arun(self._summarizing(text, window, model, prompt_version))

    def _summarizing(
        self, text: str | Sequence[str], window: SummaryWindow, model: str, prompt_version: str
    ) -> Steps[AddedTurn]:
        if not isinstance(window, SummaryWindow) or window.key != self.key:
            raise ConfigError(
                f"window must be one of thread {self.key.thread_id!r}: {window!r:.80}"
            )
        pieces = self.drafting.pieces(checked_pieces(text, what="a summary"))
        if pieces is None:
            raise InvalidMessageError("before_write stores nothing of the summary; none was added")
        before = yield from self._entries()
        added = applied_summary(pieces, window, before)
        if added is not None:
            return AddedTurn.holding(added, before, self.log)
        draft = summary_draft(pieces, window, before, model=model, prompt_version=prompt_version)
        [added] = yield from self._append([draft])
        entries = yield from self._entries()
        try:
            check_kept(window, entries)
        except StaleWindowError:
            yield step(self.log, "forget", self.key, [added.id])
            raise
        return AddedTurn.holding(added, entries, self.log)

    @property
    def last_summary(self) -> Turn | None:
        """The live summary, which stands for all that it and those before it cover, if any."""
        return run(self._viewed(_last_summary))

    async def alast_summary(self) -> Turn | None:
        """Return the live summary, if any; see `last_summary`."""
        return await arun(self._viewed(_last_summary))

    def undo_summary(self) -> Turn | None:
        """Take back the live summary: what it covers is shown again, or the summary before it.

        Returns:
            What was taken back; None if there was no summary.
        """
        return run(self._undoing_summary())

    async def aundo_summary(self) -> Turn | None:
        """Take back the live summary; see `undo_summary`."""
        return await arun(self._undoing_summary())

    def _undoing_summary(self) -> Steps[Turn | None]:
        entries = yield from self._entries()
        yield from self._append(undoing_summary(entries))
        return _last_summary(entries)


def _last_summary(entries: Sequence[Entry]) -> Turn | None:
    summary = live_summary(live_entries(entries))
    return None if summary is None else turn_of([summary])
