"""Writing imported threads into a log."""

from __future__ import annotations

from langchain_convmem.moving.replay import Replay
from langchain_convmem.moving.threads import ImportedThread
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.steps import Steps, arun, run, step
from langchain_convmem.views.codec import draft_of

__all__ = ["astore_thread", "store_thread"]


def store_thread(log: MessageLog, thread: ImportedThread, *, user_id: str | None = None) -> int:
    """Write a thread that was read from a file; writing it again doubles nothing.

    Messages are written in one batch; an exported thread entry by entry, edits and summaries
    included. Survives a crash of the process, not of the machine: import again after one.

    Args:
        log: Where to.
        thread: What `read_threads` returned.
        user_id: Whose thread it becomes.

    Returns:
        How many of its entries are new.
    """
    return run(_steps(log, thread, ThreadKey(user_id, thread.thread_id)))


async def astore_thread(
    log: MessageLog, thread: ImportedThread, *, user_id: str | None = None
) -> int:
    """Write a thread that was read from a file; see `store_thread`."""
    return await arun(_steps(log, thread, ThreadKey(user_id, thread.thread_id)))


def _steps(log: MessageLog, thread: ImportedThread, key: ThreadKey) -> Steps[int]:
    if thread.entries:
        target: list[Entry] = yield step(log, "entries", key)
        replay = Replay(log, key)
        yield from replay.begin(thread.entries, target)
        yield from replay.feed(thread.entries)
        yield from replay.finish()
        return replay.written
    latest: list[Entry] = yield step(log, "entries", key, last=1)
    before = latest[-1].position if latest else 0
    drafts = [draft_of(message) for message in thread.messages]
    entries: list[Entry] = yield step(log, "append", key, drafts, relaxed=True)
    return sum(entry.position > before for entry in entries)
