"""Forking: a new thread that goes on from a point of an old one."""

from __future__ import annotations

from langchain_convmem.ids import new_ulid
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Entry, ThreadKey, Turn
from langchain_convmem.steps import Steps, step
from langchain_convmem.views.forking import check_target, forked, forked_summary, kept_until

__all__ = ["fork_steps"]


def fork_steps(
    log: MessageLog, origin: ThreadKey, at: str | Turn | None, new_thread_id: str | None
) -> Steps[ThreadKey]:
    """Copy what a thread shows up to a point into another one of its user; return that one.

    What was said is copied at once or not at all; summaries follow one by one, since each names
    what it covers by the places the copies got. A fork that was cut short can be made again.

    Args:
        log: The log of both.
        origin: The thread to copy from.
        at: The last message to copy; see `kept_until`.
        new_thread_id: The thread to copy to, which must not be in use; None makes up an id.

    Raises:
        ConfigError: If `at` is not in the view of `origin`, or the other thread is in use.
    """
    target = ThreadKey(origin.user_id, new_ulid() if new_thread_id is None else new_thread_id)
    entries: list[Entry] = yield step(log, "entries", origin)
    kept = kept_until(entries, at)
    check_target(target, (yield step(log, "entries", target)), origin)
    spoken = [entry for entry in kept if entry.role != "summary"]
    if not spoken:
        return target
    made: list[Entry] = yield step(log, "append", target, [forked(entry) for entry in spoken])
    copies = {entry.id: copy for entry, copy in zip(spoken, made, strict=True)}
    summaries = [entry for entry in kept if entry.role == "summary"]
    for summary in sorted(summaries, key=lambda entry: entry.position):
        draft = forked_summary(summary, spoken, copies)
        [copies[summary.id]] = yield step(log, "append", target, [draft])
    return target
