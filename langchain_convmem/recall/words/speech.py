"""What kind of utterance a text is: who a question is about, and what a line does. Pure.

A text is cut into sentences and these into clauses; how a clause begins tells a question, a request
and a statement apart, in the languages that `phrases` has. Of any other language nothing is
recognised: no mark, nobody meant, every sentence kept.
"""

# ruff: noqa: RUF001, E501 - letters of the languages themselves
from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Literal, NamedTuple, TypeAlias

from langchain_convmem.recall.words.courtesies import is_courtesy
from langchain_convmem.recall.words.languages import function_words, language_of
from langchain_convmem.recall.words.phrases import MARKERS, PHRASES, Phrases

__all__ = ["Mark", "Meant", "is_courtesy", "marks", "read_question", "statements"]

Mark: TypeAlias = Literal["states", "asks", "ignorant", "courtesy"]


class Meant(NamedTuple):
    """Who a question is about when a user asks an assistant, and what kind of message it is."""

    asker: bool = False
    """The user is meant: "Which pets do I have?", but not "Tell me about pets"."""
    listener: bool = False
    """What the assistant said earlier is meant: "What did you recommend?"."""
    advice: bool = False
    """It asks how to do something or what one should do."""
    request: bool = False
    """It is an imperative or a "can you" rather than a question."""
    is_follow_up: bool = False
    """It is too short to be understood alone: "and hers?"."""
    subject_open: bool = False
    """Nobody is named, in a language that usually leaves out the subject."""


# -- questions -----------------------------------------------------------------------------------

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"]*\"|\u201c[^\u201d]*\u201d|\u201e[^\u201c\u201d]*[\u201c\u201d]"
    r"|\u00ab[^\u00bb]*\u00bb|\u300c[^\u300d]*\u300d|(?<!\w)'[^'\n]+(?:'\w[^'\n]*)*'(?!\w)",
    re.DOTALL,
)
_COUNTRY = re.compile(r"\bUS\b")
_LONGEST_FOLLOW_UP = 6


@lru_cache(maxsize=256)
def read_question(text: str) -> Meant:
    """Return who a question is about, and what kind of message it is.

    Args:
        text: What a user asks; quoted passages in it are about nobody.
    """
    asked = _lower(_COUNTRY.sub("U.S.", _QUOTED.sub(" \u2026 ", text)))
    words = _words(asked)
    forms = _forms(_language(asked, words))
    if forms is None:
        return Meant()
    remaining = forms.unmeant.sub(" ", asked)
    means_asker = bool(forms.first_person.search(remaining) or forms.favour.search(asked))
    means_listener = bool(forms.listener.search(asked))
    return Meant(
        asker=means_asker,
        listener=means_listener,
        advice=bool(forms.advice.search(asked)),
        request=any(_requests(asked[piece.start : piece.end], forms) for piece in _pieces(asked)),
        is_follow_up=_follows_up(asked, words, forms, means_asker=means_asker),
        subject_open=forms.drops_subject and not means_asker and not means_listener,
    )


def _requests(sentence: str, forms: _Forms) -> bool:
    return any(kind == "request" for kind, _ in _kinds(sentence, forms))


def _follows_up(asked: str, words: list[str], forms: _Forms, *, means_asker: bool) -> bool:
    message = asked.strip(" \t\r\n?!.,;:…？！。¿¡")
    if not message:
        return "?" in asked or "\uff1f" in asked
    if forms.follow_up.fullmatch(message):
        return True
    known = function_words(forms.language) if forms.language in _WITH_FUNCTION_WORDS else ()
    return (
        "\u2026" not in asked
        and 0 < len(words) <= _LONGEST_FOLLOW_UP
        and not means_asker
        and all(word in known for word in words)
    )


_WITH_FUNCTION_WORDS = frozenset(PHRASES) - {"chinese", "japanese", "korean"}

# -- lines ---------------------------------------------------------------------------------------

_LONGEST_IGNORANCE = 300
_LONGEST_WITH_OFFERS = 600


def marks(text: str) -> frozenset[Mark]:
    """Return what a stored line or segment of one does.

    "states": it holds a sentence in the first person, or an instruction for the future.
    "asks": it holds questions and requests, and nothing is stated.
    "ignorant": a short reply that knows nothing, or refuses.
    "courtesy": a greeting, thanks, assent or goodbye, and nothing else.

    Args:
        text: The line, whoever said it.
    """
    if is_courtesy(text):
        return _COURTESY
    lowered = _lower(text)
    words = _words(lowered)
    forms = _forms(_language(lowered, words))
    if forms is None:
        return _NONE
    if _is_ignorant(lowered, forms):
        return _IGNORANT
    asks = False
    stated = False
    for start, end, _ in _pieces(lowered):
        verdict = _verdict(lowered[start:end], forms)
        if verdict == "own":
            return _STATES
        asks = asks or verdict == "asks"
        stated = stated or verdict == "states"
    return _ASKS if asks and not stated else _NONE


_NONE: frozenset[Mark] = frozenset()
_STATES: frozenset[Mark] = frozenset({"states"})
_ASKS: frozenset[Mark] = frozenset({"asks"})
_IGNORANT: frozenset[Mark] = frozenset({"ignorant"})
_COURTESY: frozenset[Mark] = frozenset({"courtesy"})


def statements(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of a text stand that state something, in order.

    A sentence that holds both a statement and a question is kept; so is pasted text.

    Args:
        text: A message. In a language that is not recognised, all its sentences are returned.
    """
    if is_courtesy(text):
        return []
    lowered = _lower(text)
    forms = _forms(_language(lowered, _words(lowered)))
    if forms is None:
        return [(piece.start, piece.end) for piece in _pieces(lowered)]
    return [
        (start, end)
        for start, end, is_pasted in _pieces(lowered)
        if is_pasted or _states(lowered[start:end], forms)
    ]


def _states(sentence: str, forms: _Forms) -> bool:
    return _verdict(sentence, forms) not in ("asks", "courtesy") and not is_courtesy(sentence)


def _is_ignorant(lowered: str, forms: _Forms) -> bool:
    """Return whether a reply begins with what is not known, and adds nothing of substance."""
    if not _knows_nothing(lowered[:_LONGEST_IGNORANCE], forms):
        return False
    if len(lowered) > _LONGEST_WITH_OFFERS:
        return False
    first, *rest = _pieces(lowered)
    return not _YET.search(lowered, first.start, first.end) and all(
        _adds_nothing(lowered[piece.start : piece.end], forms) for piece in rest
    )


# "I don't know the date, but your appointment is in May."
_YET = re.compile(
    r"\b(?:but|however|though|aber|jedoch|mais|pero|ma|mas|maar|но)\b(?! (?:i|i'd|i'm|i'll|if|you can|you could"
    r"|you're welcome|feel|let|please|happy|ich|wenn|du kannst|sie können|je|si|puedo|puedes|posso|se"
    r"|puoi|ik|als|je kunt|я|если)\b)|\u4f46|\u3067\u3059\u304c|\u0644\u0643\u0646"
)


def _knows_nothing(sentence: str, forms: _Forms) -> bool:
    begin = forms.opening.match(sentence)
    return forms.ignorant.match(sentence, begin.end() if begin else 0) is not None


def _adds_nothing(sentence: str, forms: _Forms) -> bool:
    if _knows_nothing(sentence, forms) or forms.offer.search(sentence):
        return True
    return _verdict(sentence, forms) in ("asks", "mixed", "courtesy")


# -- sentences -----------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def _words(lowered: str) -> list[str]:
    return (_ASCII_WORD if lowered.isascii() else _WORD).findall(lowered)


# A line that begins like a letter, after the request to work on it, opens the letter itself.
_PASTED = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*|\"[^\"]{60,}\"|\u201c[^\u201d]{60,}\u201d|\u201e[^\u201c\u201d]{60,}[\u201c\u201d]"
    r"|\u00ab[^\u00bb]{60,}\u00bb|\u300c[^\u300d]{30,}\u300d|^'(?:[^']|(?<=\w)'(?=\w))+'"
    r"|(?<=\n)(?:dear|sehr geehrte\w*|lieber?|ch[eè]re?s?|madame|monsieur|estimad[oa]s?|querid[oa]s?"
    r"|gentil[ei]|car[oa]|egregi[oa]|prezad[oa]s?|beste|geachte|уважаем\w+)\b[^\n]{1,60},[ \t]*\n.*",
    re.DOTALL | re.MULTILINE,
)
_PASTE_SIGNS = re.compile('[`>"\u201c\u201e\u00ab\u300c\n]')
_BOUNDARY = re.compile(
    "[.!?\u2026\u3002\uff01\uff1f\u061f\n]+[\"'\u201d\u2019\u00bb)\\]*_\u300d\u300f]*"
)
_ENDS_UNSPACED = frozenset("\n\u3002\uff01\uff1f\u061f")

# What stands before a period that ends no sentence: a title, an initial, a number, "e.g.".
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:mr|mrs|ms|dr|prof|st|vs|no|nr|approx|etc|bzw|ca|usw|mme|mlle|m|sr|sra|srta|sig|"
    r"dott|ing|avv|ул|д|г|\d{1,2}|[^\W\d_](?:\.[^\W\d_])*)\.$"
)


class _Piece(NamedTuple):
    """A sentence or a pasted passage, by where it stands."""

    start: int
    end: int
    is_pasted: bool


def _pieces(lowered: str) -> Iterator[_Piece]:
    """Yield the sentences of a text and what is pasted into it, in order, without blanks."""
    start = 0
    if _PASTE_SIGNS.search(lowered):
        for pasted in _PASTED.finditer(lowered):
            yield from _sentences(lowered, start, pasted.start())
            yield from _trimmed(lowered, pasted.start(), pasted.end(), is_pasted=True)
            start = pasted.end()
    yield from _sentences(lowered, start, len(lowered))


def _sentences(lowered: str, start: int, end: int) -> Iterator[_Piece]:
    for boundary in _BOUNDARY.finditer(lowered, start, end):
        stop = boundary.end()
        marks_end = boundary[0]
        if not (lowered[stop : stop + 1].isspace() or _ENDS_UNSPACED.intersection(marks_end)):
            continue
        if marks_end == "." and _ABBREVIATED.search(lowered, max(start, stop - 12), stop):
            continue
        yield from _trimmed(lowered, start, stop)
        start = stop
    yield from _trimmed(lowered, start, end)


def _trimmed(lowered: str, start: int, end: int, *, is_pasted: bool = False) -> Iterator[_Piece]:
    sentence = lowered[start:end]
    bare = sentence.lstrip()
    if _HAS_WORD.search(bare):
        start = end - len(bare)
        yield _Piece(start, start + len(bare.rstrip()), is_pasted)


_HAS_WORD = re.compile(r"\w")


# -- clauses -------------------------------------------------------------------------------------

_Kind: TypeAlias = Literal[
    "standing", "request", "question", "condition", "own", "says", "fragment"
]
_Clauses: TypeAlias = list[tuple[_Kind, str]]
_Verdict: TypeAlias = Literal["own", "states", "fragment", "mixed", "asks", "courtesy"]

_CLAUSE_END = re.compile("[,;:\uff0c\uff1b\uff1a\u3001\u060c\u061b\u2014\u2013-]")
# These hold things together too, unless a blank follows: "10,000", "17:00"; or two: "e-mail".
_NEEDS_BLANK = frozenset(",;:-")
_ENDS_ASKING = re.compile(r"[?\uff1f\u061f][\s!?.\"'\u201d\u2019\u00bb)\u300d]*\Z")
# What looks like a question and belongs to a noun: "Elsie, who will be ten".
_RELATIVE = re.compile(
    r"(?:who|whom|whose|which|where|qui|dont|que|quien|donde|che|cui|quem|onde|wie|waar|котор\w+)\b"
)
_WHENEVER = re.compile(
    r"(?:when|whenever|every time|each time|any ?time|once|wenn|sobald|quand|lorsque|cuando|quando"
    r"|als|wanneer|когда|عندما|لما)\b"
)
_HYPOTHETICAL = re.compile(
    r"(?:if|when|whenever|while|unless|until|whether|once|wenn|falls|ob|sobald|si|s'il|quand|lorsque"
    r"|cuando|se|quando|als|wanneer|если|когда|чтобы|إذا|لو|عندما)\b"
)
_SUBJECT = re.compile(
    r"(?:\b(?:i|i'm|i've|i'll|we|we're|we've|ich|wir|je|nous|yo|nosotros|io|noi|eu|nós|ik|wij|я|мы|أنا"
    r"|bevo|vado|vorrei|voglio|quiero|tengo|voy|vou|tenho|quero)\b|\bj')"
)
_SHORTEST_OWN_QUESTION = 8
_SHORTEST_RUN_ON = 12
_LONGEST_COURTESY = 25


def _verdict(sentence: str, forms: _Forms) -> _Verdict:
    """Return what a sentence does: "own" states in the first person, "mixed" asks after a name."""
    is_question = _ENDS_ASKING.search(sentence) is not None
    clauses = list(_kinds(sentence, forms))
    found: set[str] = set()
    for number in range(len(clauses)):
        found |= _weigh(clauses, number, forms, found, is_question=is_question)
        if "own" in found:
            return "own"
    if "states" in found:
        return "states"
    if "asks" in found:
        return "mixed" if "name" in found else "asks"
    if "hypothesis" in found:
        return "own"
    return "fragment" if clauses else "courtesy"


def _weigh(
    clauses: _Clauses, number: int, forms: _Forms, found: set[str], *, is_question: bool
) -> set[str]:
    """Return what a clause adds to what was found in those before it."""
    kind, clause = clauses[number]
    asked = "asks" in found
    is_asked = is_question and number == len(clauses) - 1
    if kind == "own" and _is_own(clause, forms, is_asked=is_asked, asked=asked):
        return {"own"}
    if kind in ("question", "request", "standing"):
        return _weigh_asking(clauses, number, forms, found, is_question=is_question)
    if is_asked:
        return {"asks"}
    if kind == "condition" and not asked:
        return _weigh_condition(clause)
    if kind == "says" and (not asked or forms.says_early.match(clause)):
        return {"states"}
    return {"name" if " " in clause else "word"} if kind == "fragment" and not asked else set()


def _weigh_condition(clause: str) -> set[str]:
    is_hypothesis = _HYPOTHETICAL.match(clause) is not None
    if _SUBJECT.search(clause):
        return {"hypothesis"} if is_hypothesis else {"own"}
    return set() if is_hypothesis else {"word"}


def _weigh_asking(
    clauses: _Clauses, number: int, forms: _Forms, found: set[str], *, is_question: bool
) -> set[str]:
    kind, clause = clauses[number]
    weight = {"asks"}
    if not is_question:
        if kind == "standing" or (kind == "request" and _in_future(clauses, number)):
            return {"own"}
        if kind == "question" and found & {"name", "word"} and _RELATIVE.match(clause):
            weight.add("states")
    run_on = _run_on(clause, forms)
    return weight if run_on is None else weight | {run_on}


def _is_own(clause: str, forms: _Forms, *, is_asked: bool, asked: bool) -> bool:
    if is_asked:
        long = clause.count(" ") + 1 >= _SHORTEST_OWN_QUESTION
        return long and forms.own_clause.match(clause) is not None
    return not asked or forms.own_clause.match(clause) is not None


def _in_future(clauses: _Clauses, number: int) -> bool:
    """Return whether a request holds for whenever something happens, as told just before."""
    kind, before = clauses[number - 1] if number else ("", "")
    return kind == "condition" and _WHENEVER.match(before) is not None


def _run_on(clause: str, forms: _Forms) -> Literal["own", "states"] | None:
    """Return what a question or request goes on to state without any punctuation, as dictated."""
    if clause.count(" ") + 1 < _SHORTEST_RUN_ON:
        return None
    found = forms.run_on.search(clause)
    if found is None:
        return None
    return "own" if forms.first_person.search(clause, found.start()) else "states"


def _kinds(sentence: str, forms: _Forms) -> Iterator[tuple[_Kind, str]]:
    """Yield the clauses of a sentence that say anything, each with what its beginning tells."""
    start = 0
    for end in _CLAUSE_END.finditer(sentence):
        if end[0] in _NEEDS_BLANK and not _is_set_off(sentence, end.start(), end[0]):
            continue
        yield from _kind(sentence[start : end.start()], forms)
        start = end.end()
    yield from _kind(sentence[start:] if start else sentence, forms)


def _is_set_off(sentence: str, at: int, sign: str) -> bool:
    follows = sentence[at + 1 : at + 2].isspace()
    return follows and (sign != "-" or sentence[at - 1 : at].isspace())


def _kind(clause: str, forms: _Forms) -> Iterator[tuple[_Kind, str]]:
    begin = forms.opening.match(clause)
    clause = clause[begin.end() if begin else 0 :].rstrip(forms.endings)
    if not _HAS_WORD.search(clause) or (len(clause) < _LONGEST_COURTESY and is_courtesy(clause)):
        return
    for kind, pattern in forms.heads:
        if pattern.match(clause):
            yield kind, clause
            return
    if forms.first_person.search(clause):
        yield "own", clause
    else:
        yield ("says" if forms.finite.search(clause) else "fragment"), clause


# -- languages -----------------------------------------------------------------------------------


class _Forms(NamedTuple):
    """The phrases of one language, compiled."""

    language: str
    opening: re.Pattern[str]
    heads: tuple[tuple[_Kind, re.Pattern[str]], ...]
    own_clause: re.Pattern[str]
    first_person: re.Pattern[str]
    finite: re.Pattern[str]
    says_early: re.Pattern[str]
    run_on: re.Pattern[str]
    ignorant: re.Pattern[str]
    offer: re.Pattern[str]
    listener: re.Pattern[str]
    advice: re.Pattern[str]
    unmeant: re.Pattern[str]
    favour: re.Pattern[str]
    follow_up: re.Pattern[str]
    drops_subject: bool
    endings: str
    """What may stand at the end of a clause and tells nothing more about it."""


_ENDINGS = " \t\r\n.!\u2026\u3002\uff01\"'\u201d\u300d)"


def _alternatives(lines: str) -> str:
    return "(?:" + "|".join(line for line in lines.splitlines() if line) + ")"


@cache
def _forms(language: str) -> _Forms | None:
    phrases = PHRASES.get(language)
    return None if phrases is None else _compiled(language, phrases)


def _compiled(language: str, phrases: Phrases) -> _Forms:
    def compiled(lines: str) -> re.Pattern[str]:
        return re.compile(_alternatives(lines))

    finite = _alternatives(phrases.finite)
    return _Forms(
        language=language,
        opening=re.compile(rf"(?:\W*{_alternatives(phrases.opening)}(?![\w']))*\W*"),
        heads=(
            ("standing", compiled(phrases.standing)),
            ("request", compiled(phrases.request)),
            ("question", compiled(phrases.question)),
            ("condition", compiled(phrases.condition)),
            ("own", compiled(phrases.own_clause)),
        ),
        own_clause=compiled(phrases.own_clause),
        first_person=compiled(phrases.first_person),
        finite=compiled(phrases.finite),
        says_early=re.compile(rf"(?:[^\s]+ ){{0,4}}?{finite}"),
        run_on=compiled(phrases.run_on),
        ignorant=compiled(phrases.ignorant),
        offer=compiled(phrases.offer),
        listener=compiled(phrases.listener),
        advice=compiled(phrases.advice),
        unmeant=compiled(phrases.unmeant),
        favour=compiled(phrases.favour),
        follow_up=compiled(phrases.follow_up),
        drops_subject=phrases.drops_subject,
        endings=_ENDINGS + "?\uff1f" if phrases.drops_subject else _ENDINGS,
    )


_KANA = re.compile("[\u3041-\u30ff\uff66-\uff9f]")
_HANGUL = re.compile("[\uac00-\ud7af\u1100-\u11ff]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_ARABIC = re.compile("[\u0600-\u06ff]")
_LATIN_LETTER = re.compile("[a-z\u00df-\u024f]")
_UNKNOWN_LETTER = re.compile("[\u0370-\u03ff\u0590-\u05ff\u0900-\u109f\u1780-\u17ff]")
# One character of a script without blanks says about as much as so many letters.
_LETTERS_PER_CHARACTER = 3
_FEW_WORDS = 8


def _language(lowered: str, words: list[str]) -> str:
    """Return the language of a text by its script, or by its function words if that is Latin."""
    if not lowered.isascii():
        language = _language_of_script(lowered)
        if language is not None:
            return language
    language = language_of(words)
    if len(words) <= _FEW_WORDS:
        # So few words tell little: "la" and "a" are words of several languages.
        markers = _markers()
        return next((markers[word] for word in words if word in markers), language)
    return language


def _language_of_script(lowered: str) -> str | None:
    """Return the language of the script that most of a text is in; None if that is Latin."""
    latin = len(_LATIN_LETTER.findall(lowered))
    kana, han = len(_KANA.findall(lowered)), len(_HAN.findall(lowered))
    counts = {
        "japanese" if kana else "chinese": (kana + han) * _LETTERS_PER_CHARACTER,
        "korean": len(_HANGUL.findall(lowered)) * _LETTERS_PER_CHARACTER,
        "russian": len(_CYRILLIC.findall(lowered)),
        "arabic": len(_ARABIC.findall(lowered)),
        "": len(_UNKNOWN_LETTER.findall(lowered)),
    }
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] > latin else None


@cache
def _markers() -> dict[str, str]:
    return {word: language for language, words in MARKERS.items() for word in words.split()}


def _lower(text: str) -> str:
    """Return the text in lowercase with plain apostrophes, every character in its place."""
    lowered = text.lower().replace("\u2019", "'")
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
