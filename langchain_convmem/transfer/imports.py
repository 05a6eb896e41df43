"""Importing files: all of them are read and checked first, then written to a log."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain_core.messages import BaseMessage

from langchain_convmem.background import to_async
from langchain_convmem.errors import ConfigError
from langchain_convmem.message_log import MessageLog, append_messages
from langchain_convmem.records import Draft, Metadata, ThreadKey
from langchain_convmem.titles import add_title
from langchain_convmem.transfer.archives import Archive, holds_conversations
from langchain_convmem.transfer.copy import replay
from langchain_convmem.transfer.formats import EXPORTS, READERS
from langchain_convmem.transfer.source import (
    READS,
    Database,
    Source,
    describe_json,
    find_kind,
    read_source,
    refuse,
)
from langchain_convmem.transfer.threads import ImportedThread
from langchain_convmem.views.lines import IMPORTED, OWN
from langchain_convmem.views.messages import DraftBuilder, is_remembered

_OWN_TABLES = {"owners", "threads", "entries", "documents"}


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
    """Return the threads in a file after checking all of it; nothing is written.

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
    file = read_file(path, thread_id=thread_id, format=format)
    if file.unread:
        refuse(file.path, "", file.unread[0])
    return list(file.threads)


def read_file(
    path: str | os.PathLike[str],
    *,
    thread_id: str | None = None,
    format: str | None = None,  # noqa: A002 - what it is called everywhere
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ImportedFile:
    """Return a file that was checked to its end, with its threads; nothing is written.

    What ChatGPT or Claude delivered, as the zip, the folder or the JSON, is read one conversation
    at a time, now and once more when its threads are asked for, so it takes little memory however
    large it is. What in it cannot be read is left out and named.

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
    kind = find_kind(place)
    readers = EXPORTS if kind == "archive" else (*EXPORTS, *READERS)
    names = [one.name for one in readers]
    if format is not None and format not in names:
        raise ConfigError(f"format must be one of {', '.join(names)} here; got {format!r}")
    exports = [one for one in EXPORTS if format in (None, one.name)]
    if kind == "archive" or (kind == "text" and holds_conversations(place, exports)):
        archive = Archive(place, exports, thread_id=thread_id, report=progress)
        ids, unread = archive.thread_ids, tuple(archive.unread)
        return ImportedFile(archive.path, archive, ids, archive.entries, unread)
    source = Database(str(place)) if kind == "database" else read_source(place)
    return list_threads(str(place), parse_threads(source, thread_id=thread_id, format=format))


def list_threads(path: str, threads: Sequence[ImportedThread]) -> ImportedFile:
    """Return threads that were read at once as what a file holds."""
    ids = (thread.thread_id for thread in threads)
    return ImportedFile(path, tuple(threads), tuple(ids), sum(map(len, threads)))


def parse_threads(
    source: Source | Database,
    *,
    thread_id: str | None = None,
    format: str | None = None,  # noqa: A002 - as above
) -> list[ImportedThread]:
    """Return the threads of an opened file; see `read_threads`."""
    if isinstance(source, Source):
        number, first = next(source.rows(), (0, ""))
        if not first:
            refuse(source.path, "", f"is empty; {READS}")
        if first[0] not in "{[":
            refuse(source.path, f"line {number}", f"found text that is no JSON; {READS}")
    for reader in READERS:
        wanted = format in (None, reader.name) and isinstance(source, reader.opens)
        if wanted and reader.fits(source):
            return reader.read(source, thread_id)
    if format is not None:
        form = next(one.form for one in (*EXPORTS, *READERS) if one.name == format)
        refuse(source.path, "", f"is not of the format {format!r}; expected {form}")
    if isinstance(source, Source):
        refuse(source.path, "$", f"found {describe_json(source.document)}; {READS}")
    tables = source.tables()
    if tables.keys() >= _OWN_TABLES:
        refuse(source.path, "", "is a log of convmem itself; use 'convmem copy --from' for it")
    shown = ", ".join(sorted(tables)[:5]) or "no tables"
    return refuse(source.path, "", f"is a database with {shown}; {READS}")


def read_files(
    paths: Iterable[Path],
    *,
    thread_id: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[ImportedFile]:
    """Return all files with their threads: every file is checked before the first is returned.

    Args:
        paths: The files.
        thread_id: Name of the thread, for a single file.
        progress: See `read_file`; each archive counts from none to all.

    Raises:
        ImportFormatError: If a file is bad, or two dialogues would become the same thread.
    """
    files: list[ImportedFile] = []
    homes: dict[str, str] = {}
    for path in paths:
        file = read_file(path, thread_id=thread_id, progress=progress)
        for name in file.thread_ids:
            if name in homes:
                other = f"is the thread {name!r}, and so is {homes[name]}"
                refuse(file.path, "", f"{other}; import them one by one with --thread")
            homes[name] = file.path
        files.append(file)
    return files


# -- writing to a log -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of importing a file.

    Attributes:
        path: The file.
        thread_ids: The threads it made or added to, in the file's order.
        branches: How many of them are branches that a dialogue left.
        added: Entries that were not there before; an entry is a message, or an edit of an export.
        known: Entries that were there already.
        skipped: One sentence for each that was left out, saying why.
        unread: One sentence for each part of the file that cannot be kept, saying why.
    """

    path: str
    thread_ids: tuple[str, ...]
    branches: int
    added: int
    known: int
    skipped: tuple[str, ...]
    unread: tuple[str, ...] = ()

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
    """Write a thread that was read from a file; writing it again adds nothing.

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
    return _store(log, thread, user_id, drafting or DraftBuilder(), (IMPORTED,))[0]


astore_thread = to_async(store_thread)


def store_file(
    log: MessageLog,
    file: ImportedFile,
    *,
    user_id: str | None = None,
    find_user: Callable[[str], str | None] | None = None,
    drafting: DraftBuilder | None = None,
    progress: Callable[[int, int], None] | None = None,
    is_own: bool = False,
) -> ImportReport:
    """Write all threads of a file; see `store_thread`.

    Args:
        log: Where to.
        file: A file and its threads.
        user_id: Whose threads they become.
        find_user: Or says of a thread id whose it becomes; branches follow their thread.
        drafting: What is stored of a message; None is all of it.
        progress: Called with the entries done and the entries in all, after each thread.
        is_own: Whether its messages count as if they had been said here.
    """
    counts: Counter[str] = Counter()
    skipped: list[str] = []
    unread = list(file.unread)
    marks = (IMPORTED, OWN) if is_own else (IMPORTED,)
    for thread in file.threads:
        name = thread.branch_of or thread.thread_id
        user = user_id if find_user is None else find_user(name)
        added, left_out = _store(log, thread, user, drafting or DraftBuilder(), marks)
        skipped += left_out
        unread += thread.unread
        counts.update(done=len(thread), added=added, branches=int(bool(thread.branch_of)))
        if progress is not None:
            progress(counts["done"], file.entries)
    return ImportReport(
        path=file.path,
        thread_ids=file.thread_ids,
        branches=counts["branches"],
        added=counts["added"],
        known=counts["done"] - counts["added"] - len(skipped),
        skipped=tuple(skipped),
        unread=tuple(unread),
    )


def _store(
    log: MessageLog,
    thread: ImportedThread,
    user_id: str | None,
    drafting: DraftBuilder,
    marks: tuple[str, ...],
) -> tuple[int, list[str]]:
    """Write a thread; return how many of its entries are new, and why others are not there."""
    key = ThreadKey(user_id, thread.thread_id)
    skipped: list[str] = []
    if thread.entries:
        kept = []
        for entry in thread.entries:
            stored = drafting.filter_entry(entry)
            if stored is not None:
                kept.append(stored)
            else:
                skipped.append(_explain(entry.message, entry.message_id, key))
        holds_any, added = bool(kept), replay(log, key, kept)
    else:
        latest = log.entries(key, last=1)
        before = latest[-1].position if latest else 0
        drafts: list[Draft] = []
        metadata = Metadata(attributes=marks)
        for message in thread.messages:
            # Says where its text came from; an export of ours says so itself.
            draft = drafting.build(message, metadata=metadata)
            if draft is not None:
                drafts.append(draft)
            else:
                skipped.append(_explain(message, message.id, key))
        entries = append_messages(log, key, drafts, durable=False)
        holds_any, added = bool(entries), sum(entry.position > before for entry in entries)
    if holds_any:
        add_title(log, key, thread.title)
    return added, skipped


def _explain(message: BaseMessage | None, name: str | None, key: ThreadKey) -> str:
    marked = "it is marked as not to be remembered"
    why = "the write hook stores nothing of it" if is_remembered(message) else marked
    return f"message {name!r} of thread {key.thread_id!r}: {why}"
