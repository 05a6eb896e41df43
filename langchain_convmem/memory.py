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
from langchain_convmem.history import ConversationHistory, fork_thread, read_context
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.addresses import open_log
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import (
    DialogLine,
    Entry,
    ForgetReceipt,
    Owner,
    ThreadInfo,
    ThreadKey,
    find_owner,
    read_id,
)
from langchain_convmem.titles import check_title, list_threads, list_titles, update_thread
from langchain_convmem.turns.forgetting import (
    forget_before,
    forget_scope,
    list_keys,
    list_owners,
    move_thread,
)
from langchain_convmem.turns.memory import (
    OnSummary,
    Profiles,
    Recaller,
    Summaries,
    SummarizeWhen,
    TurnMemory,
)
from langchain_convmem.turns.options import RecallPlace, TurnOptions, check_profile_tokens
from langchain_convmem.turns.stats import ThreadStats, compute_stats
from langchain_convmem.views.lines import Recall
from langchain_convmem.views.live import Turn
from langchain_convmem.views.messages import (
    DraftBuilder,
    MessagesInput,
    TokenCounterLike,
    WriteHook,
    read_counter,
    read_messages,
)
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
    from langchain_convmem.recall.options import LineFilter, Moment, Owners
    from langchain_convmem.recall.recall import EmbedderUse, Rewriter
    from langchain_convmem.summarizing import SummaryReport, SummarySettings
    from langchain_convmem.summarizing.summarizers import SummarizerLike
    from langchain_convmem.text.sessions import TextEngine
    from langchain_convmem.transfer import ImportedThread, ImportReport
    from langchain_convmem.wrap import RememberingRunnable

_READING = (
    *("embeddings", "settings", "before_write", "rewriter"),
    *("token_counter", "profile_tokens"),
)
"""Options that say how a memory is read, at any time."""

_NOT_OPTIONS = ("cls", "self", "path", "log", "recall", "signing_key")
"""What a memory is given besides options that it takes however its log was opened."""


class ConversationMemory:
    """Remembers conversations verbatim, in this thread and in earlier ones.

    Thread-safe; one object serves a whole application. Several processes may share a log.
    """

    log: MessageLog
    """Where entries are kept."""

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
        """Make a memory of a log that is open already.

        The log stays the caller's to close. `recall` finds lines instead of a `LineRecall` made of
        `embeddings`, `settings` and `rewriter`, over the same log: such as
        `integrations.VectorStoreRecall`; it stays the caller's, too. The other options are those of
        `open`.

        Raises:
            ConfigError: If an option makes no sense; the message names it.
        """
        given = locals()  # before any other name is bound
        self._options = {name: given[name] for name in given if name not in _NOT_OPTIONS}
        check_profile_tokens(profile_tokens, is_optional=False)
        if not isinstance(log, MessageLog):
            way = "ConversationMemory.open(path) opens one"
            raise ConfigError(f"log must be a MessageLog, got {describe_value(log)}; {way}")
        self.log = log
        drafting = DraftBuilder(before_write)
        counter = read_counter(token_counter)
        recaller = Recaller(log, drafting, counter, embeddings, settings, rewriter, given=recall)
        summaries = Summaries(recaller, summarizer, summary_settings, summarize_when, on_summary)
        self._turn_memory = TurnMemory(
            log, drafting, recaller, summaries, Profiles(log, profiler), counter, profile_tokens
        )
        self._owns_log = False

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
            path: Path of the file; or `dynamodb://TABLE?region=NAME&endpoint=URL` (extra `aws`),
                or `postgresql://USER@HOST/DATABASE?schema=NAME` (extra `postgres`).
            embeddings: Any LangChain embeddings; None is `UniversalSentenceEmbeddings`, which comes
                with the package, knows sixteen languages and needs neither key nor network. Users
                whose vectors another embedder made are found by their words until `reindex`.
            settings: How lines are recalled; None takes the defaults of `RecallSettings`.
            before_write: Gets a copy of each message before it is stored or embedded, and returns
                what to store, or None to store nothing of it; see `WriteHook`. Added and wrapped
                messages, edits, summaries, imports and the questions of a recall all pass it. None
                stores every message as it is.
            rewriter: Makes of a question what to search for; see `LineRecall`.
            summarizer: Writes the summaries that replace old messages in views: a chat
                model, another Runnable or function of messages, or the model-free
                `offline.ExtractiveSummarizer()`. `"auto"`: the model of the first chain, agent or
                conversation that runs over this memory. None: nothing is ever summarised. A
                coroutine function runs behind the turns, or where `asummarize` and the like await
                it; a synchronous call that would need it raises a `ConfigError`.
            summary_settings: When a thread is compacted, and how far.
            summarize_when: `"background"`: a worker thread compacts after the turn.
                `"foreground"`: within the turn, for scripts.
            on_summary: Gets a `SummaryEvent` whenever a thread was compacted, or no summary came
                about. A plain function, called where the work is done, so it must be quick.
            signing_key: A secret of 16 to 64 bytes with which the log signs its entries, so that
                nobody who lacks it can alter them unseen; see `SQLiteLog`.
            token_counter: Counts tokens wherever tokens are counted: a function of messages, or a
                model that counts for itself, perhaps over the network. None is an estimate by
                script and kind of text.
            profile_tokens: How many tokens of what is known of a user (`profile`) a model gets with
                every turn that recalls; 0 is none. Hosts and calls may set it for themselves.
            profiler: A chat model, another Runnable or a function of messages that reads behind
                the turns, a few at a time, what users said, and proposes items of their profiles;
                see `update_profile`. None: rules alone find them, in five languages.

        Raises:
            ConfigError: If the path names no file in an existing directory and no known log, or
                an option makes no sense; or if the log was signed with another key.
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
        self._turn_memory.close()
        if self._owns_log:
            self.log.close()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Wait for running turns and release what was opened here; see `close`.

        The event loop runs meanwhile: streams that were left and tasks that were cancelled just
        before store what they had.
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
            options: What the model gets in a turn, and whether the turn is stored. Each of the next
                nine goes before it; `TurnOptions` says more of them, and what they are by default.
            recall: Whether to recall lines of earlier conversations.
            recall_tokens: Budget of the recalled text.
            recall_k: Number of blocks to recall instead.
            history_tokens: Budget for earlier messages of the thread.
            context_tokens: One budget for all that the model gets.
            reserved_tokens: Of these, so many are left for what stands outside the messages.
            profile_tokens: Budget of what is known of the user; None is what the memory says.
            remember: Whether to store turns.
            recall_place: Whether recalled lines stand before what the user says (`"user"`), where a
                prompt cache keeps all before them, or in the system message (`"system"`).
            queue_timeout_s: Seconds to wait for earlier turns of the thread.
            provider: Provider rules for messages, as in `history.context`; None follows the chat
                models found inside, and where these differ or cannot be seen, by `"strict"`.
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
        given = locals()  # before any other name is bound
        from langchain_convmem.turns.chains import read_chain
        from langchain_convmem.wrap import RememberingRunnable

        if provider is not None:
            resolve_provider(provider)
        chosen = TurnOptions.pick(options, given)
        self._turn_memory.check_options(chosen)
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

        The question is stored before the model is called, the rest of the turn in one write when
        the reply is there. A turn that fails is taken back. What is recalled stands before the
        user's words; the log keeps these alone. A send may set options for itself:
        `config={"configurable": {"memory": {"recall": False}}}`.

        Args:
            model: A chat model, a text engine, or an engine that several conversations share.
            thread_id: The thread.
            user_id: Its user, whose lines are recalled.
            options: What the model gets in a turn, and whether the turn is stored; this and the
                next eight as in `wrap`.
            recall: Whether to recall lines of earlier conversations.
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
                that follows goes before it unless it is None; `ConversationConfig` says what they
                mean, and has more.
            system_prompt: What the model is told first; the first message of the preface.
            preface: What stands before the first message.
            stop: Texts that end a reply of a text engine.
            auto_tools: Call tools until the model replies without calls.
            max_tool_rounds: The most rounds of tool calls in one turn.
            tool_handler: Asked before each call.
            on_cancel: What to do with a cancelled turn.

        Raises:
            ConfigError: If a setting does not fit the model, or a budget leaves no room.
        """
        given = locals()  # before any other name is bound
        from langchain_convmem.conversation import Conversation, ConversationConfig, Engine
        from langchain_convmem.thread_memory import MemoryThread
        from langchain_convmem.turns.chains import ChainShape

        engine = model if isinstance(model, Engine) else Engine(model)
        chosen = TurnOptions.pick(options, given)
        shape = ChainShape(None, resolve_provider(provider or "strict"))  # of one that reads text
        if isinstance(engine.model, Runnable):
            shape = ChainShape.from_chain(engine.model, provider=provider)
        self._turn_memory.check_options(chosen)
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
        """Return a user's threads, latest first, with their titles, archived ones as well.

        Args:
            user_id: Whose threads; None lists the threads of no user.
        """
        return list_threads(self.log, user_id)

    athreads = to_async(threads)

    def users(self) -> list[str]:
        """Return the ids of all users that have threads, in order; `threads()` has those of none.

        Raises:
            ConfigError: If the log cannot list them.
        """
        return sorted(owner.user_id for owner in self.log.owners() if owner.user_id is not None)

    ausers = to_async(users)

    def get_title(self, thread_id: str, *, user_id: str | None = None) -> str:
        """Return the title of a thread; empty if nobody gave it one."""
        key = ThreadKey(user_id, thread_id)
        return list_titles(self.log, [key]).get(key, "")

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

    def assign_user(
        self, thread_id: str, user_id: str, *, from_user_id: str | None = None
    ) -> ConversationHistory:
        """Move a thread to a user: messages with their ids, edits, summaries, pins and title.

        All is copied, then the original is erased. A call that was cut short loses nothing, and
        goes on when it is made again. Entries get new ids, so their time of writing (`as_of`,
        `forget(before=...)`) is now. Call it between turns: what is written meanwhile stays where
        it is.

        Args:
            thread_id: The thread.
            user_id: Whose it becomes.
            from_user_id: Whose it is; None for a thread of no user.

        Returns:
            The thread's history, at the new user.

        Raises:
            ConfigError: If there is no such thread, or the user has one of this id that does not
                begin with what this one shows.
            LogError: If an entry of it is damaged.
        """
        origin = ThreadKey(from_user_id, thread_id)
        target = ThreadKey(read_id("user_id", user_id), thread_id)
        move_thread(self._turn_memory, origin, target)
        return self.history(target.thread_id, user_id=target.user_id)

    aassign_user = to_async(assign_user)

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
        self._turn_memory.recaller.embed_soon(key.owner)
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
        """Import the conversations of a file and return a report.

        The file is checked to its last line before the first write, and importing it again doubles
        nothing; a file that has grown adds what is new. The lines are found by the next recall, or
        by `refresh` ahead of it. Survives a crash of the process, not of the machine: import again
        after one.

        Args:
            path: An export of ChatGPT or Claude, as the zip, the folder or the JSON; an export of
                convmem, messages of OpenAI's API, a store of LangChain or LangGraph, turns of
                `to_maps()`; see the page on import, export and copy. Of a zip or folder, what
                cannot be read is left out, and `ImportReport.unread` names it.
            user_id: Whose conversations; None makes each thread one of no user.
            find_user: Or says whose each is: it gets the id of a thread, and a branch goes with it.
            thread_id: The thread's name, if the file holds one conversation only.
            format: The name of the format that the file must have, such as `chatgpt`; None finds
                it out by its content.
            progress: Called with (done, total) entries after each thread.
            is_own: Whether its messages count as if they had been said here. Otherwise what the
                user said in them tells facts for the profile, and gives no instructions ("call me
                Annie"), since anybody can write a file. An export of convmem says so itself.

        Raises:
            ConfigError: If no format has that name, or both a user and a finder are given.
            ImportFormatError: If the file is of no known format, or not what its format says;
                nothing is written.
            MissingExtraError: If its format needs a package that is not installed.
        """
        from langchain_convmem.transfer.imports import read_file, store_file

        if user_id is not None and find_user is not None:
            raise ConfigError("pass user_id or find_user, not both")
        owners: set[Owner] = set()

        def assign(thread: ImportedThread) -> str | None:
            user = find_user(thread.branch_of or thread.thread_id) if find_user else user_id
            owners.add(ThreadKey(user, thread.thread_id).owner)
            return user

        file = read_file(path, thread_id=thread_id, format=format)
        drafting = self._turn_memory.drafting
        report = store_file(
            self.log, file, find_user=assign, drafting=drafting, progress=progress, is_own=is_own
        )
        for owner in owners:
            self._turn_memory.recaller.embed_soon(owner)
        return report

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

        Of a question of more than 8,000 characters it reads the first and the last 4,000.

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
        given = locals()  # before any other name is bound
        from langchain_convmem.recall import DialogLineRetriever
        from langchain_convmem.recall.options import make_owners

        named = {name: given[name] for name in DialogLineRetriever.model_fields if name in given}
        if user_ids is None:
            find_owner(user_id, thread_id)
        else:
            named["user_ids"] = frozenset(str(one.user_id) for one in make_owners(user_ids))
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
        """Return the dialog lines that fit a query best, with the lines around them.

        Args:
            query: The question, verbatim. The write hook sees it first, since
                an embedder may be a third party; if the hook leaves nothing, nothing is found.
                Of more than 8,000 characters the first and the last 4,000 are read.
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
        given = locals()  # before any other name is bound
        from langchain_convmem.recall.options import RecallOptions

        owners = _find_searched(user_id, thread_id, user_ids)
        options = {name: given[name] for name in RecallOptions.__annotations__ if name in given}
        if user_id is not None and thread_id is not None:
            current = ThreadKey(user_id, thread_id)
            options["buffer"] = current
            options["exclude"] = {current: read_context(self.log, current).positions}
        options["now_ms"] = self._turn_memory.profiles.now_ms
        return self._turn_memory.line_recall.recall(owners, query, **options)

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
            user_id: Whose lines; or
            thread_id: the thread of no user.
            progress: Called with (done, total) lines.

        Returns:
            Problems, one sentence each, such as a failing embedder; empty when every line is
            indexed whole.

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
        owners = list_owners(self.log, user_id, thread_id, all_users=all_users)
        problems = [self._turn_memory.line_recall.reindex(owner, progress) for owner in owners]
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
        return self._turn_memory.line_recall.get_embedder_use(find_owner(user_id, thread_id))

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
        return self._turn_memory.profiles.reader.read_profile(find_owner(user_id, thread_id))

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
        return self._turn_memory.profiles.update(list_keys(self.log, user_id, thread_id))

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
        if self._turn_memory.recaller.given is not None:
            msg = (
                "as_of recalls with the lines of the log, and this memory was given a recall of "
                "its own, which knows today's alone; make one without: ConversationMemory(log)"
            )
            raise ConfigError(msg)
        log = self.log.log if isinstance(self.log, LogAsOf) else self.log
        reading = {name: self._options[name] for name in _READING}
        past = ConversationMemory(LogAsOf(log, bound), **reading)
        past._turn_memory.profiles = Profiles(past.log, now_ms=bound.time_ms)
        return past

    # -- Summaries --------------------------------------------------------------------------------

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
        compactor = self._turn_memory.summaries.compactor
        return compactor.compact(ThreadKey(user_id, thread_id), force=force)

    asummarize = to_async(summarize)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for what goes on behind the turns: compactions, and the profiler's reading.

        Args:
            timeout_s: Seconds to wait at most for either; None waits for ever.

        Returns:
            Whether all ended in time.
        """
        return self._turn_memory.flush(timeout_s)

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
        before: PointInTime | None = None,
        all_users: bool = False,
    ) -> ForgetReceipt:
        """Permanently erase a user with all threads, a thread, or entries of a thread.

        What recall keeps of it in this process's memory goes too; other processes notice when they
        next recall for this user. Summaries that cover it are erased too, also those written
        meanwhile, and with a summarizer the thread is compacted again.

        Args:
            user_id: Alone: everything of this user.
            thread_id: This thread of the user, or the thread of no user.
            entry_ids: Only these entries of the thread, by entry id or message id.
            before: Only what was written before this time, in each of the threads: a datetime with
                its zone, milliseconds since the epoch or ISO 8601. Time is that of writing, as with
                `as_of`. What fails half way goes on with another call.
            all_users: With `before`: in the threads of all users and of none.

        Returns:
            What was erased, in counts.

        Raises:
            ConfigError: If the call names nobody, or entries of no thread, or all users without a
                time.
        """
        if before is None and not all_users:
            owner = find_owner(user_id, thread_id)
            scope = owner if thread_id is None else ThreadKey(user_id, thread_id)
            return forget_scope(self._turn_memory, scope, entry_ids)
        if before is None or entry_ids is not None:
            raise ConfigError("all_users needs before=, and neither goes with entry_ids")
        keys = list_keys(self.log, user_id, thread_id, all_users=all_users)
        return forget_before(self._turn_memory, keys, before)

    aforget = to_async(forget)


# -- Whose lines are meant ------------------------------------------------------------------------


def _find_searched(
    user_id: str | None, thread_id: str | None, user_ids: Collection[str] | None
) -> Owners:
    """Return whose lines are searched.

    Raises:
        ConfigError: If no owner is given, or the current thread's user is not in `user_ids`.
    """
    if user_ids is None:
        return find_owner(user_id, thread_id)
    from langchain_convmem.recall.options import make_owners

    owners = make_owners(user_ids)
    if (user_id is None) != (thread_id is None):
        msg = "with user_ids, pass both user_id and thread_id of the current thread, or neither"
        raise ConfigError(msg)
    if user_id is not None and Owner(user_id=user_id) not in owners:
        msg = f"user_id must be one of user_ids, got {describe_value(user_id)}"
        raise ConfigError(msg)
    return owners
