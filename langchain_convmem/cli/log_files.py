"""Opening the database file that a command is about, as a file."""

from __future__ import annotations

from pathlib import Path

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.sqlite import SQLiteLog

__all__ = ["existing_file"]


def existing_file(path: str) -> SQLiteLog:
    """Open the log in a file that must be there; the caller closes it.

    Raises:
        ConfigError: If there is no such file, or it is the address of a server.
    """
    if "://" in path:
        # Not quoted: it may hold a password.
        raise ConfigError("this is the address of a server; expected the path of a database file")
    if not Path(path).exists():
        raise ConfigError(f"there is no database at {path}")
    return SQLiteLog(path)
