"""Why a reply ended, in the words of its provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["cut_off_reason"]

_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "model_length", "incomplete"})
"""What providers give as the reason where a reply reached its limit, and where they give it."""
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")


def cut_off_reason(metadata: Mapping[str, Any]) -> str | None:
    """Return the provider's word for a limit that ended a reply; None if none did.

    Args:
        metadata: The reply's `response_metadata`.
    """
    told = (str(metadata.get(name)) for name in _REASONS)
    return next((reason for reason in told if reason in _CUT_OFF), None)
