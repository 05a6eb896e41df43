"""Leases: at most one summary of a thread in the making, over all threads, loops and processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.planning import SummarySettings

Ended = Literal["done", "failed", "stopped"]
"""How the work under a lease ended. `stopped`: by a cancellation, which tells nothing of the
summariser; failures before it still count, and the thread does not rest."""

_DOCUMENT = "summary:lease"
_LONGEST_PAUSE_MS = 3_600_000


@dataclass(slots=True)
class Lease:
    """The right to summarise a thread. Not thread-safe."""

    key: ThreadKey
    failures: int = 0
    holder: str = field(default_factory=make_ulid)
    version: int | None = None
    """Version of the document that says so; None before there is one."""


class Leases:
    """Gives out leases. Thread-safe."""

    def __init__(
        self,
        log: MessageLog,
        settings: SummarySettings,
        *,
        clock: Callable[[], int] = get_now_ms,
    ) -> None:
        """Create the leases of a log.

        Args:
            log: Whose threads.
            settings: How long a lease lasts, and a thread rests.
            clock: Tells the time in milliseconds since the epoch.
        """
        self._log = log
        self._settings = settings
        self._clock = clock
        self._lock = make_lock()
        self._pid = os.getpid()
        self._held: set[ThreadKey] = set()

    def take(self, key: ThreadKey, *, even_resting: bool = False) -> Lease | None:
        """Take the lease of a thread; None if it is taken, or rests after a failure.

        Args:
            key: The thread.
            even_resting: Take it where the thread rests, too.
        """
        with self._lock:
            if self._pid != os.getpid():
                # A forked child holds none of its parent's, and nobody would give them back.
                self._pid = os.getpid()
                self._held.clear()
            if key in self._held:
                return None
            self._held.add(key)
        lease = None
        try:
            lease = self._take_free(key, even_resting)
        finally:
            if lease is None:
                self._drop(key)
        return lease

    def find_rest(self, key: ThreadKey) -> bool:
        """Return whether a thread rests after a failure."""
        value, _ = self._read(key)
        return bool(value.get("rests_until_ms", 0) > self._clock())

    def _take_free(self, key: ThreadKey, even_resting: bool) -> Lease | None:
        value, version = self._read(key)
        now = self._clock()
        is_taken = bool(value.get("holder")) and value.get("until_ms", 0) > now
        is_resting = value.get("rests_until_ms", 0) > now
        if is_taken or (is_resting and not even_resting):
            return None
        lease = Lease(key, int(value.get("failures", 0)), version=version)
        return lease if self._write(lease, self._claim(lease)) else None

    def _read(self, key: ThreadKey) -> tuple[Mapping[str, Any], int | None]:
        """Return what is noted of a thread, and the version of the note."""
        found = self._log.get_state(key, _DOCUMENT)
        value = found.value if found is not None and isinstance(found.value, Mapping) else {}
        return value, None if found is None else found.version

    def renew(self, lease: Lease) -> bool:
        """Hold the lease anew; say whether it was still held."""
        return self._write(lease, self._claim(lease))

    def give_back(self, lease: Lease, ended: Ended) -> int:
        """End the lease; after a failure the thread rests, each time twice as long.

        Returns:
            Until when it rests, milliseconds since the epoch; 0 where it does not.
        """
        try:
            has_failed = ended == "failed"
            failures = 0 if ended == "done" else lease.failures + has_failed
            pause_ms = round(self._settings.first_pause_s * 1000) * 2 ** min(failures - 1, 20)
            rests_until = self._clock() + min(pause_ms, _LONGEST_PAUSE_MS) if has_failed else 0
            told = {"holder": "", "failures": failures, "rests_until_ms": rests_until}
            # Fails if another one took over meanwhile, who then decides.
            self._write(lease, told)
        finally:
            self._drop(lease.key)
        return rests_until

    def _claim(self, lease: Lease) -> dict[str, Any]:
        until = self._clock() + round(self._settings.lease_s * 1000)
        return {"holder": lease.holder, "until_ms": until, "failures": lease.failures}

    def _write(self, lease: Lease, value: dict[str, Any]) -> bool:
        written = self._log.set_state(lease.key, _DOCUMENT, value, expected=lease.version)
        if written is not None:
            lease.version = written.version
        return written is not None

    def _drop(self, key: ThreadKey) -> None:
        with self._lock:
            self._held.discard(key)
