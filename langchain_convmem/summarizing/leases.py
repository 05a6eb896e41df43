"""At most one summary of a thread in the making, over all threads, loops and processes.

A lease is a state document beside the thread, taken and renewed by compare-and-set. Whoever holds
one and stops working loses it after a while; it is renewed right before the commit, so that who
lost it does not commit. After a failure the document tells how long the thread is left alone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.protocols import MessageLog, ThreadState
from langchain_convmem.records import StateDocument, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.summarizing.settings import SummarySettings

__all__ = ["Ended", "Lease", "Leases"]

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
    holder: str = field(default_factory=new_ulid)
    version: int | None = None
    """Version of the document that says so; None where the log keeps none."""


class Leases:
    """Gives out leases. Thread-safe."""

    def __init__(
        self, log: MessageLog, settings: SummarySettings, *, clock: Callable[[], int] = now_ms
    ) -> None:
        """Create the leases of a log; where it keeps no state, those of this process alone.

        Args:
            log: Whose threads.
            settings: How long a lease lasts, and a thread rests.
            clock: Tells the time in milliseconds since the epoch.
        """
        self._state: ThreadState | None = log if isinstance(log, ThreadState) else None
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._held: set[ThreadKey] = set()
        self._resting: dict[ThreadKey, tuple[int, int]] = {}

    def take(self, key: ThreadKey, *, even_resting: bool = False) -> Steps[Lease | None]:
        """Take the lease of a thread; None if it is taken, or rests after a failure."""
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
            lease = yield from self._taken(key, even_resting=even_resting)
        finally:
            if lease is None:
                self._drop(key)
        return lease

    def _taken(self, key: ThreadKey, *, even_resting: bool) -> Steps[Lease | None]:
        if self._state is None:
            failures, rests_until = self._resting.get(key, (0, 0))
            is_free = even_resting or rests_until <= self._clock()
            return Lease(key, failures) if is_free else None
        found: StateDocument | None = yield step(self._state, "get_state", key, _DOCUMENT)
        value = found.value if found is not None and isinstance(found.value, Mapping) else {}
        now = self._clock()
        is_taken = bool(value.get("holder")) and value.get("until_ms", 0) > now
        is_resting = value.get("rests_until_ms", 0) > now and not even_resting
        if is_taken or is_resting:
            return None
        lease = Lease(key, int(value.get("failures", 0)))
        lease.version = None if found is None else found.version
        return lease if (yield from self._written(lease, self._claim(lease))) else None

    def renew(self, lease: Lease) -> Steps[bool]:
        """Hold the lease anew; say whether it was still held."""
        if self._state is None:
            return True
        return (yield from self._written(lease, self._claim(lease)))

    def give_back(self, lease: Lease, ended: Ended) -> Steps[None]:
        """End the lease; after a failure the thread rests, each time twice as long."""
        try:
            failed = ended == "failed"
            failures = 0 if ended == "done" else lease.failures + failed
            pause_ms = round(self._settings.first_pause_s * 1000) * 2 ** min(failures - 1, 20)
            rests_until = self._clock() + min(pause_ms, _LONGEST_PAUSE_MS) if failed else 0
            if self._state is None:
                self._resting[lease.key] = (failures, rests_until)
            else:
                # Fails if another one took over meanwhile, who then decides.
                told = {"holder": "", "failures": failures, "rests_until_ms": rests_until}
                yield from self._written(lease, told)
        finally:
            self._drop(lease.key)

    def _claim(self, lease: Lease) -> dict[str, Any]:
        until = self._clock() + round(self._settings.lease_s * 1000)
        return {"holder": lease.holder, "until_ms": until, "failures": lease.failures}

    def _written(self, lease: Lease, value: dict[str, Any]) -> Steps[bool]:
        written: StateDocument | None = yield step(
            self._state, "set_state", lease.key, _DOCUMENT, value, expected=lease.version
        )
        if written is not None:
            lease.version = written.version
        return written is not None

    def _drop(self, key: ThreadKey) -> None:
        with self._lock:
            self._held.discard(key)
