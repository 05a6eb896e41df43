"""The part of a memory that finds what was said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from langchain_convmem.errors import ConfigError
from langchain_convmem.history import context_steps
from langchain_convmem.memory.memory_part import MemoryPart, owner_of
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Owner, Recall, ThreadKey
from langchain_convmem.steps import Steps, arun, run

if TYPE_CHECKING:
    from langchain_convmem.memory.memory_options import MemoryOptions
    from langchain_convmem.recall import DialogLineRetriever, DialogRecall
    from langchain_convmem.recall.dialog_recall import EmbedderUse
    from langchain_convmem.recall.embedder_choice import Embedder
    from langchain_convmem.recall.scopes import LineFilter, Moment, Owners
    from langchain_convmem.turns.options import TurnOptions

__all__ = ["RecallCallOptions", "RecallingMemory"]


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
                from langchain_convmem.memory.careful_recall import CarefulRecall

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
            from langchain_convmem.recall.workers import in_worker

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
        from langchain_convmem.recall.scopes import users

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
        from langchain_convmem.recall.workers import in_worker

        return await in_worker(lambda: self.embedder_of(user_id=user_id, thread_id=thread_id))


def _searched(
    user_id: str | None, thread_id: str | None, user_ids: Collection[str] | None
) -> Owners:
    """Return whose lines are searched.

    Raises:
        ConfigError: If the call names nobody, or a current thread of none of `user_ids`.
    """
    if user_ids is None:
        return owner_of(user_id, thread_id)
    from langchain_convmem.recall.scopes import users

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
        from langchain_convmem.recall.embedder_choice import EmbedderChoice

        EmbedderChoice.check(embeddings)


def _check_hooks(rewriter: object, reranker: object) -> None:
    """Refuse what can never serve as a hook; recall itself is imported only where there is one.

    Raises:
        ConfigError: If it cannot; the message names it.
    """
    if rewriter is None and reranker is None:
        return
    from langchain_convmem.recall.hooks import check_hooks

    check_hooks(rewriter, reranker)
