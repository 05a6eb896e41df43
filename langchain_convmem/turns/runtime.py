"""What works behind the turns of a memory: its recall, its profiles and its summaries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import ref

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from langchain_convmem.background import BackgroundJobs
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.forks import make_lock
from langchain_convmem.history import read_live
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, Owner, ThreadKey
from langchain_convmem.runnables import allow_own_loop, check_askable
from langchain_convmem.views.counting import CurrentCounter, TokenCounters
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder, check_plain_function
from langchain_convmem.views.models import ModelFacts
from langchain_convmem.views.shown import Context

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor

    from langchain_convmem.profile.profiler import Profiler, ProfilerLike
    from langchain_convmem.profile.reader import ProfileReader
    from langchain_convmem.recall import DialogRecall, RecallSettings
    from langchain_core.embeddings import Embeddings
    from langchain_convmem.recall.recall import Rewriter
    from langchain_convmem.summarizing import SummaryReport, SummarySettings
    from langchain_convmem.summarizing.compactor import Compactor, SummaryEvent
    from langchain_convmem.summarizing.summarizers import Summarizer, SummarizerLike

OnSummary: TypeAlias = "Callable[[SummaryEvent], object]"
"""Is told of compactions; see `ConversationMemory.open`."""

SummarizeWhen: TypeAlias = Literal["background", "foreground"] | Callable[[ThreadKey], object]
"""When a thread that is due is compacted: by a worker thread after the turn, within the turn, or by
whoever the function hands the thread to."""

_DEFAULT_RECALL_TOKENS = 1000
"""Budget of recalled text where neither a call nor the settings name one."""

_MOST_SOUGHT = 200
"""How many facts are searched for when a summary is written; the others are listed first."""

_logger = logging.getLogger("langchain_convmem")


def find_place(log: MessageLog) -> Hashable:
    """Return the identity of a log in this process; handles of one file are one log.

    Caches hold it longer than the log lives, and no later log may be taken for that one.
    """
    return getattr(log, "path", None) or ref(log)


# -- The recall of a memory -----------------------------------------------------------------------


@dataclass(slots=True, kw_only=True, eq=False)
class Recaller:
    """The recall over a memory's log, made on first use; its questions pass the write hook.

    Thread-safe. What has not been made yet has nothing to embed, to drop or to close.

    Attributes:
        log: Where the lines are.
        drafting: Holds the write hook.
        counters: What counts tokens.
        embeddings: What `LineRecall` is made of, as the next three; see `ConversationMemory.open`.
        settings: How lines are recalled.
        rewriter: Makes of a question what to search for.
        reranker: Puts what was found in an order of its own.
        given: A recall that takes the place of all four.

    Raises:
        ConfigError: If a part makes no sense, or comes with a recall that is given.
    """

    log: MessageLog
    drafting: DraftBuilder
    counters: TokenCounters
    embeddings: Embeddings | None = None
    settings: RecallSettings | None = None
    rewriter: Rewriter | None = None
    reranker: BaseDocumentCompressor | None = None
    given: DialogRecall | None = None
    _recall: DialogRecall | None = field(default=None, init=False)
    _lock: Any = field(default_factory=make_lock, init=False)

    def __post_init__(self) -> None:
        """Check the parts; recall is imported only where there is something to check."""
        if self.rewriter is not None or self.reranker is not None:
            from langchain_convmem.recall.recall import check_hooks

            check_hooks(self.rewriter, self.reranker)
        if self.embeddings is not None:
            from langchain_convmem.recall.embedding import choose_embedder

            choose_embedder(self.embeddings)
        if self.given is not None:
            self._check_given(self.given)

    def _check_given(self, given: object) -> None:
        """Refuse a recall that is none, searches elsewhere, or comes with parts of another one."""
        from langchain_convmem.recall import DialogRecall

        if not isinstance(given, DialogRecall):
            msg = "recall must be a DialogRecall such as VectorStoreRecall, got "
            raise ConfigError(msg + describe_value(given))
        if given.log is not self.log:
            msg = (
                f"recall searches {given.log!r}, and this memory keeps {self.log!r}: make both of "
                "one log, ConversationMemory(log, recall=...)"
            )
            raise ConfigError(msg)
        for name in ("embeddings", "settings", "rewriter", "reranker"):
            if getattr(self, name) is not None:
                raise ConfigError(f"recall has its own {name}; pass one or the other")

    @property
    def recall(self) -> DialogRecall:
        """The recall, made on first use."""
        with self._lock:
            if self._recall is None:
                counter = CurrentCounter(self.counters)
                recall = (self.given or self._make()).bind_counter(counter.count_text)
                hook = self.drafting.hook and self.drafting.filter_question
                self._recall = recall if hook is None else recall.bind_query_hook(hook)
            return self._recall

    def _make(self) -> DialogRecall:
        from langchain_convmem.recall import LineRecall

        hooks: dict[str, Any] = {"rewriter": self.rewriter, "reranker": self.reranker}
        return LineRecall(self.log, self.embeddings, self.settings, **hooks)

    @property
    def default_tokens(self) -> int:
        """Budget of recalled text where a call names none."""
        settings = self.settings if self.given is None else self.given.settings
        return (settings and settings.max_tokens) or _DEFAULT_RECALL_TOKENS

    def check_call(self) -> None:
        """Refuse a turn that would ask a rewriter whose coroutine it cannot await."""
        rewriter = self.rewriter or getattr(self.given, "rewriter", None)
        check_askable(rewriter, "the rewriter", "arecall, ainvoke or the like")

    def embed_soon(self, owner: Owner) -> None:
        """Have what was just stored of an owner embedded, if the owner was searched before."""
        recall = self._recall or self.given
        if recall is not None:
            recall.embed_later(owner)

    def list_copies(self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None) -> list[str]:
        """List which lines are kept outside the log, before they are forgotten."""
        recall = self._recall or self.given
        return [] if recall is None else recall.list_copies(scope, entry_ids)

    def drop_forgotten(self, owner: Owner, copies: Sequence[str]) -> None:
        """Drop what the log has forgotten of an owner."""
        recall = self._recall or self.given
        if recall is not None:
            recall.drop_forgotten(owner, copies)

    def close(self) -> None:
        """End the work in the background; a recall that was given goes on."""
        if self._recall is not None and self.given is None:
            self._recall.close()


# -- What is known of users -----------------------------------------------------------------------


class Profiles:
    """The profiles of a memory's users, read on first use. Thread-safe."""

    def __init__(
        self, log: MessageLog, *, now_ms: int | None = None, profiler: ProfilerLike | None = None
    ) -> None:
        """Take a log, the time at which profiles are read if that is not now, and a profiler.

        Raises:
            ConfigError: If the profiler can be asked nothing.
        """
        self._log = log
        self._now_ms = now_ms
        self._lock = make_lock()
        self._reader: ProfileReader | None = None
        self._profiler: Profiler | None = None
        self._jobs: BackgroundJobs[ThreadKey] | None = None
        if profiler is not None:
            from langchain_convmem.profile.profiler import Profiler

            self._profiler = Profiler(log, profiler)
            self._jobs = BackgroundJobs(self._read_waiting, name="profile", workers=1)

    @property
    def reader(self) -> ProfileReader:
        """What follows the log; made on first use, since it loads the rules of languages."""
        with self._lock:
            if self._reader is None:
                from langchain_convmem.profile.reader import ProfileReader

                self._reader = ProfileReader(self._log, now_ms=self._now_ms)
            return self._reader

    @property
    def profiler(self) -> Profiler:
        """The model that proposes.

        Raises:
            ConfigError: If there is none.
        """
        if self._profiler is None:
            msg = "this memory has no profiler; pass one, such as a chat model, as profiler="
            raise ConfigError(msg)
        return self._profiler

    def note_turn(self, key: ThreadKey) -> None:
        """Have what was said read in the background, if it is time."""
        if self._jobs is not None and self.profiler.note_turn(key):
            self._jobs.submit(key)

    def _read_waiting(self, key: ThreadKey) -> None:
        with allow_own_loop():
            self.profiler.read_waiting(key.owner)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for the readings under way; return whether they ended within this time."""
        return self._jobs is None or self._jobs.flush(timeout_s)

    def close(self) -> None:
        """Finish the reading under way, and start no more in the background."""
        if self._jobs is not None:
            self._jobs.close()


# -- The summaries of a memory --------------------------------------------------------------------


class Summaries:
    """Compacts the threads of a memory, if it has a summarizer. Thread-safe."""

    def __init__(
        self,
        recaller: Recaller,
        summarizer: SummarizerLike | Literal["auto"] | None,
        settings: SummarySettings | None,
        when: SummarizeWhen,
        on_summary: OnSummary | None,
    ) -> None:
        """Take what threads are compacted by and when; see `ConversationMemory.open`.

        Raises:
            ConfigError: If a part makes no sense.
        """
        if not callable(when) and when not in ("background", "foreground"):
            msg = f"summarize_when must be 'background', 'foreground' or a function, got {when!r}"
            raise ConfigError(msg)
        if on_summary is not None:
            check_plain_function("on_summary", on_summary, of="an event")
        if summarizer is None and settings is not None:
            _logger.warning("summary_settings do nothing without a summarizer; pass one, too")
        self._log = recaller.log
        self._recaller = recaller
        self._waits_for_model = isinstance(summarizer, str) and summarizer == "auto"
        self._summarizer = _read_summarizer(summarizer)
        self._settings = settings
        self._when = when
        self._on_summary = on_summary
        self._lock = make_lock()
        self._compactor: Compactor | None = None
        self._jobs: BackgroundJobs[ThreadKey] | None = None

    @property
    def has_summarizer(self) -> bool:
        """Whether threads are ever compacted."""
        return self._summarizer is not None

    @property
    def compactor(self) -> Compactor:
        """What compacts threads, made on first use.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        with self._lock:
            if self._compactor is None:
                self._compactor = self._make_compactor()
            return self._compactor

    def _make_compactor(self) -> Compactor:
        from langchain_convmem.summarizing import SummarySettings
        from langchain_convmem.summarizing.compactor import Compactor, Leases

        if self._summarizer is None:
            msg = (
                "this memory has no summarizer; pass one, such as a chat model or "
                "langchain_convmem.offline.ExtractiveSummarizer(), as summarizer="
            )
            raise ConfigError(msg)
        given = self._settings or SummarySettings()
        counter = given.token_counter or CurrentCounter(self._recaller.counters)
        settings = replace(given, token_counter=counter)
        return Compactor(
            log=self._log,
            summarizer=self._summarizer,
            settings=settings,
            leases=Leases(self._log, settings),
            drafting=self._recaller.drafting,
            read=self._read,
            findable=self.find_words,
            on_report=self._report,
        )

    def _report(self, report: SummaryReport) -> None:
        """Tell the application what came of a compaction, if it wants to know."""
        if self._on_summary is not None:
            from langchain_convmem.summarizing.compactor import list_events

            for event in list_events(report):
                self._on_summary(event)

    def _read(self, key: ThreadKey) -> Sequence[Entry]:
        return read_live(self._log, key).entries

    def find_words(
        self, key: ThreadKey, facts: Sequence[Any], most: int | None = _MOST_SOUGHT
    ) -> list[str]:
        """Return the words by which recall finds facts; see `summarizing.record.find_words`."""
        from langchain_convmem.summarizing.record import find_words

        return find_words(self._recaller.recall, key, facts, most=most)

    # -- after turns ------------------------------------------------------------------------------

    def check_call(self) -> None:
        """Refuse a turn that would end with a summary whose coroutine it cannot await."""
        if self._summarizer is not None and self._when == "foreground":
            from langchain_convmem.summarizing.summarizers import check_summarizer

            check_summarizer(self._summarizer, self.compactor.settings.judge)

    def fit_budget(self, budget: int | None) -> None:
        """Have threads compacted before a model gets more of one than this; None is any number.

        Several hosts of one memory share its settings: the smallest budget decides.
        """
        if budget is None or self._summarizer is None:
            return
        with self._lock:
            compactor = self.compactor
            self._compactor = replace(compactor, settings=compactor.settings.fit_to(budget))

    def use_model(self, model: ModelFacts, chain: Runnable[Any, Any] | None = None) -> None:
        """Fit the marks to the window of a chain's model, and have it summarise if that is asked.

        What is not known of it changes nothing. Of several models, the first summarises; on top of
        the requests of the chain, where it can be seen what these begin with.
        """
        if self._summarizer is None:
            return
        with self._lock:
            compactor = self.compactor
            settings = compactor.settings
            if model.window_tokens is not None:
                settings = settings.fit_window(model.window_tokens)
            summarizer = compactor.summarizer
            if self._waits_for_model and model.chat_model is not None:
                summarizer = _read_summarizer(model.chat_model, chain) or summarizer
                self._summarizer = summarizer
                self._waits_for_model = False
                if model.window_tokens is not None:
                    settings = settings.fit_input(model.window_tokens)
            # A compaction under way goes on with those it began with.
            self._compactor = replace(compactor, settings=settings, summarizer=summarizer)

    def compact(self, key: ThreadKey, view: Context | None, replies: Sequence[BaseMessage]) -> None:
        """Compact a thread if that is due, now or later; see `TurnMemory.compact`."""
        if self._summarizer is None or not self.compactor.may_be_due(view, replies):
            return
        if self._when == "background":
            self._background.submit(key)
        elif self._when == "foreground":
            try:
                self.compactor.compact(key)
            except ConvMemError:
                # The reply is there and stored; the next turn tries again.
                _logger.exception("could not compact thread %r", key.thread_id)
        elif self.compactor.is_due(key):
            from langchain_convmem.summarizing.summarizers import notify_application

            notify_application(self._when, key, f"the compaction of thread {key.thread_id!r}")

    # -- the background ---------------------------------------------------------------------------

    @property
    def _background(self) -> BackgroundJobs[ThreadKey]:
        with self._lock:
            if self._jobs is None:
                self._jobs = BackgroundJobs(self._compact_and_prepare, name="compaction")
            return self._jobs

    def _compact_and_prepare(self, key: ThreadKey) -> None:
        """Compact a thread, and take up what is folded now, which the next turn would have to."""
        from langchain_convmem.recall.universal import UniversalSentenceEmbeddings
        from langchain_convmem.summarizing.branches import prepare_branches

        with allow_own_loop():
            self.compactor.compact(key)
        live = find_live_entries(self._read(key))
        embed = UniversalSentenceEmbeddings().embed_documents
        prepare_branches(find_place(self._log), key, live, partial(self._log.entries, key), embed)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for the compactions under way; return whether they ended within this time."""
        return self._jobs is None or self._jobs.flush(timeout_s)

    def close(self) -> None:
        """Finish the compactions under way, and start no more in the background."""
        if self._jobs is not None:
            self._jobs.close()


def _read_summarizer(
    given: SummarizerLike | Literal["auto"] | None, chain: Runnable[Any, Any] | None = None
) -> Summarizer | None:
    """Return what writes summaries; for "auto", what does so until a chain's model is known."""
    if given is None:
        return None
    if isinstance(given, str) and given == "auto":
        from langchain_convmem.offline.extractive import ExtractiveSummarizer

        return ExtractiveSummarizer()
    from langchain_convmem.summarizing.prefix import PrefixSummarizer
    from langchain_convmem.summarizing.summarizers import as_summarizer

    return (chain and PrefixSummarizer.from_chain(chain)) or as_summarizer(given)
