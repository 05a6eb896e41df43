"""The part of a memory that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.memory.memory_part import MemoryPart
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.steps import Steps, arun, run, step

if TYPE_CHECKING:
    from langchain_convmem.memory.thread_stats import ThreadStats

__all__ = ["CountingMemory"]


class CountingMemory(MemoryPart):
    """Tells what threads hold, in numbers."""

    def stats(self, thread_id: str, *, user_id: str | None = None) -> ThreadStats:
        """Return a thread in numbers: messages, turns, tokens, times, bytes.

        Nothing is counted while turns run: the whole thread is read at each call, so ask as often
        as somebody looks, not in every turn.

        Args:
            thread_id: The thread; one that does not exist has nothing.
            user_id: Its user.
        """
        return run(self._stats_steps(ThreadKey(user_id, thread_id)))

    async def astats(self, thread_id: str, *, user_id: str | None = None) -> ThreadStats:
        """Return a thread in numbers; see `stats`."""
        return await arun(self._stats_steps(ThreadKey(user_id, thread_id)))

    def _stats_steps(self, key: ThreadKey) -> Steps[ThreadStats]:
        from langchain_convmem.memory.thread_stats import thread_stats

        entries: list[Entry] = yield step(self.log, "entries", key)
        return thread_stats(entries)
