"""Which entries a sentence of a summary comes from, as far as that is known.

A sentence that names ids of entries in square brackets comes from these. If no sentence does, each
comes from all that the summary covers: nothing is guessed from the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from langchain_convmem.records import CitedSentence, Entry, SentenceSource
from langchain_convmem.summarizing.checks import TITLE
from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.lines import format_day
from langchain_convmem.views.live import EntryPlaces, find_live_entries, find_nodes
from langchain_convmem.views.summaries import DAYS_LINE, SummaryWindow, get_cites
from langchain_convmem.words.facts import split_sentences

_NAMED = re.compile(r"\[([^\[\]\s]+)\]")


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
