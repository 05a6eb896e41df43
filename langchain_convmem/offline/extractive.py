"""A summariser without a model: it quotes the sentences that tell most, and invents nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.facts import (
    FactSource,
    Kind,
    is_asking,
    is_personal,
    list_points,
    split_sentences,
)

if TYPE_CHECKING:
    from langchain_convmem.summarizing.summarizers import SummaryRequest

_LINE = re.compile(r"(?P<speaker>[^\n:]{1,60}): (?P<text>.*)", re.DOTALL)
_DAY = re.compile(r"\(\d{4}-\d\d-\d\d\)")
_WEIGHTS: Mapping[Kind, float] = {
    "promise": 3.0,
    "preference": 2.0,
    "id": 2.0,
    "link": 2.0,
    "name": 1.0,
}
_USUAL_WEIGHT = 1.5
"""Of amounts, numbers, dates and times."""

_PERSONAL_WEIGHT = 0.01
"""Of what else is told of those who talk: it comes last, until half of the room is taken."""

_QUESTION_WEIGHT = 0.5
"""What a question tells is worth less: its answer tells it again, or nobody does."""


class ExtractiveSummarizer:
    """Summarises by quoting the sentences with the most names, numbers, dates, ids and promises.

    Where these take less than half of the room, what else is told of those who talk goes in. Needs
    no model, key or network; deterministic; thread-safe. It shortens, but it does not understand:
    what a conversation means, a model tells better.
    """

    name = "extractive"
    """What stands with its summaries."""

    def summarize(self, request: SummaryRequest) -> str:
        """Return the sentences that tell most of what was said before and now, as they fit."""
        found = _list_candidates(request)
        room, chosen, known = request.max_tokens, set[int](), set[str]()
        while (number := _find_best(found, chosen, known, room)) is not None:
            # What is worth no more than its own words comes last.
            if found[number].text in found[number].worth and room <= request.max_tokens // 2:
                break
            chosen.add(number)
            known.update(found[number].worth)
            room -= found[number].tokens
        # Where nothing tells anything, the beginning says what it was about.
        return _join_lines([found[number] for number in sorted(chosen)] or found[:1])

    async def asummarize(self, request: SummaryRequest) -> str:
        """Return what `summarize` does; it takes milliseconds."""
        return self.summarize(request)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence with its place and its facts.

    Attributes:
        speaker: Who said it; empty in the previous summary.
        text: Verbatim.
        tokens: How long it is in a summary.
        worth: Weight of each fact by its key.
    """

    speaker: str
    text: str
    tokens: int
    worth: dict[str, float]


def _find_best(
    found: Sequence[_Candidate], chosen: set[int], known: set[str], room: int
) -> int | None:
    """Return the sentence that tells most new for its length; None if none fits and tells."""
    best, highest = None, 0.0
    for number, sentence in enumerate(found):
        if number in chosen or sentence.tokens > room:
            continue
        worth = sum(value for key, value in sentence.worth.items() if key not in known)
        if worth / sentence.tokens > highest:
            best, highest = number, worth / sentence.tokens
    return best


def _list_candidates(request: SummaryRequest) -> list[_Candidate]:
    said = enumerate(_read_said(f"{request.previous}\n{request.transcript}"))
    pieces = [FactSource(text, speaker, place) for place, (speaker, text) in said]
    worth: list[dict[str, float]] = [{} for _ in pieces]
    for point in list_points(pieces):
        share = _QUESTION_WEIGHT if is_asking(point.sentence) else 1.0
        worth[point.said.position][point.key] = share * _WEIGHTS.get(point.kind, _USUAL_WEIGHT)
    for one, told in zip(pieces, worth, strict=True):
        if not told and is_personal(f"{one.speaker}: {one.text}"):
            told[one.text] = _PERSONAL_WEIGHT
    return [
        _Candidate(one.speaker, one.text, count_text_tokens(f"{one.speaker}: {one.text}\n"), told)
        for one, told in zip(pieces, worth, strict=True)
    ]


def _read_said(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a transcript or a summary, each after who says it."""
    speaker = ""
    for line in text.splitlines():
        plain = line.strip().removeprefix("- ")
        # What is indented goes on with what was said before it, whatever it looks like.
        match = None if line.startswith(" ") else _LINE.fullmatch(plain)
        if match is not None:
            speaker, plain = match["speaker"], match["text"]
        if not _DAY.fullmatch(plain):
            yield from ((speaker, sentence) for sentence in split_sentences(plain))


def _join_lines(chosen: Iterable[_Candidate]) -> str:
    """Return sentences as lines, those that follow each other from one speaker in one."""
    parts = groupby(chosen, key=lambda sentence: sentence.speaker)
    lines = ((speaker, " ".join(one.text for one in said)) for speaker, said in parts)
    return "\n".join(f"{speaker}: {text}".removeprefix(": ") for speaker, text in lines)
