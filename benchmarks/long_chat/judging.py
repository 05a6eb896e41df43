"""Whether a text tells an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

__all__ = ["tells"]


def tells(messages: Sequence[BaseMessage], answer: str) -> bool:
    """Return whether the answer stands in a message, as words of its own."""
    pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.IGNORECASE)
    return any(pattern.search(str(message.text)) for message in messages)
