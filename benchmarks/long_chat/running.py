"""One chat, taken by our memory and by its rivals; and what was seen of it, as a report."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks import ui
from benchmarks.long_chat.peers import Room, open_peers
from benchmarks.long_chat.script import Exchange, Fact, chat, tells
from benchmarks.long_chat.summarisers import Meter, Style, open_memory
from benchmarks.rounds import summarize_ms, time_ms
from langchain_convmem import ConversationMemory
from langchain_convmem.records import Entry
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.views.messages import count_tokens
from tests.fuzz.validators import VALIDATORS

CONTEXT_TOKENS = 4000
SETTINGS = SummarySettings(
    trigger=("tokens", 2000),
    keep=("tokens", 800),
    first_pause_s=0.001,  # no clock decides what happens
)
WINDOW = 20
"""Messages that the simplest rival keeps."""
_OURS = "convmem"
_HERE: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "long"}}
ROOM = Room(CONTEXT_TOKENS, 2000, 800, SETTINGS.max_summary_tokens + SETTINGS.facts_tokens)
"""What the peers have: the budget, the marks and the length of a summary are ours."""
_FLAT, _FACTS, _COST = 1.1, 0.95, 1.2
_SHOWN = 5
"""So many of what went wrong stand in the report."""


class _Turn(NamedTuple):
    """What the model got in one turn, in numbers.

    Attributes:
        tokens: Of all messages, by system.
        taken_ms: How long the turn took.
        faults: Why a provider would refuse the messages.
        uncovered: Entries that are neither there nor covered by the live summary chain.
        is_same_prefix: Whether all before the new message begins as in the turn before; None where
            a compaction came between.
    """

    tokens: dict[str, int]
    taken_ms: float
    faults: list[str]
    uncovered: int
    is_same_prefix: bool | None


class _Asked(NamedTuple):
    """A question for a fact: in whose context the answer stood, in whose a slip beside it."""

    fact: Fact
    is_at_the_end: bool
    found: dict[str, bool]
    missaid: dict[str, bool]


def measure(turns: int, planted: int, sample: int, style: Style = "quoting") -> dict[str, Any]:
    """Take the chat; return figures and bars as plain JSON.

    Args:
        turns: How many there are.
        planted: How many facts are said in them.
        sample: How many evicted entries are looked for.
        style: How the summariser writes.
    """
    with open_memory(style, SETTINGS, ROOM.summary) as (memory, meter):
        long = _LongChat(memory, meter, style)
        for exchange in chat(turns, planted):
            ui.show_progress(f"{style}: turn {exchange.number:,} of {turns:,}")
            long.take(exchange, is_at_the_end=exchange.number > turns - planted)
        ui.show_progress("looking for what was evicted")
        return long.make_report(style, sample)


class _LongChat:
    """A chat with our memory and its rivals, judged turn by turn."""

    def __init__(self, memory: ConversationMemory, meter: Meter, style: Style) -> None:
        self._memory = memory
        self._peers = open_peers(ROOM, style)
        self._meters = {_OURS: meter, **{peer.name: peer.meter for peer in self._peers}}
        self._chain = memory.wrap(RunnableLambda(self._answer), context_tokens=CONTEXT_TOKENS)
        self._turns: list[_Turn] = []
        self._asked: list[_Asked] = []
        self._said: list[BaseMessage] = []
        self._said_tokens = 0
        self._uncovered: set[str] = set()
        self._prefix: list[str] | None = None
        self._got: list[BaseMessage] = []
        self._replies: list[BaseMessage] = []
        self._contexts: dict[str, Sequence[BaseMessage]] = {}

    def _answer(self, given: dict[str, Any]) -> list[BaseMessage]:
        self._got = list(given["messages"])
        return self._replies

    def take(self, exchange: Exchange, *, is_at_the_end: bool) -> None:
        """Take one turn, and judge what the model got."""
        human = HumanMessage(exchange.user, id=f"{exchange.number}-said")
        self._replies = _make_replies(exchange)
        calls = self._meters[_OURS].calls
        taken_ms = time_ms(lambda: self._chain.invoke(human, _HERE))
        self._said_tokens += count_tokens([human])
        self._said.append(human)
        last = self._said[-WINDOW:]
        start = next(number for number, one in enumerate(last) if one.type == "human")
        self._contexts = {
            _OURS: self._got,
            **{peer.name: peer.take(human, self._replies) for peer in self._peers},
            "full": list(self._said),
            f"last {WINDOW}": last[start:],
        }
        self._note_turn(taken_ms)
        if exchange.asks is not None:
            self._ask(exchange.asks, is_at_the_end=is_at_the_end)
        self._said += self._replies
        self._said_tokens += count_tokens(self._replies)
        self._uncovered.update(str(message.id) for message in (human, *self._replies))
        if self._meters[_OURS].calls > calls:
            self._prefix = None
            covered = _list_covered(self._read_entries())
            self._uncovered.difference_update(str(one.message_id) for one in covered)

    def _note_turn(self, taken_ms: float) -> None:
        # All messages are counted as they come, or it would take longer than the chat.
        tokens = {
            name: self._said_tokens if name == "full" else count_tokens(messages)
            for name, messages in self._contexts.items()
        }
        before, self._prefix = self._prefix, [_digest(message) for message in self._got[:-1]]
        is_same = None if before is None else self._prefix[: len(before)] == before
        faults = list(VALIDATORS["strict"](self._got))
        uncovered = len(self._uncovered - {str(one.id) for one in self._got})
        self._turns.append(_Turn(tokens, taken_ms, faults, uncovered, is_same))

    def _ask(self, fact: Fact, *, is_at_the_end: bool) -> None:
        found = {name: tells(one, fact.answer) for name, one in self._contexts.items()}
        missaid = {
            name: any(
                right == fact.answer and tells(self._contexts[name], wrong)
                for wrong, right in meter.slips.items()
            )
            for name, meter in self._meters.items()
        }
        self._asked.append(_Asked(fact, is_at_the_end, found, missaid))

    def _read_entries(self) -> Sequence[Entry]:
        return self._memory.history("long", user_id="ana").entries

    def _look_for(self, evicted: Iterable[Entry], sample: int) -> tuple[int, list[str]]:
        """Return how many evicted entries were looked for by their own text, and those not found.

        Asked with a question, recall puts earlier askings of it last: they answer nothing.
        """
        lines = [
            one
            for one in evicted
            if one.role in ("user", "assistant")
            and "".join(one.contents).rstrip()[-1:] not in ("", "?")
        ]
        chosen = random.Random(5).sample(lines, min(sample, len(lines)))
        not_found = []
        for entry in chosen:
            text = "\n".join(entry.contents)
            blocks = self._memory.recall(text, user_id="ana").blocks
            # What was said twice in the same words may be found where it was said first.
            if not any(line.text == text for one in blocks for line in one.lines):
                not_found.append(text)
        return len(chosen), not_found

    # -- the report --------------------------------------------------------------------------

    def make_report(self, style: Style, sample: int) -> dict[str, Any]:
        """Return figures and bars as plain JSON."""
        turns, entries = self._turns, self._read_entries()
        covered = _list_covered(entries)
        sought, not_found = self._look_for(covered, sample)
        compared = [one.is_same_prefix for one in turns if one.is_same_prefix is not None]
        made = [one.metadata.aux["summary"] for one in entries if one.role == "summary"]
        # What parents tell stands in the summaries below them.
        leaves = [one for one in made if not one.get("level")]
        report: dict[str, Any] = {
            "machine": ui.describe_machine("langchain", "langmem"),
            "turns": len(turns),
            "style": style,
            "tokens": {name: self._list_tokens(name) for name in self._contexts},
            "facts": {name: self._count_facts(name) for name in self._contexts},
            "cost": {name: self._list_cost(meter) for name, meter in self._meters.items()},
            "missaid": {
                name: sum(one.missaid[name] for one in self._asked if one.is_at_the_end)
                for name in self._meters
            },
            "not_told": [
                {"question": one.fact.question, "answer": one.fact.answer}
                for one in self._asked
                if not one.found[_OURS]
            ][:_SHOWN],
            "turn_ms": summarize_ms([one.taken_ms for one in turns]),
            "invalid": sum(bool(one.faults) for one in turns),
            "faults": [fault for one in turns for fault in one.faults][:_SHOWN],
            "too_large": sum(one.tokens[_OURS] > CONTEXT_TOKENS for one in turns),
            "uncovered": sum(one.uncovered for one in turns),
            "prefixes": {"compared": len(compared), "broken": compared.count(False)},
            "evicted": Counter(one.role for one in covered),
            "sought": sought,
            "not_findable": len(not_found),
            "not_found": not_found[:_SHOWN],
            "summaries": {
                "written": len(leaves),
                "parents": len(made) - len(leaves),
                "calls": self._meters[_OURS].calls,
                **{
                    kind: sum(one[kind] for one in leaves)
                    for kind in ("facts", "in_text", "listed", "left")
                },
            },
        }
        return {**report, "bars": _list_bars(report)}

    def _list_tokens(self, name: str) -> dict[str, float]:
        tokens = [one.tokens[name] for one in self._turns]
        size = min(100, max(len(tokens) // 3, 1))
        second, last = mean(tokens[size : 2 * size]), mean(tokens[-size:])
        ratio = round(last / second, 2)
        return {"last": round(last), "most": max(tokens), "ratio_to_second": ratio}

    def _count_facts(self, name: str) -> dict[str, int]:
        end = [one.found[name] for one in self._asked if one.is_at_the_end]
        earlier = [one.found[name] for one in self._asked if not one.is_at_the_end]
        asked = {"asked": len(end), "asked_earlier": len(earlier)}
        return {**asked, "told": sum(end), "told_earlier": sum(earlier)}

    def _list_cost(self, meter: Meter) -> dict[str, float]:
        per_token = round((meter.read + meter.wrote) / self._said_tokens, 2)
        return {"calls": meter.calls, "per_token": per_token, "slips": len(meter.slips)}


def _list_bars(report: dict[str, Any]) -> list[dict[str, Any]]:
    told = {name: one["told"] for name, one in report["facts"].items()}
    share = told[_OURS] / report["facts"][_OURS]["asked"]
    at_most = {
        "turns with an invalid context": (report["invalid"], 0),
        "turns over the budget": (report["too_large"], 0),
        "evicted entries not covered": (report["uncovered"], 0),
        "evicted entries not findable": (report["not_findable"], 0),
        "broken prefixes between compactions": (report["prefixes"]["broken"], 0),
        "tokens, last : second hundred turns": (report["tokens"][_OURS]["ratio_to_second"], _FLAT),
        "summariser tokens per token of chat": (report["cost"][_OURS]["per_token"], _COST),
    }
    at_least = {"share of facts told at the end": (share, _FACTS)}
    for peer in list(report["cost"])[1:]:
        at_least[f"facts told more than by {peer}"] = told[_OURS] - told[peer], 1
    bars = [ui.make_bar(what, *bar) for what, bar in at_most.items()]
    return bars + [ui.make_bar(what, *bar, is_least=True) for what, bar in at_least.items()]


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    systems, made = list(report["tokens"]), report["summaries"]
    rows: list[list[object]] = [["", *systems]]
    for title, part, key in (
        ("tokens, last hundred turns", "tokens", "last"),
        ("tokens, most", "tokens", "most"),
        ("facts told at the end", "facts", "told"),
        ("facts told earlier", "facts", "told_earlier"),
        ("summariser: calls", "cost", "calls"),
        ("its tokens per token of chat", "cost", "per_token"),
        ("its slips", "cost", "slips"),
    ):
        rows.append([title, *(report[part].get(name, {}).get(key) for name in systems)])
    rows.append(["facts mis-said", *(report["missaid"].get(name) for name in systems)])
    took = ", ".join(f"{name} {ms:.0f}" for name, ms in report["turn_ms"].items())
    evicted = ", ".join(f"{count:,} {role}" for role, count in report["evicted"].items())
    return [
        f"{ui.format_machine(report['machine'])}; {report['turns']:,} turns; {report['style']}",
        "",
        *ui.format_rows(rows),
        "",
        f"a turn, ms: {took}",
        "summaries: " + ", ".join(f"{name} {count:,}" for name, count in made.items()),
        f"evicted: {evicted}; {report['sought']:,} looked for",
        f"prefixes compared: {report['prefixes']['compared']:,}",
    ]


# -- helpers ---------------------------------------------------------------------------------


def _make_replies(exchange: Exchange) -> list[BaseMessage]:
    """Return what the model and its tools say: calls, all at once, their results, the answer."""
    name = f"{exchange.number}"
    messages: list[BaseMessage] = []
    if exchange.calls:
        calls: list[Any] = [
            {"name": tool, "args": {"topic": f"matter {name}"}, "id": f"call-{name}-{place}"}
            for place, (tool, _) in enumerate(exchange.calls)
        ]
        messages.append(AIMessage("", tool_calls=calls, id=f"{name}-calls"))
        messages += [
            ToolMessage(result, tool_call_id=made["id"], id=f"{name}-result-{place}")
            for place, ((_, result), made) in enumerate(zip(exchange.calls, calls, strict=True))
        ]
    return [*messages, AIMessage(exchange.answer, id=f"{name}-answer")]


def _list_covered(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that the live summaries stand for, and those that these were made of.

    Read from the summaries' own records, apart from the package's views. Nothing is taken back in
    this chat, so whatever no other summary was made of is live.
    """
    summaries = {one.id: one for one in entries if one.role == "summary"}
    named = {name for one in summaries.values() for name in one.metadata.summary_ids}
    todo = [one for one in summaries.values() if one.id not in named]
    positions: set[int] = set()
    while todo:
        one = todo.pop()
        for first, last in one.cover.ranges if one.cover is not None else ():
            positions.update(range(first, last + 1))
        todo += [summaries[name] for name in one.metadata.summary_ids if name in summaries]
    return [one for one in entries if one.position in positions and one.role != "summary"]


def _digest(message: BaseMessage) -> str:
    return hashlib.blake2b(message.model_dump_json().encode(), digest_size=16).hexdigest()
