"""Recall of dialog lines: `DialogRecall`, the interface; `LineRecall`, which is one over a log.

A `LineRecall` keeps an index per owner and answers in blocks.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, Unpack

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable

from langchain_convmem.background import ask, to_async
from langchain_convmem.causes import UnreadableError, describe_value, report_problem
from langchain_convmem.errors import ConfigError
from langchain_convmem.forks import make_lock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.blocks import build_recall, select_hits
from langchain_convmem.recall.buffer import (
    BufferedBlock,
    BufferLookup,
    make_references,
    render_blocks,
    select_living,
    update_buffer,
)
from langchain_convmem.recall.embedding import choose_embedder
from langchain_convmem.recall.index import (
    IndexRegistry,
    OwnerIndex,
    embed_missing,
    finish_later,
    scan_lines,
    stop_embedding,
)
from langchain_convmem.recall.options import (
    Owners,
    Progress,
    RecallOptions,
    RecallQuery,
    RecallSettings,
    Scope,
    make_query,
    remove_names,
    search_text,
    sort_owners,
)
from langchain_convmem.recall.ranking import Columns, Ranking, rank
from langchain_convmem.recall.segments import SegmentTable
from langchain_convmem.records import DialogLine, Owner, ThreadKey
from langchain_convmem.runnables import check_askable
from langchain_convmem.views.lines import indent_text
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.shown import Recall
from langchain_convmem.views.tokens import count_text_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

    from langchain_convmem.recall.segments import SegmentName
    from langchain_convmem.views.shown import RecalledBlock


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
    count_text: TextCounter = staticmethod(count_text_tokens)
    """Counts the tokens of a text where a call says nothing."""

    def bind_query_hook(self, hook: QueryHook) -> Self:
        """Return this recall, over the same indexes, with a hook that each question passes first.

        Where the hook leaves nothing of a question, nothing is found.
        """
        recall = copy(self)
        recall.query_hooks = (hook, *self.query_hooks)
        return recall

    def bind_counter(self, count_text: TextCounter) -> Self:
        """Return this recall, over the same indexes, with what counts the tokens of its texts."""
        recall = copy(self)
        recall.count_text = count_text
        return recall

    def drop_hooks(self) -> Self:
        """Return this recall, over the same indexes, without a rewriter and a reranker."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: copies of what holds a recall share its indexes."""
        return self

    # -- recalling ---------------------------------------------------------------------------

    def find_lines(self, owner: Owner, words: Collection[str]) -> list[DialogLine]:
        """Return an owner's lines that hold all of these words, in commit order.

        Args:
            owner: Whose lines.
            words: Folded words, at least one; parts of longer ones count.

        Raises:
            LogError: If the log cannot be read.
        """
        return scan_lines(self.log, owner, words)

    afind_lines = to_async(find_lines)

    def recall(self, owner: Owners, query: str, **options: Unpack[RecallOptions]) -> Recall:
        """Return the lines of `owner` that answer `query` best, in blocks, best first.

        Args:
            owner: Whose lines are searched; of several owners, those of all together.
            query: What is asked, in plain words; blank only with a `buffer`, to read that alone.
                Of more than 8,000 characters the first and the last 4,000 are read.
            **options: How much, from where and how like; see `RecallOptions`.

        Raises:
            ConfigError: If an argument is invalid; the message names it. If the rewriter is a
                coroutine function, which only `arecall` can await.
            LogError: If the log cannot be read.
        """
        options.setdefault("count_text", self.count_text)
        checked = make_query(owner, query, self.settings, **options)
        if self.query_hooks:
            checked = self._pass_hooks(checked)
        # Only now, so that no hook gets half of what it would have left out.
        checked = checked.cut()
        if not checked.text.strip():
            return self.answer_from_buffer(checked)
        return self.answer(checked)

    arecall = to_async(recall)

    def _pass_hooks(self, query: RecallQuery) -> RecallQuery:
        """Return a query with what the hooks leave of its question; empty where that is blank."""
        text, before = query.text, query.before
        for hook in self.query_hooks:
            text = hook(text) if text.strip() else ""
            before = hook(before) if before and before.strip() else None
        return replace(query, text=text, before=before)

    @abstractmethod
    def answer(self, query: RecallQuery) -> Recall:
        """Answer a query."""

    @abstractmethod
    def answer_from_buffer(self, query: RecallQuery) -> Recall:
        """Answer a query with its buffer alone, as without a question."""

    # -- indexes -----------------------------------------------------------------------------

    @abstractmethod
    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index new lines now, so that the next recall does not have to.

        Args:
            owner: Whose lines; several owners who are searched together may share one index.
            progress: Called with (done, total) segments after each batch, in the thread that works.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            LogError: If the log cannot be read.
        """

    arefresh = to_async(refresh)

    @abstractmethod
    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Re-embed what another embedder has embedded; otherwise `refresh`."""

    areindex = to_async(reindex)

    def get_embedder_use(self, owner: Owners) -> EmbedderUse:  # noqa: ARG002 - of other kinds each may
        """Return what embeds the lines of an owner, and how many wait for it."""
        return EmbedderUse(self.embeddings)

    def embed_later(self, owner: Owner) -> None:  # noqa: B027 - most kinds have nothing to do
        """Embed an owner's new lines soon; does nothing if none are pending."""

    def close(self) -> None:  # noqa: B027 - as above
        """End the work in the background; another recall may start it again. Idempotent."""

    def list_copies(
        self,
        scope: Owner | ThreadKey,  # noqa: ARG002 - as above
        entry_ids: Collection[str] | None,  # noqa: ARG002
    ) -> list[str]:
        """List, before they are forgotten, which lines are kept elsewhere."""
        return []

    @abstractmethod
    def drop_forgotten(self, owner: Owner, copies: Sequence[str] = ()) -> None:
        """Drop what the log has forgotten of an owner; never raises.

        Args:
            owner: Whose lines.
            copies: What `list_copies` listed before.
        """


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


# -- recall over a log: an index per owner -------------------------------------------------------
class LineRecall(DialogRecall):
    """Finds verbatim dialog lines in a log, by meaning, words and neighbourhood.

    Indexes are caches of the log: built when an owner first asks, kept fresh by cursor, dropped
    when too many other owners came since. Thread-safe; recalls of one owner queue, those of
    different owners do not. The caller closes the log and the embedder.
    """

    def __init__(
        self,
        log: MessageLog,
        embeddings: Embeddings | None = None,
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
            embeddings: Any LangChain embedder; None is `UniversalSentenceEmbeddings`.
            settings: Weights and limits.
            max_owners: How many owners' indexes stay in memory; the least recently used leave.
            max_segments: How many segments of lines these hold together. An index that is larger by
                itself stays as long as nobody else asks.
            rewriter: Makes of a question what to search for, one text or several: a Runnable, or
                a function, plain or asynchronous. Several count each line as for the one that suits
                it best. Where it fails or says nothing, the question itself is asked, and
                `Recall.problems` says why.
            reranker: Puts the best lines in an order of its own, which leads; what it leaves out
                is not a hit. If it fails, they keep theirs, and `Recall.problems` says why.

        Raises:
            ConfigError: If a limit is not positive, a hook is none, or `embeddings` no embedder.
        """
        check_hooks(rewriter, reranker)
        self._reindexing = make_lock()
        self.log = log
        self.embeddings: Embeddings = choose_embedder(embeddings)
        self.settings = RecallSettings() if settings is None else settings
        self.rewriter = rewriter
        self.reranker = reranker
        self._indexes = IndexRegistry(
            log, self.embeddings, max_owners=max_owners, max_segments=max_segments
        )

    def drop_hooks(self) -> Self:
        """Return this recall, over the same indexes, without its rewriter and its reranker."""
        recall = copy(self)
        recall.rewriter = recall.reranker = None
        return recall

    def __repr__(self) -> str:
        return f"LineRecall({self.log!r}, {type(self.embeddings).__name__})"

    # -- recalling -----------------------------------------------------------------------------

    def answer(self, query: RecallQuery) -> Recall:
        """Answer a query."""
        texts, problem = rewrite(self.rewriter, query.text)
        index = self._indexes.open(query.scope.owners)
        with index.lock:
            index.catch_up()
            is_awaited = count_waiting(index, query.scope) or is_asked_in_line(index, query.text)
        if is_awaited and query.settings.dense_weight and query.wait_s:
            embed_missing(index, query.wait_s)
        text = "\n".join(texts)
        meant = query if text == query.text else replace(query, text=text)
        search = Search(index, meant, *_embed(index, texts, query))
        search.problems.append(problem)
        order = None if self.reranker is None else search.rerank(self.reranker, query.search_text)
        recall, found = search.answer(order)
        finish_later(index)
        return self._update_buffer(index, query, recall, found)

    def answer_from_buffer(self, query: RecallQuery) -> Recall:
        """Answer a query with its buffer alone, as without a question."""
        index = self._indexes.open(query.scope.owners)
        silent = replace(query, remember=False)
        return self._update_buffer(index, silent, Recall((), ()), ())

    def _update_buffer(
        self, index: OwnerIndex, query: RecallQuery, recall: Recall, found: Sequence[BufferedBlock]
    ) -> Recall:
        if query.buffer is None:
            return recall
        look_up = partial(look_up_blocks, index, query, recall.blocks)
        shown, problems = update_buffer(
            self.log, query.buffer, found, look_up, remember=query.remember
        )
        return replace(recall, buffer=shown, problems=(*recall.problems, *problems))

    # -- indexes -------------------------------------------------------------------------------

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index new lines now, so that the next recall does not have to.

        Args:
            owner: Whose lines; several owners who are searched together share one index.
            progress: Called with (done, total) segments after each batch, in the thread that works.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            LogError: If the log cannot be read.
            ConfigError: If lines wait for `reindex`; all else was done.
        """
        index = self._indexes.open(sort_owners(owner))
        embed_missing(index, progress=progress)
        index.save_snapshot()
        with index.lock:
            index.store_rest()
            if index.change is not None:
                raise ConfigError(index.change)
            return index.problems

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Re-embed what another embedder has embedded, then delete the old vectors.

        Until then lines with old vectors alone are found by their words. Each batch is stored
        before the next one is sent, so after a failure or a kill another call goes on where this
        one stopped. Recalls need not wait. Calls of this kind wait for each other.

        Args:
            owner: Whose lines.
            progress: Called with (done, total) segments after each batch, in the thread that works.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            LogError: If the log cannot be read.
        """
        with self._reindexing:
            index = self._indexes.open(sort_owners(owner))
            embed_missing(index, progress=progress, anew=True)
            with index.lock:
                index.store_rest()
                index.finish_reindex()
                return index.problems

    def get_embedder_use(self, owner: Owners) -> EmbedderUse:
        """Return what embeds the lines of an owner, and how many wait for it.

        Raises:
            LogError: If the log cannot be read.
        """
        index = self._indexes.open(sort_owners(owner))
        with index.lock:
            index.catch_up()
            segments, pending = len(index.table), len(index.vectors.missing)
            return EmbedderUse(index.embeddings, segments, pending, index.problems)

    def close(self) -> None:
        """Embed nothing more: few lines are finished, of more the batch under way.

        Nothing else is closed; recalls still work. Idempotent.
        """
        stop_embedding(self._indexes.indexes)

    def find_lines(self, owner: Owner, words: Collection[str]) -> list[DialogLine]:
        """Return an owner's lines that hold all of these words; see `DialogRecall.find_lines`.

        Of an owner who was searched before, only what is new is read from the log.
        """
        index = self._indexes.find_kept((owner,))
        if index is None:
            return super().find_lines(owner, words)
        with index.lock:
            index.catch_up()
            return index.table.find_lines(words)

    def drop_forgotten(self, owner: Owner, copies: Sequence[str] = ()) -> None:  # noqa: ARG002 - there are none
        """Drop from memory what the log has forgotten of an owner.

        The next recall would do so anyway; in other processes it does. Nothing is raised.
        """
        for index in self._indexes.find_involving(owner):
            with index.lock:
                index.drop_forgotten()


def count_waiting(index: OwnerIndex, scope: Scope) -> int:
    """Return how many segments in scope wait to be embedded, and can be; hold the index's lock."""
    missing = index.vectors.missing
    if not missing or not index.may_embed():
        return 0
    return int(scope.mask(index.table)[list(missing)].sum())


def is_asked_in_line(index: OwnerIndex, question: str) -> bool:
    """Return whether a line that waits for a service is the question; hold the index's lock.

    What a turn asks is a line of it too: one request embeds it, with the reply before it.
    """
    missing = index.vectors.missing
    if index.is_local or not index.border.is_alike or len(missing) > _TURN_LINES:
        return False
    return any(index.table.get_text(number) == question for number in missing)


# -- a question put to an index ----------------------------------------------------------------
_CANDIDATES = 50
_TURN_LINES = 4
# A budget holds about one line for so many tokens.
_TOKENS_PER_LINE = 20
Asked: TypeAlias = "dict[str, NDArray[np.float32] | None]"
"""By question its embedding; None if it could not be embedded or need not be."""


def _embed(
    index: OwnerIndex, texts: Sequence[str], query: RecallQuery
) -> tuple[Asked, list[str | None]]:
    """Return the questions with their embeddings, and what went wrong."""
    asked: Asked = dict.fromkeys(texts)
    problems: list[str | None] = []
    with index.lock:
        speakers, dim = index.table.speakers, index.vectors.dim
    if query.settings.dense_weight and dim is not None:
        for text in texts:
            meant = remove_names(search_text(text, query.before), speakers)
            asked[text], problem = index.border.embed_question(meant, dim)
            problems.append(problem)
    return asked, problems


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked of an index. Thread-safe: the index is locked while it is read.

    Attributes:
        index: Where lines are looked for.
        query: What is wanted back, and what may come back; its text is all questions.
        asked: The questions; a line is as good as for the one that suits it best.
        problems: What went wrong so far; None is nothing.
    """

    index: OwnerIndex
    query: RecallQuery
    asked: Asked
    problems: list[str | None]

    def rerank(self, reranker: BaseDocumentCompressor, text: str) -> list[SegmentName] | None:
        """Return the only segments that may be hits, in a reranker's order; None if it fails."""
        with self.index.lock:
            table, (_, ranking, hits) = self.index.table, self._rank()
            numbers = list(self._select_first_of_lines(hits))
            names = [table.get_name(number) for number in numbers]
            documents = [_make_document(number, ranking, table) for number in numbers]
        if not documents:
            return None
        order, problem = rerank(reranker, text, documents)
        self.problems.append(problem)
        return None if order is None else [names[at] for at in order]

    def answer(
        self, order: Sequence[SegmentName] | None
    ) -> tuple[Recall, tuple[BufferedBlock, ...]]:
        """Return the answer, and what a relevance buffer keeps of it; see `rerank`."""
        index, query = self.index, self.query
        with index.lock:
            allowed, ranking, hits = self._rank()
            problems = [
                *(*index.problems, self._describe_waiting(), *self.problems),
                self._describe_best(hits, ranking),
            ]
            if order is not None:
                # Lines may have come and gone while the reranker thought about them.
                numbers = map(index.table.number_of, order)
                hits = hits.reorder(number for number in numbers if number is not None)
            recall, groups = build_recall(
                query,
                ranking,
                index.table,
                index.lexical,
                allowed=allowed,
                hits=hits,
                problems=list(dict.fromkeys(one for one in problems if one is not None)),
            )
            if query.buffer is None:
                return recall, ()
            return recall, make_references(groups, recall.blocks, index.table)

    def _describe_waiting(self) -> str | None:
        count = count_waiting(self.index, self.query.scope)
        which = "1 segment waits" if count == 1 else f"{count} segments wait"
        return f"{which} to be embedded, found by words alone until then" if count else None

    def _describe_best(self, hits: Ranking, ranking: Ranking) -> str | None:
        """Say how near the nearest line is where a fixed threshold lets none pass."""
        threshold = self.query.threshold
        if threshold in (None, "auto") or not len(ranking) or len(hits):
            return None
        best = ranking.columns.similarity[list(ranking)].max()
        return f"no line surpasses the threshold of {threshold}: the best cosine is {best:.2f}"

    def _rank(self) -> tuple[NDArray[np.bool_], Ranking, Ranking]:
        """Return which segments may come back, all by relevance, and which of them are hits."""
        index, query = self.index, self.query
        columns = index.table, index.vectors, index.lexical
        allowed = query.scope.mask(index.table)
        rankings: list[Ranking] = []
        for text, vector in self.asked.items():
            is_fitting = vector is not None and index.vectors.dim in (None, len(vector))
            meant = vector if is_fitting else None
            one = query if text == query.text else replace(query, text=text)
            rankings.append(rank(one, *columns, vector=meant, allowed=allowed))
        ranking = merge_rankings(rankings)
        hits = select_hits(query, ranking, index.table, index.lexical, allowed)
        return allowed, ranking, hits

    def _select_first_of_lines(self, hits: Iterable[int]) -> Iterator[int]:
        query, seen = self.query, set[int]()
        most = max(_CANDIDATES, 2 * (query.k or 0), (query.max_tokens or 0) // _TOKENS_PER_LINE)
        for number in hits:
            line = self.index.table.find_line_number(number)
            if line in seen:
                continue
            if len(seen) == most:
                return
            seen.add(line)
            yield number


def _make_document(number: int, ranking: Ranking, table: SegmentTable) -> Document:
    line = table.find_line(number)
    return Document(
        id=line.line_id,
        page_content=f"{line.speaker}: {indent_text(table.get_text(number))}",
        metadata={
            "line_id": line.line_id,
            "thread_id": line.key.thread_id,
            "user_id": line.key.user_id,
            "speaker": line.speaker,
            "time_ms": line.time_ms,
            "similarity": ranking.columns.similarity.item(number),
            "relevance": ranking.columns.relevance.item(number),
        },
    )


def look_up_blocks(
    index: OwnerIndex,
    query: RecallQuery,
    fresh: Sequence[RecalledBlock],
    blocks: Sequence[BufferedBlock],
) -> BufferLookup:
    """Return the blocks of a relevance buffer as lines, within the scope and the budget of a query.

    Args:
        index: Where the lines are.
        query: What may be shown.
        fresh: What the present question found.
        blocks: What the buffer holds, newest first.
    """
    with index.lock:
        # Another process may have buffered lines that this index has not read yet.
        index.catch_up()
        table = index.table
        kept = tuple(select_living(blocks, table)[: query.settings.buffer_size])
        allowed = query.scope.mask(table)
        shown = render_blocks(
            kept,
            table,
            allowed,
            max_tokens=query.max_tokens,
            count_text=query.count_text,
            fresh=fresh,
            now_ms=query.header_now_ms,
        )
        return BufferLookup(kept, shown)


# -- rankings of several questions, and in another order ---------------------------------------
def merge_rankings(rankings: Sequence[Ranking]) -> Ranking:
    """Merge rankings: each segment gets its best relevance over all questions.

    Relevance is standardised for each question, so that those of several compare.

    Args:
        rankings: One for each question, over the same segments; at least one.
    """
    if len(rankings) == 1:
        return rankings[0]
    best = np.array([ranking.columns.relevance for ranking in rankings]).argmax(axis=0)
    columns = {
        field.name: np.choose(best, [getattr(ranking.columns, field.name) for ranking in rankings])
        for field in fields(Columns)
    }
    older = frozenset().union(*(ranking.older for ranking in rankings))
    later = frozenset().union(*(ranking.later for ranking in rankings))
    return Ranking.from_columns(Columns(**columns), rankings[0].ranked, older, later)


# -- the border to hooks of the application ----------------------------------------------------
Queries: TypeAlias = "str | list[str]"

Rewriter: TypeAlias = (
    "Runnable[str, Queries] | Callable[[str], Queries] | Callable[[str], Awaitable[Queries]]"
)
"""Makes of a question the question or questions to search for."""

CANDIDATE = "candidate"
"""The key in the metadata of a reranker's documents that says which candidate each one is."""
_log = logging.getLogger("langchain_convmem")


def check_hooks(rewriter: Any, reranker: Any) -> None:
    """Refuse values that cannot be hooks.

    Raises:
        ConfigError: If it cannot; the message names it.
    """
    if not (rewriter is None or isinstance(rewriter, Runnable) or callable(rewriter)):
        wanted, given = "rewriter must be a Runnable or a function of a question", rewriter
    elif not (reranker is None or isinstance(reranker, BaseDocumentCompressor)):
        wanted, given = "reranker must be a LangChain BaseDocumentCompressor", reranker
    else:
        return
    raise ConfigError(f"{wanted}, got {describe_value(given)}")


# -- rewriting ---------------------------------------------------------------------------------
def rewrite(rewriter: Rewriter | None, question: str) -> tuple[tuple[str, ...], str | None]:
    """Return what to search for instead of the question, and what went wrong, if anything did.

    Raises:
        ConfigError: If the rewriter is a coroutine function, and nothing here can await it.
    """
    if rewriter is None:
        return (question,), None
    check_askable(rewriter, "the rewriter", "arecall, ainvoke or the like")
    try:
        queries = _check_queries(_ask_rewriter(rewriter, question))
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return (question,), report_problem(
            _log, "the rewriter failed and the question is asked as it is", error
        )
    return queries, None


def _ask_rewriter(rewriter: Any, question: str) -> Any:
    if isinstance(rewriter, Runnable):
        return ask(partial(rewriter.invoke, question), partial(rewriter.ainvoke, question))
    answer = rewriter(question)
    return ask(partial(_refuse, answer), lambda: answer) if iscoroutine(answer) else answer


def _refuse(answer: Coroutine[Any, Any, Any]) -> Any:
    answer.close()  # or Python complains later that nobody awaited it
    raise UnreadableError("it answers by a coroutine: use arecall, ainvoke or the like")


def _check_queries(answer: Any) -> tuple[str, ...]:
    queries = [answer] if isinstance(answer, str) else answer
    if not isinstance(queries, list | tuple) or not all(isinstance(one, str) for one in queries):
        msg = f"expected a text or a list of texts, got {type(answer).__name__}"
        raise UnreadableError(msg)
    asked = tuple(dict.fromkeys(one.strip() for one in queries if one.strip()))
    if not asked:
        raise UnreadableError("got nothing but blanks")
    return asked


# -- reranking ---------------------------------------------------------------------------------
def rerank(
    reranker: BaseDocumentCompressor, question: str, documents: Sequence[Document]
) -> tuple[list[int] | None, str | None]:
    """Return which documents the reranker keeps, in its order, or None and what went wrong.

    Args:
        reranker: Puts documents in order, and may leave some out.
        question: As it was asked.
        documents: Best first; which one each is, is added to their metadata.
    """
    marked = [
        Document(id=one.id, page_content=one.page_content, metadata={**one.metadata, CANDIDATE: n})
        for n, one in enumerate(documents)
    ]
    try:
        answer = ask(
            partial(reranker.compress_documents, marked, question),
            partial(reranker.acompress_documents, marked, question),
        )
        return _check_order(answer, len(marked)), None
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return None, report_problem(_log, "the reranker failed and lines keep their order", error)


def _check_order(answer: Any, count: int) -> list[int]:
    order = [document.metadata.get(CANDIDATE) for document in answer]
    known = [number for number in order if isinstance(number, int) and 0 <= number < count]
    if len(known) < len(order):
        msg = f"expected documents that it was given, with their metadata's {CANDIDATE!r} kept"
        raise UnreadableError(msg)
    return known
