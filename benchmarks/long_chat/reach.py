"""How much of what was said stays within reach, over hundreds of compactions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from benchmarks import ui
from benchmarks.long_chat.script import Fact, list_sayings, small_talk, tells
from benchmarks.long_chat.summarisers import Meter, Style, open_memory
from langchain_convmem import ConversationMemory
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.views.messages import count_tokens

SETTINGS = SummarySettings(
    trigger=("tokens", 400),
    keep=("tokens", 150),
    max_summary_tokens=120,
    facts_tokens=60,
    first_pause_s=0.001,  # no clock decides what happens
)
CHECKPOINTS = 10
_ASKED = 60
"""Facts that are asked for at a checkpoint; all of them at the last one."""
_ASIDE = 0.7
"""How often a turn has small talk beside a fact."""
_HERE: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "long"}}
_REACHED, _REACHED_OF_A_KIND = 0.9, 0.8
_FLAT = 0.05
"""So much lower than at the first checkpoint may the share be at the last."""
_SHOWN = 8
"""So many of the facts that are out of reach stand in the report."""


class _Asked(NamedTuple):
    """A fact that was asked for, and where its answer stood; see `benchmarks.long_chat`."""

    fact: Fact
    in_view: bool
    own_words: bool
    other_words: bool


class _Chat:
    """A chat with our memory."""

    def __init__(self, memory: ConversationMemory, meter: Meter) -> None:
        self._memory, self._meter = memory, meter
        inner = RunnableLambda(self._answer)
        self._chain = memory.wrap(inner)
        # What a question brings is measured, and leaves no trace.
        self._asking = memory.wrap(inner, remember=False)
        self._looking = memory.wrap(inner, remember=False, recall=False)
        self._got: list[BaseMessage] = []
        self._reply = ""
        self.compactions = self.turns = self.said_tokens = 0

    def _answer(self, given: dict[str, Any]) -> str:
        self._got = list(given["messages"])
        return self._reply

    def take(self, fact: Fact | None) -> None:
        """Take a turn, in which something may be said that is worth remembering."""
        self.turns += 1
        chance = random.Random(f"reach {self.turns}")
        user, self._reply = small_talk(chance)
        if fact is not None:
            said = f"{user} {fact.said[0]}" if chance.random() < _ASIDE else fact.said[0]
            if fact.by_user:
                user = said
            else:
                self._reply = said
        calls = self._meter.calls
        self._chain.invoke(HumanMessage(user), _HERE)
        self.said_tokens += count_tokens([HumanMessage(user), AIMessage(self._reply)])
        if self._meter.calls > calls:
            entries = self._memory.history("long", user_id="ana").entries
            made = [one.metadata.aux.get("summary", {}) for one in entries if one.role == "summary"]
            # A parent stands over summaries that were counted.
            self.compactions = sum(not one.get("level", 0) for one in made)

    def look(self) -> list[BaseMessage]:
        """Return what is shown whatever is asked, once recall knows all that was said."""
        self._memory.recall("Well?", user_id="ana")
        self._looking.invoke(HumanMessage("Well?"), _HERE)
        return self._got

    def ask(self, fact: Fact, view: Sequence[BaseMessage]) -> _Asked:
        """Ask for a fact in two ways; the questions are not stored."""
        brought = []
        for question in (fact.plain, fact.question):
            self._asking.invoke(HumanMessage(question), _HERE)
            brought.append(tells(self._got, fact.answer))
        return _Asked(fact, tells(view, fact.answer), *brought)


def measure(
    compactions: int,
    style: Style = "retelling",
    sayings: str = "sayings",
) -> dict[str, Any]:
    """Take a chat until it was compacted so often, and ask on the way; return the report."""
    facts = list_sayings(name=sayings)
    checkpoints: list[dict[str, Any]] = []
    asked: list[_Asked] = []
    with open_memory(style, SETTINGS, SETTINGS.max_summary_tokens) as (memory, meter):
        chat = _Chat(memory, meter)
        told = 0
        for checkpoint in range(1, CHECKPOINTS + 1):
            until = compactions * checkpoint // CHECKPOINTS
            while chat.compactions < until:
                is_due = told * compactions <= chat.compactions * len(facts) and told < len(facts)
                chat.take(facts[told] if is_due else None)
                told += is_due
                ui.show_progress(f"{style}: compaction {chat.compactions:,} of {compactions:,}")
            chosen = facts[:told]
            if checkpoint < CHECKPOINTS and told > _ASKED:
                chosen = random.Random(f"asked {checkpoint}").sample(chosen, _ASKED)
            view = chat.look()
            asked = [chat.ask(one, view) for one in chosen]
            shares = {"compactions": chat.compactions, **_list_shares(asked)}
            checkpoints.append({**shares, "view_tokens": count_tokens(view)})
    report: dict[str, Any] = {
        "machine": ui.describe_machine(),
        "style": style,
        "turns": chat.turns,
        "said_tokens": chat.said_tokens,
        "per_token": round((meter.read + meter.wrote) / chat.said_tokens, 2),
        "checkpoints": checkpoints,
        "kinds": {
            kind: _list_shares([one for one in asked if one.fact.kind == kind])
            for kind in sorted({one.fact.kind for one in asked})
        },
        "out_of_reach": [
            {"said": one.fact.said[0], "question": one.fact.question}
            for one in asked
            if not one.other_words
        ][:_SHOWN],
    }
    return {**report, "bars": _list_bars(report)}


def _list_shares(asked: Sequence[_Asked]) -> dict[str, float]:
    columns = ("in_view", "own_words", "other_words")
    shares = {name: round(mean(getattr(one, name) for one in asked), 3) for name in columns}
    return {"asked": len(asked), **shares}


def _list_bars(report: dict[str, Any]) -> list[dict[str, Any]]:
    shares = [one["other_words"] for one in report["checkpoints"]]
    bounds = {
        "all facts at the end": (shares[-1], _REACHED),
        "lowest checkpoint": (min(shares), _REACHED),
        "last less first": (shares[-1] - shares[0], -_FLAT),
    }
    for kind, found in report["kinds"].items():
        bounds[kind] = found["other_words"], _REACHED_OF_A_KIND
    return [
        ui.make_bar(f"within reach, {what}", *bar, is_least=True) for what, bar in bounds.items()
    ]


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    points, kinds = report["checkpoints"], report["kinds"]
    by_kind = [(kind, "", *one.values()) for kind, one in kinds.items()]
    head = f"{report['turns']:,} turns; {report['style']}"
    spent = f"{report['per_token']:g} of the summariser for each"
    return [
        f"{ui.format_machine(report['machine'])}; {head}",
        f"{report['said_tokens']:,} tokens of chat, {spent}",
        "",
        *ui.format_rows([list(points[0]), *(list(one.values()) for one in points)]),
        "",
        *ui.format_rows([("", *points[0]), *by_kind]),
    ]
