"""A person's memory, stored and asked as an application does, and the yardsticks beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.personal.data import Message, Person, Thread
from benchmarks.recall.data import Line
from benchmarks.recall.systems import DAY_MS, Units, UnitSystem, count_characters
from langchain_convmem import ConversationMemory, RecallSettings
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.turns.memory import get_turn_memory

__all__ = [
    "BUDGET",
    "Answer",
    "PersonalMemory",
    "Way",
    "fill_threads",
    "ways_to_ask",
    "ways_within",
]

BUDGET = 1000
"""Tokens of a default turn."""

_ASKED_IN = "asked-now"
_LABELS = {"user": "User", "assistant": "Assistant"}
_USER_LINES = replace(
    RecallSettings(),
    kind_weight=0.0,
    meaning_first=False,
    lexical_weight=0.0,
    kernel=(1.0,),
    speaker_bonus=0.0,
    date_bonus=0.0,
    session_prior=0.0,
    budget_window=0,
)
"""Cosine alone, no neighbours."""


class Answer(NamedTuple):
    """The blocks that a model would read, best first, and what the recall says of itself."""

    blocks: tuple[str, ...]
    verdict: str | None = None


Way: TypeAlias = Callable[[str], Answer]
"""A way to ask a memory a question."""


# -- what it holds ---------------------------------------------------------------------------


def fill_threads(own: Person, size: int, ordinary: Sequence[Thread]) -> list[Thread] | None:
    """Return a person's threads and others', with about `size` user messages in all.

    Args:
        own: Whose threads come first.
        size: Ordinary threads are taken whole, so that a few more messages may stand there.
        ordinary: Shuffled by the person's name, the same every time.

    Returns:
        None where all of them together have fewer, or the person alone has more.
    """
    missing = size - own.exchanges
    if missing < 0 or missing > sum(thread.exchanges for thread in ordinary):
        return None
    shuffle = random.Random(own.name)
    taken = list(own.threads)
    for thread in shuffle.sample(ordinary, len(ordinary)):
        if missing <= 0:
            break
        taken.append(thread)
        missing -= thread.exchanges
    return taken


class PersonalMemory:
    """A memory of one user, its index warm."""

    def __init__(self, user_id: str, threads: Sequence[Thread], embeddings: Embeddings) -> None:
        """Store threads and index them.

        Args:
            user_id: Whose they are.
            threads: What was said.
            embeddings: What it is embedded with.
        """
        self._user_id = user_id
        self._threads = threads
        self._embeddings = embeddings
        self._memory = ConversationMemory.open(":memory:", embeddings=embeddings)
        for thread in threads:
            messages = [_message(message) for message in thread.messages]
            self._memory.add_messages(messages, thread_id=thread.name, user_id=user_id)
        self._memory.refresh(user_id=user_id)
        last_ms = max(message.time_ms for thread in threads for message in thread.messages)
        self._now_ms = last_ms + DAY_MS

    def ask(self, question: str, **options: Any) -> Answer:
        """Return what a recall finds in a new thread, a day after the last line.

        Args:
            question: What is asked.
            **options: Those of `LineRecall.recall`.
        """
        # As `memory.recall` does, which takes no time of asking.
        found = get_turn_memory(self._memory).line_recall.recall(
            Owner(user_id=self._user_id),
            question,
            buffer=ThreadKey(self._user_id, _ASKED_IN),
            remember=False,
            now_ms=self._now_ms,
            count_text=count_characters,
            **options,
        )
        verdict = getattr(found, "verdict", None)
        blocks = tuple(block.text for block in found.blocks)
        return Answer(blocks, None if verdict is None else str(verdict))

    def lines_by_words(self) -> UnitSystem:
        """Return the memory's single lines, ranked by BM25."""
        return UnitSystem(Units([[line] for line in self._lines()], self._embeddings), "bm25")

    def _lines(self) -> list[Line]:
        return [
            Line("", thread.name, "", "", _LABELS[message.role], message.text, message.role)
            for thread in self._threads
            for message in thread.messages
        ]


def _message(message: Message) -> BaseMessage:
    said_at = datetime.fromtimestamp(message.time_ms / 1000, UTC).isoformat()
    marks = {"timestamp": said_at}
    if message.role == "assistant":
        return AIMessage(content=message.text, additional_kwargs=marks)
    return HumanMessage(content=message.text, additional_kwargs=marks)


# -- ways to ask it --------------------------------------------------------------------------


def ways_to_ask(memory: PersonalMemory) -> dict[str, Way]:
    """Return ours and the yardsticks, by name."""
    within = ways_within(memory, BUDGET)

    def plainly(question: str) -> Answer:
        return memory.ask(question, max_tokens=BUDGET, threshold=-1.0)

    def for_three(question: str) -> Answer:
        return memory.ask(question, k=3)

    def in_user_lines(question: str) -> Answer:
        return memory.ask(
            question,
            max_tokens=BUDGET,
            threshold=-1.0,
            filter={"role": "user"},
            settings=_USER_LINES,
        )

    return {
        "default": within["default"],
        "plain": plainly,
        "k3": for_three,
        "user_lines": in_user_lines,
        "bm25_lines": within["bm25_lines"],
    }


def ways_within(memory: PersonalMemory, max_tokens: int) -> dict[str, Way]:
    """Return the default turn and lines by BM25, both within a budget."""
    by_words = memory.lines_by_words()

    def by_default(question: str) -> Answer:
        return memory.ask(question, max_tokens=max_tokens)

    def in_lines_by_words(question: str) -> Answer:
        return Answer(tuple(by_words.find(question, max_tokens).texts))

    return {"default": by_default, "bm25_lines": in_lines_by_words}
