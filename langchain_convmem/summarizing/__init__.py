"""Compacting conversations: plan, summarise, check, commit; nothing that was said is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.summarizing.compaction import Compactor
    from langchain_convmem.summarizing.report import SummaryReport
    from langchain_convmem.summarizing.settings import SummarySettings
    from langchain_convmem.summarizing.summarizers import ModelSummarizer, as_summarizer

__all__ = ["Compactor", "ModelSummarizer", "SummaryReport", "SummarySettings", "as_summarizer"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Compactor": "compaction",
        "ModelSummarizer": "summarizers",
        "SummaryReport": "report",
        "SummarySettings": "settings",
        "as_summarizer": "summarizers",
    },
)
