"""Threads with summaries of summaries, built by hand: leaves, and parents that fold them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Cover, Draft, Entry, Metadata, ThreadKey

__all__ = ["add_chat", "add_leaf", "add_parent"]


def add_chat(log: MessageLog, key: ThreadKey, said: Sequence[str]) -> list[Entry]:
    """Append what the user said, each answered; return all entries."""
    drafts = [
        draft
        for text in said
        for draft in (
            Draft(role="user", message=HumanMessage(text), contents=(text,)),
            Draft(role="assistant", message=AIMessage("All right."), contents=("All right.",)),
        )
    ]
    return log.append(key, drafts)


def add_leaf(
    log: MessageLog,
    key: ThreadKey,
    text: str,
    entries: Sequence[Entry],
    *,
    cites: Sequence[Sequence[int]] | None = None,
    days: Sequence[str] = ("2026-05-01", "2026-05-03"),
) -> Entry:
    """Append the summary of some entries that stand together."""
    span = (entries[0].position, entries[-1].position)
    record: dict[str, Any] = {"level": 0, "days": list(days)}
    if cites is not None:
        record["cites"] = [list(one) for one in cites]
    draft = _draft(text, (span,), [entry.id for entry in entries], record)
    return log.append(key, [draft])[0]


def add_parent(
    log: MessageLog,
    key: ThreadKey,
    text: str,
    children: Sequence[Entry],
    *,
    cites: Sequence[Sequence[int]] | None = None,
) -> Entry:
    """Append a summary that folds others."""
    ranges = tuple(span for one in children for span in (one.cover.ranges if one.cover else ()))
    rows = [[one.id, one.position] for one in children]
    levels = [one.metadata.aux["summary"]["level"] for one in children]
    record: dict[str, Any] = {"level": max(levels) + 1, "children": rows}
    if cites is not None:
        record["cites"] = [list(one) for one in cites]
    draft = _draft(text, ranges, [one.id for one in children], record)
    return log.append(key, [draft])[0]


def _draft(
    text: str, ranges: tuple[tuple[int, int], ...], names: Sequence[str], record: dict[str, Any]
) -> Draft:
    digest = hashlib.blake2b(f"{ranges}{text}{names}".encode(), digest_size=16).hexdigest()
    return Draft(
        role="summary",
        message=SystemMessage(text, id=f"summary-{digest}"),
        contents=(text,),
        metadata=Metadata(summary_ids=tuple(names), aux={"summary": record}),
        cover=Cover(ranges, digest),
    )
