"""The border to foreign embedders: whatever they raise or return, a recall goes on without.

An embedder is somebody else's code behind somebody else's network. Its failures are caught here
and nowhere else, named in `problems` and logged; the lines concerned stay pending.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from langchain_convmem.recall.embedding import EmbeddedEmbeddings, encodable
from langchain_convmem.recall.indexes.vectors import rounded
from langchain_convmem.recall.sentence_encoder import MiniLMEmbeddings
from langchain_convmem.recall.workers import in_worker
from langchain_convmem.steps import Step, Steps, step

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray

__all__ = ["EmbeddingBorder"]

_log = logging.getLogger("langchain_convmem")

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0


class EmbeddingBorder:
    """Calls an embedder, checks what comes back, and pauses after failures.

    The pause doubles with every failure, from a second to five minutes; lines are not sent again
    before it is over. Not thread-safe.
    """

    def __init__(
        self, embeddings: Embeddings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create the border around `embeddings`; `clock` gives seconds and never steps back."""
        self._embeddings = embeddings
        self._clock = clock
        self._pause_s = 0.0
        self._resume_at = 0.0
        self.problem: str | None = None
        """What the last failure with lines was; None once they are embedded again."""

    @property
    def is_paused(self) -> bool:
        """Whether lines should wait because the embedder failed a short time ago."""
        return self._clock() < self._resume_at

    def resume(self) -> None:
        """End a pause, for somebody who asks for the embedder now."""
        self._resume_at = 0.0

    def embed_lines(
        self, texts: Sequence[str], dim: int | None
    ) -> list[NDArray[np.float16]] | None:
        """Return a rounded vector per text, or None after a failure.

        Args:
            texts: Bodies of segments.
            dim: Components that each vector must have; None if any number will do.
        """
        try:
            answer = self._embeddings.embed_documents([encodable(text) for text in texts])
            vectors = list(rounded(_checked(answer, (len(texts),), dim)))
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._resume_at = self._clock() + self._pause_s
            self.problem = _problem("lines could not be embedded and are found by words", error)
            return None
        self._pause_s, self._resume_at, self.problem = 0.0, 0.0, None
        return vectors


def embed_question(
    embeddings: Embeddings, text: str, dim: int | None
) -> Steps[tuple[NDArray[np.float32] | None, str | None]]:
    """Embed a question; return its vector, or None and the problem."""
    try:
        answer = yield _asking(embeddings, encodable(text))
        vector = rounded(_checked(answer, (), dim))
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return None, _problem("the question could not be embedded and is searched by words", error)
    return vector.astype(np.float32), None


def _asking(embeddings: Embeddings, text: str) -> Step:
    if type(embeddings) in (EmbeddedEmbeddings, MiniLMEmbeddings):
        # Their vectors are arrays: lists of their numbers would only be put together again.
        call = partial(cast("MiniLMEmbeddings", embeddings).embed_query_array, text)
        return Step(call, lambda: in_worker(call))
    return step(embeddings, "embed_query", text)


def _checked(answer: Any, shape: tuple[int, ...], dim: int | None) -> NDArray[np.float32]:
    """Return an answer of such a shape: nothing for one vector, else how many there are."""
    vectors: NDArray[np.float32] = np.asarray(answer, dtype=np.float32)
    if vectors.ndim != len(shape) + 1 or vectors.shape[:-1] != shape:
        wanted = f"{shape[0]} vectors of equal length" if shape else "one vector"
        msg = f"expected {wanted}, got an array of shape {vectors.shape}"
        raise ValueError(msg)
    if dim is not None and vectors.shape[-1] != dim:
        msg = f"expected vectors of {dim} components, got {vectors.shape[-1]}"
        raise ValueError(msg)
    if not np.isfinite(vectors).all():
        msg = "expected finite numbers, got nan or infinity"
        raise ValueError(msg)
    return vectors


def _problem(what: str, error: Exception) -> str:
    problem = f"{what}: {type(error).__name__}: {error}"
    # The traceback goes to the log alone: it may show what the user wrote.
    _log.warning("%s", problem, exc_info=error)
    return problem
