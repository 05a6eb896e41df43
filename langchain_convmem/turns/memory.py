"""What a turn is given: a memory as its turns see it, the options of the turn, and its thread.

Options are the same at every host: wrapped chains, conversations, graphs and agents.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args
from weakref import ref

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_convmem.background import BackgroundJobs, ask
from langchain_convmem.causes import describe_value, suggest_name
from langchain_convmem.errors import ConfigError
from langchain_convmem.forks import make_lock
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
        read: Callable[[ThreadKey], Sequence[Entry]],
    ) -> None:
        """Take what compacts threads, and when; see `ConversationMemory.open`.

        Args:
            summarizer: Writes the summaries.
            settings: What is compacted.
            when: By a worker thread, or within the turn.
            on_summary: Is called after compactions.
            read: Returns the live part of a thread.

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
            read=read,
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


# -- The options of a turn ----------------------------------------------------------------------
NAMESPACE = "memory"
"""Where a call sets options: `configurable={"memory": {"recall": False}}`."""
_WHERE = f"configurable[{NAMESPACE!r}]"

_COUNTS = ("recall_tokens", "recall_k", "context_tokens")
_COUNTS_FROM_ZERO = ("history_tokens", "reserved_tokens", "profile_tokens")

RecallPlace: TypeAlias = Literal["user", "system"]
"""Where recalled lines stand: in what the user says, or in the system message."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What a model gets in a turn, and whether the turn is stored.

    The memory's counter counts all tokens.

    Attributes:
        recall: Whether to recall lines from earlier conversations.
        recall_tokens: Budget for recalled text. If this and `recall_k` are None, the recall
            settings apply, which are 1,000 tokens by default; at most half of `context_tokens`.
        recall_k: Number of blocks to recall instead.
        history_tokens: Budget for earlier messages of the thread; None means no limit. Whole
            exchanges are left out, oldest first. The current turn, system messages and the summary
            do not count.
        context_tokens: One budget for everything that the model gets: system messages, summary,
            recalled lines, earlier messages and the current turn. Parts that cannot be cut come
            first, then recalled lines, then as many of the latest exchanges as fit.
        reserved_tokens: The part of `context_tokens` to keep free for text outside the messages,
            such as the prompt's own text and tool descriptions; less than `context_tokens`.
        profile_tokens: Budget for the user's profile (`UserProfile`) in the system message; 0 turns
            it off. None uses the memory's setting, 150 by default. Without `recall`, there is no
            profile.
        remember: Whether the turn is stored.
        recall_place: Where recalled lines go. `"user"` puts them before the user's text, so that a
            provider can cache everything before them. `"system"` puts them at the end of the system
            message, for guardrails and routers that check the last message. Because the lines
            change with every turn, the cache then ends before them, and you pay for the thread's
            messages in each turn.

    Raises:
        ConfigError: If a value has the wrong type or is too small.
    """

    recall: bool = True
    recall_tokens: int | None = None
    recall_k: int | None = None
    history_tokens: int | None = None
    context_tokens: int | None = None
    reserved_tokens: int = 0
    profile_tokens: int | None = None
    remember: bool = True
    recall_place: RecallPlace = "user"

    def __post_init__(self) -> None:
        """Validate the values."""
        for name in ("recall", "remember"):
            if not isinstance(getattr(self, name), bool):
                raise _make_error(name, getattr(self, name), "True or False")
        if self.recall_place not in get_args(RecallPlace):
            raise _make_error("recall_place", self.recall_place, "'user' or 'system'")
        for name in (*_COUNTS, *_COUNTS_FROM_ZERO):
            if name == "reserved_tokens" or getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1 if name in _COUNTS else 0)
        if self.context_tokens is not None and self.reserved_tokens >= self.context_tokens:
            wanted = f"less than context_tokens={self.context_tokens}"
            raise _make_error("reserved_tokens", self.reserved_tokens, wanted)

    @classmethod
    def pick(cls, options: TurnOptions | None, given: Mapping[str, Any]) -> TurnOptions:
        """Return options, overridden by arguments of the same names.

        Args:
            options: The options; None takes the defaults.
            given: Arguments by name; None leaves an option as it is, and other names are ignored.

        Raises:
            ConfigError: If a value is invalid, or `options` is no `TurnOptions`.
        """
        if not isinstance(options, TurnOptions | None):
            raise ConfigError(f"options must be TurnOptions, got {describe_value(options)}")
        names = (one.name for one in fields(cls))
        changes = {name: given[name] for name in names if given.get(name) is not None}
        return replace(options or cls(), **changes)

    @property
    def budget(self) -> int | None:
        """How many tokens the messages that a model gets may take; None for no limit."""
        return None if self.context_tokens is None else self.context_tokens - self.reserved_tokens

    @property
    def room(self) -> int | None:
        """How many tokens the thread may take in what the model gets; None for no limit."""
        limits = [one for one in (self.history_tokens, self.budget) if one is not None]
        return min(limits, default=None)

    def merge_call(self, configurable: Mapping[str, Any]) -> TurnOptions:
        """Return the options, overridden by the call's `configurable["memory"]`.

        If the call sets `recall_tokens` alone, it replaces a `recall_k` that was set before.

        Raises:
            ConfigError: If an option is unknown, of the wrong type, or in the wrong place.
        """
        for name in ("recall", "remember", "recall_tokens", "recall_k"):
            if configurable.get(name) not in (None, getattr(self, name)):
                place = f'{{"{NAMESPACE}": {{"{name}": {describe_value(configurable[name])}}}}}'
                raise ConfigError(
                    f"configurable[{name!r}] is not read; set it for a call with "
                    f'config={{"configurable": {place}}}'
                )
        given = configurable.get(NAMESPACE)
        if given is None:
            return self
        if not isinstance(given, Mapping):
            raise _make_error(_WHERE, given, "a map of options such as {'recall': False}")
        known = [field.name for field in fields(TurnOptions)]
        for name in given:
            if name not in known:
                names = ", ".join(known) + suggest_name(name, known)
                raise ConfigError(f"{_WHERE} has no option {describe_value(name)}; it has {names}")
        changes = dict(given)
        if changes.get("recall_tokens") is not None:
            changes.setdefault("recall_k", None)
        return replace(self, **changes)


def check_count(name: str, value: object, least: int) -> None:
    """Check a whole number.

    Raises:
        ConfigError: If it is no whole number, or less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _make_error(name, value, f"a whole number of at least {least}")


def _make_error(name: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} must be {wanted}, got {describe_value(value)}")


# -- Whose turn it is -----------------------------------------------------------------------------
def read_key(configurable: Mapping[str, Any], context: Any = None, *, host: str) -> ThreadKey:
    """Return the thread of a call.

    Args:
        configurable: What the call carries under `configurable`: `thread_id` or `session_id`, and
            `user_id`, which the context of a graph may name instead.
        context: The context of the graph; None reads that of the current run, if there is one.
        host: What is called, for the error.

    Raises:
        ConfigError: If no thread is named, or if two threads or two users are.
    """
    thread_id, user_id = read_ids(configurable, context)
    if thread_id is None:
        refuse_unnamed_run("thread_id is missing", host)
    return ThreadKey(user_id, thread_id)


_IDS = frozenset({"thread_id", "session_id", "user_id"})
_SLIPS = {name.replace("_", ""): name for name in _IDS}
"""What misspelled keys such as `userId` mean: if they were ignored, users would share a thread."""


def read_ids(configurable: Mapping[str, Any], context: Any = None) -> tuple[Any, Any]:
    """Return the thread and the user that a call names, None for either if not; see `read_key`.

    Raises:
        ConfigError: If it names two threads or two users, or if a key is misspelled.
    """
    for name in configurable.keys() - _IDS:
        meant = _SLIPS.get(name.casefold().replace("-", "").replace("_", ""))
        if meant is not None and meant not in configurable:
            msg = f"configurable names {name!r}, which is not read; did you mean {meant!r}?"
            raise ConfigError(msg)
    thread_id, session_id = configurable.get("thread_id"), configurable.get("session_id")
    what = f"configurable names the thread_id {thread_id!r} and the session_id {session_id!r}"
    context = _get_current_context() if context is None else context
    is_map = isinstance(context, Mapping)
    meant = context.get("user_id") if is_map else getattr(context, "user_id", None)
    said = configurable.get("user_id")
    whose = f"the config names the user {said!r} and the context {meant!r}"
    return agree(thread_id, session_id, what), agree(meant, said, whose)


def agree(first: Any, second: Any, said: str) -> Any:
    """Return what a call names in one of two places, or in both.

    Raises:
        ConfigError: If the two differ; the message begins with `said`.
    """
    if None not in (first, second) and str(first) != str(second):
        raise ConfigError(f"{said}; pass one, or the same in both")
    return second if first is None else first


def refuse_unnamed_run(problem: str, host: str = "the agent") -> NoReturn:
    """Refuse a call that does not say whose it is.

    Args:
        problem: What is not known, as the beginning of a sentence.
        host: What is called.
    """
    named = 'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
    raise ConfigError(f"{problem}; call {host} with {named}")


def _get_current_context() -> object:
    """Return the context of the current graph run; None outside of a run."""
    # Inside a run it is loaded; elsewhere nobody must pay for the import.
    runtime = sys.modules.get("langgraph.runtime")
    if runtime is None:
        return None
    try:
        return getattr(runtime.get_runtime(), "context", None)
    except (RuntimeError, KeyError):
        return None


def stamp_config(config: RunnableConfig | None, *, thread_id: str | None = None) -> RunnableConfig:
    """Return the config of a call with trace metadata: the version and the thread.

    Args:
        config: The config of the call.
        thread_id: The thread, if the config does not name it.
    """
    from langchain_convmem._version import __version__

    stamped = ensure_config(config)
    metadata, configurable = stamped["metadata"], stamped["configurable"]
    metadata["lc_versions"] = {**metadata.get("lc_versions", {}), "langchain-convmem": __version__}
    thread_id = thread_id or configurable.get("thread_id", configurable.get("session_id"))
    if isinstance(thread_id, str):
        metadata["thread_id"] = thread_id
    return stamped
