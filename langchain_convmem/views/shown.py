"""What views and recall show: turns, contexts, recalled lines; and what a person reads of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.records import DialogLine, Entry, Metadata, Role
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.media import describe_media, read_media
from langchain_convmem.views.messages import TokenCounter, count_tokens, get_block_type
from langchain_convmem.views.tool_calls import CALL_BLOCKS, find_calls

Verdict: TypeAlias = Literal["answered", "related", "nothing"]
"""What a recall says of itself; see `Recall.verdict`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A maximal run of one role, as the views show it.

    Attributes:
        id: Id of its first entry; a placeholder's id is derived and the same in every process.
        role: The role of all its parts.
        contents: Text pieces of all parts, in order, blank ones left out.
        entries: The parts, in order; empty for a placeholder.
        metadata: One `merged` mark per further part; timings of the first part win where both
            set the same name; aux keys of later parts win.
    """

    id: str
    role: Role
    contents: tuple[str, ...]
    entries: tuple[Entry, ...]
    metadata: Metadata

    def __repr__(self) -> str:
        text = shorten_text(" ".join(describe_turn(self)))
        parts = f", {len(self.entries)} parts" if len(self.entries) > 1 else ""
        return f"{type(self).__name__}({self.role}: {text!r}{parts}, id={self.id!r})"


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
    """The answer to one recall.

    Attributes:
        matches: Ranked lines, best first.
        blocks: What was selected, best first; no line stands in two blocks.
        buffer: The thread's relevance buffer afterwards, newest first.
        best_rejected: Relevance, a number, of the best line that was not selected, if any.
        problems: What went wrong without stopping the recall: a failing embedder, lines that wait
            for it, or a fixed threshold that no line surpasses, with the best cosine.
        verdict: "answered" where a line of the blocks holds most of what the question asks about;
            "related" where blocks come near it, yet what is asked may never have been said, such as
            a cat's age where only its name is known; "nothing" without blocks. It counts words: a
            fact that is told in other words than the question's is "related".
        opened: In a turn, what folded summaries of its thread say to the question, in the order of
            what they cover.
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


@dataclass(frozen=True)
class Context:
    """What a model gets.

    Attributes:
        messages: Valid for the provider they were built for; fresh copies.
        repairs: What had to be repaired, one sentence each; empty for a sound history.
        positions: Positions of the entries that `messages` show.
        is_whole: Whether the budget leaves nothing out of the entries that were read.
        left_out: How many earlier messages `messages` neither show nor summarise: exact where all
            of the thread was read, else at least so many.
        token_counter: Counts `tokens`.
    """

    messages: list[BaseMessage]
    repairs: tuple[str, ...]
    positions: frozenset[int]
    is_whole: bool = True
    left_out: int = 0
    token_counter: TokenCounter = field(default=count_tokens, repr=False, compare=False)

    @cached_property
    def tokens(self) -> int:
        """Size of `messages` by the token counter, counted when it is first asked for."""
        return self.token_counter(self.messages)


def shorten_text(text: str, limit: int = 60) -> str:
    """Return a text on one line, cut to `limit` characters with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# -- Values for people: what an entry, a block or a turn holds as text -----------------------------
def describe_entry(entry: Entry) -> list[str]:
    """Return what an entry holds, for a person: its content, then `[calls weather(city="Porto")]`.

    What is not text has a note in its place, so that nothing vanishes without a trace.
    """
    calls = [f"[calls {name}({arguments})]" for name, arguments in list_calls(entry.message)]
    return [*describe_content(entry), *calls]


def describe_content(entry: Entry) -> list[str]:
    """Return the pieces of an entry's content in order, without the calls that it makes."""
    if entry.message is None or isinstance(entry.message.content, str):
        return list(entry.contents)
    described = map(describe_block, entry.message.content)
    return [piece for piece in described if piece.strip()]


def describe_block(block: Any) -> str:
    """Return a content block as text: its own, or a note such as `[image, png, 86 kB]`.

    Empty for a block that repeats a call of its message.
    """
    if not isinstance(block, Mapping):
        return str(block)
    kind = get_block_type(block)
    if kind in CALL_BLOCKS:
        return ""
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    media = read_media(block)
    return describe_media(media) if media else f"[{kind or next(iter(block), 'empty')}]"


def list_calls(message: BaseMessage | None) -> list[tuple[str, str]]:
    """Return the name and the arguments, such as `city="Porto"`, of each call of a message.

    Arguments that cannot be read come as the model wrote them.
    """
    calls = [
        (call["name"], ", ".join(f"{k}={describe_as_json(v)}" for k, v in call["args"].items()))
        for call in find_calls(message)
    ]
    broken = message.invalid_tool_calls if isinstance(message, AIMessage) else []
    return [*calls, *((call["name"] or "?", call["args"] or "") for call in broken)]


def describe_turn(turn: Turn) -> Sequence[str]:
    """Return the pieces of a turn for a person; a placeholder has a text but no entries."""
    return [piece for entry in turn.entries for piece in describe_entry(entry)] or turn.contents
