"""Tables of `SQLChatMessageHistory` in a SQLite file: `message_store(id, session_id, message)`.

The table may have any name; its columns tell. Each session is a thread, in the order of the rows.
"""

from __future__ import annotations

from langchain_convmem.transfer.messages import FoundMessage, read_stored_message
from langchain_convmem.transfer.source import MAX_LINE_BYTES, Database, Node, parse_json, refuse
from langchain_convmem.transfer.threads import ImportedThread, build_thread, rename_threads

FORM = "a SQLite file with a table of SQLChatMessageHistory (id, session_id, message)"
_COLUMNS = {"id", "session_id", "message"}


def fits_sql_history(database: Database) -> bool:
    """Return whether the file has such a table."""
    return bool(_find_tables(database))


def read_sql_history(database: Database, thread_id: str | None) -> list[ImportedThread]:
    """Return one thread per session, named by its id.

    Raises:
        ImportFormatError: If a row is not as LangChain writes it.
    """
    threads = [
        build_thread(name, found, database.path, number_repeats=True)
        for table in _find_tables(database)
        for name, found in _read_sessions(database, table).items()
    ]
    return rename_threads(threads, thread_id, database.path)


def _find_tables(database: Database) -> list[str]:
    return [name for name, columns in database.tables().items() if columns >= _COLUMNS]


def _read_sessions(database: Database, table: str) -> dict[str, list[FoundMessage]]:
    quoted = table.replace('"', '""')
    query = f'SELECT id, session_id, message FROM "{quoted}" ORDER BY id'
    sessions: dict[str, list[FoundMessage]] = {}
    for row_id, session_id, stored in database.rows(query):
        location = f"table {table}, row {row_id}"
        name = Node(session_id, database.path, f"{location}, session_id").label()
        if not isinstance(stored, str) or len(stored.encode()) > MAX_LINE_BYTES:
            refuse(
                database.path, location, f"expected JSON text of at most {MAX_LINE_BYTES:,} bytes"
            )
        node = Node(parse_json(stored, database.path, place=location), database.path, location)
        found = read_stored_message(node)
        found.message.id = found.message.id or f"row-{row_id}"
        sessions.setdefault(name, []).append(found)
    return sessions
