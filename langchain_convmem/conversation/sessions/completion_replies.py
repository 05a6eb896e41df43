"""What a service for completions answers, and what that means to a session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from langchain_convmem.conversation.stop_texts import StopTexts
from langchain_convmem.errors import ConversationError

__all__ = ["StreamedReply", "is_too_long", "scored"]

_TOO_LONG = re.compile(r"context[ _-]?(length|size|window)|maximum context", re.IGNORECASE)
_TOO_LONG_STATUSES = (400, 413)


class StreamedReply:
    """What a service streams, as far as it has come."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.finish_reason: Literal["stop", "length"] | None = None
        self._stops = StopTexts(stop)
        self._told = ""

    @property
    def is_whole(self) -> bool:
        """Whether nothing of what still comes is wanted."""
        return bool(self._stops.found)

    @property
    def stop_text(self) -> str:
        """The text that ended the reply, as far as that is known."""
        return self._stops.found or self._told

    def read(self, event: Any) -> str:
        """Return what can be passed on of an event."""
        for choice in event.choices:
            if choice.finish_reason is not None:
                self.finish_reason = "length" if choice.finish_reason == "length" else "stop"
                # vLLM's word for the stop text that it met; a number is the model's own end.
                told = getattr(choice, "stop_reason", None)
                self._told = told if isinstance(told, str) else ""
            return self._stops.feed(choice.text or "")
        return ""

    def ended(self) -> str:
        """Return what was held back.

        Raises:
            ConversationError: If the service did not say why it ended.
        """
        rest = self._stops.rest()
        if self._stops.found:
            self.finish_reason = "stop"
        if self.finish_reason is None:
            raise ConversationError(
                "the service ended its reply without a finish reason, so it may not be whole"
            )
        return rest


def is_too_long(error: Any) -> bool:
    """Return whether an error of the client says that the prompt is too long for the model."""
    if getattr(error, "status_code", None) not in _TOO_LONG_STATUSES:
        return False
    return any(_TOO_LONG.search(str(told)) for told in (error.code, error.type, error.message))


def scored(logprobs: Any, start: int) -> float:
    """Return the logarithm of the probability of a prompt from character `start` on.

    Raises:
        ConversationError: If the service told no probabilities.
    """
    if logprobs is None or logprobs.token_logprobs is None or logprobs.text_offset is None:
        raise ConversationError("the service tells no probabilities of a prompt; it cannot score")
    places = zip(logprobs.text_offset, logprobs.tokens, logprobs.token_logprobs, strict=True)
    return float(
        sum(chance or 0.0 for place, token, chance in places if place + len(token) > start)
    )
