"""Phrases an answer out of quotes, and says what it is when asked. Pure and deterministic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from langchain_convmem.offline.context import ContextLine, read_context
from langchain_convmem.offline.matching import Match, find_matches
from langchain_convmem.offline.sentences import is_question, split_sentences
from langchain_convmem.offline.words import fold

__all__ = ["IDENTITY", "NOTHING_ANSWERS", "NOTHING_FITS", "answer", "is_own_answer"]

IDENTITY = (
    "I am the offline chat model of langchain-convmem, not a language model: I have no weights "
    "and no knowledge of my own. I answer by quoting, word for word, what fits a question best "
    "in the conversation and the memories I am given."
)
NOTHING_ANSWERS = "I found nothing in what I was given that answers this."
NOTHING_FITS = "I can only quote, and I found nothing else in what I was given that fits this."

_WHO_ARE_YOU = re.compile(
    r"\b(?:who|what)(?: exactly| on earth| kind of \w+| sort of \w+)? are you(?: really| exactly)?$"
    r"|\b(?:what|which) (?:\w+ ){0,2}model (?:are you|is this)\b"
    r"|\b(?:who|what) (?:am i|are we) (?:talking|speaking|chatting) (?:to|with)\b"
    r"|\bare you (?:an? |the )?(?:real |actual |large )*(?:ai|llm|bot|chatbot|robot|human|person|"
    r"machine|model|language model|chatgpt|gpt|claude|gemini|assistant)\b"
    r"|\b(?:what is|what's) your name$|\b(?:introduce|describe) yourself\b"
    r"|\btell me about yourself\b|^who (?:is|am) (?:this|speaking)$"
)
_GREETING = re.compile(
    r"(?:(?:hello|hi|hey|greetings|good (?:morning|afternoon|evening|day))"
    r"(?: there| again)?[\s,]*)+"
)
_QUOTING = re.compile(
    r"(?:[^\"\n]{1,60} said(?: on \d{4}-\d{2}-\d{2})?|(?:A tool|The tool [^\"\n]{1,60}) returned|"
    r"The summary says|The instructions say): \""
)


def is_own_answer(text: str) -> bool:
    """Tell whether `text` reads like an answer of this model, which must not be quoted again."""
    plain = text.strip()
    openings = (IDENTITY, NOTHING_ANSWERS, NOTHING_FITS, "Hello. " + IDENTITY)
    return plain.startswith(openings) or bool(_QUOTING.match(plain))


def _about_me(question: str) -> str | None:
    plain = " ".join(fold(question).split()).strip(" .,!?")
    if plain and _GREETING.fullmatch(plain):
        return "Hello. " + IDENTITY
    return IDENTITY if _WHO_ARE_YOU.search(plain) else None


def _attribution(line: ContextLine) -> str:
    match line.source:
        case "summary":
            said = "The summary says"
        case "system":
            said = "The instructions say"
        case "tool":
            said = f"The tool {line.speaker} returned" if line.speaker else "A tool returned"
        case _:
            said = f"{line.speaker} said"
    return f"{said} on {line.date}" if line.date and line.source == "dialogue" else said


def _quote(match: Match) -> str:
    return f'{_attribution(match.line)}: "{match.text}"'


def _asks(message: str) -> bool:
    pieces = [message[span.start : span.end] for span in split_sentences(message)]
    return any(is_question(piece, requests=True) for piece in pieces)


def answer(messages: Sequence[BaseMessage]) -> str:
    """Return the answer to the latest user message, made of what `messages` hold.

    One to three quotes with speaker and, where known, date, each on a line of its own, best first;
    what this model is, when that is asked; or a sentence saying that nothing fits.
    """
    given = read_context(messages)
    about_me = _about_me(given.question)
    if about_me is not None:
        return about_me
    lines = [
        line
        for line in given.lines
        if not (line.speaker == "Assistant" and is_own_answer(line.text))
    ]
    matches = find_matches(given.question, lines)
    if matches:
        return "\n".join(_quote(match) for match in matches)
    return NOTHING_ANSWERS if _asks(given.question) or not given.question else NOTHING_FITS
