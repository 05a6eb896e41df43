"""What the logs in SQL databases share: statements with one meaning, and the rows they return.

Both keep entries in a table `entries` next to `threads` and `owners`, find the id of a message by a
hash, and read control entries only where a message is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_convmem.logs.base import (
    Row,
)
from langchain_convmem.records import Owner, ThreadKey


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database writes what the statements mean.

    Attributes:
        value: Stands for a bound value.
        tables: Stands before the name of a table.
        position: Column of an entry's position.
        columns: Of an entry `e`, as the log makes a row of them.
        control: The role of control entries, as it is stored.
        among: A condition on so many bound hashes, without its left side.
    """

    value: str
    tables: str
    position: str
    columns: str
    control: str
    among: Callable[[int], str]


class Statements:
    """Statements about one thread; each binds the thread first.

    Attributes:
        entries: Rows after a position up to another, the latest first; binds both and a limit.
        stretch: The same in order and without a limit.
        controls: Control entries, in order.
        document: Value and version of a document; binds its name.
        delete_document: Binds its name.
    """

    def __init__(self, dialect: Dialect, thread: str) -> None:
        """Write the statements.

        Args:
            dialect: Of the database.
            thread: The thread's number: a bound value, or a query for one.
        """
        value, position = dialect.value, f"e.{dialect.position}"
        of_thread = (
            f"SELECT {dialect.columns} FROM {dialect.tables}entries e WHERE e.thread = {thread} AND"
        )
        between = f"{of_thread} {position} > {value} AND {position} <= {value}"
        self.entries = f"{between} ORDER BY {position} DESC LIMIT {value}"
        self.stretch = f"{between} ORDER BY {position}"
        # NOT NULL is said so that the index over just these rows serves under every plan.
        self._versions = f"{of_thread} e.key_hash IS NOT NULL AND e.key_hash"
        self._in_order = f"ORDER BY {position}"
        self._among = dialect.among
        self.controls = f"{of_thread} e.role = {dialect.control} ORDER BY {position}"
        of_document = f"FROM {dialect.tables}documents WHERE thread = {thread} AND name = {value}"
        self.document = f"SELECT value, version {of_document}"
        self.delete_document = f"DELETE {of_document}"

    def select_versions(self, count: int) -> str:
        """Return what finds rows whose message ids have one of so many hashes, in order."""
        return f"{self._versions} {self._among(count)} {self._in_order}"


def add_thread_keys(
    owner: Owner,
    found: Iterable[Sequence[Any]],
    read_row: Callable[[Sequence[Any], str], Row],
    read_name: Callable[[str], str] = str,
) -> Iterator[tuple[ThreadKey, Row]]:
    """Yield an owner's rows, each with its thread.

    Args:
        owner: Whose they are.
        found: A thread's stored name and the columns of an entry, each.
        read_row: Makes a row of columns and of the thread's id.
        read_name: Returns a thread's id from its stored name.

    Raises:
        CorruptEntryError: If a column holds what no row can.
    """
    keys: dict[str, ThreadKey] = {}
    for name, *columns in found:
        key = keys.get(name) or keys.setdefault(name, ThreadKey(owner.user_id, read_name(name)))
        yield key, read_row(columns, key.thread_id)
