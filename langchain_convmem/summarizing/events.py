"""What an application is told of compactions: thread, kind and counts; nothing that was said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from langchain_convmem.records import ThreadKey

if TYPE_CHECKING:
    from langchain_convmem.summarizing.compactor import SummaryReport

EventKind = Literal["compacted", "lost", "failed", "resting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryEvent:
    """Something that happened to the summaries of a thread.

    Attributes:
        key: The thread.
        kind: `compacted`: a summary was written. `lost`: that summary, its details and recall do
            not tell all facts. `failed`: no summary came about, and the thread rests. `resting`:
            the thread was due, and rests after a failure.
        problem: For `failed`: why, in one sentence.
        covered: How many messages the new summaries stand for.
        folded: How many parents were made.
        calls: How often the summariser was asked.
        facts: How many facts there were to tell.
        in_text: How many the text tells.
        listed: How many more the list of details tells.
        recallable: How many more recall finds.
        lost: How many are in the log alone.
        missing_sections: How many sections of the template were left out.
    """

    key: ThreadKey
    kind: EventKind
    problem: str = ""
    covered: int = 0
    folded: int = 0
    calls: int = 0
    facts: int = 0
    in_text: int = 0
    listed: int = 0
    recallable: int = 0
    lost: int = 0
    missing_sections: int = 0


def list_events(report: SummaryReport) -> Iterator[SummaryEvent]:
    """Yield what there is to tell of an attempt, in order; nothing where nothing was due."""
    if report:
        counts = {name: getattr(report, name) for name in _COUNTS}
        for kind in _find_kinds(report):
            yield SummaryEvent(
                key=report.key,
                kind=kind,
                lost=len(report.lost),
                missing_sections=len(report.missing_sections),
                **counts,
            )
    if report.outcome == "resting":
        yield SummaryEvent(key=report.key, kind="resting")
    elif report.outcome == "failed" or (report and report.problem):
        yield SummaryEvent(
            key=report.key, kind="failed", problem=report.problem, calls=report.calls
        )


_COUNTS = ("covered", "folded", "calls", "facts", "in_text", "listed", "recallable")


def _find_kinds(report: SummaryReport) -> list[EventKind]:
    return ["compacted", "lost"] if report.lost else ["compacted"]
