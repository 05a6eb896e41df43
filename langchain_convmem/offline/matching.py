"""Finds the sentences that fit a question best, by the words they share.

Each sentence of the context is scored between 0 and a little over 1: the share of the question's
words it covers, weighted by how rare they are in this context, plus what its own line, the speaker,
the date and the line before contribute. Pure and deterministic; ties go to the later sentence.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from langchain_convmem.offline.context import ContextLine, Source
from langchain_convmem.words.languages import ENGLISH, is_function_word, stem
from langchain_convmem.words.speech import find_questions, lower_in_place, split_pieces

MAX_QUOTES = 3

WHOLE_LINE_CHARS = 240
"""Lines up to this size are quoted whole: half a thought misleads more often than it saves."""

_MIN_SCORE = 0.3

_RUNNER_UP = 0.8
"""A further quote must reach this share of the best score."""


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
    asked = _simplify(question)
    scene = _read_lines([line for line in lines if _simplify(line.text) != asked])
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
        if _simplify(line.text) in seen:
            continue
        seen.add(_simplify(line.text))
        best.append(Match(line, _quote_piece(scene, sentence), score))
        if len(best) == MAX_QUOTES:
            break
    return best


def _quote_piece(scene: _Scene, best: _Sentence) -> str:
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


def _simplify(text: str) -> str:
    return " ".join(re.findall(r"\w+", fold(text)))


# -- The question ---------------------------------------------------------------------------------

_PREAMBLE_WEIGHT = 0.4
_REPORTING_WEIGHT = 0.15
_NAME_WEIGHT = 1.1

_MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]

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
class _Query:
    weights: Mapping[str, float]
    bigrams: frozenset[tuple[str, str]]
    expected: tuple[re.Pattern[str], ...]
    voice: str | None


def _read_question(question: str) -> _Query:
    plain = fold(question)
    return _Query(
        weights=_weigh_words(question),
        bigrams=frozenset(pairwise(list_terms(question))),
        expected=tuple(re.compile(sign) for asked, sign in _EXPECTED if asked.search(plain)),
        voice=_find_voice(plain),
    )


def _weigh_words(question: str) -> dict[str, float]:
    names = list_names(question)
    weights: dict[str, float] = {}
    pieces = [question[span.start : span.end] for span in split_sentences(question)]
    asking = [piece for piece in pieces if is_question(piece, requests=True)]
    for piece in pieces:
        share = 1.0 if not asking or piece in asking else _PREAMBLE_WEIGHT
        for term in list_terms(piece):
            own = _REPORTING_WEIGHT if term in _REPORTING_TERMS else 1.0
            weight = share * own * (_NAME_WEIGHT if term in names else 1.0)
            weights[term] = max(weights.get(term, 0.0), weight)
    return weights


def _find_voice(plain: str) -> str | None:
    if _ABOUT_ASSISTANT.search(plain):
        return "Assistant"
    return "You" if _ABOUT_YOU.search(plain) else None


# -- The context, taken apart once per question ---------------------------------------------------

_BACKGROUND = 20
"""Sentences that are thought to stand beside the context: in one line alone no word is frequent."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    number: int
    line: int
    span: Slice
    terms: frozenset[str]
    bigrams: frozenset[tuple[str, str]]
    asks: bool


@dataclass(frozen=True, slots=True)
class _Scene:
    """The context, taken apart once per question."""

    lines: Sequence[ContextLine]
    line_terms: tuple[frozenset[str], ...]
    sentences: tuple[_Sentence, ...]
    rarity: Mapping[str, float]


def _read_lines(lines: Sequence[ContextLine]) -> _Scene:
    sentences: list[_Sentence] = []
    frequency: Counter[str] = Counter()
    for number, line in enumerate(lines):
        for span in split_sentences(line.text):
            text = line.text[span.start : span.end]
            words = list_terms(text)
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
        line_terms=tuple(frozenset(list_terms(line.text)) for line in lines),
        sentences=tuple(sentences),
        rarity={term: _compute_rarity(n, len(sentences)) for term, n in frequency.items()},
    )


def _compute_rarity(count: float, total: int) -> float:
    population = total + _BACKGROUND
    return math.log1p((population - count + 0.5) / (count + 0.5))


def _list_date_terms(date: str | None) -> frozenset[str]:
    if date is None:
        return frozenset()
    year, month, day = date.split("-")
    return frozenset(list_terms(f"{_MONTHS[int(month) - 1]} {year} {day} {int(day)}"))


# -- How well a sentence fits ---------------------------------------------------------------------

_UNSEEN = 0.5
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


class _Scorer:
    """Scores the sentences of one scene for one question."""

    def __init__(self, query: _Query, scene: _Scene) -> None:
        self._query = query
        self._scene = scene
        # A word that stands nowhere in the context is as telling as one that stands there once.
        unseen = _compute_rarity(_UNSEEN, len(scene.sentences))
        self._weights = {
            term: weight * scene.rarity.get(term, unseen) for term, weight in query.weights.items()
        }
        self._total = sum(self._weights.values())

    def _weigh(self, terms: frozenset[str]) -> float:
        return sum(weight for term, weight in self._weights.items() if term in terms)

    def _weigh_question_before(self, number: int) -> float:
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
        before = self._weigh_question_before(sentence.line)
        if self._total == 0 or (own == 0 and before == 0):
            return 0.0
        said_by = self._weigh(frozenset(list_terms(line.speaker)) - sentence.terms)
        dated = self._weigh(_list_date_terms(line.date) - sentence.terms)
        covered = own + _LINE_SHARE * rest + _SPEAKER_SHARE * said_by + _DATE_SHARE * dated + before
        shared = len(self._query.bigrams & sentence.bigrams) / max(len(self._query.bigrams), 1)
        return (covered / self._total + _BIGRAM_BONUS * shared) * self._compute_factor(
            sentence, line
        )

    def _compute_factor(self, sentence: _Sentence, line: ContextLine) -> float:
        factor = _SOURCE_FACTORS[line.source]
        if sentence.asks:
            factor *= _QUESTION_FACTOR
        if self._query.voice is not None and line.speaker == self._query.voice:
            factor *= _VOICE_BONUS
        text = fold(line.text[sentence.span.start : sentence.span.end])
        if any(sign.search(text) for sign in self._query.expected):
            factor *= _KIND_BONUS
        return factor


# -- Sentences, as slices of their text -----------------------------------------------------------

MAX_SENTENCE_CHARS = 300
"""Longer sentences are cut at a blank: nobody wants to hear a page quoted."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a text: characters `start` (included) to `end` (excluded)."""

    start: int
    end: int


def split_sentences(text: str) -> list[Slice]:
    """Return the sentences of `text` in order, blank ones left out.

    Line breaks end a sentence; a sentence over 300 characters is cut at a blank.
    """
    _, *starts = [piece.start for piece in split_pieces(lower_in_place(text))] or [0]
    ends = [*starts, len(text)]
    spans = map(Slice, [0, *starts], ends)
    return [piece for span in spans for piece in _cut(text, span)]


def _cut(text: str, span: Slice) -> Iterator[Slice]:
    """Yield a span without the blanks around it, in pieces where it is too long for one."""
    start = span.end - len(text[span.start : span.end].lstrip())
    end = start + len(text[start : span.end].rstrip())
    while end - start > MAX_SENTENCE_CHARS:
        blank = text.rfind(" ", start + 1, start + MAX_SENTENCE_CHARS)
        stop = blank if blank > start else start + MAX_SENTENCE_CHARS
        yield Slice(start, start + len(text[start:stop].rstrip()))
        start = end - len(text[stop:end].lstrip())
    if start < end:
        yield Slice(start, end)


def is_question(sentence: str, *, requests: bool = False) -> bool:
    """Tell whether `sentence` asks something.

    Args:
        sentence: One sentence.
        requests: Count "tell me ..." and openings such as "what is" without a question mark too;
            right for what a user just asked, too eager for lines of a dialogue.
    """
    plain = sentence.strip()
    if plain.rstrip("\"'\u201d\u2019)]!").endswith(("?", "\uff1f")):
        return True
    return requests and bool(find_questions(sentence))


# -- Comparable words -----------------------------------------------------------------------------

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['\u2019][^\W_{_CJK}]+)*")
_CJK_RUN = re.compile(rf"[{_CJK}]+")
_NAME = re.compile(r"(?<![.!?\n\"] )(?<!^)\b[A-Z][^\W\d_]+")

_IRREGULAR_TEXT = """
    become became, begin began begun, break broke broken, bring brought, build built, buy bought,
    catch caught, child children, choose chose chosen, come came, dig dug, draw drew drawn,
    drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt,
    find found, fly flew flown, foot feet, forget forgot forgotten, give gave given,
    grow grew grown, hang hung, hear heard, hide hid hidden, hold held, keep kept, know knew known,
    learn learnt, leave left, lend lent, lose lost, make made, man men, mean meant, meet met,
    mouse mice, pay paid, person people, ride rode ridden, ring rang rung, rise rose risen,
    run ran, say said, see saw seen, sell sold, send sent, sing sang sung, sit sat, sleep slept,
    speak spoke spoken, spend spent, stand stood, steal stole stolen, swim swam swum,
    take took taken, teach taught, tell told, think thought, throw threw thrown, tooth teeth,
    travel travelled travelling, wake woke woken, wear wore worn, wife wives, win won, woman women,
    write wrote written
"""
_IRREGULAR = {
    form: base for base, *forms in map(str.split, _IRREGULAR_TEXT.split(",")) for form in forms
}
"""Form -> base of words whose stem does not show what they are a form of."""


@lru_cache(maxsize=4_096)
def list_terms(text: str) -> tuple[str, ...]:
    """Return the terms of `text` in order without words that carry no subject of their own."""
    found: list[str] = []
    for token in _TOKEN.findall(fold(text)):
        if _CJK_RUN.fullmatch(token):
            found += [token[at : at + 2] for at in range(len(token) - 1)] or [token]
            continue
        # "sister's" is about the sister, "don't" about nothing that could be matched.
        word = token.split("'", 1)[0]
        if not is_function_word(word, ENGLISH):
            found.append(_stem(word))
    return tuple(found)


def list_names(text: str) -> frozenset[str]:
    """Return the terms of words that are capitalised although they do not open a sentence."""
    return frozenset(term for name in _NAME.findall(text) for term in list_terms(name))


def fold(text: str) -> str:
    """Return `text` in lower case without accents, with straight apostrophes."""
    plain = unicodedata.normalize("NFKD", text.casefold()).replace("\u2019", "'")
    return unicodedata.normalize(
        "NFC", "".join(mark for mark in plain if not unicodedata.combining(mark))
    )


def _stem(word: str) -> str:
    return stem(_IRREGULAR.get(word, word), ENGLISH)


_REPORTING_WORDS = """
    again answer ask know mean mention name recall recommend remember remind say said speak suggest
    talk tell think told discuss call bring exactly earlier previously
"""

_REPORTING_TERMS = frozenset(map(_stem, _REPORTING_WORDS.split()))
"""Speaking about speaking (said, remember), which any line may match."""
