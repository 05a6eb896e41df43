"""What is compared: our recall with any settings, and the simpler ways to search a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from langchain_core.embeddings import Embeddings

from benchmarks.recall.data import Dialogue, Line, make_log
from langchain_convmem.recall import (
    LineRecall,
    MiniLMEmbeddings,
    RecallSettings,
    UniversalSentenceEmbeddings,
)
from langchain_convmem.recall.embedding import compute_fingerprint
from langchain_convmem.recall.segments import SegmentVectors, round_vector, split_line
from langchain_convmem.records import Owner
from langchain_convmem.words.analysis import analyze, extract_query_terms
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


CHARS_PER_TOKEN = 4
"""Budgets are lengths here, so that figures compare with those of any system and any release."""
CHUNK_CHARS = 1000
# The constant of Cormack, Clarke and Buettcher (2009), which ensemble retrievers use.
_RRF = 60
DAY_MS = 24 * 3_600_000


class System(Protocol):
    def find(self, question: str, max_tokens: int) -> list[str]:
        """Return the texts that a model would read."""
        ...


EMBEDDERS = {"default": UniversalSentenceEmbeddings, "minilm": MiniLMEmbeddings}
"""`default`: the one that the package brings; `minilm`: its all-MiniLM-L6-v2."""


class CachingEmbeddings(Embeddings):
    """Embeds each line once for as long as the process lives."""

    def __init__(self, inner: Embeddings) -> None:
        self.fingerprint = compute_fingerprint(inner)
        self._inner = inner
        # As float32, since a list of Python floats takes eight times the memory.
        self._vectors: dict[str, bytes] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        missing = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        vectors = self._inner.embed_documents(missing) if missing else []
        for text, vector in zip(missing, vectors, strict=True):
            self._vectors[text] = np.array(vector, dtype=np.float32).tobytes()
        return [np.frombuffer(self._vectors[text], np.float32).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._inner.embed_query(text)


class Warm(NamedTuple):
    """A recall whose index is built, whose lines it holds, and when it is asked."""

    recall: LineRecall
    owner: Owner
    now_ms: int


class Recaller:
    """Our recall with one set of settings; several may share an index.

    A threshold of -1.0 is the plain ranking; None what a turn of a wrapped chain gets, which
    abstains where nothing is related. It is asked a day after the last line.
    """

    def __init__(
        self, warm: Warm, settings: RecallSettings | None = None, *, threshold: float | None = -1.0
    ) -> None:
        self._warm = warm
        self._settings = settings
        self._threshold = threshold

    def find(self, question: str, max_tokens: int) -> list[str]:
        found = self._warm.recall.recall(
            self._warm.owner,
            question,
            max_tokens=max_tokens,
            threshold=self._threshold,
            now_ms=self._warm.now_ms,
            settings=self._settings,
        )
        return [block.text for block in found.blocks]


def count_characters(text: str) -> int:
    """Return the length of a text in tokens of four characters."""
    return -(-len(text) // CHARS_PER_TOKEN)


def make_recall(dialogue: Dialogue, embeddings: Embeddings) -> Warm:
    """Return a recall with a warm index of the dialogue."""
    owner = Owner(user_id=dialogue.name)
    recall = LineRecall(make_log(dialogue), embeddings).bind(count_text=count_characters)
    recall.refresh(owner)
    last = max(datetime.fromisoformat(line.time) for line in dialogue.lines.values())
    return Warm(recall, owner, int(last.timestamp() * 1000) + DAY_MS)


class Units:
    """Pieces of a dialogue, each some lines, under both kinds of index."""

    def __init__(self, pieces: Sequence[Sequence[Line]], embeddings: Embeddings) -> None:
        self.texts = ["\n".join(line.labelled for line in piece) for piece in pieces]
        self._embeddings = embeddings
        self._lexical = LexicalIndex()
        self._lexical.add([analyze(text) for text in self.texts])

    @cached_property
    def index(self) -> SegmentVectors:
        """The vectors; on demand, since BM25 needs none."""
        index = SegmentVectors()
        index.extend(list(round_vector(self._embeddings.embed_documents(self.texts))))
        return index

    def dense(self, question: str) -> NDArray[np.float64]:
        """Return the cosine of each piece."""
        query = np.array(self._embeddings.embed_query(question), dtype=np.float32)
        return self.index.similarities(query).astype(np.float64)

    def bm25(self, question: str) -> NDArray[np.float64]:
        """Return each piece's BM25 score, with the parameters most systems have."""
        found = self._lexical.find(extract_query_terms(question))
        return self._lexical.compute_scores(found, k1=1.2, b=0.75)

    def hybrid(self, question: str) -> NDArray[np.float64]:
        """Return the sum of both scores in standard deviations, which beats fusing the ranks."""
        return _standardise(self.dense(question)) + _standardise(self.bm25(question))

    def rrf(self, question: str) -> NDArray[np.float64]:
        """Return each piece's score by reciprocal rank fusion of both."""
        ranks = (_rank(self.dense(question)), _rank(self.bm25(question)))
        return sum((1.0 / (_RRF + rank) for rank in ranks), start=np.zeros(len(self.texts)))


def _standardise(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = (scores - scores.mean()) / (scores.std() or 1.0)
    return result


def _rank(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


class UnitSystem:
    """The best pieces by one score, as many as fit."""

    def __init__(self, units: Units, score: str) -> None:
        self._units = units
        self._score = score

    def find(self, question: str, max_tokens: int) -> list[str]:
        scores = getattr(self._units, self._score)(question)
        room = max_tokens * CHARS_PER_TOKEN
        texts: list[str] = []
        for number in np.argsort(-scores, kind="stable").tolist():
            whole = self._units.texts[number]
            # A piece at the edge of the budget is cut behind a whole line.
            text = whole if len(whole) <= room else whole[: room + 1].rpartition("\n")[0]
            texts += [text] if text else []
            room -= len(text) + 1
            if room < 1 or (text and text != whole):
                break
        return texts


def _make_chunks(lines: Sequence[Line]) -> list[list[Line]]:
    """Return lines packed into chunks of at most 1,000 characters, longer ones cut before."""
    packed: list[list[Line]] = []
    size = 0
    for whole in lines:
        most = CHUNK_CHARS - len(whole.labelled) + len(whole.text)
        for start, end in split_line(whole.text, target=most, uncut=most):
            line = whole._replace(text=whole.text[start:end].strip())
            added = len(line.labelled) + 1
            if not packed or size + added > CHUNK_CHARS + 1:
                packed.append([])
                size = 0
            packed[-1].append(line)
            size += added
    return packed


def make_systems(dialogue: Dialogue, embeddings: Embeddings) -> dict[str, System]:
    """Return every system over a dialogue, its indexes warm."""
    warm, lines = make_recall(dialogue, embeddings), list(dialogue.lines.values())
    by_line = Units([[line] for line in lines], embeddings)
    by_chunk = Units(_make_chunks(lines), embeddings)
    systems: dict[str, System] = {
        "convmem": Recaller(warm),
        "convmem_default": Recaller(warm, threshold=None),
        "spec": Recaller(warm, RecallSettings.spec()),
        **{f"chunks_{score}": UnitSystem(by_chunk, score) for score in ("dense", "bm25", "hybrid")},
        **{f"lines_{score}": UnitSystem(by_line, score) for score in ("bm25", "rrf")},
    }
    for units in (by_chunk, by_line):
        _ = units.index  # so that no question pays for it
    return systems
