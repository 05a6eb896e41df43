"""The part of a memory that finds what was said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from langchain_convmem.history import context_steps
from langchain_convmem.memory.memory_part import MemoryPart, owner_of
from langchain_convmem.records import Recall, ThreadKey
from langchain_convmem.steps import Steps, arun, run

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_convmem.recall import DialogLineRetriever, LineRecall, RecallSettings

__all__ = ["RecallingMemory"]


class RecallingMemory(MemoryPart):
    """Recall over the log: its engine is made when it is first asked for."""

    _embeddings: Embeddings | None
    _settings: RecallSettings | None
    _lock: threading.Lock
    _recall: LineRecall | None

    @property
    def line_recall(self) -> LineRecall:
        """The recall engine over this memory's log, made on first use."""
        with self._lock:
            if self._recall is None:
                from langchain_convmem.memory.careful_recall import CarefulRecall

                self._recall = CarefulRecall(
                    self.log, self._embeddings, self._settings, drafting=self.drafting
                )
            return self._recall

    def retriever(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | Literal["auto"] | None = None,
    ) -> DialogLineRetriever:
        """Return a LangChain retriever over dialog lines.

        Args:
            user_id: Search all threads of this user.
            thread_id: Search this thread only; without `user_id`, the thread of no user.
            k: Return exactly so many documents, one block of neighbouring lines each.
            max_tokens: Or as many blocks as fit this budget (characters / 4).
            threshold: Leave out lines with a lower cosine similarity; "auto": find nothing where
                the question is not related to anything that was said.
        """
        from langchain_convmem.recall import DialogLineRetriever

        owner_of(user_id, thread_id)
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
        threshold: float | Literal["auto"] | None = None,
        remember: bool = True,
    ) -> Recall:
        """Return the dialog lines that fit a query best, with the lines around them.

        Args:
            query: What to look for, as it was said. The write hook is asked about it first, since
                an embedder may be another's; where it leaves nothing, nothing is found.
            user_id: Search all threads of this user.
            thread_id: With a user: the current thread, whose live context is left out, since the
                model sees it anyway. Without: the one thread to search, whole.
            k: Exactly so many blocks, or
            max_tokens: as many as fit this budget (default 1,000).
            threshold: Leave out lines with a lower cosine similarity; "auto": find nothing where
                the question is not related to anything that was said.
            remember: Whether what is found enters the relevance buffer of the current thread,
                where the settings have one. Either way it is in the answer's `buffer`.
        """
        wish = {"k": k, "max_tokens": max_tokens, "threshold": threshold, "remember": remember}
        return run(self._recall_steps(query, user_id, thread_id, wish))

    async def arecall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | Literal["auto"] | None = None,
        remember: bool = True,
    ) -> Recall:
        """Return the dialog lines that fit a query best; see `recall`."""
        wish = {"k": k, "max_tokens": max_tokens, "threshold": threshold, "remember": remember}
        return await arun(self._recall_steps(query, user_id, thread_id, wish))

    def _recall_steps(
        self, query: str, user_id: str | None, thread_id: str | None, wish: dict[str, Any]
    ) -> Steps[Recall]:
        owner = owner_of(user_id, thread_id)
        current: ThreadKey | None = None
        exclude: Mapping[ThreadKey, Collection[int]] = {}
        if user_id is not None and thread_id is not None:
            current = ThreadKey(user_id, thread_id)
            view = yield from context_steps(self.log, current)
            exclude = {current: view.positions}
        found: Recall = yield from self.line_recall.recall_steps(
            owner, query, exclude=exclude, buffer=current, **wish
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
