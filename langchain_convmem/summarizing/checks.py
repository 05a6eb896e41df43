"""Whether a summary tells what it must, and what is done about the rest. Pure.

What neither the text nor its list of details tells has to be found by recall; whoever checks that
says so. Nothing is dropped without a record of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from langchain_convmem.records import Entry
from langchain_convmem.views.facts import Fact, FactSource, find_facts, find_untold
from langchain_convmem.views.lines import DEFAULT_SPEAKERS
from langchain_convmem.views.messages import count_text_tokens
from langchain_convmem.views.summaries import SummaryWindow

TITLE = "Details, word for word:"
"""The line that a list of details begins with."""

_KINDS = ("promise", "id", "date", "number", "name")
_ENOUGH_FACTS = 5
_MOST_WANTED = 40


def list_facts(window: SummaryWindow) -> list[Fact]:
    """Return what the summary of a window must tell, that of the summary before it included."""
    previous = "" if window.previous is None else "\n".join(window.previous.contents)
    told = [FactSource(line.removeprefix("- ")) for line in previous.splitlines() if line != TITLE]
    said = (piece for turn in window.turns for entry in turn.entries for piece in _list_said(entry))
    return find_facts([*told, *said])


def _list_said(entry: Entry) -> list[FactSource]:
    name = None if entry.message is None else entry.message.name
    speaker = name or DEFAULT_SPEAKERS.get(entry.role, "")
    return [FactSource(text, speaker, entry.position) for text in entry.contents]


def is_empty_talk(facts: Sequence[Fact], missing: Sequence[Fact]) -> bool:
    """Return whether a summary tells nothing at all of a conversation full of facts."""
    return len(facts) >= _ENOUGH_FACTS and len(missing) == len(facts)


def pick_missing(missing: Sequence[Fact]) -> tuple[str, ...]:
    """Return what a summariser is told that it left out: the most telling, in their sentences."""
    sentences = dict.fromkeys(_as_said(fact) for fact in _sort_by_kind(missing))
    return tuple(sentences)[:_MOST_WANTED]


def _sort_by_kind(facts: Iterable[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda fact: _KINDS.index(fact.kind))


def _as_said(fact: Fact) -> str:
    return f"{fact.said.speaker}: {fact.sentence}" if fact.said.speaker else fact.sentence


@dataclass(frozen=True, slots=True)
class Details:
    """The list of details after a summary.

    Attributes:
        text: The list; empty where nothing is listed.
        left: The facts that neither the summary nor the list tells.
    """

    text: str
    left: tuple[Fact, ...]


def list_details(missing: Sequence[Fact], reachable: Collection[str], max_tokens: int) -> Details:
    """Return the sentences that tell what is missing, as far as they fit, latest first to go in.

    Args:
        missing: What the summary does not tell.
        reachable: The keys of those that recall finds; the others come first.
        max_tokens: How long the list may be, its title included.
    """
    room = max_tokens - count_text_tokens(TITLE)
    lines: dict[int, str] = {}
    left = list(missing)
    untold_ids = {id(fact) for fact in left}
    places = {id(fact): place for place, fact in enumerate(missing)}
    for fact in sorted(_sort_by_kind(reversed(missing)), key=lambda fact: fact.key in reachable):
        line = f"- {_as_said(fact)}"
        cost = count_text_tokens(f"\n{line}")
        if id(fact) in untold_ids and cost <= room:
            room -= cost
            lines[places[id(fact)]] = line
            left = find_untold(left, line)
            untold_ids = {id(fact) for fact in left}
    in_order = [line for _, line in sorted(lines.items())]
    return Details("\n".join([TITLE, *in_order]) if lines else "", tuple(left))
