"""Rankings made of rankings: one of several questions, and one in another order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.ranked import Columns, Ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rearranged", "best_of"]


def best_of(rankings: Sequence[Ranking]) -> Ranking:
    """Return the ranking in which each segment counts as for the question that suits it best.

    Relevance is standardised for each question, so that those of several compare.

    Args:
        rankings: One for each question, over the same lines; at least one.
    """
    if len(rankings) == 1:
        return rankings[0]
    numbers = np.unique(np.concatenate([ranking.columns.numbers for ranking in rankings]))
    places = [np.searchsorted(numbers, ranking.columns.numbers) for ranking in rankings]
    relevance = np.full((len(rankings), len(numbers)), -np.inf)
    for row, ranking, at in zip(relevance, rankings, places, strict=True):
        row[at[ranking.rows]] = ranking.columns.relevance[ranking.rows]
    best = relevance.argmax(axis=0)
    columns = {
        field.name: _gathered(field.name, rankings, places, best) for field in fields(Columns)
    }
    ranked = np.flatnonzero(relevance.max(axis=0) > -np.inf)
    joined = Ranking(Columns(**{**columns, "numbers": numbers}), ranked)
    joined.older = frozenset().union(*(ranking.older for ranking in rankings))
    return joined


def _gathered(
    name: str,
    rankings: Sequence[Ranking],
    places: Sequence[NDArray[np.int64]],
    best: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return a column whose values come from the ranking that `best` names for each place."""
    first = getattr(rankings[0].columns, name)
    gathered = np.zeros(len(best), dtype=first.dtype)
    for number, (ranking, at) in enumerate(zip(rankings, places, strict=True)):
        own = best[at] == number
        gathered[at[own]] = getattr(ranking.columns, name)[own]
    return gathered


class Rearranged(Ranking):
    """Some segments of a ranking in an order of their own; scores are those of the ranking."""

    def __init__(self, ranking: Ranking, numbers: Iterable[int]) -> None:
        """Put segments in this order; repetitions and what is not ranked are left out."""
        given = np.array(list(dict.fromkeys(numbers)), dtype=np.int64)
        kept = given[np.isin(given, ranking.columns.numbers[ranking.rows])]
        rows = np.searchsorted(ranking.columns.numbers, kept)
        super().__init__(ranking.columns, np.sort(rows))
        self._ordered, self._unread = [rows], 0
        self.older, self.loose = ranking.older, ranking.loose
