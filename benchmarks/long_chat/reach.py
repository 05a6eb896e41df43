"""How much of what was said stays within reach, over hundreds of compactions."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks.long_chat.chat import small_talk
from benchmarks.long_chat.facts import Values
from benchmarks.long_chat.judging import tells
from benchmarks.long_chat.sayings import SAYINGS
from benchmarks.long_chat.summarisers import Meter, Style, make_summarizer
from benchmarks.terminal import show_progress
from langchain_convmem import ConversationMemory, UniversalSentenceEmbeddings
from langchain_convmem.recall import MiniLMEmbeddings
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.views.messages import count_tokens

__all__ = [
    "CHECKPOINTS",
    "EMBEDDERS",
    "SETTINGS",
    "Embedder",
    "Reach",
    "Saying",
    "list_sayings",
    "measured",
]

SETTINGS = SummarySettings(
    trigger=("tokens", 400),
    keep=("tokens", 150),
    max_summary_tokens=120,
    facts_tokens=60,
    first_pause_s=0.001,  # no clock decides what happens
)
Embedder: TypeAlias = Literal["default", "minilm"]
"""What comes with the package, or all-MiniLM-L6-v2, which is installed apart."""
CHECKPOINTS = 10
_ASKED = 60
"""Facts that are asked for at a checkpoint; all of them at the last one."""
_BY_ASSISTANT = 0.15
_ASIDE = 0.7
"""How often a turn has small talk beside a fact."""
EMBEDDERS: dict[Embedder, type[Embeddings]] = {
    "default": UniversalSentenceEmbeddings,
    "minilm": MiniLMEmbeddings,
}
_HERE: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "long"}}
_MADE_BY = {"price": "price", "code": "code", "date": "date", "name": "person"}


@dataclass(frozen=True, slots=True)
class Saying:
    """A fact that is said once.

    Attributes:
        kind: What sort of thing it is.
        said: The sentence.
        by_user: Whether the user says it; else the assistant does.
        answer: What a text must hold that answers the questions.
        question: Asks for it in other words.
        plain: Asks for it with the words it was said in, in another sentence.
    """

    kind: str
    said: str
    by_user: bool
    answer: str
    question: str
    plain: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A fact that was asked for, and where its answer stood.

    Attributes:
        compactions: How many there were by then.
        in_view: In what is shown whatever the question is: the summary and the latest turns.
        in_words_of_its_own: In the whole context, asked with the words it was said in.
        in_other_words: In the whole context, asked in other words.
    """

    saying: Saying
    compactions: int
    in_view: bool
    in_words_of_its_own: bool
    in_other_words: bool


@dataclass(slots=True)
class Reach:
    """Everything measured in one run.

    Attributes:
        style: How the summariser writes.
        embedder: What recall compares texts with.
        asked: By checkpoint.
        view_tokens: Of a context without what the question called for, by checkpoint.
        turns: How many turns it took.
        said_tokens: Of the whole chat.
        meter: What the summariser read and wrote.
        seconds: Time of the whole run.
    """

    style: Style
    embedder: Embedder
    asked: list[list[Asked]] = field(default_factory=list)
    view_tokens: list[int] = field(default_factory=list)
    turns: int = 0
    said_tokens: int = 0
    meter: Meter = field(default_factory=Meter)
    seconds: float = 0.0


def list_sayings(count: int | None = None) -> list[Saying]:
    """Return so many facts, or all, the kinds by turns, the same in every run."""
    chance = random.Random("sayings 3")
    values = Values(chance)
    by_kind = [list(_sayings_of(kind, values, chance)) for kind in SAYINGS]
    for one in by_kind:
        chance.shuffle(one)
    return [saying for row in zip(*by_kind, strict=True) for saying in row][:count]


def _sayings_of(kind: str, values: Values, chance: random.Random) -> Iterator[Saying]:
    sayings = SAYINGS[kind]
    for subject, told, question in sayings.lines:
        by_user = chance.random() >= _BY_ASSISTANT
        value = told or values.from_chain(_MADE_BY[kind])
        wording = chance.choice(sayings.wordings if by_user else sayings.replies)
        said = wording.format(subject=subject, value=value)
        yield Saying(
            kind=kind,
            said=said[0].upper() + said[1:],
            by_user=by_user,
            answer=value,
            question=question,
            plain=sayings.plain.format(subject=subject),
        )


def measured(
    compactions: int,
    facts: int | None = None,
    style: Style = "retelling",
    embedder: Embedder = "default",
) -> Reach:
    """Take a chat until it was compacted so often, and ask on the way; return what was found.

    Args:
        compactions: How often; at least as many as there are checkpoints.
        facts: How many facts are said, evenly spread; None says all that there are.
        style: How the summariser writes.
        embedder: What recall compares texts with.
    """
    begun = time.perf_counter()
    sayings = list_sayings(facts)
    found = Reach(style, embedder)
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-reach-") as folder,
        _Chat(Path(folder) / "memory.db", found) as chat,
    ):
        told: list[Saying] = []
        for checkpoint in range(1, CHECKPOINTS + 1):
            until = compactions * checkpoint // CHECKPOINTS
            while chat.compactions < until:
                is_due = len(told) * compactions <= chat.compactions * len(sayings)
                chat.take(sayings[len(told)] if is_due and len(told) < len(sayings) else None)
                told = sayings[: len(told) + is_due]
                show_progress(f"{style}: compaction {chat.compactions:,} of {compactions:,}")
            chat.wait()
            asked = told if checkpoint == CHECKPOINTS else _sampled(told, checkpoint)
            view = chat.look()
            found.asked.append([chat.ask(one, view) for one in asked])
            found.view_tokens.append(count_tokens(view))
    found.seconds = time.perf_counter() - begun
    return found


def _sampled(told: Sequence[Saying], checkpoint: int) -> list[Saying]:
    """Return facts of all ages and kinds, those said before the latest few."""
    if len(told) <= _ASKED:
        return list(told)
    return random.Random(f"asked {checkpoint}").sample(list(told), _ASKED)


class _Chat:
    """A chat with our memory. A context manager; not thread-safe."""

    def __init__(self, path: Path, found: Reach) -> None:
        summarizer, found.meter = make_summarizer(found.style, SETTINGS.max_summary_tokens)
        self._found = found
        self._memory = ConversationMemory.open(
            path,
            embeddings=EMBEDDERS[found.embedder](),
            summarizer=summarizer,
            summary_settings=SETTINGS,
            summarize_when="foreground",
        )
        inner = RunnableLambda(self._answer)
        self._chain = self._memory.wrap(inner)
        # What a question brings is measured, and leaves no trace.
        self._asking = self._memory.wrap(inner, remember=False)
        self._looking = self._memory.wrap(inner, remember=False, recall=False)
        self._got: list[BaseMessage] = []
        self._reply = ""
        self.compactions = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.close()

    def _answer(self, given: dict[str, Any]) -> str:
        self._got = list(given["messages"])
        return self._reply

    def take(self, saying: Saying | None) -> None:
        """Take a turn, in which something may be said that is worth remembering."""
        self._found.turns += 1
        chance = random.Random(f"reach {self._found.turns}")
        user, self._reply = small_talk(chance)
        if saying is not None:
            said = f"{user} {saying.said}" if chance.random() < _ASIDE else saying.said
            if saying.by_user:
                user = said
            else:
                self._reply = said
        calls = self._found.meter.calls
        self._chain.invoke(HumanMessage(user), _HERE)
        self._found.said_tokens += count_tokens([HumanMessage(user), AIMessage(self._reply)])
        if self._found.meter.calls > calls:
            self.compactions = self._count_compactions()

    def _count_compactions(self) -> int:
        # A parent stands over summaries that were counted.
        entries = self._memory.history("long", user_id="ana").entries
        made = [one.metadata.aux.get("summary", {}) for one in entries if one.role == "summary"]
        return sum(not one.get("level", 0) for one in made)

    def wait(self) -> None:
        """Wait until recall knows all that was said."""
        self._memory.recall("Well?", user_id="ana")

    def look(self) -> list[BaseMessage]:
        """Return what is shown whatever is asked."""
        self._looking.invoke(HumanMessage("Well?"), _HERE)
        return self._got

    def ask(self, saying: Saying, view: Sequence[BaseMessage]) -> Asked:
        """Ask for a fact in two ways; the questions are not stored."""
        return Asked(
            saying,
            self.compactions,
            tells(view, saying.answer),
            self._brings(saying.plain, saying.answer),
            self._brings(saying.question, saying.answer),
        )

    def _brings(self, question: str, answer: str) -> bool:
        self._asking.invoke(HumanMessage(question), _HERE)
        return tells(self._got, answer)
