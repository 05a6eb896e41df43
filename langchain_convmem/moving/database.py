"""A SQLite file of another program, opened for reading; the only file here that knows sqlite3.

Every refusal is an `ImportFormatError` that names the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_convmem.moving.source import refuse

__all__ = ["Database", "is_database"]

_MAGIC = b"SQLite format 3\x00"


def is_database(path: Path) -> bool:
    """Return whether the file is a SQLite database; what cannot be opened is none."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Database:
    """One file.

    Attributes:
        path: As the user named it.
    """

    path: str

    def tables(self) -> dict[str, frozenset[str]]:
        """Return the columns of every table by the table's name."""
        names = [row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: frozenset(
                row[0] for row in self.rows("SELECT name FROM pragma_table_info(?)", name)
            )
            for name in names
        }

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        Raises:
            ImportFormatError: If the file is damaged, locked or no database.
        """
        address = f"{Path(self.path).resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True)) as connection:
                yield from connection.execute(query, values)
        except sqlite3.Error as error:
            refuse(self.path, "", f"cannot be read as a SQLite database: {error}")
