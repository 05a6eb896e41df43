"""`MessageLog`: what every message log must do, and defaults for what it may do better."""

from __future__ import annotations

import asyncio
import contextvars
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from langchain_convmem.background import to_async
from langchain_convmem.errors import LogClosedError, LogError, LogUnavailableError
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    LineChanges,
    Owner,
    StateDocument,
    StoredSegment,
    Stretch,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.edits import is_edited, plan_edited
from langchain_convmem.views.lines import make_dialog_lines

T = TypeVar("T")

CACHE_PREFIX = "cache:"
"""How the names of state documents begin that are caches; see `MessageLog.set_state`."""


class ReadPlan(Protocol):
    """What is needed of a thread that is read backwards; see `MessageLog.read_back`."""

    def find_stretches(self, framing: Sequence[Entry]) -> Sequence[Stretch]:
        """Return where to read: ascending, without overlap.

        Args:
            framing: The thread's system messages, summaries and control entries, by position.
        """
        ...

    def find_named(self, framing: Sequence[Entry]) -> Collection[str]:
        """Return the ids of messages that are needed wherever they stand, in all their versions."""
        ...

    def is_enough(self, page: Sequence[Entry]) -> bool:
        """Return whether nothing is needed before these entries; not asked where none are.

        Args:
            page: What was read so far of the stretches, by position.
        """
        ...


_SHORTCUTS = {
    "append_planned": {"append", "entries", "find"},
    "read_back": {"entries"},
    "line_changes": {"changes"},
    "load_snapshot": {"changes", "line_changes"},
    "save_snapshot": {"changes", "line_changes"},
}
"""Methods that do the work of several others in one step, and the names of those others."""


class MessageLog(ABC):
    """An append-only log of entries, by thread, with small documents for each thread.

    Every method is safe to call from several threads and processes at once. The `a...` form of each
    runs it in a thread of the log's own and keeps its promises; a cancelled call that has begun is
    carried through. In a `with` block, the log is closed at its end.

    Documents are deleted when their thread is forgotten. A document whose name begins with
    `CACHE_PREFIX` is a cache of what the thread shows: it goes whenever entries of the thread are
    forgotten, since it may tell of them. A reader from before a `forget` may write such a document
    after it; so keep in it the `Changes.generation` that it was made from, and trust no other.

    A subclass that overrides `append` but not `append_planned` gets the default of the latter, so
    that every append goes through its override. The same holds for the other shortcuts.

    Attributes:
        workers: Threads of one log; with one, as by default, calls are made in their order.
        keeps_segments: It keeps what recall has derived from lines, beyond this process.
        ends_with_process: It keeps nothing beyond this process, so no cache is missed.
    """

    workers: ClassVar[int] = 1
    keeps_segments: bool = False
    ends_with_process: ClassVar[bool] = False
    _executor: ThreadPoolExecutor | None = None
    _executor_pid: int = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give the class the default of each shortcut for which it overrides a method."""
        super().__init_subclass__(**kwargs)
        for name, others in _SHORTCUTS.items():
            if name not in vars(cls) and not others.isdisjoint(vars(cls)):
                setattr(cls, name, vars(MessageLog)[name])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what every log does ----------------------------------------------------------------------

    @abstractmethod
    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts, or none; return one entry for each, in order.

        A message whose own id is already in the thread is stored once: with equal payload the
        entry that is there comes back; with another payload a control entry (`replaced`) retracts
        it and the new one is appended. On return the entries survive a crash of the machine.

        Args:
            key: The thread.
            drafts: What to append; an empty sequence does nothing.
            durable: Survive a crash of the machine; False, for bulk imports that can be repeated: a
                crash of the process only.

        Raises:
            InvalidMessageError: If a message cannot be stored, or its id is that of a message of
                another role; nothing was written.
            LogUnavailableError: If the storage cannot be reached; nothing was written.
        """

    @abstractmethod
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
            last: Only this many of the latest, still in ascending order.
        """

    @abstractmethod
    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries whose `message_id` is one of these, by ascending position.

        Retracted and replaced ones included, so one id may have several entries. Control entries
        have no message id and are never found; unknown ids are skipped.

        Raises:
            ConfigError: If the ids come as one text.
        """

    @abstractmethod
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

    @abstractmethod
    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; None lists the threads of no user."""

    @abstractmethod
    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return the owner's entries after `cursor` in commit order, at most `limit` of them.

        There are fewer only where the log ends.
        """

    @abstractmethod
    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase a whole owner, one thread, or some entries of a thread, for good.

        Of an owner or a thread all goes: entries of every kind, state documents, segments. Of
        single entries go they and their segments, and of the thread's state documents those that
        are caches, whatever ids are given; see the class. All else stays: later versions,
        control entries that name what is gone, and summaries that tell of it, whose ids the caller
        has to give, too (`ConversationMemory.forget` does).

        Positions are never given again, and the owner's `Changes.generation` differs afterwards.
        Idempotent: what is gone already and unknown ids are not an error, and the receipt counts
        what this call erased. What others append at the same time is erased or not.

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

    def close(self) -> None:
        """Release what the log opened; later calls raise `LogClosedError`. Idempotent.

        A subclass releases what is its own, and then calls this.
        """
        if self._executor is not None and self._executor_pid == os.getpid():
            self._executor.shutdown(wait=False)
        self._executor = None

    @abstractmethod
    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""

    def get_states(self, keys: Iterable[ThreadKey], name: str) -> dict[ThreadKey, StateDocument]:
        """Return the documents of one name of some threads; a damaged one is left out."""

        def read(key: ThreadKey) -> StateDocument | None:
            try:
                return self.get_state(key, name)
            except (LogUnavailableError, LogClosedError):
                raise
            except LogError:
                return None

        with ThreadPoolExecutor(self.workers) as pool:
            found = pool.map(lambda key: (key, read(key)), keys)
        return {key: one for key, one in found if one is not None}

    @abstractmethod
    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None, durable: bool = True
    ) -> StateDocument | None:
        """Write the document if its version is `expected` (None: if there is none yet).

        `durable` is as for `append`.

        Returns:
            The document written, or None when another writer was faster and nothing was written.
        """

    @abstractmethod
    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""

    @abstractmethod
    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries, in no order."""

    # -- what a log may do by a shorter way -------------------------------------------------------

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return what `changes` does, as lines: of the same entries, in their order.

        Args:
            owner: Whose.
            cursor: That of an earlier call, of this one or of `changes`.
            limit: Entries at most; a page may hold fewer lines, or none.
        """
        changes = self.changes(owner, cursor, limit=limit)
        return LineChanges(
            tuple(line for entry in changes.entries for line in make_dialog_lines(entry)),
            tuple(entry for entry in changes.entries if entry.control is not None),
            # Without entries the log has ended, wherever it says that its cursor is.
            changes.cursor if changes.entries else cursor,
            changes.generation,
            is_last=limit is None or len(changes.entries) < limit,
        )

    def read_back(self, key: ThreadKey, plan: ReadPlan, *, page: int = 64) -> list[Entry]:
        """Return the entries that a plan asks for, in order of position, and perhaps more.

        By default these are all of the thread, and the plan is not asked. A log that can select
        entries by role reads the thread backwards instead, from one state of itself. The entries
        may be the same objects as at an earlier call: read them, and change nothing.

        Args:
            key: The thread.
            plan: Tells from system messages, summaries and control entries, which are read anyway,
                what else is needed. Called inside the transaction, so it must be quick.
            page: How many entries are read first; each page is twice as long as the one before.

        Raises:
            LogError: If an entry cannot be read.
        """
        return self.entries(key)

    def append_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
    ) -> list[Entry]:
        """Append what `plan` makes of what is there, as `append` does.

        Where a log does it by a shorter way, no append comes between, and all of it is written or
        nothing; otherwise what others append meanwhile is seen by one of the calls alone.

        Args:
            key: The thread.
            plan: Gets the entries after a position and those of some ids, each once, in order of
                position; returns what to append. Called inside the transaction, perhaps again if
                it has to begin anew: so it must be quick, and do nothing else.
            after: The position.
            message_ids: The ids; see `MessageLog.find`.
        """
        found = self.find(key, message_ids) if message_ids else []
        there = {entry.position: entry for entry in (*found, *self.entries(key, after=after))}
        planned = plan([there[at] for at in sorted(there)])
        return self.append(key, planned) if planned else []

    # -- what a log may keep for recall: it can be made again -------------------------------------
    # Rows belong to their entry: `forget` erases them with it. A fingerprint names what made their
    # vectors. A snapshot is an owner's whole index: `forget` erases it in the same step as lines.

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return rows made under `fingerprint` with a position greater than `after`, in order."""
        return []

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows; those whose entry is gone meanwhile are left out.

        A row without a vector leaves the vector that is there.
        """

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return, sorted, the fingerprints under which the owner has rows with a vector."""
        return []

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete the owner's rows made under `fingerprint`; return how many there were."""
        return 0

    def load_snapshot(self, owner: Owner, name: str) -> tuple[bytes, int] | None:
        """Return the owner's snapshot and its generation, if it is of this name, and still holds.

        One that is damaged counts as none. It holds until something of the owner's is forgotten.

        Raises:
            LogError: If the log cannot be read.
        """
        return None

    def save_snapshot(self, owner: Owner, name: str, data: bytes, generation: int) -> bool:
        """Put a snapshot in the place of the owner's last one.

        Args:
            owner: Whose lines it holds.
            name: Tells how it was made. What asks for another name gets none.
            data: The snapshot.
            generation: That of the log's `Changes` when it was made.

        Returns:
            Whether it was saved; not if something of the owner's was forgotten since it was made,
            or another process saved one meanwhile.

        Raises:
            LogError: If the log cannot be written.
        """
        return False

    # -- the asynchronous forms -------------------------------------------------------------------

    aappend = to_async(append)
    aentries = to_async(entries)
    afind = to_async(find)
    aannotate = to_async(annotate)
    athreads = to_async(threads)
    achanges = to_async(changes)
    aforget = to_async(forget)
    aclose = to_async(close)
    aget_state = to_async(get_state)
    aget_states = to_async(get_states)
    aset_state = to_async(set_state)
    adelete_state = to_async(delete_state)
    aowners = to_async(owners)
    aread_back = to_async(read_back)
    aappend_planned = to_async(append_planned)

    async def _run_off_loop(self, call: Callable[[], T]) -> T:
        """Make a call in a thread of this log: in the order of arrival, if it has but one."""
        loop, run = asyncio.get_running_loop(), partial(contextvars.copy_context().run, call)
        # Hundreds of calls at once cost their loop less as waiting coroutines than as submitted
        # work. As many more as there are threads are submitted, so that no thread runs dry.
        async with self._lines.setdefault(loop, asyncio.Semaphore(2 * self.workers)):
            if self._executor is None or self._executor_pid != os.getpid():  # after a fork: none
                self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="convmem-log")
                self._executor_pid = os.getpid()
            return await loop.run_in_executor(self._executor, run)

    @cached_property
    def _lines(self) -> WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]:
        """Who waits for a thread, by event loop."""
        return WeakKeyDictionary()


def append_messages(
    log: MessageLog, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
) -> list[Entry]:
    """Append messages as `MessageLog.append` does; summaries of those that they replace go."""
    said = {one.message.id: one for one in drafts if one.message is not None and one.message.id}
    known = log.find(key, said) if said else []
    edited = [one.id for one in known if is_edited(one, said[one.message_id])]
    gone = plan_edited(log.entries(key), edited) if edited else []
    return log.append(key, [*gone, *drafts], durable=durable)[len(gone) :]
