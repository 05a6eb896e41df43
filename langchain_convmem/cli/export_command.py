"""`convmem export`."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.logs.addresses import open_log
from langchain_convmem.moving import export_rows
from langchain_convmem.records import Owner

__all__ = ["run"]

_PRINTED = "-"


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write all entries of the user, or of one thread, to a file or to standard output."""
    with closing(open_log(arguments.db, must_exist=True)) as log:
        known = {info.key.thread_id for info in log.threads(arguments.user)}
        if not known or arguments.thread not in (None, *known):
            what = "nothing" if arguments.thread is None else f"no thread {arguments.thread!r}"
            raise ConfigError(f"there is {what} of user {arguments.user!r} in {arguments.db}")
        rows = export_rows(log, Owner(user_id=arguments.user), thread_id=arguments.thread)
        if arguments.out == _PRINTED:
            terminal.raw_rows(rows)
            return 0
        count = _write(Path(arguments.out), rows)
    terminal.line(f"{arguments.out}: {count} entries")
    return 0


def _write(path: Path, rows: Iterable[str]) -> int:
    """Write the file whole or not at all; only its owner may read it.

    Raises:
        ConfigError: If it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _unwritable(path, error) from error
    unfinished = Path(name)
    try:
        count = 0
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            for row in rows:
                file.write(f"{row}\n")
                count += 1
        unfinished.replace(path)
    except OSError as error:
        if isinstance(error, ConvMemError):
            raise
        raise _unwritable(path, error) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _unwritable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path} cannot be written: {error.strerror or error}")
