"""Recall of verbatim dialog lines: embedding, indexes, fusion, blocks, retriever."""

from __future__ import annotations

from langchain_convmem.recall.dialog_recall import DialogRecall
from langchain_convmem.recall.embedding import EmbeddedEmbeddings, fingerprint_of
from langchain_convmem.recall.encoder import MiniLMEmbeddings
from langchain_convmem.recall.exact_index import ExactIndex
from langchain_convmem.recall.faiss_index import FaissIndex
from langchain_convmem.recall.options import RecallOptions
from langchain_convmem.recall.recall import LineRecall
from langchain_convmem.recall.retriever import DialogLineRetriever
from langchain_convmem.recall.settings import RecallSettings

__all__ = [
    "DialogLineRetriever",
    "DialogRecall",
    "EmbeddedEmbeddings",
    "ExactIndex",
    "FaissIndex",
    "LineRecall",
    "MiniLMEmbeddings",
    "RecallOptions",
    "RecallSettings",
    "fingerprint_of",
]
