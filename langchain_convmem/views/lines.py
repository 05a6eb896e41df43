"""Dialog lines: the strings of an entry that recall searches, their times, and what it finds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from langchain_convmem.records import DialogLine, Entry, Role, Trust
from langchain_convmem.views.codec import EPOCH, get_line_time_ms

DEFAULT_SPEAKERS = {"user": "User", "assistant": "Assistant"}
"""Labels of lines whose message has no name."""
LINE_FIELDS = ("speaker", "role", "session", "thread_id", "user_id", "trust")
"""What every line has a value for; no tag has such a name."""
# The time is a field of its own, too.
_NO_TAGS = frozenset((*LINE_FIELDS, "timestamp"))
# Providers put whole chains of thought beside a message; nobody filters by those.
_LONGEST_TAG = 256


IMPORTED = "imported"
"""Attribute of entries that were read from a file."""
OWN = "own"
"""Attribute of such entries if the owner of the file says that it is theirs."""
_TRUST_OF_ROLES: Mapping[Role, Trust] = {"user": "user", "assistant": "model", "tool": "tool"}
_MARKS: Mapping[Any, Trust] = {"tool": "tool", "import": "import", "outside": "outside"}

INDENT = "  "
"""Before further lines of a text; what begins a line of its own is said by nobody."""

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROLS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_COLON = re.compile(r":\s+")


def indent_text(text: str) -> str:
    """Return a text whose further lines are indented, so that none passes for something else.

    All that ends a line for Python does; the text is the same but for white space.
    """
    if text.isprintable():  # which no line end is
        return text
    return f"\n{INDENT}".join(text.splitlines())


def clean_name(name: str) -> str:
    """Return a name or a label as one line that holds no second name.

    Line ends, control characters and white space become blanks, marks of direction go, and no
    blank follows a colon: `Name: ` ends with the first of them.
    """
    if name.isprintable() and ": " not in name and "  " not in name:
        return name.strip()
    return _COLON.sub(":", _CONTROLS.sub(" ", _BIDI.sub("", name))).strip()


def find_name(entry: Entry) -> str:
    """Return the name that an entry's message bears, as one line; empty without one."""
    return clean_name((entry.message and entry.message.name) or "")


def name_speaker(entry: Entry) -> str:
    """Return who said an entry, as one line: the message's name, else the role."""
    return find_name(entry) or DEFAULT_SPEAKERS.get(entry.role) or entry.role.capitalize()


def make_dialog_lines(entry: Entry) -> list[DialogLine]:
    """Return the entry's dialog lines in order.

    Only what the user and the assistant said are lines: no tool results, no reasoning, no system
    messages, no summaries.
    """
    message = entry.message
    if entry.role not in DEFAULT_SPEAKERS or message is None:
        return []
    marks = message.additional_kwargs
    session = marks.get("session")
    time_ms = get_line_time_ms(message)
    message_id = entry.message_id
    tags = {key: value for key, value in marks.items() if key not in _NO_TAGS and _is_tag(value)}
    trust = find_trust(entry.role, marks, entry.metadata.attributes)
    return [
        DialogLine(
            line_id=message_id if part == 0 else f"{message_id}#{part + 1}",
            key=entry.key,
            position=entry.position,
            part=part,
            speaker=name_speaker(entry),
            text=text,
            time_ms=entry.metadata.timing["creation"] if time_ms is None else time_ms,
            session=None if session is None else clean_name(str(session)),
            role=entry.role,
            entry_id=entry.id,
            tags=tags,
            trust=trust,
        )
        for part, text in enumerate(entry.contents)
    ]


def find_trust(role: Role, marks: Mapping[str, Any], attributes: Collection[str]) -> Trust:
    """Return who answers for a message.

    Args:
        role: Whose it is.
        marks: Its `additional_kwargs`. `trust` there may say "tool", "import" or "outside", never
            more than the message would have without.
        attributes: Those of its entry.
    """
    marked = marks.get("trust")
    if isinstance(marked, str) and marked in _MARKS:
        return _MARKS[marked]
    if IMPORTED in attributes and OWN not in attributes:
        return "import"
    return _TRUST_OF_ROLES.get(role, "outside")


def _is_tag(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TAG
    return value is None or isinstance(value, int | float)


# -- Times of lines and entries as moments and as text, in UTC ------------------------------------
def get_moment(time_ms: int) -> datetime | None:
    """Return the moment of a time in milliseconds since the epoch; None outside the calendar."""
    try:
        return EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def format_iso_time(time_ms: int) -> str | None:
    """Return a time as ISO 8601 text; None outside the calendar."""
    moment = get_moment(time_ms)
    return None if moment is None else moment.isoformat()


def format_day(time_ms: int) -> str:
    """Return the day of a time, such as "2023-05-08"; empty outside the calendar."""
    return (format_iso_time(time_ms) or "").partition("T")[0]


# -- What a recall finds --------------------------------------------------------------------------
Verdict: TypeAlias = Literal["answered", "related", "nothing"]
"""What a recall says of itself; see `Recall.verdict`."""


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A line in the ranking of one recall.

    Attributes:
        line: The line.
        relevance: Fused and smoothed score; larger is closer, no fixed range.
        similarity: Cosine in [-1, 1] to the query; 0.0 when the line has no vector.
        why: Short reasons (`meaning`, `kind`, `words: ...`, `speaker`, `date`, `neighbours`).
        segment: Which part of a long line matched, from 0.
    """

    line: DialogLine
    relevance: float
    similarity: float
    why: tuple[str, ...] = ()
    segment: int = 0


@dataclass(frozen=True, slots=True)
class RecalledBlock:
    """Neighbouring lines of one session that were recalled together.

    Attributes:
        lines: In the order of the dialogue.
        text: What a model should read: a date header, then `Speaker: text` lines, verbatim; further
            lines of a text are indented, so that whatever begins a line is said by nobody.
        matches: The hits inside, best first.
        relevance: That of the best hit.
        similarity: Cosine of the best hit.
    """

    lines: tuple[DialogLine, ...]
    text: str
    matches: tuple[LineMatch, ...]
    relevance: float
    similarity: float


@dataclass(frozen=True, slots=True)
class OpenedSummary:
    """Sentences of a summary that another one folds, shown since a question asks for them.

    Attributes:
        summary_id: Entry of the summary.
        position: Where it stands in its thread.
        sentences: In its order, as it says them.
        text: What a model should read: the sentences, after a header with the days that it tells of
            unless the opened summary before it tells of the same.
    """

    summary_id: str
    position: int
    sentences: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Recall:
    """The result of a recall.

    Attributes:
        matches: Ranked lines, best first.
        blocks: The selected blocks, best first; no line is in two blocks.
        buffer: The thread's relevance buffer afterwards, newest first.
        best_rejected: The relevance of the best line that was not selected, if any.
        problems: Problems that did not stop the recall: a failing embedder, lines not yet embedded,
            a filter that no line fits, or a fixed threshold that no line exceeds, with the best
            cosine similarity.
        verdict: "answered" if a line in the blocks contains most of the question's words; "related"
            if the blocks come close but may not answer it, such as a cat's name if you ask for its
            age; "nothing" without blocks. Because it counts words, a fact stated in different words
            is only "related".
        opened: In a turn, matching sentences from summaries under a parent, in thread order.
    """

    matches: tuple[LineMatch, ...]
    blocks: tuple[RecalledBlock, ...]
    buffer: tuple[RecalledBlock, ...] = ()
    best_rejected: float | None = None
    problems: tuple[str, ...] = ()
    verdict: Verdict = "nothing"
    opened: tuple[OpenedSummary, ...] = ()

    def __str__(self) -> str:
        """What a model would read, under the verdict; problems come last."""
        texts = [f"{self.verdict}: {len(self.blocks)} block{'s' * (len(self.blocks) != 1)}"]
        texts += [*(block.text for block in self.blocks), *(one.text for one in self.opened)]
        return "\n\n".join([*texts, *self.problems])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - IPython's
        printer.text(str(self))
