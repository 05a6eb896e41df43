"""What a call of a wrapped chain may change for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["TurnSwitches"]


@dataclass(frozen=True, slots=True)
class TurnSwitches:
    """What a call may change under `configurable`."""

    recall: bool = True
    max_tokens: int | None = None
    k: int | None = None
    history_tokens: int | None = None
    remember: bool = True

    def overridden(self, configurable: Mapping[str, Any]) -> TurnSwitches:
        """Return the switches with what the call sets."""
        named = {
            name: configurable[name]
            for name in ("recall", "max_tokens", "k", "remember")
            if configurable.get(name) is not None
        }
        if "max_tokens" in named and "k" not in named:
            named["k"] = None  # a budget asked for by the call replaces a number set for the chain
        return replace(self, **named)
