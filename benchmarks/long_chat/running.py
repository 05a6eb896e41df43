"""One chat, taken by our memory and by its rivals."""

from __future__ import annotations

import hashlib
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks.long_chat.chat import Exchange, chat
from benchmarks.long_chat.facts import Fact, facts
from benchmarks.long_chat.judging import tells
from benchmarks.long_chat.peers import Peer, Room, open_peers
from benchmarks.long_chat.summarisers import Meter, Style, make_summarizer
from benchmarks.terminal import show_progress
from langchain_convmem import ConversationMemory
from langchain_convmem.records import Entry
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.views.messages import count_tokens
from tests.fuzz.validators import VALIDATORS

__all__ = ["ROOM", "SETTINGS", "WINDOW", "Asked", "Measured", "TurnSeen", "measured"]

CONTEXT_TOKENS = 4000
SETTINGS = SummarySettings(
    trigger=("tokens", 2000),
    keep=("tokens", 800),
    first_pause_s=0.001,  # no clock decides what happens
)
WINDOW = 20
"""Messages that the simplest rival keeps."""
_HERE = {"user_id": "ana", "thread_id": "long"}
ROOM = Room(
    context=CONTEXT_TOKENS,
    high=2000,
    low=800,
    summary=SETTINGS.max_summary_tokens + SETTINGS.facts_tokens,
)
"""What the peers have: the budget, the marks and the length of a summary are ours."""


@dataclass(frozen=True, slots=True)
class TurnSeen:
    """What the model got in one turn, in numbers.

    Attributes:
        tokens: Of all messages, by system.
        taken_ms: How long the turn took.
        calls: Of the summariser, after the turn.
        faults: Why a provider would refuse the messages.
        uncovered: Entries that are neither there nor covered by the live summary chain.
        is_same_prefix: Whether all before the new message begins as in the turn before; None where
            a compaction came between.
    """

    tokens: dict[str, int]
    taken_ms: float
    calls: int
    faults: tuple[str, ...]
    uncovered: int
    is_same_prefix: bool | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for a fact, and what stood in whose context.

    Attributes:
        found: Whether the answer did, by system.
        missaid: Whether something else did that the summariser wrote for it.
    """

    kind: str
    question: str
    answer: str
    is_at_the_end: bool
    found: dict[str, bool]
    missaid: dict[str, bool]


@dataclass(slots=True)
class Measured:
    """Everything measured in one run.

    Attributes:
        style: How the summariser writes.
        turns: In order.
        asked: In order.
        standing: By system, the facts by their kind that stand in the last context before the
            questions.
        meters: What the summariser read and wrote, by system.
        said_tokens: Of the whole chat.
        summaries: What stands with each summary about how it was made.
        evicted: Entries that the model no longer sees as they were said, by role.
        sought: How many of them were looked for.
        not_found: Texts of those that recall did not find.
        seconds: Time of the whole run.
    """

    style: Style
    turns: list[TurnSeen] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    standing: dict[str, list[str]] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    said_tokens: int = 0
    summaries: list[dict[str, Any]] = field(default_factory=list)
    evicted: dict[str, int] = field(default_factory=dict)
    sought: int = 0
    not_found: list[str] = field(default_factory=list)
    seconds: float = 0.0


def measured(turns: int, planted: int, sample: int, style: Style = "quoting") -> Measured:
    """Take the chat; return what was seen of it.

    Args:
        turns: How many there are.
        planted: How many facts are said in them.
        sample: How many evicted entries are looked for.
        style: How the summariser writes.
    """
    begun = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-long-chat-") as folder,
        _LongChat(Path(folder) / "memory.db", style) as long,
    ):
        for exchange in chat(turns, planted):
            show_progress(f"{style}: turn {exchange.number:,} of {turns:,}")
            long.take(exchange, is_at_the_end=exchange.number > turns - planted)
            if exchange.number == turns - planted:
                long.note_standing(facts(planted))
        show_progress("looking for what was evicted")
        long.look_for_evicted(sample)
    long.found.seconds = time.perf_counter() - begun
    return long.found


class _LongChat:
    """A chat with our memory and its rivals, judged turn by turn.

    A context manager; not thread-safe.
    """

    def __init__(self, path: Path, style: Style) -> None:
        self.found = Measured(style)
        summarizer, self._meter = make_summarizer(style, ROOM.summary)
        self._peers: list[Peer] = open_peers(ROOM, style)
        self.found.meters = {
            "convmem": self._meter,
            **{peer.name: peer.meter for peer in self._peers},
        }
        self._memory = ConversationMemory.open(
            path,
            summarizer=summarizer,
            summary_settings=SETTINGS,
            summarize_when="foreground",
        )
        self._chain = self._memory.wrap(RunnableLambda(self._answer), context_tokens=CONTEXT_TOKENS)
        self._said: list[BaseMessage] = []
        self._said_tokens = 0
        self._uncovered: set[str] = set()
        self._prefix: list[str] | None = None
        self._got: list[BaseMessage] = []
        self._replies: list[BaseMessage] = []
        self._contexts: dict[str, Sequence[BaseMessage]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.close()

    def _answer(self, given: dict[str, Any]) -> list[BaseMessage]:
        self._got = list(given["messages"])
        return self._replies

    def take(self, exchange: Exchange, *, is_at_the_end: bool) -> None:
        """Take one turn, and judge what the model got."""
        human = HumanMessage(exchange.user, id=f"{exchange.number}-said")
        self._replies = _replies(exchange)
        config: RunnableConfig = {"configurable": dict(_HERE)}
        calls, start = self._meter.calls, time.perf_counter()
        self._chain.invoke(human, config)
        taken_ms = (time.perf_counter() - start) * 1000
        self._said_tokens += count_tokens([human])
        whole = [*self._said, human]
        self._contexts = {
            "convmem": self._got,
            **{peer.name: peer.take(human, self._replies) for peer in self._peers},
            "full": whole,
            f"last {WINDOW}": _window(whole),
        }
        self.found.turns.append(self._seen(self._contexts, taken_ms))
        if exchange.asks is not None:
            self._ask(exchange.asks, is_at_the_end=is_at_the_end)
        self._remember([human, *self._replies], is_compacted=self._meter.calls > calls)
        self.found.said_tokens = self._said_tokens

    def _ask(self, fact: Fact, *, is_at_the_end: bool) -> None:
        found = {name: tells(one, fact.answer) for name, one in self._contexts.items()}
        missaid = {
            name: any(
                tells(self._contexts[name], wrong) for wrong in _list_slips(meter, fact.answer)
            )
            for name, meter in self.found.meters.items()
        }
        asked = Asked(fact.kind, fact.question, fact.answer, is_at_the_end, found, missaid)
        self.found.asked.append(asked)

    def note_standing(self, known: Sequence[Fact]) -> None:
        """Note which facts stand in the contexts of the last turn, whatever it was about."""
        self.found.standing = {
            name: [one.kind for one in known if tells(self._contexts[name], one.answer)]
            for name in self.found.meters
        }

    def _seen(self, contexts: Mapping[str, Sequence[BaseMessage]], taken_ms: float) -> TurnSeen:
        return TurnSeen(
            tokens={
                # All messages are counted as they come, or it would take longer than the chat.
                name: self._said_tokens if name == "full" else count_tokens(messages)
                for name, messages in contexts.items()
            },
            taken_ms=taken_ms,
            calls=self._meter.calls,
            faults=tuple(VALIDATORS["strict"](self._got)),
            uncovered=len(self._uncovered - {str(one.id) for one in self._got}),
            is_same_prefix=self._has_same_prefix(),
        )

    def _has_same_prefix(self) -> bool | None:
        now = [_digest(message) for message in self._got[:-1]]
        before, self._prefix = self._prefix, now
        return None if before is None else now[: len(before)] == before

    def _remember(self, messages: Sequence[BaseMessage], *, is_compacted: bool) -> None:
        self._said += messages
        self._said_tokens += count_tokens(list(messages[1:]))
        self._uncovered.update(str(message.id) for message in messages)
        if is_compacted:
            self._prefix = None
            entries = self._entries()
            self._uncovered.difference_update(str(one.message_id) for one in _covered(entries))

    def _entries(self) -> list[Entry]:
        return self._memory.history(_HERE["thread_id"], user_id=_HERE["user_id"]).entries

    def look_for_evicted(self, sample: int) -> None:
        """Look for entries that the model no longer sees by their own text."""
        entries = self._entries()
        self.found.summaries = [
            dict(one.metadata.aux["summary"]) for one in entries if one.role == "summary"
        ]
        evicted = _covered(entries)
        for entry in evicted:
            self.found.evicted[entry.role] = self.found.evicted.get(entry.role, 0) + 1
        lines = [
            one
            for one in evicted
            if one.role in ("user", "assistant")
            # Asked with a question, recall puts earlier askings of it last: they answer nothing.
            and "".join(one.contents).rstrip()[-1:] not in ("", "?")
        ]
        chosen = random.Random(5).sample(lines, min(sample, len(lines)))
        self.found.sought = len(chosen)
        for entry in chosen:
            text = "\n".join(entry.contents)
            blocks = self._memory.recall(text, user_id=_HERE["user_id"]).blocks
            # What was said twice in the same words may be found where it was said first.
            if not any(line.text == text for one in blocks for line in one.lines):
                self.found.not_found.append(text)


def _replies(exchange: Exchange) -> list[BaseMessage]:
    """Return what the model and its tools say: calls, all at once, their results, the answer."""
    name = f"{exchange.number}"
    messages: list[BaseMessage] = []
    if exchange.calls:
        calls: list[Any] = [
            {"name": call.name, "args": {"topic": call.topic}, "id": f"call-{name}-{place}"}
            for place, call in enumerate(exchange.calls)
        ]
        messages.append(AIMessage("", tool_calls=calls, id=f"{name}-calls"))
        messages += [
            ToolMessage(call.result, tool_call_id=made["id"], id=f"{name}-result-{place}")
            for place, (call, made) in enumerate(zip(exchange.calls, calls, strict=True))
        ]
    return [*messages, AIMessage(exchange.answer, id=f"{name}-answer")]


def _window(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    kept = list(messages[-WINDOW:])
    start = next(number for number, one in enumerate(kept) if one.type == "human")
    return kept[start:]


def _covered(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that the live summaries stand for, and those that these were made of.

    Read from the summaries' own records, apart from the package's views. Nothing is taken back in
    this chat, so whatever no other summary was made of is live.
    """
    summaries = {one.id: one for one in entries if one.role == "summary"}
    named = {name for one in summaries.values() for name in one.metadata.summary_ids}
    todo = [one for one in summaries.values() if one.id not in named]
    ranges: list[tuple[int, int]] = []
    while todo:
        one = todo.pop()
        ranges += one.cover.ranges if one.cover is not None else ()
        todo += [summaries[name] for name in one.metadata.summary_ids if name in summaries]
    positions = {place for first, last in ranges for place in range(first, last + 1)}
    return [one for one in entries if one.position in positions and one.role != "summary"]


def _list_slips(meter: Meter, answer: str) -> list[str]:
    """Return what the summariser wrote for an answer that says something else."""
    return [wrong for wrong, right in meter.slips.items() if right == answer]


def _digest(message: BaseMessage) -> str:
    return hashlib.blake2b(message.model_dump_json().encode(), digest_size=16).hexdigest()
