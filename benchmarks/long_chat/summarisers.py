"""Scripted summarisers that every system is given alike, and what they cost.

Both choose the sentences that tell most, as `ExtractiveSummarizer` does. The quoting one says them
word for word. The retelling one behaves like a decent model: it says half of them in words of its
own, and now and then it slips and alters a digit. Everything follows from what is asked and how
often, so runs are the same.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import ConfigDict, Field

from benchmarks.long_chat.script import read_data
from benchmarks.scripted_model import InstantModel
from langchain_convmem import ConversationMemory
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.summarizing.summarizers import SummaryRequest, build_messages
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.facts import split_sentences

Style: TypeAlias = Literal["quoting", "retelling"]
STYLES: tuple[Style, ...] = ("quoting", "retelling")

_ROOM = 0.85
"""Share of the length asked for that is chosen; words of one's own may take a little more."""
_FEWEST_WORDS = 10
"""Where a model has nothing to tell, it says so in as many words."""
_SLIP = 50
"""One sentence of so many with a number in it is told with a wrong digit."""


@dataclass(slots=True)
class Meter:
    """What a summariser read and wrote.

    Attributes:
        calls: How often it was asked.
        read: Tokens of all that it was sent, instructions included.
        wrote: Tokens of its answers.
        slips: What it wrote for what it should have written, by what it wrote.
    """

    calls: int = 0
    read: int = 0
    wrote: int = 0
    slips: dict[str, str] = field(default_factory=dict)

    def count(self, asked: Sequence[BaseMessage], answer: str) -> None:
        """Count one call."""
        self.calls += 1
        self.read += count_tokens(list(asked))
        self.wrote += count_text_tokens(answer)


class QuotingSummarizer(ExtractiveSummarizer):
    """Our summariser without a model, counted as if a model had been sent the same."""

    def __init__(self) -> None:
        self.meter = Meter()

    def summarize(self, request: SummaryRequest) -> str:
        answer = super().summarize(request)
        self.meter.count(build_messages(request), answer)
        return answer


class ScriptedSummarizer(InstantModel):
    """A chat model that summarises whatever it is sent, by any of the systems' prompts.

    Attributes:
        style: Whether it quotes or retells.
        max_tokens: How long its answers are at most, as a provider's `max_tokens` would have it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    style: Style = "retelling"
    max_tokens: int = 600
    meter: Meter = Field(default_factory=Meter)

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        request = read_request(messages, self.max_tokens)
        text = _lengthened(ExtractiveSummarizer().summarize(request), request.transcript)
        if self.style == "retelling":
            text = retell(text, self.meter)
        self.meter.count(messages, text)
        return AIMessage(text)


@contextmanager
def open_memory(
    style: Style, settings: SummarySettings, max_tokens: int
) -> Iterator[tuple[ConversationMemory, Meter]]:
    """Lend a memory that summarises in the foreground, and what its summariser reads and writes."""
    summarizer: QuotingSummarizer | ScriptedSummarizer = QuotingSummarizer()
    if style != "quoting":
        summarizer = ScriptedSummarizer(style=style, max_tokens=max_tokens)
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-long-chat-") as folder,
        ConversationMemory.open(
            Path(folder) / "memory.db",
            summarizer=summarizer,
            summary_settings=settings,
            summarize_when="foreground",
        ) as memory,
    ):
        yield memory, summarizer.meter


def _lengthened(summary: str, transcript: str) -> str:
    """Return a summary that says something, if nothing was told that is worth much."""
    lines = [summary]
    for line in transcript.splitlines():
        if len(" ".join(lines).split()) >= _FEWEST_WORDS:
            break
        if ": " in line and line not in lines:
            lines.append(line)
    return "\n".join(lines)


# -- What is asked ---------------------------------------------------------------------------

_FENCED = re.compile(r"<(previous_summary|transcript)>\n(.*?)\n</\1>", re.DOTALL)
_TOLD_WORDS = re.compile(r"at most about (\d+) words")
_MIDDLEWARE = re.compile(r"<messages>\nMessages to summarize:\n(.*)\n</messages>\s*\Z", re.DOTALL)
_XML = re.compile(r'<message type="(\w+)"[^>]*>(.*?)</message>', re.DOTALL)
_TO_DATE = "Here is a summary of the conversation to date:\n\n"
_SO_FAR = re.compile(r"This is summary of the conversation so far: (.*)\n\nExtend this", re.DOTALL)
_SPEAKERS = {"human": "User", "user": "User", "ai": "Assistant", "tool": "Tool"}


def read_request(messages: Sequence[BaseMessage], max_tokens: int) -> SummaryRequest:
    """Return what is to be summarised, read from the prompt of any of the systems.

    Args:
        messages: Ours has the parts in fences, the middleware one message with all as XML, langmem
            the messages themselves before one that tells the summary so far.
        max_tokens: How long the answer may be; our prompt may ask for less.
    """
    last = str(messages[-1].text)
    fenced = dict(_FENCED.findall(last))
    if "transcript" in fenced:
        return _read_ours(fenced, str(messages[0].text), max_tokens)
    found = _MIDDLEWARE.search(last)
    if found is not None:
        said = [(kind, _unescape(text)) for kind, text in _XML.findall(found[1])]
        return _read_talk(said, "", max_tokens)
    told = _SO_FAR.search(last)
    talk = [(one.type, str(one.text)) for one in messages[:-1]]
    return _read_talk(talk, told[1] if told is not None else "", max_tokens)


def _read_ours(fenced: dict[str, str], rules: str, max_tokens: int) -> SummaryRequest:
    words = _TOLD_WORDS.search(rules)
    # As many tokens as our prompt made words of.
    wished = max_tokens if words is None else int(words[1]) * 4 // 3
    return SummaryRequest(
        transcript=fenced["transcript"],
        previous=fenced.get("previous_summary", ""),
        max_tokens=round(_ROOM * min(wished, max_tokens)),
    )


def _read_talk(said: Sequence[tuple[str, str]], previous: str, max_tokens: int) -> SummaryRequest:
    lines = []
    for kind, text in said:
        if text.startswith(_TO_DATE):
            previous = text.removeprefix(_TO_DATE)
        elif text:
            lines.append(f"{_SPEAKERS.get(kind, kind)}: {text}".replace("\n", "\n  "))
    return SummaryRequest(
        transcript="\n".join(lines), previous=previous, max_tokens=round(_ROOM * max_tokens)
    )


def _unescape(text: str) -> str:
    text = re.sub(r"<tool_call\b.*?</tool_call>|</?content>", " ", text, flags=re.DOTALL)
    for name, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(name, sign)
    return text.strip()


# -- In other words --------------------------------------------------------------------------

_WORDING = read_data("retelling")
_OPENINGS = re.compile(_WORDING["openings"], re.IGNORECASE)
_ENDINGS = re.compile(_WORDING["endings"])
_OTHER_WORDS = [
    (re.compile(rf"\b{words}\b", re.IGNORECASE), other) for words, other in _WORDING["other_words"]
]
_VALUE = re.compile(
    r"(?<![\w-])(?:[A-Z]{2}-\d{5}|\d{2,4} (?:cm|euros|slim|wide|tall)|0\d{3} \d{6}"
    rf"|\d{{4}}[A-Z]?|\d\d (?:{'|'.join(read_data('families')['months'])}))(?!\w)"
)
"""What facts are told by, and the numbers of the small talk."""


def retell(summary: str, meter: Meter) -> str:
    """Return a summary with half of its sentences in other words, and slips, which are noted.

    Args:
        summary: Lines with a speaker in front or none.
        meter: Tells how often was asked before, and notes the slips.
    """
    lines = []
    for line in summary.splitlines():
        speaker, colon, said = line.partition(": ")
        known = colon and speaker in _SPEAKERS.values()
        sentences = split_sentences(said if known else line)
        who = "the assistant" if speaker == "Assistant" else "the user"
        told = " ".join(_retold(one, who, meter) for one in sentences)
        lines.append(f"{speaker}: {told}" if known else told)
    return "\n".join(lines)


def _retold(sentence: str, who: str, meter: Meter) -> str:
    if _drawn(2, sentence, "words") == 0:
        sentence = _ENDINGS.sub(".", _OPENINGS.sub("", sentence))
        for pattern, other in _OTHER_WORDS:
            sentence = pattern.sub(other.replace("{who}", who), sentence)
        sentence = sentence[:1].upper() + sentence[1:]
    value = _VALUE.search(sentence)
    if value is None or _drawn(_SLIP, sentence, f"slip {meter.calls}"):
        return sentence
    wrong = _misread(value[0])
    meter.slips[wrong] = meter.slips.get(value[0], value[0])
    return sentence[: value.start()] + wrong + sentence[value.end() :]


def _misread(value: str) -> str:
    """Return a value with its second digit altered."""
    place = [number for number, sign in enumerate(value) if sign.isdigit()][1]
    return value[:place] + str((int(value[place]) + 3) % 10) + value[place + 1 :]


def _drawn(of: int, *parts: Any) -> int:
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % of
