"""The tables of formats. A file's format is known by its content, never by the file's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from langchain_convmem.errors import ConfigError
from langchain_convmem.moving import (
    chatgpt,
    checkpoints,
    claude,
    dialogue,
    dynamodb_history,
    exported,
    jsonl,
    locomo,
    openai,
    sql_history,
)
from langchain_convmem.moving.database import Database, is_database
from langchain_convmem.moving.node import Node
from langchain_convmem.moving.source import Source, read_source, refuse
from langchain_convmem.moving.threads import ImportedThread

__all__ = [
    "DATABASE_READERS",
    "READERS",
    "DatabaseReader",
    "ImportedFile",
    "Reader",
    "open_source",
    "read_files",
    "read_threads",
    "threads_of",
]


@dataclass(frozen=True, slots=True)
class Reader:
    """One format of text.

    Attributes:
        name: What a caller calls it, who knows what the file must be.
        form: What such a file looks like, for the sentence about a file that fits none.
        fits: Whether a file is meant to be of this format; it may still be a bad one.
        read: The file's threads; the second argument renames the only one.
    """

    name: str
    form: str
    fits: Callable[[Source], bool]
    read: Callable[[Source, str | None], list[ImportedThread]]


@dataclass(frozen=True, slots=True)
class DatabaseReader:
    """One kind of SQLite file; see `Reader`."""

    name: str
    form: str
    fits: Callable[[Database], bool]
    read: Callable[[Database, str | None], list[ImportedThread]]


READERS = (
    # Those that may be lines stand first: the others need the file to be one JSON document.
    Reader("convmem", exported.FORM, exported.fits_exported, exported.read_exported),
    Reader(
        "dynamodb_history",
        dynamodb_history.FORM,
        dynamodb_history.fits_dynamodb,
        dynamodb_history.read_dynamodb,
    ),
    Reader("jsonl", jsonl.FORM, jsonl.fits_jsonl, jsonl.read_jsonl),
    Reader("openai", openai.FORM, openai.fits_openai, openai.read_openai),
    Reader("chatgpt", chatgpt.FORM, chatgpt.fits_chatgpt, chatgpt.read_chatgpt),
    Reader("claude", claude.FORM, claude.fits_claude, claude.read_claude),
    Reader("dialogue", dialogue.FORM, dialogue.fits_dialogue, dialogue.read_dialogue),
    Reader("locomo", locomo.FORM, locomo.fits_locomo, locomo.read_locomo),
)

DATABASE_READERS = (
    DatabaseReader(
        "checkpoints",
        checkpoints.FORM,
        checkpoints.fits_checkpoints,
        checkpoints.read_checkpoints,
    ),
    DatabaseReader(
        "sql_history",
        sql_history.FORM,
        sql_history.fits_sql_history,
        sql_history.read_sql_history,
    ),
)

_OWN_TABLES = {"owners", "threads", "entries", "documents"}


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
    return threads_of(open_source(Path(path)), thread_id=thread_id, format=format)


def open_source(path: Path) -> Source | Database:
    """Return the file as what it is: text, or a database.

    Raises:
        ImportFormatError: If it cannot be opened, is too large or is no UTF-8 text.
    """
    return Database(str(path)) if is_database(path) else read_source(path)


def threads_of(
    source: Source | Database,
    *,
    thread_id: str | None = None,
    format: str | None = None,  # noqa: A002 - as above
) -> list[ImportedThread]:
    """Return the threads of an opened file; see `read_threads`."""
    if format is not None:
        return _threads_in(format, source, thread_id)
    if isinstance(source, Database):
        return _threads_of_database(source, thread_id)
    number, first = next(source.rows(), (0, ""))
    if not first:
        refuse(source.path, "", f"is empty; expected {_forms(READERS)}")
    if first[0] not in "{[":
        shown = ascii(first[:40])
        refuse(source.path, f"line {number}", f"found {shown}, expected {_forms(READERS)}")
    reader = next((reader for reader in READERS if reader.fits(source)), None)
    if reader is None:
        Node(source.document, source.path, "$").fail(_forms(READERS))
    return reader.read(source, thread_id)


def _threads_in(
    name: str, source: Source | Database, thread_id: str | None
) -> list[ImportedThread]:
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


def _threads_of_database(database: Database, thread_id: str | None) -> list[ImportedThread]:
    reader = next((reader for reader in DATABASE_READERS if reader.fits(database)), None)
    if reader is None:
        _refuse_database(database)
    return reader.read(database, thread_id)


def _refuse_database(database: Database) -> NoReturn:
    tables = database.tables()
    if tables.keys() >= _OWN_TABLES:
        refuse(database.path, "", "is a log of convmem itself; use 'convmem copy --from' for it")
    shown = ", ".join(sorted(tables)[:5]) or "no tables"
    refuse(database.path, "", f"found a database with {shown}; expected {_forms(DATABASE_READERS)}")


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
        threads = threads_of(source, thread_id=thread_id)
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


def _forms(readers: Iterable[Reader | DatabaseReader]) -> str:
    return "; or ".join(reader.form for reader in readers)
