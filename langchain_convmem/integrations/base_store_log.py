"""`BaseStoreLog`: a message log in any LangGraph store, such as the one a graph runs with."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary

from langchain_convmem.effects import Steps, arun, run
from langchain_convmem.errors import LogClosedError
from langchain_convmem.integrations.base_store_access import StoreAccess
from langchain_convmem.integrations.base_store_layout import check_root
from langchain_convmem.integrations.base_store_procedures import Procedures
from langchain_convmem.integrations.fair_lock import FairLock
from langchain_convmem.logs.rows import check_ids, check_scope, check_user, encode, state_text
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

__all__ = ["BaseStoreLog"]

T = TypeVar("T")

_GUARD = threading.Lock()
_LOCKS: WeakKeyDictionary[Any, FairLock] = WeakKeyDictionary()
"""One lock per store object, so that several logs on it do not collide."""


def _lock_of(store: BaseStore) -> FairLock:
    with _GUARD:
        return _LOCKS.setdefault(store, FairLock())


class BaseStoreLog:
    """A message log in a LangGraph store: `InMemoryStore`, `PostgresStore`, `RedisStore`, ...

    Safe to share between the threads and tasks of one process, which write one after the other;
    as safe as the store where one thread lists or forgets while another reads. A batch counts
    whole or not at all, whatever the store promises.

    **Weaker than the other logs**: a store cannot write on a condition, so two processes that
    write to one user at the same moment may lose one of the writes, and `set_state` is exact
    within one process only. Let one process at a time write to a user, or use `PostgresLog` or
    `DynamoDBLog`. What is acknowledged is as durable as the store makes it; `relaxed` changes
    nothing.

    Each append is one read and two writes; its record of a user grows with the user's threads, by
    about 300 bytes each, which suits up to about a thousand. `changes` and the latest entries are
    read without the rest. Items are never embedded, and never expire: the log writes them without
    a time to live.

    The asynchronous twins use the store's own `abatch`; a store that is only asynchronous, such as
    `AsyncPostgresStore`, works through them. What the store raises is passed on.
    """

    def __init__(self, store: BaseStore, *, namespace: Sequence[str] = ("convmem",)) -> None:
        """Use a store; nothing is sent yet.

        Args:
            store: Stays the caller's to close.
            namespace: Where the log's items are, apart from everything else in the store.

        Raises:
            MissingExtraError: If langgraph is not installed.
            ConfigError: If the store is none, or it would refuse the namespace.
        """
        access = StoreAccess(store, check_root(namespace))
        self._store = store
        self._jobs = Procedures(access)
        self._lock = _lock_of(store)
        self._closed = False

    def __repr__(self) -> str:
        return f"BaseStoreLog({type(self._store).__name__})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Refuse later calls; the store stays open. Idempotent."""
        self._closed = True

    async def aclose(self) -> None:
        """Refuse later calls; see `close`."""
        self._closed = True

    def _open(self, job: Steps[T]) -> Steps[T]:
        if self._closed:
            msg = "the log is closed; make a new BaseStoreLog of its store"
            raise LogClosedError(msg)
        return job

    def _alone(self, job: Steps[T]) -> Steps[T]:
        """Return a job that waits until no other one writes."""
        return self._locked(self._open(job))

    def _locked(self, job: Steps[T]) -> Steps[T]:
        yield self._lock.taking()
        try:
            return (yield from job)
        finally:
            self._lock.release()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts; see `MessageLog.append`."""
        del relaxed
        return run(self._append(key, drafts))

    async def aappend(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts; see `MessageLog.append`."""
        del relaxed
        return await arun(self._append(key, drafts))

    def _append(self, key: ThreadKey, drafts: Sequence[Draft]) -> Steps[list[Entry]]:
        encoded = encode(drafts)
        job = self._alone(self._jobs.append(key, encoded))
        return job if encoded else _nothing()

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata; see `MessageLog.annotate`."""
        return run(self._alone(self._jobs.annotate(key, entry_id, attributes, timing, aux)))

    async def aannotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata; see `MessageLog.annotate`."""
        job = self._jobs.annotate(key, entry_id, attributes, timing, aux)
        return await arun(self._alone(job))

    # -- reading --------------------------------------------------------------------------------

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        return run(self._open(self._jobs.entries(key, after, until, last)))

    async def aentries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        return await arun(self._open(self._jobs.entries(key, after, until, last)))

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`.

        It waits for its turn as writers do. A thread is read when first asked for, and what is new
        later.
        """
        return run(self._find(key, message_ids))

    async def afind(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `find`."""
        return await arun(self._find(key, message_ids))

    def _find(self, key: ThreadKey, message_ids: Collection[str]) -> Steps[list[Entry]]:
        check_ids(message_ids)
        # Alone, since it brings the index of the thread up to date.
        return self._alone(self._jobs.find(key, message_ids))

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        return run(self._open(self._jobs.threads(user_id)))

    async def athreads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        return await arun(self._open(self._jobs.threads(user_id)))

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        return run(self._open(self._jobs.owners()))

    async def aowners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        return await arun(self._open(self._jobs.owners()))

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries behind the cursor in commit order; see `MessageLog.changes`."""
        return run(self._open(self._jobs.changes(owner, cursor, limit)))

    async def achanges(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries behind the cursor in commit order; see `MessageLog.changes`."""
        return await arun(self._open(self._jobs.changes(owner, cursor, limit)))

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`."""
        check_scope(scope, entry_ids)
        return run(self._alone(self._jobs.forget(scope, entry_ids)))

    async def aforget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`."""
        check_scope(scope, entry_ids)
        return await arun(self._alone(self._jobs.forget(scope, entry_ids)))

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        return run(self._open(self._jobs.get_state(key, name)))

    async def aget_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        return await arun(self._open(self._jobs.get_state(key, name)))

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        return run(self._set_state(key, name, value, expected))

    async def aset_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        return await arun(self._set_state(key, name, value, expected))

    def _set_state(
        self, key: ThreadKey, name: str, value: Any, expected: int | None
    ) -> Steps[StateDocument | None]:
        text = state_text(value)
        return self._alone(self._jobs.set_state(key, name, text, expected))

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        run(self._alone(self._jobs.delete_state(key, name)))

    async def adelete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        await arun(self._alone(self._jobs.delete_state(key, name)))


def _nothing() -> Steps[list[Entry]]:
    """Return the job that appends nothing."""
    yield from ()
    return []
