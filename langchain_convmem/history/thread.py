"""What every part of a history stands on: a log, and the key of a thread in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.views.drafting import Drafting

__all__ = ["LogThread"]

T = TypeVar("T")


class LogThread:
    """A thread of a log. Holds nothing of its own; thread-safe as the log is."""

    log: MessageLog
    key: ThreadKey
    drafting: Drafting

    @property
    def entries(self) -> list[Entry]:
        """Everything ever added, in order of position, control entries included."""
        return self.log.entries(self.key)

    def _entries(self) -> Steps[list[Entry]]:
        found: list[Entry] = yield step(self.log, "entries", self.key)
        return found

    def _append(self, drafts: Sequence[Draft]) -> Steps[list[Entry]]:
        """Append, unless there is nothing to append."""
        if not drafts:
            return []
        added: list[Entry] = yield step(self.log, "append", self.key, drafts)
        return added

    def _viewed(self, view: Callable[[Sequence[Entry]], T]) -> Steps[T]:
        """Return what a view makes of the entries."""
        return view((yield from self._entries()))
