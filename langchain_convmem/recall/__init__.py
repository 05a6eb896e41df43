"""Recall of verbatim dialog lines: embedding, indexes, fusion, blocks, retriever."""

from __future__ import annotations

from langchain_convmem.recall.embedding import EmbeddedEmbeddings, MiniLMEmbeddings
from langchain_convmem.recall.options import RecallOptions, RecallSettings
from langchain_convmem.recall.recall import DialogRecall, LineRecall
from langchain_convmem.recall.retriever import DialogLineRetriever

__all__ = [
    "DialogLineRetriever",
    "DialogRecall",
    "EmbeddedEmbeddings",
    "LineRecall",
    "MiniLMEmbeddings",
    "RecallOptions",
    "RecallSettings",
]
