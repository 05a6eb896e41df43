"""What became of each fact that summaries of a thread stand for: told, listed, left or lost.

A record is made of all that is covered, each time anew: what an earlier summary left to recall is
looked for again, and nothing is counted as told because it once was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_convmem.claims.lexicon import guess_language
from langchain_convmem.claims.reading import read_claim
from langchain_convmem.effects import Steps
from langchain_convmem.markup import render_table
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.summarizing.checks import TITLE, list_said
from langchain_convmem.summarizing.kinds import (
    KINDS,
    FactKind,
    find_kinds,
    find_value,
    get_kind,
    is_saying,
)
from langchain_convmem.summarizing.telling import tell_facts
from langchain_convmem.views.facts import Fact
from langchain_convmem.views.live import find_frontier, find_live_entries, find_uncovered
from langchain_convmem.views.pins import Pin, find_pins
from langchain_convmem.views.summaries import DAYS_LINE

FactState: TypeAlias = Literal["told", "listed", "left", "lost"]
"""Told by a summary's text, or a pin; by its list of details; left to recall; in the log alone."""

STATES: tuple[FactState, ...] = ("told", "listed", "left", "lost")

FindWords: TypeAlias = Callable[[ThreadKey, Sequence[Fact]], Steps[list[str]]]
"""Returns for each fact the words by which recall finds it; empty for one that it does not find."""

_MOST_WORDS = 6
_MOST_OF_SAYING = 4


@dataclass(frozen=True, slots=True)
class RecordedFact:
    """A fact that summaries stand for, and where it is now.

    Attributes:
        kind: What it is.
        state: Where it is.
        text: As it was said; not part of the repr.
        position: Of the entry that says it first.
        words: By which recall finds it, where it is left to recall: neither its own nor its whole
            sentence; else empty. Not part of the repr.
    """

    kind: FactKind
    state: FactState
    text: str = field(repr=False)
    position: int
    words: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class SummaryRecord:
    """All facts that the summaries of a thread stand for, each kind and text once.

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

    @property
    def told(self) -> tuple[RecordedFact, ...]:
        """What the text of a summary or a pin tells."""
        return self._pick("told")

    @property
    def listed(self) -> tuple[RecordedFact, ...]:
        """What only a list of details tells."""
        return self._pick("listed")

    @property
    def left(self) -> tuple[RecordedFact, ...]:
        """What recall finds, by the `words` of each."""
        return self._pick("left")

    @property
    def lost(self) -> tuple[RecordedFact, ...]:
        """What is in the log alone."""
        return self._pick("lost")

    def _pick(self, state: FactState) -> tuple[RecordedFact, ...]:
        return tuple(fact for fact in self.facts if fact.state == state)

    def count(self) -> dict[FactKind, dict[FactState, int]]:
        """Return how many facts of each kind are where; kinds without facts are left out."""
        counts = Counter((fact.kind, fact.state) for fact in self.facts)
        return {
            kind: {state: counts[kind, state] for state in STATES}
            for kind in KINDS
            if any(counts[kind, state] for state in STATES)
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON."""
        return {"summaries": self.summaries, "covered": self.covered, "facts": self.count()}

    def __repr__(self) -> str:
        kinds = "; ".join(f"{kind} {_describe(states)}" for kind, states in self.count().items())
        thread = f"thread {self.key.thread_id!r}, {self.covered} entries in {self.summaries}"
        return f"SummaryRecord({thread}{': ' if kinds else ''}{kinds})"

    def _repr_html_(self) -> str:
        rows = [
            (kind, *(str(states[state]) for state in STATES))
            for kind, states in self.count().items()
        ]
        return render_table(["facts", *STATES], rows)


def _describe(states: Mapping[FactState, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items() if count)


def list_shown(live: Sequence[Entry]) -> list[Entry]:
    """Return the summaries that a model reads of live entries, in order."""
    return find_frontier(live)


def record_steps(
    key: ThreadKey, entries: Sequence[Entry], find_words: FindWords
) -> Steps[SummaryRecord]:
    """Return the record of a thread.

    Args:
        key: The thread.
        entries: All its entries by ascending position, control entries included.
        find_words: Asks recall.
    """
    live = find_live_entries(entries)
    shown = list_shown(live)
    covered = _list_covered(live)
    facts = find_kinds(list_said(covered))
    texts, details = _split_pieces(shown)
    texts += [_format_pin(pin) for pin in find_pins(entries)]
    states = _find_states(facts, texts, details)
    open_facts = [fact for fact, state in zip(facts, states, strict=True) if not state]
    words = yield from find_words(key, open_facts)
    found = dict(zip(map(id, open_facts), words, strict=True))
    recorded = [
        _record(fact, state, found.get(id(fact), ""))
        for fact, state in zip(facts, states, strict=True)
    ]
    return SummaryRecord(key, tuple(recorded), len(shown), len(covered))


def _record(fact: Fact, state: FactState | None, words: str) -> RecordedFact:
    final: FactState = state or ("left" if words else "lost")
    return RecordedFact(get_kind(fact), final, fact.text, fact.said.position, words)


def _list_covered(live: Sequence[Entry]) -> list[Entry]:
    shown = {entry.id for entry in find_uncovered(live)}
    said = (entry for entry in live if entry.role not in ("summary", "system"))
    return sorted(
        (entry for entry in said if entry.id not in shown), key=lambda entry: entry.position
    )


def _format_pin(pin: Pin) -> str:
    """Return the words of a pin with who said them."""
    return f"{pin.speaker}: {pin.text}" if pin.speaker else pin.text


def _split_pieces(shown: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """Return the texts of summaries, and their lists of details."""
    pieces = [piece for summary in shown for piece in summary.contents]
    # A line of days says when something was said, and tells no date that somebody named.
    texts = [_drop_days(piece) for piece in pieces if not piece.startswith(TITLE)]
    return texts, [piece for piece in pieces if piece.startswith(TITLE)]


def _drop_days(piece: str) -> str:
    return "\n".join(line for line in piece.split("\n") if not DAYS_LINE.fullmatch(line))


def _find_states(
    facts: Sequence[Fact], texts: Sequence[str], details: Sequence[str]
) -> list[FactState | None]:
    told = _tell_any(facts, texts)
    listed = _tell_any(facts, details)
    return [
        "told" if in_text else "listed" if in_list else None
        for in_text, in_list in zip(told, listed, strict=True)
    ]


def _tell_any(facts: Sequence[Fact], texts: Sequence[str]) -> list[bool]:
    per_text = [tell_facts(facts, text) for text in texts]
    return [any(told) for told in zip(*per_text, strict=True)] if per_text else [False] * len(facts)


# -- By what words recall may find a fact ---------------------------------------------------------
def pick_words(fact: Fact) -> str:
    """Return what to ask recall for a fact: words of its sentence that are not the fact itself.

    Of a promise or preference, which is a whole sentence, at most half of its words, the longest.

    Returns:
        Words with blanks between them; empty if its sentence has no others.
    """
    words = list(dict.fromkeys(_list_words(fact.sentence)))
    if is_saying(fact):
        most = min(len(words) // 2, _MOST_OF_SAYING)
        longest = set(sorted(words, key=len, reverse=True)[:most])
        return " ".join(word for word in words if word in longest)
    value = find_value(fact)
    own = f"{fact.text} {'' if value is None else value.text}".casefold()
    return " ".join([word for word in words if word.casefold() not in own][:_MOST_WORDS])


def _list_words(sentence: str) -> Iterator[str]:
    claim = read_claim(sentence, guess_language(sentence))
    kinds = ("word", "name", "kin")
    return (item.text for item in claim.items if item.kind in kinds and item.text)
