"""Importing files: all of them are read and checked first, then written to a log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from langchain_convmem.effects import Steps, perform, run_async, run_sync
from langchain_convmem.errors import ConfigError
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.titles import add_title_steps
from langchain_convmem.transfer.copy import Replay
from langchain_convmem.transfer.formats import (
    DATABASE_READERS,
    READERS,
    DatabaseReader,
    Reader,
)
from langchain_convmem.transfer.source import (
    Database,
    Node,
    Source,
    is_database,
    read_source,
    refuse,
)
from langchain_convmem.transfer.threads import ImportedThread
from langchain_convmem.views.lines import IMPORTED
from langchain_convmem.views.messages import DraftBuilder, is_remembered

_OWN_TABLES = {"owners", "threads", "entries", "documents"}
_HOOK = "the write hook stores nothing of it"
_MARK = "it is marked as not to be remembered"


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file and the threads found in it."""

    path: str
    threads: tuple[ImportedThread, ...]


def read_threads(
    path: str | os.PathLike[str],
    *,
    thread_id: str | None = None,
    format: str | None = None,  # noqa: A002 - what it is called everywhere
) -> list[ImportedThread]:
    """Return the threads of one file, checked to the last line; nothing is written.

    Args:
        path: A file of any known format.
        thread_id: Takes the place of the only dialogue's own name.
        format: The name of the format that the file must have, such as `chatgpt`; None finds it
            out.

    Raises:
        ConfigError: If no format has that name.
        ImportFormatError: If the file is empty, of no known format, or not what its format says.
        MissingExtraError: If its format needs a package that is not installed.
    """
    return parse_threads(open_source(Path(path)), thread_id=thread_id, format=format)


def open_source(path: Path) -> Source | Database:
    """Return the file as what it is: text, or a database.

    Raises:
        ImportFormatError: If it cannot be opened, is too large or is not UTF-8 text.
    """
    return Database(str(path)) if is_database(path) else read_source(path)


def parse_threads(
    source: Source | Database,
    *,
    thread_id: str | None = None,
    format: str | None = None,  # noqa: A002 - as above
) -> list[ImportedThread]:
    """Return the threads of an opened file; see `read_threads`."""
    if format is not None:
        return _read_as(format, source, thread_id)
    if isinstance(source, Database):
        return _read_database(source, thread_id)
    number, first = next(source.rows(), (0, ""))
    if not first:
        refuse(source.path, "", f"is empty; expected {_list_forms(READERS)}")
    if first[0] not in "{[":
        refuse(source.path, f"line {number}", f"found text, expected {_list_forms(READERS)}")
    reader = next((reader for reader in READERS if reader.fits(source)), None)
    if reader is None:
        Node(source.document, source.path, "$").fail(_list_forms(READERS))
    return reader.read(source, thread_id)


def _read_as(name: str, source: Source | Database, thread_id: str | None) -> list[ImportedThread]:
    """Return the threads of a file that must be of the format with this name."""
    forms = {reader.name: reader.form for reader in (*READERS, *DATABASE_READERS)}
    if name not in forms:
        raise ConfigError(f"format must be one of {', '.join(forms)}; got {name!r}")
    for reader in READERS:
        if reader.name == name and isinstance(source, Source) and reader.fits(source):
            return reader.read(source, thread_id)
    for known in DATABASE_READERS:
        if known.name == name and isinstance(source, Database) and known.fits(source):
            return known.read(source, thread_id)
    return refuse(source.path, "", f"is not of the format {name!r}; expected {forms[name]}")


def _read_database(database: Database, thread_id: str | None) -> list[ImportedThread]:
    reader = next((reader for reader in DATABASE_READERS if reader.fits(database)), None)
    if reader is None:
        _refuse_database(database)
    return reader.read(database, thread_id)


def _refuse_database(database: Database) -> NoReturn:
    tables = database.tables()
    if tables.keys() >= _OWN_TABLES:
        refuse(database.path, "", "is a log of convmem itself; use 'convmem copy --from' for it")
    shown = ", ".join(sorted(tables)[:5]) or "no tables"
    refuse(
        database.path,
        "",
        f"found a database with {shown}; expected {_list_forms(DATABASE_READERS)}",
    )


def read_files(
    paths: Sequence[Path],
    *,
    thread_id: str | None = None,
    read: Callable[[Path], Source | Database] = open_source,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[ImportedFile]:
    """Return all files with their threads: every file is checked before the first is returned.

    Args:
        paths: The files.
        thread_id: Name of the thread, for a single file.
        read: Opens a file.
        progress: Called with the files done and the files in all.

    Raises:
        ImportFormatError: If a file is bad, or two dialogues would become the same thread.
    """
    files = []
    for done, path in enumerate(paths):
        progress(done, len(paths))
        source = read(path)
        threads = parse_threads(source, thread_id=thread_id)
        files.append(ImportedFile(source.path, tuple(threads)))
    progress(len(paths), len(paths))
    _refuse_shared_threads(files)
    return files


def _refuse_shared_threads(files: Iterable[ImportedFile]) -> None:
    homes: dict[str, str] = {}
    for file in files:
        for thread in file.threads:
            name = thread.thread_id
            if name in homes:
                other = f"is the thread {name!r}, and so is {homes[name]}"
                refuse(file.path, "", f"{other}; import them one by one with --thread")
            homes[name] = file.path


def _list_forms(readers: Iterable[Reader | DatabaseReader]) -> str:
    return "; or ".join(reader.form for reader in readers)


# -- writing to a log -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of a file.

    Attributes:
        path: The file.
        thread_ids: The threads it made or added to, in the file's order.
        branches: How many of them are branches that a dialogue left.
        sessions: How many sessions they have.
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
    drafting: DraftBuilder | None = None,
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
    return run_sync(_store_steps(log, thread, user_id, drafting or DraftBuilder())).added


async def astore_thread(
    log: MessageLog,
    thread: ImportedThread,
    *,
    user_id: str | None = None,
    drafting: DraftBuilder | None = None,
) -> int:
    """Write a thread that was read from a file; see `store_thread`."""
    return (await run_async(_store_steps(log, thread, user_id, drafting or DraftBuilder()))).added


def store_file(
    log: MessageLog,
    file: ImportedFile,
    *,
    user_id: str | None = None,
    drafting: DraftBuilder | None = None,
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
    return run_sync(store_file_steps(log, file, user_id, drafting or DraftBuilder(), progress))


def store_file_steps(
    log: MessageLog,
    file: ImportedFile,
    user_id: str | None,
    drafting: DraftBuilder,
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
    log: MessageLog, thread: ImportedThread, user_id: str | None, drafting: DraftBuilder
) -> Steps[_Stored]:
    key = ThreadKey(user_id, thread.thread_id)
    write = _replay_steps if thread.entries else _append_steps
    stored = yield from write(log, key, thread, drafting)
    if len(stored.skipped) < len(thread):
        yield from add_title_steps(log, key, thread.title)
    return stored


def _append_steps(
    log: MessageLog, key: ThreadKey, thread: ImportedThread, drafting: DraftBuilder
) -> Steps[_Stored]:
    latest: list[Entry] = yield from perform(log.entries, log.aentries, key, last=1)
    before = latest[-1].position if latest else 0
    drafts: list[Draft] = []
    skipped: list[str] = []
    for message in thread.messages:
        draft = drafting.build(message)
        if draft is not None:
            drafts.append(_mark_imported(draft))
        else:
            why = _HOOK if is_remembered(message) else _MARK
            skipped.append(f"message {message.id!r} of thread {key.thread_id!r}: {why}")
    entries: list[Entry] = yield from perform(log.append, log.aappend, key, drafts, durable=False)
    return _Stored(sum(entry.position > before for entry in entries), skipped)


def _mark_imported(draft: Draft) -> Draft:
    """Return a draft that says where its text came from; an export of ours says so itself."""
    attributes = (*draft.metadata.attributes, IMPORTED)
    return replace(draft, metadata=replace(draft.metadata, attributes=attributes))


def _replay_steps(
    log: MessageLog, key: ThreadKey, thread: ImportedThread, drafting: DraftBuilder
) -> Steps[_Stored]:
    kept: list[Entry] = []
    skipped: list[str] = []
    for entry in thread.entries:
        stored = drafting.filter_entry(entry)
        if stored is not None:
            kept.append(stored)
        else:
            why = _HOOK if is_remembered(entry.message) else _MARK
            skipped.append(f"message {entry.message_id!r} of thread {key.thread_id!r}: {why}")
    target: list[Entry] = yield from perform(log.entries, log.aentries, key)
    replay = Replay(log, key)
    yield from replay.begin(kept, target)
    yield from replay.feed(kept)
    yield from replay.finish()
    return _Stored(replay.written, skipped)
