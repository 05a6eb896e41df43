"""A chat model without weights, network or key, for demos, notebooks and tests."""

from __future__ import annotations

from langchain_convmem.offline.chat_model import MODEL_NAME, OfflineChatModel

__all__ = ["MODEL_NAME", "OfflineChatModel"]
