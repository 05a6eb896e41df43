"""Records as lines for people and as plain data for programs. Pure: prints nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage

from langchain_convmem.cli.plain_text import Styled, clock, hanging, iso_time
from langchain_convmem.records import (
    DialogLine,
    Entry,
    ForgetReceipt,
    LineMatch,
    Recall,
    RecalledBlock,
    ThreadInfo,
)
from langchain_convmem.views.codec import line_time_ms
from langchain_convmem.views.lines import DEFAULT_SPEAKERS
from langchain_convmem.views.live import retracted_ids

__all__ = [
    "log_data",
    "log_lines",
    "recall_brief",
    "recall_data",
    "recall_lines",
    "receipt_line",
    "threads_data",
    "threads_lines",
]

_SHOWN_MATCHES = 3
_EXCERPT_CHARS = 40
_BRIEF_BLOCKS = 3
_BRIEF_CHARS = 150


# -- recall -------------------------------------------------------------------------------------


def recall_lines(found: Recall) -> Iterator[Styled]:
    """Yield the blocks, best first: where and when, the lines as a model reads them, and why."""
    if not found.blocks:
        yield Styled("nothing that fits was found")
    for number, block in enumerate(found.blocks, start=1):
        yield Styled(f"{number}. {_block_head(block)}", "bold")
        yield Styled("   " + hanging(block.text.rstrip("\n"), "   "))
        for match in block.matches[:_SHOWN_MATCHES]:
            yield Styled(f"   why: {_match_text(match)}", "dim")


def recall_brief(found: Recall) -> Iterator[Styled]:
    """Yield one line per block, the best ones only: the best hit in it, and why."""
    if not found.blocks:
        yield Styled("  recalled: nothing that fits")
    for block in found.blocks[:_BRIEF_BLOCKS]:
        best = block.matches[0]
        said = textwrap.shorten(best.line.text, _BRIEF_CHARS, placeholder=" ...")
        reasons = "; ".join(best.why) or "fits"
        yield Styled(f"  recalled: {clock(best.line.time_ms)} {best.line.speaker}: {said}")
        yield Styled(f"            why: {reasons}")
    if len(found.blocks) > _BRIEF_BLOCKS:
        yield Styled(f"            (and {len(found.blocks) - _BRIEF_BLOCKS} more)")


def _block_head(block: RecalledBlock) -> str:
    first = block.lines[0]
    session = "" if first.session is None else f", session {first.session}"
    return f"thread {first.key.thread_id}{session}, {clock(first.time_ms)}, {_scores(block)}"


def _match_text(match: LineMatch) -> str:
    line = match.line
    reasons = "; ".join(match.why) or "fits"
    said = textwrap.shorten(line.text, _EXCERPT_CHARS, placeholder="...")
    who = f"{line.speaker}, {clock(line.time_ms)}"
    return f'"{said}" ({who}): {reasons} ({_scores(match)})'


def _scores(scored: RecalledBlock | LineMatch) -> str:
    return f"relevance {scored.relevance:.2f}, similarity {scored.similarity:.2f}"


def recall_data(query: str, found: Recall) -> dict[str, Any]:
    """Return a recall as plain data."""
    return {
        "query": query,
        "verdict": found.verdict,
        "blocks": [_block_data(block) for block in found.blocks],
        "best_rejected": found.best_rejected,
        "problems": list(found.problems),
    }


def _block_data(block: RecalledBlock) -> dict[str, Any]:
    first = block.lines[0]
    why = {match.line.line_id: match for match in block.matches}
    return {
        "user_id": first.key.user_id,
        "thread_id": first.key.thread_id,
        "session": first.session,
        "time": iso_time(first.time_ms),
        "relevance": block.relevance,
        "similarity": block.similarity,
        "text": block.text,
        "lines": [_line_data(line, why.get(line.line_id)) for line in block.lines],
    }


def _line_data(line: DialogLine, match: LineMatch | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "line_id": line.line_id,
        "position": line.position,
        "speaker": line.speaker,
        "time": iso_time(line.time_ms),
        "text": line.text,
        "is_match": match is not None,
    }
    if match is not None:
        scores = {"relevance": match.relevance, "similarity": match.similarity}
        data |= {"why": list(match.why), **scores}
    return data


# -- the log ------------------------------------------------------------------------------------


def log_lines(entries: Sequence[Entry]) -> Iterator[Styled]:
    """Yield a thread's entries in order of position; what no view shows any more is marked."""
    dead = retracted_ids(entries)
    for entry in entries:
        marks = [*entry.metadata.attributes, *(["retracted"] if entry.id in dead else [])]
        suffix = f"  ({', '.join(marks)})" if marks else ""
        head = f"{clock(_said_ms(entry))}  {_speaker(entry)}: "
        # Lines after the first stand under the text, so that no text can pass for a new entry.
        body = hanging(_said(entry), " " * 4)
        yield Styled(f"{head}{body}{suffix}", "dim" if entry.id in dead else None)


def _said_ms(entry: Entry) -> int:
    own = None if entry.message is None else line_time_ms(entry.message)
    return entry.metadata.timing["creation"] if own is None else own


def _speaker(entry: Entry) -> str:
    name = None if entry.message is None else entry.message.name
    return name or DEFAULT_SPEAKERS.get(entry.role) or entry.role.capitalize()


def _said(entry: Entry) -> str:
    if entry.control is not None:
        return f"{entry.control.reason}: retracts {len(entry.control.retracts)} entries"
    calls = entry.message.tool_calls if isinstance(entry.message, AIMessage) else []
    asked = [f"[calls {call['name']}]" for call in calls]
    return "\n".join([*entry.contents, *asked]) or "[no text]"


def log_data(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return a thread's entries as plain data, in order of position."""
    dead = retracted_ids(entries)
    return [_entry_data(entry, is_retracted=entry.id in dead) for entry in entries]


def _entry_data(entry: Entry, *, is_retracted: bool) -> dict[str, Any]:
    message, control, known = entry.message, entry.control, entry.metadata
    session = None if message is None else message.additional_kwargs.get("session")
    return {
        "id": entry.id,
        "message_id": entry.message_id,
        "position": entry.position,
        "turn_id": entry.turn_id,
        "role": entry.role,
        "speaker": _speaker(entry),
        "time": iso_time(_said_ms(entry)),
        "session": None if session is None else str(session),
        "contents": list(entry.contents),
        "attributes": list(known.attributes),
        "timing": dict(known.timing),
        "retracts": [] if control is None else list(control.retracts),
        "reason": None if control is None else control.reason,
        "is_retracted": is_retracted,
    }


# -- threads ------------------------------------------------------------------------------------


def threads_lines(threads: Sequence[ThreadInfo]) -> Iterator[Styled]:
    """Yield one line per thread, in the given order."""
    if not threads:
        yield Styled("no threads")
    width = max((len(info.key.thread_id) for info in threads), default=0)
    for info in threads:
        span = f"stored {clock(info.first_ms)} to {clock(info.last_ms)}"
        yield Styled(f"{info.key.thread_id:<{width}}  {info.entries:>6} entries, {span}")


def threads_data(threads: Sequence[ThreadInfo]) -> list[dict[str, Any]]:
    """Return threads as plain data, in the given order."""
    return [
        {
            "user_id": info.key.user_id,
            "thread_id": info.key.thread_id,
            "entries": info.entries,
            "first": iso_time(info.first_ms),
            "last": iso_time(info.last_ms),
        }
        for info in threads
    ]


def receipt_line(receipt: ForgetReceipt) -> str:
    """Return what was erased, as one sentence."""
    return (
        f"erased {receipt.entries} entries, {receipt.threads} threads, "
        f"{receipt.segments} index rows and {receipt.documents} documents"
    )
