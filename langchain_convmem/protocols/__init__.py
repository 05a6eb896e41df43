"""The seams of the package, as structural protocols: no code, no base class repeats one.

Optional abilities are protocols of their own, asked for once at the border with `isinstance`.
Asynchronous twins carry the prefix `a` and keep every promise of their synchronous method.
"""

from __future__ import annotations

from langchain_convmem.protocols.logs import (
    CACHE_PREFIX,
    EndsWithProcess,
    LineSource,
    MessageLog,
    OwnerListing,
    SegmentBuffer,
    SegmentCache,
    Stretch,
    ThreadState,
    ThreadTransactions,
    speaks_for,
)
from langchain_convmem.protocols.models import (
    INTERNAL_TAG,
    INTERNAL_TAGS,
    Summarizer,
    TokenCounter,
)
from langchain_convmem.protocols.sessions import (
    ClonableSession,
    Media,
    Part,
    RewindableSession,
    ScoringSession,
    TextEngine,
    TextSession,
    TokenCountingSession,
)
from langchain_convmem.protocols.threads import ThreadMemory, ThreadView

__all__ = [
    "CACHE_PREFIX",
    "INTERNAL_TAG",
    "INTERNAL_TAGS",
    "ClonableSession",
    "EndsWithProcess",
    "LineSource",
    "Media",
    "MessageLog",
    "OwnerListing",
    "Part",
    "RewindableSession",
    "ScoringSession",
    "SegmentBuffer",
    "SegmentCache",
    "Stretch",
    "Summarizer",
    "TextEngine",
    "TextSession",
    "ThreadMemory",
    "ThreadState",
    "ThreadTransactions",
    "ThreadView",
    "TokenCounter",
    "TokenCountingSession",
    "speaks_for",
]
