"""Where the line indexes cross: ours, and what FAISS has beside them, over the same vectors."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from benchmarks.log.measuring import Case, interleaved, progress
from benchmarks.recall.data import load_dialogues
from benchmarks.recall.measuring import Outcome, figures, measure
from benchmarks.recall.systems import Recaller, recall_of
from benchmarks.synthetic_dialogue import said, threads
from langchain_convmem import EmbeddedEmbeddings, RecallSettings
from langchain_convmem.recall import LineRecall
from langchain_convmem.recall.vectors import ExactIndex, FaissIndex, round_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["crossover", "crossover_table"]

_K = 20
_QUESTIONS = 30
_LINKS = 32
_BREADTH = 64
_EXACT = "float32, NumPy"


class _Searched(Protocol):
    def search(
        self, query: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]: ...


class _Kind(NamedTuple):
    """A way to index vectors: how it is built, and what it holds of each component and vector.

    `compares_all` is False where only what is near the question is compared.
    """

    build: Callable[[NDArray[np.float32]], _Searched]
    component_bytes: int
    vector_bytes: int = 0
    compares_all: bool = True

    def megabytes(self, vectors: int, dim: int) -> float:
        """Return what so many vectors take in memory."""
        return vectors * (dim * self.component_bytes + self.vector_bytes) / 1e6


class _Foreign:
    """An index of FAISS itself, on one thread."""

    def __init__(self, rows: NDArray[np.float32], make: Callable[[Any, int], Any]) -> None:
        faiss = import_module("faiss")
        # One thread, as a server gives to each of many users.
        faiss.omp_set_num_threads(1)
        self._index = make(faiss, rows.shape[1])
        self._index.add(rows)

    def search(
        self, query: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        similarities, numbers = self._index.search(query[None], k)
        return numbers[0], similarities[0]

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._index.range_search(query[None], -np.inf)[1]
        return found


def _flat(faiss: Any, dim: int) -> Any:
    return faiss.IndexFlatIP(dim)


def _quantized(faiss: Any, dim: int) -> Any:
    return faiss.IndexScalarQuantizer(
        dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    )


def _graph(faiss: Any, dim: int) -> Any:
    graph = faiss.IndexHNSWFlat(dim, _LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = graph.hnsw.efSearch = _BREADTH
    return graph


def _ours(
    make: Callable[[int], ExactIndex | FaissIndex], rows: NDArray[np.float32]
) -> ExactIndex | FaissIndex:
    index = make(rows.shape[1])
    index.add(rows)
    return index


_GRAPH_BYTES = 2 * _LINKS * 4
"""Of a vector: twice as many links on the lowest level, four bytes each."""
_NUMBER_BYTES = 8
"""Of a vector in an inverted list, which keeps its number beside it."""

_KINDS: dict[str, _Kind] = {
    _EXACT: _Kind(partial(_ours, ExactIndex), 4),
    "16 bits": _Kind(partial(_ours, FaissIndex), 2, _NUMBER_BYTES),
    "8 bits": _Kind(partial(_ours, partial(FaissIndex, bits=8)), 1, _NUMBER_BYTES),
    "FAISS flat": _Kind(partial(_Foreign, make=_flat), 4),
    "FAISS quantizer": _Kind(partial(_Foreign, make=_quantized), 2),
    "FAISS HNSW": _Kind(partial(_Foreign, make=_graph), 4, _GRAPH_BYTES, compares_all=False),
}


def crossover(sizes: Sequence[int], data: Path | None) -> dict[str, Any]:
    """Return how long each index takes for so many vectors, and what it finds."""
    report: dict[str, Any] = {"indexes": [row for lines in sizes for row in _compared(lines)]}
    if data is not None:
        report["evidence"] = {bits: _evidence(data, bits) for bits in (16, 8)}
    print(file=sys.stderr)
    return report


def _compared(lines: int) -> Iterator[dict[str, Any]]:
    embeddings = EmbeddedEmbeddings()
    texts = [str(message.content) for messages in threads(lines) for message in messages]
    progress(f"{lines:,}: vectors")
    rows = np.array(
        [round_vector(row) for row in map(embeddings.embed_query, texts)], dtype=np.float32
    )
    questions = [round_vector(embeddings.embed_query(said(number))) for number in range(_QUESTIONS)]
    queries = [question.astype(np.float32) for question in questions]
    built: dict[str, _Searched] = {}
    seconds: dict[str, float] = {}
    for name, kind in _KINDS.items():
        progress(f"{lines:,}: {name}")
        start = time.perf_counter()
        built[name] = kind.build(rows)
        seconds[name] = time.perf_counter() - start
    cases = {name: Case(partial(_searches, index, queries)) for name, index in built.items()}
    interleaved(cases, rounds=10, seconds=20.0, what=f"{lines:,}: search")
    columns = {
        name: Case(partial(_columns, index, queries))
        for name, index in built.items()
        if _KINDS[name].compares_all
    }
    interleaved(columns, rounds=10, seconds=20.0, what=f"{lines:,}: all similarities")
    nearest = [_found(built[_EXACT], query) for query in queries]
    for name, kind in _KINDS.items():
        shares = [
            len(_found(built[name], query) & truth) / _K
            for query, truth in zip(queries, nearest, strict=True)
        ]
        yield {
            "lines": lines,
            "index": name,
            "search_ms": round(median(cases[name].times_ms), 3),
            "all_ms": round(median(columns[name].times_ms), 3) if name in columns else None,
            "of_true_20": round(sum(shares) / len(shares), 3),
            "build_s": round(seconds[name], 2),
            "mb_per_100k": round(kind.megabytes(100_000, rows.shape[1]), 1),
        }


def _searches(
    index: _Searched, queries: Sequence[NDArray[np.float32]], number: int
) -> list[Callable[[], object]]:
    chosen = [queries[(3 * number + one) % len(queries)] for one in range(3)]
    return [partial(index.search, query, _K) for query in chosen]


def _columns(
    index: _Searched, queries: Sequence[NDArray[np.float32]], number: int
) -> list[Callable[[], object]]:
    chosen = [queries[(3 * number + one) % len(queries)] for one in range(3)]
    return [partial(index.similarities, query) for query in chosen]


def _found(index: _Searched, query: NDArray[np.float32]) -> set[int]:
    return set(index.search(query, _K)[0].tolist())


def _evidence(data: Path, bits: Literal[8, 16]) -> dict[str, float]:
    """Return what a recall with so short vectors finds of the evidence in dialogues."""
    outcomes: list[Outcome] = []
    for dialogue in load_dialogues(data):
        progress(f"{bits} bits: {dialogue.name}")
        warm = recall_of(dialogue, EmbeddedEmbeddings())
        short = LineRecall(warm.recall.log, EmbeddedEmbeddings(), RecallSettings(vector_bits=bits))
        outcomes += measure(Recaller(warm._replace(recall=short)), dialogue, 1000)
    found = figures(outcomes)
    return {name: found[name] for name in ("evidence_recall", "recall_at_20")}


def crossover_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    head = ("search ms", "all ms", "of true 20", "build s", "MB/100,000")
    rows = [f"{'':<32}" + "".join(f"{name:>12}" for name in head)]
    for row in report["indexes"]:
        names = ("search_ms", "all_ms", "of_true_20", "build_s", "mb_per_100k")
        cells = ["-" if row[name] is None else f"{row[name]:.2f}" for name in names]
        rows.append(f"{row['lines']:>9,}  {row['index']:<21}" + "".join(f"{c:>12}" for c in cells))
    for bits, found in report.get("evidence", {}).items():
        parts = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        rows.append(f"recall with {bits} bits: {parts}")
    return "\n".join(rows)
