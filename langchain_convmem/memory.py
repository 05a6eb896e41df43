"""`ConversationMemory`: a log, recall over it and summaries of it, as one object."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.runnables import Runnable

from langchain_convmem.background import run_in_thread, to_async
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.history import ConversationHistory, fork_thread
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.addresses import open_log
from langchain_convmem.message_log import MessageLog, append_messages
from langchain_convmem.records import ThreadKey, find_owner, read_id
from langchain_convmem.titles import check_title, list_threads, list_titles, update_thread
from langchain_convmem.turns import whole_threads
from langchain_convmem.turns.memory import TurnMemory, TurnOptions, check_count
from langchain_convmem.turns.view import read_live
from langchain_convmem.turns.whole_threads import ThreadStats, compute_stats
from langchain_convmem.views.messages import DraftBuilder, read_counter, read_messages
from langchain_convmem.views.providers import Provider, resolve_provider

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables.base import RunnableLike

    from langchain_convmem.conversation import Conversation, ConversationConfig, Engine, Preface
    from langchain_convmem.logs.as_of import PointInTime
    from langchain_convmem.profile import ProfilerReport, UserProfile
    from langchain_convmem.profile.profiler import ProfilerLike
    from langchain_convmem.recall import DialogLineRetriever, DialogRecall, RecallSettings
    from langchain_convmem.recall.options import LineFilter, Moment
    from langchain_convmem.recall.recall import Rewriter
    from langchain_convmem.records import DialogLine, Entry, ForgetReceipt, ThreadInfo
    from langchain_convmem.summarizing import SummaryReport, SummarySettings
    from langchain_convmem.summarizing.summarizers import SummarizerLike
    from langchain_convmem.text.sessions import TextEngine
    from langchain_convmem.transfer import ImportReport
    from langchain_convmem.turns.memory import OnSummary, RecallPlace, SummarizeWhen
    from langchain_convmem.views.lines import Recall
    from langchain_convmem.views.live import Turn
    from langchain_convmem.views.messages import MessagesInput, TokenCounterLike, WriteHook
    from langchain_convmem.wrap import RememberingRunnable

_NOT_OPTIONS = ("cls", "self", "path", "log", "recall", "signing_key")
"""What a memory is given besides options that it takes however its log was opened."""


class ConversationMemory:
    """Remembers conversations verbatim, in this thread and in earlier ones.

    Thread-safe; one object serves a whole application. Several processes may share a log.
    """

    log: MessageLog
    """The log that stores the entries."""

    def __init__(
        self,
        log: MessageLog,
        *,
        embeddings: Embeddings | None = None,
        settings: RecallSettings | None = None,
        before_write: WriteHook | None = None,
        rewriter: Rewriter | None = None,
        recall: DialogRecall | None = None,
        summarizer: SummarizerLike | Literal["auto"] | None = None,
        summary_settings: SummarySettings | None = None,
        summarize_when: SummarizeWhen = "background",
        token_counter: TokenCounterLike | None = None,
        on_summary: OnSummary | None = None,
        profile_tokens: int = 150,
        profiler: ProfilerLike | None = None,
    ) -> None:
        """Create a memory over an open log.

        The caller closes the log. `recall`, such as `integrations.VectorStoreRecall`, finds lines
        in the same log instead of a `LineRecall` with `embeddings`, `settings` and `rewriter`; the
        caller closes it, too. The other options are those of `open`.

        Raises:
            ConfigError: If an option is invalid; the message names it.
        """
        given = locals()  # before any other name is bound
        self._options = {name: given[name] for name in given if name not in _NOT_OPTIONS}
        check_count("profile_tokens", profile_tokens, 0)
        if not isinstance(log, MessageLog):
            way = "ConversationMemory.open(path) opens one"
            raise ConfigError(f"log must be a MessageLog, got {describe_value(log)}; {way}")
        drafting, counter = DraftBuilder(before_write), read_counter(token_counter)
        turns = TurnMemory(log, drafting, counter, profile_tokens)
        turns.set_recall(recall, embeddings=embeddings, settings=settings, rewriter=rewriter)

        def read(key: ThreadKey) -> Sequence[Entry]:
            return read_live(log, key).entries

        turns.set_summarizer(summarizer, summary_settings, summarize_when, on_summary, read)
        if profiler is not None:
            from langchain_convmem.profile.profiler import Profiler

            turns.profiler = Profiler(log, profiler)
        self.log, self._turn_memory, self._owns_log = log, turns, False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embeddings: Embeddings | None = None,
        settings: RecallSettings | None = None,
        before_write: WriteHook | None = None,
        rewriter: Rewriter | None = None,
        summarizer: SummarizerLike | Literal["auto"] | None = None,
        summary_settings: SummarySettings | None = None,
        summarize_when: SummarizeWhen = "background",
        on_summary: OnSummary | None = None,
        signing_key: bytes | str | None = None,
        token_counter: TokenCounterLike | None = None,
        profile_tokens: int = 150,
        profiler: ProfilerLike | None = None,
    ) -> Self:
        """Open or create a memory in a SQLite file, on a server, or in memory with `":memory:"`.

        Args:
            path: Path of the file, or `dynamodb://TABLE?region=NAME&endpoint=URL` (extra `aws`),
                or `postgresql://USER@HOST/DATABASE?schema=NAME` (extra `postgres`).
            embeddings: Any LangChain embeddings. None uses `UniversalSentenceEmbeddings`, which
                comes with the package, knows sixteen languages and needs no key or network. Lines
                embedded with another embedder are matched by words until `reindex`.
            settings: How lines are recalled; None uses the defaults of `RecallSettings`.
            before_write: Gets a copy of each message before it is stored or embedded, and returns
                what to store, or None to store nothing; see `WriteHook`. It sees added and wrapped
                messages, edits, summaries, imports and recall questions. None stores every message
                unchanged.
            rewriter: Turns a question into the text to search for; see `LineRecall`.
            summarizer: Writes the summaries that replace old messages in views: a chat
                model, another Runnable or function of messages, or the model-free
                `offline.ExtractiveSummarizer()`. `"auto"` uses the model of the first chain, agent
                or conversation of this memory. None never summarises. After a turn, a coroutine
                function runs in an event loop of its own; `asummarize` awaits it, and `summarize`
                raises a `ConfigError`.
            summary_settings: When a thread is compacted, and how far.
            summarize_when: With `"background"`, a worker thread compacts after the turn; with
                `"foreground"`, the turn waits for it, for scripts.
            on_summary: Gets a `SummaryEvent` whenever a thread was compacted or that failed. It
                must be a plain, quick function, because it is called in the thread that compacts.
            signing_key: A secret of 16 to 64 bytes that signs entries, so that nobody without it
                can alter them unnoticed; see `SQLiteLog`.
            token_counter: Counts all tokens: a function of messages, or a model with its own
                counter, which may use the network. None estimates by script and kind of text.
            profile_tokens: Budget for the user's profile (`profile`), which a model gets in every
                turn with recall; 0 turns it off. Integrations and calls can override it.
            profiler: A chat model, another Runnable or a function of messages that reads a few user
                messages at a time, in the background, and proposes profile items; see
                `update_profile`. None uses only rules, in five languages.

        Raises:
            ConfigError: If the path is neither a file in an existing directory nor a known log, an
                option is invalid, or the log is signed with another key.
            MissingExtraError: If the log's driver is not installed.
        """
        given = locals()  # before any other name is bound
        options = {name: given[name] for name in given if name not in _NOT_OPTIONS}
        memory = cls(InMemoryLog(), **options)  # options are refused before anything is opened
        address = os.fspath(path)
        if address != ":memory:":
            memory = cls(open_log(address, signing_key=signing_key), **options)
        memory._owns_log = True
        return memory

    def __repr__(self) -> str:
        return f"ConversationMemory({self.log!r})"

    # -- Closing and copying ----------------------------------------------------------------------

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Wait for running turns, finish the current summary, and close what this memory opened.

        Turns of graphs and agents are LangGraph runs; wait for them first. Turns that began in this
        thread cannot continue while it waits, so they are not waited for. Lines that are not yet
        embedded, unless they are few, are left to another process or a later recall. A log that was
        passed in stays open. Idempotent.

        Args:
            timeout_s: Maximum seconds to wait for turns; None waits forever. A turn that ends later
                raises `LogClosedError` when it stores its reply.
        """
        self._turn_memory.active_turns.wait(timeout_s)
        self._turn_memory.close()
        if self._owns_log:
            self.log.close()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Wait for running turns and close what this memory opened; see `close`.

        The event loop keeps running, so abandoned streams and cancelled tasks can still store their
        partial replies.
        """
        await run_in_thread(partial(self.close, timeout_s))

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

    # -- Chains and conversations -----------------------------------------------------------------

    def wrap(
        self,
        inner: RunnableLike[Any, Any],
        *,
        options: TurnOptions | None = None,
        recall: bool | None = None,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int | None = None,
        profile_tokens: int | None = None,
        remember: bool | None = None,
        recall_place: RecallPlace | None = None,
        queue_timeout_s: float = 300.0,
        provider: Provider | None = None,
        input_messages_key: str | None = None,
        history_messages_key: str | None = None,
        output_messages_key: str | None = None,
        record_recall: bool = False,
    ) -> RememberingRunnable:
        """Return `inner` with a memory, as a Runnable that accepts user messages in any form.

        Call it with `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is
        required (`session_id` works, too). A call can override options:
        `config={"configurable": {..., "memory": {"recall": False}}}`.

        Args:
            inner: A chat model, or a chain that begins with one, `trim_messages` or a function
                declared to take messages, which gets messages; or any other Runnable or function,
                which gets a dict with `history`, `input` and `recalled` (message lists), `summary`
                (text) and `messages` (all of them). Its result is returned unchanged; the log keeps
                the messages in it, or the message that it was parsed from.
            options: What the model gets in a turn, and whether the turn is stored. Each of the next
                nine arguments overrides it; `TurnOptions` explains them and their defaults.
            recall: Whether to recall lines from earlier conversations.
            recall_tokens: Budget for recalled text.
            recall_k: Number of blocks to recall instead.
            history_tokens: Budget for earlier messages of the thread.
            context_tokens: One budget for everything that the model gets.
            reserved_tokens: The part of it to keep free for text outside the messages.
            profile_tokens: Budget for the user's profile; None uses the memory's setting.
            remember: Whether to store turns.
            recall_place: Whether recalled lines go before the user's text (`"user"`), so that a
                provider can cache everything before them, or into the system message (`"system"`).
            queue_timeout_s: Seconds to wait for earlier turns of the thread.
            provider: Provider rules for messages, as in `history.context`. None follows the chat
                models found inside, or uses `"strict"` if they differ or cannot be seen.
            input_messages_key: Key of the user's message, in a dict input and in the dict that
                `inner` gets; `input` by default.
            history_messages_key: Key of earlier messages, in both; `history` by default.
            output_messages_key: Key of the answer in a dict that `inner` returns; `output` by
                default, or `messages`.
            record_recall: Whether each reply's metadata records which lines were recalled for it:
                `aux["recalled"]`, ids and scores without text, for applications that show them.

        Raises:
            ConfigError: If `inner` is not a chain, the provider is unknown, or a budget leaves no
                room for messages, or too little for those that wait to be summarised.
        """
        given = locals()  # before any other name is bound
        from langchain_convmem.turns.chains import read_chain
        from langchain_convmem.wrap import RememberingRunnable

        if provider is not None:
            resolve_provider(provider)
        chosen = TurnOptions.pick(options, given)
        self._turn_memory.use_options(chosen)
        names = {name: given[name] for name in RememberingRunnable.model_fields if name in given}
        chain = read_chain(inner, input_messages_key, history_messages_key)
        return RememberingRunnable(**{**names, "options": chosen, "memory": self, "inner": chain})

    def conversation(
        self,
        model: BaseChatModel | Runnable[Any, Any] | TextEngine | Engine,
        *,
        thread_id: str,
        user_id: str | None = None,
        options: TurnOptions | None = None,
        recall: bool | None = None,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int | None = None,
        profile_tokens: int | None = None,
        remember: bool | None = None,
        recall_place: RecallPlace | None = None,
        provider: Provider | None = None,
        config: ConversationConfig | None = None,
        system_prompt: str | None = None,
        preface: Preface | Mapping[str, Any] | None = None,
        stop: Sequence[str] | None = None,
        auto_tools: bool | None = None,
        max_tool_rounds: int | None = None,
        tool_handler: Callable[..., Any] | None = None,
        on_cancel: Literal["discard", "keep"] | None = None,
    ) -> Conversation:
        """Return a conversation that continues a thread of this memory.

        The question is stored before the model is called, and the rest of the turn in one write
        when the reply is complete. A turn that fails is undone. Recalled lines come before the
        user's text; the log stores only the user's text. A call can override options:
        `config={"configurable": {"memory": {"recall": False}}}`.

        Args:
            model: A chat model, a text engine, or an engine that several conversations share.
            thread_id: The thread.
            user_id: Its user, whose lines are recalled.
            options: What the model gets in a turn, and whether the turn is stored; this and the
                next nine arguments work as in `wrap`.
            recall: Whether to recall lines from earlier conversations.
            recall_tokens: Budget for recalled text.
            recall_k: Number of blocks to recall instead.
            history_tokens: Budget for earlier messages of the thread.
            context_tokens: One budget for everything that the model gets.
            reserved_tokens: The part of it to keep free.
            profile_tokens: Budget for the user's profile; None uses the memory's setting.
            remember: Whether to store turns.
            recall_place: Whether recalled lines go before the user's text (`"user"`), so that a
                provider can cache everything before them, or into the system message (`"system"`).
            provider: Provider rules for the messages. None follows the chat model, and uses those
                of all providers (`"strict"`) for text engines, without pictures (`"text"`) if the
                template shows none.
            config: Settings of the conversation; None uses the engine's defaults. Each following
                argument overrides it unless it is None; `ConversationConfig` explains them and has
                more.
            system_prompt: The system prompt: the first message of the preface.
            preface: Instructions, examples and tools before the first message.
            stop: Texts that end a text engine's reply.
            auto_tools: Call tools until the model replies without calls.
            max_tool_rounds: Maximum rounds of tool calls in one turn.
            tool_handler: Asked before each call.
            on_cancel: What to do with a cancelled turn.

        Raises:
            ConfigError: If a setting does not apply to the model, or a budget leaves no room.
        """
        given = locals()  # before any other name is bound
        from langchain_convmem.conversation import Conversation, ConversationConfig, Engine
        from langchain_convmem.text.sessions import shows_pictures
        from langchain_convmem.thread_memory import MemoryThread
        from langchain_convmem.turns.chains import ChainShape

        engine = model if isinstance(model, Engine) else Engine(model)
        chosen = TurnOptions.pick(options, given)
        template = getattr(config, "template", None) or getattr(engine.model, "template", None)
        rules: Provider = "strict" if shows_pictures(template) else "text"
        shape = ChainShape(None, resolve_provider(provider or rules))  # of one that reads text
        if isinstance(engine.model, Runnable):
            shape = ChainShape.from_chain(engine.model, {}, provider)
        self._turn_memory.use_options(chosen)
        self._turn_memory.use_model(shape.model)
        thread = MemoryThread(self._turn_memory, ThreadKey(user_id, thread_id), chosen, shape)
        named = given.keys() & {*ConversationConfig.model_fields, "system_prompt"}
        settings = {name: given[name] for name in named if given[name] is not None}
        return Conversation(engine, config, history=thread, **settings)

    # -- Threads ----------------------------------------------------------------------------------

    def history(self, thread_id: str, *, user_id: str | None = None) -> ConversationHistory:
        """Return the history of a thread, which need not exist yet."""
        hook = self._turn_memory.drafting.hook
        counter = self._turn_memory.token_counter
        return ConversationHistory(
            self.log, thread_id, user_id=user_id, before_write=hook, token_counter=counter
        )

    def threads(self, user_id: str | None = None) -> list[ThreadInfo]:
        """Return a user's threads, latest first, with their titles, archived ones included.

        Args:
            user_id: The user; None lists anonymous threads.
        """
        return list_threads(self.log, user_id)

    athreads = to_async(threads)

    def users(self) -> list[str]:
        """Return the ids of all users with threads, in order; `threads()` lists anonymous threads.

        Raises:
            ConfigError: If the log cannot list them.
        """
        return sorted(owner.user_id for owner in self.log.owners() if owner.user_id is not None)

    ausers = to_async(users)

    def get_title(self, thread_id: str, *, user_id: str | None = None) -> str:
        """Return the title of a thread; empty if it has none."""
        key = ThreadKey(user_id, thread_id)
        return list_titles(self.log, [key]).get(key, "")

    aget_title = to_async(get_title)

    def set_title(self, thread_id: str, title: str, *, user_id: str | None = None) -> None:
        """Give a thread a title for lists of threads; models do not see titles.

        Imports keep the titles in their files, but do not replace one that was set here.

        Args:
            thread_id: The thread.
            title: One line of at most 200 characters; empty text removes the title.
            user_id: The thread's user.

        Raises:
            ConfigError: If the title is too long or has several lines, the thread has no entries,
                or the log cannot store documents.
        """
        update_thread(self.log, ThreadKey(user_id, thread_id), {"title": check_title(title)})

    aset_title = to_async(set_title)

    def archive(self, thread_id: str, *, user_id: str | None = None, archived: bool = True) -> None:
        """Archive a thread, or undo that; it is kept, shown and recalled as before.

        Args:
            thread_id: The thread.
            user_id: The thread's user.
            archived: False takes it out of the archive.

        Raises:
            ConfigError: If the thread has no entries, or the log cannot store documents.
        """
        update_thread(self.log, ThreadKey(user_id, thread_id), {"archived": bool(archived)})

    aarchive = to_async(archive)

    def fork(
        self,
        thread_id: str,
        *,
        at: str | Turn | None = None,
        new_thread_id: str | None = None,
        user_id: str | None = None,
    ) -> ConversationHistory:
        """Return a new thread with copies of another's visible messages, ids and summaries.

        Args:
            thread_id: The thread to copy.
            at: Id of the last message or turn to copy; None copies all.
            new_thread_id: An id that is not in use; None creates one.
            user_id: The user of both threads.

        Raises:
            ConfigError: If the thread shows no such message, or the new one is in use.
        """
        fork = fork_thread(self.log, ThreadKey(user_id, thread_id), at, new_thread_id)
        return self.history(fork.thread_id, user_id=fork.user_id)

    afork = to_async(fork)

    def assign_user(
        self, thread_id: str, user_id: str, *, from_user_id: str | None = None
    ) -> ConversationHistory:
        """Move a thread to a user: messages with their ids, edits, summaries, pins and title.

        Everything is copied, then the original is erased. An interrupted call loses nothing; call
        it again to continue. Entries get new ids, so their storage time (`as_of`,
        `forget(before=...)`) is now. Call it between turns, because messages written meanwhile are
        not moved.

        Args:
            thread_id: The thread.
            user_id: The new user.
            from_user_id: The current user; None for an anonymous thread.

        Returns:
            The thread's history under the new user.

        Raises:
            ConfigError: If there is no such thread, or the user has a thread with this id and
                other content.
            LogError: If an entry of it is damaged.
        """
        target = ThreadKey(read_id("user_id", user_id), thread_id)
        whole_threads.move_thread(self._turn_memory, ThreadKey(from_user_id, thread_id), target)
        return self.history(target.thread_id, user_id=target.user_id)

    aassign_user = to_async(assign_user)

    def stats(self, thread_id: str, *, user_id: str | None = None) -> ThreadStats:
        """Return statistics of a thread: messages, turns, tokens.

        Each call reads the whole thread, so call it when somebody needs the numbers, not in every
        turn.

        Args:
            thread_id: The thread; for one that does not exist, all counts are zero.
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
            messages: Messages in any form that a chain accepts. `name` is the speaker,
                `additional_kwargs["timestamp"]` the time (ISO 8601 or milliseconds since the
                epoch), `additional_kwargs["session"]` the session.
            thread_id: The thread.
            user_id: Its user.
            turn_id: The turn they belong to, a ULID, which groups a question with its answers in
                every view. None makes each message a separate turn.
            durable: Whether they survive a crash of the machine. False is for imports that can be
                repeated: these survive only a crash of the process.

        Returns:
            One entry per message, in order; for a message that the thread already has, the existing
            entry. Messages marked `additional_kwargs={"remember": False}`, those of a view's
            summary, and those for which the write hook stores nothing, have none.

        Raises:
            InvalidMessageError: If one of them cannot be stored, or has the id of a message of
                another role; nothing is written.
        """
        drafts = self._turn_memory.drafting.build_all(read_messages(messages), turn_id=turn_id)
        key = ThreadKey(user_id, thread_id)
        entries = append_messages(self.log, key, drafts, durable=durable)
        self._turn_memory.embed_soon(key.owner)
        return entries

    aadd_messages = to_async(add_messages)

    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        user_id: str | None = None,
        find_user: Callable[[str], str | None] | None = None,
        thread_id: str | None = None,
        format: str | None = None,  # noqa: A002 - what it is called everywhere
        progress: Callable[[int, int], None] | None = None,
        is_own: bool = False,
    ) -> ImportReport:
        """Import the conversations in a file and return a report.

        The whole file is checked before the first write, and importing it again adds only what is
        new. The next recall indexes the lines, or call `refresh` first. The import survives a crash
        of the process but not of the machine; after that, import again.

        Args:
            path: An export of ChatGPT or Claude, as the zip, the folder or the JSON; an export of
                convmem, messages of OpenAI's API, a store of LangChain or LangGraph, turns of
                `to_maps()`; see the page on import, export and copy. Unreadable parts of a zip or
                folder are left out and listed in `ImportReport.unread`.
            user_id: The user; None makes each thread anonymous.
            find_user: Alternatively, returns the user for a thread id; branches follow their
                thread.
            thread_id: The thread's id, if the file has only one conversation.
            format: The required format, such as `chatgpt`; None detects it from the content.
            progress: Called with (done, total) entries after each thread.
            is_own: Whether its messages count as the user's own. Otherwise, they can add facts to
                the profile but no instructions ("call me Annie"), because anybody can write a file.
                An export of convmem declares this itself.

        Raises:
            ConfigError: If no format has that name, or both a user and a finder are given.
            ImportFormatError: If the format is unknown or the file does not follow it; nothing is
                written.
            MissingExtraError: If its format needs a package that is not installed.
        """
        from langchain_convmem.transfer.imports import read_file, store_file

        if user_id is not None and find_user is not None:
            raise ConfigError("pass user_id or find_user, not both")
        return store_file(
            self.log,
            read_file(path, thread_id=thread_id, format=format),
            user_id=user_id,
            find_user=find_user,
            drafting=self._turn_memory.drafting,
            progress=progress,
            is_own=is_own,
        )

    aimport_file = to_async(import_file)

    # -- Recall -----------------------------------------------------------------------------------

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

        If a question has more than 8,000 characters, it reads only the first and last 4,000.

        Args:
            user_id: Search all threads of this user.
            thread_id: Search only this thread; without `user_id`, the anonymous thread.
            user_ids: Search all threads of these users instead; the person asking sees what all of
                them said.
            k: Number of documents, one block of neighbouring lines each.
            max_tokens: Alternatively, a token budget for all blocks.
            threshold: Leave out lines whose cosine similarity does not exceed this; "auto" finds
                nothing if the question is related to no line.
            filter: For each name, the value that a line must have, or a list of accepted values;
                see `RecallOptions`.
            since: Only lines from this time on: a datetime with a time zone, or milliseconds.
            until: Only lines before this time.

        Raises:
            ConfigError: If there is no user or thread, users are given in two ways, or the scope is
                invalid.
        """
        given = locals()  # before any other name is bound
        from langchain_convmem.recall import DialogLineRetriever
        from langchain_convmem.recall.options import make_owners

        named = {name: given[name] for name in DialogLineRetriever.model_fields if name in given}
        if user_ids is not None:
            named["user_ids"] = frozenset(one.user_id for one in make_owners(user_ids))
        retriever = DialogLineRetriever(recall=self._turn_memory.line_recall, **named)
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
        """Return the lines that are most relevant to a query, with the lines around them.

        Args:
            query: The question, verbatim. The write hook sees it first, because an embedder may be
                a third party; if the hook returns nothing, nothing is found. If it has more than
                8,000 characters, only the first and last 4,000 are read.
            user_id: Search all threads of this user.
            thread_id: With a user, the current thread, whose visible context is left out because
                the model sees it anyway. Without a user, the only thread to search.
            user_ids: Search all threads of these users together; the person asking sees what all of
                them said. `user_id`, which must be one of them, and `thread_id` then only identify
                the current thread.
            k: Number of blocks.
            max_tokens: Alternatively, a token budget for all blocks (default 1,000).
            threshold: Leave out lines whose cosine similarity does not exceed this; "auto" finds
                nothing if the question is related to no line.
            filter: For each name, the value that a line must have, or a list of accepted values.
                Names are `speaker`, `role`, `session`, `thread_id`, `user_id`, and keys of the
                message's `additional_kwargs`.
            since: Only lines from this time on: a datetime with a time zone, or milliseconds since
                the epoch.
            until: Only lines before this time.
            remember: Whether to add the result to the current thread's relevance buffer, if the
                settings have one. The result's `buffer` contains it either way.
            before: The user's previous message, from which a short follow-up such as "and hers?"
                borrows its topic.

        Raises:
            ConfigError: If an argument is invalid; the message names it.
        """
        given = locals()  # before any other name is bound
        from langchain_convmem.recall.options import RecallOptions, make_owners

        if user_ids is not None and (user_id is None) != (thread_id is None):
            msg = "with user_ids, pass user_id and thread_id of the current thread, or neither"
            raise ConfigError(msg)
        owners = find_owner(user_id, thread_id) if user_ids is None else make_owners(user_ids)
        options = {name: given[name] for name in RecallOptions.__annotations__ if name in given}
        if user_id is not None and thread_id is not None:
            current = ThreadKey(user_id, thread_id)
            options["buffer"] = current
            seen = self.history(thread_id, user_id=user_id).context()
            options["exclude"] = {current: seen.positions}
        options["now_ms"] = self._turn_memory.now_ms
        return self._turn_memory.line_recall.recall(owners, query, **options)

    arecall = to_async(recall)

    def search(
        self, words: str, *, user_id: str | None = None, thread_id: str | None = None
    ) -> list[DialogLine]:
        """Return the lines that contain all of these words, latest first.

        Case is ignored, and parts of longer words count. `recall` finds lines that help answer a
        question, even in different words. Nothing is embedded. If the user's index is loaded, only
        new entries are read from the log.

        Args:
            words: Words separated by spaces, in any order.
            user_id: The user whose lines to use, or
            thread_id: an anonymous thread.

        Raises:
            ConfigError: If there are no words, or neither a user nor a thread is given.
            LogError: If the log cannot be read.
        """
        wanted = words.casefold().split()
        if not wanted:
            raise ConfigError("words is blank; give at least one word to search for")
        lines = self._turn_memory.line_recall.find_lines(find_owner(user_id, thread_id), wanted)
        # Of two of the same millisecond, the one stored later leads.
        return sorted(lines, key=lambda line: line.time_ms)[::-1]

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
            user_id: The user whose lines to use, or
            thread_id: an anonymous thread.
            progress: Called with (done, total) lines.

        Returns:
            Problems, one sentence each, such as a failing embedder; empty if every line is fully
            indexed.

        Raises:
            ConfigError: If neither a user nor a thread is given.
        """
        return self._turn_memory.line_recall.refresh(find_owner(user_id, thread_id), progress)

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

        Until then, nothing is sent to the new embedder: lines are matched by words, and
        `Recall.problems` says so. Each batch is stored before the next one is sent, so after a
        failure or a kill, another call continues where this one stopped. Run it when no process
        uses the old embedder any more.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user; or
            all_users: all users and anonymous threads, one after the other.
            progress: Called with (done, total) segments of one user.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            ConfigError: If the call names no user or thread, or the log cannot list all users.
            LogError: If the log cannot be read.
        """
        owners = whole_threads.list_owners(self.log, user_id, thread_id, all_users=all_users)
        problems = [self._turn_memory.line_recall.reindex(owner, progress) for owner in owners]
        return tuple(dict.fromkeys(chain.from_iterable(problems)))

    areindex = to_async(reindex)

    # -- What is known of a user ------------------------------------------------------------------

    def profile(self, user_id: str | None = None, *, thread_id: str | None = None) -> UserProfile:
        """Return a user's profile: what they said about themselves, verbatim, with dates.

        It is a view of the log: computed without a model, the same in every process, and forgotten
        with its messages. A process's first call reads all the user's messages; later calls read
        only new ones.

        Args:
            user_id: The user, or
            thread_id: an anonymous thread.

        Raises:
            ConfigError: If neither a user nor a thread is given.
            LogError: If the log cannot be read.
        """
        return self._turn_memory.profile_reader.read_profile(find_owner(user_id, thread_id))

    aprofile = to_async(profile)

    def update_profile(
        self, user_id: str | None = None, *, thread_id: str | None = None
    ) -> ProfilerReport:
        """Let the profiler read unread messages now, without waiting for more turns.

        Use it in scripts, in queues where no thread outlives a request, and for messages from
        before there was a profiler. The profiler only proposes: a proposal becomes an item if the
        line contains its words and the user says and means them. The sentence around them is
        quoted, as with items that rules find; these are not proposed again.

        Args:
            user_id: The user; without `thread_id`, all of the user's threads are read.
            thread_id: Only this thread; without `user_id`, an anonymous one.

        Raises:
            ConfigError: If the memory has no profiler, or neither a user nor a thread is given.
            LogError: If the log cannot be read or written.
        """
        profiler = self._turn_memory.profiler
        if profiler is None:
            raise ConfigError("this memory has no profiler; pass a chat model, say, as profiler=")
        return profiler.read_threads(whole_threads.list_keys(self.log, user_id, thread_id))

    aupdate_profile = to_async(update_profile)

    # -- Time travel ------------------------------------------------------------------------------

    def as_of(self, when: PointInTime) -> ConversationMemory:
        """Return this memory as it was at an earlier time, read-only.

        Recall, contexts, summaries and profiles contain what an assistant could know then. Entries
        erased since then are missing. Titles, buffers and other documents of a thread, and metadata
        added to an entry later, are the current ones or missing.

        It shares this memory's log, and closing it closes nothing. Its first recall for a user
        reads the lines of that time, so keep it while you ask about the same time.

        Args:
            when: A datetime with a time zone, milliseconds since the epoch, ISO 8601 such as
                "2026-05-01T12:00Z", or the id of the last entry to include. Only storage time
                counts: imported messages exist from their import on, whatever their dates.

        Raises:
            ConfigError: If this is not a point in time, or this memory uses its own recall, whose
                index does not cover earlier times.
        """
        from langchain_convmem.logs.as_of import LogAsOf, LogBound

        bound = LogBound(when)
        if not self._turn_memory.owns_recall:
            raise ConfigError("as_of needs a memory without a recall of its own")
        past = ConversationMemory(LogAsOf(self.log, bound), **self._options)
        past._turn_memory.now_ms = bound.time_ms
        return past

    # -- Summaries --------------------------------------------------------------------------------

    def summarize(
        self, thread_id: str, *, user_id: str | None = None, force: bool = False
    ) -> SummaryReport:
        """Compact a thread now if due.

        Args:
            thread_id: The thread.
            user_id: Its user.
            force: Cover everything except a question that waits for an answer, even if not due.

        Returns:
            A report; true if a summary was written.

        Raises:
            ConfigError: If the memory has no summarizer.
        """
        compactor = self._turn_memory.require_compactor()
        return compactor.compact(ThreadKey(user_id, thread_id), force=force)

    asummarize = to_async(summarize)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for background work: compactions and the profiler.

        Args:
            timeout_s: Maximum seconds to wait for each; None waits forever.

        Returns:
            Whether all work ended in time.
        """
        return self._turn_memory.flush(timeout_s)

    async def aflush(self, timeout_s: float | None = None) -> bool:
        """Wait for background work without blocking the event loop; see `flush`."""
        return await run_in_thread(partial(self.flush, timeout_s))

    # -- Forgetting -------------------------------------------------------------------------------

    def forget(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        entry_ids: Iterable[str] | None = None,
        before: PointInTime | None = None,
        all_users: bool = False,
    ) -> ForgetReceipt:
        """Permanently erase a user with all threads, a thread, or entries of a thread.

        This process's index is updated, too; other processes notice when they next recall for this
        user. Summaries that cover erased entries are erased, even those written meanwhile; with a
        summarizer, the thread is compacted again.

        Args:
            user_id: The user; alone, everything about this user is erased.
            thread_id: Only this thread of the user, or an anonymous thread.
            entry_ids: Only these entries of the thread, by entry id or message id.
            before: Only entries stored before this time, in each of the threads: a datetime with a
                time zone, milliseconds since the epoch or ISO 8601. Only storage time counts, as
                with `as_of`. If a call fails midway, another call continues.
            all_users: With `before`, erase in the threads of all users and in anonymous threads.

        Returns:
            Counts of what was erased.

        Raises:
            ConfigError: If the call names no user or thread, entries without a thread, or all users
                without a time.
        """
        if before is None and not all_users:
            owner = find_owner(user_id, thread_id)
            scope = owner if thread_id is None else ThreadKey(user_id, thread_id)
            return whole_threads.forget_scope(self._turn_memory, scope, entry_ids)
        if before is None or entry_ids is not None:
            raise ConfigError("all_users needs before=, and neither goes with entry_ids")
        keys = whole_threads.list_keys(self.log, user_id, thread_id, all_users=all_users)
        return whole_threads.forget_before(self._turn_memory, keys, before)

    aforget = to_async(forget)
