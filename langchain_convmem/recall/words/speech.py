"""What kind of utterance a text is: who a question is about, and what a line does. Pure.

A text is cut into sentences and these into clauses; how a clause begins tells a question, a request
and a statement apart, in the languages that `phrases` has. Of any other language nothing is
recognised: no mark, nobody meant, every sentence kept.
"""

# ruff: noqa: RUF001, E501 - letters of the languages themselves
from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from langchain_convmem.recall.words.courtesies import is_courtesy
from langchain_convmem.recall.words.forms import (
    Forms,
    Kind,
    forms_of,
    lower_in_place,
    spoken_language,
    words_of,
)
from langchain_convmem.recall.words.languages import function_words
from langchain_convmem.recall.words.phrases import PHRASES
from langchain_convmem.recall.words.sentences import HAS_WORD, pieces

__all__ = [
    "Mark",
    "Meant",
    "Persons",
    "askings",
    "asks_advice",
    "is_courtesy",
    "marks",
    "persons_meant",
    "read_question",
    "statements",
]

Mark: TypeAlias = Literal["states", "asks", "ignorant", "courtesy"]


class Persons(NamedTuple):
    """Who a question is about when a user asks an assistant; see `Meant`."""

    asker: bool = False
    listener: bool = False
    subject_open: bool = False


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
    asked, words, forms = _asked(text)
    if forms is None:
        return Meant()
    meant = persons_meant(text)
    return Meant(
        asker=meant.asker,
        listener=meant.listener,
        advice=asks_advice(text),
        request=any(_requests(asked[piece.start : piece.end], forms) for piece in pieces(asked)),
        is_follow_up=_follows_up(asked, words, forms, means_asker=meant.asker),
        subject_open=meant.subject_open,
    )


@lru_cache(maxsize=256)
def persons_meant(text: str) -> Persons:
    """Return who a question is about, which takes a fraction of reading all of it.

    Args:
        text: What a user asks; quoted passages in it are about nobody.
    """
    asked, _, forms = _asked(text)
    if forms is None:
        return Persons()
    # Only where somebody says "I" it matters which phrases do not mean it.
    means_asker = forms.first_person.search(asked) and forms.first_person.search(
        forms.unmeant.sub(" ", asked)
    )
    asker = bool(means_asker or forms.favour.search(asked))
    listener = bool(forms.listener.search(asked))
    return Persons(asker, listener, forms.drops_subject and not asker and not listener)


def asks_advice(text: str) -> bool:
    """Return whether a question is how to do something or what one should do."""
    asked, _, forms = _asked(text)
    return forms is not None and forms.advice.search(asked) is not None


@lru_cache(maxsize=16)
def _asked(text: str) -> tuple[str, list[str], Forms | None]:
    """Return a question in lowercase without what it quotes, its words, and its language."""
    asked = lower_in_place(_COUNTRY.sub("U.S.", _QUOTED.sub(" \u2026 ", text)))
    words = words_of(asked)
    return asked, words, forms_of(spoken_language(asked, words))


def _requests(sentence: str, forms: Forms) -> bool:
    return any(kind == "request" for kind, _ in _kinds(sentence, forms))


def _follows_up(asked: str, words: list[str], forms: Forms, *, means_asker: bool) -> bool:
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


def askings(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of a message stand that ask or request something, in order.

    Pasted text asks nothing, whatever stands in it.

    Args:
        text: A message. In a language that is not recognised, sentences with a question mark ask.
    """
    lowered = lower_in_place(text)
    forms = forms_of(spoken_language(lowered, words_of(lowered)))
    return [
        (start, end)
        for start, end, is_pasted in pieces(lowered)
        if not is_pasted and _asks(lowered[start:end], forms)
    ]


def _asks(sentence: str, forms: Forms | None) -> bool:
    if is_courtesy(sentence):
        return False
    if _ENDS_ASKING.search(sentence):
        return True
    return forms is not None and (
        _verdict(sentence, forms) in ("asks", "mixed") or _requests(sentence, forms)
    )


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
    lowered = lower_in_place(text)
    words = words_of(lowered)
    forms = forms_of(spoken_language(lowered, words))
    if forms is None:
        return _NONE
    if _is_ignorant(lowered, forms):
        return _IGNORANT
    asks = False
    stated = False
    for start, end, _ in pieces(lowered):
        verdict = _verdict(lowered[start:end], forms)
        if verdict == "own":
            return _STATES
        asks = asks or verdict == "asks"
        stated = stated or verdict not in ("asks", "courtesy")
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
    lowered = lower_in_place(text)
    forms = forms_of(spoken_language(lowered, words_of(lowered)))
    if forms is None:
        return [(piece.start, piece.end) for piece in pieces(lowered)]
    return [
        (start, end)
        for start, end, is_pasted in pieces(lowered)
        if is_pasted or _states(lowered[start:end], forms)
    ]


def _states(sentence: str, forms: Forms) -> bool:
    verdict = _verdict(sentence, forms, enough=_SAYING)
    return verdict not in ("asks", "courtesy") and not is_courtesy(sentence)


def _is_ignorant(lowered: str, forms: Forms) -> bool:
    """Return whether a reply begins with what is not known, and adds nothing of substance."""
    if not _knows_nothing(lowered[:_LONGEST_IGNORANCE], forms):
        return False
    if len(lowered) > _LONGEST_WITH_OFFERS:
        return False
    first, *rest = pieces(lowered)
    return not _YET.search(lowered, first.start, first.end) and all(
        _adds_nothing(lowered[piece.start : piece.end], forms) for piece in rest
    )


# "I don't know the date, but your appointment is in May."
_YET = re.compile(
    r"\b(?:but|however|though|aber|jedoch|mais|pero|ma|mas|maar|но)\b(?! (?:i|i'd|i'm|i'll|if|you can|you could"
    r"|you're welcome|feel|let|please|happy|ich|wenn|du kannst|sie können|je|si|puedo|puedes|posso|se"
    r"|puoi|ik|als|je kunt|я|если)\b)|\u4f46|\u3067\u3059\u304c|\u0644\u0643\u0646"
)


def _knows_nothing(sentence: str, forms: Forms) -> bool:
    begin = forms.opening.match(sentence)
    return forms.ignorant.match(sentence, begin.end() if begin else 0) is not None


def _adds_nothing(sentence: str, forms: Forms) -> bool:
    if _knows_nothing(sentence, forms) or forms.offer.search(sentence):
        return True
    return _verdict(sentence, forms) in ("asks", "mixed", "courtesy")


# -- clauses -------------------------------------------------------------------------------------

_Clause: TypeAlias = tuple[Kind, str]
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


_OWN = frozenset({"own"})
_SAYING = frozenset({"own", "states"})


def _verdict(sentence: str, forms: Forms, *, enough: AbstractSet[str] = _OWN) -> _Verdict:
    """Return what a sentence does: "own" states in the first person, "mixed" asks after a name.

    Args:
        sentence: In lowercase.
        forms: The phrases of its language.
        enough: What settles it, so that no later clause is read; with "states" among it, "states"
            may stand for "own".
    """
    is_question = _ENDS_ASKING.search(sentence) is not None
    # Only of a question it matters which clause is the last one: others are read one by one.
    clauses = list(_kinds(sentence, forms)) if is_question else _kinds(sentence, forms)
    last = len(clauses) - 1 if isinstance(clauses, list) else None
    found: set[str] = set()
    before: _Clause | None = None
    for number, clause in enumerate(clauses):
        is_asked = number == last
        found |= _weigh(clause, before, forms, found, is_question=is_question, is_asked=is_asked)
        if not found.isdisjoint(enough):
            break
        before = clause
    if "own" in found:
        return "own"
    if "states" in found:
        return "states"
    if "asks" in found:
        return "mixed" if "name" in found else "asks"
    if "hypothesis" in found:
        return "own"
    return "courtesy" if before is None else "fragment"


def _weigh(
    said: _Clause,
    before: _Clause | None,
    forms: Forms,
    found: AbstractSet[str],
    *,
    is_question: bool,
    is_asked: bool,
) -> set[str]:
    """Return what a clause adds to what was found in those before it.

    Args:
        said: The clause.
        before: The one before it, None for the first.
        forms: The phrases of their language.
        found: What was found so far.
        is_question: Whether the sentence ends like a question.
        is_asked: Whether this is the end of such a one.
    """
    kind, clause = said
    asked = "asks" in found
    if kind == "own" and _is_own(clause, forms, is_asked=is_asked, asked=asked):
        return {"own"}
    if kind in ("question", "request", "standing"):
        return _weigh_asking(said, before, forms, found, is_question=is_question)
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
    said: _Clause,
    before: _Clause | None,
    forms: Forms,
    found: AbstractSet[str],
    *,
    is_question: bool,
) -> set[str]:
    kind, clause = said
    weight = {"asks"}
    if not is_question:
        if kind == "standing" or (kind == "request" and _is_recurring(before)):
            return {"own"}
        if kind == "question" and found & {"name", "word"} and _RELATIVE.match(clause):
            weight.add("states")
    run_on = _run_on(clause, forms)
    return weight if run_on is None else weight | {run_on}


def _is_own(clause: str, forms: Forms, *, is_asked: bool, asked: bool) -> bool:
    if is_asked:
        long = clause.count(" ") + 1 >= _SHORTEST_OWN_QUESTION
        return long and forms.own_clause.match(clause) is not None
    return not asked or forms.own_clause.match(clause) is not None


def _is_recurring(before: _Clause | None) -> bool:
    """Return whether a request holds for whenever something happens, as the clause before tells."""
    if before is None or before[0] != "condition":
        return False
    return _WHENEVER.match(before[1]) is not None


def _run_on(clause: str, forms: Forms) -> Literal["own", "states"] | None:
    """Return what a question or request goes on to state without any punctuation, as dictated."""
    if clause.count(" ") + 1 < _SHORTEST_RUN_ON:
        return None
    found = forms.run_on.search(clause)
    if found is None:
        return None
    return "own" if forms.first_person.search(clause, found.start()) else "states"


def _kinds(sentence: str, forms: Forms) -> Iterator[_Clause]:
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


def _kind(clause: str, forms: Forms) -> Iterator[_Clause]:
    begin = forms.opening.match(clause)
    clause = clause[begin.end() if begin else 0 :].rstrip(forms.endings)
    if not HAS_WORD.search(clause) or (len(clause) < _LONGEST_COURTESY and is_courtesy(clause)):
        return
    for kind, pattern in forms.heads:
        if pattern.match(clause):
            yield kind, clause
            return
    if forms.first_person.search(clause):
        yield "own", clause
    else:
        yield ("says" if forms.finite.search(clause) else "fragment"), clause
