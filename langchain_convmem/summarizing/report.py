"""What came of an attempt to compact a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.summarizing.planning import ROLLED

__all__ = ["Outcome", "SummaryReport"]

Outcome = Literal["written", "not_due", "busy", "stale", "failed"]
"""`busy`: another one is at it, or the thread rests after a failure; `stale`: what was summarised
has changed meanwhile, and nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReport:
    """What came of an attempt to compact a thread.

    Attributes:
        key: The thread.
        outcome: What happened.
        summary: The entry that was written, if one was.
        problem: Why nothing was written, in one sentence; empty if there is nothing to say.
        covered: How many entries the summary stands for, those of summaries before it left out.
        calls: How often the summariser was asked.
        facts: Names, numbers, dates, ids and promises that the summary had to tell.
        in_text: How many of them its text tells.
        listed: How many more its list of details tells.
        recallable: How many more are found by recall.
        lost: The rest, as they were said: in the log alone.
    """

    key: ThreadKey
    outcome: Outcome
    summary: Entry | None = None
    problem: str = ""
    covered: int = 0
    calls: int = 0
    facts: int = 0
    in_text: int = 0
    listed: int = 0
    recallable: int = 0
    lost: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether a summary was written."""
        return self.outcome == "written"

    def to_record(self, rolled: int) -> dict[str, Any]:
        """Return what stands with the summary about how it was made."""
        return {
            ROLLED: rolled,
            "facts": self.facts,
            "in_text": self.in_text,
            "listed": self.listed,
            "recallable": self.recallable,
            "lost": list(self.lost),
        }
