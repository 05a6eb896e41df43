"""Work in the background gives way to those who wait for an answer."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_HELD_S = 0.001
_PAUSE_S = 0.0005
_PATIENCE_S = 0.01
_background = threading.local()
# One for each call that somebody waits for. Not a number: to append and to pop need no lock, which
# a fork could leave held.
_awaited: deque[None] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_awaited.clear)


@contextmanager
def mark_background() -> Iterator[None]:
    """Run the block as work that nobody waits for; see `give_way`."""
    before: float | None = getattr(_background, "since", None)
    _background.since = time.perf_counter()
    try:
        yield
    finally:
        _background.since = before


@contextmanager
def mark_awaited() -> Iterator[None]:
    """Run the block as work that somebody waits for, unless this thread works in the background."""
    if getattr(_background, "since", None) is not None:
        yield
        return
    _awaited.append(None)
    try:
        yield
    finally:
        with suppress(IndexError):  # begun before a fork
            _awaited.pop()


def give_way() -> None:
    """Let others run if this thread works in the background, and has run for a millisecond.

    Python's interpreter runs one thread at a time. Whoever waits for it gets it after five
    milliseconds, and a turn waits anew after each of its many calls of a database: beside a thread
    that computes, it takes several times as long. So say this where work takes long, in loops.
    While somebody waits for an answer, a tenth of the time is left to work in the background.
    """
    since: float | None = getattr(_background, "since", None)
    if since is None or time.perf_counter() - since <= _HELD_S:
        return
    end = time.perf_counter() + _PATIENCE_S
    time.sleep(_PAUSE_S)
    while _awaited and time.perf_counter() < end:
        time.sleep(_PAUSE_S)
    _background.since = time.perf_counter()
