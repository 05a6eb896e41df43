"""What a store's scores are to the ranking of recall. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.recall.indexes.vectors import SegmentVectors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from langchain_convmem.recall.ranked import Ranking

__all__ = ["FoundVectors", "tell_only"]


class FoundVectors(SegmentVectors):
    """Similarities that a store has computed, in the place of vectors.

    Lines that the store did not propose are at most as similar as the least similar that it did,
    and count as that.
    """

    def __init__(self, count: int, similarities: Mapping[int, float]) -> None:
        """Create it for `count` segments, some of which have a similarity."""
        super().__init__()
        floor = min(similarities.values(), default=0.0)
        self._similarities = np.full(count, floor, dtype=np.float32)
        self._similarities[list(similarities)] = list(similarities.values())

    def __len__(self) -> int:
        return len(self._similarities)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Every segment counts."""
        return np.ones(len(self), dtype=np.bool_)

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the similarities of the given numbers (None: of all), whatever the query is."""
        del query
        return self._similarities[slice(None) if numbers is None else numbers].copy()


def tell_only(ranking: Ranking, similarities: Mapping[int, float]) -> None:
    """Put 0.0 in the place of every similarity in the ranking that the store did not tell."""
    columns = ranking.columns
    columns.similarity[:] = [similarities.get(number, 0.0) for number in columns.numbers.tolist()]
