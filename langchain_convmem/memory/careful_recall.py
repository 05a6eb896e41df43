"""Recall behind a write hook: a question is what somebody said, and an embedder may be another's.

Imported when recall is first asked for, since recall's own imports are heavy.
"""

from __future__ import annotations

from dataclasses import replace

from langchain_convmem.recall import DialogRecall
from langchain_convmem.recall.dialog_recall import EmbedderUse, Progress
from langchain_convmem.recall.options import Request
from langchain_convmem.recall.scopes import Owners
from langchain_convmem.records import Owner, Recall
from langchain_convmem.steps import Steps
from langchain_convmem.views.drafting import Drafting

__all__ = ["CarefulRecall"]


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
