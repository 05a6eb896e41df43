"""The network of all-MiniLM-L6-v2 in NumPy: six layers of BERT, and the mean of their tokens.

Source: the model card and `config.json` of sentence-transformers/all-MiniLM-L6-v2. GELU is computed
by its tanh form, which moves a vector by a cosine of less than 1e-5. May import nothing of the
package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    Array: TypeAlias = NDArray[np.float32]

__all__ = ["MOST_TOKENS", "Network"]

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

    def __call__(self, x: Array, runs: Sequence[_Run]) -> None:
        """Change the tokens (float32, (tokens, size)) in place."""
        qkv = self.qkv(x)
        mixed = np.empty_like(x)
        for run in runs:
            run.attend(qkv, mixed)
        x += self.attended(mixed)
        self.attended_norm(x)
        x += self.outer(_gelu(self.inner(x)))
        self.outer_norm(x)


class _Run(NamedTuple):
    """Texts of equal length beside each other: their tokens attend in one product."""

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


def _gelu(x: Array) -> Array:
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
        read = _Reader(weights)
        self._words = read.halves("embeddings.word_embeddings.weight")
        positions = read.tensor("embeddings.position_embeddings.weight")[:MOST_TOKENS]
        self._positions = positions + read.tensor("embeddings.token_type_embeddings.weight")[0]
        self._norm = read.norm("embeddings.LayerNorm")
        self._layers = [read.layer(f"encoder.layer.{n}") for n in range(read.layers)]
        self.dim = int(self._words.shape[1])

    def token_ids(self, text: str) -> list[int]:
        """Return the ids of a text's tokens between its two marks, `MOST_TOKENS` at most."""
        # One text at a time: the tokenizer's batch call starts a thread pool, which warns and
        # switches itself off in every process forked later.
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def vectors(self, texts: Sequence[Sequence[int]]) -> Array:
        """Return the unit vectors of texts, shape (texts, dim), in one pass.

        Fastest where texts of equal length stand beside each other: nothing is padded. What else
        is in the pass changes a vector by rounding alone.

        Args:
            texts: The token ids of each; none may be empty.
        """
        x = self._words[np.concatenate(texts)].astype(np.float32)
        x += self._positions[np.concatenate([np.arange(len(ids)) for ids in texts])]
        self._norm(x)
        runs = list(_runs(map(len, texts)))
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


def _runs(lengths: Iterator[int]) -> Iterator[_Run]:
    start = 0
    for length, same in groupby(lengths):
        texts = len(list(same))
        yield _Run(start, texts, length)
        start += texts * length


class _Reader:
    """Reads tensors one by one: the file is mapped for one of them at a time, never whole."""

    def __init__(self, weights: Path) -> None:
        from safetensors import safe_open

        self._open: Callable[[], Any] = partial(safe_open, weights, framework="numpy")
        with self._open() as file:
            names = list(file.keys())
        self.layers = len({name.split(".")[2] for name in names if name.startswith("encoder.")})

    def tensor(self, name: str) -> Array:
        with self._open() as file:
            return np.asarray(file.get_tensor(name), dtype=np.float32)

    def halves(self, name: str) -> NDArray[np.float16]:
        """Return a tensor in half precision, read a part at a time."""
        with self._open() as file:
            rows, columns = file.get_slice(name).get_shape()
        found = np.empty((rows, columns), dtype=np.float16)
        for start in range(0, rows, _WORD_ROWS):
            end = min(start + _WORD_ROWS, rows)
            with self._open() as file:
                found[start:end] = file.get_slice(name)[start:end]
        return found

    def norm(self, name: str) -> _Norm:
        return _Norm(self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias"))

    def linear(self, name: str) -> _Linear:
        weight = np.ascontiguousarray(self.tensor(f"{name}.weight").T)
        return _Linear(weight, self.tensor(f"{name}.bias"))

    def layer(self, name: str) -> _Layer:
        query, key, value = (
            self.linear(f"{name}.attention.self.{part}") for part in ("query", "key", "value")
        )
        scale = np.float32(1 / np.sqrt(_HEAD_SIZE))
        return _Layer(
            _Linear(
                np.concatenate([query.weight * scale, key.weight, value.weight], axis=1),
                np.concatenate([query.bias * scale, key.bias, value.bias]),
            ),
            self.linear(f"{name}.attention.output.dense"),
            self.norm(f"{name}.attention.output.LayerNorm"),
            self.linear(f"{name}.intermediate.dense"),
            self.linear(f"{name}.output.dense"),
            self.norm(f"{name}.output.LayerNorm"),
        )
