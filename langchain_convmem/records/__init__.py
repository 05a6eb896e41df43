"""The values everything else is made of: immutable, without I/O.

An `Entry` is one write to a log and never changes, except that attributes, timings and aux keys
may be added to its metadata. Every other value here is derived from entries. May import only
`errors`; LangChain's message types are named for typing alone.
"""

from __future__ import annotations

from langchain_convmem.records.answers import (
    CacheDraft,
    Changes,
    Context,
    ForgetReceipt,
    LineChanges,
    StateDocument,
    SummaryRequest,
    ThreadInfo,
)
from langchain_convmem.records.entries import (
    Control,
    Cover,
    Draft,
    Entry,
    Metadata,
    Owner,
    RetractReason,
    Role,
    ThreadKey,
    Turn,
)
from langchain_convmem.records.recalled import (
    DialogLine,
    LineMatch,
    Recall,
    RecalledBlock,
    Scalar,
    StoredSegment,
    Verdict,
)

__all__ = [
    "CacheDraft",
    "Changes",
    "Context",
    "Control",
    "Cover",
    "DialogLine",
    "Draft",
    "Entry",
    "ForgetReceipt",
    "LineChanges",
    "LineMatch",
    "Metadata",
    "Owner",
    "Recall",
    "RecalledBlock",
    "RetractReason",
    "Role",
    "Scalar",
    "StateDocument",
    "StoredSegment",
    "SummaryRequest",
    "ThreadInfo",
    "ThreadKey",
    "Turn",
    "Verdict",
]
