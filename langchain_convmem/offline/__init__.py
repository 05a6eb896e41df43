"""A chat model and a summariser without weights, network or key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.offline.chat_model import MODEL_NAME, OfflineChatModel
    from langchain_convmem.offline.extractive import ExtractiveSummarizer

__all__ = ["MODEL_NAME", "ExtractiveSummarizer", "OfflineChatModel"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ExtractiveSummarizer": "offline.extractive",
        "MODEL_NAME": "offline.chat_model",
        "OfflineChatModel": "offline.chat_model",
    },
)
