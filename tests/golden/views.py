"""What is kept golden: what each view says of random threads, as plain JSON.

A seed decides what happens in a thread: it is a history of the fuzz tests, then changed through
the public history. Whatever changes here or in `tests/fuzz/generator.py` changes the digests. Ids
and times of the clock become numbers in the order of their appearance, so that two runs agree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import random
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem import ConversationMemory, ConvMemError, InMemoryLog
from langchain_convmem.errors import BudgetError
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.generator import KEY, fill

__all__ = ["DIGESTS", "SEEDS", "digest", "find_differences", "render"]

SEEDS = range(200)
DIGESTS = Path(__file__).with_name("digests.json")

_ID = re.compile("(?![0-9]{26})(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-f]{32})")
"""Ids of entries, and what is derived from them: ULIDs, and hashes of 128 bits."""
_DAY_MS = 86_400_000
_SUMMARIES = ("They met.", "Ana parked on level 3.", ["A first piece.", "A second one."])


class GoldenThread:
    """A thread that lived through random things, and what was exported meanwhile."""

    def __init__(self, memory: ConversationMemory, seed: int) -> None:
        """Let it live."""
        self._rng = random.Random(seed)
        self._memory = memory
        self.history = memory.history(KEY.thread_id, user_id=KEY.user_id)
        self.increments: list[list[dict[str, Any]]] = []
        fill(memory.log, self._rng)
        steps: list[Callable[[], object]] = [
            self._exchange,
            self._replace,
            self._summarize,
            self._annotate,
            self._forget,
            self._export,
            self.history.undo,
            self.history.redo,
            self.history.undo_summary,
            lambda: self.history.edit_summary("They never met."),
            lambda: self.history.cut_reply(self._rng.choice((0, 3, 10))),
            lambda: self.history.pin(self._rng.choice(("level 3", "rye", "Where did I park?"))),
        ]
        for step in self._rng.choices(steps, k=self._rng.choice((0, 3, 6, 12))):
            with contextlib.suppress(ConvMemError):  # such as a cut of a reply that is not there
                step()

    def _exchange(self) -> None:
        said = [HumanMessage("Where did I park?"), AIMessage("On level 3, next to the lift.")]
        self.history.add_messages(said)

    def _replace(self) -> None:
        shown = [turn for turn in self.history.turns if turn.entries and turn.role == "user"]
        if shown:
            said, keeps = HumanMessage("Where did I leave the car?"), self._rng.random() < 0.5
            self.history.replace(shown[-1].entries[0].message_id, said, keep_later=keeps)

    def _summarize(self) -> None:
        window = self.history.summary_window()
        self.history.add_summary(self._rng.choice(_SUMMARIES), window, model="golden")

    def _annotate(self) -> None:
        turn = self._rng.choice(self.history.turns or [self.history.add("user", "Hello.")])
        turn.add_attribute("starred")
        turn.add_timing("playStart", 1_700_000_000_000)
        turn.add_data("score", {"value": 0.5, "tags": ["a"]})

    def _forget(self) -> None:
        gone = [self._rng.choice(self.history.entries).id]
        self._memory.forget(user_id=KEY.user_id, thread_id=KEY.thread_id, entry_ids=gone)

    def _export(self) -> None:
        self.increments.append(self.history.to_maps(exclude_last=self._rng.random() < 0.8))


def _view(thread: GoldenThread, provider: Any, **options: Any) -> dict[str, Any]:
    try:
        context = thread.history.context(provider=provider, token_counter=_count, **options)
    except BudgetError as error:
        return {"needed": error.needed, "available": error.available}
    return {**_plain(context), "tokens": context.tokens, "repairs": len(context.repairs)}


def _count(messages: Sequence[BaseMessage]) -> int:
    """Count the characters: what a token counter makes of an id differs from run to run."""
    said = [[message.content, getattr(message, "tool_calls", [])] for message in messages]
    return sum(len(json.dumps(one, default=repr)) for one in said)


_VIEWS: dict[str, Callable[[GoldenThread], Any]] = {
    "entries": lambda thread: thread.history.entries,
    **{f"context for {name}": partial(_view, provider=name) for name in PROVIDERS},
    "short context": partial(_view, provider="anthropic", max_tokens=500),
    "longer context": partial(_view, provider="openai", max_tokens=2000),
    "context with a system summary": partial(_view, provider="openai", summary="system"),
    "context without summaries": partial(_view, provider="strict", summary="omit"),
    "maps": lambda thread: thread.history.to_maps(incremental=False, exclude_last=False),
    "maps but for the last": lambda thread: thread.history.to_maps(incremental=False),
    "increments": lambda thread: thread.increments,
}


def render(seed: int) -> dict[str, Any]:
    """Return every view of the thread of a seed, without what differs from run to run."""
    since = time.time()
    with InMemoryLog() as log, ConversationMemory(log=log) as memory:
        thread = GoldenThread(memory, seed)
        numbers = {entry.id: f"#{at}" for at, entry in enumerate(thread.history.entries)}
        shown = {name: json.dumps(view(thread), default=_plain) for name, view in _VIEWS.items()}
    days = {f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}" for at in (since, time.time())}
    return {
        name: _settle(text, dict(numbers), int(since * 1000), days) for name, text in shown.items()
    }


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a value."""
    if isinstance(value, BaseMessage):
        return {"type": value.type, **value.model_dump(exclude_defaults=True)}
    if dataclasses.is_dataclass(value):
        fields = [one.name for one in dataclasses.fields(value) if one.compare]
        return {name: getattr(value, name) for name in fields}
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value) if isinstance(value, set | frozenset) else repr(value)


def _settle(text: str, numbers: dict[str, str], since_ms: int, days: Collection[str]) -> Any:
    """Number the ids, and take out the clock."""
    text = json.dumps(_without_clock(json.loads(text), since_ms))
    text = _ID.sub(lambda found: numbers.setdefault(found[0], f"#{len(numbers)}"), text)
    for day in days:
        text = text.replace(day, "<today>")
    return json.loads(text)


def _without_clock(value: Any, since_ms: int) -> Any:
    if isinstance(value, dict):
        return {key: _without_clock(item, since_ms) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_clock(item, since_ms) for item in value]
    is_now = type(value) is int and abs(value - since_ms) < _DAY_MS
    return "now" if is_now else value


def digest(view: Any) -> str:
    """Return what stands for a view."""
    text = json.dumps(view, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def find_differences(seed: int) -> list[str]:
    """Return which views of a thread are not what they were, in words."""
    stored = json.loads(DIGESTS.read_text())[str(seed)].split()
    return [
        f"thread {seed}: {name}"
        for (name, view), known in zip(render(seed).items(), stored, strict=True)
        if digest(view) != known
    ]
