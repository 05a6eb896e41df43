"""`ConversationMemory`: a log and what is remembered of it, for any number of threads and users."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.history import ConversationHistory, fork_steps
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import (
    Entry,
    ForgetReceipt,
    Owner,
    Recall,
    ThreadInfo,
    ThreadKey,
    Turn,
)
from langchain_convmem.steps import Steps, arun, run, step
from langchain_convmem.views.codec import draft_of
from langchain_convmem.views.context import context

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.runnables import Runnable

    from langchain_convmem.memory.wrapping import RememberingRunnable
    from langchain_convmem.recall import DialogLineRetriever, LineRecall, RecallSettings

__all__ = ["ConversationMemory"]


class ConversationMemory:
    """Remembers conversations: what was said, verbatim, in this thread and in earlier ones.

    Thread-safe; one object serves a whole application. Several processes may share a log.
    """

    def __init__(
        self,
        log: MessageLog,
        *,
        embeddings: Embeddings | None = None,
        settings: RecallSettings | None = None,
    ) -> None:
        """Compose a memory from its parts.

        Args:
            log: Where entries are kept; stays the caller's to close.
            embeddings: Any LangChain embeddings; None is the embedded static model, which needs
                neither key nor network.
            settings: How lines are recalled; None is the default of `RecallSettings`.
        """
        self.log = log
        self._embeddings = embeddings
        self._settings = settings
        self._owns_log = False
        self._lock = threading.Lock()
        self._recall: LineRecall | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embeddings: Embeddings | None = None,
        settings: RecallSettings | None = None,
    ) -> Self:
        """Open or create a memory in a SQLite file, or in memory with `":memory:"`.

        Raises:
            ConfigError: If the path names no file in an existing directory.
        """
        log = InMemoryLog() if os.fspath(path) == ":memory:" else SQLiteLog(path)
        memory = cls(log, embeddings=embeddings, settings=settings)
        memory._owns_log = True
        return memory

    def __repr__(self) -> str:
        return f"ConversationMemory({self.log!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Release what this memory opened; a log that was passed in stays open. Idempotent."""
        if self._owns_log:
            self.log.close()

    async def aclose(self) -> None:
        """Release what this memory opened; see `close`."""
        if self._owns_log:
            await self.log.aclose()

    # -- threads --------------------------------------------------------------------------------

    def history(self, thread_id: str, *, user_id: str | None = None) -> ConversationHistory:
        """Return the history of a thread, which need not exist yet."""
        return ConversationHistory(self.log, thread_id, user_id=user_id)

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
        messages: Sequence[BaseMessage],
        *,
        thread_id: str,
        user_id: str | None = None,
        relaxed: bool = False,
    ) -> list[Entry]:
        """Store messages verbatim in a thread, all or none.

        Args:
            messages: `name` is the speaker, `additional_kwargs["timestamp"]` the time (ISO 8601
                or milliseconds since the epoch), `additional_kwargs["session"]` the sitting.
            thread_id: The thread.
            user_id: Its user.
            relaxed: For imports that can be repeated: survive a crash of the process only.

        Returns:
            One entry per message; for a message the thread already has, the entry that is there.

        Raises:
            InvalidMessageError: If one of them cannot be stored; nothing is written.
        """
        drafts = [draft_of(message) for message in messages]
        return self.log.append(ThreadKey(user_id, thread_id), drafts, relaxed=relaxed)

    async def aadd_messages(
        self,
        messages: Sequence[BaseMessage],
        *,
        thread_id: str,
        user_id: str | None = None,
        relaxed: bool = False,
    ) -> list[Entry]:
        """Store messages verbatim in a thread; see `add_messages`."""
        drafts = [draft_of(message) for message in messages]
        return await self.log.aappend(ThreadKey(user_id, thread_id), drafts, relaxed=relaxed)

    # -- recall ---------------------------------------------------------------------------------

    @property
    def line_recall(self) -> LineRecall:
        """The recall engine over this memory's log, made on first use."""
        with self._lock:
            if self._recall is None:
                from langchain_convmem.recall import LineRecall

                self._recall = LineRecall(self.log, self._embeddings, self._settings)
            return self._recall

    def retriever(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | None = None,
    ) -> DialogLineRetriever:
        """Return a LangChain retriever over dialog lines.

        Args:
            user_id: Search all threads of this user.
            thread_id: Search this thread only; without `user_id`, the thread of no user.
            k: Return exactly so many documents, one block of neighbouring lines each.
            max_tokens: Or as many blocks as fit this budget (characters / 4).
            threshold: Leave out lines with a lower cosine similarity.
        """
        from langchain_convmem.recall import DialogLineRetriever

        _owner(user_id, thread_id)
        return DialogLineRetriever(
            recall=self.line_recall,
            user_id=user_id,
            thread_id=thread_id,
            k=k,
            max_tokens=max_tokens,
            threshold=threshold,
        )

    def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | None = None,
    ) -> Recall:
        """Return the dialog lines that fit a query best, with the lines around them.

        Args:
            query: What to look for, as it was said.
            user_id: Search all threads of this user.
            thread_id: With a user: the current thread, whose live context is left out, since the
                model sees it anyway. Without: the one thread to search, whole.
            k: Exactly so many blocks, or
            max_tokens: as many as fit this budget (default 1,000).
            threshold: Leave out lines with a lower cosine similarity.
        """
        limits = {"k": k, "max_tokens": max_tokens, "threshold": threshold}
        return run(self._recall_steps(query, user_id, thread_id, limits))

    async def arecall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | None = None,
    ) -> Recall:
        """Return the dialog lines that fit a query best; see `recall`."""
        limits = {"k": k, "max_tokens": max_tokens, "threshold": threshold}
        return await arun(self._recall_steps(query, user_id, thread_id, limits))

    def _recall_steps(
        self, query: str, user_id: str | None, thread_id: str | None, limits: dict[str, Any]
    ) -> Steps[Recall]:
        owner = _owner(user_id, thread_id)
        exclude: Mapping[ThreadKey, Collection[int]] = {}
        if user_id is not None and thread_id is not None:
            current = ThreadKey(user_id, thread_id)
            entries = yield step(self.log, "entries", current)
            exclude = {current: context(entries).positions}
        found: Recall = yield from self.line_recall.recall_steps(
            owner, query, exclude=exclude, **limits
        )
        return found

    def refresh(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Index ahead what was added since, so that the next recall need not.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user.
            progress: Called with (done, total) lines.
        """
        self.line_recall.refresh(_owner(user_id, thread_id), progress=progress)

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        entry_ids: Iterable[str] | None = None,
    ) -> ForgetReceipt:
        """Erase for good: a user with all threads, a thread, or entries of a thread.

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
        _owner(user_id, thread_id)
        if thread_id is None and entry_ids is not None:
            raise ConfigError("entry_ids need the thread they belong to; pass thread_id")
        if isinstance(entry_ids, str):
            raise ConfigError(f"entry_ids must be a list of ids, got the text {entry_ids!r}")
        scope = ThreadKey(user_id, thread_id) if thread_id is not None else Owner(user_id=user_id)
        ids = None if entry_ids is None else list(entry_ids)
        receipt: ForgetReceipt = yield step(self.log, "forget", scope, ids)
        return receipt

    # -- chains ---------------------------------------------------------------------------------

    def wrap(
        self,
        inner: Runnable[Any, Any],
        *,
        recall: bool = True,
        max_tokens: int = 1000,
        k: int | None = None,
        history_tokens: int | None = None,
        queue_timeout_s: float = 300.0,
    ) -> RememberingRunnable:
        """Return `inner` with a memory: a Runnable that takes what the user says.

        Call it with `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is
        required. Per call, `configurable` also takes `recall`, `max_tokens`, `k` and
        `remember=False`.

        Args:
            inner: A chat model, or a chain that begins with one, which gets messages; or any
                other Runnable, which gets a dict with `history`, `input` and `recalled` (message
                lists), `summary` (text) and `messages` (the whole). It returns text, a message,
                messages or `{"messages": [...]}`.
            recall: Whether to recall lines of earlier conversations.
            max_tokens: Budget of the recalled text (characters / 4).
            k: Recall exactly so many blocks instead.
            history_tokens: Budget of what was said in the thread before; None is all of it. The
                oldest exchanges are left out whole; the new message does not count.
            queue_timeout_s: How long a turn waits for earlier turns of its thread.
        """
        from langchain_convmem.memory.wrapping import RememberingRunnable

        return RememberingRunnable(
            memory=self,
            inner=inner,
            recall=recall,
            max_tokens=max_tokens,
            k=k,
            history_tokens=history_tokens,
            queue_timeout_s=queue_timeout_s,
        )


def _owner(user_id: str | None, thread_id: str | None) -> Owner:
    """Return whose lines are meant, or refuse a call that names nobody."""
    if user_id is None and thread_id is None:
        raise ConfigError("pass user_id, or thread_id for a thread of no user")
    return ThreadKey(user_id, "-" if thread_id is None else thread_id).owner
