"""Compacting conversations: plan, summarise, check, commit; nothing that was said is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.summarizing.compactor import SummaryEvent, SummaryReport
    from langchain_convmem.summarizing.planning import SummarySettings
    from langchain_convmem.summarizing.prefix import PrefixSummarizer
    from langchain_convmem.summarizing.record import SummaryRecord

__all__ = [
    "PrefixSummarizer",
    "SummaryEvent",
    "SummaryRecord",
    "SummaryReport",
    "SummarySettings",
]

__getattr__, __dir__ = load_lazily(
    __name__,
    {
        "PrefixSummarizer": "summarizing.prefix",
        "SummaryRecord": "summarizing.record",
        "SummaryEvent": "summarizing.compactor",
        "SummaryReport": "summarizing.compactor",
        "SummarySettings": "summarizing.planning",
    },
)
