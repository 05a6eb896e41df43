"""Recall of verbatim dialog lines: embedding, indexes, fusion, blocks, retriever."""

from __future__ import annotations

from langchain_convmem.recall.embedding import JointEmbeddings
from langchain_convmem.recall.minilm import MiniLMEmbeddings
from langchain_convmem.recall.options import RecallOptions, RecallSettings
from langchain_convmem.recall.recall import DialogRecall, LineRecall
from langchain_convmem.recall.retriever import DialogLineRetriever
from langchain_convmem.recall.universal import UniversalSentenceEmbeddings

__all__ = [
    "DialogLineRetriever",
    "DialogRecall",
    "JointEmbeddings",
    "LineRecall",
    "MiniLMEmbeddings",
    "RecallOptions",
    "RecallSettings",
    "UniversalSentenceEmbeddings",
]
