from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import BudgetError
from langchain_convmem.records import Entry
from langchain_convmem.views.providers import PROVIDERS
from tests.golden.threads import GoldenThread, open_thread

__all__ = ["DIGESTS", "SEEDS", "VIEWS", "digest", "find_differences", "render"]

SEEDS = range(200)
DIGESTS = Path(__file__).with_name("digests.json")

_ID = re.compile("(?![0-9]{26})(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-f]{32})")
"""Ids of entries, and what is derived from them: ULIDs, and hashes of 128 bits."""
_DAY_MS = 86_400_000
_MESSAGE_FIELDS = (
    "type",
    "role",
    "content",
    "id",
    "name",
    "tool_calls",
    "invalid_tool_calls",
    "tool_call_id",
    "status",
    "artifact",
    "additional_kwargs",
    "response_metadata",
    "usage_metadata",
)


def _describe_entries(thread: GoldenThread) -> Any:
    places = _find_places(thread.entries)
    turns: dict[str, int] = {}
    return [
        _describe_entry(entry, places, turns.setdefault(entry.turn_id, len(turns)))
        for entry in thread.entries
    ]


def _find_places(entries: Sequence[Entry]) -> dict[int, int]:
    return {entry.position: number for number, entry in enumerate(entries)}


def _describe_entry(entry: Entry, places: Mapping[int, int], turn: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": entry.id,
        "role": entry.role,
        "turn": turn,
        "message": entry.message and _describe_message(entry.message),
        "contents": entry.contents,
        "attributes": entry.metadata.attributes,
        "timing": entry.metadata.timing,
        "summary_ids": entry.metadata.summary_ids,
        "aux": entry.metadata.aux,
    }
    if entry.control is not None:
        described["retracts"] = entry.control.retracts
        described["reason"] = entry.control.reason
        described["replacement"] = entry.control.replacement
    if entry.cover is not None:
        described["covers"] = [
            [places.get(first, "gone"), places.get(last, "gone")]
            for first, last in entry.cover.ranges
        ]
    return described


def _describe_message(message: BaseMessage) -> dict[str, Any]:
    values = {name: getattr(message, name, None) for name in _MESSAGE_FIELDS}
    return {name: value for name, value in values.items() if value or name == "content"}


def _describe_context(thread: GoldenThread, provider: Any, **options: Any) -> dict[str, Any]:
    places = _find_places(thread.entries)
    try:
        context = thread.history.context(provider=provider, token_counter=_count, **options)
    except BudgetError as error:
        return {"needed": error.needed, "available": error.available}
    return {
        "messages": [_describe_message(message) for message in context.messages],
        "repaired": len(context.repairs),
        "repairs": context.repairs,
        "tokens": context.tokens,
        "shows": sorted(places[position] for position in context.positions),
        "is_whole": context.is_whole,
        "is_cut": context.is_cut,
    }


def _count(messages: Sequence[BaseMessage]) -> int:
    """Count the characters: what a token counter makes of an id differs from run to run."""
    said = [[message.content, getattr(message, "tool_calls", [])] for message in messages]
    return sum(len(json.dumps(one, default=repr)) for one in said)


def _view_of(provider: str, **options: Any) -> Callable[[GoldenThread], Any]:
    return lambda thread: _describe_context(thread, provider, **options)


VIEWS: dict[str, Callable[[GoldenThread], Any]] = {
    "entries": _describe_entries,
    **{f"context for {provider}": _view_of(provider) for provider in PROVIDERS},
    "short context": _view_of("anthropic", max_tokens=500),
    "longer context": _view_of("openai", max_tokens=2000),
    "context with a system summary": _view_of("openai", summary="system"),
    "context without summaries": _view_of("strict", summary="omit"),
    "maps": lambda thread: thread.history.to_maps(incremental=False, exclude_last=False),
    "maps but for the last": lambda thread: thread.history.to_maps(incremental=False),
    "increments": lambda thread: thread.increments,
}
"""What is kept golden, by name."""


def render(seed: int) -> dict[str, Any]:
    """Return every view of the thread of a seed."""
    since = time.time()
    with open_thread(seed) as thread:
        ids = [entry.id for entry in thread.entries]
        shown = {name: view(thread) for name, view in VIEWS.items()}
    days = {f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}" for at in (since, time.time())}
    return {name: _settle(view, ids, int(since * 1000), days) for name, view in shown.items()}


def _settle(view: Any, ids: Sequence[str], since_ms: int, days: Collection[str]) -> Any:
    """Return the same without what differs from run to run: ids become numbers, the clock goes."""
    numbers = {known: f"#{number}" for number, known in enumerate(ids)}
    text = json.dumps(_without_clock(view, since_ms), default=repr)
    text = _ID.sub(lambda m: numbers.setdefault(m[0], f"#{len(numbers)}"), text)
    for day in days:
        text = text.replace(day, "<today>")
    return json.loads(text)


def _without_clock(value: Any, since_ms: int) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_clock(item, since_ms) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_clock(item, since_ms) for item in value]
    is_now = type(value) is int and abs(value - since_ms) < _DAY_MS
    return "now" if is_now else value


def digest(view: Any) -> str:
    """Return what stands for a view; the sentences on repairs are left out, their number is not."""
    if isinstance(view, dict):
        view = {name: value for name, value in view.items() if name != "repairs"}
    text = json.dumps(view, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


@cache
def _load_digests() -> dict[str, str]:
    stored: dict[str, str] = json.loads(DIGESTS.read_text())
    return stored


def find_differences(seed: int) -> list[str]:
    """Return which views of a thread are not what they were, in words."""
    stored = _load_digests()[str(seed)].split()
    return [
        f"thread {seed}: {name}"
        for (name, view), known in zip(render(seed).items(), stored, strict=True)
        if digest(view) != known
    ]
