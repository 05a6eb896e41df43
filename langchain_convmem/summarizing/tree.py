"""Parents of summaries: which neighbours are put under one, and what it tells. Pure.

No model writes a parent. It is made of sentences of the summaries below, as they stand there, as
many as its budget holds. Each kind of fact gets its share, and each summary below gets room by how
much it covers, so what was said long ago does not give way to the latest. So nothing is retold in
other words, and where a sentence comes from stays known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from langchain_convmem.records import Cover, Draft, Entry, Metadata
from langchain_convmem.summarizing.checks import TITLE
from langchain_convmem.summarizing.planning import SummarySettings
from langchain_convmem.views.live import LEVEL, RECORD, find_frontier, find_live_entries, get_level
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.summaries import (
    CHILDREN,
    CITES,
    DAYS,
    DAYS_LINE,
    digest_children,
    format_days,
    get_cites,
    get_days,
    make_summary_draft,
)
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.facts import (
    FactSource,
    Kind,
    is_asking,
    is_personal,
    list_points,
    split_sentences,
)

AUTHOR = "rule"
"""What stands with a parent as its author."""

_MOST_SHOWN = 16
"""So many summaries are shown side by side, however short they are."""

_LEAST_TOKENS = 16

_WEIGHTS: Mapping[Kind, float] = {
    "amount": 1.0,
    "id": 1.0,
    "link": 1.0,
    "promise": 1.0,
    "preference": 1.0,
    "date": 0.8,
    "time": 0.8,
    "name": 0.6,
    "number": 0.5,
}

_FADING: Mapping[Kind, float] = {"promise": 0.25, "preference": 0.5}
"""How much less one more of a kind counts for each that was chosen; in full for others.

A code comes back when somebody asks for it; nobody asks for what they want to be reminded of.
"""

_PERSONAL = 6.0
"""What is told of those who talk counts so often."""
_IMPERSONAL = 0.3
"""And so little what a tool says or somebody asks."""


# -- Which summaries are put under a parent -------------------------------------------------------
def pick_siblings(frontier: Sequence[Entry], settings: SummarySettings) -> Sequence[Entry]:
    """Return the neighbours to put under a parent next; none while all fit their budget.

    Those of the lowest level, so that no branch grows much longer than the others; of these, those
    that take most for what they cover, and as few as are needed: so what was said long ago keeps
    its room. The summary of what was said last stays as it was written.

    Args:
        frontier: The summaries that a model reads, in their order.
        settings: Say how much they may take together.
    """
    sizes = [count_summary_tokens(summary, settings.count_text) for summary in frontier]
    excess = sum(sizes) - settings.shown_tokens
    older = frontier[:-1]
    if len(older) < 2 or (excess <= 0 and len(frontier) <= _MOST_SHOWN):  # noqa: PLR2004 - a pair
        return ()
    spans = [_count_span(summary) for summary in older]
    levels = [max(pair) for pair in pairwise(map(get_level, older))]
    density = [
        sum(pair) / sum(covered)
        for pair, covered in zip(pairwise(sizes[:-1]), pairwise(spans), strict=True)
    ]
    start = min(range(len(levels)), key=lambda number: (levels[number], -density[number]))
    end = start + 2
    most = min(len(older), start + settings.fan_out)
    while end < most and excess > sum(sizes[start:end]) // 2:
        end += 1
    return older[start:end]


def count_summary_tokens(summary: Entry, count: TextCounter) -> int:
    """Return how much of a model's context a summary takes."""
    return count("\n".join(summary.contents))


def find_room(
    children: Sequence[Entry], frontier: Sequence[Entry], settings: SummarySettings
) -> int:
    """Return how long a parent may be.

    As long as lets all summaries fit together, but at least half as long as its children, an eighth
    shorter than they are, and no more than half of what a model reads of summaries.
    """
    count = settings.count_text
    below = sum(count_summary_tokens(child, count) for child in children)
    excess = sum(count_summary_tokens(one, count) for one in frontier) - settings.shown_tokens
    wanted = max(below - max(excess, below // 8), below // 2)
    return max(min(wanted, settings.shown_tokens // 2), _LEAST_TOKENS)


@dataclass(frozen=True, slots=True)
class ParentPlan:
    """A parent to be written.

    Attributes:
        children: What stands under it.
        draft: Its entry.
    """

    children: Sequence[Entry]
    draft: Draft


def plan_parent(entries: Sequence[Entry], settings: SummarySettings) -> ParentPlan | None:
    """Return the parent to write next; None where none is needed, or it would save nothing.

    Args:
        entries: A thread's entries by ascending position; what its next view needs is enough.
        settings: Say how much all summaries may take that a model reads.
    """
    frontier = find_frontier(find_live_entries(entries))
    children = pick_siblings(frontier, settings)
    if not children:
        return None
    room = find_room(children, frontier, settings)
    unsaid = {one.position for one in entries if one.role in ("summary", "control")}
    draft = draft_parent(children, room, settings.count_text, unsaid)
    return None if draft is None else ParentPlan(children, draft)


# -- What a parent tells ---------------------------------------------------------------------------
def draft_parent(
    children: Sequence[Entry],
    max_tokens: int,
    count: TextCounter = count_text_tokens,
    unsaid: Collection[int] = (),
) -> Draft | None:
    """Return the parent of neighbouring summaries; None if it would be no shorter than they are.

    Args:
        children: Two or more, in the order of the frontier.
        max_tokens: How long its text may be.
        count: Counts the tokens of a text.
        unsaid: Positions that no message has.
    """
    told = choose_sentences(list_sentences(children), max_tokens, count)
    text, cites = write_text(told)
    if not text or count(text) >= sum(count_summary_tokens(child, count) for child in children):
        return None
    record: dict[str, Any] = {
        LEVEL: 1 + max(map(get_level, children)),
        CHILDREN: [[child.id, child.position] for child in children],
        **({CITES: cites} if any(cites) else {}),
    }
    days = [day for child in children for day in get_days(child)]
    if days:
        record[DAYS] = [min(days), max(days)]
    names = tuple(child.id for child in children)
    metadata = Metadata(summary_ids=names, aux={RECORD: record})
    return make_summary_draft([text], _join_covers(children, unsaid), metadata)


def _count_span(summary: Entry) -> int:
    """Return how many positions lie between the ends of what a summary covers, both included."""
    ranges = summary.cover.ranges if summary.cover is not None else ()
    return 1 + ranges[-1][1] - ranges[0][0] if ranges else 1


def _join_covers(children: Sequence[Entry], unsaid: Collection[int]) -> Cover:
    """Return what summaries cover together; ranges become one where nothing is said between.

    Else a parent of many would have a range for each, and so would its own parents.
    """
    pairs = sorted(pair for child in children if child.cover for pair in child.cover.ranges)
    ranges: list[tuple[int, int]] = []
    for first, last in pairs:
        if ranges and all(one in unsaid for one in range(ranges[-1][1] + 1, first)):
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], last))
        else:
            ranges.append((first, last))
    return Cover(tuple(ranges), digest_children([child.id for child in children]), AUTHOR)


@dataclass(frozen=True, slots=True)
class ToldSentence:
    """A sentence of a summary.

    Attributes:
        text: As it stands there.
        label: The speaker that its line begins with; empty if the sentence begins with it.
        days: The line that says of which days it tells; empty if that is not known.
        child: Number of the summary among those read.
        cites: Positions of the entries that it comes from, as far as known.
        span: How many positions the summary covers; it gets room accordingly.
    """

    text: str
    label: str
    days: str
    child: int
    cites: tuple[int, ...] = ()
    span: int = 1

    @property
    def line(self) -> str:
        """The sentence as a line of a parent."""
        return self.label + self.text


_LABEL = re.compile(r"(?:- )?((?:[^\W\d_][^:\n]{0,30}): )")


def list_sentences(children: Sequence[Entry]) -> list[ToldSentence]:
    """Return what summaries tell, sentence by sentence, in their order, repeats left out."""
    found: dict[str, ToldSentence] = {}
    for number, child in enumerate(children):
        for sentence in _read_sentences(child, number):
            found.setdefault(sentence.line.casefold(), sentence)
    return list(found.values())


def _read_sentences(child: Entry, number: int) -> Iterator[ToldSentence]:
    own = get_days(child)
    days = format_days(own) if own else ""
    cites = iter(get_cites(child))
    span = _count_span(child)
    for piece in child.contents:
        place = 0
        for sentence in split_sentences(piece):
            cited = tuple(next(cites, ()))
            place = piece.find(sentence, place)
            start = piece.rfind("\n", 0, place) + 1
            place += len(sentence)
            if DAYS_LINE.match(sentence):
                days = sentence
            elif sentence != TITLE:
                label = _LABEL.match(piece, start)
                is_first = not piece[start : place - len(sentence)].strip()
                name = "" if label is None or is_first else label[1]
                yield ToldSentence(sentence.removeprefix("- "), name, days, number, cited, span)


def write_text(told: Sequence[ToldSentence]) -> tuple[str, list[list[int]]]:
    """Return the text of a parent, and for each sentence of it the positions it comes from."""
    lines: list[str] = []
    cites: list[list[int]] = []
    days = ""
    for sentence in told:
        if sentence.days != days:
            days = sentence.days
            lines.append(days)
            cites.append([])
        lines.append(sentence.line)
        # With a label in front, a long sentence is read as two.
        cites += [list(sentence.cites)] * len(split_sentences(sentence.line))
    return "\n".join(lines), cites


# -- Choosing --------------------------------------------------------------------------------------
def choose_sentences(
    told: Sequence[ToldSentence], max_tokens: int, count: TextCounter = count_text_tokens
) -> list[ToldSentence]:
    """Return the sentences to keep, in their order: those that tell most for their length.

    What is told of those who talk counts more, results of tools and questions less. A kind of fact
    counts less the more of it was chosen, and so does a summary. What is left of
    the budget goes to sentences without facts, summary by summary.

    Args:
        told: What may be chosen.
        max_tokens: How long the text of the chosen may be; if no sentence is so short, the
            shortest one is chosen.
        count: Counts the tokens of a text.
    """
    if not told:
        return []
    choice = _Choice(told, max_tokens, count)
    while choice.take_best():
        pass
    if not choice.chosen:
        return [min(told, key=lambda sentence: count(sentence.line))]
    return [told[number] for number in sorted(choice.chosen)]


class _Choice:
    """Sentences under choice. Not thread-safe."""

    def __init__(self, told: Sequence[ToldSentence], max_tokens: int, count: TextCounter) -> None:
        self.chosen: set[int] = set()
        self._count = count
        self._told = told
        self._room = max_tokens
        spans = {sentence.child: sentence.span for sentence in told}
        self._room_of = {
            child: max(max_tokens * span / sum(spans.values()), 1) for child, span in spans.items()
        }
        self._worth = _weigh(told)
        self._shares = [_find_share(sentence.line) for sentence in told]
        self._lengths = [count(f"{sentence.line}\n") for sentence in told]
        self._begun: set[tuple[int, str]] = set()
        self._known: set[str] = set()
        self._kinds: Counter[Kind] = Counter()
        self._used: Counter[int] = Counter()

    def take_best(self) -> bool:
        """Choose the best sentence that fits; say whether there was one."""
        best, highest = -1, (-1.0, 0.0)
        for number in range(len(self._told)):
            if number not in self.chosen and self._count_cost(number) <= self._room:
                value = self._find_value(number)
                if value > highest:
                    best, highest = number, value
        if best < 0:
            return False
        cost = self._count_cost(best)
        self._room -= cost
        self._used[self._told[best].child] += cost
        self._begun.add(self._find_group(best))
        self.chosen.add(best)
        for key, kind in self._worth[best].items():
            self._kinds[kind] += key not in self._known
            self._known.add(key)
        return True

    def _find_group(self, number: int) -> tuple[int, str]:
        """Return which summary's days a sentence stands under."""
        return self._told[number].child, self._told[number].days

    def _count_cost(self, number: int) -> int:
        """Return how many tokens longer the text is with a sentence."""
        days = self._told[number].days
        is_begun = not days or self._find_group(number) in self._begun
        return self._lengths[number] + (0 if is_begun else self._count(f"{days}\n"))

    def _find_value(self, number: int) -> tuple[float, float]:
        """Return what a sentence is worth by its facts, and without any by its summary's share."""
        sentence = self._told[number]
        spent = 1 + self._used[sentence.child] / self._room_of[sentence.child]
        new = (kind for key, kind in self._worth[number].items() if key not in self._known)
        worth = sum(
            _WEIGHTS[kind] / (1 + _FADING.get(kind, 1.0) * self._kinds[kind]) for kind in new
        )
        return self._shares[number] * worth / self._lengths[number] / spent, 1 / spent


def _find_share(line: str) -> float:
    """Return how much what a line tells counts, by whom it is about."""
    if is_personal(line):
        return _PERSONAL
    return _IMPERSONAL if is_asking(line) or line.startswith("Tool:") else 1.0


def _weigh(told: Sequence[ToldSentence]) -> Sequence[Mapping[str, Kind]]:
    """Return for each sentence the kind of each of its facts by the fact's key."""
    found: list[dict[str, Kind]] = [{} for _ in told]
    for fact in list_points([FactSource(one.text, position=n) for n, one in enumerate(told)]):
        found[fact.said.position][fact.key] = fact.kind
    return found
