"""Compacting conversations: plan, summarise, check, commit; nothing that was said is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.summarizing.by_hand import aexplain_summary as aexplain_summary
    from langchain_convmem.summarizing.by_hand import aresummarize as aresummarize
    from langchain_convmem.summarizing.by_hand import asummary_record as asummary_record
    from langchain_convmem.summarizing.by_hand import explain_summary as explain_summary
    from langchain_convmem.summarizing.by_hand import resummarize as resummarize
    from langchain_convmem.summarizing.by_hand import summary_record as summary_record
    from langchain_convmem.summarizing.compactor import SummaryEvent as SummaryEvent
    from langchain_convmem.summarizing.compactor import SummaryReport as SummaryReport
    from langchain_convmem.summarizing.planning import SummarySettings as SummarySettings
    from langchain_convmem.summarizing.record import SummaryRecord as SummaryRecord

__getattr__, __dir__, __all__ = load_lazily(__name__)
