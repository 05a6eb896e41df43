"""What is compared: our recall with any settings, and the simpler ways to search a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol
from unittest.mock import patch

import numpy as np
from langchain_core.embeddings import Embeddings

from benchmarks.recall.data import Dialogue, Line, log_of
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall.segments import Segment, split_line
from langchain_convmem.recall.vectors import SegmentVectors, round_vector
from langchain_convmem.records import Owner
from langchain_convmem.words.analysis import analyze, extract_query_terms
from langchain_convmem.words.bm25 import LexicalIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "CHARS_PER_TOKEN",
    "DAY_MS",
    "Found",
    "Recaller",
    "System",
    "UnitSystem",
    "Units",
    "Warm",
    "recall_of",
    "recallers_for",
    "systems_for",
]

CHARS_PER_TOKEN = 4
"""Budgets are lengths here, so that figures compare with those of any system and any release."""
CHUNK_CHARS = 1000
RANKED_LINES = 20
# The constant of Cormack, Clarke and Buettcher (2009), which ensemble retrievers use.
_RRF = 60
DAY_MS = 24 * 3_600_000


class Found(NamedTuple):
    """The texts a model would read, and the ids of the best lines, best first."""

    texts: list[str]
    ranked: list[str]


class System(Protocol):
    def find(self, question: str, max_tokens: int) -> Found: ...


# -- ours ------------------------------------------------------------------------------------


class Warm(NamedTuple):
    """A recall whose index is built, whose lines it holds, and when it is asked."""

    recall: LineRecall
    owner: Owner
    now_ms: int


class Recaller:
    """Our recall with one set of settings; several may share an index.

    Asked a day after the last line.
    """

    def __init__(
        self,
        warm: Warm,
        settings: RecallSettings | None = None,
        *,
        threshold: float | None = -1.0,
    ) -> None:
        """Create it.

        Args:
            warm: What is asked.
            settings: Instead of the default ones.
            threshold: -1.0 is the plain ranking; None what a turn of a wrapped chain gets, which
                abstains where nothing is related.
        """
        self._warm = warm
        self._settings = settings
        self._threshold = threshold

    def find(self, question: str, max_tokens: int) -> Found:
        found = self._warm.recall.recall(
            self._warm.owner,
            question,
            max_tokens=max_tokens,
            threshold=self._threshold,
            ranking=RANKED_LINES,
            now_ms=self._warm.now_ms,
            settings=self._settings,
        )
        texts = [block.text for block in found.blocks]
        return Found(texts, [match.line.line_id for match in found.matches])


def count_characters(text: str) -> int:
    """Return the length of a text in tokens of four characters."""
    return -(-len(text) // CHARS_PER_TOKEN)


def recall_of(dialogue: Dialogue, embeddings: Embeddings, *, segmented: bool = True) -> Warm:
    """Return a recall with a warm index of the dialogue.

    Args:
        dialogue: Whose lines are indexed.
        embeddings: What they are embedded with.
        segmented: Whether long lines are cut into segments. The package always does; the
            comparison replaces the cutter while the index is built.
    """
    owner = Owner(user_id=dialogue.name)
    recall = LineRecall(log_of(dialogue), embeddings).bind_counter(count_characters)
    if segmented:
        recall.refresh(owner)
    else:
        with patch("langchain_convmem.recall.segments.split_line", _uncut):
            recall.refresh(owner)
    last = max(datetime.fromisoformat(line.time) for line in dialogue.lines.values())
    return Warm(recall, owner, int(last.timestamp() * 1000) + DAY_MS)


def _uncut(text: str) -> list[Segment]:
    return [Segment(0, len(text))]


# -- the usual ways --------------------------------------------------------------------------


class Units:
    """Pieces of a dialogue, each some lines, under both kinds of index."""

    def __init__(self, pieces: Sequence[Sequence[Line]], embeddings: Embeddings) -> None:
        self.pieces = pieces
        self.texts = ["\n".join(line.labelled for line in piece) for piece in pieces]
        self._embeddings = embeddings
        self._lexical = LexicalIndex()
        self._lexical.add([analyze(text) for text in self.texts])

    @cached_property
    def _index(self) -> SegmentVectors:
        # On demand, since BM25 needs no vectors.
        index = SegmentVectors()
        index.extend(list(round_vector(self._embeddings.embed_documents(self.texts))))
        return index

    def warm_up(self) -> None:
        """Embed the pieces now, so that no question pays for it."""
        _ = self._index

    def dense(self, question: str) -> NDArray[np.float64]:
        """Return the cosine of each piece."""
        query = np.array(self._embeddings.embed_query(question), dtype=np.float32)
        return self._index.similarities(query).astype(np.float64)

    def bm25(self, question: str) -> NDArray[np.float64]:
        """Return each piece's BM25 score, with the parameters most systems have."""
        terms = extract_query_terms(question)
        return self._lexical.compute_scores(terms, k1=1.2, b=0.75).astype(np.float64)

    def hybrid(self, question: str) -> NDArray[np.float64]:
        """Return the sum of both scores in standard deviations, which beats fusing the ranks."""
        return _standardized(self.dense(question)) + _standardized(self.bm25(question))

    def rrf(self, question: str) -> NDArray[np.float64]:
        """Return each piece's score by reciprocal rank fusion of both."""
        ranks = (_ranks(self.dense(question)), _ranks(self.bm25(question)))
        return sum((1.0 / (_RRF + rank) for rank in ranks), start=np.zeros(len(self.texts)))


def _standardized(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = (scores - scores.mean()) / (scores.std() or 1.0)
    return result


def _ranks(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


class UnitSystem:
    """The best pieces by one score, as many as fit."""

    def __init__(self, units: Units, score: str) -> None:
        self._units = units
        self._score = score

    def find(self, question: str, max_tokens: int) -> Found:
        scores = getattr(self._units, self._score)(question)
        order = np.argsort(-scores, kind="stable").tolist()
        room = max_tokens * CHARS_PER_TOKEN
        texts: list[str] = []
        for number in order:
            # A piece at the edge of the budget is cut behind a whole line.
            text = _head(self._units.texts[number], room)
            texts += [text] if text else []
            room -= len(text) + 1
            if room < 1 or (text and text != self._units.texts[number]):
                break
        ranked = dict.fromkeys(line.id for at in order for line in self._units.pieces[at])
        return Found(texts, list(ranked)[:RANKED_LINES])


def _head(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room + 1].rpartition("\n")[0]


def chunks(lines: Sequence[Line]) -> list[list[Line]]:
    """Return lines packed into chunks of at most 1,000 characters, longer ones cut before."""
    packed: list[list[Line]] = []
    size = 0
    for line in (part for whole in lines for part in _parts(whole)):
        added = len(line.labelled) + 1
        if not packed or size + added > CHUNK_CHARS + 1:
            packed.append([])
            size = 0
        packed[-1].append(line)
        size += added
    return packed


def _parts(line: Line) -> list[Line]:
    most = CHUNK_CHARS - len(line.labelled) + len(line.text)
    pieces = split_line(line.text, target=most, uncut=most)
    return [line._replace(text=line.text[start:end].strip()) for start, end in pieces]


# -- all of them -----------------------------------------------------------------------------


def recallers_for(warm: Warm, suffix: str = "") -> dict[str, System]:
    """Return our rows over one index: the plain ranking, and what a turn gets by default."""
    return {
        f"convmem{suffix}": Recaller(warm),
        f"convmem_default{suffix}": Recaller(warm, threshold=None),
    }


def systems_for(
    dialogue: Dialogue, embeddings: Embeddings, *, unsegmented: bool = False
) -> dict[str, System]:
    """Return every system over a dialogue, its indexes warm.

    Args:
        dialogue: What is searched.
        embeddings: For all of them.
        unsegmented: Whether to add ours with every long line uncut.
    """
    warm = recall_of(dialogue, embeddings)
    lines = list(dialogue.lines.values())
    by_chunk, by_line = Units(chunks(lines), embeddings), Units([[x] for x in lines], embeddings)
    systems: dict[str, System] = {
        **recallers_for(warm),
        "spec": Recaller(warm, RecallSettings.spec()),
        "chunks_dense": UnitSystem(by_chunk, "dense"),
        "chunks_bm25": UnitSystem(by_chunk, "bm25"),
        "chunks_hybrid": UnitSystem(by_chunk, "hybrid"),
        "lines_bm25": UnitSystem(by_line, "bm25"),
        "lines_rrf": UnitSystem(by_line, "rrf"),
    }
    for units in (by_chunk, by_line):
        units.warm_up()
    if unsegmented:
        systems["convmem_unsegmented"] = Recaller(recall_of(dialogue, embeddings, segmented=False))
    return systems
