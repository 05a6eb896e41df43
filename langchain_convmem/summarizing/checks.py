"""What a summary leaves out, and the list of it that stands beside the text. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from langchain_convmem.records import Entry
from langchain_convmem.views.lines import DEFAULT_SPEAKERS
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.summaries import SummaryWindow
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.facts import Fact, FactSource, Kind, ToldFacts, find_facts, is_asking

TITLE = "Details, word for word:"
"""The line that a list of details begins with."""


def list_facts(window: SummaryWindow) -> list[Fact]:
    """Return the facts that the summary of a window stands for, each once.

    Those of the summary before it are included.
    """
    previous = "" if window.previous is None else "\n".join(window.previous.contents)
    told = [FactSource(line.removeprefix("- ")) for line in previous.splitlines() if line != TITLE]
    return find_facts([*told, *list_said(entry for turn in window.turns for entry in turn.entries)])


def list_said(entries: Iterable[Entry]) -> list[FactSource]:
    """Return what entries say, in order, each text with its speaker and position."""
    found: list[FactSource] = []
    for entry in entries:
        name = None if entry.message is None else entry.message.name
        speaker = name or DEFAULT_SPEAKERS.get(entry.role, "")
        found += [FactSource(text, speaker, entry.position) for text in entry.contents]
    return found


@dataclass(frozen=True, slots=True)
class Details:
    """The list of details beside a summary.

    Attributes:
        text: The list; empty where nothing is listed.
        left: The facts that neither the summary nor the list tells.
    """

    text: str
    left: tuple[Fact, ...]


def list_details(
    missing: Sequence[Fact],
    reachable: Collection[str],
    max_tokens: int,
    *,
    count: TextCounter = count_text_tokens,
) -> Details:
    """Return the sentences that tell what is missing, as far as they fit, in their order.

    What recall does not find comes first and what is asked last; each kind gets its share, the
    latest first.

    Args:
        missing: What the summary does not tell.
        reachable: The keys of those that recall finds.
        max_tokens: How long the list may be, its title included.
        count: Counts the tokens of a text.
    """
    places = {_write_line(fact): place for place, fact in reversed([*enumerate(missing)])}
    told, chosen = ToldFacts(), list[str]()
    costs = {line: count(f"\n{line}") for line in places}
    room = max_tokens - count(TITLE)
    for fact in _sort_facts(missing, reachable):
        line = _write_line(fact)
        if costs[line] <= room and not told.has_fact(fact):
            room -= costs[line]
            told.add(line)
            chosen.append(line)
    lines = sorted(chosen, key=lambda line: places[line])
    text = "\n".join([TITLE, *lines]) if lines else ""
    return Details(text, tuple(fact for fact in missing if not told.has_fact(fact)))


def _write_line(fact: Fact) -> str:
    return f"- {fact.said.speaker}: {fact.sentence}" if fact.said.speaker else f"- {fact.sentence}"


def _sort_facts(facts: Sequence[Fact], reachable: Collection[str]) -> list[Fact]:
    def rank(fact: Fact) -> int:
        return 2 if is_asking(fact.sentence) else int(fact.key in reachable)

    return sorted(_take_turns(reversed(facts)), key=rank)


def _take_turns(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield facts by turns, one of each kind, so that none crowds out another."""
    queues: defaultdict[Kind, list[Fact]] = defaultdict(list)
    for fact in facts:
        queues[fact.kind].append(fact)
    for round_of_facts in zip_longest(*queues.values()):
        yield from filter(None, round_of_facts)
