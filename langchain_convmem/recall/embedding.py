"""Any LangChain embedder as recall asks it: stable names and failures."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_convmem.background import ask
from langchain_convmem.causes import UnreadableError, describe_value, report_problem
from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.encoders import (
    HashEmbeddings,
    LocalEmbeddings,
    replace_surrogates,
)
from langchain_convmem.recall.segments import round_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.recall.segments import Vector

_log = logging.getLogger("langchain_convmem")

# What changes an embedder's vectors, over the field names of common integrations. Everything else
# (keys, endpoints, timeouts) must stay out: a fingerprint is stored and printed.
_MODEL_FIELDS = ("model", "model_name", "model_id", "repo_id", "deployment", "azure_deployment")
_SHAPE_FIELDS = ("dimensions", "dimension", "size", "truncate_dim", "output_dimensionality")


EMBEDDER_VARIABLE = "CONVMEM_EMBEDDER"
"""With the value `hash`, the default embedder is `testing.HashEmbeddings`."""


def choose_embedder(embeddings: Embeddings | None) -> Embeddings:
    """Return an embedder; None is the default one.

    Raises:
        ConfigError: If it is something else, or the environment names an unknown one.
    """
    name = os.environ.get(EMBEDDER_VARIABLE, "")
    if embeddings is None and name not in ("", "hash"):
        raise ConfigError(f"{EMBEDDER_VARIABLE} must be hash or not set, got {name!r}")
    if embeddings is None:
        from langchain_convmem.recall.universal import UniversalSentenceEmbeddings

        return HashEmbeddings() if name else UniversalSentenceEmbeddings()
    if not isinstance(embeddings, Embeddings):
        msg = (
            f"embeddings must be a LangChain Embeddings or None, got {describe_value(embeddings)}; "
            "langchain.embeddings.init_embeddings makes one of a name"
        )
        raise ConfigError(msg)
    return embeddings


def is_local(embeddings: Embeddings) -> bool:
    """Return whether embedding costs nothing but time: no network, no third party."""
    return isinstance(embeddings, LocalEmbeddings)


class JointEmbeddings(Embeddings):
    """Two embedders side by side: a text gets both unit vectors, concatenated.

    The cosine of two texts is the mean of both embedders'. As thread-safe as they are.
    """

    def __init__(self, first: Embeddings, second: Embeddings) -> None:
        """Join two embedders.

        Args:
            first: An embedder.
            second: Another one.
        """
        self.first, self.second = first, second

    @property
    def fingerprint(self) -> str:
        """Names both."""
        return "+".join(map(compute_fingerprint, (self.first, self.second)))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, in order."""
        both = [round_vector(one.embed_documents(texts)) for one in (self.first, self.second)]
        return np.concatenate(both, axis=-1).tolist() if texts else []

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        both = [round_vector(one.embed_query(text)) for one in (self.first, self.second)]
        joined: list[float] = np.concatenate(both).tolist()
        return joined


def compute_fingerprint(embeddings: Embeddings) -> str:
    """Return a stable name for what `embeddings` computes.

    Its own `fingerprint` where it has one, else its class, its model and whatever sets the number
    of components. Keys, endpoints and other settings never enter.
    """
    own = getattr(embeddings, "fingerprint", None)
    if isinstance(own, str) and own:
        return own
    cls = type(embeddings)
    named: dict[str, Any] = {}
    further = getattr(embeddings, "model_kwargs", None)
    arguments = further if isinstance(further, Mapping) else {}
    for name in (*_MODEL_FIELDS, *_SHAPE_FIELDS):
        value = arguments.get(name, getattr(embeddings, name, None))
        if isinstance(value, str | int) and not isinstance(value, bool):
            named[name] = value
    return f"{cls.__module__}.{cls.__qualname__}{json.dumps(named, sort_keys=True)}"


# -- the border to foreign embedders -----------------------------------------------------------
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0


_REMEMBERED = 128
_PATIENCE_S = 1.0
# Where `embed_query` is `embed_documents` of one text; another embedder says so by `embeds_alike`.
_ALIKE = ("OpenAIEmbeddings", "AzureOpenAIEmbeddings")


class SafeEmbedder:
    """Calls an embedder, validates its answers, and pauses after failures.

    Where an embedder takes questions and lines alike, a text that it embedded lately is not sent
    again: the question of a turn is also a line of its thread.

    The pause doubles with every failure, from a second to five minutes; lines are not sent again
    before it is over. Questions may be embedded by several threads, lines by one at a time.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        """Create the border around `embeddings`."""
        self._embeddings = embeddings
        is_titan = "titan" in str(getattr(embeddings, "model_id", ""))
        known = is_titan or type(embeddings).__name__ in _ALIKE
        self.is_alike = bool(getattr(embeddings, "embeds_alike", known))
        # By a digest: no text stays in a cache. Each step on it is atomic, so it needs no lock.
        self._latest: dict[bytes, Future[Vector | None]] = {}
        self._pause_s = 0.0
        self._resume_at = 0.0
        self.problem: str | None = None
        """What the last failure with lines was; None once they are embedded again."""

    @property
    def is_paused(self) -> bool:
        """Whether lines should wait because the embedder failed a short time ago."""
        return time.monotonic() < self._resume_at

    def resume(self) -> None:
        """End a pause because the embedder is needed now."""
        self._resume_at = 0.0

    def drop_latest(self) -> None:
        """Forget what was embedded lately."""
        self._latest = {}

    def _find_latest(self, text: str) -> Vector | None:
        """Return the vector of a text, waiting a moment where it is on its way."""
        latest = self._latest.get(_digest(text)) if self._latest else None
        try:
            return None if latest is None else latest.result(_PATIENCE_S)
        except TimeoutError:
            return None

    def _announce(self, texts: Iterable[str]) -> dict[str, Future[Vector | None]]:
        """Note texts that are about to be sent; whoever sends them gives each its result."""
        sent: dict[str, Future[Vector | None]] = {}
        if self.is_alike:
            sent = {text: Future() for text in texts}
            self._latest.update({_digest(text): future for text, future in sent.items()})
            for oldest in list(self._latest)[:-_REMEMBERED]:
                self._latest.pop(oldest, None)
        return sent

    def embed_lines(self, texts: Collection[str], dim: int | None) -> dict[str, Vector]:
        """Return a rounded vector by text; after a failure, nothing.

        Args:
            texts: Bodies of segments; equal ones are sent once.
            dim: Components that each vector must have; None if any number will do.
        """
        found = {text: one for text in texts if (one := self._find_latest(text)) is not None}
        wanted = list(dict.fromkeys([text for text in texts if text not in found]))
        if not wanted:
            return found
        made: dict[str, Vector] = {}
        sent = self._announce(wanted)
        try:
            answer = self._embeddings.embed_documents([replace_surrogates(text) for text in wanted])
            vectors = round_vector(_check_shape(answer, (len(wanted),), dim))
            made = dict(zip(wanted, vectors, strict=True))
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._resume_at = time.monotonic() + self._pause_s
            self.problem = report_problem(
                _log, "lines could not be embedded and are found by words", error
            )
            return found
        finally:
            for text, future in sent.items():
                future.set_result(made.get(text))
        self._pause_s, self._resume_at, self.problem = 0.0, 0.0, None
        return found | made

    def embed_question(
        self, text: str, dim: int | None
    ) -> tuple[NDArray[np.float32] | None, str | None]:
        """Return the vector of a question, or None and the problem."""
        if (latest := self._find_latest(text)) is not None:
            return latest.astype(np.float32), None
        vector: Vector | None = None
        sent = self._announce([text])
        try:
            answer = _embed_query(self._embeddings, replace_surrogates(text))
            vector = round_vector(_check_shape(answer, (), dim))
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            return None, report_problem(
                _log, "the question could not be embedded and is searched by words", error
            )
        finally:
            for future in sent.values():
                future.set_result(vector)
        return vector.astype(np.float32), None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _embed_query(embeddings: Embeddings, text: str) -> Any:
    if is_local(embeddings):
        return embeddings.embed_query(text)
    return ask(partial(embeddings.embed_query, text), partial(embeddings.aembed_query, text))


def _check_shape(answer: Any, shape: tuple[int, ...], dim: int | None) -> NDArray[np.float32]:
    """Return an answer of such a shape: nothing for one vector, else how many there are."""
    vectors: NDArray[np.float32] = np.asarray(answer, dtype=np.float32)
    if vectors.ndim != len(shape) + 1 or vectors.shape[:-1] != shape:
        wanted = f"{shape[0]} vectors of equal length" if shape else "one vector"
        raise UnreadableError(f"expected {wanted}, got an array of shape {vectors.shape}")
    if dim is not None and vectors.shape[-1] != dim:
        raise UnreadableError(f"expected vectors of {dim} components, got {vectors.shape[-1]}")
    if not np.isfinite(vectors).all():
        raise UnreadableError("expected finite numbers, got nan or infinity")
    return vectors
