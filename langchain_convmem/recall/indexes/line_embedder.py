"""Vectors for the lines of an index: each text is sent to the embedder once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from langchain_convmem.recall.embedding import costs_nothing
from langchain_convmem.recall.indexes.embedding_border import EmbeddingBorder
from langchain_convmem.recall.indexes.known_texts import KnownTexts
from langchain_convmem.recall.indexes.segment_table import SegmentTable
from langchain_convmem.recall.indexes.vectors import SegmentVectors
from langchain_convmem.recall.sentence_encoder import MiniLMEmbeddings

if TYPE_CHECKING:
    import numpy as np
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

__all__ = ["LineEmbedder"]


class LineEmbedder:
    """Asks an embedder for what no segment of the index says already. Not thread-safe."""

    def __init__(self, embeddings: Embeddings) -> None:
        """Create an embedder for an index; say `begin` before anything else."""
        self.border = EmbeddingBorder(embeddings)
        self.is_free = costs_nothing(embeddings)
        self.is_behind = isinstance(embeddings, MiniLMEmbeddings)
        self._known: KnownTexts | None = None
        self._before: KnownTexts | None = None

    def begin(self, table: SegmentTable, vectors: SegmentVectors, *, reuse: bool) -> None:
        """Serve an index that begins anew.

        Args:
            table: The new index's segments.
            vectors: Their vectors.
            reuse: Whether vectors of the old index are good for equal texts of the new one, until
                `forget_before`.
        """
        if not reuse:
            self._before = None
        elif self._known is not None and len(self._known):
            self._before = self._known
        self._known = KnownTexts(table, vectors)

    def forget_before(self) -> None:
        """Let go of the index before this one."""
        self._before = None

    def learn(self, numbers: Iterable[int]) -> None:
        """Note that these segments may have vectors now."""
        if self._known is not None:
            self._known.learn(numbers)

    def vectors(
        self, texts: Sequence[str], dim: int | None, *, send: bool
    ) -> list[NDArray[np.float16] | None]:
        """Return a rounded vector per text; None where it is pending.

        Args:
            texts: Bodies of segments.
            dim: Components that each vector must have; None if any number will do.
            send: Whether the embedder may be asked.
        """
        found = {text: self._reused(text, dim) for text in dict.fromkeys(texts)}
        wanted = [text for text, vector in found.items() if vector is None]
        if send and wanted:
            made = self.border.embed_lines(wanted, dim)
            found.update(zip(wanted, made or (), strict=made is not None))
        return [found[text] for text in texts]

    def _reused(self, text: str, dim: int | None) -> NDArray[np.float16] | None:
        if self.is_free:
            return None
        for known in (self._known, self._before):
            vector = None if known is None else known.vector(text)
            if vector is not None and dim in (None, len(vector)):
                return vector
        return None
