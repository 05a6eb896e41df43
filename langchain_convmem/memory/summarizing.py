"""The part of a memory that compacts: summaries take the place of what was said long ago."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.history import read_all_steps, read_live_steps
from langchain_convmem.memory.recalling import RecallingMemory
from langchain_convmem.records import Context, Entry, ThreadKey
from langchain_convmem.steps import Steps, arun, run
from langchain_convmem.views.facts import Fact, told
from langchain_convmem.views.tokens import count_tokens

if TYPE_CHECKING:
    from langchain_convmem.memory.memory_options import MemoryOptions
    from langchain_convmem.protocols import Summarizer
    from langchain_convmem.summarizing import Compactor, SummaryReport, SummarySettings
    from langchain_convmem.summarizing.background import BackgroundJobs
    from langchain_convmem.summarizing.summarizers import SummarizerLike
    from langchain_convmem.turns.options import TurnOptions

__all__ = ["SummarizeWhen", "SummarizingPart"]

SummarizeWhen = Literal["background", "foreground"] | Callable[[ThreadKey], object]
"""When a thread that is due is compacted after a turn: behind its back by a worker thread; before
the turn ends; or by whoever the function tells, such as a queue whose worker calls `summarize`."""

_logger = logging.getLogger("langchain_convmem")

_MOST_SENTENCES = 300
_BLOCKS = 3


class SummarizingPart(RecallingMemory):
    """Compacts threads, if the memory has a summarizer."""

    _summarizer: Summarizer | None
    _summary_settings: SummarySettings | None
    _summarize_when: SummarizeWhen
    _compactor: Compactor | None
    _jobs: BackgroundJobs | None
    _summary_lock: threading.Lock

    def _set_up_summaries(self, options: MemoryOptions) -> None:
        """Take the options, refusing those that fit nothing."""
        when = options.get("summarize_when", "background")
        if not callable(when) and when not in ("background", "foreground"):
            msg = f"summarize_when must be 'background', 'foreground' or a function, got {when!r}"
            raise ConfigError(msg)
        summarizer, settings = options.get("summarizer"), options.get("summary_settings")
        if summarizer is None and settings is not None:
            raise ConfigError("summary_settings need a summarizer; pass one, too")
        if summarizer is not None:
            from langchain_convmem.summarizing import as_summarizer

            summarizer = as_summarizer(summarizer)
        self._summarizer, self._summary_settings = summarizer, settings
        self._summarize_when = when
        self._summary_lock = threading.Lock()
        self._compactor, self._jobs = None, None

    def _stop_summaries(self) -> None:
        """Finish the summary in the making, and make no more in the background."""
        if self._jobs is not None:
            self._jobs.close()

    async def _astop_summaries(self) -> None:
        if self._jobs is not None:
            await asyncio.to_thread(self._jobs.close)

    @property
    def summarizes(self) -> bool:
        """Whether the memory has a summarizer."""
        return self._summarizer is not None

    @property
    def compactor(self) -> Compactor:
        """What compacts the threads of this memory, made on first use.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        with self._summary_lock:
            if self._compactor is None:
                self._compactor = self._made_compactor()
            return self._compactor

    def _made_compactor(self) -> Compactor:
        from langchain_convmem.summarizing import Compactor, SummarySettings

        if self._summarizer is None:
            msg = (
                "this memory has no summarizer; pass one, such as a chat model or "
                "langchain_convmem.offline.ExtractiveSummarizer(), as summarizer="
            )
            raise ConfigError(msg)
        return Compactor(
            self.log,
            self._summarizer,
            self._summary_settings or SummarySettings(),
            drafting=self.drafting,
            read=self._read_live,
            findable=self._findable,
        )

    def _read_live(self, key: ThreadKey) -> Steps[Sequence[Entry]]:
        thread = yield from read_live_steps(self.log, key)
        if not thread.is_whole:
            # Noted for a budget: what it leaves out is covered by no summary yet.
            thread = yield from read_all_steps(self.log, thread)
        return thread.entries

    def _findable(self, key: ThreadKey, facts: Sequence[Fact]) -> Steps[list[bool]]:
        """Tell which facts recall finds by words, given the sentence that they were said in."""
        engine = self.line_recall
        by_words = replace(engine.settings, dense_weight=0.0, buffer_size=0)
        found: dict[str, str] = {}
        for sentence in list(dict.fromkeys(fact.sentence for fact in facts))[:_MOST_SENTENCES]:
            recall = yield from engine.recall_steps(
                key.owner, sentence, k=_BLOCKS, ranking=0, settings=by_words
            )
            found[sentence] = "\n".join(block.text for block in recall.blocks)
        return [_is_told(fact, found.get(fact.sentence, "")) for fact in facts]

    # -- on request ------------------------------------------------------------------------------

    def summarize(
        self, thread_id: str, *, user_id: str | None = None, force: bool = False
    ) -> SummaryReport:
        """Compact a thread now, if that is due.

        Args:
            thread_id: The thread.
            user_id: Whose.
            force: Cover everything but the question that waits for an answer, due or not.

        Returns:
            What came of it; true if a summary was written.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        return run(self.compactor.compact_steps(ThreadKey(user_id, thread_id), force=force))

    async def asummarize(
        self, thread_id: str, *, user_id: str | None = None, force: bool = False
    ) -> SummaryReport:
        """Compact a thread now, if that is due; see `summarize`."""
        return await arun(self.compactor.compact_steps(ThreadKey(user_id, thread_id), force=force))

    def resummarize(
        self,
        thread_id: str,
        *,
        user_id: str | None = None,
        summarizer: SummarizerLike | None = None,
    ) -> SummaryReport:
        """Write the live summary of a thread anew, of all that it covers.

        Args:
            thread_id: The thread.
            user_id: Whose.
            summarizer: Writes it, such as another model; by default the memory's own.
        """
        return run(self._redo_steps(ThreadKey(user_id, thread_id), summarizer))

    async def aresummarize(
        self,
        thread_id: str,
        *,
        user_id: str | None = None,
        summarizer: SummarizerLike | None = None,
    ) -> SummaryReport:
        """Write the live summary of a thread anew; see `resummarize`."""
        return await arun(self._redo_steps(ThreadKey(user_id, thread_id), summarizer))

    def _redo_steps(
        self, key: ThreadKey, summarizer: SummarizerLike | None
    ) -> Steps[SummaryReport]:
        from langchain_convmem.summarizing.summarizers import as_summarizer

        by = None if summarizer is None else as_summarizer(summarizer)
        return (yield from self.compactor.redo_steps(key, by))

    # -- after a turn ----------------------------------------------------------------------------

    def after_turn_steps(
        self, key: ThreadKey, view: Context | None = None, replies: Sequence[BaseMessage] = ()
    ) -> Steps[None]:
        """Do what is due after a turn was stored: have it embedded behind, compact the thread.

        Args:
            key: Its thread.
            view: What the model got of the thread; None if that is not at hand.
            replies: What was stored of the answer.
        """
        self._note_stored(key.owner)
        if self._summarizer is None or not self._may_be_due(view, replies):
            return
        if self._summarize_when == "background":
            self.background.submit(key)
        elif self._summarize_when == "foreground":
            try:
                yield from self.compactor.compact_steps(key)
            except ConvMemError:
                # The reply is there and stored; the next turn tries again.
                _logger.exception("could not compact thread %r", key.thread_id)
        elif view is not None or (yield from self.compactor.is_due_steps(key)):
            from langchain_convmem.summarizing.summarizers import called

            called(self._summarize_when, key)

    def check_options(self, options: TurnOptions) -> None:
        """Refuse options by which something is left out before it is summarised.

        Raises:
            ConfigError: If the high mark lies above a budget of messages.
        """
        self._check_budget(options.history_tokens)
        if options.budget is not None:
            self._check_budget(options.budget.of_messages(self.wished_tokens(options))[0])

    def _check_budget(self, budget: int | None) -> None:
        """Refuse a number of tokens that a model gets of a thread at most; None is any."""
        if budget is None or self._summarizer is None:
            return
        settings = self.compactor.settings
        summary = settings.max_summary_tokens + settings.facts_tokens
        mark = settings.trigger_tokens
        if mark is not None and mark + summary > budget:
            msg = (
                f"a budget of {budget} tokens for messages is too small for summaries that are "
                f"made from {mark} tokens on and take up to {summary}: what does not fit would be "
                "left out before it is summarised; lower trigger or raise the budget"
            )
            raise ConfigError(msg)

    def _may_be_due(self, view: Context | None, replies: Sequence[BaseMessage]) -> bool:
        """Tell from what is at hand, without a look into the log; who compacts looks again."""
        if view is None:
            return True
        from langchain_convmem.summarizing.settings import Size

        framing = [one for one in view.messages if isinstance(one, SystemMessage)]
        size = Size(
            view.tokens - count_tokens(framing) + count_tokens(replies),
            len(view.messages) - len(framing) + len(replies),
        )
        return not view.is_whole or self.compactor.settings.is_due(size)

    @property
    def background(self) -> BackgroundJobs:
        """The workers that compact behind the back of the conversation."""
        from langchain_convmem.summarizing.background import BackgroundJobs

        compactor = self.compactor
        with self._summary_lock:
            if self._jobs is None:
                self._jobs = BackgroundJobs(lambda key: run(compactor.compact_steps(key)))
            return self._jobs

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for the compactions that are under way; say whether they came to an end in time."""
        jobs = self._jobs
        return jobs is None or jobs.flush(timeout_s)

    async def aflush(self, timeout_s: float | None = None) -> bool:
        """Wait for the compactions that are under way, without blocking the event loop."""
        jobs = self._jobs
        if jobs is None:
            return True
        done: bool = await asyncio.to_thread(jobs.flush, timeout_s)
        return done


def _is_told(fact: Fact, text: str) -> bool:
    # Most are found in the sentence they were said in, and taking a text apart is dear.
    return fact.sentence in text or told([fact], text)[0]
