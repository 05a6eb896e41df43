"""Work behind turns gives way to those who wait for an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_HELD_S = 0.001
_PAUSE_S = 0.0005
_background = threading.local()


@contextmanager
def mark_background() -> Iterator[None]:
    """Run the block as work that nobody waits for; see `give_way`."""
    before: float | None = getattr(_background, "since", None)
    _background.since = time.perf_counter()
    try:
        yield
    finally:
        _background.since = before


def give_way() -> None:
    """Let other threads run if this one works behind turns, and has run for a millisecond.

    Python's interpreter runs one thread at a time. Whoever waits for it gets it after five
    milliseconds, and a turn waits anew after each of its many calls of a database: while a thread
    computes, it takes several times as long. Say this where work takes long, in loops.
    """
    since: float | None = getattr(_background, "since", None)
    if since is not None and time.perf_counter() - since > _HELD_S:
        time.sleep(_PAUSE_S)
        _background.since = time.perf_counter()
