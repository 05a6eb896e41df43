"""What a chat model was given, as lines that can be quoted and the question they should answer.

Reads LangChain messages of every kind, and takes apart what a memory puts into them: recalled
lines, profiles, summaries. Pictures, sound and files hold no text and are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import BaseMessage

from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.lines import INDENT, format_day
from langchain_convmem.views.messages import NOTED_SOURCE, SUMMARY_SOURCE, restore_tag
from langchain_convmem.views.summaries import SUMMARY_NOTICE

Source = Literal["dialogue", "summary", "system", "tool"]

_KINDS = {"ai": "assistant", "human": "user", "developer": "system", "function": "tool"}

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
class ContextLine:
    """One text somebody said or wrote.

    Attributes:
        speaker: `You`, `Assistant` or a name; for a tool its name, else empty.
        text: Verbatim.
        date: ISO date, if known.
        source: What kind of message it stood in.
        group: Lines of one group followed each other directly; 0 are the messages themselves.
    """

    speaker: str
    text: str
    date: str | None
    source: Source
    group: int = 0


@dataclass(frozen=True, slots=True)
class Given:
    """All that an answer can be made of.

    Attributes:
        question: Text of the latest user message that holds any, without recalled text.
        lines: What a profile adds, then recalled lines and summaries, then the others in the order
            of the messages.
    """

    question: str
    lines: tuple[ContextLine, ...]


def read_context(messages: Sequence[BaseMessage]) -> Given:
    """Return the question and every quotable line of `messages`.

    The question is the latest user message with text outside a fence; it is not a line itself, nor
    are notices in front of a fence.
    """
    said = [one for one in messages if one.additional_kwargs.get("source") != NOTED_SOURCE]
    texts = [list(_collect_texts(message.content)) for message in said]
    own = ["\n".join(filter(None, map(_read_outside, parts))) for parts in texts]
    users = [number for number, one in enumerate(said) if _get_kind(one) == "user"]
    at = next((number for number in reversed(users) if own[number]), None)
    if at is None and users:
        # The question stands in front of a fence, where else a notice does.
        at = users[-1]
        own[at] = "\n".join(_FENCE.split(text, maxsplit=1)[0].strip() for text in texts[at])
    asker = None if at is None else said[at].name
    fenced = [one for parts in texts for text in parts for one in _read_fences(text, asker)]
    spoken = [
        _make_line(message, text, asker)
        for number, (message, text) in enumerate(zip(said, own, strict=True))
        if text and number != at
    ]
    lines = [*(line for line in fenced if line.group >= 0), *spoken]
    told = "\n".join(line.text for line in lines if line.speaker != "Assistant")
    profile = [line for line in fenced if line.group < 0 and line.text not in told]
    return Given("" if at is None else own[at], (*profile, *lines))


def _get_kind(message: BaseMessage) -> str:
    kind = str(getattr(message, "role", message.type.removesuffix("MessageChunk")))
    return _KINDS.get(kind.lower(), kind)


def _make_line(message: BaseMessage, text: str, asker: str | None) -> ContextLine:
    kind = _get_kind(message)
    is_summary = message.additional_kwargs.get("source") == SUMMARY_SOURCE
    if is_summary or kind == "system":
        return ContextLine("", text, None, "summary" if is_summary else "system")
    if kind == "tool":
        return ContextLine(message.name or "", text, None, "tool")
    stamp_ms = get_line_time_ms(message)
    date = None if stamp_ms is None else format_day(stamp_ms) or None
    return ContextLine(_name_speaker(message.name or kind, asker), text, date, "dialogue")


def _name_speaker(name: str, asker: str | None) -> str:
    plain = name.strip()
    if plain.casefold() in ("user", "human") or plain == asker:
        return "You"
    return "Assistant" if plain.casefold() in ("assistant", "ai") else plain


def _collect_texts(content: object) -> Iterator[str]:
    for block in content if isinstance(content, list) else [content]:
        text = block.get("text") if isinstance(block, Mapping) else block
        if isinstance(text, str):
            yield text


# -- what a memory puts into messages -------------------------------------------------------------


def _read_outside(text: str) -> str:
    """Return a text, or what follows its last fence: in front of one stands its notice."""
    fences = list(_FENCE.finditer(text))
    return text[fences[-1].end() if fences else 0 :].strip()


def _read_fences(text: str, asker: str | None) -> Iterator[ContextLine]:
    """Yield what stands in fences; lines of a profile in the group -1."""
    for number, fence in enumerate(_FENCE.finditer(text), 1):
        body = fence["body"].strip()
        match fence["tag"].lower():
            case "recalled":
                yield from _read_recalled(body, 1000 * number, asker)
            case "profile":
                for item in _ITEM.finditer(body):
                    said = restore_tag(item["text"], "profile")
                    yield ContextLine("You", said, item["date"], "dialogue", -1)
            case "summary":
                told = restore_tag(body.removeprefix(SUMMARY_NOTICE).strip())
                yield ContextLine("", told, None, "summary", 1000 * number)


def _read_recalled(body: str, group: int, asker: str | None) -> Iterator[ContextLine]:
    """Yield utterances: dates and speakers begin at the margin, what is indented goes on.

    The notice stands in front of the first date.
    """
    first = next(_HEADER.finditer(body), None)
    date: str | None = None
    said: list[tuple[str, list[str], str | None, int]] = []
    for line in map(str.rstrip, body[first.start() if first else 0 :].split("\n")):
        if header := _HEADER.fullmatch(line):
            date, group = header["date"], group + 1
        elif found := _UTTERANCE.fullmatch(line):
            said.append((found["speaker"], [found["text"] or ""], date, group))
        elif said:
            said[-1][1].append(line.removeprefix(INDENT))
    for speaker, texts, day, block in said:
        text = restore_tag("\n".join(texts), "recalled").strip()
        if text:
            yield ContextLine(_name_speaker(speaker, asker), text, day, "dialogue", block)
