"""Embedding what waits in an index, a small batch at a time, while others recall from it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from langchain_convmem.recall.indexes.owner_index import OwnerIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from langchain_convmem.recall.dialog_recall import Progress
    from langchain_convmem.recall.indexes.owner_index import Vector
    from langchain_convmem.recall.indexes.segment_table import SegmentName, SegmentTable

__all__ = ["PendingLines", "embed_pending", "waiting"]

_BATCH = 16
"""About a tenth of a second: so long closing waits, and so much a kill loses."""

_FOREGROUND_BATCH = 64
"""Enough for every processor, where somebody waits for all of it."""

_LOOKING_SHARE = 0.05
"""How much of the time may go into looking what other processes have stored."""


class _Segment(NamedTuple):
    """A segment that waits, by a name that outlives its number."""

    name: SegmentName
    text: str


class PendingLines:
    """The lines of an index that wait for their vectors, newest first.

    The index is locked only to take lines and to put vectors back, not while they are embedded;
    one batch of an index is embedded at a time. Thread-safe as far as one caller goes on at a time.
    """

    def __init__(
        self,
        index: OwnerIndex,
        *,
        batch: int = _BATCH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Serve an index.

        Args:
            index: Whose lines.
            batch: How many texts are embedded at once.
            clock: Gives seconds and never steps back.
        """
        self._index = index
        self._batch = batch
        self._clock = clock
        self._next_look = -float("inf")
        self._looks = 0
        self._is_shared = False

    def embed_some(self) -> int:
        """Read what the log has new and embed a batch; return how many segments still wait.

        0 as well where they may not be embedded now; then the index has a problem.

        Raises:
            LogError: If the log cannot be read; the next call goes on where this one stopped.
        """
        index = self._index
        with index.embedding:
            batch = self._take()
            texts = list(dict.fromkeys(one.text for one in batch))
            vectors = index.embed(texts) if texts else None
            with index.lock:
                if vectors is not None:
                    self._put(batch, dict(zip(texts, vectors, strict=True)))
                elif texts:
                    return 0
                return len(index.vectors.missing) if index.may_embed() else 0

    def _put(self, batch: Sequence[_Segment], made: Mapping[str, Vector]) -> None:
        table, missing = self._index.table, self._index.vectors.missing
        found: dict[int, Vector | None] = {}
        for name, text in batch:
            # The log may have forgotten some meanwhile, and the others have other numbers then.
            number = table.number_of(name)
            if number in missing and table.text(number) == text:
                found[number] = made[text]
        self._index.fill(found)

    def _take(self) -> Sequence[_Segment]:
        """Return the next segments whose texts nobody has embedded yet."""
        index = self._index
        with index.lock:
            index.catch_up()
            if not index.vectors.missing or not index.may_embed():
                return ()
            self._look()
            numbers = self._next()
            known = index.known([index.table.text(number) for number in numbers])
            index.fill(dict(zip(numbers, known, strict=True)))
            return [
                _Segment(index.table.name_of(number), index.table.text(number))
                for number in numbers
                if number in index.vectors.missing
            ]

    def _next(self) -> list[int]:
        missing = self._index.vectors.missing
        if self._is_shared:
            return random.sample(sorted(missing), min(self._batch, len(missing)))
        return nlargest(self._batch, missing)

    def _look(self) -> None:
        """Take what other processes have stored meanwhile, at first and then now and again.

        Once another one proves to be at work on the same lines, batches are drawn at random, so
        that the two seldom do the same.
        """
        start = self._clock()
        if start < self._next_look:
            return
        missing = self._index.vectors.missing
        before = len(missing)
        self._index.fill_from_stored()
        self._is_shared |= self._looks > 0 and len(missing) < before
        self._looks += 1
        end = self._clock()
        self._next_look = end + (end - start) / _LOOKING_SHARE


def waiting(index: OwnerIndex, mask: Callable[[SegmentTable], NDArray[np.bool_]]) -> int:
    """Return how many segments of a mask wait to be embedded behind, and can be.

    The caller holds the index's lock.
    """
    missing = index.vectors.missing
    if not missing or not index.embeds_behind or not index.may_embed():
        return 0
    return int(mask(index.table)[list(missing)].sum())


def embed_pending(index: OwnerIndex, progress: Progress | None = None) -> None:
    """Embed all that waits in an index, here and now.

    Args:
        index: Whose lines.
        progress: Called with (done, total) segments after each batch, in this thread.

    Raises:
        LogError: If the log cannot be read; the next call goes on where this one stopped.
    """
    lines = PendingLines(index, batch=_FOREGROUND_BATCH)
    with index.lock:
        index.catch_up()
        total = len(index.vectors.missing)
    left = total
    if progress is not None:
        progress(0, total)
    while left:
        left = lines.embed_some()
        total = max(total, left)
        if progress is not None:
            progress(total - left, total)
