"""What a turn reads and writes, in one transaction where the log can, else call by call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from langchain_convmem.errors import LogError
from langchain_convmem.protocols import (
    MessageLog,
    Stretch,
    ThreadState,
    ThreadTransactions,
    speaks_for,
)
from langchain_convmem.records import CacheDraft, Draft, Entry, StateDocument, ThreadKey
from langchain_convmem.steps import Steps, step

__all__ = ["append_planned_steps", "read_thread_steps", "write_cache_steps"]

_logger = logging.getLogger(__name__)


def read_thread_steps(
    log: MessageLog,
    key: ThreadKey,
    name: str,
    stretches: Callable[[StateDocument | None], Sequence[Stretch]],
) -> Steps[tuple[StateDocument | None, list[Entry]]]:
    """Return a document and entries of its thread; see `ThreadTransactions.read_thread`.

    A log that keeps no documents has none.
    """
    if isinstance(log, ThreadTransactions) and speaks_for(
        log, "read_thread", "entries", "get_state"
    ):
        found: tuple[StateDocument | None, list[Entry]]
        found = yield step(log, "read_thread", key, name, stretches)
        return found
    document: StateDocument | None = None
    if isinstance(log, ThreadState):
        document = yield step(log, "get_state", key, name)
    entries: list[Entry] = []
    for after, until in stretches(document):
        entries += yield step(log, "entries", key, after=after, until=until)
    return document, entries


def append_planned_steps(
    log: MessageLog,
    key: ThreadKey,
    plan: Callable[[Sequence[Entry]], Sequence[Draft]],
    *,
    after: int,
    message_ids: Collection[str] = (),
    documents: Sequence[CacheDraft] = (),
) -> Steps[list[Entry]]:
    """Append what `plan` makes of what is there; see `ThreadTransactions.append_planned`."""
    if isinstance(log, ThreadTransactions) and speaks_for(
        log, "append_planned", "append", "entries", "find", "set_state"
    ):
        appended: list[Entry] = yield step(
            log,
            "append_planned",
            key,
            plan,
            after=after,
            message_ids=message_ids,
            documents=documents,
        )
        return appended
    found: list[Entry] = []
    if message_ids:
        found = yield step(log, "find", key, message_ids)
    later: list[Entry] = yield step(log, "entries", key, after=after)
    there = {entry.position: entry for entry in (*found, *later)}
    appended = yield step(log, "append", key, plan([there[at] for at in sorted(there)]))
    for document in documents:
        yield from write_cache_steps(log, key, document)
    return appended


def write_cache_steps(log: MessageLog, key: ThreadKey, document: CacheDraft) -> Steps[None]:
    """Write a document that is a cache; a log that refuses it costs time, and nothing else."""
    if not isinstance(log, ThreadState):
        return
    try:
        yield step(log, "set_state", key, document.name, document.value, expected=document.expected)
    except LogError as error:
        _logger.info("could not write %s of %r: %s", document.name, key.thread_id, error)
