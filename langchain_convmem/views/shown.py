"""What views and recall show: turns, contexts, blocks of recalled lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_convmem.records import DialogLine, Entry, Metadata, Role
from langchain_convmem.views.markup import format_turn, render_recall, render_turn
from langchain_convmem.views.messages import TokenCounter, count_tokens

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
        return format_turn(self, type(self).__name__)

    def _repr_html_(self) -> str:
        return render_turn(self)


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A line in the ranking of one recall.

    Attributes:
        line: The line.
        relevance: Fused and smoothed score; larger is closer, no fixed range.
        similarity: Cosine in [-1, 1] to the query; 0.0 when the line has no vector.
        why: Short reasons (`meaning`, `kind`, `words: ...`, `speaker`, `date`, `neighbours`).
    """

    line: DialogLine
    relevance: float
    similarity: float
    why: tuple[str, ...] = ()


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

    def _repr_html_(self) -> str:
        return render_recall(self)


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
