"""What of a message is searched for: what a long one asks, and what a short one goes on about.

A message is read in its parts, what it says itself first. Pure.
"""

from __future__ import annotations

from functools import lru_cache

from langchain_convmem.recall.words.analysis import telling_words
from langchain_convmem.recall.words.courtesies import is_courtesy
from langchain_convmem.recall.words.dates import Span, spans
from langchain_convmem.recall.words.speech import Persons, askings, persons_meant, read_question

__all__ = ["find_spans", "is_borrowing", "read_parts", "read_person", "search_text"]

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
