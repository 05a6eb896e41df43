"""The composition root: log, recall and history as one memory, and as LangChain Runnables."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack
from urllib.parse import parse_qsl, urlsplit

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.runnables import Runnable
from pydantic import SecretStr

from langchain_convmem.effects import Step, Steps, arun, run, step
from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.history import (
    ConversationHistory,
    context_steps,
    fork_steps,
    read_all_steps,
    read_live_steps,
)
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.addresses import open_log
from langchain_convmem.protocols import MessageLog, OwnerListing
from langchain_convmem.records import (
    Context,
    Draft,
    Entry,
    ForgetReceipt,
    Owner,
    Recall,
    ThreadInfo,
    ThreadKey,
    Turn,
)
from langchain_convmem.turns.options import TurnOptions, TurnSettings
from langchain_convmem.turns.replies import INTERRUPTED
from langchain_convmem.turns.tracing import OWN_TOKENS
from langchain_convmem.turns.turn import ActiveTurns
from langchain_convmem.views.codec import encode_body, encode_metadata
from langchain_convmem.views.drafts import Drafting, WriteHook
from langchain_convmem.views.facts import Fact, told
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.messages import MessagesInput, read_messages
from langchain_convmem.views.providers import Profile, resolved
from langchain_convmem.views.summaries import summaries_over
from langchain_convmem.views.tokens import count_tokens
from langchain_convmem.views.turns import turns
from langchain_convmem.wrap import chain_shape

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables.base import RunnableLike

    from langchain_convmem.conversation import Conversation, ConversationConfig, Engine, Preface
    from langchain_convmem.conversation.media import MediaLimits
    from langchain_convmem.protocols import Summarizer, TextEngine, ThreadMemory
    from langchain_convmem.recall import DialogLineRetriever, DialogRecall, RecallSettings
    from langchain_convmem.recall.dialog_recall import EmbedderUse
    from langchain_convmem.recall.embedders import Embedder
    from langchain_convmem.recall.options import LineFilter, Moment, Owners
    from langchain_convmem.recall.recall import Rewriter
    from langchain_convmem.summarizing import Compactor, SummaryReport, SummarySettings
    from langchain_convmem.summarizing.compactor import BackgroundJobs
    from langchain_convmem.summarizing.summarizers import SummarizerLike
    from langchain_convmem.text import ChatTemplate
    from langchain_convmem.text.reply_formats import Channel, ReplyFormat
    from langchain_convmem.transfer import ImportReport
    from langchain_convmem.transfer.imports import ImportedFile
    from langchain_convmem.wrap import RememberingRunnable


# -- What every part of a memory stands on: a log, and what is stored of what is said -------------


class MemoryPart:
    """A log, and the write hook in front of it. Thread-safe as both are."""

    log: MessageLog
    """Where entries are kept."""
    drafting: Drafting
    """Makes drafts of messages, through the write hook; whoever writes to `log` writes these."""
    active_turns: ActiveTurns
    """The turns of chains and conversations that are under way."""

    @property
    def log_place(self) -> Hashable:
        """What tells the log from others in this process; handles of one file are one log."""
        return getattr(self.log, "path", None) or id(self.log)

    def _note_stored(self, owner: Owner) -> None:
        """Note that lines of an owner were stored; what finds them may prepare itself."""


# -- The part of a memory that finds what was said ------------------------------------------------


class RecallingMemory(MemoryPart):
    """Recall over the log: its engine is made when it is first asked for."""

    _options: MemoryOptions
    _lock: threading.Lock
    _recall: DialogRecall | None

    def _set_up_recall(self, options: MemoryOptions) -> None:
        """Take the options, refusing what fits nothing, or not together."""
        _check_hooks(options.get("rewriter"), options.get("reranker"))
        _check_embeddings(options.get("embeddings"))
        _check_recall(options, self.log)
        self._lock = threading.Lock()
        self._recall = None

    @property
    def line_recall(self) -> DialogRecall:
        """The recall over this memory's log, behind its write hook; made on first use."""
        with self._lock:
            if self._recall is None:
                from langchain_convmem.recall.dialog_recall import CarefulRecall

                self._recall = CarefulRecall(self._own_recall(), self.drafting)
            return self._recall

    def _own_recall(self) -> DialogRecall:
        options = self._options
        given = options.get("line_recall")
        if given is not None:
            return given
        from langchain_convmem.recall import LineRecall

        return LineRecall(
            self.log,
            options.get("embeddings", "auto"),
            options.get("settings"),
            rewriter=options.get("rewriter"),
            reranker=options.get("reranker"),
        )

    def _stop_recall(self) -> None:
        """End what a recall of this memory does behind; one that was passed in goes on."""
        if self._recall is not None and self._options.get("line_recall") is None:
            self._recall.close()

    async def _astop_recall(self) -> None:
        if self._recall is not None:
            from langchain_convmem.recall.embedding import in_worker

            await in_worker(self._stop_recall)

    def _note_stored(self, owner: Owner) -> None:
        """Have lines that were just stored embedded behind, where the owner was searched before."""
        if self._recall is not None:
            self._recall.embed_behind(owner)

    def wished_tokens(self, options: TurnOptions) -> int:
        """Return how many tokens of recalled lines a turn with these options wishes for."""
        if not options.recall:
            return 0
        given = self._options.get("line_recall")
        settings = self._options.get("settings") if given is None else given.settings
        return options.recall_tokens or (settings and settings.max_tokens) or _RECALL_TOKENS

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
            max_tokens: Or as many blocks as fit this budget (characters / 4).
            threshold: Leave out lines whose cosine similarity does not surpass this; "auto": find
                nothing where the question is not related to anything that was said.
            filter: By name the value that a line must have, or a list of values of which it must
                have one; see `RecallOptions`.
            since: Only lines from this time on: a datetime with its zone, or milliseconds.
            until: Only lines before this time.

        Raises:
            ConfigError: If the call names nobody, or users in two ways, or the scope makes no
                sense.
        """
        from langchain_convmem.recall import DialogLineRetriever
        from langchain_convmem.recall.options import users

        if user_ids is None:
            owner_of(user_id, thread_id)
        else:
            user_ids = frozenset(str(one.user_id) for one in users(user_ids))
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
        **options: Unpack[RecallCallOptions],
    ) -> Recall:
        """Return the dialog lines that fit a query best, with the lines around them.

        Args:
            query: What to look for, as it was said. The write hook is asked about it first, since
                an embedder may be another's; where it leaves nothing, nothing is found.
            user_id: Search all threads of this user.
            thread_id: With a user: the current thread, whose live context is left out, since the
                model sees it anyway. Without: the one thread to search, whole.
            user_ids: Search all threads of all these users together: whoever asks reads what every
                one of them said. `user_id`, then one of them, and `thread_id` name the current
                thread alone.
            **options: How much, of what kind, from when; see `RecallCallOptions`.

        Raises:
            ConfigError: If an argument makes no sense; the message names it.
        """
        return run(self._recall_steps(query, user_id, thread_id, user_ids, options))

    async def arecall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        user_ids: Collection[str] | None = None,
        **options: Unpack[RecallCallOptions],
    ) -> Recall:
        """Return the dialog lines that fit a query best; see `recall`."""
        return await arun(self._recall_steps(query, user_id, thread_id, user_ids, options))

    def _recall_steps(
        self,
        query: str,
        user_id: str | None,
        thread_id: str | None,
        user_ids: Collection[str] | None,
        options: RecallCallOptions,
    ) -> Steps[Recall]:
        owners = _searched(user_id, thread_id, user_ids)
        current: ThreadKey | None = None
        exclude: Mapping[ThreadKey, Collection[int]] = {}
        if user_id is not None and thread_id is not None:
            current = ThreadKey(user_id, thread_id)
            view = yield from context_steps(self.log, current)
            exclude = {current: view.positions}
        found: Recall = yield from self.line_recall.recall_steps(
            owners, query, exclude=exclude, buffer=current, **options
        )
        return found

    def refresh(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Index ahead what was added since, so that the next recall need not.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user.
            progress: Called with (done, total) lines.

        Returns:
            Problems, one sentence each, such as a failing embedder; empty when every line is
            indexed whole.
        """
        return self.line_recall.refresh(owner_of(user_id, thread_id), progress=progress)

    async def arefresh(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Index ahead what was added since; see `refresh`. `progress` is called in a worker."""
        return await self.line_recall.arefresh(owner_of(user_id, thread_id), progress=progress)

    def embedder_of(
        self, *, user_id: str | None = None, thread_id: str | None = None
    ) -> EmbedderUse:
        """Return what embeds somebody's lines, and how many still wait for it.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user.

        Raises:
            ConfigError: If the call names nobody.
            LogError: If the log cannot be read.
        """
        return self.line_recall.embedder_of(owner_of(user_id, thread_id))

    async def aembedder_of(
        self, *, user_id: str | None = None, thread_id: str | None = None
    ) -> EmbedderUse:
        """Return what embeds somebody's lines; see `embedder_of`."""
        from langchain_convmem.recall.embedding import in_worker

        return await in_worker(lambda: self.embedder_of(user_id=user_id, thread_id=thread_id))


# -- The part of a memory that compacts -----------------------------------------------------------


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
        from langchain_convmem.summarizing.planning import Size

        framing = [one for one in view.messages if isinstance(one, SystemMessage)]
        size = Size(
            view.tokens - count_tokens(framing) + count_tokens(replies),
            len(view.messages) - len(framing) + len(replies),
        )
        return not view.is_whole or self.compactor.settings.is_due(size)

    @property
    def background(self) -> BackgroundJobs:
        """The workers that compact behind the back of the conversation."""
        from langchain_convmem.summarizing.compactor import BackgroundJobs

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


# -- The part of a memory that holds conversations ------------------------------------------------


class _Unset:
    """The value of a setting that a call leaves to the configuration."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


class ConversingMemory(SummarizingPart):
    """Conversations that live in a thread."""

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
        remember: bool = True,
        profile: Profile | None = None,
        config: ConversationConfig | None = None,
        preface: Preface = UNSET,
        template: ChatTemplate | str | None = UNSET,
        reply_format: ReplyFormat | str | None = UNSET,
        channels: Sequence[Channel] | None = UNSET,
        stop: Sequence[str] = UNSET,
        prefill_preface: bool = UNSET,
        keep_reasoning: Literal["all", "loop"] = UNSET,
        thinking: bool | None = UNSET,
        context_kwargs: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = UNSET,
        auto_tools: bool = UNSET,
        max_tool_rounds: int = UNSET,
        on_tool_limit: Literal["undo", "keep"] = UNSET,
        tool_handler: Callable[..., Any] | None = UNSET,
        on_tool_result: Callable[..., Any] | None = UNSET,
        parallel_tools: bool = UNSET,
        on_broken_call: Literal["raise", "invalid"] = UNSET,
        answer_missing: Literal["error", "cancelled"] = UNSET,
        on_divergence: Literal["rewind", "error"] = UNSET,
        on_busy: Literal["wait", "error"] = UNSET,
        busy_timeout_s: float | None = UNSET,
        on_cancel: Literal["discard", "keep"] = UNSET,
        on_max_tokens: Literal["return", "raise"] = UNSET,
        max_output_tokens: int | None = UNSET,
        media_limits: MediaLimits = UNSET,
        model_kwargs: Mapping[str, Any] = UNSET,
    ) -> Conversation:
        """Return a conversation whose history is a thread: it goes on where that stands.

        What is asked is stored before the model is called, the rest of the turn in one write when
        the reply is there. A turn that fails is taken back. What is recalled stands before the
        user's words; the log keeps these alone. A send may set options for itself:
        `config={"configurable": {"memory": {"recall": False}}}`.

        Args:
            model: A chat model, a text engine, or an engine that several conversations share.
            thread_id: The thread.
            user_id: Its user, whose lines are recalled.
            recall: Whether to recall lines of earlier conversations; this and the next six as in
                `wrap`.
            recall_tokens: Budget of the recalled text.
            recall_k: Recall exactly so many blocks instead.
            history_tokens: Budget of what was said in the thread before.
            context_tokens: One budget for all that the model gets.
            reserved_tokens: Of these, so many are left free.
            remember: Whether turns are stored.
            profile: Whose rules the messages keep. None goes by the chat model, and keeps those of
                all (`"strict"`) for text engines.
            config: Settings of the conversation; None takes the engine's defaults. Each of those
                that follow goes before it; `ConversationConfig` says what they mean.
            preface: What stands before the first message.
            template: The chat template of a text engine.
            reply_format: How the replies of a text engine are read.
            channels: Sections of a reply besides its text.
            stop: Texts that end a reply of a text engine.
            prefill_preface: Let a text engine read the preface now.
            keep_reasoning: What a template sees of earlier thoughts.
            thinking: Whether the model is to think.
            context_kwargs: What extra context means to a chat model.
            auto_tools: Call tools until the model replies without calls.
            max_tool_rounds: How often tools are called within one turn.
            on_tool_limit: What becomes of the turn then.
            tool_handler: Asked before each call.
            on_tool_result: May rewrite a result.
            parallel_tools: Run the calls of one reply at the same time.
            on_broken_call: What becomes of calls that cannot be read.
            answer_missing: What becomes of calls without result when the user speaks.
            on_divergence: What becomes of a session that has read earlier turns otherwise.
            on_busy: Wait for earlier turns, or refuse.
            busy_timeout_s: Seconds to wait at most; None waits for ever.
            on_cancel: What becomes of a turn that is cancelled.
            on_max_tokens: What becomes of a reply that was cut short.
            max_output_tokens: The most tokens of a reply.
            media_limits: How large media may be, and where they may lie.
            model_kwargs: Arguments of every call of the model.

        Raises:
            ConfigError: If a setting does not fit the model, or a budget leaves no room.
        """
        given = locals()  # before any other name is bound
        from langchain_convmem.conversation import Conversation, ConversationConfig, Engine

        engine = model if isinstance(model, Engine) else Engine(model)
        options: dict[str, Any] = {name: given[name] for name in TurnSettings.__annotations__}
        options["profile"] = profile or _profile_of(engine.model)
        thread = self.conversation_thread(thread_id, user_id=user_id, **options)
        names = ConversationConfig.model_fields
        settings = {name: given[name] for name in names if given[name] is not UNSET}
        return Conversation(engine, config, history=thread, **settings)

    def conversation_thread(
        self, thread_id: str, *, user_id: str | None = None, **options: Unpack[ThreadOptions]
    ) -> ThreadMemory:
        """Return a thread for `history=` of a conversation.

        `await engine.acreate_conversation(history=memory.conversation_thread("t7"))` begins one
        within an event loop.

        Raises:
            ConfigError: If a budget leaves no room.
        """
        from langchain_convmem.thread_memory import MemoryThread

        settings: dict[str, Any] = {**options}
        profile = resolved(settings.pop("profile", None) or "strict")
        turn_options = TurnOptions.of(settings, where="a conversation")
        self.check_options(turn_options)
        return MemoryThread(self, ThreadKey(user_id, thread_id), turn_options, profile)


# -- The part of a memory that counts -------------------------------------------------------------


class CountingMemory(MemoryPart):
    """Tells what threads hold, in numbers."""

    def stats(self, thread_id: str, *, user_id: str | None = None) -> ThreadStats:
        """Return a thread in numbers: messages, turns, tokens, times, bytes.

        Nothing is counted while turns run: the whole thread is read at each call, so ask as often
        as somebody looks, not in every turn.

        Args:
            thread_id: The thread; one that does not exist has nothing.
            user_id: Its user.
        """
        return run(self._stats_steps(ThreadKey(user_id, thread_id)))

    async def astats(self, thread_id: str, *, user_id: str | None = None) -> ThreadStats:
        """Return a thread in numbers; see `stats`."""
        return await arun(self._stats_steps(ThreadKey(user_id, thread_id)))

    def _stats_steps(self, key: ThreadKey) -> Steps[ThreadStats]:

        entries: list[Entry] = yield step(self.log, "entries", key)
        return thread_stats(entries)


# -- The part of a memory that erases -------------------------------------------------------------


class ForgettingMemory(SummarizingPart):
    """Erases for good what was said, and all that was derived from it."""

    def forget(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        entry_ids: Iterable[str] | None = None,
    ) -> ForgetReceipt:
        """Erase for good: a user with all threads, a thread, or entries of a thread.

        What recall keeps of it in this process's memory goes too; other processes notice when they
        next recall for this user. Summaries that tell of it go with it, also those that are written
        meanwhile, and with a summarizer the thread is compacted anew.

        Args:
            user_id: Alone: everything of this user.
            thread_id: This thread of the user, or the thread of no user.
            entry_ids: Only these entries of the thread, by entry id or message id.

        Returns:
            What was erased, in counts.
        """
        return run(self._forget_steps(user_id, thread_id, entry_ids))

    async def aforget(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        entry_ids: Iterable[str] | None = None,
    ) -> ForgetReceipt:
        """Erase for good; see `forget`."""
        return await arun(self._forget_steps(user_id, thread_id, entry_ids))

    def _forget_steps(
        self, user_id: str | None, thread_id: str | None, entry_ids: Iterable[str] | None
    ) -> Steps[ForgetReceipt]:
        owner_of(user_id, thread_id)
        if thread_id is None and entry_ids is not None:
            raise ConfigError("entry_ids need the thread they belong to; pass thread_id")
        if isinstance(entry_ids, str):
            raise ConfigError(f"entry_ids must be a list of ids, got the text {entry_ids!r}")
        scope = ThreadKey(user_id, thread_id) if thread_id is not None else Owner(user_id=user_id)
        ids = None if entry_ids is None else list(entry_ids)
        if isinstance(scope, ThreadKey) and ids:
            receipt = yield from self._erasing_steps(scope, ids)
        else:
            receipt = yield step(self.log, "forget", scope, ids)
        if self._recall is not None:
            owner = scope if isinstance(scope, Owner) else scope.owner
            yield from self._recall.forgotten_steps(owner)
        if isinstance(scope, ThreadKey) and ids:
            # What else the summaries covered is shown again.
            yield from self.after_turn_steps(scope)
        return receipt

    def _erasing_steps(self, key: ThreadKey, ids: Sequence[str]) -> Steps[ForgetReceipt]:
        """Erase entries, and the summaries that tell of them, those taken back included."""
        known: list[Entry] = yield step(self.log, "entries", key)
        named = {entry.id for entry in known if not {entry.id, entry.message_id}.isdisjoint(ids)}
        telling = _telling(known, named)
        receipt: ForgetReceipt = yield step(self.log, "forget", key, [*ids, *telling])
        while True:
            # A summary may have been written since the thread was read.
            seen = known[-1].position if known else 0
            known = [*known, *(yield step(self.log, "entries", key, after=seen))]
            late = [name for name in _telling(known, named) if name not in telling]
            if not late:
                return receipt
            telling += late
            more: ForgetReceipt = yield step(self.log, "forget", key, late)
            receipt = _both(receipt, more)


# -- The part of a memory that reads files of other services --------------------------------------


class ImportingMemory(MemoryPart):
    """Imports: every file that `convmem import` reads."""

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        format: str | None = None,  # noqa: A002 - what it is called everywhere
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Store the conversations of a file, and return what became of them.

        The file is checked to its last line before the first write, and importing it again doubles
        nothing; a file that has grown adds what is new. The lines are found by the next recall, or
        by `refresh` ahead of it. Survives a crash of the process, not of the machine: import again
        after one.

        Args:
            path: An export of ChatGPT, Claude or convmem, messages of OpenAI's API, a store of
                LangChain or LangGraph, a dialogue; see the page on import, export and copy.
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
        return run(self._import_steps(path, user_id, thread_id, format, progress))

    async def aimport_file(
        self,
        path: str | os.PathLike[str],
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        format: str | None = None,  # noqa: A002 - as above
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Store the conversations of a file; see `import_file`. It is read in a worker thread."""
        return await arun(self._import_steps(path, user_id, thread_id, format, progress))

    def _import_steps(
        self,
        path: str | os.PathLike[str],
        user_id: str | None,
        thread_id: str | None,
        form: str | None,
        progress: Callable[[int, int], None] | None,
    ) -> Steps[ImportReport]:
        from langchain_convmem.transfer import read_threads
        from langchain_convmem.transfer.imports import ImportedFile, store_file_steps

        def read() -> ImportedFile:
            threads = read_threads(path, thread_id=thread_id, format=form)
            return ImportedFile(os.fspath(path), tuple(threads))

        file: ImportedFile = yield Step(read, lambda: asyncio.to_thread(read))
        report = yield from store_file_steps(self.log, file, user_id, self.drafting, progress)
        for thread in report.thread_ids:
            self._note_stored(ThreadKey(user_id, thread).owner)
        return report


# -- The part of a memory that changes its embedder -----------------------------------------------


class ReindexingMemory(RecallingMemory):
    """Has lines embedded anew that another embedder has embedded."""

    def reindex(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        everything: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Embed lines anew after a change of the embedder, and delete the old vectors then.

        Until then nothing is sent to the new embedder: lines are found by their words, and
        `Recall.problems` says so. Each batch is stored before the next one is sent, so after a
        failure or a kill another call goes on where this one stopped. Run it when no process works
        with the old embedder any more.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user; or
            everything: those of everybody, one after the other.
            progress: Called with (done, total) segments of one user.

        Returns:
            Problems, one sentence each; empty when every line is indexed whole.

        Raises:
            ConfigError: If the call names nobody, or everybody of a log that cannot list them.
            LogError: If the log cannot be read.
        """
        return run(self._reindex_steps(user_id, thread_id, everything, progress))

    async def areindex(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        everything: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Embed lines anew; see `reindex`. `progress` is called in a worker."""
        return await arun(self._reindex_steps(user_id, thread_id, everything, progress))

    def _reindex_steps(
        self,
        user_id: str | None,
        thread_id: str | None,
        everything: bool,
        progress: Callable[[int, int], None] | None,
    ) -> Steps[tuple[str, ...]]:
        if everything:
            owners = yield from self._everybody(user_id, thread_id)
        else:
            owners = [owner_of(user_id, thread_id)]
        problems: dict[str, None] = {}
        for owner in owners:
            found = yield step(self.line_recall, "reindex", owner, progress)
            problems |= dict.fromkeys(found)
        return tuple(problems)

    def _everybody(self, user_id: str | None, thread_id: str | None) -> Steps[Sequence[Owner]]:
        if user_id is not None or thread_id is not None:
            raise ConfigError("pass user_id or thread_id, or everything=True, not both")
        if not isinstance(self.log, OwnerListing):
            msg = f"{type(self.log).__name__} cannot list whose lines it has; name each user"
            raise ConfigError(msg)
        owners: Sequence[Owner] = yield step(self.log, "owners")
        return owners


# -- The part of a memory that keeps threads and what is said in them -----------------------------


class RememberingMemory(MemoryPart):
    """Threads: their histories, forks of them, and messages by the batch."""

    def history(self, thread_id: str, *, user_id: str | None = None) -> ConversationHistory:
        """Return the history of a thread, which need not exist yet."""
        hook = self.drafting.hook
        return ConversationHistory(self.log, thread_id, user_id=user_id, before_write=hook)

    def threads(self, user_id: str | None = None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; None lists the threads of no user."""
        return self.log.threads(user_id)

    async def athreads(self, user_id: str | None = None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `threads`."""
        return await self.log.athreads(user_id)

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
        fork = run(fork_steps(self.log, ThreadKey(user_id, thread_id), at, new_thread_id))
        return self.history(fork.thread_id, user_id=user_id)

    async def afork(
        self,
        thread_id: str,
        *,
        at: str | Turn | None = None,
        new_thread_id: str | None = None,
        user_id: str | None = None,
    ) -> ConversationHistory:
        """Return a new thread that goes on from a point of another; see `fork`."""
        fork = await arun(fork_steps(self.log, ThreadKey(user_id, thread_id), at, new_thread_id))
        return self.history(fork.thread_id, user_id=user_id)

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
                epoch), `additional_kwargs["session"]` the sitting.
            thread_id: The thread.
            user_id: Its user.
            turn_id: The turn they belong to, a ULID: what is asked and what answers it stand
                together in every view. None makes each message a turn of its own.
            durable: Survive a crash of the machine; False, for imports that can be repeated: a
                crash of the process only.

        Returns:
            One entry per message, in order; for a message the thread already has, the entry that is
            there. There is none for a message that is marked
            `additional_kwargs={"remember": False}`, nor for one of which the write hook stores
            nothing.

        Raises:
            InvalidMessageError: If one of them cannot be stored; nothing is written.
        """
        key, drafts = ThreadKey(user_id, thread_id), self._drafts(messages, turn_id)
        entries = self.log.append(key, drafts, durable=durable)
        self._note_stored(key.owner)
        return entries

    async def aadd_messages(
        self,
        messages: MessagesInput,
        *,
        thread_id: str,
        user_id: str | None = None,
        turn_id: str | None = None,
        durable: bool = True,
    ) -> list[Entry]:
        """Store messages verbatim in a thread; see `add_messages`."""
        key, drafts = ThreadKey(user_id, thread_id), self._drafts(messages, turn_id)
        entries = await self.log.aappend(key, drafts, durable=durable)
        self._note_stored(key.owner)
        return entries

    def _drafts(self, messages: MessagesInput, turn_id: str | None) -> list[Draft]:
        return self.drafting.drafts(read_messages(messages), turn_id=turn_id)


# -- `ConversationMemory` -------------------------------------------------------------------------


class ConversationMemory(
    RememberingMemory,
    ConversingMemory,
    ReindexingMemory,
    CountingMemory,
    ImportingMemory,
    ForgettingMemory,
):
    """Remembers conversations: what was said, verbatim, in this thread and in earlier ones.

    Thread-safe; one object serves a whole application. Several processes may share a log.
    """

    def __init__(self, log: MessageLog, **options: Unpack[MemoryOptions]) -> None:
        """Compose a memory from its parts.

        Args:
            log: Where entries are kept; stays the caller's to close.
            **options: Embedder, recall, write hook and summaries; see `MemoryOptions`.

        Raises:
            ConfigError: If there is no such option, or one fits nothing; the message names it.
        """
        _check_options(options)
        self.log = log
        self.drafting = Drafting(options.get("before_write"))
        self.active_turns = ActiveTurns()
        self._options = options
        self._owns_log = False
        self._address: str | None = None
        self._set_up_recall(options)
        self._set_up_summaries(options)

    @classmethod
    def open(cls, path: str | os.PathLike[str], **options: Unpack[MemoryOptions]) -> Self:
        """Open or create a memory in a SQLite file, on a server, or in memory with `":memory:"`.

        Args:
            path: Path of the file; or `dynamodb://TABLE?region=NAME&endpoint=URL` (extra `aws`),
                or `postgresql://USER@HOST/DATABASE?schema=NAME` (extra `postgres`).
            **options: Embedder, recall, write hook and summaries; see `MemoryOptions`.

        Raises:
            ConfigError: If the path names no file in an existing directory and no known log, or
                an option fits nothing.
            MissingExtraError: If the log's driver is not installed.
        """
        cls(InMemoryLog(), **options)  # options are refused before anything is opened
        place = os.fspath(path)
        log = InMemoryLog() if place == ":memory:" else open_log(place)
        memory = cls(log, **options)
        memory._owns_log = True
        memory._address = place
        return memory

    def __repr__(self) -> str:
        return f"ConversationMemory({self.log!r})"

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
        address = portable_address(self._address)
        return _reopened, (type(self), address, self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Wait for turns under way, finish the summary in the making, release what was opened here.

        Turns of graphs and agents are runs of LangGraph: wait for these before. Turns that began in
        this thread cannot go on while it waits, and are not waited for. Lines that wait to be
        embedded wait for another process, or another recall, unless they are few. A log that was
        passed in stays open. Idempotent.

        Args:
            timeout_s: Seconds to wait for turns at most; None waits for ever. A turn that ends
                later raises `LogClosedError` where it stores its reply.
        """
        self.active_turns.wait(timeout_s)
        self._stop_summaries()
        self._stop_recall()
        if self._owns_log:
            self.log.close()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Wait for turns under way, and release what was opened here; see `close`.

        The event loop runs meanwhile: streams that were left and tasks that were cancelled just
        before store what they had.
        """
        await self.active_turns.await_all(timeout_s)
        await self._astop_summaries()
        await self._astop_recall()
        if self._owns_log:
            await self.log.aclose()

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
        remember: bool = True,
        queue_timeout_s: float = 300.0,
        profile: Profile | None = None,
        user_id_key: str | None = None,
        input_key: str | None = None,
        history_key: str | None = None,
        output_key: str | None = None,
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
            recall_tokens: Budget of the recalled text (characters / 4).
            recall_k: Recall exactly so many blocks instead. Neither: what the settings say, which
                is a budget of 1,000 by default.
            history_tokens: Budget of what was said in the thread before; None is all of it. The
                oldest exchanges are left out whole; the new message does not count.
            context_tokens: One budget for all that the model gets: system messages, summary,
                recalled lines, what was said before and the new message. First comes what cannot
                be cut, then recalled lines, then as many of the latest exchanges as fit.
            reserved_tokens: Of these, so many are left for what stands outside the messages, such
                as the prompt's own words and the descriptions of tools.
            remember: Whether turns are stored.
            queue_timeout_s: How long a turn waits for earlier turns of its thread.
            profile: Whose rules the messages keep, as in `history.context`; None goes by the chat
                models found inside, and where these differ or cannot be seen, by `"strict"`.
            user_id_key: If set, the metadata of runs names the user by a hash under this key, so
                that traces can be told apart by user without naming anybody.
            input_key: Key of what the user says, in a dict that is passed and in the dict that
                `inner` gets; `input` by default.
            history_key: Key of what was said before, in both; `history` by default.
            output_key: Key of the answer in a dict that `inner` returns; `output` by default, or
                `messages`.

        Raises:
            ConfigError: If `inner` is not a chain, there is no such profile, or a budget leaves no
                room for messages, or none for as many as are said before they are summarised.
        """
        from langchain_convmem.wrap import RememberingRunnable, read_chain

        if profile is not None:
            resolved(profile)
        options = TurnOptions(
            recall=recall,
            recall_tokens=recall_tokens,
            recall_k=recall_k,
            history_tokens=history_tokens,
            context_tokens=context_tokens,
            reserved_tokens=reserved_tokens,
            remember=remember,
        )
        self.check_options(options)
        return RememberingRunnable(
            memory=self,
            inner=read_chain(inner),
            **asdict(options),
            queue_timeout_s=queue_timeout_s,
            profile=profile,
            user_id_key=None if user_id_key is None else SecretStr(user_id_key),
            input_key=input_key,
            history_key=history_key,
            output_key=output_key,
        )


def _check_options(options: Mapping[str, object]) -> None:
    known = MemoryOptions.__annotations__
    for name in options:
        if name not in known:
            raise ConfigError(f"a memory has no option {name!r}; it has {', '.join(known)}")


def _reopened(
    kind: type[ConversationMemory], address: str, options: MemoryOptions
) -> ConversationMemory:
    return kind.open(address, **options)


# -- What every part of a memory stands on: a log, and what is stored of what is said -------------


def owner_of(user_id: str | None, thread_id: str | None) -> Owner:
    """Return whose lines are meant.

    Raises:
        ConfigError: If the call names nobody.
    """
    if user_id is None and thread_id is None:
        raise ConfigError("pass user_id, or thread_id for a thread of no user")
    return ThreadKey(user_id, "-" if thread_id is None else thread_id).owner


# -- The part of a memory that finds what was said ------------------------------------------------


_RECALL_TOKENS = 1000


"""Where neither a call nor the settings name a budget."""


class RecallCallOptions(TypedDict, total=False):
    """What a call of `recall` may ask for; each may be left out.

    Attributes:
        k: Exactly so many blocks, or
        max_tokens: as many as fit this budget (default 1,000).
        threshold: Leave out lines whose cosine similarity does not surpass this; "auto": find
            nothing where the question is not related to anything that was said.
        filter: By name the value that a line must have, or a list of values of which it must have
            one: `speaker`, `role`, `session`, `thread_id`, `user_id`, or a key of the message's
            `additional_kwargs`.
        since: Only lines from this time on: a datetime with its zone, or milliseconds since the
            epoch.
        until: Only lines before this time.
        remember: Whether what is found enters the relevance buffer of the current thread, where
            the settings have one. Either way it is in the answer's `buffer`.
        before: What the user said just before, from which a short follow-up such as "and hers?"
            borrows its topic.
    """

    k: int | None
    max_tokens: int | None
    threshold: float | Literal["auto"] | None
    filter: LineFilter | None
    since: Moment | None
    until: Moment | None
    remember: bool
    before: str | None


def _searched(
    user_id: str | None, thread_id: str | None, user_ids: Collection[str] | None
) -> Owners:
    """Return whose lines are searched.

    Raises:
        ConfigError: If the call names nobody, or a current thread of none of `user_ids`.
    """
    if user_ids is None:
        return owner_of(user_id, thread_id)
    from langchain_convmem.recall.options import users

    owners = users(user_ids)
    if (user_id is None) != (thread_id is None):
        msg = "with user_ids, pass both user_id and thread_id of the current thread, or neither"
        raise ConfigError(msg)
    if user_id is not None and user_id not in user_ids:
        msg = f"user_id must be one of user_ids, got {user_id!r}"
        raise ConfigError(msg)
    return owners


def _check_recall(options: MemoryOptions, log: MessageLog) -> None:
    """Refuse a recall that is none, searches elsewhere, or comes with parts of another one.

    Raises:
        ConfigError: If it is so; the message names what does not fit.
    """
    given = options.get("line_recall")
    if given is None:
        return
    from langchain_convmem.recall import DialogRecall

    if not isinstance(given, DialogRecall):
        msg = f"line_recall must be a DialogRecall such as VectorStoreRecall, got {given!r}"
        raise ConfigError(msg)
    if given.log is not log:
        msg = (
            f"line_recall searches {given.log!r}, and this memory keeps {log!r}: make both of one "
            "log, ConversationMemory(log, line_recall=...)"
        )
        raise ConfigError(msg)
    for name in ("embeddings", "settings", "rewriter", "reranker"):
        if options.get(name) not in (None, "auto"):
            raise ConfigError(f"line_recall has its own {name}; pass one or the other")


def _check_embeddings(embeddings: Embedder) -> None:
    """Refuse a text that is no choice; recall itself is imported only where there is one.

    Raises:
        ConfigError: If it is another one than "auto".
    """
    if isinstance(embeddings, str) and embeddings != "auto":
        from langchain_convmem.recall.embedders import EmbedderChoice

        EmbedderChoice.check(embeddings)


def _check_hooks(rewriter: object, reranker: object) -> None:
    """Refuse what can never serve as a hook; recall itself is imported only where there is one.

    Raises:
        ConfigError: If it cannot; the message names it.
    """
    if rewriter is None and reranker is None:
        return
    from langchain_convmem.recall.recall import check_hooks

    check_hooks(rewriter, reranker)


# -- The part of a memory that holds conversations ------------------------------------------------


class ThreadOptions(TurnSettings, total=False):
    """What a conversation sees of its thread and of others: `TurnOptions`, and a profile.

    Attributes:
        profile: Whose rules the messages keep. None goes by the chat model, and keeps those of all
            (`"strict"`) for text engines.
    """

    profile: Profile | None


def _profile_of(model: Any) -> Profile | None:
    """Return whose rules a model's messages keep; None for one that reads text."""
    if not isinstance(model, Runnable):
        return None
    return chain_shape(model, {}, None).profile


# -- The part of a memory that compacts -----------------------------------------------------------


SummarizeWhen = Literal["background", "foreground"] | Callable[[ThreadKey], object]


"""When a thread that is due is compacted after a turn: behind its back by a worker thread; before
the turn ends; or by whoever the function tells, such as a queue whose worker calls `summarize`."""


_logger = logging.getLogger("langchain_convmem")


_MOST_SENTENCES = 300


_BLOCKS = 3


def _is_told(fact: Fact, text: str) -> bool:
    # Most are found in the sentence they were said in, and taking a text apart is dear.
    return fact.sentence in text or told([fact], text)[0]


# -- The part of a memory that erases -------------------------------------------------------------


def _telling(entries: Iterable[Entry], ids: Collection[str]) -> list[str]:
    """Return the ids of the summaries that tell of entries."""
    return summaries_over([entry for entry in entries if entry.control is None], ids)


def _both(first: ForgetReceipt, second: ForgetReceipt) -> ForgetReceipt:
    return replace(
        second,
        entries=first.entries + second.entries,
        threads=first.threads + second.threads,
        segments=first.segments + second.segments,
        documents=first.documents + second.documents,
    )


# -- The options of a memory, whichever way it is made --------------------------------------------


class MemoryOptions(TypedDict, total=False):
    """What a memory is made of besides its log; each may be left out.

    Attributes:
        embeddings: Any LangChain embeddings. `"auto"` (the default; None is the same) is one that
            comes with the package and needs neither key nor network: for new users the sentence
            encoder, where its weights are installed, else the static model; users of whom vectors
            are stored keep theirs until `reindex`.
        settings: How lines are recalled; None is the default of `RecallSettings`.
        before_write: Gets a copy of each message before it is stored or embedded, and returns what
            to store, or None to store nothing of it; see `WriteHook`. It stands before every way
            in: added and wrapped messages, edits, summaries and imports, and before the questions
            that are recalled with. None stores every message as it is.
        rewriter: Makes of a question what to search for; see `LineRecall`, as for the next.
        reranker: Puts the lines that were found in an order of its own.
        line_recall: Finds lines instead of a `LineRecall` made of the above, over the same log:
            such as `integrations.VectorStoreRecall`. Questions pass the write hook first.
        summarizer: Writes the summaries that take the place of what was said long ago: a chat
            model, another Runnable or function of messages, or the model-free
            `offline.ExtractiveSummarizer()`. None: nothing is ever summarised.
        summary_settings: When a thread is compacted, and how far.
        summarize_when: By a worker thread after the turn (`"background"`, the default); within the
            turn (`"foreground"`), for scripts; or by whoever a function tells, given the
            `ThreadKey` of a thread that is due, such as a queue whose worker calls `summarize`.
    """

    embeddings: Embedder
    settings: RecallSettings | None
    before_write: WriteHook | None
    rewriter: Rewriter | None
    reranker: BaseDocumentCompressor | None
    line_recall: DialogRecall | None
    summarizer: SummarizerLike | None
    summary_settings: SummarySettings | None
    summarize_when: SummarizeWhen


# -- What may be written down of where a memory is kept, so that another process can open it ------


_WAY_OUT = "pass the address instead, and call ConversationMemory.open(...) where it is needed"


def portable_address(address: str | None) -> str:
    """Return the address as any process of this machine can open it; paths become absolute.

    Args:
        address: What the memory was opened with; None if it was given its log.

    Raises:
        ConfigError: If there is no address, nobody else can open it, or it holds a password.
    """
    if address is None:
        msg = f"a memory that was given its log cannot be pickled, since its log cannot; {_WAY_OUT}"
        raise ConfigError(msg)
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
        interrupted: Replies among `messages` that were cut off.
        input_tokens: Sum of what replies report as read. Every reply of the log counts, also one
            that was replaced since: it was paid for as well.
        output_tokens: Sum of what replies report as written; counted alike.
        unreported: Replies that report nothing.
        own_calls: Calls of models that the memory itself made in turns of `memory.wrap`.
        own_input_tokens: What these calls report as read.
        own_output_tokens: What these calls report as written.
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


def thread_stats(entries: Sequence[Entry]) -> ThreadStats:
    """Return a thread in numbers.

    Args:
        entries: All of its entries by ascending position, control entries included.
    """
    live = live_entries(entries)
    shown = [entry for entry in live if entry.role != "summary"]
    said = sum(entry.control is None for entry in entries)
    usage = _list_usages(entries)
    own = [entry.metadata.aux.get(OWN_TOKENS) for entry in entries]
    times = [ms for entry in entries if (ms := entry.metadata.timing.get("creation")) is not None]
    return ThreadStats(
        entries=len(entries),
        messages=dict(Counter(entry.role for entry in shown)),
        turns=sum(bool(turn.entries) and turn.role != "summary" for turn in turns(entries)),
        summaries=len(live) - len(shown),
        retracted=said - len(live),
        interrupted=sum(INTERRUPTED in entry.metadata.attributes for entry in shown),
        input_tokens=_total(usage, "input_tokens"),
        output_tokens=_total(usage, "output_tokens"),
        unreported=sum(not one for one in usage),
        own_calls=_total(own, "calls"),
        own_input_tokens=_total(own, "input_tokens"),
        own_output_tokens=_total(own, "output_tokens"),
        first_ms=min(times, default=None),
        last_ms=max(times, default=None),
        bytes=sum(map(_size, entries)),
    )


def _list_usages(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return what each reply took; one that was edited or cut took it once."""
    found = {entry.id: _usage(entry) for entry in entries if isinstance(entry.message, AIMessage)}
    for control in (entry.control for entry in entries):
        if control is not None and control.replacement is not None and control.retracts:
            old = control.retracts[0]
            if old in found and found[old] == found.get(control.replacement):
                del found[old]
    return list(found.values())


def _usage(entry: Entry) -> Mapping[str, Any]:
    return getattr(entry.message, "usage_metadata", None) or {}


def _total(counts: Iterable[Any], name: str) -> int:
    """Return the sum of a count; what applications put under the same key may be anything."""
    found = (one.get(name) for one in counts if isinstance(one, Mapping))
    return sum(number for number in found if isinstance(number, int))


def _size(entry: Entry) -> int:
    body = Draft(
        role=entry.role,
        message=entry.message,
        contents=entry.contents,
        control=entry.control,
        cover=entry.cover,
    )
    return len(encode_body(body).encode()) + len((encode_metadata(entry.metadata) or "").encode())
