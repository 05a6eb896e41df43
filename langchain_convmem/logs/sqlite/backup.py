"""A copy of a SQLite log while others write to it: whole under its name, or not there."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.logs.sqlite.connections import Connections

__all__ = ["back_up"]

_PAGES_AT_ONCE = 1024
_LEFTOVERS = ("-wal", "-journal")
"""Endings of files that SQLite would take for a part of a new file of that name."""


def back_up(
    connections: Connections, target: Path, progress: Callable[[int, int], None] | None
) -> None:
    """Copy the log's file to `target`; see `SQLiteLog.backup`.

    Raises:
        ConfigError: If there is such a file, or no such directory.
        LogError: If the log cannot be read or the copy not be written.
    """
    connections.check_open()
    _refuse_what_is_there(target)
    unfinished = _made_beside(target)
    try:
        _copy(connections, unfinished, target, progress)
        _give_name(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _made_beside(target: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _failed(target, error) from error
    os.close(handle)
    return Path(name)


def _refuse_what_is_there(target: Path) -> None:
    if not target.parent.is_dir():
        raise ConfigError(f"there is no directory {target.parent}; create it first")
    if target.exists() or target.is_symlink():
        raise ConfigError(f"{target} exists; choose another name for the copy")
    for ending in _LEFTOVERS:
        left = target.with_name(target.name + ending)
        if left.exists():
            msg = f"{left} exists, which belongs to another {target.name}; choose another name"
            raise ConfigError(msg)


def _copy(
    connections: Connections,
    unfinished: Path,
    target: Path,
    progress: Callable[[int, int], None] | None,
) -> None:
    def copied(_: int, left: int, pages: int) -> None:
        if progress is not None:
            progress(pages - left, pages)

    with connections.read_apart() as db:
        try:
            with closing(sqlite3.connect(unfinished, isolation_level=None)) as copy:
                # A copy that fails is thrown away; one that succeeds is waited for at the end.
                copy.execute("PRAGMA journal_mode = OFF")
                copy.execute("PRAGMA synchronous = OFF")
                # All steps see the state that the transaction has begun with. Without one, SQLite
                # starts anew whenever somebody writes, and never ends where many do.
                db.backup(copy, pages=_PAGES_AT_ONCE, progress=copied, sleep=0)
        except sqlite3.DatabaseError as error:
            raise _failed(target, error) from error


def _give_name(unfinished: Path, target: Path) -> None:
    try:
        _wait_for_disk(unfinished)
        _refuse_what_is_there(target)
        unfinished.rename(target)
        _wait_for_directory(target.parent)
    except OSError as error:
        raise _failed(target, error) from error


def _wait_for_disk(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _wait_for_directory(path: Path) -> None:
    """Make a new name survive a power loss; where directories cannot be opened, it does anyway."""
    if os.name == "nt":
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _failed(target: Path, error: Exception) -> LogError:
    return LogError(f"no copy was made at {target}: {error}; nothing is left of it")
