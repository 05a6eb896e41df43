"""Values that are no messages: what stands for them in a log, as JSON and text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from pydantic import BaseModel

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.views.copies import plain_value
from langchain_convmem.views.plain_json import dumps

__all__ = ["add_up", "make_storable", "to_json"]


def to_json(value: Any) -> str:
    """Return a value as JSON; what has no plain form is named by its type."""
    try:
        return json.dumps(plain_value(_to_maps(value)), ensure_ascii=False)
    except (RecursionError, TypeError, ValueError, AttributeError):
        return f"[{type(value).__name__}]"


def add_up(total: Any, chunk: Any) -> Any:
    """Return the value of a stream so far, as LangChain adds values up."""
    try:
        return total + chunk
    except TypeError:
        return chunk


def make_storable(message: BaseMessage) -> BaseMessage:
    """Return a message that a log can keep, whatever objects its side fields hold.

    Parsed objects and artifacts are for programs: models become maps, and what has no plain form
    becomes text.
    """
    fields: dict[str, Any] = {
        "additional_kwargs": message.additional_kwargs,
        "response_metadata": message.response_metadata,
    }
    if isinstance(message, ToolMessage):
        fields["artifact"] = message.artifact
    changed = {
        name: plain_value(_to_maps(value))
        for name, value in fields.items()
        if value and not _is_plain(value)
    }
    return message.model_copy(update=changed) if changed else message


def _is_plain(value: Any) -> bool:
    try:
        dumps(value, what="reply")
    except InvalidMessageError:
        return False
    return True


def _to_maps(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _to_maps(value.model_dump())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (one.name for one in dataclasses.fields(value))
        return {name: _to_maps(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [_to_maps(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _to_maps(item) for key, item in value.items()}
    return value
