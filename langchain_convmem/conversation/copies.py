"""Copies of messages, so that nobody changes a history from outside."""

from __future__ import annotations

from typing import TypeVar

from langchain_core.messages import BaseMessage

from langchain_convmem.views.copies import copied as wholly_copied

__all__ = ["copied"]

M = TypeVar("M", bound=BaseMessage)


def copied(message: M) -> M:
    """Return a message that shares nothing with another but the artifact of a tool.

    That is the tool's own, may be of any type, and is shown to no model.
    """
    return wholly_copied(message, shared=("artifact",))
