"""Moving in and out: files of other services to threads, logs to logs, logs to files.

Reading a file writes nothing: `read_threads` checks it to the last line first, and `store_thread`
writes what it found. Nothing here prints or knows of a memory.
"""

from __future__ import annotations

from langchain_convmem.moving.copying import (
    CopyReport,
    ShortThread,
    acopy_log,
    copy_log,
)
from langchain_convmem.moving.exporting import export_rows
from langchain_convmem.moving.readers import (
    DATABASE_READERS,
    READERS,
    ImportedFile,
    Reader,
    open_source,
    read_files,
    read_threads,
    threads_of,
)
from langchain_convmem.moving.source import Source, read_source
from langchain_convmem.moving.storing import (
    ImportReport,
    astore_thread,
    store_file,
    store_file_steps,
    store_thread,
)
from langchain_convmem.moving.threads import ImportedThread

__all__ = [
    "DATABASE_READERS",
    "READERS",
    "CopyReport",
    "ImportReport",
    "ImportedFile",
    "ImportedThread",
    "Reader",
    "ShortThread",
    "Source",
    "acopy_log",
    "astore_thread",
    "copy_log",
    "export_rows",
    "open_source",
    "read_files",
    "read_source",
    "read_threads",
    "store_file",
    "store_file_steps",
    "store_thread",
    "threads_of",
]
