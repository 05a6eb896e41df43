"""Compacting conversations: plan, summarise, check, commit; nothing that was said is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.summarizing.compactor import Compactor, SummaryReport
    from langchain_convmem.summarizing.planning import SummarySettings
    from langchain_convmem.summarizing.summarizers import ModelSummarizer, as_summarizer

__all__ = ["Compactor", "ModelSummarizer", "SummaryReport", "SummarySettings", "as_summarizer"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Compactor": "summarizing.compactor",
        "ModelSummarizer": "summarizing.summarizers",
        "SummaryReport": "summarizing.compactor",
        "SummarySettings": "summarizing.planning",
        "as_summarizer": "summarizing.summarizers",
    },
)
