"""Dialog lines, and what a recall answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from langchain_convmem.records.entries import Role, ThreadKey

__all__ = [
    "DialogLine",
    "LineMatch",
    "Recall",
    "RecalledBlock",
    "Scalar",
    "StoredSegment",
    "Verdict",
]

Scalar: TypeAlias = "str | int | float | bool | None"
Verdict: TypeAlias = Literal["answered", "related", "nothing"]
"""What a recall says of itself; see `Recall.verdict`."""


@dataclass(frozen=True, slots=True)
class DialogLine:
    """One string of an entry's contents, as recall sees it.

    Attributes:
        line_id: The message's id; further lines of the same message are `id#2`, `id#3`, ...
        key: The thread.
        position: Position of its entry.
        part: Which of the entry's lines, from 0.
        speaker: The message's name, else `User` or `Assistant`.
        text: Verbatim.
        time_ms: When it was said, milliseconds since the epoch.
        session: Label of the sitting it belongs to, if the message names one.
        role: Role of its entry.
        entry_id: Id of its entry.
        tags: What else the message is marked with: the scalars of its `additional_kwargs`. Treat
            it as read-only.
    """

    line_id: str
    key: ThreadKey
    position: int
    part: int
    speaker: str
    text: str
    time_ms: int
    session: str | None
    role: Role
    entry_id: str
    tags: Mapping[str, Scalar] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A line in the ranking of one recall.

    Attributes:
        line: The line.
        relevance: Fused and smoothed score; larger is closer, no fixed range.
        similarity: Cosine in [-1, 1] to the query; 0.0 when the line has no vector.
        why: Short reasons (`meaning`, `words: ...`, `speaker`, `neighbours`).
    """

    line: DialogLine
    relevance: float
    similarity: float
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecalledBlock:
    """Neighbouring lines of one sitting that were recalled together.

    Attributes:
        lines: In the order of the dialogue.
        text: What a model should read: a date header, then `Speaker: text` lines, verbatim.
        matches: The hits inside, best first.
        relevance: That of the best hit.
        similarity: Cosine of the best hit.
    """

    lines: tuple[DialogLine, ...]
    text: str
    matches: tuple[LineMatch, ...]
    relevance: float
    similarity: float


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer to one recall.

    Attributes:
        matches: Ranked lines, best first.
        blocks: What was selected, best first; no line stands in two blocks.
        buffer: The thread's relevance buffer afterwards, newest first.
        best_rejected: Relevance of the best line that was not selected, if any.
        problems: What went wrong without stopping the recall, such as a failing embedder.
        verdict: "answered" where a line of the blocks holds most of what the question asks about;
            "related" where blocks come near it, yet what is asked may never have been said, such as
            a cat's age where only its name is known; "nothing" without blocks. It counts words: a
            fact that is told in other words than the question's is "related".
    """

    matches: tuple[LineMatch, ...]
    blocks: tuple[RecalledBlock, ...]
    buffer: tuple[RecalledBlock, ...] = ()
    best_rejected: float | None = None
    problems: tuple[str, ...] = ()
    verdict: Verdict = "nothing"


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """What an index derived from one segment of a line, kept so that a cold start is cheap.

    Attributes:
        position: Position of the line's entry.
        part: Which line of the entry, from 0.
        segment: Which segment of the line, from 0.
        terms: Analysed words, separated by blanks.
        vector: float16, little endian; None while the embedding is pending.
        analysis: Version of the analysis that gave the terms; a vector is good under any.
    """

    position: int
    part: int
    segment: int
    terms: str
    vector: bytes | None
    analysis: int = 1
