"""A sentence encoder of a few thousand random weights, in the files that the large one has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

_SIZE, _INNER, _LAYERS = 64, 128, 2
_WORDS = """
ana bicycle boat bridge car cat dog flight garden hello house key lamp lisbon line number ok one
parked pets pillar seven the three train tree two which
"""


def write_encoder(folder: Path, *, seed: int = 7) -> Path:
    """Write the files of a tiny encoder into a folder, which is made if need be; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(number) for number in range(33, 127)]
    words = dict.fromkeys([*_WORDS.split(), *letters, *(f"##{letter}" for letter in letters)])
    vocabulary = {word: at for at, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    chance = np.random.default_rng(seed)

    def weights(*shape):
        return chance.normal(0, 0.3, shape).astype(np.float32)

    def norm(name):
        return {f"{name}.weight": np.ones(_SIZE, np.float32), f"{name}.bias": weights(_SIZE)}

    def linear(name, inputs, outputs):
        return {f"{name}.weight": weights(outputs, inputs), f"{name}.bias": weights(outputs)}

    tensors = {
        "embeddings.word_embeddings.weight": weights(len(vocabulary), _SIZE),
        "embeddings.position_embeddings.weight": 0.1 * weights(512, _SIZE),
        "embeddings.token_type_embeddings.weight": weights(2, _SIZE),
        **norm("embeddings.LayerNorm"),
    }
    for number in range(_LAYERS):
        name = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            tensors |= linear(f"{name}.attention.self.{part}", _SIZE, _SIZE)
        tensors |= linear(f"{name}.attention.output.dense", _SIZE, _SIZE)
        tensors |= norm(f"{name}.attention.output.LayerNorm")
        tensors |= linear(f"{name}.intermediate.dense", _SIZE, _INNER)
        tensors |= linear(f"{name}.output.dense", _INNER, _SIZE)
        tensors |= norm(f"{name}.output.LayerNorm")
    save_file(tensors, folder / "model.safetensors")
    return folder
