"""Compacting conversations: plan, summarise, check, commit; nothing that was said is lost."""

from __future__ import annotations

from langchain_convmem.lazy_names import lazy_names

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
