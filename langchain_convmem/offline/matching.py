"""Finds the sentences that fit a question best, by the words they share.

Each sentence of the context is scored between 0 and a little over 1: the share of the question's
words it covers, weighted by how rare they are in this context, plus what its own line, the speaker,
the date and the line before contribute. Pure and deterministic; ties go to the later sentence.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from langchain_convmem.offline.context import ContextLine, Source
from langchain_convmem.offline.sentences import Span, is_question, split_sentences
from langchain_convmem.offline.words import content_terms, fold, is_reporting_word, name_terms

__all__ = ["Match", "find_matches"]

MAX_QUOTES = 3
WHOLE_LINE_CHARS = 240
"""Lines up to this size are quoted whole: half a thought misleads more often than it saves."""

_MIN_SCORE = 0.3
_RUNNER_UP = 0.8
"""A further quote must reach this share of the best score."""

_BACKGROUND = 20
"""Sentences that are thought to stand beside the context: in one line alone no word is frequent."""
_UNSEEN = 0.5

_REPORTING_WEIGHT = 0.15
_PREAMBLE_WEIGHT = 0.4
_NAME_WEIGHT = 1.1
_LINE_SHARE = 0.45
_SPEAKER_SHARE = 0.6
_DATE_SHARE = 0.5
_ANSWER_SHARE = 0.7
"""Share of the line before if that line asked something: what follows is likely its answer."""

_BIGRAM_BONUS = 0.15
_KIND_BONUS = 1.2
_VOICE_BONUS = 1.15
_QUESTION_FACTOR = 0.55
_SOURCE_FACTORS: Mapping[Source, float] = {
    "dialogue": 1.0,
    "summary": 0.85,
    "tool": 0.9,
    "system": 0.6,
}

_MONTHS_TEXT = (
    "january february march april may june july august september october november december"
)
_MONTHS = _MONTHS_TEXT.split()
_NUMBER_WORDS = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|hundred|"
    r"half|dozen|once|twice|couple"
)
_TIME_WORDS = (
    r"yesterday|today|tonight|tomorrow|ago|last|next|week|weekend|month|year|morning|evening|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|spring|summer|autumn|winter|o'clock|"
    + "|".join(_MONTHS)
)
_EXPECTED = (
    (re.compile(r"\bwhen\b|\bwhat (?:time|day|date|month|year)\b"), rf"\d|\b(?:{_TIME_WORDS})\b"),
    (
        re.compile(r"\bhow (?:many|much|old|long|far|often|big|tall)\b"),
        rf"\d|\b(?:{_NUMBER_WORDS})\b",
    ),
    (re.compile(r"\bwhere\b"), r"\b(?:in|at|on|near|to|from|behind|under|next to|opposite)\b"),
    (re.compile(r"\bwhy\b"), r"\b(?:because|since|so that|due to|to help|reason|for)\b"),
)
_ABOUT_YOU = re.compile(r"\b(?:i|my|mine|me)\b")
_ABOUT_ASSISTANT = re.compile(
    r"\b(?:did|have|had|do|could|would) you\b|\byou (?:said|told|recommend|suggest|advise|mention)|"
    r"\byour (?:advice|suggestion|recommendation|tip|answer)"
)


@dataclass(frozen=True, slots=True)
class Match:
    """A verbatim piece of a line, with how well it fits (larger is closer)."""

    line: ContextLine
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class _Sentence:
    number: int
    line: int
    span: Span
    terms: frozenset[str]
    bigrams: frozenset[tuple[str, str]]
    asks: bool


@dataclass(frozen=True, slots=True)
class _Query:
    weights: Mapping[str, float]
    bigrams: frozenset[tuple[str, str]]
    expected: tuple[re.Pattern[str], ...]
    voice: str | None


@dataclass(frozen=True, slots=True)
class _Scene:
    """The context, taken apart once per question."""

    lines: Sequence[ContextLine]
    line_terms: tuple[frozenset[str], ...]
    sentences: tuple[_Sentence, ...]
    rarity: Mapping[str, float]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", fold(text)))


def _query_weights(question: str) -> dict[str, float]:
    names = name_terms(question)
    weights: dict[str, float] = {}
    pieces = [question[span.start : span.end] for span in split_sentences(question)]
    asking = [piece for piece in pieces if is_question(piece, requests=True)]
    for piece in pieces:
        share = 1.0 if not asking or piece in asking else _PREAMBLE_WEIGHT
        for term in content_terms(piece):
            own = _REPORTING_WEIGHT if is_reporting_word(term) else 1.0
            weight = share * own * (_NAME_WEIGHT if term in names else 1.0)
            weights[term] = max(weights.get(term, 0.0), weight)
    return weights


def _asked_voice(plain: str) -> str | None:
    if _ABOUT_ASSISTANT.search(plain):
        return "Assistant"
    return "You" if _ABOUT_YOU.search(plain) else None


def _read_question(question: str) -> _Query:
    plain = fold(question)
    return _Query(
        weights=_query_weights(question),
        bigrams=frozenset(pairwise(content_terms(question))),
        expected=tuple(re.compile(sign) for asked, sign in _EXPECTED if asked.search(plain)),
        voice=_asked_voice(plain),
    )


def _read_lines(lines: Sequence[ContextLine]) -> _Scene:
    sentences: list[_Sentence] = []
    frequency: Counter[str] = Counter()
    for number, line in enumerate(lines):
        for span in split_sentences(line.text):
            text = line.text[span.start : span.end]
            words = content_terms(text)
            frequency.update(set(words))
            sentences.append(
                _Sentence(
                    number=len(sentences),
                    line=number,
                    span=span,
                    terms=frozenset(words),
                    bigrams=frozenset(pairwise(words)),
                    asks=is_question(text),
                )
            )
    return _Scene(
        lines=lines,
        line_terms=tuple(frozenset(content_terms(line.text)) for line in lines),
        sentences=tuple(sentences),
        rarity={term: _weight_of(n, len(sentences)) for term, n in frequency.items()},
    )


def _weight_of(count: float, total: int) -> float:
    population = total + _BACKGROUND
    return math.log1p((population - count + 0.5) / (count + 0.5))


def _date_terms(date: str | None) -> frozenset[str]:
    if date is None:
        return frozenset()
    year, month, day = date.split("-")
    return frozenset(content_terms(f"{_MONTHS[int(month) - 1]} {year} {day} {int(day)}"))


class _Scorer:
    """Scores the sentences of one scene for one question."""

    def __init__(self, query: _Query, scene: _Scene) -> None:
        self._query = query
        self._scene = scene
        # A word that stands nowhere in the context is as telling as one that stands there once.
        unseen = _weight_of(_UNSEEN, len(scene.sentences))
        self._weights = {
            term: weight * scene.rarity.get(term, unseen) for term, weight in query.weights.items()
        }
        self._total = sum(self._weights.values())

    def _weigh(self, terms: frozenset[str]) -> float:
        return sum(weight for term, weight in self._weights.items() if term in terms)

    def _previous(self, number: int) -> float:
        """Return the weight of the line before if it asked what this line may answer."""
        if number == 0:
            return 0.0
        line, before = self._scene.lines[number], self._scene.lines[number - 1]
        if line.group != before.group or line.speaker == before.speaker:
            return 0.0
        if not is_question(before.text):
            return 0.0
        return _ANSWER_SHARE * self._weigh(self._scene.line_terms[number - 1])

    def score(self, sentence: _Sentence) -> float:
        """Return how well the sentence fits; 0.0 when it shares nothing of substance."""
        line = self._scene.lines[sentence.line]
        own = self._weigh(sentence.terms)
        rest = self._weigh(self._scene.line_terms[sentence.line] - sentence.terms)
        before = self._previous(sentence.line)
        if self._total == 0 or (own == 0 and before == 0):
            return 0.0
        said_by = self._weigh(frozenset(content_terms(line.speaker)) - sentence.terms)
        dated = self._weigh(_date_terms(line.date) - sentence.terms)
        covered = own + _LINE_SHARE * rest + _SPEAKER_SHARE * said_by + _DATE_SHARE * dated + before
        shared = len(self._query.bigrams & sentence.bigrams) / max(len(self._query.bigrams), 1)
        return (covered / self._total + _BIGRAM_BONUS * shared) * self._factor(sentence, line)

    def _factor(self, sentence: _Sentence, line: ContextLine) -> float:
        factor = _SOURCE_FACTORS[line.source]
        if sentence.asks:
            factor *= _QUESTION_FACTOR
        if self._query.voice is not None and line.speaker == self._query.voice:
            factor *= _VOICE_BONUS
        text = fold(line.text[sentence.span.start : sentence.span.end])
        if any(sign.search(text) for sign in self._query.expected):
            factor *= _KIND_BONUS
        return factor


def _piece(scene: _Scene, best: _Sentence) -> str:
    """Return the sentence with as much of what follows it as a quote may hold."""
    text = scene.lines[best.line].text
    if len(text) <= WHOLE_LINE_CHARS:
        return text
    end = best.span.end
    for later in scene.sentences[best.number + 1 :]:
        if later.line != best.line or later.span.end - best.span.start > WHOLE_LINE_CHARS:
            break
        end = later.span.end
    return text[best.span.start : end]


def find_matches(question: str, lines: Sequence[ContextLine]) -> list[Match]:
    """Return up to three pieces of `lines` that fit `question`, best first, one per line.

    Lines that repeat the question are passed over. The list is empty when nothing fits.
    """
    asked = _plain(question)
    scene = _read_lines([line for line in lines if _plain(line.text) != asked])
    scorer = _Scorer(_read_question(question), scene)
    ranked = sorted(
        ((scorer.score(sentence), sentence) for sentence in scene.sentences),
        key=lambda pair: (-pair[0], -pair[1].number),
    )
    best: list[Match] = []
    seen: set[str] = set()
    for score, sentence in ranked:
        if score < _MIN_SCORE or (best and score < _RUNNER_UP * best[0].score):
            break
        line = scene.lines[sentence.line]
        if _plain(line.text) in seen:
            continue
        seen.add(_plain(line.text))
        best.append(Match(line, _piece(scene, sentence), score))
        if len(best) == MAX_QUOTES:
            break
    return best
