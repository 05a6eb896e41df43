"""`DialogRecall`: the interface of recalls, wherever their vectors are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, Unpack

from langchain_convmem.effects import Steps, sync, twin
from langchain_convmem.protocols import MessageLog
from langchain_convmem.recall.options import (
    Owners,
    RecallOptions,
    RecallQuery,
    RecallSettings,
    make_buffer_query,
    make_query,
)
from langchain_convmem.records import Owner, Recall, ThreadKey

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many segments are indexed and how many there are to index."""

QueryHook: TypeAlias = Callable[[str], str]
"""Gets a question before it is searched for, and returns what to search for; blank for nothing."""


class DialogRecall(ABC):
    """Finds verbatim dialog lines; accepted by memories, retrievers and wrapped chains.

    Thread-safe. The caller closes the log and the embedder.
    """

    log: MessageLog
    """Where the lines stand."""
    embeddings: Embeddings
    """What embeds lines and questions."""
    settings: RecallSettings
    """What counts where a call says nothing."""

    query_hooks: tuple[QueryHook, ...] = ()
    """What each question passes first, in this order."""

    def bind_query_hook(self, hook: QueryHook) -> Self:
        """Return this recall, over the same indexes, with a hook that each question passes first.

        Where the hook leaves nothing of a question, nothing is found.
        """
        recall = copy(self)
        recall.query_hooks = (hook, *self.query_hooks)
        return recall

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: copies of what holds a recall share its indexes."""
        return self

    # -- recalling ---------------------------------------------------------------------------

    @sync
    def recall(self, owner: Owners, query: str, **options: Unpack[RecallOptions]) -> Steps[Recall]:
        """Return the lines of `owner` that answer `query` best, in blocks, best first.

        Args:
            owner: Whose lines are searched; of several owners, those of all together.
            query: What is asked, in plain words.
            **options: How much, from where and how like; see `RecallOptions`.

        Raises:
            ConfigError: If an argument is invalid; the message names it.
            LogError: If the log cannot be read.
        """
        return self.recall_steps(owner, query, **options)

    arecall = twin(recall)
    """Async `recall`."""

    def recall_steps(
        self, owner: Owners, query: str, **options: Unpack[RecallOptions]
    ) -> Steps[Recall]:
        """Return the steps of a recall, for `run` or `arun` or as part of a longer job."""
        checked = make_query(owner, query, self.settings, **options)
        if self.query_hooks:
            checked = self._pass_hooks(checked)
        if not checked.text:
            return (yield from self.answer_from_buffer_steps(checked))
        return (yield from self.answer_steps(checked))

    def _pass_hooks(self, query: RecallQuery) -> RecallQuery:
        """Return a query with what the hooks leave of its question; empty where that is blank."""
        text, before = query.text, query.before
        for hook in self.query_hooks:
            text = hook(text) if text.strip() else ""
            before = hook(before) if before and before.strip() else None
        return replace(query, text=text if text.strip() else "", before=before)

    def read_buffer_steps(
        self,
        buffer: ThreadKey,
        *,
        k: int | None = None,
        max_tokens: int | None = None,
        exclude: Mapping[ThreadKey, Collection[int]] | None = None,
        settings: RecallSettings | None = None,
    ) -> Steps[Recall]:
        """Return the steps that read a thread's relevance buffer where there is no question."""
        query = make_buffer_query(
            buffer, self.settings, k=k, max_tokens=max_tokens, exclude=exclude, settings=settings
        )
        return (yield from self.answer_from_buffer_steps(query))

    @abstractmethod
    def answer_steps(self, query: RecallQuery) -> Steps[Recall]:
        """Return the steps that answer a query."""

    @abstractmethod
    def answer_from_buffer_steps(self, query: RecallQuery) -> Steps[Recall]:
        """Return the steps that answer a query with its buffer alone, as without a question."""

    # -- indexes -----------------------------------------------------------------------------

    @abstractmethod
    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index new lines now, so that the next recall does not have to.

        Args:
            owner: Whose lines; several owners who are searched together may share one index.
            progress: Called with (done, total) segments after each batch, in this thread.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            LogError: If the log cannot be read.
        """

    @abstractmethod
    async def arefresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead without blocking the event loop; `progress` may be called in a worker."""

    @abstractmethod
    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Re-embed what another embedder has embedded; otherwise `refresh`."""

    @abstractmethod
    async def areindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Re-embed without blocking the event loop; `progress` may be called in a worker."""

    def get_embedder_use(self, owner: Owners) -> EmbedderUse:  # noqa: ARG002 - of other kinds each may
        """Return what embeds the lines of an owner, and how many wait for it."""
        return EmbedderUse(self.embeddings)

    def embed_later(self, owner: Owner) -> None:  # noqa: B027 - most kinds have nothing to do
        """Embed an owner's new lines soon; does nothing if none are pending."""

    def close(self) -> None:  # noqa: B027 - as above
        """End the work in the background; another recall may start it again. Idempotent."""

    @abstractmethod
    def drop_forgotten_steps(self, owner: Owner) -> Steps[None]:
        """Return the steps that drop what the log has forgotten of an owner; never raises."""


class EmbedderUse(NamedTuple):
    """What embeds the lines of an owner.

    Attributes:
        embeddings: The embedder.
        segments: How many segments their lines have; None if unknown.
        pending: How many of these wait to be embedded, and are found by their words.
        problems: Why lines could not be embedded, one sentence each.
    """

    embeddings: Embeddings
    segments: int | None = None
    pending: int = 0
    problems: tuple[str, ...] = ()
