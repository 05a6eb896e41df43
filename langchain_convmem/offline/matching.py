"""Finds the sentences that fit a question best, by the words they share.

Each sentence of the context is scored between 0 and a little over 1: the share of the question's
words it covers, weighted by how rare they are in this context, plus what its own line, the speaker,
the date and the line before contribute. Pure and deterministic; ties go to the later sentence.
"""

from __future__ import annotations

import functools
import math
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import snowballstemmer

from langchain_convmem.offline.context import ContextLine, Source

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


# -- Cuts a text into sentences by position, so that every piece is a verbatim slice of it --------


MAX_SENTENCE_CHARS = 300


"""Longer sentences are cut at a blank: nobody wants to hear a page quoted."""


_BREAK = re.compile(
    r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+(?=[^\sa-z])|(?<=[\u3002\uff01\uff1f])|\s*\n\s*"
)


_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:[A-Z]|Dr|Mr|Mrs|Ms|St|No|vs|etc|e\.g|i\.e|a\.m|p\.m)\.$")


_QUESTION_OPENER = re.compile(
    r"(?:(?:and|but|so|ok|okay|well|hey|hi|please|sorry)[\s,]+)*"
    r"(?:who|whom|whose|what|when|where|which|why|how|is|are|am|was|were|do|does|did|can|could|"
    r"will|would|should|shall|has|have|had|may|might)(?:'s|'re|s)?\b",
    re.IGNORECASE,
)


_REQUEST_OPENER = re.compile(
    r"(?:(?:and|but|so|ok|okay|well|hey|hi|please|sorry)[\s,]+)*"
    r"(?:tell me|remind me|show me|give me|find|look up|quote|repeat|list|name|explain|describe|"
    r"summari[sz]e|do you remember|i forgot|i forget|i wonder)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """A slice of a text: characters `start` (included) to `end` (excluded)."""

    start: int
    end: int


def _trimmed(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    if not piece.strip():
        return None
    left = len(piece) - len(piece.lstrip())
    right = len(piece) - len(piece.rstrip())
    return Span(start + left, end - right)


def _cut(text: str, span: Span) -> list[Span]:
    pieces: list[Span] = []
    start = span.start
    while span.end - start > MAX_SENTENCE_CHARS:
        blank = text.rfind(" ", start + 1, start + MAX_SENTENCE_CHARS)
        end = blank if blank > start else start + MAX_SENTENCE_CHARS
        piece = _trimmed(text, start, end)
        if piece is not None:
            pieces.append(piece)
        start = end
    rest = _trimmed(text, start, span.end)
    return [*pieces, rest] if rest is not None else pieces


def split_sentences(text: str) -> list[Span]:
    """Return the sentences of `text` in order, blank ones left out.

    Line breaks end a sentence; a sentence over 300 characters is cut at a blank.
    """
    spans: list[Span] = []
    start = 0
    for found in _BREAK.finditer(text):
        if "\n" not in found.group() and _ABBREVIATION.search(text[start : found.start()]):
            continue
        spans.append(Span(start, found.end()))
        start = found.end()
    spans.append(Span(start, len(text)))
    trimmed = (_trimmed(text, span.start, span.end) for span in spans)
    return [piece for span in trimmed if span is not None for piece in _cut(text, span)]


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
    return requests and bool(_QUESTION_OPENER.match(plain) or _REQUEST_OPENER.match(plain))


# -- Text to comparable words ---------------------------------------------------------------------


_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"


_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['\u2019][^\W_{_CJK}]+)*")


_CJK_RUN = re.compile(rf"[{_CJK}]+")


_NAME = re.compile(r"(?<![.!?\n\"] )(?<!^)\b[A-Z][^\W\d_]+")


_STOP_WORDS_TEXT = """
    a about above after again all also am an and any anything are as at be because been before being
    below between both but by can could d did do does doing done down during each either else ever
    few for from further get gets getting go goes going had has have having he her here hers herself
    hi him himself his how i if in into is it its itself just kind let like ll m many may me might
    more most much must my myself no nor not now of off oh ok okay on once one only or other our
    ours ourselves out over own please re really s same shall she should so some somebody someone
    something sort still such t than thank thanks that the their theirs them themselves then there
    these they thing things this those through to too under until up us ve very was we well were
    what when where which while who whom whose why will with would yeah yes yet you your yours
    yourself yourselves
"""


_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


_REPORTING_WORDS_TEXT = """
    again answer ask know mean mention name recall recommend remember remind say said speak suggest
    talk tell think told discuss call bring exactly earlier previously
"""


_IRREGULAR = {
    form: base
    for base, forms in {
        "become": "became",
        "begin": "began begun",
        "break": "broke broken",
        "bring": "brought",
        "build": "built",
        "buy": "bought",
        "catch": "caught",
        "child": "children",
        "choose": "chose chosen",
        "come": "came",
        "dig": "dug",
        "draw": "drew drawn",
        "drink": "drank drunk",
        "drive": "drove driven",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "feed": "fed",
        "feel": "felt",
        "find": "found",
        "fly": "flew flown",
        "foot": "feet",
        "forget": "forgot forgotten",
        "give": "gave given",
        "grow": "grew grown",
        "hang": "hung",
        "hear": "heard",
        "hide": "hid hidden",
        "hold": "held",
        "keep": "kept",
        "know": "knew known",
        "learn": "learnt",
        "leave": "left",
        "lend": "lent",
        "lose": "lost",
        "make": "made",
        "man": "men",
        "mean": "meant",
        "meet": "met",
        "mouse": "mice",
        "pay": "paid",
        "person": "people",
        "ride": "rode ridden",
        "ring": "rang rung",
        "rise": "rose risen",
        "run": "ran",
        "say": "said",
        "see": "saw seen",
        "sell": "sold",
        "send": "sent",
        "sing": "sang sung",
        "sit": "sat",
        "sleep": "slept",
        "speak": "spoke spoken",
        "spend": "spent",
        "stand": "stood",
        "steal": "stole stolen",
        "swim": "swam swum",
        "take": "took taken",
        "teach": "taught",
        "tell": "told",
        "think": "thought",
        "throw": "threw thrown",
        "tooth": "teeth",
        "travel": "travelled travelling",
        "wake": "woke woken",
        "wear": "wore worn",
        "wife": "wives",
        "win": "won",
        "woman": "women",
        "write": "wrote written",
    }.items()
    for form in forms.split()
}


_STEMMER = snowballstemmer.stemmer("english")


_STEMMER_LOCK = threading.Lock()


def fold(text: str) -> str:
    """Return `text` in lower case without accents, with straight apostrophes."""
    plain = unicodedata.normalize("NFKD", text.casefold()).replace("\u2019", "'")
    return unicodedata.normalize(
        "NFC", "".join(mark for mark in plain if not unicodedata.combining(mark))
    )


@functools.lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    base = _IRREGULAR.get(word, word)
    if not base.isascii():
        return base
    # The stemmer keeps the word it works on in itself, so two threads would mix theirs.
    with _STEMMER_LOCK:
        return str(_STEMMER.stemWord(base))


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]


@functools.lru_cache(maxsize=4_096)
def _analyse(text: str) -> tuple[tuple[str, str], ...]:
    """Return (word, term) pairs in order of appearance."""
    found: list[tuple[str, str]] = []
    for token in _TOKEN.findall(fold(text)):
        if _CJK_RUN.fullmatch(token):
            found += [(pair, pair) for pair in _pairs(token)]
            continue
        # "sister's" is about the sister, "don't" about nothing that could be matched.
        word = token.split("'", 1)[0]
        found.append((word, _stem(word)))
    return tuple(found)


def content_terms(text: str) -> list[str]:
    """Return the terms of `text` in order without words that carry no subject of their own."""
    return [term for word, term in _analyse(text) if word not in _STOP_WORDS]


def name_terms(text: str) -> frozenset[str]:
    """Return the terms of words that are capitalised although they do not open a sentence."""
    return frozenset(term for name in _NAME.findall(text) for term in content_terms(name))


_REPORTING_TERMS = frozenset(_stem(word) for word in _REPORTING_WORDS_TEXT.split())


def is_reporting_word(term: str) -> bool:
    """Tell whether `term` speaks about speaking (said, remember), which any line may match."""
    return term in _REPORTING_TERMS
