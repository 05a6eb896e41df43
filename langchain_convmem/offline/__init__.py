"""A chat model and a summariser without weights, network or key."""

from __future__ import annotations

from langchain_convmem.offline.chat_model import MODEL_NAME, OfflineChatModel
from langchain_convmem.offline.extractive import ExtractiveSummarizer

__all__ = ["MODEL_NAME", "ExtractiveSummarizer", "OfflineChatModel"]
