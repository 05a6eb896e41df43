"""What every part of a memory stands on: a log, and what is stored of what is said."""

from __future__ import annotations

from langchain_convmem.errors import ConfigError
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.drafting import Drafting

__all__ = ["MemoryPart", "owner_of"]


class MemoryPart:
    """A log, and the write hook in front of it. Thread-safe as both are."""

    log: MessageLog
    """Where entries are kept."""
    drafting: Drafting
    """Makes drafts of messages, through the write hook; whoever writes to `log` writes these."""


def owner_of(user_id: str | None, thread_id: str | None) -> Owner:
    """Return whose lines are meant.

    Raises:
        ConfigError: If the call names nobody.
    """
    if user_id is None and thread_id is None:
        raise ConfigError("pass user_id, or thread_id for a thread of no user")
    return ThreadKey(user_id, "-" if thread_id is None else thread_id).owner
