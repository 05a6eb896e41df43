"""Which entries a sentence of a summary comes from, as far as that is known.

A sentence that names ids of entries in square brackets comes from these. If no sentence does, each
comes from all that the summary covers: nothing is guessed from the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_convmem.records import Entry, Role
from langchain_convmem.summarizing.checks import TITLE
from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.lines import format_day
from langchain_convmem.views.live import EntryPlaces, find_live_entries, find_nodes
from langchain_convmem.views.summaries import DAYS_LINE, SummaryWindow, get_cites
from langchain_convmem.words.facts import split_sentences

_NAMED = re.compile(r"\[([^\[\]\s]+)\]")


@dataclass(frozen=True, slots=True)
class SentenceSource:
    """An entry that a sentence of a summary comes from.

    Attributes:
        entry_id: The entry.
        message_id: Its message.
        position: Where it stands in its thread.
        role: Who spoke.
        day: When, such as "2026-05-08" (UTC); empty outside the calendar.
    """

    entry_id: str
    message_id: str
    position: int
    role: Role
    day: str


_MOST_TOLD = 4
"""So many sources of a sentence are told one by one."""


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of a summary, and where it comes from.

    Attributes:
        text: The sentence.
        summary_id: Entry of the summary that says it.
        sources: The entries that it names, by position; where the summary names none, all that it
            covers. Empty where all of them are gone.
    """

    text: str
    summary_id: str
    sources: tuple[SentenceSource, ...]

    def __str__(self) -> str:
        if len(self.sources) > _MOST_TOLD:
            first, last = self.sources[0], self.sources[-1]
            places = f"{first.position} to {last.position}, {first.day} to {last.day}"
            return f"{self.text} [{len(self.sources)} entries at {places}]"
        told = "; ".join(f"{one.role} at {one.position}, {one.day}" for one in self.sources)
        return f"{self.text} [{told or 'its sources are gone'}]"


def cite(pieces: Sequence[str], window: SummaryWindow) -> list[list[int]]:
    """Return the positions that the sentences of a summary name, each ascending.

    Args:
        pieces: The summary as it is stored.
        window: What it was made of.

    Returns:
        One list per sentence, in the order of `list_sentences`; empty where none names an id.
    """
    entries = [entry for turn in window.turns for entry in turn.entries]
    places = {name: entry.position for entry in entries for name in (entry.id, entry.message_id)}
    cites = [
        sorted({places[name] for name in _NAMED.findall(sentence) if name in places})
        for sentence in list_sentences(pieces)
    ]
    return cites if any(cites) else []


def list_sentences(pieces: Iterable[str]) -> list[str]:
    """Return the sentences of a summary, which its citations go by."""
    return [sentence for piece in pieces for sentence in split_sentences(piece)]


def explain_summaries(entries: Sequence[Entry], summaries: Sequence[Entry]) -> list[CitedSentence]:
    """Return the sentences of summaries with what they come from.

    The line of days and the title of a list of details are no sentences.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        summaries: Some of them, in any order.
    """
    spoken = [entry for entry in find_live_entries(entries) if entry.role != "summary"]
    places = EntryPlaces(spoken)
    found: list[CitedSentence] = []
    for summary in summaries:
        covers = [one.cover for one in find_nodes(entries, [summary])]
        numbers = sorted({number for cover in covers for number in places.find_under(cover)})
        sources = {spoken[number].position: _make_source(spoken[number]) for number in numbers}
        whole = tuple(sources.values())
        sentences = list_sentences(summary.contents)
        cites = read_cites(summary, len(sentences)) or [()] * len(sentences)
        for sentence, positions in zip(sentences, cites, strict=True):
            if sentence == TITLE or DAYS_LINE.match(sentence):
                continue  # says nothing itself; its place among the citations stays
            named = tuple(sources[at] for at in positions if at in sources)
            found.append(CitedSentence(sentence, summary.id, named if positions else whole))
    return found


def read_cites(summary: Entry, count: int) -> list[tuple[int, ...]] | None:
    """Return the positions that a summary's sentences name; None where none does.

    Args:
        summary: Its entry.
        count: How many sentences it has.
    """
    cites = get_cites(summary)
    return [tuple(sorted(set(cited))) for cited in cites] if len(cites) == count else None


def _make_source(entry: Entry) -> SentenceSource:
    named = None if entry.message is None else get_line_time_ms(entry.message)
    day = format_day(entry.metadata.timing["creation"] if named is None else named)
    return SentenceSource(entry.id, entry.message_id, entry.position, entry.role, day)
