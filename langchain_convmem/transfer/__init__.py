"""Transfer: files of other services to threads, logs to logs, logs to files.

Reading a file writes nothing: `read_threads` checks it to the last line first, and `store_thread`
writes what it found. Nothing here prints or knows of a memory.
"""

from __future__ import annotations

from langchain_convmem.transfer.copy import (
    CopyReport,
    acopy_log,
    copy_log,
)
from langchain_convmem.transfer.formats.convmem import export_rows
from langchain_convmem.transfer.imports import (
    ImportReport,
    astore_thread,
    read_threads,
    store_thread,
)
from langchain_convmem.transfer.threads import ImportedThread

__all__ = [
    "CopyReport",
    "ImportReport",
    "ImportedThread",
    "acopy_log",
    "astore_thread",
    "copy_log",
    "export_rows",
    "read_threads",
    "store_thread",
]
