"""A memory as its turns see it: log, recall, summaries and profiles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from weakref import ref

from langchain_core.messages import BaseMessage

from langchain_convmem.background import BackgroundJobs, ask
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.forks import make_lock
from langchain_convmem.history import read_live
from langchain_convmem.ids import get_ulid_ms
from langchain_convmem.locks import WritingTurns
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, Owner, ThreadKey
from langchain_convmem.runnables import allow_own_loop, check_askable
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder, check_plain_function, get_text_counter

if TYPE_CHECKING:
    from langchain_convmem.profile import ProfileItem, UserProfile
    from langchain_convmem.profile.profiler import Profiler
    from langchain_convmem.profile.reader import ProfileReader
    from langchain_convmem.recall import DialogRecall
    from langchain_convmem.summarizing import SummarySettings
    from langchain_convmem.summarizing.compactor import Compactor, SummaryEvent
    from langchain_convmem.summarizing.summarizers import SummarizerLike
    from langchain_convmem.turns.options import TurnOptions
    from langchain_convmem.views.context import Context
    from langchain_convmem.views.messages import TextCounter, TokenCounter
    from langchain_convmem.views.providers import ModelFacts

OnSummary: TypeAlias = "Callable[[SummaryEvent], object]"
"""Is called after compactions; see `ConversationMemory.open`."""

SummarizeWhen: TypeAlias = Literal["background", "foreground"]
"""When a thread that is due is compacted: by a worker thread after the turn, or within the turn."""

_DEFAULT_RECALL_TOKENS = 1000
"""Budget of recalled text if neither a call nor the settings name one."""
_RECALL_SHARE = 0.5
"""Recalled lines take at most this part of `context_tokens`, unless a call asks for more."""
_PROFILE_SHARE = 0.25
"""The profile takes at most this part of what the thread may take."""

_logger = logging.getLogger("langchain_convmem")


@dataclass(eq=False)
class TurnMemory:
    """What a `ConversationMemory` is made of, as a turn uses it.

    Thread-safe: the turns of all threads share it.

    Attributes:
        log: Where entries are kept.
        drafting: Makes drafts of messages, through the write hook.
        token_counter: What counts tokens.
        profile_tokens: Budget of the profile in a turn that recalls and whose options name none.
        now_ms: The time as of which profiles are read, in milliseconds since the epoch; None is
            now.
        recall: Finds lines of earlier conversations; None until first use, see `line_recall`.
        compactor: Compacts threads; None without a summarizer.
        profiler: Proposes items of profiles; None if only rules do.
        active_turns: The turns under way; closing the memory waits for them.
        count_text: What counts the tokens of a text.
        log_place: Identifies the log in this process; handles of one file are one log.
        owns_recall: Whether the recall was made here, so that it is closed with the memory.
    """

    log: MessageLog
    drafting: DraftBuilder
    token_counter: TokenCounter
    profile_tokens: int = 150
    now_ms: int | None = None
    recall: DialogRecall | None = field(default=None, init=False)
    compactor: Compactor | None = field(default=None, init=False)
    profiler: Profiler | None = field(default=None, init=False)
    active_turns: WritingTurns = field(default_factory=WritingTurns, init=False)

    def __post_init__(self) -> None:
        """Find out once where the log is, and what counts texts."""
        self.count_text = get_text_counter(self.token_counter)
        # Caches keep it longer than the log lives, and must not take a later log for that one.
        self.log_place: Hashable = getattr(self.log, "path", None) or ref(self.log)
        self._lock = make_lock()
        self.owns_recall = True
        self._is_foreground = self._waits_for_model = False
        self._compactions = BackgroundJobs(self._compact_and_prepare, name="compaction")
        self._readings = BackgroundJobs(self._read_waiting, name="profile", workers=1)

    # -- recall -----------------------------------------------------------------------------------

    def set_recall(self, given: DialogRecall | None, **parts: Any) -> None:
        """Take a recall, or the parts of a `LineRecall`; see `ConversationMemory`.

        Raises:
            ConfigError: If it is no recall over this log, or comes with parts of another one.
        """
        named = [name for name in parts if parts[name] is not None]
        self.owns_recall = given is None
        if given is None and not named:
            return  # made, and imported, on first use
        if given is not None:
            from langchain_convmem.recall import DialogRecall

            if not isinstance(given, DialogRecall) or given.log is not self.log:
                found = describe_value(given)
                raise ConfigError(f"recall must be a DialogRecall over {self.log!r}, got {found}")
            if named:
                raise ConfigError(f"recall has its own {named[0]}; pass one or the other")
        self.recall = self._bind(given, **parts)

    def _bind(self, given: DialogRecall | None, **parts: Any) -> DialogRecall:
        from langchain_convmem.recall import LineRecall

        recall = LineRecall(self.log, **parts) if given is None else given
        hook = None if self.drafting.hook is None else self.drafting.filter_question
        return recall.bind(query_hook=hook, count_text=self.count_text)

    @property
    def line_recall(self) -> DialogRecall:
        """Finds lines of earlier conversations; made on first use."""
        with self._lock:
            self.recall = self.recall or self._bind(None)
            return self.recall

    def embed_soon(self, owner: Owner) -> None:
        """Have an owner's new lines embedded in the background, if they were searched before."""
        if self.recall is not None:
            self.recall.embed_later(owner)

    # -- summaries --------------------------------------------------------------------------------

    def set_summarizer(
        self,
        summarizer: SummarizerLike | Literal["auto"] | None,
        settings: SummarySettings | None,
        when: SummarizeWhen,
        on_summary: OnSummary | None,
    ) -> None:
        """Take what compacts threads, and when; see `ConversationMemory.open`.

        Raises:
            ConfigError: If an argument is invalid.
        """
        if when not in get_args(SummarizeWhen):
            msg = f"summarize_when must be 'background' or 'foreground', got {when!r:.80}"
            raise ConfigError(msg)
        check_plain_function("on_summary", on_summary, of="an event")
        if summarizer is None:
            if settings is not None:
                _logger.warning("summary_settings do nothing without a summarizer; pass one, too")
            return
        from langchain_convmem.summarizing import SummarySettings
        from langchain_convmem.summarizing.compactor import Compactor
        from langchain_convmem.summarizing.leases import Leases
        from langchain_convmem.summarizing.summarizers import as_summarizer

        self._is_foreground = when == "foreground"
        writer: Any = summarizer
        self._waits_for_model = isinstance(writer, str) and writer == "auto"
        if self._waits_for_model:
            from langchain_convmem.offline.extractive import ExtractiveSummarizer

            writer = ExtractiveSummarizer()  # until a chain's model is known
        settings = SummarySettings() if settings is None else settings
        if not isinstance(settings, SummarySettings):
            found = describe_value(settings)
            raise ConfigError(f"summary_settings must be a SummarySettings or None, got {found}")
        counter, log = settings.token_counter or self.token_counter, self.log
        self.compactor = Compactor(
            log=log,
            summarizer=as_summarizer(writer),
            settings=replace(settings, token_counter=counter),
            leases=Leases(log, settings),
            drafting=self.drafting,
            read=lambda key: read_live(log, key).entries,
            on_summary=on_summary,
        )

    def require_compactor(self) -> Compactor:
        """Return what compacts threads.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        if self.compactor is None:
            msg = "this memory has no summarizer; pass one, such as a chat model, as summarizer="
            raise ConfigError(msg)
        return self.compactor

    def use_options(self, options: TurnOptions) -> None:
        """Have threads summarised before the budgets of these options leave something out.

        All hosts of a memory share its settings, so the smallest budget decides.

        Raises:
            ConfigError: If a budget leaves too little for messages that wait to be summarised.
        """
        budgets = [options.history_tokens]
        if options.budget is not None:
            room = options.budget - self.get_profile_budget(options)
            recalled = self.get_recall_budget(options)
            budgets.append(room - recalled if recalled < room else room)
        with self._lock:
            for most in budgets:
                if most is not None and self.compactor is not None:
                    settings = self.compactor.settings.fit_to(most)
                    self.compactor = replace(self.compactor, settings=settings)

    def use_model(self, model: ModelFacts) -> None:
        """Have threads summarised before the window of a turn's model is full.

        A window that is not known changes nothing. With `summarizer="auto"`, the first chat model
        becomes the summarizer.
        """
        if self.compactor is None:
            return
        with self._lock:
            settings, summarizer = self.compactor.settings, self.compactor.summarizer
            if (window := model.window_tokens) is not None:
                settings = settings.fit_window(window).fit_input(window)
            if self._waits_for_model and model.chat_model is not None:
                from langchain_convmem.summarizing.summarizers import as_summarizer

                self._waits_for_model = False
                summarizer = as_summarizer(model.chat_model)
            # A compaction under way goes on with those it began with.
            self.compactor = replace(self.compactor, settings=settings, summarizer=summarizer)

    def compact(
        self, key: ThreadKey, view: Context | None = None, replies: Sequence[BaseMessage] = ()
    ) -> None:
        """Compact a thread if that is due, now or in the background.

        Args:
            key: The thread.
            view: The thread as the model saw it; None if not available.
            replies: The messages that were stored after it.
        """
        if self.compactor is not None and self.compactor.may_be_due(view, replies):
            done = self._compactions.submit(key)
            if self._is_foreground:  # a task that is cancelled meanwhile leaves it to the worker
                ask(done.result, lambda: asyncio.shield(asyncio.wrap_future(done)))

    def _compact_and_prepare(self, key: ThreadKey) -> None:
        """Compact a thread, and read its folded summaries now, so that the next turn need not."""
        from langchain_convmem.recall.embedding import choose_embedder
        from langchain_convmem.summarizing.branches import prepare_branches

        compactor = self.require_compactor()
        with allow_own_loop():
            compactor.compact(key)
        live, read = find_live_entries(compactor.read(key)), partial(self.log.entries, key)
        embed = choose_embedder(None).embed_documents
        prepare_branches(self.log_place, key, live, read, embed)

    # -- profiles ---------------------------------------------------------------------------------

    @cached_property
    def profile_reader(self) -> ProfileReader:
        """Reads profiles from the log; made on first use, because it loads rules of languages."""
        from langchain_convmem.profile.reader import ProfileReader

        return ProfileReader(self.log, now_ms=self.now_ms)

    def _read_waiting(self, key: ThreadKey) -> None:
        if self.profiler is not None:
            with allow_own_loop():
                self.profiler.read_waiting(key.owner)

    # -- a turn -----------------------------------------------------------------------------------

    def get_recall_budget(self, options: TurnOptions) -> int:
        """Return the token budget for recalled lines of a turn with these options."""
        settings = None if self.recall is None else self.recall.settings
        most = (settings and settings.max_tokens) or _DEFAULT_RECALL_TOKENS
        if options.context_tokens is not None:
            most = min(most, int(options.context_tokens * _RECALL_SHARE))
        return (options.recall_tokens or most) if options.recall else 0

    def get_profile_budget(self, options: TurnOptions) -> int:
        """Return the token budget for the user's profile in a turn with these options."""
        most = self.profile_tokens if options.recall else 0
        most = most if options.profile_tokens is None else options.profile_tokens
        return most if options.room is None else min(most, int(options.room * _PROFILE_SHARE))

    def check_call(self, options: TurnOptions) -> None:
        """Refuse a synchronous turn that would need a coroutine, before anything is stored.

        Raises:
            ConfigError: If its recall would ask a rewriter that only an event loop awaits.
        """
        if options.recall:
            rewriter = getattr(self.recall, "rewriter", None)
            check_askable(rewriter, "the rewriter", "arecall, ainvoke or the like")

    def note_turn(self, key: ThreadKey) -> None:
        """Have a stored turn embedded, and read by the profiler when that is due."""
        self.embed_soon(key.owner)
        if self.profiler is not None and self.profiler.note_turn(key):
            self._readings.submit(key)

    def flush(self, timeout_s: float | None) -> bool:
        """Wait for compactions, then for the profiler; return whether both ended in time."""
        are_compacted = self._compactions.flush(timeout_s)
        return self._readings.flush(timeout_s) and are_compacted

    def close(self) -> None:
        """Finish what is under way in the background, and start nothing more."""
        self._compactions.close()
        self._readings.close()
        if self.recall is not None and self.owns_recall:
            self.recall.close()


def get_turn_memory(memory: object) -> TurnMemory:
    """Return what a `ConversationMemory` is made of, for the package's own hosts.

    Raises:
        ConfigError: If it is no such memory.
    """
    found = getattr(memory, "_turn_memory", None)  # no application has a use for it
    if not isinstance(found, TurnMemory):
        raise ConfigError(f"memory must be a ConversationMemory, got {describe_value(memory)}")
    return found


# -- What a model gets of its user's profile ------------------------------------------------------
PROFILE_SOURCE = "convmem_profile"
"""Marks a system message that holds a profile: `additional_kwargs["source"]`."""

_PAUSE_MS = 3_600_000
"""No provider keeps a prefix longer than this."""
_SAME = 6
"""Ids that begin with so many equal characters are less than 18 minutes apart."""


def choose_items(
    profile: UserProfile, seen: Sequence[Entry], max_tokens: int, count: TextCounter
) -> Sequence[ProfileItem]:
    """Return the items of a user's profile that the model of a turn gets, best first.

    These are the items that were known when the first message was stored that the model sees of the
    thread, or the first one after a long pause. So the block stays the same, byte for byte, as long
    as a provider may cache it; what the user has said in the thread since then is in the messages.
    Retracted and forgotten items leave at once.

    Args:
        profile: The profile as of now.
        seen: What the model sees of the thread, in order; if it is empty, items of now count.
        max_tokens: Budget of the text.
        count: Counts the tokens of a text.
    """
    began = last = seen[0].id if seen else ""
    for one in seen:
        if one.id[:_SAME] != last[:_SAME] and get_ulid_ms(one.id) - get_ulid_ms(last) >= _PAUSE_MS:
            began = one.id
        last = one.id
    said = {entry.id for entry in seen}
    hidden = frozenset(item.id for item in profile.items if item.entry_id in said)
    return _choose_held(profile, began, hidden, max_tokens, count)


@lru_cache(maxsize=256)  # in most turns it is what it was in the turn before
def _choose_held(
    profile: UserProfile, began: str, hidden: frozenset[str], max_tokens: int, count: TextCounter
) -> Sequence[ProfileItem]:
    from langchain_convmem.profile.profile import select_items

    began_ms = get_ulid_ms(began) if began else profile.now_ms
    held = tuple(
        item if item.is_current else replace(item, state="current")
        for item in profile.items
        if item.state != "retracted"
        and item.id not in hidden
        and (not began or item.entry_id < began)
        and (item.until_ms is None or item.until_ms >= began_ms)
    )
    return select_items(replace(profile, items=held), max_tokens, count)
