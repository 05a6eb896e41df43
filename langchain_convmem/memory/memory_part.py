"""What every part of a memory stands on: a log, and what is stored of what is said."""

from __future__ import annotations

from collections.abc import Hashable

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

    @property
    def log_place(self) -> Hashable:
        """What tells the log from others in this process; handles of one file are one log."""
        return getattr(self.log, "path", None) or id(self.log)

    def _note_stored(self, owner: Owner) -> None:
        """Note that lines of an owner were stored; what finds them may prepare itself."""


def owner_of(user_id: str | None, thread_id: str | None) -> Owner:
    """Return whose lines are meant.

    Raises:
        ConfigError: If the call names nobody.
    """
    if user_id is None and thread_id is None:
        raise ConfigError("pass user_id, or thread_id for a thread of no user")
    return ThreadKey(user_id, "-" if thread_id is None else thread_id).owner
