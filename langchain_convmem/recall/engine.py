"""Recall over a log: keeps an index for each owner who asks, and answers in blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_convmem.protocols import MessageLog, SegmentCache
from langchain_convmem.recall.backlog import BACKLOG, until_done
from langchain_convmem.recall.dialog_recall import DialogRecall, EmbedderUse, Progress
from langchain_convmem.recall.embedder_choice import Embedder, EmbedderChoice
from langchain_convmem.recall.hooks import check_hooks, reranked, rewritten
from langchain_convmem.recall.indexes.embedding_border import embed_question
from langchain_convmem.recall.indexes.index_registry import IndexRegistry
from langchain_convmem.recall.indexes.owner_index import OwnerIndex
from langchain_convmem.recall.indexes.pending import embed_pending, waiting
from langchain_convmem.recall.names import without_names
from langchain_convmem.recall.options import Request
from langchain_convmem.recall.query import search_text
from langchain_convmem.recall.relevance_buffer import BufferedBlock, buffer_steps
from langchain_convmem.recall.scopes import Owners, Scope, checked_owners
from langchain_convmem.recall.search import Asked, Candidate, Search, looked_up
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.recall.workers import in_worker
from langchain_convmem.records import Owner, Recall
from langchain_convmem.steps import Step, Steps

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.embeddings import Embeddings

    from langchain_convmem.recall.answer import Wish
    from langchain_convmem.recall.hooks import Rewriter

__all__ = ["LineRecall"]

_LINES_PER_SECOND = 128
"""About how many short lines a processor embeds; more of them would not be done in time."""


class LineRecall(DialogRecall):
    """Finds verbatim dialog lines in a log, by meaning, words and neighbourhood.

    Indexes are caches of the log: built when an owner first asks, kept fresh by cursor, dropped
    when too many other owners came since. Thread-safe; recalls of one owner queue, those of
    different owners do not. The log and the embedder stay the caller's: nothing is closed here.
    """

    def __init__(
        self,
        log: MessageLog,
        embeddings: Embedder = "auto",
        settings: RecallSettings | None = None,
        *,
        max_owners: int = 256,
        max_segments: int = 1_000_000,
        rewriter: Rewriter | None = None,
        reranker: BaseDocumentCompressor | None = None,
    ) -> None:
        """Create a recall over `log`; nothing is read yet.

        Args:
            log: Where the lines stand.
            embeddings: Any LangChain embedder. `"auto"` and None: for an owner with stored vectors
                the embedder of this package that made them; for others the sentence encoder where
                its weights are installed and the log keeps vectors, else the static one.
            settings: Weights and limits.
            max_owners: How many owners' indexes stay in memory; the least recently used leave.
            max_segments: How many segments of lines these hold together. An index that is larger by
                itself stays as long as nobody else asks.
            rewriter: Makes of a question what to search for, one text or several: a Runnable, or
                a function, plain or asynchronous. Several count each line as for the one that suits
                it best. Where it fails or says nothing, the question itself is asked, and
                `Recall.problems` says why.
            reranker: Puts the best lines in an order of its own, which leads; what it leaves out
                is no hit. Where it fails they keep theirs, and `Recall.problems` says why.

        Raises:
            ConfigError: If a limit is not positive, a hook is none, or `embeddings` is a text
                other than `"auto"`.
        """
        check_hooks(rewriter, reranker)
        self._reindexing = threading.Lock()
        self.log = log
        choice = EmbedderChoice(log, embeddings)
        self.embeddings: Embeddings = choice.default
        self.settings = RecallSettings() if settings is None else settings
        self._rewriter = rewriter
        self._reranker = reranker
        self._indexes = IndexRegistry(
            log,
            choice,
            index=self.settings.index,
            vector_bits=self.settings.vector_bits,
            max_owners=max_owners,
            max_segments=max_segments,
        )

    def __repr__(self) -> str:
        return f"LineRecall({self.log!r}, {type(self.embeddings).__name__})"

    # -- recalling ---------------------------------------------------------------------------

    def answer_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps that answer a request."""
        texts, problem = yield from rewritten(self._rewriter, request.wish.query)
        index = yield from self._index(request.scope.owners)
        known = yield from self._known(index, request)
        asked, problems = yield from self._embed(index, texts, known, request.wish)
        search = Search(index, request, asked, _those((problem, *problems)))
        if self._reranker is not None:
            search = yield from self._reranked(search, self._reranker)
        found: tuple[Recall, tuple[BufferedBlock, ...]] = yield _off_loop(search.answer)
        if known.pending:
            BACKLOG.submit(index)
        return (yield from self._buffered(index, request, *found))

    def silent_steps(self, request: Request) -> Steps[Recall]:
        """Return the steps that answer a request with its buffer alone, as if nothing was asked."""
        index = yield from self._index(request.scope.owners)
        silent = request._replace(remember=False)
        return (yield from self._buffered(index, silent, Recall((), ()), ()))

    def _index(self, owners: tuple[Owner, ...]) -> Steps[OwnerIndex]:
        index = self._indexes.kept(owners)
        if index is None:
            index = yield _off_loop(partial(self._indexes.of, owners))
        return index

    def _known(self, index: OwnerIndex, request: Request) -> Steps[_Known]:
        """Catch up, and wait a little where few lines that may come back are not embedded yet."""
        known: _Known = yield _off_loop(partial(_caught_up, index, request.scope))
        is_little = known.pending <= request.patience_s * _LINES_PER_SECOND
        if known.awaited and is_little and request.wish.settings.dense_weight:
            yield until_done(BACKLOG.submit(index), request.patience_s)
            known = yield _off_loop(partial(_caught_up, index, request.scope))
        return known

    def _embed(
        self, index: OwnerIndex, texts: Sequence[str], known: _Known, wish: Wish
    ) -> Steps[tuple[tuple[Asked, ...], list[str | None]]]:
        settings = wish.settings
        if not settings.dense_weight or known.dim is None:
            return tuple(Asked(text, None) for text in texts), []
        asked: list[Asked] = []
        problems: list[str | None] = []
        for text in texts:
            meant = search_text(text, wish.before)
            if not settings.names_in_meaning:
                meant = without_names(meant, known.speakers)
            vector, problem = yield from embed_question(index.embeddings, meant, known.dim)
            asked.append(Asked(text, vector))
            problems.append(problem)
        return tuple(asked), problems

    def _reranked(self, search: Search, reranker: BaseDocumentCompressor) -> Steps[Search]:
        candidates: list[Candidate] = yield _off_loop(search.candidates)
        if not candidates:
            return search
        documents = [candidate.document for candidate in candidates]
        query = search.request.wish.search_text
        order, problem = yield from reranked(reranker, query, documents)
        if order is None:
            return replace(search, problems=_those((*search.problems, problem)))
        return replace(search, order=[candidates[number].name for number in order])

    def _buffered(
        self,
        index: OwnerIndex,
        request: Request,
        recall: Recall,
        found: Sequence[BufferedBlock],
    ) -> Steps[Recall]:
        if request.buffer is None:
            return recall
        look_up = partial(looked_up, index, request, recall.blocks)
        shown, problems = yield from buffer_steps(
            self.log,
            request.buffer,
            found,
            lambda blocks: _off_loop(partial(look_up, blocks)),
            remember=request.remember,
        )
        return replace(recall, buffer=shown, problems=(*recall.problems, *problems))

    # -- indexes -----------------------------------------------------------------------------

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead what the log has new, so that the next recall need not.

        Args:
            owner: Whose lines; several owners who are searched together share one index.
            progress: Called with (done, total) segments after each batch, in this thread.

        Returns:
            Problems, one sentence each; empty when every line is indexed whole.

        Raises:
            LogError: If the log cannot be read.
            EmbedderChangedError: If lines wait for `reindex`; all else was done.
        """
        index = self._index_of(owner)
        with index.lock:
            index.refresh(None if index.embeds_behind else progress)
        if index.embeds_behind:
            embed_pending(index, progress)
        with index.lock:
            return index.problems

    async def arefresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead, without blocking the event loop; `progress` is called in a worker."""
        return await in_worker(partial(self.refresh, owner, progress))

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Embed what another embedder has embedded; the old vectors go when all new ones are there.

        Until then lines with old vectors alone are found by their words. Each batch is stored
        before the next one is sent, so after a failure or a kill another call goes on where this
        one stopped. Recalls need not wait: it works on an index of its own. Calls of this kind wait
        for each other. A log that stores no vectors has none to change: then this is `refresh`.

        Args:
            owner: Whose lines.
            progress: Called with (done, total) segments after each batch, in this thread.

        Returns:
            Problems, one sentence each; empty when every line is indexed whole.

        Raises:
            LogError: If the log cannot be read.
        """
        owners = checked_owners(owner)
        if not isinstance(self.log, SegmentCache):
            return self.refresh(owners, progress)
        with self._reindexing:
            kept = self._indexes.kept(owners)
            if kept is not None and self._is_at_work(kept):
                return self._finished(kept, progress)
            if kept is not None:
                with kept.lock:
                    kept.save()  # paid for already
            index = self._indexes.made_anew(owners)
            index.reindex(progress)
            problems = index.problems
            self._indexes.adopt(owners, index)
            return problems

    def _is_at_work(self, index: OwnerIndex) -> bool:
        """Return whether lines may be embedded for an index behind at this moment."""
        with index.lock:
            is_same = index.embeds_behind and index.embeddings == self.embeddings
            return is_same and index.may_embed()

    def _finished(self, index: OwnerIndex, progress: Progress | None) -> tuple[str, ...]:
        """Embed what waits in an index, and delete what other embedders have made."""
        embed_pending(index, progress)
        with index.lock:
            index.delete_others()
            return index.problems

    async def areindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Embed anew, without blocking the event loop; `progress` is called in a worker."""
        return await in_worker(partial(self.reindex, owner, progress))

    def embedder_of(self, owner: Owners) -> EmbedderUse:
        """Return what embeds the lines of an owner, and how many wait for it.

        Raises:
            LogError: If the log cannot be read.
        """
        index = self._index_of(owner)
        with index.lock:
            index.catch_up()
            segments, pending = len(index.table), len(index.vectors.missing)
            return EmbedderUse(index.embeddings, segments, pending, index.problems)

    def embed_behind(self, owner: Owner) -> None:
        """Have what was just stored of an owner embedded behind, if they were searched before."""
        for index in self._indexes.involving(owner):
            if index.embeds_behind:
                BACKLOG.submit(index)

    def close(self) -> None:
        """Embed nothing more behind: few lines are finished, of more the batch under way.

        Nothing else is closed; another recall goes on. Idempotent.
        """
        BACKLOG.close(self._indexes.indexes)

    def forgotten_steps(self, owner: Owner) -> Steps[None]:
        """Return the steps that take out of memory what the log has forgotten of an owner.

        The next recall would do so anyway; in other processes it does. Nothing is raised.
        """
        for index in self._indexes.involving(owner):
            yield _off_loop(partial(_drop_forgotten, index))

    def _index_of(self, owner: Owners) -> OwnerIndex:
        return self._indexes.of(checked_owners(owner))


# -- steps -----------------------------------------------------------------------------------


def _off_loop(call: Callable[[], Any]) -> Step:
    """Return the step that makes the call here, or in a worker thread of an event loop."""
    return Step(call, lambda: in_worker(call))


def _those(problems: Sequence[str | None]) -> tuple[str, ...]:
    """Return what went wrong, each once."""
    return tuple(dict.fromkeys(problem for problem in problems if problem is not None))


class _Known(NamedTuple):
    """What embedding a question needs to know of an index, read under its lock.

    Attributes:
        speakers: Whose names may be left out of it.
        dim: Components of a vector; None where there is none.
        pending: How many segments are to be embedded behind.
        awaited: How many of them the recall may return.
    """

    speakers: list[str]
    dim: int | None
    pending: int
    awaited: int


def _drop_forgotten(index: OwnerIndex) -> None:
    with index.lock:
        index.drop_forgotten()


def _caught_up(index: OwnerIndex, scope: Scope) -> _Known:
    with index.lock:
        index.catch_up()
        awaited = waiting(index, scope.mask)
        pending = len(index.vectors.missing) if index.embeds_behind else 0
        return _Known(index.table.speakers, index.vectors.dim, pending, awaited)
