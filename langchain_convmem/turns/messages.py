"""What a call of a wrapped chain says: one message of the user, in any of the usual forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import HumanMessage, HumanMessageChunk, message_chunk_to_message
from langchain_core.prompt_values import PromptValue

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.views.codec import text_pieces

__all__ = ["human_of"]


def human_of(value: Any) -> tuple[HumanMessage, Mapping[str, Any]]:
    """Return the user's message and whatever else a dict input carries.

    Raises:
        InvalidMessageError: If the input is not one message of the user, or it is blank.
    """
    extra: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        if "input" not in value:
            msg = f"a dict input needs the key 'input'; got {sorted(map(str, value))}"
            raise InvalidMessageError(msg)
        extra = {name: item for name, item in value.items() if name != "input"}
        value = value["input"]
    if isinstance(value, PromptValue):
        value = value.to_messages()
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        value = HumanMessage(value)
    if not isinstance(value, HumanMessage):
        msg = (
            f"the input must be text or one HumanMessage, got {type(value).__name__}: "
            f"{value!r:.80}; put more messages into the thread with memory.add_messages()"
        )
        raise InvalidMessageError(msg)
    if isinstance(value, HumanMessageChunk):
        value = message_chunk_to_message(value)
    if _is_blank(value):
        raise InvalidMessageError("the user's message is blank; there is nothing to answer")
    return value, extra


def _is_blank(message: HumanMessage) -> bool:
    """Return whether a message has neither text nor media."""
    content = message.content
    if isinstance(content, str):
        return not content.strip()
    media = [b for b in content if not isinstance(b, str) and b.get("type") != "text"]
    return not media and not text_pieces(message)
