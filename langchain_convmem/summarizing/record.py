"""Where each fact that the summaries of a thread stand for is now: told, listed or left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.summarizing.checks import TITLE, list_said
from langchain_convmem.views.live import find_frontier, find_live_entries, find_uncovered
from langchain_convmem.views.summaries import DAYS_LINE, find_pins
from langchain_convmem.words.facts import Kind, ToldFacts, find_facts

FactState: TypeAlias = Literal["told", "listed", "left"]
"""Told by a summary's text, or a pin; by its list of details; left to the log, and to recall."""

STATES: tuple[FactState, ...] = ("told", "listed", "left")


@dataclass(frozen=True, slots=True)
class RecordedFact:
    """A fact that summaries stand for, and where it is now.

    Attributes:
        kind: What it is.
        state: Where it is.
        text: As it was said; not part of the repr.
        position: Of the entry that says it first.
    """

    kind: Kind
    state: FactState
    text: str = field(repr=False)
    position: int


@dataclass(frozen=True, slots=True, repr=False)
class SummaryRecord:
    """All facts that a thread's summaries cover, each once.

    `str()` and `repr()` count them by kind, and quote nothing.

    Attributes:
        key: The thread.
        facts: In the order in which they were said.
        summaries: How many summaries a model reads of the thread.
        covered: How many entries they stand for.
    """

    key: ThreadKey
    facts: tuple[RecordedFact, ...] = ()
    summaries: int = 0
    covered: int = 0

    def pick(self, state: FactState) -> tuple[RecordedFact, ...]:
        """Return the facts in one state."""
        return tuple(fact for fact in self.facts if fact.state == state)

    def count(self) -> dict[Kind, dict[FactState, int]]:
        """Return how many facts of each kind are where; kinds without facts are left out."""
        counts = Counter((fact.kind, fact.state) for fact in self.facts)
        kinds = dict.fromkeys(fact.kind for fact in self.facts)
        return {kind: {state: counts[kind, state] for state in STATES} for kind in kinds}

    def __repr__(self) -> str:
        parts = [f"thread {self.key.thread_id!r}, {self.covered} entries in {self.summaries}"]
        for kind, states in self.count().items():
            told = ", ".join(f"{count} {state}" for state, count in states.items() if count)
            parts.append(f"{kind} {told}")
        return f"SummaryRecord({'; '.join(parts)})"


def record(key: ThreadKey, entries: Sequence[Entry]) -> SummaryRecord:
    """Return the record of a thread.

    Args:
        key: The thread.
        entries: All its entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    shown = find_frontier(live)
    covered = _list_covered(live)
    facts = find_facts(list_said(covered))
    texts, details = _split_pieces(shown)
    texts += [f"{pin.speaker}: {pin.text}" for pin in find_pins(entries)]
    told, listed = (ToldFacts("\n".join(pieces)) for pieces in (texts, details))
    recorded = []
    for fact in facts:
        state: FactState = "listed" if listed.has_fact(fact) else "left"
        state = "told" if told.has_fact(fact) else state
        recorded.append(RecordedFact(fact.kind, state, fact.text, fact.said.position))
    return SummaryRecord(key, tuple(recorded), len(shown), len(covered))


def _list_covered(live: Sequence[Entry]) -> list[Entry]:
    shown = {entry.id for entry in find_uncovered(live)}
    said = (entry for entry in live if entry.role not in ("summary", "system"))
    covered = (entry for entry in said if entry.id not in shown)
    return sorted(covered, key=lambda entry: entry.position)


def _split_pieces(shown: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """Return the texts of summaries without their lines of days, and their lists of details."""
    pieces = [piece for summary in shown for piece in summary.contents]
    texts = [piece for piece in pieces if not piece.startswith(TITLE)]
    # Such a line says when something was said, and tells no date that somebody named.
    lines = [line for text in texts for line in text.split("\n") if not DAYS_LINE.fullmatch(line)]
    return lines, [piece for piece in pieces if piece.startswith(TITLE)]
