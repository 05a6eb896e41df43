"""Recall over a log: keeps an index for each owner who asks, and answers in blocks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, Unpack

from langchain_convmem.errors import ConfigError
from langchain_convmem.protocols import MessageLog
from langchain_convmem.recall.answer import Wish, build_recall
from langchain_convmem.recall.embedding import EmbeddedEmbeddings
from langchain_convmem.recall.embedding_border import embed_question
from langchain_convmem.recall.options import RecallOptions, check_scope, checked_wish, limits
from langchain_convmem.recall.owner_index import OwnerIndex, Progress
from langchain_convmem.recall.ranking import Question, rank, without_names
from langchain_convmem.recall.relevance_buffer import (
    Buffered,
    BufferedBlock,
    buffer_steps,
    living,
    references,
    rendered,
)
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.recall.workers import in_worker
from langchain_convmem.records import Owner, Recall, RecalledBlock, ThreadKey
from langchain_convmem.steps import Step, Steps, arun, run

if TYPE_CHECKING:
    import numpy as np
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

__all__ = ["LineRecall"]


class LineRecall:
    """Finds verbatim dialog lines in a log, by meaning, words and neighbourhood.

    Indexes are caches of the log: built when an owner first asks, kept fresh by cursor, dropped
    when too many other owners came since. Thread-safe; recalls of one owner queue, those of
    different owners do not. The log and the embedder stay the caller's: nothing is closed here.
    """

    def __init__(
        self,
        log: MessageLog,
        embeddings: Embeddings | None = None,
        settings: RecallSettings | None = None,
        *,
        max_owners: int = 64,
    ) -> None:
        """Create a recall over `log`; nothing is read yet.

        Args:
            log: Where the lines stand.
            embeddings: Any LangChain embedder; the embedded one by default.
            settings: Weights and limits.
            max_owners: How many owners' indexes stay in memory; the least recently used leave.

        Raises:
            ConfigError: If `max_owners` is not positive.
        """
        if max_owners < 1:
            msg = f"max_owners must be at least 1, got {max_owners!r}"
            raise ConfigError(msg)
        self.log = log
        self.embeddings: Embeddings = EmbeddedEmbeddings() if embeddings is None else embeddings
        self.settings = RecallSettings() if settings is None else settings
        self._max_owners = max_owners
        self._owners: OrderedDict[Owner, OwnerIndex] = OrderedDict()
        self._owners_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LineRecall({self.log!r}, {type(self.embeddings).__name__})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: copies of what holds a recall share its indexes."""
        return self

    # -- recalling ---------------------------------------------------------------------------

    def recall(self, owner: Owner, query: str, **options: Unpack[RecallOptions]) -> Recall:
        """Return the lines of `owner` that answer `query` best, in blocks, best first.

        Args:
            owner: Whose lines are searched.
            query: What is asked, in plain words.
            **options: How much, from where and how like; see `RecallOptions`.

        Raises:
            ConfigError: If an argument makes no sense; the message names it.
            LogError: If the log cannot be read.
        """
        return run(self.recall_steps(owner, query, **options))

    async def arecall(self, owner: Owner, query: str, **options: Unpack[RecallOptions]) -> Recall:
        """Recall as `recall` does, without blocking the event loop."""
        return await arun(self.recall_steps(owner, query, **options))

    def recall_steps(
        self,
        owner: Owner,
        query: str,
        *,
        k: int | None = None,
        max_tokens: int | None = None,
        threshold: float | Literal["auto"] | None = None,
        within: ThreadKey | None = None,
        exclude: Mapping[ThreadKey, Collection[int]] | None = None,
        ranking: int = 20,
        buffer: ThreadKey | None = None,
        remember: bool = True,
        settings: RecallSettings | None = None,
    ) -> Steps[Recall]:
        """Return the steps of a recall, for `run` or `arun` or as part of a longer job."""
        wish = checked_wish(
            query,
            k=k,
            max_tokens=max_tokens,
            threshold=threshold,
            ranking=ranking,
            settings=settings or self.settings,
        )
        check_scope(owner, within)
        check_scope(owner, buffer, "buffer")
        index = self._index_of(owner)
        known: _Known = yield _off_loop(partial(_caught_up, index))
        vector, problem = yield from self._embed(wish, known)
        scan = partial(
            _scan, index, wish, vector=vector, problem=problem, within=within, exclude=exclude
        )
        recall: Recall
        recall, found = yield _off_loop(scan)
        if buffer is None or not wish.settings.buffer_size:
            return recall
        look_up = partial(
            _looked_up, index, wish, fresh=recall.blocks, within=within, exclude=exclude
        )
        return (yield from self._buffered(recall, buffer, found, look_up, remember=remember))

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
        settings = settings or self.settings
        nothing = Recall((), ())
        if not settings.buffer_size:
            return nothing
        k, max_tokens = limits(k, max_tokens, settings)
        wish = Wish("", k, max_tokens, None, 0, settings)
        index = self._index_of(buffer.owner)
        look_up = partial(_looked_up, index, wish, fresh=(), within=None, exclude=exclude)
        return (yield from self._buffered(nothing, buffer, (), look_up, remember=False))

    def _buffered(
        self,
        recall: Recall,
        buffer: ThreadKey,
        found: Sequence[BufferedBlock],
        look_up: Callable[[Sequence[BufferedBlock]], Buffered],
        *,
        remember: bool,
    ) -> Steps[Recall]:
        shown, problems = yield from buffer_steps(
            self.log,
            buffer,
            found,
            lambda blocks: _off_loop(partial(look_up, blocks)),
            remember=remember,
        )
        return replace(recall, buffer=shown, problems=(*recall.problems, *problems))

    def _embed(
        self, wish: Wish, known: _Known
    ) -> Steps[tuple[NDArray[np.float32] | None, str | None]]:
        if not wish.settings.dense_weight:
            return None, None
        text = wish.query
        if not wish.settings.names_in_meaning:
            text = without_names(text, known.speakers)
        return (yield from embed_question(self.embeddings, text, known.dim))

    # -- indexes -----------------------------------------------------------------------------

    def refresh(self, owner: Owner, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead what the log has new, so that the next recall need not.

        Args:
            owner: Whose lines.
            progress: Called with (done, total) segments after each batch, in this thread.

        Returns:
            Problems, one sentence each; empty when every line is indexed whole.

        Raises:
            LogError: If the log cannot be read.
        """
        index = self._index_of(owner)
        with index.lock:
            index.catch_up(progress, retry=True)
            return index.problems

    async def arefresh(self, owner: Owner, progress: Progress | None = None) -> tuple[str, ...]:
        """Index ahead, without blocking the event loop; `progress` is called in a worker."""
        return await in_worker(partial(self.refresh, owner, progress))

    def _index_of(self, owner: Owner) -> OwnerIndex:
        if not isinstance(owner, Owner):
            msg = f"owner must be an Owner, got {owner!r}"
            raise ConfigError(msg)
        with self._owners_lock:
            index = self._owners.pop(owner, None)
            if index is None:
                limit = self.settings.exact_limit
                index = OwnerIndex(self.log, owner, self.embeddings, exact_limit=limit)
            self._owners[owner] = index
            while len(self._owners) > self._max_owners:
                self._owners.popitem(last=False)
            return index


# -- steps -----------------------------------------------------------------------------------


def _off_loop(call: Callable[[], Any]) -> Step:
    """Return the step that makes the call here, or in a worker thread of an event loop."""
    return Step(call, lambda: in_worker(call))


class _Known(NamedTuple):
    """What embedding a question needs to know of an index, read under its lock."""

    speakers: list[str]
    dim: int | None


def _caught_up(index: OwnerIndex) -> _Known:
    with index.lock:
        index.catch_up()
        return _Known(index.table.speakers, index.vectors.dim)


def _scan(
    index: OwnerIndex,
    wish: Wish,
    *,
    vector: NDArray[np.float32] | None,
    problem: str | None,
    within: ThreadKey | None,
    exclude: Mapping[ThreadKey, Collection[int]] | None,
) -> tuple[Recall, tuple[BufferedBlock, ...]]:
    with index.lock:
        table = index.table
        if vector is not None and index.vectors.dim not in (None, len(vector)):
            vector = None
        question = Question(wish.query, vector, table.allowed(within, exclude))
        ranking = rank(question, table, index.vectors, index.lexical, wish.settings)
        problems = index.problems if problem is None else (*index.problems, problem)
        allowed = question.allowed
        recall, groups = build_recall(
            wish, ranking, table, index.lexical, allowed=allowed, problems=problems
        )
        if not wish.settings.buffer_size:
            return recall, ()
        return recall, references(groups, recall.blocks, table)


def _looked_up(
    index: OwnerIndex,
    wish: Wish,
    blocks: Sequence[BufferedBlock],
    *,
    fresh: Sequence[RecalledBlock],
    within: ThreadKey | None,
    exclude: Mapping[ThreadKey, Collection[int]] | None,
) -> Buffered:
    with index.lock:
        # Another process may have buffered lines that this index has not read yet.
        index.catch_up()
        table = index.table
        kept = tuple(living(blocks, table)[: wish.settings.buffer_size])
        allowed = table.allowed(within, exclude)
        shown = rendered(kept, table, allowed, max_tokens=wish.max_tokens, fresh=fresh)
        return Buffered(kept, shown)
