"""How much of a summariser's request a provider's prefix cache holds already.

    python -m benchmarks.summary_prefix [--turns 120] [--json]

A chain of a prompt and a scripted model that works as the caches of providers do: what a request
has in common with the beginning of an earlier one, message by message, is read from the cache. The
chain's own model writes the summaries, asked in two ways.

Systems:
    apart     `summarizer=model`: a request of its own, with the transcript in it
    on top    `summarizer=PrefixSummarizer.from_chain(chain)`: the conversation's last request, and
              one message more

Figures:
    summaries   that were written
    read        tokens of the summariser's requests
    cached      share of these that the cache held
    full price  tokens that it did not
    in chat     share of the tokens of the conversation's own requests that the cache held

Bar: of the requests on top, at least 0.8 is cached, and no summary fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig

from benchmarks.scripted_model import InstantModel
from benchmarks.synthetic_dialogue import answer, said
from langchain_convmem import ConversationMemory
from langchain_convmem.summarizing import PrefixSummarizer, SummarySettings
from langchain_convmem.views.messages import count_tokens

LEAST_CACHED = 0.8
SYSTEMS = ("apart", "on top")
_SETTINGS = SummarySettings(trigger=("tokens", 1500), keep=("tokens", 500), max_summary_tokens=150)
_HERE: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "long"}}
_ASKED = "Write the summary now."
_PROMPT = "You help people of a small town. " * 12


@dataclass(slots=True)
class Reading:
    """What a model read.

    Attributes:
        tokens: In all.
        cached: Of these, what the cache held.
    """

    tokens: int = 0
    cached: int = 0

    @property
    def share(self) -> float:
        """How much of it the cache held."""
        return round(self.cached / self.tokens, 3) if self.tokens else 0.0


@dataclass(slots=True)
class PrefixCache:
    """What a provider keeps of requests: of each message whose it is, and what it says."""

    kept: list[list[tuple[str, str]]] = field(default_factory=list)

    def read(self, messages: Sequence[BaseMessage]) -> int:
        """Keep a request; return how many of its tokens an earlier one began with."""
        names = [(message.type, str(message.content)) for message in messages]
        same = [
            sum(
                1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(names, one, strict=False))
            )
            for one in self.kept
        ]
        self.kept.append(names)
        return count_tokens(messages[: max(same, default=0)])


class CachedModel(InstantModel):
    """Answers questions, and summarises what it is shown in words of its own."""

    prefixes: Any
    chat: Any
    summaries: Any

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Return a reply, and count what was read."""
        is_summary = _ASKED in str(messages[-1].text)
        reading = self.summaries if is_summary else self.chat
        reading.cached += self.prefixes.read(messages)
        reading.tokens += count_tokens(messages)
        return AIMessage(_summarise(messages) if is_summary else answer(len(messages)))


def _summarise(messages: Sequence[BaseMessage]) -> str:
    """Return what the lines were about, in short: who, and the last words of each."""
    asked = [message for message in messages if message.type != "system"]
    told = [one for one in asked[:-1] if not one.text.startswith("<summary>")] or asked
    lines = [line.split() for one in told for line in one.text.splitlines()]
    short = [f"{line[-1]} {line[-4]} {line[0]}".replace(".", "") for line in lines if len(line) > 8]
    return "They spoke of " + ", then of ".join(short[:30]) + "."


def measure(name: str, turns: int) -> dict[str, Any]:
    """Take the turns of a thread; return the figures of a system."""
    model = CachedModel(prefixes=PrefixCache(), chat=Reading(), summaries=Reading())
    prompt = ChatPromptTemplate.from_messages(
        [("system", _PROMPT), ("placeholder", "{history}"), ("human", "{input}")]
    )
    chain = prompt | model
    on_top = PrefixSummarizer.from_chain(chain)
    summarizer = model if name == "apart" else on_top
    memory = ConversationMemory.open(
        ":memory:",
        summarizer=summarizer,
        summary_settings=_SETTINGS,
        summarize_when="foreground",
    )
    with memory:
        wrapped = memory.wrap(chain, recall=False)
        for number in range(turns):
            wrapped.invoke(said(number), _HERE)
        entries = memory.history("long", user_id="ana").entries
    return {
        "summaries": sum(entry.role == "summary" for entry in entries),
        "read": model.summaries.tokens,
        "cached": model.summaries.share,
        "full price": model.summaries.tokens - model.summaries.cached,
        "in chat": model.chat.share,
    }


def report(turns: int) -> dict[str, Any]:
    """Return the figures of all systems, and whether the bar holds."""
    systems = {name: measure(name, turns) for name in SYSTEMS}
    top = systems["on top"]
    return {"systems": systems, "ok": top["summaries"] > 0 and top["cached"] >= LEAST_CACHED}


def table(found: dict[str, Any]) -> str:
    """Return the figures as text."""
    columns = list(found["systems"]["apart"])
    rows = [f"{'':<10}" + "".join(f"{name:>12}" for name in columns)]
    for name, figures in found["systems"].items():
        rows.append(f"{name:<10}" + "".join(f"{figures[one]:>12,}" for one in columns))
    return "\n".join(
        [*rows, f"bar: {LEAST_CACHED} cached on top: {'ok' if found['ok'] else 'FAILED'}"]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the bar fails."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.summary_prefix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=120, help="turns of the thread")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.turns < 1:
        parser.error("--turns must be at least 1")
    found = report(options.turns)
    print(json.dumps(found, indent=2) if options.json else table(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
