"""Copies of a SQLite log under way, and what is left of those whose process was killed.

A copy is written under a hidden name in the directory of its target, wherever that is. A mark
beside the log says where, and the process that writes the copy holds a lock on the mark. A mark
that nobody holds is of a copy that nobody will finish: whoever opens the log can find and remove
it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_PATIENCE_S = 60.0
"""A mark that says nothing yet is being written; after so long it never will be."""


class UnfinishedCopies:
    """The unfinished copies of one log.

    Safe across threads, processes and containers that share the directory. A child that was forked
    while a copy was under way holds the lock as long as it lives.
    """

    def __init__(self, log: Path) -> None:
        """Look after the copies of the log at `log`; nothing is read yet."""
        self._log = log.resolve()

    @contextmanager
    def create(self, target: Path) -> Iterator[Path]:
        """Yield an empty file in the target's directory, for its owner alone.

        It is removed at the end, if it still has its name.

        Raises:
            OSError: If it cannot be made.
        """
        token = secrets.token_hex(8)
        copy = target.with_name(_name_copy(token))
        with self._mark(token, copy):
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                yield copy
            finally:
                copy.unlink(missing_ok=True)

    @contextmanager
    def _mark(self, token: str, copy: Path) -> Iterator[None]:
        """Say beside the log where a copy is, while the block runs.

        A log on a full disk, or beside which nothing may be written, is copied without a mark.
        """
        mark = self._log.with_name(f".{self._log.name}-copy-{token}")
        with ExitStack() as stack:
            with contextlib.suppress(OSError):
                handle = os.open(mark, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
                stack.callback(mark.unlink, missing_ok=True)
                stack.callback(os.close, handle)
                _lock(handle, wait=True)
                os.write(handle, os.fsencode(copy))
            yield

    def list_abandoned(self) -> list[Path]:
        """Return the copies that lie there and that no process will finish."""
        return [copy for _, copy in self._find_abandoned() if copy is not None and copy.exists()]

    def remove_abandoned(self) -> list[Path]:
        """Remove them.

        Returns:
            Those that could not be removed.
        """
        left = []
        for mark, copy in list(self._find_abandoned()):
            try:
                if copy is not None:
                    copy.unlink(missing_ok=copy.parent.is_dir())
                mark.unlink(missing_ok=True)
            except OSError:  # not ours to delete, or its directory is not mounted
                left.extend([] if copy is None else [copy])
        return left

    def _find_abandoned(self) -> Iterator[tuple[Path, Path | None]]:
        """Yield marks that nobody holds, and the copy that each tells of if it came so far."""
        pattern = re.compile(rf"\.{re.escape(self._log.name)}-copy-([0-9a-f]{{16}})")
        for mark in sorted(self._log.parent.iterdir()):
            found = pattern.fullmatch(mark.name)
            written = None if found is None else _read_free(mark)
            if found is None or written is None:
                continue
            copy = Path(os.fsdecode(written))
            # Nothing that a mark may say leads to another file than a copy of this name.
            yield mark, copy if copy.name == _name_copy(found[1]) and copy.is_absolute() else None


def _name_copy(token: str) -> str:
    return f".convmem-copy-{token}"


def _read_free(mark: Path) -> bytes | None:
    """Return what a mark says; None while somebody holds it, or may be about to."""
    with contextlib.suppress(OSError), mark.open("r+b") as file:
        _lock(file.fileno(), wait=False)
        written = file.read()
        if written or time.time() - mark.stat().st_mtime > _PATIENCE_S:
            return written
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int, *, wait: bool) -> None:
        # Such locks forbid reading, so it lies behind all that is written.
        os.lseek(handle, 1 << 30, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(handle: int, *, wait: bool) -> None:
        """Lock a file until its handle is closed.

        Raises:
            OSError: If somebody else holds it, or it cannot be locked.
        """
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
