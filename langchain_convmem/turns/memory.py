"""A memory as its turns see it: log, recall, profiles and summaries, and the turns under way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import ref

from langchain_core.messages import BaseMessage

from langchain_convmem.background import BackgroundJobs
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.forks import make_lock
from langchain_convmem.history import read_live
from langchain_convmem.ids import get_ulid_ms, make_ulid
from langchain_convmem.locks import WritingTurns
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, Owner, ThreadKey
from langchain_convmem.runnables import allow_own_loop, check_askable
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder, check_plain_function, get_text_counter

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_convmem.profile import ProfileItem, ProfilerReport, UserProfile
    from langchain_convmem.profile.profiler import Profiler, ProfilerLike
    from langchain_convmem.profile.reader import ProfileReader
    from langchain_convmem.recall import DialogRecall, RecallSettings
    from langchain_convmem.recall.recall import Rewriter
    from langchain_convmem.summarizing import SummaryReport, SummarySettings
    from langchain_convmem.summarizing.compactor import Compactor, SummaryEvent
    from langchain_convmem.summarizing.summarizers import Summarizer, SummarizerLike
    from langchain_convmem.turns.options import TurnOptions
    from langchain_convmem.views.context import Context
    from langchain_convmem.views.messages import TextCounter, TokenCounter
    from langchain_convmem.views.providers import ModelFacts

OnSummary: TypeAlias = "Callable[[SummaryEvent], object]"
"""Is told of compactions; see `ConversationMemory.open`."""

SummarizeWhen: TypeAlias = Literal["background", "foreground"]
"""When a thread that is due is compacted: by a worker thread after the turn, or within the turn."""

_DEFAULT_RECALL_TOKENS = 1000
"""Budget of recalled text where neither a call nor the settings name one."""
_RECALL_SHARE = 0.5
"""Recalled lines take at most this part of `context_tokens`, unless a call asks for more."""
_PROFILE_SHARE = 0.25
"""What is known of the user takes at most this part of what the thread may take."""

_logger = logging.getLogger("langchain_convmem")


def find_place(log: MessageLog) -> Hashable:
    """Return the identity of a log in this process; handles of one file are one log.

    Caches hold it longer than the log lives, and no later log may be taken for that one.
    """
    return getattr(log, "path", None) or ref(log)


# -- The recall of a memory -----------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Recaller:
    """The recall over a memory's log, made on first use; its questions pass the write hook.

    Thread-safe.

    Attributes:
        log: Where the lines are.
        drafting: Holds the write hook.
        counter: What counts tokens.
        embeddings: What `LineRecall` is made of, as the next two; see `ConversationMemory.open`.
        settings: How lines are recalled.
        rewriter: Makes of a question what to search for.
        given: A recall that takes the place of all three.
        made: The recall, once there is one; what has not been made has nothing to embed or drop.

    Raises:
        ConfigError: If a part makes no sense, or comes with a recall that is given.
    """

    log: MessageLog
    drafting: DraftBuilder
    counter: TokenCounter
    embeddings: Embeddings | None = None
    settings: RecallSettings | None = None
    rewriter: Rewriter | None = None
    given: DialogRecall | None = None
    made: DialogRecall | None = field(default=None, init=False)
    _lock: Any = field(default_factory=make_lock, init=False)

    def __post_init__(self) -> None:
        """Check the parts; recall is imported only where there is something to check."""
        if self.rewriter is not None:
            from langchain_convmem.recall.recall import check_rewriter

            check_rewriter(self.rewriter)
        if self.embeddings is not None:
            from langchain_convmem.recall.embedding import choose_embedder

            choose_embedder(self.embeddings)
        if self.given is not None:
            self._check_given(self.given)
            self.made = self._bind(self.given)

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
        for name in ("embeddings", "settings", "rewriter"):
            if getattr(self, name) is not None:
                raise ConfigError(f"recall has its own {name}; pass one or the other")

    def _bind(self, recall: DialogRecall) -> DialogRecall:
        hook = None if self.drafting.hook is None else self.drafting.filter_question
        return recall.bind(query_hook=hook, count_text=get_text_counter(self.counter))

    @property
    def recall(self) -> DialogRecall:
        """The recall, made on first use."""
        with self._lock:
            if self.made is None:
                from langchain_convmem.recall import LineRecall

                made = LineRecall(self.log, self.embeddings, self.settings, rewriter=self.rewriter)
                self.made = self._bind(made)
            return self.made

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
        if self.made is not None:
            self.made.embed_later(owner)

    def close(self) -> None:
        """End the work in the background; a recall that was given goes on."""
        if self.made is not None and self.given is None:
            self.made.close()


# -- What is known of users -----------------------------------------------------------------------


PROFILE_SOURCE = "convmem_profile"
"""Marks a system message that holds a profile: `additional_kwargs["source"]`."""

_PAUSE_MS = 3_600_000
"""No provider keeps a prefix longer than this."""


def choose_items(
    profile: UserProfile, seen: Sequence[Entry], max_tokens: int, count: TextCounter
) -> Sequence[ProfileItem]:
    """Return what a turn's model gets of its user's profile, best first.

    That is what was known when the first message was stored that the model sees of the thread, or
    the first one after a pause. Until the beginning of the view changes, or the provider has
    dropped its prefix, the block is the same, byte for byte: what the user said in the thread since
    then is there to read. What is retracted or forgotten leaves at once.

    Args:
        profile: The profile as of now.
        seen: What the model sees of the thread, in order.
        max_tokens: Budget of the text.
        count: Counts the tokens of a text.
    """
    began, last_ms = "", 0
    for entry in seen:
        stored_ms = get_ulid_ms(entry.id)
        if stored_ms - last_ms >= _PAUSE_MS:
            began = entry.id
        last_ms = stored_ms
    said = {entry.id for entry in seen}
    hidden = frozenset(item.id for item in profile.items if item.entry_id in said)
    return _choose_held(profile, began or make_ulid(), hidden, max_tokens, count)


@lru_cache(maxsize=256)  # in most turns it is what it was in the turn before
def _choose_held(
    profile: UserProfile, began: str, hidden: frozenset[str], max_tokens: int, count: TextCounter
) -> Sequence[ProfileItem]:
    from langchain_convmem.profile.profile import select_items

    held = tuple(
        item if item.is_current else replace(item, state="current")
        for item in profile.items
        if item.state != "retracted"
        and item.id not in hidden
        and item.entry_id < began
        and (item.until_ms is None or item.until_ms >= get_ulid_ms(began))
    )
    return select_items(replace(profile, items=held), max_tokens, count)


class Profiles:
    """The profiles of a memory's users, read on first use. Thread-safe.

    Attributes:
        now_ms: The time at which profiles are read, milliseconds since the epoch; None is now.
        jobs: The readings of the profiler under way behind the turns.
    """

    def __init__(
        self, log: MessageLog, profiler: ProfilerLike | None = None, now_ms: int | None = None
    ) -> None:
        """Take a log, what proposes items, and the time.

        Raises:
            ConfigError: If the profiler can be asked nothing.
        """
        self.now_ms = now_ms
        self._log = log
        self._profiler: Profiler | None = None
        self.jobs = BackgroundJobs(self._read_waiting, name="profile", workers=1)
        if profiler is not None:
            from langchain_convmem.profile.profiler import Profiler

            self._profiler = Profiler(log, profiler)

    @cached_property
    def reader(self) -> ProfileReader:
        """What follows the log; made on first use, since it loads the rules of languages."""
        from langchain_convmem.profile.reader import ProfileReader

        return ProfileReader(self._log, now_ms=self.now_ms)

    def update(self, keys: Sequence[ThreadKey]) -> ProfilerReport:
        """Have the profiler read what it has not read of threads of one owner.

        Raises:
            ConfigError: If there is no profiler.
        """
        if self._profiler is None:
            msg = "this memory has no profiler; pass one, such as a chat model, as profiler="
            raise ConfigError(msg)
        return self._profiler.read_threads(keys)

    def note_turn(self, key: ThreadKey) -> None:
        """Have what was said read in the background, if it is time."""
        if self._profiler is not None and self._profiler.note_turn(key):
            self.jobs.submit(key)

    def _read_waiting(self, key: ThreadKey) -> None:
        if self._profiler is not None:
            with allow_own_loop():
                self._profiler.read_waiting(key.owner)


# -- The summaries of a memory --------------------------------------------------------------------


class Summaries:
    """Compacts the threads of a memory, if it has a summarizer. Thread-safe.

    Attributes:
        has_summarizer: Whether threads are ever compacted.
        jobs: The compactions under way behind the turns.
    """

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
        if when not in ("background", "foreground"):
            msg = f"summarize_when must be 'background' or 'foreground', got {when!r:.80}"
            raise ConfigError(msg)
        if on_summary is not None:
            check_plain_function("on_summary", on_summary, of="an event")
        if summarizer is None and settings is not None:
            _logger.warning("summary_settings do nothing without a summarizer; pass one, too")
        self.has_summarizer = summarizer is not None
        self._recaller = recaller
        self._when = when
        self._on_summary = on_summary
        self._waits_for_model = isinstance(summarizer, str) and summarizer == "auto"
        self._lock = make_lock()
        self.jobs = BackgroundJobs(self._compact_and_prepare, name="compaction")
        self._compactor = None if summarizer is None else self._make_compactor(summarizer, settings)

    def _make_compactor(
        self, summarizer: SummarizerLike | Literal["auto"], settings: SummarySettings | None
    ) -> Compactor:
        from langchain_convmem.summarizing import SummarySettings
        from langchain_convmem.summarizing.compactor import Compactor
        from langchain_convmem.summarizing.leases import Leases

        given, log = SummarySettings() if settings is None else settings, self._recaller.log
        if not isinstance(given, SummarySettings):
            found = describe_value(given)
            raise ConfigError(f"summary_settings must be a SummarySettings or None, got {found}")
        counter = given.token_counter or self._recaller.counter
        settings = replace(given, token_counter=counter)
        return Compactor(
            log=log,
            summarizer=_read_summarizer(summarizer),
            settings=settings,
            leases=Leases(log, settings),
            drafting=self._recaller.drafting,
            read=self._read,
            on_report=self._report,
        )

    @property
    def compactor(self) -> Compactor:
        """What compacts threads.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        if self._compactor is None:
            msg = (
                "this memory has no summarizer; pass one, such as a chat model or "
                "langchain_convmem.offline.ExtractiveSummarizer(), as summarizer="
            )
            raise ConfigError(msg)
        return self._compactor

    def _read(self, key: ThreadKey) -> Sequence[Entry]:
        return read_live(self._recaller.log, key).entries

    def _report(self, report: SummaryReport) -> None:
        """Tell the application what came of a compaction, if it wants to know."""
        if self._on_summary is not None:
            from langchain_convmem.summarizing.compactor import list_events

            for event in list_events(report):
                self._on_summary(event)

    def check_call(self) -> None:
        """Refuse a turn that would end with a summary whose coroutine it cannot await."""
        if self.has_summarizer and self._when == "foreground":
            from langchain_convmem.summarizing.summarizers import check_summarizer

            check_summarizer(self.compactor.summarizer, self.compactor.settings.judge)

    def fit_budget(self, budget: int | None) -> None:
        """Have threads compacted before a model gets more of one than this; None is any number.

        Several hosts of one memory share its settings: the smallest budget decides.
        """
        if budget is not None and self.has_summarizer:
            with self._lock:
                settings = self.compactor.settings.fit_to(budget)
                self._compactor = replace(self.compactor, settings=settings)

    def use_model(self, model: ModelFacts) -> None:
        """Fit the marks to the window of a chain's model, and have it summarise if that is asked.

        What is not known of it changes nothing. Of several models, the first summarises.
        """
        with self._lock:
            settings, summarizer = self.compactor.settings, self.compactor.summarizer
            window = model.window_tokens
            if window is not None:
                settings = settings.fit_window(window)
            if self._waits_for_model and model.chat_model is not None:
                self._waits_for_model = False
                summarizer = _read_summarizer(model.chat_model)
                if window is not None:
                    settings = settings.fit_input(window)
            # A compaction under way goes on with those it began with.
            self._compactor = replace(self.compactor, settings=settings, summarizer=summarizer)

    def compact(self, key: ThreadKey, view: Context | None, replies: Sequence[BaseMessage]) -> None:
        """Compact a thread if that is due, now or later; see `TurnMemory.compact`."""
        if not self.compactor.may_be_due(view, replies):
            return
        if self._when == "background":
            self.jobs.submit(key)
            return
        try:
            self.compactor.compact(key)
        except ConvMemError:
            # The reply is there and stored; the next turn tries again.
            _logger.exception("could not compact thread %r", key.thread_id)

    def _compact_and_prepare(self, key: ThreadKey) -> None:
        """Compact a thread, and take up what is folded now, which the next turn would have to."""
        from langchain_convmem.recall.embedding import choose_embedder
        from langchain_convmem.summarizing.branches import prepare_branches

        with allow_own_loop():
            self.compactor.compact(key)
        log, live = self._recaller.log, find_live_entries(self._read(key))
        embed = choose_embedder(None).embed_documents
        prepare_branches(find_place(log), key, live, partial(log.entries, key), embed)


def _read_summarizer(given: SummarizerLike | Literal["auto"]) -> Summarizer:
    """Return what writes summaries; for "auto", what does so until a chain's model is known."""
    if isinstance(given, str) and given == "auto":
        from langchain_convmem.offline.extractive import ExtractiveSummarizer

        return ExtractiveSummarizer()
    from langchain_convmem.summarizing.summarizers import as_summarizer

    return as_summarizer(given)


# -- All of it ------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TurnMemory:
    """A memory as a turn sees it: the parts of a `ConversationMemory` that turns run over.

    Thread-safe, as they are: the turns of all threads share it.

    Attributes:
        log: Where entries are kept.
        drafting: Makes drafts of messages, through the write hook.
        recaller: Finds lines of earlier conversations.
        summaries: Compacts threads after turns.
        profiles: Reads what is known of users.
        token_counter: What counts tokens.
        profile_tokens: Budget of the profile in a turn that recalls and whose options name none.
        active_turns: The turns under way: who closes the memory waits for them.
        count_text: What counts the tokens of a text.
        log_place: Identifies the log in this process.
    """

    log: MessageLog
    drafting: DraftBuilder
    recaller: Recaller
    summaries: Summaries
    profiles: Profiles
    token_counter: TokenCounter
    profile_tokens: int = 150
    active_turns: WritingTurns = field(default_factory=WritingTurns)
    count_text: TextCounter = field(init=False)
    log_place: Hashable = field(init=False)

    def __post_init__(self) -> None:
        """Find out once where the log is, and what counts texts."""
        self.count_text = get_text_counter(self.token_counter)
        self.log_place = find_place(self.log)

    @property
    def line_recall(self) -> DialogRecall:
        """Finds lines of earlier conversations."""
        return self.recaller.recall

    def get_recall_budget(self, options: TurnOptions) -> int:
        """Return the token budget for recalled lines of a turn with these options."""
        most = self.recaller.default_tokens
        if options.context_tokens is not None:
            most = min(most, int(options.context_tokens * _RECALL_SHARE))
        return (options.recall_tokens or most) if options.recall else 0

    def get_profile_budget(self, options: TurnOptions) -> int:
        """Return the token budget for what is known of the user in a turn with these options."""
        most = self.profile_tokens if options.recall else 0
        most = most if options.profile_tokens is None else options.profile_tokens
        return most if options.room is None else min(most, int(options.room * _PROFILE_SHARE))

    def check_options(self, options: TurnOptions) -> None:
        """Have threads summarised before these options leave something out."""
        self.summaries.fit_budget(options.history_tokens)
        if options.budget is not None:
            recalled = self.get_recall_budget(options)
            budget = options.budget.reserve(self.get_profile_budget(options))
            self.summaries.fit_budget(budget.list_message_budgets(recalled)[0])

    def use_model(self, model: ModelFacts) -> None:
        """Have threads summarised before the window of a turn's model is full."""
        if self.summaries.has_summarizer:
            self.summaries.use_model(model)

    def check_call(self, *, recalls: bool = False) -> None:
        """Refuse a synchronous turn that would need a coroutine, before anything is stored.

        Raises:
            ConfigError: If a summary in the foreground would be one that only an event loop awaits,
                or a recall of the turn would ask such a rewriter.
        """
        if self.summaries.has_summarizer:
            self.summaries.check_call()
        if recalls:
            self.recaller.check_call()

    def note_turn(self, key: ThreadKey) -> None:
        """Have a turn that was stored embedded soon, and read by a profiler when it is time."""
        self.recaller.embed_soon(key.owner)
        self.profiles.note_turn(key)

    def compact(
        self, key: ThreadKey, view: Context | None = None, replies: Sequence[BaseMessage] = ()
    ) -> None:
        """Compact a thread if that is due, now or later.

        Args:
            key: The thread.
            view: The thread as the model saw it; None if not available.
            replies: What was stored of the answer.
        """
        if self.summaries.has_summarizer:
            self.summaries.compact(key, view, replies)

    def flush(self, timeout_s: float | None) -> bool:
        """Wait for what goes on behind the turns; return whether both ended within this time."""
        are_compacted = self.summaries.jobs.flush(timeout_s)
        return self.profiles.jobs.flush(timeout_s) and are_compacted

    def close(self) -> None:
        """Finish what is under way behind the turns, and start no more."""
        self.summaries.jobs.close()
        self.profiles.jobs.close()
        self.recaller.close()


def get_turn_memory(memory: Any) -> TurnMemory:
    """Return what the turns of a `ConversationMemory` run over; for the package's own hosts.

    Raises:
        ConfigError: If it is no such memory.
    """
    found = getattr(memory, "_turn_memory", None)  # no application has a use for it
    if not isinstance(found, TurnMemory):
        raise ConfigError(f"memory must be a ConversationMemory, got {describe_value(memory)}")
    return found
