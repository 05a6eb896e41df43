"""What keeps entries, small documents and segments of lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from langchain_convmem.records import (
        CacheDraft,
        Changes,
        Draft,
        Entry,
        ForgetReceipt,
        LineChanges,
        Owner,
        StateDocument,
        StoredSegment,
        ThreadInfo,
        ThreadKey,
    )

__all__ = [
    "CACHE_PREFIX",
    "EndsWithProcess",
    "LineSource",
    "MessageLog",
    "OwnerListing",
    "SegmentBuffer",
    "SegmentCache",
    "Stretch",
    "ThreadState",
    "ThreadTransactions",
    "speaks_for",
]

CACHE_PREFIX = "cache:"
"""How the names of state documents begin that are caches; see `ThreadState`."""

Stretch: TypeAlias = tuple[int, int | None]
"""Positions of a thread: after the first, up to the second, itself included; None: to the end."""


@runtime_checkable
class MessageLog(Protocol):
    """An append-only log of entries, by thread.

    Every method is safe to call from several threads and processes at once.
    """

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts, or none; return one entry for each, in order.

        A message whose own id is already in the thread is stored once: with equal payload the
        entry that is there comes back; with another payload a control entry (`replaced`) retracts
        it and the new one is appended. On return the entries survive a crash of the machine.

        Args:
            key: The thread.
            drafts: What to append; an empty sequence does nothing.
            relaxed: Survive a crash of the process only; for bulk imports that can be repeated.

        Raises:
            InvalidMessageError: If a message cannot be stored; nothing was written.
            LogUnavailableError: If the storage cannot be reached; nothing was written.
        """
        ...

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position, control entries included.

        Args:
            key: The thread; an unknown one has no entries.
            after: Only positions greater than this.
            until: Only positions up to this one, itself included; None is up to the newest.
            last: Of these only the latest so many, still in ascending order.
        """
        ...

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries whose `message_id` is one of these, by ascending position.

        Retracted and replaced ones included, so one id may have several entries. Control entries
        have no message id and are never found; unknown ids are skipped.

        Raises:
            ConfigError: If the ids come as one text.
        """
        ...

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata, durably; attributes append, the others overwrite by name.

        Raises:
            LogError: If the thread has no such entry.
        """
        ...

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; None lists the threads of no user."""
        ...

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return the owner's entries behind `cursor` in commit order, at most `limit` of them."""
        ...

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase a whole owner, one thread, or some entries of a thread, for good.

        Of an owner or a thread all goes: entries of every kind, state documents, segments. Of
        single entries go they and their segments, and of the thread's state documents those that
        are caches, whatever ids are given; see `ThreadState`. All else stays: later versions,
        control entries that name what is gone, and summaries that tell of it, whose ids the caller
        has to give, too (`ConversationMemory.forget` does).

        Positions are never given again, and the owner's `Changes.generation` differs afterwards.
        Idempotent: what is gone already and unknown ids are no error, and the receipt counts what
        this call erased. What others append at the same time is erased or not.

        Args:
            scope: The owner, or the thread.
            entry_ids: Entries of the thread by entry id, or by message id, which names every
                version of the message; an empty collection names none. None is the whole scope.

        Returns:
            What was erased, in counts.

        Raises:
            ConfigError: If `entry_ids` come without a `ThreadKey`, or as one text.
            LogUnavailableError: If the storage cannot be reached. Part may be gone already: call
                again.
        """
        ...

    def close(self) -> None:
        """Release what the log opened; later calls raise `LogClosedError`. Idempotent."""
        ...

    async def aappend(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append, without blocking the event loop."""
        ...

    async def aentries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries, without blocking the event loop."""
        ...

    async def afind(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Find entries, without blocking the event loop."""
        ...

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
        ...

    async def athreads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, without blocking the event loop."""
        ...

    async def achanges(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return changes, without blocking the event loop."""
        ...

    async def aforget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Forget, without blocking the event loop."""
        ...

    async def aclose(self) -> None:
        """Close, without blocking the event loop."""
        ...


@runtime_checkable
class OwnerListing(Protocol):
    """Optional ability of a log: it knows whose entries it holds."""

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries, in no order."""
        ...

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        ...


@runtime_checkable
class LineSource(Protocol):
    """Optional ability of a log: it reads dialog lines without making messages of entries."""

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return what `MessageLog.changes` does, as lines: of the same entries, in their order.

        Args:
            owner: Whose.
            cursor: That of an earlier call, of this one or of `changes`.
            limit: Entries at most; a page may hold fewer lines, or none.

        Raises:
            CorruptEntryError: If an entry cannot be read.
        """
        ...


@runtime_checkable
class ThreadState(Protocol):
    """Small JSON documents by thread and name, with compare-and-set.

    They are deleted when their thread is forgotten. A document whose name begins with
    `CACHE_PREFIX` is a cache of what the thread shows: it goes whenever entries of the thread are
    forgotten, since it may tell of them. Whoever read before a `forget` may write such a document
    after it; so keep in it the `Changes.generation` that it was made from, and trust no other.
    """

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        ...

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected` (None: if there is none yet).

        Returns:
            The document written, or None when another writer was faster and nothing was written.
        """
        ...

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        ...

    async def aget_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, without blocking the event loop."""
        ...

    async def aset_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document, without blocking the event loop."""
        ...

    async def adelete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document, without blocking the event loop."""
        ...


@runtime_checkable
class ThreadTransactions(Protocol):
    """Optional ability of a log: what a turn reads, and what it reads to write, is one transaction.

    Of other logs the same is asked call by call, which takes longer and promises less: what others
    append between two calls is seen by one of them alone. Needs `ThreadState`.
    """

    def read_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries of its thread, all from one state of the log.

        The entries may be the same objects as at an earlier call: read them, and change nothing.

        Args:
            key: The thread.
            name: The document.
            stretches: Tells from the document which entries to read, in ascending order and
                without overlap; called inside the transaction, so it must be quick.

        Raises:
            LogError: If the document or an entry cannot be read.
        """
        ...

    def append_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
        documents: Sequence[CacheDraft] = (),
    ) -> list[Entry]:
        """Append what `plan` makes of what is there, as `append` does; nobody appends between.

        Args:
            key: The thread.
            plan: Gets the entries after a position and those of some ids, each once, in order of
                position; returns what to append. Called inside the transaction, perhaps again if
                it has to begin anew: so it must be quick, and do nothing else.
            after: The position.
            message_ids: The ids; see `MessageLog.find`.
            documents: Caches to write as well; one whose version is not as expected is left out.
        """
        ...

    async def aread_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries, without blocking the event loop."""
        ...

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
        ...


@runtime_checkable
class SegmentCache(Protocol):
    """Optional ability of a log: keeps what recall derived from its lines. Always rebuildable.

    Rows belong to their entry: `forget` erases them with it. A fingerprint names what made their
    vectors: an embedder, and how lines are cut.
    """

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return rows made under `fingerprint` with a position greater than `after`, in order."""
        ...

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows; those whose entry is gone meanwhile are left out.

        A row without a vector leaves the vector that is there.
        """
        ...

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return, sorted, the fingerprints under which the owner has rows with a vector."""
        ...

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete the owner's rows made under `fingerprint`; return how many there were."""
        ...


@runtime_checkable
class SegmentBuffer(Protocol):
    """Optional ability of a `SegmentCache`: rows that cost little wait for the log's next write."""

    def keep_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows as `save_segments` does, at the next write of anything or at close.

        They are read as if they were written. If the process ends before, they are gone.
        """
        ...


@runtime_checkable
class EndsWithProcess(Protocol):
    """Optional ability of a log: it keeps nothing beyond this process, so no cache is missed."""

    ends_with_process: Literal[True]


def speaks_for(log: object, name: str, *others: str) -> bool:
    """Return whether nobody has changed one of `others` in a log without a thought for `name`.

    Who extends a log by overriding `append` means every append; a method that does the same by a
    shorter way, and was written before, would go around it.

    Args:
        log: The log.
        name: The method that stands for others.
        others: These.
    """
    for names in (getattr(log, "__dict__", {}), *map(vars, type(log).__mro__)):
        if name in names or not names.keys().isdisjoint(others):
            return name in names
    return False
