"""A chat model and a summariser without weights, network or key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.offline.chat_model import OfflineChatModel as OfflineChatModel
    from langchain_convmem.offline.extractive import ExtractiveSummarizer as ExtractiveSummarizer

__getattr__, __dir__, __all__ = load_lazily(__name__)
