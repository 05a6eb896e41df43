"""A summariser without a model: it quotes the sentences that tell most, and invents nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from langchain_convmem.records import SummaryRequest
from langchain_convmem.views.facts import FactSource, KnownFacts, find_facts, split_sentences
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.views.wishes import is_preference

_LINE = re.compile(r"(?P<speaker>[^\n:]{1,60}): (?P<text>.*)", re.DOTALL)
_DAY = re.compile(r"\(\d{4}-\d\d-\d\d\)")
_WEIGHTS = {"promise": 3.0, "id": 2.0, "date": 1.5, "number": 1.5, "name": 1.0}
_PREFERENCE_WEIGHT = 2.0

_QUESTION_WEIGHT = 0.5
"""What a question tells is worth less: its answer tells it again, or nobody does."""

_FEWEST_WORDS = 12
_LEAST_SHARE = 20
"""So many words sum up anything, or one for so many of what was said, if that is little."""

_WANTED_WEIGHT = 2.0
"""What an earlier attempt left out is worth more."""


class ExtractiveSummarizer:
    """Summarises by quoting: the sentences with most names, numbers, dates, ids and promises.

    Needs no model, key or network; deterministic; thread-safe. It shortens, but it does not
    understand: what a conversation means, a model tells better.
    """

    name = "extractive"
    """What stands with its summaries."""

    def summarize(self, request: SummaryRequest) -> str:
        """Return the sentences that tell most of what was said before and now, as they fit."""
        found = _list_candidates(request)
        room, chosen, known = request.max_tokens, set[int](), set[str]()
        while True:
            number = _find_best(found, chosen, known, room)
            if number is None:
                break
            chosen.add(number)
            known.update(found[number].worth)
            room -= found[number].tokens
        chosen |= set(_list_first(found, chosen, room))
        return _join_lines(found[number] for number in sorted(chosen))

    async def asummarize(self, request: SummaryRequest) -> str:
        """Return what `summarize` does; it takes milliseconds."""
        return self.summarize(request)

    def __repr__(self) -> str:
        return "ExtractiveSummarizer()"


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


def _list_first(found: Sequence[_Candidate], chosen: set[int], room: int) -> Iterator[int]:
    """Yield sentences from the beginning, which say what it was about where little was told.

    Args:
        found: All sentences.
        chosen: Those that tell something.
        room: Tokens that these leave; the very first sentence needs none if nothing was told.
    """
    lengths = [len(sentence.text.split()) for sentence in found]
    fewest = min(_FEWEST_WORDS, sum(lengths) // _LEAST_SHARE)
    words = sum(lengths[number] for number in chosen)
    is_empty = not chosen
    for number, sentence in enumerate(found):
        if words >= fewest and not is_empty:
            return
        if number not in chosen and (sentence.tokens <= room or is_empty):
            yield number
            words += lengths[number]
            room -= sentence.tokens
            is_empty = False


def _list_candidates(request: SummaryRequest) -> list[_Candidate]:
    said = [
        *_read_said(request.previous.splitlines()),
        *_read_said(request.transcript.splitlines()),
    ]
    pieces = [FactSource(text, one.speaker) for one in said for text in split_sentences(one.text)]
    facts = KnownFacts(find_facts(pieces))
    return [_weigh_sentence(one, facts, request.missing) for one in pieces]


def _read_said(lines: Iterable[str]) -> Iterator[FactSource]:
    """Yield what the lines of a transcript or a summary say, and who says it."""
    speaker = ""
    for line in lines:
        plain = line.strip().removeprefix("- ")
        # What is indented goes on with what was said before it, whatever it looks like.
        match = None if line.startswith(" ") else _LINE.fullmatch(plain)
        if not plain or _DAY.fullmatch(plain):
            continue
        if match is not None:
            speaker, plain = match["speaker"], match["text"]
        yield FactSource(plain, speaker)


def _weigh_sentence(said: FactSource, facts: KnownFacts, missing: Sequence[str]) -> _Candidate:
    weight = _WANTED_WEIGHT if any(text.endswith(said.text) for text in missing) else 1.0
    tokens = count_text_tokens(f"{said.speaker}: {said.text}\n")
    worth = {key: weight * value for key, value in _weigh_facts(said.text, facts).items()}
    return _Candidate(said.speaker, said.text, tokens, worth)


def _weigh_facts(text: str, facts: KnownFacts) -> dict[str, float]:
    share = _QUESTION_WEIGHT if text.rstrip().endswith(("?", "\uff1f")) else 1.0
    told = facts.find_in(text)
    worth = {f"{fact.kind}:{fact.key}": share * _WEIGHTS[fact.kind] for fact in told}
    if share == 1.0 and is_preference(text):
        worth[f"preference:{text.casefold()}"] = _PREFERENCE_WEIGHT
    return worth


def _join_lines(chosen: Iterable[_Candidate]) -> str:
    """Return sentences as lines, those that follow each other from one speaker in one."""
    lines: list[str] = []
    last: str | None = None
    for sentence in chosen:
        if sentence.speaker == last and lines:
            lines[-1] += f" {sentence.text}"
        else:
            lines.append(
                f"{sentence.speaker}: {sentence.text}" if sentence.speaker else sentence.text
            )
        last = sentence.speaker
    return "\n".join(lines)
