"""Reads the blocks of past dialogue that stand inside a `<recalled>` fence.

A fence holds blocks, a blank line between two of them; a block opens with a date header such as
`[2023-05-08]` or `[undated]` and goes on with `Speaker: text` lines. Everything in front of the
first header is the fence's notice. Texts may run over several lines, so that a line is a new
utterance only where its prefix is known to be a speaker. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from langchain_convmem.views.summary_text import SUMMARY_NOTICE

__all__ = ["FencedText", "RecalledLine", "read_fence", "read_summary", "split_fences"]

_FENCE = re.compile(
    r"<(?P<tag>recalled|summary|context)(?:\s[^<>]*)?>(?P<body>.*?)(?:</(?P=tag)>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_HEADER = re.compile(r"\[(?:(?P<date>\d{4}-\d{2}-\d{2})[^\]\n]*|undated)\]")
_DEFUSED = re.compile(r"&lt;(?=\s*/?\s*recalled\b)", re.IGNORECASE)
_DEFUSED_SUMMARY = re.compile(r"&lt;(?=\s*/?\s*summary\b)", re.IGNORECASE)
_UTTERANCE = re.compile(r"(?P<speaker>[^\s:\[\]<>\"*#-][^:\n\[\]<>\"]{0,39}):(?: (?P<text>.*))?")
_ROLE_NAMES = frozenset({"user", "assistant", "human", "ai"})
_MAX_NAME_WORDS = 4


@dataclass(frozen=True, slots=True)
class FencedText:
    """One text taken apart.

    Attributes:
        before: Text in front of the first fence; the whole text when there is none.
        recalled: Bodies of `<recalled>` fences.
        summaries: Bodies of `<summary>` fences.
        contexts: Bodies of `<context>` fences: sections of a prompt file, nobody's words.
        after: Text behind the last fence.
    """

    before: str
    recalled: tuple[str, ...]
    summaries: tuple[str, ...]
    contexts: tuple[str, ...]
    after: str

    @property
    def is_fenced(self) -> bool:
        """Whether the text holds any fence."""
        return bool(self.recalled or self.summaries or self.contexts)


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
    bodies: dict[str, list[str]] = {"recalled": [], "summary": [], "context": []}
    for fence in found:
        bodies[fence["tag"].lower()].append(fence["body"])
    return FencedText(
        before=text[: found[0].start()],
        recalled=tuple(bodies["recalled"]),
        summaries=tuple(bodies["summary"]),
        contexts=tuple(bodies["context"]),
        after=text[found[-1].end() :],
    )


def _without_notice(lines: list[str]) -> list[str]:
    """Drop what stands in front of the first date header; without any header, nothing."""
    headers = (at for at, line in enumerate(lines) if _HEADER.fullmatch(line))
    return lines[next(headers, 0) :]


def _looks_like_a_name(speaker: str) -> bool:
    words = speaker.split()
    return len(words) <= _MAX_NAME_WORDS and not words[0][0].islower()


def _certain_speakers(lines: list[str]) -> frozenset[str]:
    """Return prefixes that open a block or come back: labels inside a text rarely do either."""
    opening: set[str] = set()
    seen: Counter[str] = Counter()
    fresh = True
    for line in lines:
        found = _UTTERANCE.fullmatch(line)
        if found and fresh:
            opening.add(found["speaker"])
        if found and _looks_like_a_name(found["speaker"]):
            seen[found["speaker"]] += 1
        fresh = bool(_HEADER.fullmatch(line))
    return frozenset(opening | {name for name, count in seen.items() if count > 1})


class _Reader:
    """Collects utterances line by line."""

    def __init__(self, speakers: Collection[str], certain: Collection[str]) -> None:
        self._certain = {name.casefold() for name in (*speakers, *certain)} | _ROLE_NAMES
        self._block = 0
        self._date: str | None = None
        self._between_roles = False
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
        if found and self._is_speaker(found["speaker"]):
            self.close()
            self._between_roles = found["speaker"].casefold() in _ROLE_NAMES
            self._open = (found["speaker"], [found["text"] or ""])
        elif self._open:
            self._open[1].append(line)

    def _is_speaker(self, name: str) -> bool:
        if name.casefold() in self._certain:
            return True
        # Between User and Assistant nobody else speaks: "Tip: ..." is a line of a long reply.
        return self._open is not None and not self._between_roles and _looks_like_a_name(name)

    def close(self) -> None:
        if self._open:
            speaker, texts = self._open
            text = _DEFUSED.sub("<", "\n".join(texts)).strip()
            if text:
                self.done.append(RecalledLine(self._block, speaker, text, self._date))
        self._open = None


def read_summary(body: str) -> str:
    """Return the text inside a `<summary>` fence as it was written; the notice is left out."""
    text = body.strip().removeprefix(SUMMARY_NOTICE).strip()
    return _DEFUSED_SUMMARY.sub("<", text)


def read_fence(body: str, *, speakers: Collection[str] = ()) -> list[RecalledLine]:
    """Return the utterances inside a `<recalled>` fence, in order; the notice is left out.

    Args:
        body: What stands between the tags.
        speakers: Names known to speak, beside those the fence shows by itself.
    """
    lines = _without_notice([line.rstrip() for line in body.strip().split("\n")])
    reader = _Reader(speakers, _certain_speakers(lines))
    for line in lines:
        reader.read(line)
    reader.close()
    return reader.done
