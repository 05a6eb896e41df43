"""A question put to an index: ranked, perhaps in a reranker's order, and cut to an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from langchain_core.documents import Document

from langchain_convmem.recall.answer import Answer, Wish, build_recall, hits_of
from langchain_convmem.recall.indexes.owner_index import OwnerIndex
from langchain_convmem.recall.indexes.pending import waiting
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.options import Request
from langchain_convmem.recall.ranking import Question, Ranking, rank
from langchain_convmem.recall.rearranged import Rearranged, best_of
from langchain_convmem.recall.relevance_buffer import (
    Buffered,
    BufferedBlock,
    living,
    references,
    rendered,
)
from langchain_convmem.records import Recall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from langchain_convmem.recall.indexes.segment_table import SegmentName
    from langchain_convmem.records import RecalledBlock

__all__ = ["Asked", "Candidate", "Search", "looked_up"]

_CANDIDATES = 50
# A budget holds about one line for so many tokens.
_TOKENS_PER_LINE = 20


class Asked(NamedTuple):
    """A question, and its embedding; None if it could not be embedded or need not be."""

    text: str
    vector: NDArray[np.float32] | None


class Candidate(NamedTuple):
    """A segment that a reranker may put elsewhere, by a name that outlives its number."""

    name: SegmentName
    document: Document


class _Ranked(NamedTuple):
    """What the index makes of the questions, under its lock."""

    wish: Wish
    allowed: NDArray[np.bool_]
    ranking: Ranking
    hits: Ranking


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked of an index. Thread-safe: the index is locked while it is read.

    Attributes:
        index: Where lines are looked for.
        request: What is wanted back, and what may come back.
        asked: The questions; a line is as good as for the one that suits it best.
        problems: What went wrong so far.
        order: The only segments that may be hits, in order; None lets every line be one.
    """

    index: OwnerIndex
    request: Request
    asked: tuple[Asked, ...]
    problems: tuple[str, ...] = ()
    order: Sequence[SegmentName] | None = None

    def candidates(self) -> list[Candidate]:
        """Return what a reranker should look at, best first."""
        with self.index.lock:
            ranked = self._ranked()
            numbers = self._first_of_each_line(ranked.hits)
            return [_candidate(number, ranked.ranking, self.index.table) for number in numbers]

    def answer(self) -> tuple[Recall, tuple[BufferedBlock, ...]]:
        """Return the answer, and what a relevance buffer keeps of it."""
        with self.index.lock:
            table, ranked = self.index.table, self._ranked()
            recall, groups = self._built(ranked, self._in_order(ranked.hits))
            if self.request.buffer is None:
                return recall, ()
            return recall, references(groups, recall.blocks, table)

    def _built(self, ranked: _Ranked, hits: Ranking) -> Answer:
        return build_recall(
            ranked.wish,
            ranked.ranking,
            self.index.table,
            self.index.lexical,
            allowed=ranked.allowed,
            hits=hits,
            problems=(*self.index.problems, *self._waiting(ranked.allowed), *self.problems),
        )

    def _waiting(self, allowed: NDArray[np.bool_]) -> tuple[str, ...]:
        count = waiting(self.index, lambda _: allowed)
        if not count:
            return ()
        which = "1 segment waits" if count == 1 else f"{count} segments wait"
        return (f"{which} to be embedded, found by words alone until then",)

    def _ranked(self) -> _Ranked:
        index, wish = self.index, self.request.wish
        query = "\n".join([one.text for one in self.asked])
        if query != wish.query:
            wish = replace(wish, query=query)
        allowed = self.request.scope.mask(index.table)
        ranking = best_of([self._rank(one, allowed) for one in self.asked])
        hits = hits_of(wish, ranking, index.table, index.lexical, allowed)
        return _Ranked(wish, allowed, ranking, hits)

    def _rank(self, asked: Asked, allowed: NDArray[np.bool_]) -> Ranking:
        index, vector = self.index, asked.vector
        if vector is not None and index.vectors.dim not in (None, len(vector)):
            vector = None
        wish = self.request.wish
        question = Question(asked.text, vector, allowed, wish.now_ms, wish.before)
        settings = wish.settings
        return rank(question, index.table, index.vectors, index.lexical, settings)

    def _in_order(self, hits: Ranking) -> Ranking:
        if self.order is None:
            return hits
        # Lines may have come and gone while the reranker thought about them.
        numbers = map(self.index.table.number_of, self.order)
        return Rearranged(hits, (number for number in numbers if number is not None))

    def _first_of_each_line(self, hits: Iterable[int]) -> Iterator[int]:
        wish, seen = self.request.wish, set[int]()
        most = max(_CANDIDATES, 2 * (wish.k or 0), (wish.max_tokens or 0) // _TOKENS_PER_LINE)
        for number in hits:
            line = self.index.table.line_number(number)
            if line in seen:
                continue
            if len(seen) == most:
                return
            seen.add(line)
            yield number


def _candidate(number: int, ranking: Ranking, table: SegmentTable) -> Candidate:
    line, at = table.line_of(number), ranking.row_of(number)
    document = Document(
        id=line.line_id,
        page_content=f"{line.speaker}: {table.text(number)}",
        metadata={
            "line_id": line.line_id,
            "thread_id": line.key.thread_id,
            "user_id": line.key.user_id,
            "speaker": line.speaker,
            "time_ms": line.time_ms,
            "similarity": ranking.columns.similarity.item(at),
            "relevance": ranking.columns.relevance.item(at),
        },
    )
    return Candidate(table.name_of(number), document)


def looked_up(
    index: OwnerIndex,
    request: Request,
    fresh: Sequence[RecalledBlock],
    blocks: Sequence[BufferedBlock],
) -> Buffered:
    """Return the blocks of a relevance buffer as lines, within the request's scope and budget.

    Args:
        index: Where the lines are.
        request: What may be shown.
        fresh: What the present question found.
        blocks: What the buffer holds, newest first.
    """
    with index.lock:
        # Another process may have buffered lines that this index has not read yet.
        index.catch_up()
        wish, table = request.wish, index.table
        kept = tuple(living(blocks, table)[: wish.settings.buffer_size])
        allowed = request.scope.mask(table)
        shown = rendered(
            kept,
            table,
            allowed,
            max_tokens=wish.max_tokens,
            fresh=fresh,
            now_ms=wish.header_now_ms,
        )
        return Buffered(kept, shown)
