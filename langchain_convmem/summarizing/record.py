"""Where each fact that the summaries of a thread stand for is now: told, listed, left or lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.summarizing.checks import TITLE, list_said
from langchain_convmem.views.live import find_frontier, find_live_entries, find_uncovered
from langchain_convmem.views.markup import render_table
from langchain_convmem.views.pins import find_pins
from langchain_convmem.views.summaries import DAYS_LINE
from langchain_convmem.words.facts import Fact, Kind, check_told, find_facts

if TYPE_CHECKING:
    from langchain_convmem.recall import DialogRecall

FactState: TypeAlias = Literal["told", "listed", "left", "lost"]
"""Told by a summary's text, or a pin; by its list of details; left to recall; in the log alone."""

STATES: tuple[FactState, ...] = ("told", "listed", "left", "lost")

FindWords: TypeAlias = Callable[[ThreadKey, Sequence[Fact]], list[str]]
"""Returns for each fact the words by which recall finds it; empty for one that it does not find."""

_MOST_WORDS = 6

_BLOCKS = 3
"""How many recalled blocks may hold a fact."""


@dataclass(frozen=True, slots=True)
class RecordedFact:
    """A fact that summaries stand for, and where it is now.

    Attributes:
        kind: What it is.
        state: Where it is.
        text: As it was said; not part of the repr.
        position: Of the entry that says it first.
        words: Other words of its sentence, by which recall finds it where it is left to recall;
            else empty. Not part of the repr.
    """

    kind: Kind
    state: FactState
    text: str = field(repr=False)
    position: int
    words: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class SummaryRecord:
    """All facts that the summaries of a thread stand for, each once.

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

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON."""
        return {"summaries": self.summaries, "covered": self.covered, "facts": self.count()}

    def __repr__(self) -> str:
        parts = [f"thread {self.key.thread_id!r}, {self.covered} entries in {self.summaries}"]
        for kind, states in self.count().items():
            told = ", ".join(f"{count} {state}" for state, count in states.items() if count)
            parts.append(f"{kind} {told}")
        return f"SummaryRecord({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        rows = [(kind, *map(str, states.values())) for kind, states in self.count().items()]
        return render_table(["facts", *STATES], rows)


def record(key: ThreadKey, entries: Sequence[Entry], find_words: FindWords) -> SummaryRecord:
    """Return the record of a thread.

    Args:
        key: The thread.
        entries: All its entries by ascending position, control entries included.
        find_words: Asks recall.
    """
    live = find_live_entries(entries)
    shown = find_frontier(live)
    covered = _list_covered(live)
    facts = find_facts(list_said(covered))
    texts, details = _split_pieces(shown)
    texts += [f"{pin.speaker}: {pin.text}" for pin in find_pins(entries)]
    told, listed = (check_told(facts, "\n".join(pieces)) for pieces in (texts, details))
    missing = [fact for fact, *ways in zip(facts, told, listed, strict=True) if not any(ways)]
    found = find_words(key, missing)
    words = {fact.key: said for fact, said in zip(missing, found, strict=True)}
    recorded = (
        _record(fact, words.get(fact.key), is_told=is_told)
        for fact, is_told in zip(facts, told, strict=True)
    )
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


def _record(fact: Fact, words: str | None, *, is_told: bool) -> RecordedFact:
    state: FactState = "told" if is_told else "listed"
    if words is not None:
        state = "left" if words else "lost"
    return RecordedFact(fact.kind, state, fact.text, fact.said.position, words or "")


def pick_words(fact: Fact) -> str:
    """Return what to ask recall for a fact: a few words of its sentence that are not the fact."""
    own = fact.text.casefold()
    words = dict.fromkeys(re.findall(r"[^\W\d_]{3,}", fact.sentence))
    return " ".join([word for word in words if word.casefold() not in own][:_MOST_WORDS])


def find_words(
    recall: DialogRecall, key: ThreadKey, facts: Sequence[Fact], *, most: int | None = None
) -> list[str]:
    """Return for each fact words that are not its own and by which recall finds it, or "".

    Args:
        recall: Recalls the lines of the thread's owner.
        key: The thread.
        facts: What is looked for.
        most: Look for so many of them, the first ones; None looks for all.
    """
    by_words = replace(recall.settings, dense_weight=0.0, buffer_size=0)
    search = partial(recall.drop_hooks().recall, key.owner, k=_BLOCKS, ranking=0, settings=by_words)
    by_asked: dict[str, list[Fact]] = {}
    for fact in facts[:most]:
        by_asked.setdefault(pick_words(fact), []).append(fact)
    by_asked.pop("", None)
    found: dict[str, str] = {}
    for words, wanted in by_asked.items():
        text = "\n".join(block.text for block in search(words).blocks)
        told = zip(wanted, check_told(wanted, text), strict=True)
        found |= {one.key: words for one, so in told if so or one.sentence in text}
    return [found.get(fact.key, "") for fact in facts]
