"""Cuts a text into sentences by position, so that every piece is a verbatim slice of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Span", "is_question", "split_sentences"]

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
