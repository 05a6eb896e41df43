"""What a chat model was given, as lines that can be quoted and the question they should answer.

Reads LangChain messages of every kind; pictures, sound and files hold no text and are passed over.
Pure: nothing here scores or phrases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.offline.fences import FencedText, read_fence, read_summary, split_fences
from langchain_convmem.views.codec import line_time_ms
from langchain_convmem.views.context import SUMMARY_SOURCE
from langchain_convmem.views.times import day_text

__all__ = ["ContextLine", "Given", "Source", "read_context"]

Source = Literal["dialogue", "summary", "system", "tool"]

_ASSISTANT_TYPES = frozenset({"ai", "AIMessageChunk", "assistant"})
_USER_TYPES = frozenset({"human", "HumanMessageChunk", "user"})
_TOOL_TYPES = frozenset({"tool", "ToolMessageChunk", "function", "FunctionMessageChunk"})
_SYSTEM_TYPES = frozenset({"system", "SystemMessageChunk", "developer"})
_YOU = frozenset({"user", "human"})
_ASSISTANT = frozenset({"assistant", "ai"})


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One text somebody said or wrote.

    Attributes:
        speaker: `You`, `Assistant` or a name; for a tool its name, else empty.
        text: Verbatim.
        date: ISO date, if known.
        source: What kind of message it stood in.
        group: Lines of one group followed each other directly.
    """

    speaker: str
    text: str
    date: str | None
    source: Source
    group: int


@dataclass(frozen=True, slots=True)
class Given:
    """All that an answer can be made of.

    Attributes:
        question: Text of the latest user message that holds any, without recalled text.
        lines: Recalled lines first, then the others in the order of the messages.
    """

    question: str
    lines: tuple[ContextLine, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    message: BaseMessage
    fenced: tuple[FencedText, ...]

    @property
    def has_fence(self) -> bool:
        return any(text.is_fenced for text in self.fenced)

    @property
    def outside(self) -> str:
        """Text behind the fences, or in blocks of its own: never a fence's notice."""
        pieces = (text.after if text.is_fenced else text.before for text in self.fenced)
        return "\n".join(piece.strip() for piece in pieces if piece.strip())


def _texts(content: object) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            text = block.get("text") if isinstance(block, Mapping) else block
            if isinstance(text, str):
                yield text


def _kind(message: BaseMessage) -> str:
    role = getattr(message, "role", None)
    return role if isinstance(role, str) else message.type


def _date(message: BaseMessage) -> str | None:
    try:
        stamp_ms = line_time_ms(message)
    except InvalidMessageError:
        # A date only decorates a quote; a log would have refused this message.
        return None
    return None if stamp_ms is None else day_text(stamp_ms) or None


def _speaker(name: str, asker: str | None) -> str:
    plain = name.strip()
    if plain.casefold() in _YOU or (asker is not None and plain == asker):
        return "You"
    return "Assistant" if plain.casefold() in _ASSISTANT else plain


def _voice(message: BaseMessage, asker: str | None) -> tuple[str, Source]:
    kind = _kind(message)
    if kind in _USER_TYPES:
        return _speaker(message.name or "user", asker), "dialogue"
    if kind in _ASSISTANT_TYPES:
        return _speaker(message.name or "assistant", None), "dialogue"
    if kind in _TOOL_TYPES:
        return message.name or "", "tool"
    if kind in _SYSTEM_TYPES:
        is_summary = message.additional_kwargs.get("source") == SUMMARY_SOURCE
        return "", "summary" if is_summary else "system"
    return _speaker(kind, asker), "dialogue"


def _find_question(parts: Sequence[_Part]) -> tuple[int, str]:
    """Return where the question stands (-1: nowhere) and its text."""
    asked = [(at, part) for at, part in enumerate(parts) if _kind(part.message) in _USER_TYPES]
    for at, part in reversed(asked):
        if part.outside:
            return at, part.outside
    for at, part in reversed(asked):
        before = "\n".join(text.before.strip() for text in part.fenced)
        if before.strip():
            return at, before.strip()
    return -1, ""


class _Collector:
    def __init__(self, asker: str | None, names: Sequence[str]) -> None:
        self._asker = asker
        self._names = names
        self._groups = 0
        self.recalled: list[ContextLine] = []
        self.others: list[ContextLine] = []

    def read_fences(self, part: _Part) -> None:
        for text in part.fenced:
            for body in text.recalled:
                self._read_recalled(body)
            for body in text.summaries:
                self._groups += 1
                self._add("", read_summary(body), None, "summary")

    def _read_recalled(self, body: str) -> None:
        first = self._groups + 1
        for line in read_fence(body, speakers=self._names):
            self._groups = first + line.block
            self.recalled.append(
                ContextLine(
                    _speaker(line.speaker, self._asker),
                    line.text,
                    line.date,
                    "dialogue",
                    self._groups,
                )
            )

    def read_message(self, part: _Part) -> None:
        """Take the message's own text; text around a fence is the notice of whoever put it."""
        if part.has_fence and not part.outside:
            return
        speaker, source = _voice(part.message, self._asker)
        # The messages of a history share group 0: each answers the one before it.
        self._add(speaker, part.outside, _date(part.message), source, group=0)

    def _add(
        self, speaker: str, text: str, date: str | None, source: Source, group: int | None = None
    ) -> None:
        if text.strip():
            number = self._groups if group is None else group
            self.others.append(ContextLine(speaker, text.strip(), date, source, number))


def read_context(messages: Sequence[BaseMessage]) -> Given:
    """Return the question and every quotable line of `messages`.

    The question is the latest user message with text outside a fence; it is no line itself, nor
    are notices in front of a fence.
    """
    parts = [
        _Part(message, tuple(split_fences(text) for text in _texts(message.content)))
        for message in messages
    ]
    at, question = _find_question(parts)
    asker = messages[at].name if at >= 0 else None
    collector = _Collector(asker, [m.name for m in messages if m.name])
    for number, part in enumerate(parts):
        collector.read_fences(part)
        if number != at:
            collector.read_message(part)
    return Given(question, tuple(collector.recalled + collector.others))
