"""What of a message is searched for: what a long one asks, and what a short one goes on about.

A message is read in its parts, what it says itself first. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from langchain_convmem.views.lines import DEFAULT_SPEAKERS
from langchain_convmem.words.analysis import is_stop_word, telling_words
from langchain_convmem.words.dates import Span, spans
from langchain_convmem.words.speech import (
    Persons,
    askings,
    is_courtesy,
    persons_meant,
    read_question,
)

# A longer message holds more than a question: a letter, code, a story.
_LONG = 400


# Fewer of them do not say what a message is about: "Can you shorten this?"
_LEAST_WORDS = 2


def search_text(query: str, before: str | None = None) -> str:
    """Return the text that is searched for.

    A question stands for itself. Of a long message it is what it asks or requests outside pasted
    passages, unless that says too little. A short follow-up has what was said before in front.

    Args:
        query: What the user says.
        before: What they said just before.
    """
    return "\n".join(reversed(read_parts(query, before)))


@lru_cache(maxsize=16)
def read_parts(query: str, before: str | None = None) -> tuple[str, ...]:
    """Return what is searched for of a message, and after it what it borrows from, if it does."""
    # Kept for a moment, since one recall asks for them several times.
    own = _asked_in(query)
    return (own, _asked_in(before)) if before and is_borrowing(query, before) else (own,)


def is_borrowing(query: str, before: str | None) -> bool:
    """Return whether a message is too short to be understood without what was said before.

    What is a follow-up itself, a courtesy or blank has no topic of its own to lend.
    """
    if before is None or not before.strip() or is_courtesy(query) or is_courtesy(before):
        return False
    return read_question(query).is_follow_up and not read_question(before).is_follow_up


def read_person(query: str, before: str | None = None) -> Persons:
    """Return who a message is about; where it says nothing of it, who was meant before."""
    first, *borrowed = map(persons_meant, read_parts(query, before))
    return borrowed[0] if borrowed and not (first.asker or first.listener) else first


def find_spans(query: str, before: str | None, now_ms: int) -> list[Span]:
    """Return the stretches of time that a message names; where it names none, those before."""
    named = (spans(part, now_ms) for part in read_parts(query, before))
    return next(filter(None, named), [])


def _asked_in(message: str) -> str:
    """Return what a message asks, if it is long and says enough of it; else all of it."""
    if len(message) <= _LONG:
        return message
    asked = " ".join([message[start:end] for start, end in askings(message)])
    return asked if len(telling_words(asked)) >= _LEAST_WORDS else message


# -- Which speakers a question names, and the question without their names ------------------------


_WORD_SIGN = re.compile(r"\w")


_ROLES = frozenset(DEFAULT_SPEAKERS.values())


def named_speakers(text: str, speakers: Sequence[str]) -> list[int]:
    """Return which speakers (by index) the text names, whole or by the first part of the name.

    The labels of speakers without a name, `User` and `Assistant`, are words like any other.
    """
    return list(_named(text, tuple(speakers)))


@lru_cache(maxsize=16)
def _named(text: str, speakers: tuple[str, ...]) -> tuple[int, ...]:
    # Kept for a moment: one recall asks when it embeds the question and when it ranks.
    return tuple(
        n
        for n, speaker in enumerate(speakers)
        if speaker not in _ROLES and _name_pattern(speaker).search(text)
    )


def without_names(text: str, speakers: Sequence[str]) -> str:
    """Return the text without the names of speakers; unchanged if nothing else would be left."""
    bare = text
    for number in named_speakers(text, speakers):
        bare = _name_pattern(speakers[number]).sub(" ", bare)
    bare = " ".join(bare.split())
    return bare if _WORD_SIGN.search(bare) else text


@lru_cache(maxsize=1024)
def _name_pattern(speaker: str) -> re.Pattern[str]:
    whole, first = speaker.strip(), (speaker.split() or [""])[0]
    names = {whole} if is_stop_word(first) else {whole, first}
    # "Will" and "May" are names only where they are written as such.
    parts = [
        re.escape(name) if is_stop_word(name) else f"(?i:{re.escape(name)})"
        for name in sorted(names - {""}, key=len, reverse=True)
    ]
    # A speaker without a name matches nothing.
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts) or '(?!)'})(?:['\u2019]s)?(?!\w)")
