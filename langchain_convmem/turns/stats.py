"""A thread in numbers: a pure function of its entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage

from langchain_convmem.records import Draft, Entry
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.turns.replies import INTERRUPTED
from langchain_convmem.views.codec import encode_body, encode_metadata
from langchain_convmem.views.live import build_turns, find_live_entries


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """What a thread holds, in numbers; all are 0 for a thread that does not exist.

    Attributes:
        entries: Entries in the log, those that views skip and control entries included.
        messages: Messages that views show, by role; summaries are not among them.
        turns: Turns as `history.turns` shows them, placeholders and summaries left out.
        summaries: Summaries that views show.
        retracted: Entries that views skip: undone, replaced, cleared.
        damaged: Entries that cannot be read, and stretches that are missing.
        interrupted: Replies among `messages` that were cut off.
        input_tokens: Sum of the input tokens that replies report. Every reply counts, even one
            that was replaced later: it was paid for.
        output_tokens: Sum of the output tokens that replies report; counted the same way.
        unreported: Replies without reported usage.
        own_calls: Calls of models that the memory itself made: in turns, for summaries that were
            written, and for what a profiler read.
        own_input_tokens: Input tokens of these calls.
        own_output_tokens: Output tokens of these calls.
        first_ms: Creation of the first entry, milliseconds since the epoch; None without one.
        last_ms: Creation of the last entry.
        bytes: Size of the entries as a log encodes them, in UTF-8; what its storage adds (indexes,
            vectors, free pages) is not known here.
    """

    entries: int = 0
    messages: Mapping[str, int] = field(default_factory=dict)
    turns: int = 0
    summaries: int = 0
    retracted: int = 0
    damaged: int = 0
    interrupted: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    unreported: int = 0
    own_calls: int = 0
    own_input_tokens: int = 0
    own_output_tokens: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    bytes: int = 0


def compute_stats(entries: Sequence[Entry]) -> ThreadStats:
    """Return the statistics of a thread.

    Args:
        entries: All of its entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    shown = [entry for entry in live if entry.role != "summary"]
    said = sum(entry.control is None for entry in entries)
    usage = _list_usages(entries)
    own = [entry.metadata.aux.get(OWN_TOKENS) for entry in entries]
    times = [ms for entry in entries if (ms := entry.metadata.timing.get("creation")) is not None]
    return ThreadStats(
        entries=len(entries),
        messages=dict(Counter(entry.role for entry in shown)),
        turns=sum(bool(turn.entries) and turn.role != "summary" for turn in build_turns(entries)),
        summaries=len(live) - len(shown),
        retracted=said - len(live),
        damaged=sum(bool(entry.damage) for entry in entries),
        interrupted=sum(INTERRUPTED in entry.metadata.attributes for entry in shown),
        input_tokens=_sum_counts(usage, "input_tokens"),
        output_tokens=_sum_counts(usage, "output_tokens"),
        unreported=sum(not one for one in usage),
        own_calls=_sum_counts(own, "calls"),
        own_input_tokens=_sum_counts(own, "input_tokens"),
        own_output_tokens=_sum_counts(own, "output_tokens"),
        first_ms=min(times, default=None),
        last_ms=max(times, default=None),
        bytes=sum(map(_measure_size, entries)),
    )


def _list_usages(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return what each reply took; one that was edited or cut took it once."""
    found: dict[str, Mapping[str, Any]] = {
        entry.id: entry.message.usage_metadata or {}
        for entry in entries
        if isinstance(entry.message, AIMessage)
    }
    for control in filter(None, (entry.control for entry in entries)):
        old = control.retracts[0] if control.replacement is not None and control.retracts else ""
        if old in found and found[old] == found.get(control.replacement or ""):
            del found[old]
    return list(found.values())


def _sum_counts(counts: Iterable[Any], name: str) -> int:
    """Return the sum of a count; what applications put under the same key may be anything."""
    found = (one.get(name) for one in counts if isinstance(one, Mapping))
    return sum(number for number in found if isinstance(number, int))


def _measure_size(entry: Entry) -> int:
    if entry.damage:
        return 0
    parts = ("role", "message", "contents", "control", "cover")
    body = encode_body(Draft(**{name: getattr(entry, name) for name in parts}))
    return len(body.encode()) + len((encode_metadata(entry.metadata) or "").encode())
