"""A person's memory, stored and asked as an application does, and what an answer is worth."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.personal.data import Kind, Message, Person, Piece, Question, Thread
from benchmarks.recall.measuring import (
    count_tokens,
    find_interval,
    find_mean,
    fold_spaces,
    take,
)
from benchmarks.recall.systems import DAY_MS, count_characters
from langchain_convmem import ConversationMemory
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.words.analysis import analyze, extract_query_terms
from langchain_convmem.words.bm25 import LexicalIndex

BUDGETS = (300, 1000)
"""Tokens of an answer; the larger one is that of a default turn."""
_ASKED_IN = "asked-now"
_LABELS = {"user": "User", "assistant": "Assistant"}
_UNANSWERED: tuple[Kind, ...] = ("off_topic", "courtesies", "near_topic")


class Answer(NamedTuple):
    """The blocks that a model would read, best first, and what the recall says of itself."""

    blocks: tuple[str, ...]
    verdict: str = ""


Way: TypeAlias = Callable[[str], Answer]
"""A way to ask a memory a question."""


def fill_threads(own: Person, size: int, ordinary: Sequence[Thread]) -> list[Thread]:
    """Return a person's threads and whole ordinary ones, with about `size` user messages in all.

    They are shuffled by the person's name, the same every time.

    Raises:
        ValueError: If all of them together have fewer, or the person alone has more.
    """
    missing = size - own.exchanges
    most = sum(thread.exchanges for thread in ordinary)
    if not 0 <= missing <= most:
        least = own.exchanges
        raise ValueError(f"a memory of {own.name} holds {least} to {least + most} user messages")
    taken = list(own.threads)
    for thread in random.Random(own.name).sample(ordinary, len(ordinary)):
        if missing <= 0:
            break
        taken.append(thread)
        missing -= thread.exchanges
    return taken


class PersonalMemory:
    """A memory of one user, its index warm."""

    def __init__(self, user_id: str, threads: Sequence[Thread], embeddings: Embeddings) -> None:
        self._user_id = user_id
        self._memory = ConversationMemory.open(":memory:", embeddings=embeddings)
        for thread in threads:
            messages = [_make_message(message) for message in thread.messages]
            self._memory.add_messages(messages, thread_id=thread.name, user_id=user_id)
        self._memory.refresh(user_id=user_id)
        said = [(thread.name, message) for thread in threads for message in thread.messages]
        self._now_ms = max(message.time_ms for _, message in said) + DAY_MS
        self._texts = [f"{_LABELS[message.role]}: {message.text}" for _, message in said]
        self._words = LexicalIndex()
        self._words.add([analyze(text) for text in self._texts])

    def ask(self, question: str, **options: Any) -> Answer:
        """Return what `LineRecall.recall` finds in a new thread, a day after the last line."""
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
        return Answer(tuple(block.text for block in found.blocks), str(found.verdict))

    def ask_by_words(self, question: str, max_tokens: int) -> Answer:
        """Return the best single lines by BM25."""
        found = self._words.find(extract_query_terms(question))
        scores = self._words.compute_scores(found, b=0.75)
        best = np.argsort(-scores, kind="stable").tolist()
        return Answer(tuple(take((self._texts[number] for number in best), max_tokens)))


def _make_message(message: Message) -> BaseMessage:
    said_at = datetime.fromtimestamp(message.time_ms / 1000, UTC).isoformat()
    kind = AIMessage if message.role == "assistant" else HumanMessage
    return kind(content=message.text, additional_kwargs={"timestamp": said_at})


def list_ways(memory: PersonalMemory, max_tokens: int) -> dict[str, Way]:
    """Return the ways to ask within a budget."""
    return {
        "default": lambda text: memory.ask(text, max_tokens=max_tokens),
        "plain": lambda text: memory.ask(text, max_tokens=max_tokens, threshold=-1.0),
        "bm25_lines": lambda text: memory.ask_by_words(text, max_tokens),
    }


# -- what an answer is worth -----------------------------------------------------------------


class Outcome(NamedTuple):
    """What came back for a question.

    Attributes:
        kind: The question's.
        tokens: Size of what came back.
        places: For each piece that is needed the first block in which it stands, or None.
        replaced: The same of the piece that an update replaced.
        verdict: What the recall says of itself.
    """

    kind: Kind
    tokens: float
    places: tuple[int | None, ...] = ()
    replaced: int | None = None
    verdict: str = ""

    @property
    def found(self) -> float:
        """The share of the needed pieces that came back."""
        return sum(place is not None for place in self.places) / len(self.places)

    @property
    def is_new_first(self) -> bool:
        """Whether the new value came back, and in an earlier block than the old one."""
        [new] = self.places
        return new is not None and (self.replaced is None or new < self.replaced)


def ask_all(way: Way, questions: Iterable[Question]) -> list[Outcome]:
    """Return what comes back for each question."""
    return [judge(question, way(question.text)) for question in questions]


def judge(question: Question, answer: Answer) -> Outcome:
    """Return what an answer is worth."""
    folded = [fold_spaces(block) for block in answer.blocks]

    def find(piece: Piece) -> int | None:
        says = fold_spaces(piece.says)
        return next((number for number, block in enumerate(folded) if says in block), None)

    return Outcome(
        question.kind,
        count_tokens(answer.blocks),
        tuple(find(piece) for piece in question.needs),
        None if question.replaced is None else find(question.replaced),
        answer.verdict,
    )


def list_figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures of one way to ask; None where no question asks for them."""
    by_kind: dict[Kind, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.kind].append(outcome)
    found = {
        kind: [outcome.found for outcome in by_kind[kind]]
        for kind in ("word", "other", "replies", "updates", "several")
    }
    updates = found.pop("updates")
    several = found.pop("several")
    values: dict[str, list[float]] = {
        **found,
        "new_present": updates,
        "new_first": [outcome.is_new_first for outcome in by_kind["updates"]],
        "several": several,
        "complete": [share == 1.0 for share in several],
        "tokens": [x.tokens for x in outcomes if x.kind not in _UNANSWERED],
        **{kind: [outcome.tokens for outcome in by_kind[kind]] for kind in _UNANSWERED},
    }
    verdicts = {kind: Counter(one.verdict for one in part) for kind, part in by_kind.items()}
    return {
        **{name: find_mean(part) for name, part in values.items()},
        "verdicts": {kind: dict(sorted(part.items())) for kind, part in verdicts.items()},
        "interval_95": {name: find_interval(part) for name, part in values.items()},
    }
