"""A thread in numbers: a pure function of its entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage

from langchain_convmem.records import Entry
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.turns.replies import INTERRUPTED
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
        own_calls: Calls of models that the memory itself made: in turns, for summaries that were
            written, and for what a profiler read.
        own_input_tokens: Input tokens of these calls.
        own_output_tokens: Output tokens of these calls.
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
    own_calls: int = 0
    own_input_tokens: int = 0
    own_output_tokens: int = 0


def compute_stats(entries: Sequence[Entry]) -> ThreadStats:
    """Return the statistics of a thread.

    Args:
        entries: All of its entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    shown = [entry for entry in live if entry.role != "summary"]
    said = sum(entry.control is None for entry in entries)
    # One that was edited or cut has the id and the usage that it had before.
    taken = {
        (entry.message_id, usage["input_tokens"], usage["output_tokens"])
        for entry in entries
        if isinstance(entry.message, AIMessage) and (usage := entry.message.usage_metadata)
    }
    own: Counter[str] = Counter()
    for entry in entries:
        own.update(entry.metadata.aux.get(OWN_TOKENS, {}))
    return ThreadStats(
        entries=len(entries),
        messages=dict(Counter(entry.role for entry in shown)),
        turns=sum(bool(turn.entries) and turn.role != "summary" for turn in build_turns(entries)),
        summaries=len(live) - len(shown),
        retracted=said - len(live),
        damaged=sum(bool(entry.damage) for entry in entries),
        interrupted=sum(INTERRUPTED in entry.metadata.attributes for entry in shown),
        input_tokens=sum(read for _, read, _ in taken),
        output_tokens=sum(written for _, _, written in taken),
        own_calls=own["calls"],
        own_input_tokens=own["input_tokens"],
        own_output_tokens=own["output_tokens"],
    )
