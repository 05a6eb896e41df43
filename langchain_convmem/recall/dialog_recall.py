"""`DialogRecall`: what finds dialog lines, wherever their vectors stand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from langchain_convmem.effects import Steps, arun, run
from langchain_convmem.protocols import MessageLog
from langchain_convmem.recall.options import (
    Owners,
    RecallOptions,
    Request,
    buffer_request,
    checked_request,
)
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.records import Owner, Recall, ThreadKey
from langchain_convmem.views.drafts import Drafting

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["DialogRecall", "EmbedderUse", "Progress"]

Progress = Callable[[int, int], None]
"""Called with how many segments are indexed and how many there are to index."""


class EmbedderUse(NamedTuple):
    """What embeds the lines of an owner.

    Attributes:
        embeddings: The embedder.
        segments: How many segments their lines have; None where nobody counts.
        pending: How many of these wait to be embedded, and are found by their words.
        problems: What keeps lines from being embedded, one sentence each.
    """

    embeddings: Embeddings
    segments: int | None = None
    pending: int = 0
    problems: tuple[str, ...] = ()


class DialogRecall(ABC):
    """Finds verbatim dialog lines; a memory, a retriever and a wrapped chain take any of this kind.

    Thread-safe. The log and the embedder stay the caller's: nothing is closed here.
    """

    log: MessageLog
    """Where the lines stand."""
    embeddings: Embeddings
    """What embeds lines and questions."""
    settings: RecallSettings
    """What counts where a call says nothing."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: copies of what holds a recall share its indexes."""
        return self

    # -- recalling ---------------------------------------------------------------------------

    def recall(self, owner: Owners, query: str, **options: Unpack[RecallOptions]) -> Recall:
        """Return the lines of `owner` that answer `query` best, in blocks, best first.

        Args:
            owner: Whose lines are searched; of several owners, those of all together.
            query: What is asked, in plain words.
            **options: How much, from where and how like; see `RecallOptions`.

        Raises:
            ConfigError: If an argument makes no sense; the message names it.
            LogError: If the log cannot be read.
        """
        return run(self.recall_steps(owner, query, **options))

    async def arecall(self, owner: Owners, query: str, **options: Unpack[RecallOptions]) -> Recall:
        """Recall as `recall` does, without blocking the event loop."""
        return await arun(self.recall_steps(owner, query, **options))

    def recall_steps(
        self, owner: Owners, query: str, **options: Unpack[RecallOptions]
    ) -> Steps[Recall]:
        """Return the steps of a recall, for `run` or `arun` or as part of a longer job."""
        request = checked_request(owner, query, self.settings, **options)
        return (yield from self.answer_steps(request))

    def buffer_steps(
        self,
        buffer: ThreadKey,
        *,
        k: int | None = None,
        max_tokens: int | None = None,
        exclude: Mapping[ThreadKey, Collection[int]] | None = None,
        settings: RecallSettings | None = None,
    ) -> Steps[Recall]:
        """Return the steps that read a thread's relevance buffer where there is no question."""
        request = buffer_request(
            buffer, self.settings, k=k, max_tokens=max_tokens, exclude=exclude, settings=settings
        )
        return (yield from self.silent_steps(request))

    @abstractmethod
    def answer_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps that answer a request."""

    @abstractmethod
    def silent_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps that answer a request with its buffer alone, as if nothing was asked."""

    # -- indexes -----------------------------------------------------------------------------

    @abstractmethod
    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead what the log has new, so that the next recall need not.

        Args:
            owner: Whose lines; several owners who are searched together may share one index.
            progress: Called with (done, total) segments after each batch, in this thread.

        Returns:
            Problems, one sentence each; empty when every line is indexed whole.

        Raises:
            LogError: If the log cannot be read.
        """

    @abstractmethod
    async def arefresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead, without blocking the event loop; `progress` may be called in a worker."""

    @abstractmethod
    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index anew what another embedder has embedded; where there is nothing such, `refresh`."""

    @abstractmethod
    async def areindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index anew, without blocking the event loop; `progress` may be called in a worker."""

    def embedder_of(self, owner: Owners) -> EmbedderUse:  # noqa: ARG002 - of other kinds each may
        """Return what embeds the lines of an owner, and how many wait for it."""
        return EmbedderUse(self.embeddings)

    def embed_behind(self, owner: Owner) -> None:  # noqa: B027 - most kinds have nothing to do
        """Have what was just stored of an owner embedded soon; does nothing where none waits."""

    def close(self) -> None:  # noqa: B027 - as above
        """End what goes on behind; another recall may start it again. Idempotent."""

    @abstractmethod
    def forgotten_steps(self, owner: Owner) -> Steps[None]:
        """Return the steps that drop what the log has forgotten of an owner; they raise nothing."""


class CarefulRecall(DialogRecall):
    """A recall that asks the write hook about each question; otherwise as the one it is made of."""

    def __init__(self, inner: DialogRecall, drafting: Drafting) -> None:
        """Put the hook of `drafting` in front of `inner`."""
        self.inner = inner
        self.log = inner.log
        self.embeddings = inner.embeddings
        self.settings = inner.settings
        self._drafting = drafting

    def __repr__(self) -> str:
        return f"CarefulRecall({self.inner!r})"

    def answer_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps of a recall; where the hook leaves nothing to ask, it finds nothing."""
        query = self._drafting.question(request.wish.query)
        if not query.strip():
            return (yield from self.inner.silent_steps(request))
        before = request.wish.before
        before = None if before is None else self._drafting.question(before)
        asked = request._replace(wish=replace(request.wish, query=query, before=before))
        return (yield from self.inner.answer_steps(asked))

    def silent_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps of an answer without a question."""
        return self.inner.silent_steps(request)

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead."""
        return self.inner.refresh(owner, progress)

    async def arefresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead, without blocking the event loop."""
        return await self.inner.arefresh(owner, progress)

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index anew after a change of the embedder."""
        return self.inner.reindex(owner, progress)

    async def areindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index anew, without blocking the event loop."""
        return await self.inner.areindex(owner, progress)

    def embedder_of(self, owner: Owners) -> EmbedderUse:
        """Return what embeds the lines of an owner."""
        return self.inner.embedder_of(owner)

    def embed_behind(self, owner: Owner) -> None:
        """Have what was just stored embedded behind."""
        self.inner.embed_behind(owner)

    def close(self) -> None:
        """End what goes on behind."""
        self.inner.close()

    def forgotten_steps(self, owner: Owner) -> Steps[None]:
        """Return the steps that drop what was forgotten."""
        return self.inner.forgotten_steps(owner)
