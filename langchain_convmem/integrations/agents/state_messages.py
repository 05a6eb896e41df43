"""Messages of an agent's state: which ones were said, and how they look in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.views.copies import plain_value
from langchain_convmem.views.plain_json import dumps

__all__ = ["is_stand_in", "opening_of", "said", "storable"]

_SUMMARY_SOURCE = "summarization"


def is_stand_in(message: BaseMessage) -> bool:
    """Return whether a message stands for others that a summarising middleware took away."""
    return message.additional_kwargs.get("lc_source") == _SUMMARY_SOURCE


def said(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that are no stand-ins: what these tell of is in the log, verbatim."""
    return [message for message in messages if not is_stand_in(message)]


def opening_of(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what the user said before anyone answered."""
    before = takewhile(lambda message: not isinstance(message, AIMessage | ToolMessage), messages)
    return [message for message in before if isinstance(message, HumanMessage)]


# -- how they are logged --------------------------------------------------------------------------


def storable(message: BaseMessage) -> BaseMessage:
    """Return the message with an artifact that a log can keep: as a checkpointer keeps it.

    Artifacts are for programs, not for the model, and may be objects of any kind: models become
    maps, as checkpointers write them, and what has no plain form becomes text.
    """
    if not isinstance(message, ToolMessage) or message.artifact is None:
        return message
    try:
        dumps(message.artifact, what="artifact")
    except InvalidMessageError:
        return message.model_copy(update={"artifact": plain_value(_as_maps(message.artifact))})
    return message


def _as_maps(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _as_maps(value.model_dump())
    if isinstance(value, list | tuple):
        return [_as_maps(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _as_maps(item) for key, item in value.items()}
    return value
