"""Whether a summary tells what it must, and what is done about the rest. Pure.

What neither the text nor its list of details tells has to be found by recall; whoever checks that
says so. Nothing is dropped without a record of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from langchain_convmem.records import Entry
from langchain_convmem.summarizing.kinds import KINDS, FactKind, find_kinds, get_kind
from langchain_convmem.summarizing.telling import find_untold_facts
from langchain_convmem.views.facts import Fact, FactSource
from langchain_convmem.views.lines import DEFAULT_SPEAKERS
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.summaries import SummaryWindow
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.views.wishes import is_asking, is_personal

TITLE = "Details, word for word:"
"""The line that a list of details begins with."""

_ENOUGH_FACTS = 5
_MOST_WANTED = 40


def list_facts(window: SummaryWindow) -> list[Fact]:
    """Return what the summary of a window must tell, that of the summary before it included."""
    return find_kinds(list_sources(window))


def list_sources(window: SummaryWindow) -> list[FactSource]:
    """Return what the summary of a window stands for: the summary before it, and what was said."""
    previous = "" if window.previous is None else "\n".join(window.previous.contents)
    told = [FactSource(line.removeprefix("- ")) for line in previous.splitlines() if line != TITLE]
    said = (piece for turn in window.turns for piece in list_said(turn.entries))
    return [*told, *said]


def list_said(entries: Iterable[Entry]) -> list[FactSource]:
    """Return what entries say, in order, each text with its speaker and position."""
    found: list[FactSource] = []
    for entry in entries:
        name = None if entry.message is None else entry.message.name
        speaker = name or DEFAULT_SPEAKERS.get(entry.role, "")
        found += [FactSource(text, speaker, entry.position) for text in entry.contents]
    return found


def is_empty_talk(facts: Sequence[Fact], missing: Sequence[Fact]) -> bool:
    """Return whether a summary tells nothing at all of a conversation full of facts."""
    return len(facts) >= _ENOUGH_FACTS and len(missing) == len(facts)


def pick_missing(missing: Sequence[Fact]) -> tuple[str, ...]:
    """Return what a summariser is told that it left out: some of each kind, in their sentences."""
    sentences = dict.fromkeys(describe_fact(fact) for fact in _balance(missing))
    return tuple(sentences)[:_MOST_WANTED]


def describe_fact(fact: Fact) -> str:
    """Return the sentence that tells a fact, with who said it."""
    return f"{fact.said.speaker}: {fact.sentence}" if fact.said.speaker else fact.sentence


def _balance(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield facts by turns, one of each kind, so that none crowds out another."""
    queues: defaultdict[FactKind, list[Fact]] = defaultdict(list)
    for fact in facts:
        queues[get_kind(fact)].append(fact)
    for place in range(max(map(len, queues.values()), default=0)):
        for kind in KINDS:
            yield from queues[kind][place : place + 1]


@dataclass(frozen=True, slots=True)
class Details:
    """The list of details after a summary.

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
    first: Sequence[Fact] = (),
    count: TextCounter = count_text_tokens,
) -> Details:
    """Return the sentences that tell what is missing, as far as they fit.

    Each kind gets its share, the latest first. What is told of those who talk comes before the
    rest, of the rest what recall does not find comes first, and what is asked comes last.

    Args:
        missing: What the summary does not tell.
        reachable: The keys of those that recall finds.
        max_tokens: How long the list may be, its title included.
        first: What comes before all others: sentences that a summary told otherwise.
        count: Counts the tokens of a text.
    """
    listed = _DetailList(max_tokens, [*first, *missing], count)
    for fact in [*first, *_sort_missing(missing, reachable)]:
        listed.add(fact)
    return Details(listed.text, tuple(find_untold_facts(missing, listed.text)))


def _sort_missing(missing: Sequence[Fact], reachable: Collection[str]) -> list[Fact]:
    def rank(fact: Fact) -> int:
        if is_personal(fact.sentence, fact.said.speaker):
            return 0
        return 3 if is_asking(fact.sentence) else 1 + (fact.key in reachable)

    return sorted(_balance(reversed(missing)), key=rank)


class _DetailList:
    """A list of details under way. Not thread-safe."""

    def __init__(self, max_tokens: int, facts: Sequence[Fact], count: TextCounter) -> None:
        self._count = count
        self._room = max_tokens - count(TITLE)
        self._places = {id(fact): place for place, fact in enumerate(facts)}
        self._untold = {id(fact): fact for fact in facts}
        self._lines: dict[str, int] = {}

    @property
    def text(self) -> str:
        """The list; empty if nothing was added."""
        in_order = sorted(self._lines, key=lambda line: self._lines[line])
        return "\n".join([TITLE, *in_order]) if in_order else ""

    def add(self, fact: Fact) -> None:
        """Add the line of a fact, unless another line tells it or it is too long."""
        line = f"- {describe_fact(fact)}"
        cost = self._count(f"\n{line}")
        if id(fact) not in self._untold or cost > self._room:
            return
        self._room -= cost
        self._lines[line] = self._places[id(fact)]
        self._untold.pop(id(fact))
        left = find_untold_facts([*self._untold.values()], line)
        self._untold = {id(other): other for other in left}
