"""The approximate line index, for owners with very many lines. The only file importing FAISS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_convmem.recall.exact_index import ExactIndex, checked_query, nearest, unit_rows
from langchain_convmem.recall.growable import Growable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FaissIndex"]

_LINKS_PER_NODE = 32
_BUILD_BREADTH = 64
_SEARCH_BREADTH = 512
# Equal vectors around the k-th place: fetched too, so that the lowest numbers among them win.
_TIE_RESERVE = 32


class FaissIndex:
    """A navigable graph (HNSW) over unit vectors, with the exact vectors beside it.

    A search that may only see few vectors scans those exactly, since a graph search that discards
    most of what it meets is slower and finds less. Not thread-safe. FAISS is imported when the
    first index is made.
    """

    def __init__(self, dim: int, *, scan_limit: int = 20_000) -> None:
        """Create an empty index.

        Args:
            dim: Components of a vector.
            scan_limit: Up to this many searchable vectors are scanned exactly.
        """
        import faiss

        self._faiss: Any = faiss
        self._exact = ExactIndex(dim)
        self._scan_limit = scan_limit
        self.dim = dim
        self._graph = faiss.IndexHNSWFlat(dim, _LINKS_PER_NODE, faiss.METRIC_INNER_PRODUCT)
        self._graph.hnsw.efConstruction = _BUILD_BREADTH
        # The graph cannot change a vector, so a replaced one gets a new node and the old node
        # is never answered again.
        self._number_of_node = Growable(np.int64)
        self._live_node = Growable(np.bool_)
        self._node_of_number = Growable(np.int64)

    @classmethod
    def over(cls, exact: ExactIndex, *, scan_limit: int = 20_000) -> FaissIndex:
        """Return an index of the vectors of `exact`, which it takes over."""
        index = cls(exact.dim, scan_limit=scan_limit)
        index._exact = exact
        index._node_of_number.extend(np.full(len(exact), -1))
        index._add_nodes(np.flatnonzero(exact.searchable))
        return index

    def __len__(self) -> int:
        """Return how many vectors were added, removed ones included."""
        return len(self._exact)

    @property
    def rows(self) -> NDArray[np.float32]:
        """Every vector by number at unit length, removed ones included; do not write."""
        return self._exact.rows

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Append vectors; their numbers continue the earlier ones (see `LineIndex.add`)."""
        first = len(self._exact)
        self._exact.add(vectors)
        numbers = np.arange(first, len(self._exact))
        self._node_of_number.extend(np.full(len(numbers), -1))
        self._add_nodes(numbers)

    def _add_nodes(self, numbers: NDArray[np.int64]) -> None:
        # A zero vector is similar to nothing; as nodes, thousands of them would all link to each
        # other and cut the graph into pieces.
        numbers = numbers[self._exact.rows[numbers].any(axis=1)]
        self._node_of_number.view[numbers] = np.arange(len(numbers)) + len(self._number_of_node)
        self._graph.add(np.ascontiguousarray(self._exact.rows[numbers]))
        self._number_of_node.extend(numbers)
        self._live_node.extend(np.ones(len(numbers), dtype=np.bool_))

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number`; a removed number stays removed."""
        self._exact.replace(number, vector)
        self._bury([number])
        self._add_nodes(np.array([number], dtype=np.int64))

    def remove(self, numbers: Iterable[int]) -> None:
        """Take vectors out of every later search. Idempotent."""
        gone = list(numbers)
        self._exact.remove(gone)
        self._bury(gone)

    def _bury(self, numbers: list[int]) -> None:
        nodes = self._node_of_number.view[numbers]
        self._live_node.view[nodes[nodes >= 0]] = False
        self._node_of_number.view[numbers] = -1

    def search(
        self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return numbers and cosine similarities of the k nearest (see `LineIndex.search`)."""
        vector = checked_query(query, self.dim)
        mask = self._exact.searchable if allowed is None else self._exact.searchable & allowed
        searchable = int(np.count_nonzero(mask))
        if searchable <= self._scan_limit or not 0 < k < searchable or not vector.any():
            return self._exact.search(vector, k, allowed=allowed)
        found = np.unique(self._graph_search(vector, k + _TIE_RESERVE, mask))
        # A filter can hide every way through the graph.
        if len(found) < k:
            return self._exact.search(vector, k, allowed=allowed)
        return nearest(self._exact.rows, found, vector, k)

    def _graph_search(
        self, query: NDArray[np.float32], k: int, mask: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        numbers = self._number_of_node.view
        wanted = self._live_node.view & mask[numbers]
        bitmap = np.packbits(wanted, bitorder="little")
        selector = self._faiss.IDSelectorBitmap(bitmap)
        parameters = self._faiss.SearchParametersHNSW(
            sel=selector, efSearch=max(_SEARCH_BREADTH, 2 * k)
        )
        _, nodes = self._graph.search(unit_rows(query)[None, :], k, params=parameters)
        result: NDArray[np.int64] = numbers[nodes[0][nodes[0] >= 0]]
        return result

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the exact cosine similarity of the given numbers (None: of all), in order."""
        return self._exact.similarities(query, numbers)
