"""What a restatement is compared with, and what comes of it: sources, findings, the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from langchain_convmem.claims.reading import Claim

FindingKind: TypeAlias = Literal[
    "id", "amount", "time", "date", "day", "name", "person", "role", "polarity", "opposite",
    "swap", "word", "statement", "language",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """What was said, by whom.

    Attributes:
        text: One sentence or several.
        speaker: "user", "assistant" or a name; empty for what nobody in particular says.
    """

    text: str = field(repr=False)
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """A claim that does not agree, or that cannot be judged.

    Attributes:
        kind: What it is about.
        source: Index of the source sentence that it comes from; None if there is none.
        sentence: Index of the sentence of the restatement; None for what is missing.
        said: What the source says; not part of the repr.
        told: What the restatement says instead; not part of the repr.
    """

    kind: FindingKind
    source: int | None = None
    sentence: int | None = None
    said: str = field(default="", repr=False)
    told: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """How a restatement agrees with its source.

    Attributes:
        missing: What the source says and the restatement does not.
        changed: What it says otherwise.
        invented: What it adds.
        unjudged: What the rules cannot decide.
    """

    missing: tuple[ClaimFinding, ...] = ()
    changed: tuple[ClaimFinding, ...] = ()
    invented: tuple[ClaimFinding, ...] = ()
    unjudged: tuple[ClaimFinding, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing is missing, changed or invented."""
        return not (self.missing or self.changed or self.invented)


@dataclass(frozen=True)
class SourceClaim:
    """A sentence of the source, and to which of the given texts it belongs."""

    index: int
    claim: Claim


FoundChanges: TypeAlias = "Iterator[tuple[FindingKind, SourceClaim]]"
