"""What a chat model says of itself: its name, and how much it reads at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel

_NAME_FIELDS = ("model_name", "model", "model_id")
_LEAST_WINDOW = 1024


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of the model of a chain.

    Attributes:
        name: Its name, as its runs name it; None if it is not known, or models differ.
        window_tokens: How many tokens it reads at once, by LangChain's profile of it; None where
            LangChain knows none. Of several models, the least.
        chat_model: The model itself, which may summarise; of several, the first.
    """

    name: str | None = None
    window_tokens: int | None = None
    chat_model: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def read(cls, model: Any) -> ModelFacts:
        """Return what a model says of itself; tools or options bound to it change nothing.

        Nothing is imported or called.
        """
        while hasattr(model, "bound"):
            model = model.bound
        chat_model = model if isinstance(model, BaseChatModel) else None
        return cls(find_model_name(model), _find_window(model), chat_model)

    @classmethod
    def merge(cls, facts: Iterable[ModelFacts]) -> ModelFacts:
        """Return what holds for any of several models."""
        every = list(facts)
        names = {one.name for one in every}
        windows = [one.window_tokens for one in every]
        known = [window for window in windows if window is not None]
        is_known = bool(known) and len(known) == len(windows)
        return cls(
            names.pop() if len(names) == 1 else None,
            min(known) if is_known else None,
            next((one.chat_model for one in every if one.chat_model is not None), None),
        )


NO_MODEL = ModelFacts()
"""What is known where no model can be seen."""


def find_model_name(model: Any) -> str | None:
    """Return the name of a model; None where it has none."""
    for attribute in _NAME_FIELDS:
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return None


def _find_window(model: Any) -> int | None:
    profile = getattr(model, "profile", None)
    tokens = profile.get("max_input_tokens") if isinstance(profile, dict) else None
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < _LEAST_WINDOW:
        return None
    return tokens
