"""A language model of a few thousand weights, made at random, and a tokenizer for it.

It writes nonsense, but it reads and writes as large ones do, and needs no download.
"""

from __future__ import annotations

from typing import Any

_WORDS = "Where did I park the car? On level three, near the lift. I am on my way! äöü 车 🚗"
_SPECIAL = ["<|begin|>", "<|im_start|>", "<|im_end|>"]


def tiny_tokenizer() -> Any:
    """Return a tokenizer of bytes with a few merges: words and characters lie across tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([_WORDS] * 3, trainer)
    begin, _, end = _SPECIAL
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=begin, eos_token=end)


def tiny_model(tokenizer: Any, **changes: Any) -> Any:
    """Return the same model each time, but for what is changed of its configuration."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "eos_token_id": None,
        # Large random weights make it write more than one token over and over.
        "initializer_range": 0.4,
    }
    torch.manual_seed(7)
    if "sliding_window" in changes:
        return MistralForCausalLM(MistralConfig(**{**sizes, **changes}))
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **changes}))
