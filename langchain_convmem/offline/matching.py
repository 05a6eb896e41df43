"""Finds the lines that fit a question best, by BM25 over the words they share.

A score is about the share of the question's words that a piece holds, weighted by how rare they are
among what was given. Pure and deterministic; ties go to the later piece.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_convmem.offline.context import ContextLine, Source
from langchain_convmem.words.analysis import analyze, extract_query_terms, select_telling_words
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.facts import split_sentences

MAX_QUOTES = 3

WHOLE_LINE_CHARS = 240
"""Lines up to this size are quoted whole: half a thought misleads more often than it saves."""

_BACKGROUND = 20
"""Pieces that are thought to stand beside the others: among a few alone no word is rare."""

_MIN_SCORE = 0.3

_RUNNER_UP = 0.8
"""A further quote must reach this share of the best score."""

_ANSWER_SHARE = 0.7
"""Share of the line before if that line asked something: what follows is likely its answer."""

_QUESTION_FACTOR = 0.55

_SOURCE_FACTORS: Mapping[Source, float] = {"summary": 0.75, "system": 0.6}

_REPORTING = re.compile(
    r"ask(?:ed)?|discuss|mention(?:ed)?|recall|recommend|remember|remind|sa(?:id|y)|suggest|talk"
    r"|tell|told"
)
"""Speaking about speaking, which any line may match."""


@dataclass(frozen=True, slots=True)
class Match:
    """A verbatim piece of a line, with how well it fits (larger is closer)."""

    line: ContextLine
    text: str
    score: float


def find_matches(question: str, lines: Sequence[ContextLine]) -> list[Match]:
    """Return up to three pieces of `lines` that fit `question`, best first, one per line.

    Lines that repeat the question are passed over. The list is empty when nothing fits.
    """
    # What is told beside a question says little about it.
    asking = " ".join(filter(is_question, split_sentences(question))) or question
    pieces = [
        (line, text)
        for line in lines
        if _simplify(line.text) != _simplify(question)
        for text in _cut_line(line.text)
    ]
    scores = _score(asking, pieces)
    ranked = sorted(range(len(pieces)), key=lambda number: (-scores[number], -number))
    best: list[Match] = []
    seen: set[str] = set()
    for number in ranked:
        (line, text), score = pieces[number], scores[number]
        if score < _MIN_SCORE or (best and score < _RUNNER_UP * best[0].score):
            break
        if _simplify(line.text) not in seen and len(best) < MAX_QUOTES:
            seen.add(_simplify(line.text))
            best.append(Match(line, text, score))
    return best


def is_question(text: str) -> bool:
    """Return whether a text asks something."""
    return "?" in text or "\uff1f" in text


def _simplify(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _cut_line(text: str) -> list[str]:
    """Return a line whole, or the sentences of a long one."""
    return [text] if len(text) <= WHOLE_LINE_CHARS else split_sentences(text)


def _score(question: str, pieces: Sequence[tuple[ContextLine, str]]) -> list[float]:
    """Return how well each piece fits; 0 where it shares nothing of substance."""
    index = LexicalIndex()
    index.add(analyze(f"{line.speaker}: {text}") for line, text in pieces)
    index.add([()] * _BACKGROUND)
    words = extract_query_terms(question, index)
    terms = [term for term, word in words.items() if not _REPORTING.fullmatch(word.casefold())]
    if not (pieces and terms and select_telling_words(question)):
        return [0.0] * len(pieces)
    rarities = index.compute_rarities(terms)
    # A word in other languages has several terms: the rarest that anybody said counts.
    weights: dict[str, float] = {}
    for term in terms:
        weights[words[term]] = max(weights.get(words[term], 0.0), rarities.get(term, 0.0))
    # A word that stands nowhere is as telling as one that stands there once.
    total = sum(weight or index.rarest for weight in weights.values())
    plain = [float(score) / total for score in index.compute_scores(index.find(terms), b=0.0)]
    return [
        (plain[number] + _weigh_question_before(pieces, plain, number))
        * _SOURCE_FACTORS.get(line.source, 1.0)
        * (_QUESTION_FACTOR if is_question(text) else 1.0)
        for number, (line, text) in enumerate(pieces)
    ]


def _weigh_question_before(
    pieces: Sequence[tuple[ContextLine, str]], plain: Sequence[float], number: int
) -> float:
    """Return what a piece is worth as the likely answer to the one before it."""
    if number == 0:
        return 0.0
    (before, asked), (line, _) = pieces[number - 1], pieces[number]
    is_answer = line.group == before.group and line.speaker != before.speaker
    return _ANSWER_SHARE * plain[number - 1] if is_answer and is_question(asked) else 0.0
