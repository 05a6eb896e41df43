"""Writing imported threads into a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from langchain_convmem.effects import Steps, arun, run, step
from langchain_convmem.moving.readers import ImportedFile
from langchain_convmem.moving.replay import Replay
from langchain_convmem.moving.threads import ImportedThread
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.views.drafts import Drafting, is_remembered

__all__ = ["ImportReport", "astore_thread", "store_file", "store_file_steps", "store_thread"]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of a file.

    Attributes:
        path: The file.
        thread_ids: The threads it made or added to, in the file's order.
        branches: How many of them are branches that a dialogue left.
        sessions: How many sittings they have.
        added: Entries that were not there before; an entry is a message, or an edit of an export.
        known: Entries that were there already.
        skipped: One sentence for each that was left out, saying why.
    """

    path: str
    thread_ids: tuple[str, ...]
    branches: int
    sessions: int
    added: int
    known: int
    skipped: tuple[str, ...]

    def __len__(self) -> int:
        """Return how many entries the file holds."""
        return self.added + self.known + len(self.skipped)


def store_thread(
    log: MessageLog,
    thread: ImportedThread,
    *,
    user_id: str | None = None,
    drafting: Drafting | None = None,
) -> int:
    """Write a thread that was read from a file; writing it again doubles nothing.

    Messages are written in one batch; an exported thread entry by entry, edits and summaries
    included. Survives a crash of the process, not of the machine: import again after one.

    Args:
        log: Where to.
        thread: What `read_threads` returned.
        user_id: Whose thread it becomes.
        drafting: What is stored of a message; None is all of it.

    Returns:
        How many of its entries are new.
    """
    return run(_store_steps(log, thread, user_id, drafting or Drafting())).added


async def astore_thread(
    log: MessageLog,
    thread: ImportedThread,
    *,
    user_id: str | None = None,
    drafting: Drafting | None = None,
) -> int:
    """Write a thread that was read from a file; see `store_thread`."""
    return (await arun(_store_steps(log, thread, user_id, drafting or Drafting()))).added


def store_file(
    log: MessageLog,
    file: ImportedFile,
    *,
    user_id: str | None = None,
    drafting: Drafting | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ImportReport:
    """Write all threads of a file; see `store_thread`.

    Args:
        log: Where to.
        file: A file and its threads.
        user_id: Whose threads they become.
        drafting: What is stored of a message; None is all of it.
        progress: Called with the entries done and the entries in all, after each thread.
    """
    return run(store_file_steps(log, file, user_id, drafting or Drafting(), progress))


def store_file_steps(
    log: MessageLog,
    file: ImportedFile,
    user_id: str | None,
    drafting: Drafting,
    progress: Callable[[int, int], None] | None,
) -> Steps[ImportReport]:
    """Return the steps of `store_file`, for `run` or `arun` or as part of a longer job."""
    total = sum(len(thread) for thread in file.threads)
    done = added = 0
    skipped: list[str] = []
    for thread in file.threads:
        stored = yield from _store_steps(log, thread, user_id, drafting)
        added += stored.added
        skipped += stored.skipped
        done += len(thread)
        if progress is not None:
            progress(done, total)
    return ImportReport(
        path=file.path,
        thread_ids=tuple(thread.thread_id for thread in file.threads),
        branches=sum(thread.branch_of is not None for thread in file.threads),
        sessions=sum(thread.sessions for thread in file.threads),
        added=added,
        known=total - added - len(skipped),
        skipped=tuple(skipped),
    )


@dataclass(frozen=True, slots=True)
class _Stored:
    """How many entries of a thread are new, and why others are not there."""

    added: int
    skipped: list[str]


def _store_steps(
    log: MessageLog, thread: ImportedThread, user_id: str | None, drafting: Drafting
) -> Steps[_Stored]:
    key = ThreadKey(user_id, thread.thread_id)
    if thread.entries:
        return (yield from _replay_steps(log, key, thread, drafting))
    latest: list[Entry] = yield step(log, "entries", key, last=1)
    before = latest[-1].position if latest else 0
    drafts: list[Draft] = []
    skipped: list[str] = []
    for message in thread.messages:
        draft = drafting.draft(message)
        if draft is not None:
            drafts.append(draft)
        else:
            why = _HOOK if is_remembered(message) else _MARK
            skipped.append(f"message {message.id!r} of thread {key.thread_id!r}: {why}")
    entries: list[Entry] = yield step(log, "append", key, drafts, relaxed=True)
    return _Stored(sum(entry.position > before for entry in entries), skipped)


def _replay_steps(
    log: MessageLog, key: ThreadKey, thread: ImportedThread, drafting: Drafting
) -> Steps[_Stored]:
    kept: list[Entry] = []
    skipped: list[str] = []
    for entry in thread.entries:
        stored = drafting.entry(entry)
        if stored is not None:
            kept.append(stored)
        else:
            why = _HOOK if is_remembered(entry.message) else _MARK
            skipped.append(f"message {entry.message_id!r} of thread {key.thread_id!r}: {why}")
    target: list[Entry] = yield step(log, "entries", key)
    replay = Replay(log, key)
    yield from replay.begin(kept, target)
    yield from replay.feed(kept)
    yield from replay.finish()
    return _Stored(replay.written, skipped)


_HOOK = "the write hook stores nothing of it"
_MARK = "it is marked as not to be remembered"
