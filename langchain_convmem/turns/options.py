"""What a call of a wrapped chain may change for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from langchain_convmem.views.budget import ContextBudget

__all__ = ["TurnOptions"]


class RecallLimits(TypedDict):
    """Options of a recall; see `RecallOptions`."""

    k: int | None
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What a call may change under `configurable`."""

    recall: bool = True
    max_tokens: int | None = None
    k: int | None = None
    history_tokens: int | None = None
    budget: ContextBudget | None = None
    remember: bool = True

    @property
    def recall_limits(self) -> RecallLimits:
        """How much a recall may bring: a number of blocks, or a budget."""
        return {"k": self.k, "max_tokens": self.max_tokens if self.k is None else None}

    def overridden(self, configurable: Mapping[str, Any]) -> TurnOptions:
        """Return the switches with what the call sets."""
        named = {
            name: configurable[name]
            for name in ("recall", "max_tokens", "k", "remember")
            if configurable.get(name) is not None
        }
        if "max_tokens" in named and "k" not in named:
            named["k"] = None  # a budget asked for by the call replaces a number set for the chain
        return replace(self, **named)
