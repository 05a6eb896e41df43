"""`ConversationMemory`: a log, recall over it and summaries of it, as one object."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable
from pydantic import SecretStr

from langchain_convmem.background import BackgroundJobs, run_in_thread, to_async
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.forks import make_lock
from langchain_convmem.history import (
    ConversationHistory,
    fork_thread,
    read_all,
    read_context,
    read_live,
)
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.addresses import open_log
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import (
    DialogLine,
    Draft,
    Entry,
    ForgetReceipt,
    Owner,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.runnables import allow_own_loop, check_askable
from langchain_convmem.titles import (
    check_title,
    list_threads,
    read_title,
    update_thread,
)
from langchain_convmem.turns.chains import ChainShape, read_chain
from langchain_convmem.turns.memory import WritingTurns
from langchain_convmem.turns.options import (
    RecallPlace,
    TurnOptions,
    TurnSettings,
    check_profile_tokens,
)
from langchain_convmem.turns.replies import INTERRUPTED
from langchain_convmem.turns.tracing import OWN_TOKENS
from langchain_convmem.turns.view import read_stretches
from langchain_convmem.views.codec import encode_body, encode_metadata
from langchain_convmem.views.context import SUMMARY_SOURCE, is_framing
from langchain_convmem.views.counting import (
    CurrentCounter,
    TokenCounterLike,
    TokenCounters,
    read_counter,
)
from langchain_convmem.views.edits import plan_without_compactions
from langchain_convmem.views.live import build_turns, find_frontier, find_live_entries
from langchain_convmem.views.messages import (
    DraftBuilder,
    MessagesInput,
    WriteHook,
    check_plain_function,
    read_messages,
)
from langchain_convmem.views.models import NO_MODEL, ModelFacts
from langchain_convmem.views.pins import find_pins_over
from langchain_convmem.views.providers import Provider, resolve_provider
from langchain_convmem.views.shown import Context, Recall, Turn
from langchain_convmem.views.summaries import find_summaries_over

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables.base import RunnableLike

    from langchain_convmem.conversation import Conversation, ConversationConfig, Engine, Preface
    from langchain_convmem.conversation.inputs import MediaLimits
    from langchain_convmem.conversation.threads import ThreadMemory
    from langchain_convmem.logs.as_of import PointInTime
    from langchain_convmem.profile import ProfilerReport, UserProfile
    from langchain_convmem.profile.profiler import Profiler, ProfilerLike
    from langchain_convmem.profile.reader import FollowedProfile, ProfileReader
    from langchain_convmem.recall import DialogLineRetriever, DialogRecall, RecallSettings
    from langchain_convmem.recall.embedding import Embedder
    from langchain_convmem.recall.options import LineFilter, Moment, Owners
    from langchain_convmem.recall.recall import EmbedderUse, Rewriter
    from langchain_convmem.summarizing import SummaryReport, SummarySettings
    from langchain_convmem.summarizing.citations import CitedSentence
    from langchain_convmem.summarizing.compactor import Compactor, SummaryEvent
    from langchain_convmem.summarizing.record import SummaryRecord
    from langchain_convmem.summarizing.summarizers import Summarizer, SummarizerLike
    from langchain_convmem.text import ChatTemplate
    from langchain_convmem.text.reply_formats import Channel, ReplyFormat
    from langchain_convmem.text.sessions import TextEngine
    from langchain_convmem.transfer import ImportReport
    from langchain_convmem.turns.memory import TurnMemory
    from langchain_convmem.words.facts import Fact
    from langchain_convmem.wrap import RememberingRunnable

OnSummary: TypeAlias = "Callable[[SummaryEvent], object]"
"""Is told of compactions; see `ConversationMemory.open`."""

SummarizeWhen: TypeAlias = Literal["background", "foreground"] | Callable[[ThreadKey], object]
"""When a thread that is due is compacted: by a worker thread after the turn, within the turn, or by
whoever the function hands the thread to."""

_READING = (
    *("embeddings", "settings", "before_write", "rewriter", "reranker"),
    *("token_counter", "profile_tokens"),
)
"""Options that say how a memory is read, at any time."""

_DEFAULT_RECALL_TOKENS = 1000
"""Budget of recalled text where neither a call nor the settings name one."""

_logger = logging.getLogger("langchain_convmem")


class _Unset:
    """The value of a setting that a call leaves to the configuration."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


class ConversationMemory:
    """Remembers conversations verbatim, in this thread and in earlier ones.

    Thread-safe; one object serves a whole application. Several processes may share a log.
    """

    log: MessageLog
    """Where entries are kept."""

    time_ms: int | None = None
    """The time that a memory `as_of` it stands at, milliseconds since the epoch; None is now."""

    def __init__(
        self,
        log: MessageLog,
        *,
        embeddings: Embedder = "auto",
        settings: RecallSettings | None = None,
        before_write: WriteHook | None = None,
        rewriter: Rewriter | None = None,
        reranker: BaseDocumentCompressor | None = None,
        recall: DialogRecall | None = None,
        summarizer: SummarizerLike | Literal["auto"] | None = None,
        summary_settings: SummarySettings | None = None,
        summarize_when: SummarizeWhen = "background",
        token_counter: TokenCounterLike | None = None,
        on_summary: OnSummary | None = None,
        profile_tokens: int = 0,
        profiler: ProfilerLike | None = None,
    ) -> None:
        """Make a memory of a log that is open already.

        The log stays the caller's to close. `recall` finds lines instead of a `LineRecall` made of
        `embeddings`, `settings`, `rewriter` and `reranker`, over the same log: such as
        `integrations.VectorStoreRecall`; it stays the caller's, too. The other options are those of
        `open`.

        Raises:
            ConfigError: If an option makes no sense; the message names it.
        """
        given = locals()  # before any other name is bound
        check_profile_tokens(profile_tokens, is_optional=False)
        self._reads_as = {name: given[name] for name in _READING}
        self._has_own_recall = recall is not None
        drafting = DraftBuilder(before_write)
        counters = TokenCounters(read_counter(token_counter))
        if not isinstance(log, MessageLog):
            way = "ConversationMemory.open(path) opens one"
            raise ConfigError(f"log must be a MessageLog, got {describe_value(log)}; {way}")
        self.log = log
        self._recaller = Recaller(
            log,
            drafting,
            embeddings=embeddings,
            settings=settings,
            rewriter=rewriter,
            reranker=reranker,
            given=recall,
            counters=counters,
        )
        self._summaries = Summaries(
            log,
            drafting,
            self._recaller,
            summarizer=summarizer,
            settings=summary_settings,
            when=summarize_when,
            counters=counters,
            on_summary=on_summary,
        )
        self._profiles = Profiles(log, profiler=profiler)
        self._turn_memory = TurnServices(
            log,
            drafting,
            self._recaller,
            self._summaries,
            counters,
            profiles=self._profiles,
            profile_tokens=profile_tokens,
        )
        self._opened: _Opened | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embeddings: Embedder = "auto",
        settings: RecallSettings | None = None,
        before_write: WriteHook | None = None,
        rewriter: Rewriter | None = None,
        reranker: BaseDocumentCompressor | None = None,
        summarizer: SummarizerLike | Literal["auto"] | None = None,
        summary_settings: SummarySettings | None = None,
        summarize_when: SummarizeWhen = "background",
        on_summary: OnSummary | None = None,
        signing_key: bytes | str | None = None,
        token_counter: TokenCounterLike | None = None,
        profile_tokens: int = 0,
        profiler: ProfilerLike | None = None,
    ) -> Self:
        """Open or create a memory in a SQLite file, on a server, or in memory with `":memory:"`.

        Args:
            path: Path of the file; or `dynamodb://TABLE?region=NAME&endpoint=URL` (extra `aws`),
                or `postgresql://USER@HOST/DATABASE?schema=NAME` (extra `postgres`).
            embeddings: Any LangChain embeddings. `"auto"` (None is the same) is an embedder that
                comes with the package and needs neither key nor network: for new users the
                sentence encoder where its weights are installed, else the static model. Users whose
                vectors are stored keep their embedder until `reindex`.
            settings: How lines are recalled; None takes the defaults of `RecallSettings`.
            before_write: Gets a copy of each message before it is stored or embedded, and returns
                what to store, or None to store nothing of it; see `WriteHook`. Added and wrapped
                messages, edits, summaries, imports and the questions of a recall all pass it. None
                stores every message as it is.
            rewriter: Makes of a question what to search for; see `LineRecall`.
            reranker: Puts the lines that were found in an order of its own; see `LineRecall`.
            summarizer: Writes the summaries that replace old messages in views: a chat
                model, another Runnable or function of messages, or the model-free
                `offline.ExtractiveSummarizer()`. `"auto"`: the model of the first chain, agent or
                conversation that runs over this memory. None: nothing is ever summarised. A
                coroutine function runs behind the turns, or where `asummarize` and the like await
                it; a synchronous call that would need it raises a `ConfigError`.
            summary_settings: When a thread is compacted, and how far.
            summarize_when: `"background"`: a worker thread compacts after the turn.
                `"foreground"`: within the turn, for scripts. A function gets the `ThreadKey` of a
                thread that is due and hands it over, such as to a queue whose worker calls
                `summarize`.
            on_summary: Gets a `SummaryEvent` whenever a thread was compacted, facts were lost, or
                no summary came about. A plain function, called where the work is done, so it must
                be quick.
            signing_key: A secret of 16 to 64 bytes with which the log signs its entries, so that
                nobody who lacks it can alter them unseen; see `SQLiteLog`.
            token_counter: Counts tokens wherever tokens are counted: a function of messages, or a
                model that counts for itself, perhaps over the network. None is an estimate by
                script and kind of text, which learns from the usage that providers report.
            profile_tokens: How many tokens of what is known of a user (`profile`) a model gets with
                every turn, such as 150; 0 is none. Hosts and calls may set it for themselves.
            profiler: A chat model, another Runnable or a function of messages that reads behind
                the turns, a few at a time, what users said, and proposes items of their profiles;
                see `update_profile`. None: rules alone find them, in five languages.

        Raises:
            ConfigError: If the path names no file in an existing directory and no known log, or
                an option makes no sense; or if the log was signed with another key.
            MissingExtraError: If the log's driver is not installed.
        """
        options: dict[str, Any] = {
            "embeddings": embeddings,
            "settings": settings,
            "before_write": before_write,
            "rewriter": rewriter,
            "reranker": reranker,
            "summarizer": summarizer,
            "summary_settings": summary_settings,
            "summarize_when": summarize_when,
            "token_counter": token_counter,
            "on_summary": on_summary,
            "profile_tokens": profile_tokens,
            "profiler": profiler,
        }
        cls(InMemoryLog(), **options)  # options are refused before anything is opened
        address = os.fspath(path)
        in_memory = address == ":memory:"
        log = InMemoryLog() if in_memory else open_log(address, signing_key=signing_key)
        memory = cls(log, **options)
        memory._opened = _Opened(address, options, signing_key)
        return memory

    def __repr__(self) -> str:
        return f"ConversationMemory({self.log!r})"

    # -- Closing and copying ----------------------------------------------------------------------

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Wait for running turns, finish the current summary, release what was opened here.

        Turns of graphs and agents are runs of LangGraph: wait for these before. Turns that began in
        this thread cannot go on while it waits, and are not waited for. Lines that wait to be
        embedded wait for another process, or another recall, unless they are few. A log that was
        passed in stays open. Idempotent.

        Args:
            timeout_s: Seconds to wait for turns at most; None waits for ever. A turn that ends
                later raises `LogClosedError` where it stores its reply.
        """
        self._turn_memory.active_turns.wait(timeout_s)
        self._release()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Wait for running turns and release what was opened here; see `close`.

        The event loop runs meanwhile: streams that were left and tasks that were cancelled just
        before store what they had.
        """
        await self._turn_memory.active_turns.await_all(timeout_s)
        await run_in_thread(self._release)

    def _release(self) -> None:
        self._summaries.close()
        self._profiles.close()
        self._recaller.close()
        if self._opened is not None:
            self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __copy__(self) -> Self:
        """Return itself: copies of a chain share its memory."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself, as `__copy__`."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Let pickle write down how the memory is opened again; the entries stay where they are.

        Raises:
            ConfigError: If it was not opened by an address that may be written down.
        """
        if self._opened is None:
            msg = "a memory that was given its log cannot be pickled, since its log cannot; "
            raise ConfigError(msg + _WAY_OUT)
        address = make_address_portable(self._opened.address)
        return _reopen, (type(self), address, self._opened.options, self._opened.signing_key)

    # -- Chains and conversations -----------------------------------------------------------------

    def wrap(
        self,
        inner: RunnableLike[Any, Any],
        *,
        recall: bool = True,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int = 0,
        profile_tokens: int | None = None,
        remember: bool = True,
        recall_place: RecallPlace = "user",
        queue_timeout_s: float = 300.0,
        provider: Provider | None = None,
        user_id_key: str | None = None,
        input_messages_key: str | None = None,
        history_messages_key: str | None = None,
        output_messages_key: str | None = None,
        record_recall: bool = False,
    ) -> RememberingRunnable:
        """Return `inner` with a memory: a Runnable that takes what the user says, in any form.

        Call it with `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is
        required, and may be called `session_id`. A call may set options for itself, by the same
        names: `config={"configurable": {..., "memory": {"recall": False}}}`.

        Args:
            inner: A chat model, or a chain that begins with one, which gets messages; or any
                other Runnable or function, which gets a dict with `history`, `input` and
                `recalled` (message lists), `summary` (text) and `messages` (the whole). What it
                returns is returned as it is; the log keeps the messages in it, or the one it was
                read from.
            recall: Whether to recall lines of earlier conversations.
            recall_tokens: Budget of the recalled text.
            recall_k: Number of blocks to recall instead. Neither: what the settings say, which
                is a budget of 1,000 by default.
            history_tokens: Budget for earlier messages of the thread; None is unlimited. The
                oldest exchanges are left out whole; the new message does not count.
            context_tokens: One budget for all that the model gets: system messages, summary,
                recalled lines, what was said before and the new message. First comes what cannot
                be cut, then recalled lines, then as many of the latest exchanges as fit.
            reserved_tokens: Of these, so many are left for what stands outside the messages, such
                as the prompt's own words and the descriptions of tools.
            profile_tokens: Budget of what is known of the user (`UserProfile`), in the system
                messages; None is what the memory says.
            remember: Whether to store turns.
            recall_place: Whether recalled lines stand before what the user says (`"user"`), where a
                prompt cache keeps all before them, or in the system message (`"system"`).
            queue_timeout_s: Seconds to wait for earlier turns of the thread.
            provider: Provider rules for messages, as in `history.context`; None follows the chat
                models found inside, and where these differ or cannot be seen, by `"strict"`.
            user_id_key: If set, the metadata of runs names the user by a hash under this key, so
                that traces can be told apart by user without revealing who it is.
            input_messages_key: Key of what the user says, in a dict that is passed and in the dict
                that `inner` gets; `input` by default.
            history_messages_key: Key of what was said before, in both; `history` by default.
            output_messages_key: Key of the answer in a dict that `inner` returns; `output` by
                default, or `messages`.
            record_recall: Whether the metadata of each reply says which lines were recalled for it:
                `aux["recalled"]`, ids and scores without a word of them, for applications that
                show it; see `turns.turn.note_recalled`.

        Raises:
            ConfigError: If `inner` is not a chain, there is no such provider, or a budget leaves no
                room for messages, or none for as many as are said before they are summarised.
        """
        from langchain_convmem.wrap import RememberingRunnable

        if provider is not None:
            resolve_provider(provider)
        options = TurnOptions(
            recall=recall,
            recall_tokens=recall_tokens,
            recall_k=recall_k,
            history_tokens=history_tokens,
            context_tokens=context_tokens,
            reserved_tokens=reserved_tokens,
            profile_tokens=profile_tokens,
            remember=remember,
            recall_place=recall_place,
        )
        self._turn_memory.check_options(options)
        return RememberingRunnable(
            memory=self,
            inner=read_chain(
                inner,
                input_messages_key=input_messages_key,
                history_messages_key=history_messages_key,
            ),
            **asdict(options),
            queue_timeout_s=queue_timeout_s,
            provider=provider,
            user_id_key=None if user_id_key is None else SecretStr(user_id_key),
            input_messages_key=input_messages_key,
            history_messages_key=history_messages_key,
            output_messages_key=output_messages_key,
            record_recall=record_recall,
        )

    def conversation(
        self,
        model: BaseChatModel | Runnable[Any, Any] | TextEngine | Engine,
        *,
        thread_id: str,
        user_id: str | None = None,
        recall: bool = True,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int = 0,
        profile_tokens: int | None = None,
        remember: bool = True,
        recall_place: RecallPlace = "user",
        provider: Provider | None = None,
        config: ConversationConfig | None = None,
        preface: Preface = UNSET,
        template: ChatTemplate | str | None = UNSET,
        reply_format: ReplyFormat | str | None = UNSET,
        channels: Sequence[Channel] | None = UNSET,
        stop: Sequence[str] = UNSET,
        prefill_preface: bool = UNSET,
        reasoning_history: Literal["all", "current_turn"] = UNSET,
        thinking: bool | None = UNSET,
        context_kwargs: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = UNSET,
        auto_tools: bool = UNSET,
        max_tool_rounds: int = UNSET,
        on_tool_limit: Literal["rollback", "keep"] = UNSET,
        tool_handler: Callable[..., Any] | None = UNSET,
        on_tool_result: Callable[..., Any] | None = UNSET,
        parallel_tools: bool = UNSET,
        on_invalid_tool_call: Literal["raise", "report"] = UNSET,
        on_pending_tool_calls: Literal["error", "cancel"] = UNSET,
        on_divergence: Literal["rewind", "error"] = UNSET,
        on_busy: Literal["wait", "error"] = UNSET,
        busy_timeout_s: float | None = UNSET,
        on_cancel: Literal["discard", "keep"] = UNSET,
        on_max_tokens: Literal["return", "raise"] = UNSET,
        max_output_tokens: int | None = UNSET,
        media_limits: MediaLimits = UNSET,
        model_kwargs: Mapping[str, Any] = UNSET,
    ) -> Conversation:
        """Return a conversation that continues a thread of this memory.

        The question is stored before the model is called, the rest of the turn in one write when
        the reply is there. A turn that fails is taken back. What is recalled stands before the
        user's words; the log keeps these alone. A send may set options for itself:
        `config={"configurable": {"memory": {"recall": False}}}`.

        Args:
            model: A chat model, a text engine, or an engine that several conversations share.
            thread_id: The thread.
            user_id: Its user, whose lines are recalled.
            recall: Whether to recall lines of earlier conversations; this and the next eight as in
                `wrap`.
            recall_tokens: Budget of the recalled text.
            recall_k: Number of blocks to recall instead.
            history_tokens: Budget of what was said in the thread before.
            context_tokens: One budget for all that the model gets.
            reserved_tokens: Of these, so many are left free.
            profile_tokens: Budget of what is known of the user; None is what the memory says.
            remember: Whether to store turns.
            recall_place: Whether recalled lines stand before what the user says (`"user"`), where a
                prompt cache keeps all before them, or in the system message (`"system"`).
            provider: Provider rules for the messages. None follows the chat model, and uses those
                of all (`"strict"`) for text engines.
            config: Settings of the conversation; None uses the engine's defaults. Each argument
                that follow goes before it; `ConversationConfig` says what they mean.
            preface: What stands before the first message.
            template: The chat template of a text engine.
            reply_format: How the replies of a text engine are read.
            channels: Sections of a reply besides its text.
            stop: Texts that end a reply of a text engine.
            prefill_preface: Let a text engine read the preface now.
            reasoning_history: What a template sees of earlier thoughts.
            thinking: Whether the model is to think.
            context_kwargs: What extra context means to a chat model.
            auto_tools: Call tools until the model replies without calls.
            max_tool_rounds: The most rounds of tool calls in one turn.
            on_tool_limit: What to do with the turn then.
            tool_handler: Asked before each call.
            on_tool_result: May rewrite a result.
            parallel_tools: Run the calls of one reply at the same time.
            on_invalid_tool_call: What to do with invalid calls.
            on_pending_tool_calls: What to do with pending calls when the user speaks.
            on_divergence: What to do with a session that diverges from the history.
            on_busy: Wait for earlier turns, or refuse.
            busy_timeout_s: Seconds to wait at most; None waits for ever.
            on_cancel: What to do with a cancelled turn.
            on_max_tokens: What to do with a truncated reply.
            max_output_tokens: The most tokens of a reply.
            media_limits: How large media may be, and where they may lie.
            model_kwargs: Arguments of every call of the model.

        Raises:
            ConfigError: If a setting does not fit the model, or a budget leaves no room.
        """
        given = locals()  # before any other name is bound
        from langchain_convmem.conversation import Conversation, ConversationConfig, Engine

        engine = model if isinstance(model, Engine) else Engine(model)
        thread = self.conversation_thread(
            thread_id,
            user_id=user_id,
            **{name: given[name] for name in TurnSettings.__annotations__},
            provider=provider or _detect_provider(engine.model),
            model=engine.model,
        )
        settings = {n: given[n] for n in ConversationConfig.model_fields if given[n] is not UNSET}
        return Conversation(engine, config, history=thread, **settings)

    def conversation_thread(
        self,
        thread_id: str,
        *,
        user_id: str | None = None,
        recall: bool = True,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int = 0,
        profile_tokens: int | None = None,
        remember: bool = True,
        recall_place: RecallPlace = "user",
        provider: Provider | None = None,
        model: Any = None,
    ) -> ThreadMemory:
        """Return a thread for `history=` of a conversation.

        `await engine.acreate_conversation(history=memory.conversation_thread("t7"))` begins one
        within an event loop.

        Args:
            thread_id: The thread.
            user_id: Its user, whose lines are recalled.
            recall: Whether to recall lines of earlier conversations; this and the next eight as in
                `wrap`.
            recall_tokens: Budget of the recalled text.
            recall_k: Number of blocks to recall instead.
            history_tokens: Budget of what was said in the thread before.
            context_tokens: One budget for all that the model gets.
            reserved_tokens: Of these, so many are left free.
            profile_tokens: Budget of what is known of the user; None is what the memory says.
            remember: Whether to store turns.
            recall_place: Whether recalled lines stand before what the user says (`"user"`), where a
                prompt cache keeps all before them, or in the system message (`"system"`).
            provider: Whose rules the messages keep; None keeps those of all (`"strict"`).
            model: What will read them, by whose window and usage tokens are counted; None if it is
                not known yet.

        Raises:
            ConfigError: If an option makes no sense, or a budget leaves no room.
        """
        from langchain_convmem.thread_memory import MemoryThread

        options = TurnOptions(
            recall=recall,
            recall_tokens=recall_tokens,
            recall_k=recall_k,
            history_tokens=history_tokens,
            context_tokens=context_tokens,
            reserved_tokens=reserved_tokens,
            profile_tokens=profile_tokens,
            remember=remember,
            recall_place=recall_place,
        )
        facts = _read_model(model)
        self._turn_memory.check_options(options)
        self._turn_memory.use_model(facts)
        key, rules = ThreadKey(user_id, thread_id), resolve_provider(provider or "strict")
        return MemoryThread(self._turn_memory, key, options, rules, facts.name)

    @property
    def turn_memory(self) -> TurnMemory:
        """What chains, conversations, graphs and agents run their turns over."""
        return self._turn_memory

    # -- Threads ----------------------------------------------------------------------------------

    def history(self, thread_id: str, *, user_id: str | None = None) -> ConversationHistory:
        """Return the history of a thread, which need not exist yet."""
        hook = self._turn_memory.drafting.hook
        return ConversationHistory(
            self.log,
            thread_id,
            user_id=user_id,
            before_write=hook,
            token_counter=CurrentCounter(self._turn_memory.token_counters),
        )

    def threads(self, user_id: str | None = None) -> list[ThreadInfo]:
        """Return a user's threads, latest first, with their titles, archived ones as well.

        Args:
            user_id: Whose threads; None lists the threads of no user.
        """
        return list_threads(self.log, user_id)

    athreads = to_async(threads)

    def get_title(self, thread_id: str, *, user_id: str | None = None) -> str:
        """Return the title of a thread; empty if nobody gave it one."""
        return read_title(self.log, ThreadKey(user_id, thread_id))

    aget_title = to_async(get_title)

    def set_title(self, thread_id: str, title: str, *, user_id: str | None = None) -> None:
        """Give a thread a title, which lists of threads show; no model reads it.

        Imports bring the titles of their files along, and leave one that was given here.

        Args:
            thread_id: The thread.
            title: One line of at most 200 characters; empty text takes the title away.
            user_id: The thread's user.

        Raises:
            ConfigError: If the title is too long or more than a line, the thread has no entries,
                or the log keeps no documents beside threads.
        """
        return update_thread(self.log, ThreadKey(user_id, thread_id), {"title": check_title(title)})

    aset_title = to_async(set_title)

    def archive(self, thread_id: str, *, user_id: str | None = None, archived: bool = True) -> None:
        """Mark a thread as put away, or not; it is kept, shown and recalled as before.

        Args:
            thread_id: The thread.
            user_id: The thread's user.
            archived: False takes it back out.

        Raises:
            ConfigError: If the thread has no entries, or the log keeps no documents beside threads.
        """
        return update_thread(self.log, ThreadKey(user_id, thread_id), {"archived": bool(archived)})

    aarchive = to_async(archive)

    def fork(
        self,
        thread_id: str,
        *,
        at: str | Turn | None = None,
        new_thread_id: str | None = None,
        user_id: str | None = None,
    ) -> ConversationHistory:
        """Return a new thread with copies of what another shows: messages, ids and summaries.

        Args:
            thread_id: The thread to go on from.
            at: The last message to copy, by its id, or the last turn; None copies all.
            new_thread_id: A thread that is not in use; None makes up an id.
            user_id: The user of both threads.

        Raises:
            ConfigError: If the thread shows no such message, or the new one is in use.
        """
        fork = fork_thread(self.log, ThreadKey(user_id, thread_id), at, new_thread_id)
        return self.history(fork.thread_id, user_id=fork.user_id)

    afork = to_async(fork)

    def stats(self, thread_id: str, *, user_id: str | None = None) -> ThreadStats:
        """Return statistics of a thread: messages, turns, tokens, times, bytes.

        Nothing is counted while turns run: each call reads the whole thread, so ask as often as
        somebody looks, not in every turn.

        Args:
            thread_id: The thread; one that does not exist has nothing.
            user_id: Its user.
        """
        return compute_stats(self.log.entries(ThreadKey(user_id, thread_id)))

    astats = to_async(stats)

    # -- Messages and files -----------------------------------------------------------------------

    def add_messages(
        self,
        messages: MessagesInput,
        *,
        thread_id: str,
        user_id: str | None = None,
        turn_id: str | None = None,
        durable: bool = True,
    ) -> list[Entry]:
        """Store messages verbatim in a thread, all or none.

        Args:
            messages: Messages, or any of the forms that a chain takes. `name` is the speaker,
                `additional_kwargs["timestamp"]` the time (ISO 8601 or milliseconds since the
                epoch), `additional_kwargs["session"]` the session.
            thread_id: The thread.
            user_id: Its user.
            turn_id: The turn they belong to, a ULID: what is asked and what answers it stand
                together in every view. None makes each message a turn of its own.
            durable: Whether they survive a crash of the machine. False is for imports that can be
                repeated: they survive a crash of the process only.

        Returns:
            One entry per message, in order; for a message the thread already has, the entry that is
            there. There is none for a message that is marked
            `additional_kwargs={"remember": False}`, nor for one of which the write hook stores
            nothing.

        Raises:
            InvalidMessageError: If one of them cannot be stored; nothing is written.
        """
        drafts = self._turn_memory.drafting.build_all(read_messages(messages), turn_id=turn_id)
        key = ThreadKey(user_id, thread_id)
        entries = self.log.append(key, drafts, durable=durable)
        self._recaller.embed_soon(key.owner)
        return entries

    aadd_messages = to_async(add_messages)

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        format: str | None = None,  # noqa: A002 - what it is called everywhere
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Import the conversations of a file and return a report.

        The file is checked to its last line before the first write, and importing it again doubles
        nothing; a file that has grown adds what is new. The lines are found by the next recall, or
        by `refresh` ahead of it. Survives a crash of the process, not of the machine: import again
        after one.

        Args:
            path: An export of ChatGPT or Claude, as the zip, the folder or the JSON; an export of
                convmem, messages of OpenAI's API, a store of LangChain or LangGraph, a dialogue;
                see the page on import, export and copy. Of a zip or folder, what cannot be read is
                left out, and `ImportReport.unread` names it.
            user_id: Whose conversations; None makes each thread one of no user.
            thread_id: The thread's name, if the file holds one conversation only.
            format: The name of the format that the file must have, such as `chatgpt`; None finds
                it out by its content.
            progress: Called with (done, total) entries after each thread.

        Raises:
            ConfigError: If no format has that name.
            ImportFormatError: If the file is of no known format, or not what its format says;
                nothing is written.
            MissingExtraError: If its format needs a package that is not installed.
        """
        from langchain_convmem.transfer.imports import read_file, store_file

        file = read_file(path, thread_id=thread_id, format=format)
        drafting = self._turn_memory.drafting
        report = store_file(self.log, file, user_id=user_id, drafting=drafting, progress=progress)
        for thread in report.thread_ids:
            self._recaller.embed_soon(ThreadKey(user_id, thread).owner)
        return report

    aimport_file = to_async(import_file)

    # -- Recall -----------------------------------------------------------------------------------

    @property
    def line_recall(self) -> DialogRecall:
        """The recall over this memory's log, made on first use; its questions pass the write hook.

        It takes what `recall` leaves out: a single thread, positions to leave out, a time to count
        from; see `RecallOptions`.
        """
        return self._recaller.recall

    def retriever(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        user_ids: Collection[str] | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | Literal["auto"] | None = None,
        filter: LineFilter | None = None,  # noqa: A002 - the name that LangChain's stores use
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> DialogLineRetriever:
        """Return a LangChain retriever over dialog lines.

        Args:
            user_id: Search all threads of this user.
            thread_id: Search this thread only; without `user_id`, the thread of no user.
            user_ids: Search all threads of all these users instead: whoever asks reads what every
                one of them said.
            k: Return exactly so many documents, one block of neighbouring lines each.
            max_tokens: Or as many blocks as fit this budget.
            threshold: Leave out lines whose cosine similarity does not surpass this; "auto": find
                nothing if the question is unrelated to anything in the log.
            filter: By name the value that a line must have, or a list of values of which it must
                have one; see `RecallOptions`.
            since: Only lines from this time on: a datetime with its zone, or milliseconds.
            until: Only lines before this time.

        Raises:
            ConfigError: If no owner is given, or users in two ways, or the scope is not
                valid.
        """
        from langchain_convmem.recall import DialogLineRetriever
        from langchain_convmem.recall.options import make_owners

        if user_ids is None:
            _find_owner(user_id, thread_id)
        else:
            user_ids = frozenset(str(one.user_id) for one in make_owners(user_ids))
        retriever = DialogLineRetriever(
            recall=self.line_recall,
            user_id=user_id,
            thread_id=thread_id,
            user_ids=user_ids,
            k=k,
            max_tokens=max_tokens,
            threshold=threshold,
            filter=filter,
            since=since,
            until=until,
        )
        retriever.check_scope()
        return retriever

    def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        user_ids: Collection[str] | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | Literal["auto"] | None = None,
        filter: LineFilter | None = None,  # noqa: A002 - the name that LangChain's stores use
        since: Moment | None = None,
        until: Moment | None = None,
        remember: bool = True,
        before: str | None = None,
    ) -> Recall:
        """Return the dialog lines that fit a query best, with the lines around them.

        Args:
            query: The question, verbatim. The write hook sees it first, since
                an embedder may be a third party; if the hook leaves nothing, nothing is found.
            user_id: Search all threads of this user.
            thread_id: With a user: the current thread, whose live context is left out, since the
                model sees it anyway. Without: the one thread to search, whole.
            user_ids: Search all threads of all these users together: whoever asks reads what every
                one of them said. `user_id`, then one of them, and `thread_id` name the current
                thread alone.
            k: Return exactly so many blocks, or
            max_tokens: as many as fit this budget (default 1,000).
            threshold: Leave out lines whose cosine similarity does not surpass this; "auto": find
                nothing if the question is unrelated to anything in the log.
            filter: By name the value that a line must have, or a list of values of which it must
                have one: `speaker`, `role`, `session`, `thread_id`, `user_id`, or a key of the
                message's `additional_kwargs`.
            since: Only lines from this time on: a datetime with its zone, or milliseconds since the
                epoch.
            until: Only lines before this time.
            remember: Whether what is found enters the relevance buffer of the current thread, where
                the settings have one. Either way the answer's `buffer` contains it.
            before: What the user said just before, from which a short follow-up such as "and hers?"
                borrows its topic.

        Raises:
            ConfigError: If an argument is invalid; the message names it.
        """
        owners = _find_searched(user_id, thread_id, user_ids)
        current: ThreadKey | None = None
        exclude: Mapping[ThreadKey, Collection[int]] = {}
        if user_id is not None and thread_id is not None:
            current = ThreadKey(user_id, thread_id)
            exclude = {current: read_context(self.log, current).positions}
        return self.line_recall.recall(
            owners,
            query,
            exclude=exclude,
            buffer=current,
            now_ms=self.time_ms,
            k=k,
            max_tokens=max_tokens,
            threshold=threshold,
            filter=filter,
            since=since,
            until=until,
            remember=remember,
            before=before,
        )

    arecall = to_async(recall)

    def search(
        self, words: str, *, user_id: str | None = None, thread_id: str | None = None
    ) -> list[DialogLine]:
        """Return the lines that hold all of these words, the latest first.

        Letters are compared without case, and parts of longer words count. `recall` finds what
        helps answer a question, in other words as well. Nothing is embedded; of a user who was
        recalled from before, only what is new is read from the log.

        Args:
            words: Words with blanks between them, in any order.
            user_id: Whose lines; or
            thread_id: the thread of no user.

        Raises:
            ConfigError: If there are no words, or neither a user nor a thread is given.
            LogError: If the log cannot be read.
        """
        wanted = words.casefold().split()
        if not wanted:
            raise ConfigError("words is blank; give at least one word to search for")
        recall, owner = self.line_recall, _find_owner(user_id, thread_id)
        lines = recall.find_lines(owner, wanted)
        # Of two of the same millisecond, the one stored later leads.
        lines.sort(key=lambda line: line.time_ms)
        return lines[::-1]

    asearch = to_async(search)

    def refresh(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Index new lines now, so that the next recall does not have to.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user.
            progress: Called with (done, total) lines.

        Returns:
            Problems, one sentence each, such as a failing embedder; empty when every line is
            indexed whole.

        Raises:
            ConfigError: If neither a user nor a thread is given.
        """
        recall, owner = self.line_recall, _find_owner(user_id, thread_id)
        return recall.refresh(owner, progress)

    arefresh = to_async(refresh)

    def reindex(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        all_users: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Re-embed lines after a change of the embedder, then delete the old vectors.

        Until then nothing is sent to the new embedder: lines are found by their words, and
        `Recall.problems` says so. Each batch is stored before the next one is sent, so after a
        failure or a kill another call goes on where this one stopped. Run it when no process works
        with the old embedder any more.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user; or
            all_users: those of all users and of all threads of no user, one after the other.
            progress: Called with (done, total) segments of one user.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            ConfigError: If the call names nobody, or all users of a log that cannot list them.
            LogError: If the log cannot be read.
        """
        if not all_users:
            owners: Sequence[Owner] = [_find_owner(user_id, thread_id)]
        elif user_id is not None or thread_id is not None:
            raise ConfigError("pass user_id or thread_id, or all_users=True, not both")
        else:
            owners = self.log.owners()
        problems = [self.line_recall.reindex(owner, progress) for owner in owners]
        return tuple(dict.fromkeys(chain.from_iterable(problems)))

    areindex = to_async(reindex)

    def get_embedder_use(
        self, *, user_id: str | None = None, thread_id: str | None = None
    ) -> EmbedderUse:
        """Return the embedder of an owner's lines and how many lines are pending.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user.

        Raises:
            ConfigError: If neither a user nor a thread is given.
            LogError: If the log cannot be read.
        """
        return self.line_recall.get_embedder_use(_find_owner(user_id, thread_id))

    aget_embedder_use = to_async(get_embedder_use)

    # -- What is known of a user ------------------------------------------------------------------

    def profile(self, user_id: str | None = None, *, thread_id: str | None = None) -> UserProfile:
        """Return what is known of a user: what they said of themselves, verbatim, with its dates.

        A view of the log: made without a model, the same in every process, and forgotten with what
        it was said in. The first call of a process reads what the user said; later ones read what
        is new.

        Args:
            user_id: Of whom; or
            thread_id: what the thread of no user says.

        Raises:
            ConfigError: If neither a user nor a thread is given.
            LogError: If the log cannot be read.
        """
        return self._profiles.read(_find_owner(user_id, thread_id))

    aprofile = to_async(profile)

    def update_profile(
        self, user_id: str | None = None, *, thread_id: str | None = None
    ) -> ProfilerReport:
        """Have the profiler read now what it has not read, without waiting for more turns.

        For scripts, for queues where no thread outlives a request, and for what was said before
        there was a profiler. It may propose: an item comes of a proposal if its words stand in the
        line, and the user says and means them. The sentence around them is quoted, as with items
        that rules find, and what rules find is not proposed again.

        Args:
            user_id: Whose threads; all of them without a thread.
            thread_id: This thread alone; of no user without one.

        Raises:
            ConfigError: If the memory has no profiler, or neither a user nor a thread is given.
            LogError: If the log cannot be read or written.
        """
        return self._profiles.update(_find_owner(user_id, thread_id), thread_id)

    aupdate_profile = to_async(update_profile)

    # -- Time travel ------------------------------------------------------------------------------

    def as_of(self, when: PointInTime) -> ConversationMemory:
        """Return this memory as it was at an earlier time, read-only.

        Recall, contexts, summaries and profiles are what an assistant could know then: those of a
        memory that was given no more than what the log held. What was erased since is not there
        either. Titles, buffers and other documents beside a thread, and what was added to the
        metadata of an entry later, are those of today or not there at all.

        It shares this memory's log, and closing it closes nothing. Its first recall of a user reads
        the lines of that time; keep it as long as you ask about the same time.

        Args:
            when: A datetime with its zone, milliseconds since the epoch, ISO 8601 such as
                "2026-05-01T12:00Z", or the id of an entry, which is the last one there. Time is
                that of writing: what a file brought was there when it was imported, whatever its
                dates.

        Raises:
            ConfigError: If that is no point in time, or this memory was given a recall of its own,
                whose index is not one of earlier times.
        """
        from langchain_convmem.logs.as_of import LogAsOf, LogBound

        bound = LogBound(when)
        if self._has_own_recall:
            msg = (
                "as_of recalls with the lines of the log, and this memory was given a recall of "
                "its own, which knows today's alone; make one without: ConversationMemory(log)"
            )
            raise ConfigError(msg)
        log = self.log.log if isinstance(self.log, LogAsOf) else self.log
        past = ConversationMemory(LogAsOf(log, bound), **self._reads_as)
        past.time_ms = bound.time_ms
        past._profiles = Profiles(past.log, now_ms=bound.time_ms)
        return past

    # -- Summaries --------------------------------------------------------------------------------

    @property
    def summarizes(self) -> bool:
        """Whether the memory has a summarizer."""
        return self._summaries.has_summarizer

    def summarize(
        self, thread_id: str, *, user_id: str | None = None, force: bool = False
    ) -> SummaryReport:
        """Compact a thread now if due.

        Args:
            thread_id: The thread.
            user_id: Whose.
            force: Cover everything but the question that waits for an answer, due or not.

        Returns:
            A report; true if a summary was written.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        return self._summaries.compactor.compact(ThreadKey(user_id, thread_id), force=force)

    asummarize = to_async(summarize)

    def resummarize(
        self,
        thread_id: str,
        *,
        user_id: str | None = None,
        summarizer: SummarizerLike | None = None,
    ) -> SummaryReport:
        """Rewrite the live summary of a thread from everything it covers.

        Args:
            thread_id: The thread.
            user_id: Whose.
            summarizer: Writes it, such as another model; by default the memory's own.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        return self._summaries.rewrite(ThreadKey(user_id, thread_id), summarizer)

    aresummarize = to_async(resummarize)

    def summary_record(self, thread_id: str, *, user_id: str | None = None) -> SummaryRecord:
        """Return what became of every fact that the summaries of a thread stand for.

        Read from the whole log, so it is what a full reading finds, however many summaries there
        were: told by a summary, listed by one, left to recall with words that find it, or lost.
        Works without a summarizer, too. Takes a recall for each fact that is neither told nor
        listed.

        Args:
            thread_id: The thread.
            user_id: Whose.

        Raises:
            LogError: If the log cannot be read.
        """
        return self._summaries.record(ThreadKey(user_id, thread_id))

    asummary_record = to_async(summary_record)

    def explain_summary(
        self, thread_id: str, *, user_id: str | None = None, summary_id: str | None = None
    ) -> list[CitedSentence]:
        """Return the sentences of a summary, each with the entries that it comes from.

        Those are the entries whose ids it names in square brackets; where no sentence of a summary
        names any, each comes from all that the summary covers. What a summary was made of may be
        forgotten since: its sentences then have fewer sources.

        Args:
            thread_id: The thread.
            user_id: Whose.
            summary_id: Entry id of a summary of the thread, such as `last_summary.id`, whether it
                is shown or not; None is all that the model's view shows, in its order.

        Raises:
            ConfigError: If the thread has no such summary.
        """
        from langchain_convmem.summarizing.citations import explain_summaries

        entries = self.log.entries(ThreadKey(user_id, thread_id))
        live = find_live_entries(entries)
        known = find_frontier(live) if summary_id is None else entries
        wanted = [one for one in known if one.role == "summary" and summary_id in (None, one.id)]
        if summary_id is not None and not wanted:
            msg = (
                f"thread {thread_id!r} has no summary {describe_value(summary_id)}; "
                "pass the id of one, such as history.last_summary.id, or None for what is shown"
            )
            raise ConfigError(msg)
        return explain_summaries(entries, wanted)

    aexplain_summary = to_async(explain_summary)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for what goes on behind the turns: compactions, and the profiler's reading.

        Args:
            timeout_s: Seconds to wait at most for either; None waits for ever.

        Returns:
            Whether all ended in time.
        """
        are_done = self._summaries.flush(timeout_s)
        return self._profiles.flush(timeout_s) and are_done

    async def aflush(self, timeout_s: float | None = None) -> bool:
        """Wait for what goes on behind the turns, without blocking the event loop; see `flush`."""
        return await run_in_thread(partial(self.flush, timeout_s))

    # -- Forgetting -------------------------------------------------------------------------------

    def forget(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        entry_ids: Iterable[str] | None = None,
    ) -> ForgetReceipt:
        """Permanently erase a user with all threads, a thread, or entries of a thread.

        What recall keeps of it in this process's memory goes too; other processes notice when they
        next recall for this user. Summaries that cover it are erased too, also those written
        meanwhile, and with a summarizer the thread is compacted again.

        Args:
            user_id: Alone: everything of this user.
            thread_id: This thread of the user, or the thread of no user.
            entry_ids: Only these entries of the thread, by entry id or message id.

        Returns:
            What was erased, in counts.

        Raises:
            ConfigError: If the call names nobody, or entries of no thread.
        """
        owner = _find_owner(user_id, thread_id)
        if thread_id is None and entry_ids is not None:
            raise ConfigError("entry_ids need the thread they belong to; pass thread_id")
        if isinstance(entry_ids, str):
            raise ConfigError(f"entry_ids must be a list of ids, got {describe_value(entry_ids)}")
        ids = None if entry_ids is None else list(entry_ids)
        key = None if thread_id is None else ThreadKey(user_id, thread_id)
        copies = self._recaller.list_copies(key or owner, ids)
        if key is not None and ids:
            receipt = _erase_entries(self.log, key, ids)
        else:
            receipt = self.log.forget(key or owner, ids)
        self._recaller.drop_forgotten(owner, copies)
        from langchain_convmem.summarizing.branches import BRANCHES

        BRANCHES.drop(self._turn_memory.log_place, owner)
        if key is not None and ids:
            # What else the summaries covered is shown again.
            self._turn_memory.compact(key)
        return receipt

    aforget = to_async(forget)


# -- Whose lines are meant ------------------------------------------------------------------------


def _find_owner(user_id: str | None, thread_id: str | None) -> Owner:
    """Return the owner that the arguments name.

    Raises:
        ConfigError: If neither a user nor a thread is given.
    """
    if user_id is None and thread_id is None:
        raise ConfigError("pass user_id, or thread_id for a thread of no user")
    return ThreadKey(user_id, "-" if thread_id is None else thread_id).owner


def _find_searched(
    user_id: str | None, thread_id: str | None, user_ids: Collection[str] | None
) -> Owners:
    """Return whose lines are searched.

    Raises:
        ConfigError: If no owner is given, or the current thread's user is not in `user_ids`.
    """
    if user_ids is None:
        return _find_owner(user_id, thread_id)
    from langchain_convmem.recall.options import make_owners

    owners = make_owners(user_ids)
    if (user_id is None) != (thread_id is None):
        msg = "with user_ids, pass both user_id and thread_id of the current thread, or neither"
        raise ConfigError(msg)
    if user_id is not None and user_id not in user_ids:
        msg = f"user_id must be one of user_ids, got {describe_value(user_id)}"
        raise ConfigError(msg)
    return owners


def _read_model(model: Any) -> ModelFacts:
    """Return what is known of a conversation's model; nothing of one that reads text."""
    return ChainShape.from_chain(model).model if isinstance(model, Runnable) else NO_MODEL


def _detect_provider(model: Any) -> Provider | None:
    """Return whose rules a model's messages keep; None for one that reads text."""
    return ChainShape.from_chain(model).provider if isinstance(model, Runnable) else None


# -- What turns run over --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TurnServices:
    """The parts of a memory that turns run over; see `TurnMemory`. Thread-safe, as they are.

    Attributes:
        log: Where entries are kept.
        drafting: Makes drafts of messages, through the write hook.
        recaller: Finds lines of earlier conversations.
        summaries: Compacts threads after turns.
        token_counters: What counts tokens, as models were seen to take them.
        active_turns: The turns of chains and conversations that are under way.
        profiles: Reads what is known of users.
        profile_tokens: Budget of that in a turn whose options name none.
    """

    log: MessageLog
    drafting: DraftBuilder
    recaller: Recaller
    summaries: Summaries
    token_counters: TokenCounters = field(default_factory=TokenCounters)
    active_turns: WritingTurns = field(default_factory=WritingTurns)
    _: KW_ONLY
    profiles: Profiles
    profile_tokens: int = 0

    @property
    def log_place(self) -> Hashable:
        """The identity of the log in this process; handles of one file are one log."""
        return _find_place(self.log)

    @property
    def line_recall(self) -> DialogRecall:
        """Finds lines of earlier conversations."""
        return self.recaller.recall

    def get_recall_budget(self, options: TurnOptions) -> int:
        """Return the token budget for recalled lines of a turn with these options."""
        return (options.recall_tokens or self.recaller.default_tokens) if options.recall else 0

    def get_profile_budget(self, options: TurnOptions) -> int:
        """Return the token budget for what is known of the user in a turn with these options."""
        return self.profile_tokens if options.profile_tokens is None else options.profile_tokens

    def read_profile(self, owner: Owner) -> FollowedProfile:
        """Return what is known of a user."""
        return self.profiles.reader.read(owner)

    def use_model(self, model: ModelFacts, chain: Runnable[Any, Any] | None = None) -> None:
        """Have threads summarised before the window of a turn's model is full."""
        self.summaries.use_model(model, chain)

    def check_options(self, options: TurnOptions) -> None:
        """Have threads summarised before these options drop messages."""
        self.summaries.fit_budget(options.history_tokens)
        if options.budget is not None:
            self.summaries.fit_budget(
                options.budget.list_message_budgets(self.get_recall_budget(options))[0]
            )

    def check_call(self, *, recalls: bool = False) -> None:
        """Refuse a synchronous turn that would need a coroutine; nothing is stored yet."""
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
        """Compact a thread if that is due, now or later; see `TurnMemory.compact`."""
        self.summaries.compact(key, view, replies)


# -- The recall of a memory -----------------------------------------------------------------------


class Recaller:
    """The recall over a memory's log, made on first use; its questions pass the write hook.

    Thread-safe. What has not been made yet has nothing to embed, to drop or to close.
    """

    def __init__(
        self,
        log: MessageLog,
        drafting: DraftBuilder,
        *,
        embeddings: Embedder,
        settings: RecallSettings | None,
        rewriter: Rewriter | None,
        reranker: BaseDocumentCompressor | None,
        given: DialogRecall | None,
        counters: TokenCounters,
    ) -> None:
        """Take what a recall is made of, or a recall that is given; see `ConversationMemory.open`.

        Raises:
            ConfigError: If a part makes no sense, or comes with a recall that is given.
        """
        # Recall is imported only where there is something to check: it loads numpy.
        if rewriter is not None or reranker is not None:
            from langchain_convmem.recall.recall import check_hooks

            check_hooks(rewriter, reranker)
        if isinstance(embeddings, str) and embeddings != "auto":
            from langchain_convmem.recall.embedding import EmbedderChoice

            EmbedderChoice.check(embeddings)
        if given is not None:
            parts = {"settings": settings, "rewriter": rewriter, "reranker": reranker}
            _check_given(given, log, {"embeddings": embeddings, **parts})
        self._log = log
        self._drafting = drafting
        self._embeddings: Embedder = embeddings
        self._settings = settings
        self._hooks = rewriter, reranker
        self._given = given
        self._counter = CurrentCounter(counters)
        self._lock = make_lock()
        self._recall: DialogRecall | None = None

    @property
    def recall(self) -> DialogRecall:
        """The recall, made on first use."""
        with self._lock:
            if self._recall is None:
                recall = (self._given or self._make()).bind_counter(self._counter.count_text)
                hook = self._drafting.hook and self._drafting.filter_question
                self._recall = recall if hook is None else recall.bind_query_hook(hook)
            return self._recall

    def _make(self) -> DialogRecall:
        from langchain_convmem.recall import LineRecall

        rewriter, reranker = self._hooks
        return LineRecall(
            self._log, self._embeddings, self._settings, rewriter=rewriter, reranker=reranker
        )

    @property
    def default_tokens(self) -> int:
        """Budget of recalled text where a call names none."""
        settings = self._settings if self._given is None else self._given.settings
        return (settings and settings.max_tokens) or _DEFAULT_RECALL_TOKENS

    def check_call(self) -> None:
        """Refuse a turn that would ask a rewriter whose coroutine it cannot await."""
        rewriter = self._hooks[0] or getattr(self._given, "rewriter", None)
        check_askable(rewriter, "the rewriter", "arecall, ainvoke or the like")

    def embed_soon(self, owner: Owner) -> None:
        """Have what was just stored of an owner embedded, if the owner was searched before."""
        recall = self._recall or self._given
        if recall is not None:
            recall.embed_later(owner)

    def list_copies(self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None) -> list[str]:
        """List which lines are kept outside the log, before they are forgotten."""
        recall = self._recall or self._given
        return [] if recall is None else recall.list_copies(scope, entry_ids)

    def drop_forgotten(self, owner: Owner, copies: Sequence[str]) -> None:
        """Drop what the log has forgotten of an owner."""
        recall = self._recall or self._given
        if recall is not None:
            recall.drop_forgotten(owner, copies)

    def close(self) -> None:
        """End the work in the background; a recall that was given goes on."""
        if self._recall is not None and self._given is None:
            self._recall.close()


def _check_given(given: object, log: MessageLog, parts: Mapping[str, object]) -> None:
    """Refuse a recall that is none, searches elsewhere, or comes with parts of another one.

    Raises:
        ConfigError: If it is so; the message names what does not fit.
    """
    from langchain_convmem.recall import DialogRecall

    if not isinstance(given, DialogRecall):
        msg = (
            f"recall must be a DialogRecall such as VectorStoreRecall, got {describe_value(given)}"
        )
        raise ConfigError(msg)
    if given.log is not log:
        msg = (
            f"recall searches {given.log!r}, and this memory keeps {log!r}: make both of one "
            "log, ConversationMemory(log, recall=...)"
        )
        raise ConfigError(msg)
    for name, part in parts.items():
        if part not in (None, "auto"):
            raise ConfigError(f"recall has its own {name}; pass one or the other")


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

    def read(self, owner: Owner) -> UserProfile:
        """Return the profile of an owner, which people can decide of."""
        return self.reader.read_profile(owner)

    # -- a model that proposes --------------------------------------------------------------------

    def update(self, owner: Owner, thread_id: str | None) -> ProfilerReport:
        """Have the profiler read a thread, or all threads of an owner.

        Raises:
            ConfigError: If there is no profiler.
        """
        if self._profiler is None:
            msg = "this memory has no profiler; pass one, such as a chat model, as profiler="
            raise ConfigError(msg)
        if thread_id is not None:
            keys = [ThreadKey(owner.user_id, thread_id)]
        else:
            keys = [thread.key for thread in self._log.threads(owner.user_id)]
        return self._profiler.read_threads(keys)

    def note_turn(self, key: ThreadKey) -> None:
        """Have what was said read in the background, if it is time."""
        if self._jobs is None or self._profiler is None or not self._profiler.note_turn(key):
            return
        self._jobs.submit(key)

    def _read_waiting(self, key: ThreadKey) -> None:
        if self._profiler is not None:
            with allow_own_loop():
                self._profiler.read_waiting(key.owner)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for the readings under way; return whether they ended within this time."""
        return self._jobs is None or self._jobs.flush(timeout_s)

    def close(self) -> None:
        """Finish the reading under way, and start no more in the background."""
        if self._jobs is not None:
            self._jobs.close()


# -- The summaries of a memory --------------------------------------------------------------------


_MOST_SOUGHT = 200
"""How many facts are searched for when a summary is written; the others are listed first."""

_BLOCKS = 3
"""How many recalled blocks may hold a fact."""


_CROWDED = 1.25
"""A message of summaries so many times as long as it should be may need parents."""


class Summaries:
    """Compacts the threads of a memory, if it has a summarizer. Thread-safe."""

    def __init__(
        self,
        log: MessageLog,
        drafting: DraftBuilder,
        recaller: Recaller,
        *,
        summarizer: SummarizerLike | Literal["auto"] | None,
        settings: SummarySettings | None,
        when: SummarizeWhen,
        counters: TokenCounters,
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
        self._log = log
        self._drafting = drafting
        self._recaller = recaller
        self._summarizer: Summarizer | None = None
        self._waits_for_model = False
        if isinstance(summarizer, str) and summarizer == "auto":
            from langchain_convmem.offline.extractive import ExtractiveSummarizer

            self._waits_for_model = True
            self._summarizer = ExtractiveSummarizer()  # until a chain's model is known
        elif summarizer is not None:
            from langchain_convmem.summarizing.summarizers import as_summarizer

            self._summarizer = as_summarizer(summarizer)
        self._settings = settings
        self._when = when
        self._counter = CurrentCounter(counters)
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
        settings = replace(given, token_counter=given.token_counter or self._counter)
        return Compactor(
            log=self._log,
            summarizer=self._summarizer,
            settings=settings,
            leases=Leases(self._log, settings),
            drafting=self._drafting,
            read=self._read,
            findable=self._find_some,
            on_report=self._report,
        )

    def _report(self, report: SummaryReport) -> None:
        """Tell the application what came of a compaction, if it wants to know."""
        if self._on_summary is None:
            return
        from langchain_convmem.summarizing.compactor import list_events

        for event in list_events(report):
            self._on_summary(event)

    def rewrite(self, key: ThreadKey, summarizer: SummarizerLike | None) -> SummaryReport:
        """Write the live summary of a thread anew; see `ConversationMemory.resummarize`."""
        from langchain_convmem.summarizing.summarizers import as_summarizer

        compactor = self.compactor
        if summarizer is not None:
            compactor = replace(compactor, summarizer=as_summarizer(summarizer))
        return compactor.redo(key)

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
            if self._waits_for_model and model.chat_model is not None:
                from langchain_convmem.summarizing.prefix import PrefixSummarizer
                from langchain_convmem.summarizing.summarizers import as_summarizer

                on_top = None if chain is None else PrefixSummarizer.from_chain(chain)
                self._summarizer = on_top or as_summarizer(model.chat_model)
                self._waits_for_model = False
                if model.window_tokens is not None:
                    settings = settings.fit_input(model.window_tokens)
            # A compaction under way goes on with those it began with.
            self._compactor = replace(compactor, settings=settings, summarizer=self._summarizer)

    def compact(self, key: ThreadKey, view: Context | None, replies: Sequence[BaseMessage]) -> None:
        """Compact a thread if that is due, now or later; see `TurnMemory.compact`."""
        if self._summarizer is None or not self._may_be_due(view, replies):
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

    def _may_be_due(self, view: Context | None, replies: Sequence[BaseMessage]) -> bool:
        """Return whether a thread may be due, without a look into the log."""
        if view is None:
            return True
        from langchain_convmem.summarizing.planning import Size, count_excess

        settings = self.compactor.settings
        framing = [one for one in view.messages if is_framing(one)]
        told = [
            one for one in view.messages if one.additional_kwargs.get("source") == SUMMARY_SOURCE
        ]
        told_tokens = self._counter(told)
        size = Size(
            view.tokens - self._counter(framing) + self._counter(replies),
            len(view.messages) - len(framing) + len(replies),
        ).add_tokens(count_excess(told_tokens, settings))
        is_crowded = told_tokens > _CROWDED * settings.shown_tokens
        return not view.is_whole or is_crowded or settings.is_due(size)

    # -- the background ---------------------------------------------------------------------------

    @property
    def _background(self) -> BackgroundJobs[ThreadKey]:
        with self._lock:
            if self._jobs is None:
                self._jobs = BackgroundJobs(self._compact_and_prepare, name="compaction")
            return self._jobs

    def _compact_and_prepare(self, key: ThreadKey) -> None:
        """Compact a thread, and take up what is folded now, which the next turn would have to."""
        from langchain_convmem.recall.embedding import EmbeddedEmbeddings
        from langchain_convmem.summarizing.branches import BRANCHES, find_folding, read_folded

        with allow_own_loop():
            self.compactor.compact(key)
        roots = find_folding(find_live_entries(self._read(key)))
        if roots:
            branches = BRANCHES.get(_find_place(self._log), key)
            read_folded(branches, roots, partial(read_stretches, self._log, key))
            branches.prepare(EmbeddedEmbeddings().embed_documents)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for the compactions under way; return whether they ended within this time."""
        return self._jobs is None or self._jobs.flush(timeout_s)

    def close(self) -> None:
        """Finish the compactions under way, and start no more in the background."""
        if self._jobs is not None:
            self._jobs.close()

    # -- what the compactor asks ------------------------------------------------------------------

    def _read(self, key: ThreadKey) -> Sequence[Entry]:
        thread = read_live(self._log, key)
        if not thread.is_whole:
            # Noted for a budget: what it leaves out is covered by no summary yet.
            thread = read_all(self._log, thread)
        return thread.entries

    def record(self, key: ThreadKey) -> SummaryRecord:
        """Return what became of all that is covered in a thread."""
        from langchain_convmem.summarizing.record import record

        return record(key, self._log.entries(key), self._find_words)

    def _find_some(self, key: ThreadKey, facts: Sequence[Fact]) -> list[str]:
        """Return the words by which recall finds facts, of as many as a compaction looks for."""
        found = self._find_words(key, facts[:_MOST_SOUGHT])
        return found + [""] * (len(facts) - len(found))

    def _find_words(self, key: ThreadKey, facts: Sequence[Fact]) -> list[str]:
        """Return for each fact words that are not its own and by which recall finds it, or ""."""
        from langchain_convmem.summarizing.record import pick_words
        from langchain_convmem.words.facts import check_told

        recall = self._recaller.recall.drop_hooks()
        by_words = replace(recall.settings, dense_weight=0.0, buffer_size=0)
        by_asked: dict[str, list[Fact]] = {}
        for fact in facts:
            by_asked.setdefault(pick_words(fact), []).append(fact)
        found: dict[str, str] = {}
        for words, wanted in by_asked.items():
            if words:
                lines = recall.recall(key.owner, words, k=_BLOCKS, ranking=0, settings=by_words)
                text = "\n".join(block.text for block in lines.blocks)
                told = zip(wanted, check_told(wanted, text), strict=True)
                found |= {one.key: words for one, so in told if so or one.sentence in text}
        return [found.get(fact.key, "") for fact in facts]


def _find_place(log: MessageLog) -> Hashable:
    """Return the identity of a log in this process."""
    return getattr(log, "path", None) or id(log)


# -- Erasing entries, with the summaries that tell of them ----------------------------------------


def _erase_entries(log: MessageLog, key: ThreadKey, ids: Sequence[str]) -> ForgetReceipt:
    """Erase entries, the summaries that cover them and what a provider compacted of them."""
    known: list[Entry] = log.entries(key)
    named = {entry.id for entry in known if not {entry.id, entry.message_id}.isdisjoint(ids)}
    drafts, compacted = plan_without_compactions(known, named)
    if drafts:
        log.append(key, drafts)
    telling = [*_list_telling(known, named), *compacted]
    receipt: ForgetReceipt = log.forget(key, [*ids, *telling])
    while True:
        # A summary may have been written since the thread was read.
        seen = known[-1].position if known else 0
        known = [*known, *log.entries(key, after=seen)]
        late = [name for name in _list_telling(known, named) if name not in telling]
        if not late:
            return receipt
        telling += late
        more: ForgetReceipt = log.forget(key, late)
        receipt = _add_receipts(receipt, more)


def _list_telling(entries: Sequence[Entry], ids: Collection[str]) -> list[str]:
    """Return the ids of the summaries that cover entries, and of the pins that quote them."""
    summaries = find_summaries_over([entry for entry in entries if entry.control is None], ids)
    return [*summaries, *find_pins_over(entries, {*ids, *summaries})]


def _add_receipts(first: ForgetReceipt, second: ForgetReceipt) -> ForgetReceipt:
    return replace(
        second,
        entries=first.entries + second.entries,
        threads=first.threads + second.threads,
        segments=first.segments + second.segments,
        documents=first.documents + second.documents,
    )


# -- Pickling: what may be written down of where a memory is kept ---------------------------------


@dataclass(frozen=True, slots=True)
class _Opened:
    """How a memory was opened; its log is its own to close."""

    address: str
    options: Mapping[str, Any]
    signing_key: bytes | str | None = field(default=None, repr=False)


def _reopen(
    kind: type[ConversationMemory],
    address: str,
    options: Mapping[str, Any],
    signing_key: bytes | str | None,
) -> ConversationMemory:
    return kind.open(address, **options, signing_key=signing_key)


_WAY_OUT = "pass the address instead, and call ConversationMemory.open(...) where it is needed"


def make_address_portable(address: str) -> str:
    """Return an address as any process of this machine can open it; paths become absolute.

    Args:
        address: What a memory was opened with.

    Raises:
        ConfigError: If nobody else can open it, or it holds a password.
    """
    if address == ":memory:":
        msg = (
            'a memory opened with ":memory:" cannot be pickled, since it lives in this process '
            "alone; keep it in a file: ConversationMemory.open('memory.db')"
        )
        raise ConfigError(msg)
    if "://" not in address:
        return str(Path(address).resolve())
    parts = urlsplit(address)
    if parts.password is not None or any(name == "password" for name, _ in parse_qsl(parts.query)):
        msg = (
            "a memory whose address holds a password cannot be pickled, since the password would "
            f"be readable in the pickle; {_WAY_OUT}"
        )
        raise ConfigError(msg)
    return address


# -- A thread in numbers: a pure function of its entries ------------------------------------------


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """What a thread holds, in numbers; all are 0 for a thread that does not exist.

    Attributes:
        entries: Entries in the log, those that views skip and control entries included.
        messages: Messages that views show, by role; summaries are not among them.
        turns: Turns as `history.turns` shows them, placeholders and summaries left out.
        summaries: Summaries that views show.
        retracted: Entries that views skip: undone, replaced, cleared.
        damaged: Entries that cannot be read, and stretches that are missing.
        interrupted: Replies among `messages` that were cut off.
        input_tokens: Sum of the input tokens that replies report. Every reply counts, even one
            that was replaced later: it was paid for.
        output_tokens: Sum of the output tokens that replies report; counted the same way.
        unreported: Replies without reported usage.
        own_calls: Calls of models that the memory itself made in turns of `memory.wrap`.
        own_input_tokens: Input tokens of these calls.
        own_output_tokens: Output tokens of these calls.
        first_ms: Creation of the first entry, milliseconds since the epoch; None without one.
        last_ms: Creation of the last entry.
        bytes: Size of the entries as a log encodes them, in UTF-8; what its storage adds (indexes,
            vectors, free pages) is not known here.
    """

    entries: int = 0
    messages: Mapping[str, int] = field(default_factory=dict)
    turns: int = 0
    summaries: int = 0
    retracted: int = 0
    damaged: int = 0
    interrupted: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    unreported: int = 0
    own_calls: int = 0
    own_input_tokens: int = 0
    own_output_tokens: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    bytes: int = 0


def compute_stats(entries: Sequence[Entry]) -> ThreadStats:
    """Return the statistics of a thread.

    Args:
        entries: All of its entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    shown = [entry for entry in live if entry.role != "summary"]
    said = sum(entry.control is None for entry in entries)
    usage = _list_usages(entries)
    own = [entry.metadata.aux.get(OWN_TOKENS) for entry in entries]
    times = [ms for entry in entries if (ms := entry.metadata.timing.get("creation")) is not None]
    return ThreadStats(
        entries=len(entries),
        messages=dict(Counter(entry.role for entry in shown)),
        turns=sum(bool(turn.entries) and turn.role != "summary" for turn in build_turns(entries)),
        summaries=len(live) - len(shown),
        retracted=said - len(live),
        damaged=sum(bool(entry.damage) for entry in entries),
        interrupted=sum(INTERRUPTED in entry.metadata.attributes for entry in shown),
        input_tokens=_sum_counts(usage, "input_tokens"),
        output_tokens=_sum_counts(usage, "output_tokens"),
        unreported=sum(not one for one in usage),
        own_calls=_sum_counts(own, "calls"),
        own_input_tokens=_sum_counts(own, "input_tokens"),
        own_output_tokens=_sum_counts(own, "output_tokens"),
        first_ms=min(times, default=None),
        last_ms=max(times, default=None),
        bytes=sum(map(_measure_size, entries)),
    )


def _list_usages(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return what each reply took; one that was edited or cut took it once."""
    found = {
        entry.id: _get_usage(entry) for entry in entries if isinstance(entry.message, AIMessage)
    }
    for control in (entry.control for entry in entries):
        if control is not None and control.replacement is not None and control.retracts:
            old = control.retracts[0]
            if old in found and found[old] == found.get(control.replacement):
                del found[old]
    return list(found.values())


def _get_usage(entry: Entry) -> Mapping[str, Any]:
    return getattr(entry.message, "usage_metadata", None) or {}


def _sum_counts(counts: Iterable[Any], name: str) -> int:
    """Return the sum of a count; what applications put under the same key may be anything."""
    found = (one.get(name) for one in counts if isinstance(one, Mapping))
    return sum(number for number in found if isinstance(number, int))


def _measure_size(entry: Entry) -> int:
    if entry.damage:
        return 0
    body = Draft(
        role=entry.role,
        message=entry.message,
        contents=entry.contents,
        control=entry.control,
        cover=entry.cover,
    )
    return len(encode_body(body).encode()) + len((encode_metadata(entry.metadata) or "").encode())
