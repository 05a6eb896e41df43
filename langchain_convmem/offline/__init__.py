"""A chat model and a summariser without weights, network or key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.offline.chat_model import OfflineChatModel
    from langchain_convmem.offline.extractive import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer", "OfflineChatModel"]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "ExtractiveSummarizer": "offline.extractive",
        "OfflineChatModel": "offline.chat_model",
    },
)
