"""Text engines: models that read text and go on with it. They load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.conversation.sessions.completions import CompletionsEngine
    from langchain_convmem.conversation.sessions.local import LocalEngine

__all__ = ["CompletionsEngine", "LocalEngine"]

_HOMES = {"CompletionsEngine": "completions", "LocalEngine": "local"}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
