"""Models and tokenizers of `transformers`, and what they tell of themselves."""

from __future__ import annotations

import importlib.util
from typing import Any

from langchain_convmem.chat_templates import ChatTemplate
from langchain_convmem.errors import MissingExtraError

__all__ = ["check_installed", "end_ids", "loaded_model", "loaded_tokenizer", "template_of"]


def check_installed() -> None:
    """Raise `MissingExtraError` if the extra is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")):
        raise MissingExtraError.for_extra("LocalEngine", "local")


def loaded_model(model: Any) -> Any:
    """Return a model, ready to be used, not to be trained."""
    if not isinstance(model, str):
        return model.eval()
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model).eval()


def loaded_tokenizer(tokenizer: Any) -> Any:
    """Return a tokenizer."""
    if not isinstance(tokenizer, str):
        return tokenizer
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tokenizer)


def template_of(tokenizer: Any) -> ChatTemplate | None:
    """Return the template that comes with a tokenizer, if one does."""
    source = getattr(tokenizer, "chat_template", None)
    if not source:
        return None
    return ChatTemplate.from_tokenizer_config(
        {**tokenizer.special_tokens_map, "chat_template": source}
    )


def end_ids(model: Any, tokenizer: Any) -> dict[int, str]:
    """Return the tokens by which the model ends a reply, and their texts."""
    settings = getattr(model, "generation_config", None)
    told = getattr(settings, "eos_token_id", None)
    found = told if isinstance(told, list) else [told]
    ids = {number for number in [*found, tokenizer.eos_token_id] if number is not None}
    return {number: tokenizer.decode([number], skip_special_tokens=False) for number in ids}
