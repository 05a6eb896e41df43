"""What a chat model was given, as lines that can be quoted and the question they should answer.

Reads LangChain messages of every kind; pictures, sound and files hold no text and are passed over.
Pure: nothing here scores or phrases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.context import NOTED_SOURCE, SUMMARY_SOURCE
from langchain_convmem.views.lines import INDENT, format_day
from langchain_convmem.views.messages import FENCE_TAGS, restore_tag
from langchain_convmem.views.summaries import SUMMARY_NOTICE

Source = Literal["dialogue", "summary", "system", "tool"]
_USER_TYPES = frozenset({"human", "HumanMessageChunk", "user"})
_ASSISTANT_TYPES = frozenset({"ai", "AIMessageChunk", "assistant"})
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
        lines: Recalled lines first, then what the profile adds, then the others in the order of the
            messages.
    """

    question: str
    lines: tuple[ContextLine, ...]


def read_context(messages: Sequence[BaseMessage]) -> Given:
    """Return the question and every quotable line of `messages`.

    The question is the latest user message with text outside a fence; it is not a line itself, nor
    are notices in front of a fence.
    """
    parts = [
        _MessageParts(
            message, tuple(split_fences(text) for text in _collect_texts(message.content))
        )
        for message in messages
        if message.additional_kwargs.get("source") != NOTED_SOURCE
    ]
    at, question = _find_question(parts)
    asker = parts[at].message.name if at >= 0 else None
    collector = _Collector(asker)
    for number, part in enumerate(parts):
        collector.read_fences(part)
        if number != at:
            collector.read_message(part)
    return Given(question, collector.list_lines())


@dataclass(frozen=True, slots=True)
class _MessageParts:
    message: BaseMessage
    fenced: tuple[FencedText, ...]

    @property
    def has_fence(self) -> bool:
        return any(text.is_fenced for text in self.fenced)

    @property
    def outside(self) -> str:
        """Text after the fences, or in blocks of its own: never a fence's notice."""
        pieces = (text.after if text.is_fenced else text.before for text in self.fenced)
        return "\n".join(piece.strip() for piece in pieces if piece.strip())


class _Collector:
    def __init__(self, asker: str | None) -> None:
        self._asker = asker
        self._groups = 0
        self.recalled: list[ContextLine] = []
        self.others: list[ContextLine] = []
        self.known: list[ContextLine] = []

    def list_lines(self) -> tuple[ContextLine, ...]:
        """Return the lines that were read; a profile's where no other says the same."""
        lines = [*self.recalled, *self.others]
        told = "\n".join(line.text for line in lines if line.speaker != "Assistant")
        fresh = {line.text: line for line in self.known if line.text not in told}
        return (*self.recalled, *fresh.values(), *self.others)

    def read_fences(self, part: _MessageParts) -> None:
        for text in part.fenced:
            for body in text.recalled:
                first = self._groups + 1
                for line in read_fence(body):
                    self._groups = first + line.block
                    who = _name_speaker(line.speaker, self._asker)
                    self.recalled.append(
                        ContextLine(who, line.text, line.date, "dialogue", self._groups)
                    )
            for said, date in (item for body in text.profiles for item in read_profile(body)):
                self._groups += 1
                self.known.append(ContextLine("You", said, date, "dialogue", self._groups))
            for body in text.summaries:
                self._groups += 1
                self._add("", read_summary(body), None, "summary", self._groups)

    def read_message(self, part: _MessageParts) -> None:
        """Take the message's own text; text around a fence is the notice of whoever put it."""
        if part.has_fence and not part.outside:
            return
        speaker, source = _name_voice(part.message, self._asker)
        # The messages of a history share group 0: each answers the one before it.
        self._add(speaker, part.outside, _read_date(part.message), source, group=0)

    def _add(self, speaker: str, text: str, date: str | None, source: Source, group: int) -> None:
        if text.strip():
            self.others.append(ContextLine(speaker, text.strip(), date, source, group))


def _find_question(parts: Sequence[_MessageParts]) -> tuple[int, str]:
    """Return where the question stands (-1: nowhere) and its text."""
    asked = [(at, part) for at, part in enumerate(parts) if _get_role(part.message) in _USER_TYPES]
    for at, part in reversed(asked):
        if part.outside:
            return at, part.outside
    for at, part in reversed(asked):
        before = "\n".join(text.before.strip() for text in part.fenced)
        if before.strip():
            return at, before.strip()
    return -1, ""


def _name_voice(message: BaseMessage, asker: str | None) -> tuple[str, Source]:
    kind = _get_role(message)
    if message.additional_kwargs.get("source") == SUMMARY_SOURCE:
        return "", "summary"
    if kind in _USER_TYPES:
        return _name_speaker(message.name or "user", asker), "dialogue"
    if kind in _ASSISTANT_TYPES:
        return _name_speaker(message.name or "assistant", None), "dialogue"
    if kind in _TOOL_TYPES:
        return message.name or "", "tool"
    if kind in _SYSTEM_TYPES:
        return "", "system"
    return _name_speaker(kind, asker), "dialogue"


def _name_speaker(name: str, asker: str | None) -> str:
    plain = name.strip()
    if plain.casefold() in _YOU or (asker is not None and plain == asker):
        return "You"
    return "Assistant" if plain.casefold() in _ASSISTANT else plain


def _get_role(message: BaseMessage) -> str:
    role = getattr(message, "role", None)
    return role if isinstance(role, str) else message.type


def _read_date(message: BaseMessage) -> str | None:
    try:
        stamp_ms = get_line_time_ms(message)
    except InvalidMessageError:
        # A date only decorates a quote; a log would have refused this message.
        return None
    return None if stamp_ms is None else format_day(stamp_ms) or None


def _collect_texts(content: object) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            text = block.get("text") if isinstance(block, Mapping) else block
            if isinstance(text, str):
                yield text


# -- Fences in a message: recalled dialogue, profile, summaries, sections of a prompt file --------

_FENCE = re.compile(
    r"<(?P<tag>recalled|summary|context|profile)(?:\s[^<>]*)?>(?P<body>.*?)(?:</(?P=tag)>|\Z)",
    re.DOTALL | re.IGNORECASE,
)

_HEADER = re.compile(r"\[(?:(?P<date>\d{4}-\d{2}-\d{2})[^\]\n]*|undated)\]")
_ITEM = re.compile(
    r"^- \"(?P<text>.*)\"(?: \((?P<date>\d{4}-\d{2}-\d{2})[^)\n]*\))?$", re.MULTILINE
)
_UTTERANCE = re.compile(r"(?P<speaker>\S.*?):(?: (?P<text>.*))?")


@dataclass(frozen=True, slots=True)
class FencedText:
    """One text taken apart.

    Attributes:
        before: Text in front of the first fence; the whole text when there is none.
        recalled: Bodies of `<recalled>` fences.
        summaries: Bodies of `<summary>` fences.
        contexts: Bodies of `<context>` fences: sections of a prompt file, nobody's words.
        after: Text after the last fence.
        profiles: Bodies of `<profile>` fences: what the user said of themselves.
    """

    before: str
    recalled: tuple[str, ...]
    summaries: tuple[str, ...]
    contexts: tuple[str, ...]
    after: str
    profiles: tuple[str, ...] = ()

    @property
    def is_fenced(self) -> bool:
        """Whether the text holds any fence."""
        return bool(self.recalled or self.summaries or self.contexts or self.profiles)


@dataclass(frozen=True, slots=True)
class RecalledLine:
    """One utterance of a recalled block.

    Attributes:
        block: Number of its block within the fence, from 0.
        speaker: As written in the fence.
        text: As it was said: a tag that was defused for the fence is a tag again.
        date: ISO date of the block's header, if it has one.
    """

    block: int
    speaker: str
    text: str
    date: str | None


def split_fences(text: str) -> FencedText:
    """Take `text` apart; a fence that was cut off before its end runs to the end of the text."""
    found = list(_FENCE.finditer(text))
    if not found:
        return FencedText(text, (), (), (), "")
    bodies: dict[str, list[str]] = {"recalled": [], "summary": [], "context": [], "profile": []}
    for fence in found:
        bodies[fence["tag"].lower()].append(fence["body"])
    return FencedText(
        before=text[: found[0].start()],
        recalled=tuple(bodies["recalled"]),
        summaries=tuple(bodies["summary"]),
        contexts=tuple(bodies["context"]),
        after=text[found[-1].end() :],
        profiles=tuple(bodies["profile"]),
    )


def read_profile(body: str) -> Iterator[tuple[str, str | None]]:
    """Yield what a `<profile>` fence quotes of the user, each with its day, if it tells one."""
    for item in _ITEM.finditer(body):
        yield restore_tag(item["text"], "profile"), item["date"]


def read_summary(body: str) -> str:
    """Return the text inside a `<summary>` fence as it was written; the notice is left out."""
    text = body.strip().removeprefix(SUMMARY_NOTICE).strip()
    return restore_tag(text, FENCE_TAGS)


def read_fence(body: str) -> list[RecalledLine]:
    """Return the utterances inside a `<recalled>` fence, in order; the notice is left out.

    Dates and speakers begin at the margin; what is indented goes on with the line above.
    """
    lines = [line.rstrip() for line in body.strip().split("\n")]
    # The notice stands in front of the first header.
    lines = lines[next((at for at, line in enumerate(lines) if _HEADER.fullmatch(line)), 0) :]
    reader = _FenceReader()
    for line in lines:
        reader.read(line)
    reader.close()
    return reader.done


class _FenceReader:
    """Collects utterances line by line."""

    def __init__(self) -> None:
        self._block = 0
        self._date: str | None = None
        self._open: tuple[str, list[str]] | None = None
        self.done: list[RecalledLine] = []

    def read(self, line: str) -> None:
        header = _HEADER.fullmatch(line)
        if header:
            self.close()
            self._block += bool(self.done)
            self._date = header["date"]
            return
        found = _UTTERANCE.fullmatch(line)
        if found:
            self.close()
            self._open = (found["speaker"], [found["text"] or ""])
        elif self._open:
            self._open[1].append(line.removeprefix(INDENT))

    def close(self) -> None:
        if self._open:
            speaker, texts = self._open
            text = restore_tag("\n".join(texts), "recalled").strip()
            if text:
                self.done.append(RecalledLine(self._block, speaker, text, self._date))
        self._open = None
