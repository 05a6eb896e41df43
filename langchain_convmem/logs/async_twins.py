"""The asynchronous twins of a log that has no asynchronous driver: one executor per log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from langchain_convmem.protocols import MessageLog, Stretch, ThreadState, ThreadTransactions
from langchain_convmem.records import (
    CacheDraft,
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)

__all__ = ["AsyncTwins", "TransactionTwins"]

P = ParamSpec("P")
T = TypeVar("T")


class AsyncTwins(MessageLog, ThreadState, Protocol):
    """Adds the `a...` methods to a log by running the synchronous ones off the event loop.

    One worker per log keeps the calls of one task in order. A cancelled call that has begun is
    carried through: what was written stays consistent.
    """

    _worker: ThreadPoolExecutor | None = None
    _worker_pid: int = 0

    async def _off_loop(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor(), partial(call, *args, **kwargs))

    def _executor(self) -> ThreadPoolExecutor:
        # Threads do not survive a fork; a child needs a worker of its own.
        if self._worker is None or self._worker_pid != os.getpid():
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="convmem-log")
            self._worker_pid = os.getpid()
        return self._worker

    def _stop_worker(self) -> None:
        if self._worker is not None and self._worker_pid == os.getpid():
            self._worker.shutdown(wait=False)
        self._worker = None

    async def aappend(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append, without blocking the event loop."""
        return await self._off_loop(self.append, key, drafts, relaxed=relaxed)

    async def aentries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries, without blocking the event loop."""
        return await self._off_loop(self.entries, key, after=after, until=until, last=last)

    async def afind(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Find entries, without blocking the event loop."""
        return await self._off_loop(self.find, key, message_ids)

    async def aannotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Annotate, without blocking the event loop."""
        return await self._off_loop(
            self.annotate, key, entry_id, attributes=attributes, timing=timing, aux=aux
        )

    async def athreads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, without blocking the event loop."""
        return await self._off_loop(self.threads, user_id)

    async def achanges(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return changes, without blocking the event loop."""
        return await self._off_loop(self.changes, owner, cursor, limit=limit)

    async def aforget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Forget, without blocking the event loop."""
        return await self._off_loop(self.forget, scope, entry_ids)

    async def aclose(self) -> None:
        """Close, without blocking the event loop."""
        await self._off_loop(self.close)

    async def aget_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, without blocking the event loop."""
        return await self._off_loop(self.get_state, key, name)

    async def aset_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document, without blocking the event loop."""
        return await self._off_loop(self.set_state, key, name, value, expected=expected)

    async def adelete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document, without blocking the event loop."""
        await self._off_loop(self.delete_state, key, name)


class TransactionTwins(AsyncTwins, ThreadTransactions, Protocol):
    """The same for a log that is a `ThreadTransactions` too."""

    async def aread_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries, without blocking the event loop."""
        return await self._off_loop(self.read_thread, key, name, stretches)

    async def aappend_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
        documents: Sequence[CacheDraft] = (),
    ) -> list[Entry]:
        """Append what was planned, without blocking the event loop."""
        return await self._off_loop(
            self.append_planned,
            key,
            plan,
            after=after,
            message_ids=message_ids,
            documents=documents,
        )
