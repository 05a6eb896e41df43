"""Opening the memory a command works on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.records import ThreadInfo

__all__ = ["existing_memory", "known_thread", "memory_at"]


@contextlib.contextmanager
def memory_at(path: str, embeddings: Embeddings | None = None) -> Iterator[ConversationMemory]:
    """Open the database, made anew where there is no such file, and close it behind the block."""
    from langchain_convmem.memory import ConversationMemory

    with ConversationMemory.open(path, embeddings=embeddings) as memory:
        yield memory


@contextlib.contextmanager
def existing_memory(
    path: str, embeddings: Embeddings | None = None
) -> Iterator[ConversationMemory]:
    """Open a database that must be there: reading from an empty new file would mislead.

    Raises:
        ConfigError: If there is no such file.
    """
    if "://" not in path and not Path(path).exists():
        msg = (
            f"there is no database at {path}; make one with 'convmem import FILE --db {path}' "
            f"or 'convmem chat --db {path}', or name another with --db"
        )
        raise ConfigError(msg)
    with memory_at(path, embeddings) as memory:
        yield memory


def known_thread(memory: ConversationMemory, user_id: str, thread_id: str) -> ThreadInfo:
    """Return what is known of a thread.

    Raises:
        ConfigError: If the user has no such thread: most likely its name is misspelt.
    """
    for info in memory.threads(user_id=user_id):
        if info.key.thread_id == thread_id:
            return info
    msg = f"user {user_id!r} has no thread {thread_id!r}; 'convmem threads' lists what there is"
    raise ConfigError(msg)
