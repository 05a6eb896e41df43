"""Importing files: all of them are read and checked first, then written to a log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from langchain_core.messages import BaseMessage

from langchain_convmem.background import to_async
from langchain_convmem.errors import ConfigError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.titles import add_titles
from langchain_convmem.transfer.archives import Archive, is_archive
from langchain_convmem.transfer.copy import replay
from langchain_convmem.transfer.formats import READERS, Reader
from langchain_convmem.transfer.source import MAX_FILE_BYTES as MAX_WHOLE_BYTES
from langchain_convmem.transfer.source import (
    READS,
    Database,
    Source,
    describe_json,
    is_database,
    read_source,
    refuse,
)
from langchain_convmem.transfer.threads import ImportedThread
from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.lines import IMPORTED, OWN
from langchain_convmem.views.messages import DraftBuilder, is_remembered

_OWN_TABLES = {"owners", "threads", "entries", "documents"}
_TITLES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file that was checked, and the threads found in it.

    Attributes:
        path: As the user named it.
        threads: In order; those of an archive are read anew whenever they are asked for.
        thread_ids: Their ids.
        entries: How many entries they make.
        unread: One sentence for each part of an archive that cannot be read.
    """

    path: str
    threads: Iterable[ImportedThread]
    thread_ids: tuple[str, ...]
    entries: int
    unread: tuple[str, ...] = ()


def read_threads(
    path: str | os.PathLike[str],
    *,
    thread_id: str | None = None,
    format: str | None = None,  # noqa: A002 - what it is called everywhere
) -> list[ImportedThread]:
    """Return the threads of one file, checked to the last line; nothing is written.

    Args:
        path: A file of any known format; or a zip or folder that ChatGPT or Claude delivered, of
            which `read_file` leaves out what cannot be read, and this function is strict.
        thread_id: Takes the place of the only dialogue's own name.
        format: The name of the format that the file must have, such as `chatgpt`; None finds it
            out.

    Raises:
        ConfigError: If no format has that name.
        ImportFormatError: If the file is empty, of no known format, or not what its format says.
        MissingExtraError: If its format needs a package that is not installed.
    """
    place = Path(path)
    if not is_archive(place):
        return parse_threads(open_source(place), thread_id=thread_id, format=format)
    archive = Archive(place, _select_readers(format), thread_id=thread_id)
    if archive.unread:
        refuse(archive.path, "", archive.unread[0])
    return list(archive)


def read_file(
    path: str | os.PathLike[str],
    *,
    thread_id: str | None = None,
    format: str | None = None,  # noqa: A002 - what it is called everywhere
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ImportedFile:
    """Return a file that was checked to its end, with its threads; nothing is written.

    A zip or folder that ChatGPT or Claude delivered is read one conversation at a time, now and
    once more when its threads are asked for, so it takes little memory however large it is. What
    in it cannot be read is left out and named. The same holds for the JSON in it where that is too
    large to be read at once.

    Args:
        path: A file, a zip or a folder.
        thread_id: Takes the place of the only dialogue's own name.
        format: The name of the format that the file must have, such as `chatgpt`; None finds it
            out.
        progress: Called with the bytes of an archive that are read, and all.

    Raises:
        ConfigError: If no format has that name.
        ImportFormatError: If the file is empty, of no known format, or not what its format says;
            or if the archive is damaged, encrypted or unsafe.
        MissingExtraError: If its format needs a package that is not installed.
    """
    place = Path(path)
    if is_archive(place) or _is_large_export(place):
        readers = _select_readers(format)
        archive = Archive(place, readers, thread_id=thread_id, report=progress)
        ids = archive.thread_ids
        return ImportedFile(archive.path, archive, ids, archive.entries, archive.unread)
    threads = parse_threads(open_source(place), thread_id=thread_id, format=format)
    return list_threads(str(place), threads)


def list_threads(path: str, threads: Sequence[ImportedThread]) -> ImportedFile:
    """Return threads that were read at once as what a file holds."""
    ids = tuple(thread.thread_id for thread in threads)
    return ImportedFile(path, tuple(threads), ids, sum(map(len, threads)))


def _is_large_export(path: Path) -> bool:
    """Return whether a file is too large to be read at once, and may be a list of conversations."""
    return path.stat().st_size > MAX_WHOLE_BYTES and not is_database(path)


def _select_readers(name: str | None) -> list[Reader]:
    """Return the formats that an archive may hold.

    Raises:
        ConfigError: If no format has that name, or archives are not of it.
    """
    found = [one for one in READERS if one.read_tree is not None and name in (None, one.name)]
    if not found:
        known = ", ".join(one.name for one in READERS if one.read_tree is not None)
        raise ConfigError(f"a zip or folder must be of the format {known}; got format={name!r}")
    return found


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
    readers = [one for one in READERS if format in (None, one.name)]
    if not readers:
        known = ", ".join(one.name for one in READERS)
        raise ConfigError(f"format must be one of {known}; got {format!r}")
    if isinstance(source, Source):
        number, first = next(source.rows(), (0, ""))
        if not first:
            refuse(source.path, "", f"is empty; {READS}")
        if first[0] not in "{[":
            refuse(source.path, f"line {number}", f"found text that is no JSON; {READS}")
    for reader in readers:
        if isinstance(source, reader.opens) and reader.fits(source):
            return reader.read(source, thread_id)
    if format is not None:
        refuse(source.path, "", f"is not of the format {format!r}; expected {readers[0].form}")
    if isinstance(source, Source):
        refuse(source.path, "$", f"found {describe_json(source.document)}; {READS}")
    tables = source.tables()
    if tables.keys() >= _OWN_TABLES:
        refuse(source.path, "", "is a log of convmem itself; use 'convmem copy --from' for it")
    shown = ", ".join(sorted(tables)[:5]) or "no tables"
    return refuse(source.path, "", f"is a database with {shown}; {READS}")


def read_files(
    paths: Sequence[Path],
    *,
    thread_id: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[ImportedFile]:
    """Return all files with their threads: every file is checked before the first is returned.

    Args:
        paths: The files.
        thread_id: Name of the thread, for a single file.
        progress: Called with the bytes read and the bytes of all files, packed as they are.

    Raises:
        ImportFormatError: If a file is bad, or two dialogues would become the same thread.
    """
    files = []
    sizes = [_measure_path(path) for path in paths]
    for number, path in enumerate(paths):
        before = sum(sizes[:number])
        files.append(
            read_file(
                path,
                thread_id=thread_id,
                progress=lambda done, total, number=number, before=before: progress(  # type: ignore[misc]
                    before + sizes[number] * done // max(total, 1), sum(sizes)
                ),
            )
        )
        progress(before + sizes[number], sum(sizes))
    _refuse_shared_threads(files)
    return files


def _measure_path(path: Path) -> int:
    """Return about how many bytes there are to read; at least one, for what cannot be read."""
    try:
        return path.stat().st_size or 1
    except (OSError, ValueError):
        return 1


def _refuse_shared_threads(files: Iterable[ImportedFile]) -> None:
    homes: dict[str, str] = {}
    for file in files:
        for name in file.thread_ids:
            if name in homes:
                other = f"is the thread {name!r}, and so is {homes[name]}"
                refuse(file.path, "", f"{other}; import them one by one with --thread")
            homes[name] = file.path


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
        unread: One sentence for each part of the file that cannot be kept, saying why.
        first_ms: When the first of them was said, milliseconds since the epoch; None where the file
            tells no time.
        last_ms: When the last of them was said.
    """

    path: str
    thread_ids: tuple[str, ...]
    branches: int
    sessions: int
    added: int
    known: int
    skipped: tuple[str, ...]
    unread: tuple[str, ...] = ()
    first_ms: int | None = None
    last_ms: int | None = None

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
    stored = _store(log, thread, user_id, drafting or DraftBuilder())
    if stored.holds_any:
        add_titles(log, {ThreadKey(user_id, thread.thread_id): thread.title})
    return stored.added


astore_thread = to_async(store_thread)


def store_file(
    log: MessageLog,
    file: ImportedFile,
    *,
    user_id: str | None = None,
    find_user: Callable[[ImportedThread], str | None] | None = None,
    drafting: DraftBuilder | None = None,
    progress: Callable[[int, int], None] | None = None,
    is_own: bool = False,
) -> ImportReport:
    """Write all threads of a file; see `store_thread`.

    Args:
        log: Where to.
        file: A file and its threads.
        user_id: Whose threads they become.
        find_user: Or says whose each becomes.
        drafting: What is stored of a message; None is all of it.
        progress: Called with the entries done and the entries in all, after each thread.
        is_own: Whether its messages count as if they had been said here.
    """
    tally = _Tally(file)
    marks = (IMPORTED, OWN) if is_own else (IMPORTED,)
    for thread in file.threads:
        user = user_id if find_user is None else find_user(thread)
        stored = _store(log, thread, user, drafting or DraftBuilder(), marks)
        tally.add(thread, stored, user)
        if len(tally.titles) >= _TITLES_AT_ONCE:
            add_titles(log, tally.titles)
            tally.titles.clear()
        if progress is not None:
            progress(tally.done, file.entries)
    add_titles(log, tally.titles)
    return tally.make_report()


@dataclass(slots=True)
class _Tally:
    """Counts what becomes of a file, thread by thread."""

    file: ImportedFile
    done: int = 0
    added: int = 0
    branches: int = 0
    sessions: int = 0
    skipped: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    span: tuple[int, int] | None = None
    titles: dict[ThreadKey, str] = field(default_factory=dict)

    def add(self, thread: ImportedThread, stored: _Stored, user_id: str | None) -> None:
        """Count a thread."""
        self.done += len(thread)
        self.added += stored.added
        self.skipped += stored.skipped
        self.unread += thread.unread
        self.branches += thread.branch_of is not None
        self.sessions += thread.sessions
        if thread.title and stored.holds_any:
            self.titles[ThreadKey(user_id, thread.thread_id)] = thread.title
        times = [at for at in map(get_line_time_ms, thread.messages) if at is not None]
        if times:
            first, last = self.span or (times[0], times[0])
            self.span = min(first, *times), max(last, *times)

    def make_report(self) -> ImportReport:
        """Return what became of the file."""
        first_ms, last_ms = self.span or (None, None)
        return ImportReport(
            path=self.file.path,
            thread_ids=self.file.thread_ids,
            branches=self.branches,
            sessions=self.sessions,
            added=self.added,
            known=self.done - self.added - len(self.skipped),
            skipped=tuple(self.skipped),
            unread=(*self.file.unread, *self.unread),
            first_ms=first_ms,
            last_ms=last_ms,
        )


@dataclass(frozen=True, slots=True)
class _Stored:
    """How many entries of a thread are new, why others are not there, and whether any is."""

    added: int
    skipped: list[str]
    holds_any: bool


def _store(
    log: MessageLog,
    thread: ImportedThread,
    user_id: str | None,
    drafting: DraftBuilder,
    marks: tuple[str, ...] = (IMPORTED,),
) -> _Stored:
    key = ThreadKey(user_id, thread.thread_id)
    if thread.entries:
        return _replay(log, key, thread, drafting)
    latest = log.entries(key, last=1)
    before = latest[-1].position if latest else 0
    drafts: list[Draft] = []
    skipped: list[str] = []
    for message in thread.messages:
        draft = drafting.build(message)
        if draft is not None:
            # Says where its text came from; an export of ours says so itself.
            metadata = replace(draft.metadata, attributes=(*draft.metadata.attributes, *marks))
            drafts.append(replace(draft, metadata=metadata))
        else:
            skipped.append(_explain(message, message.id, key))
    entries = log.append(key, drafts, durable=False)
    added = sum(entry.position > before for entry in entries)
    return _Stored(added, skipped, holds_any=bool(entries))


def _explain(message: BaseMessage | None, name: str | None, key: ThreadKey) -> str:
    why = "the write hook stores nothing of it"
    if not is_remembered(message):
        why = "it is marked as not to be remembered"
    return f"message {name!r} of thread {key.thread_id!r}: {why}"


def _replay(
    log: MessageLog, key: ThreadKey, thread: ImportedThread, drafting: DraftBuilder
) -> _Stored:
    kept: list[Entry] = []
    skipped: list[str] = []
    for entry in thread.entries:
        stored = drafting.filter_entry(entry)
        if stored is not None:
            kept.append(stored)
        else:
            skipped.append(_explain(entry.message, entry.message_id, key))
    return _Stored(replay(log, key, kept), skipped, holds_any=bool(kept))
