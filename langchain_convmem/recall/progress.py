"""A line that shows how far the embedding of many lines has come, to who can see it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from langchain_convmem.recall.options import Progress

_WIDTH = 30


@contextmanager
def show_progress(quiet_s: float = 1.0) -> Iterator[Progress]:
    """Give what shows (done, total) on standard error, in a terminal or a notebook; else nothing.

    The line goes away at the end.

    Args:
        quiet_s: What takes no longer shows nothing, so that turns never do; in seconds.
    """
    begun, written = time.monotonic(), 0

    def show(done: int, total: int) -> None:
        nonlocal written
        if time.monotonic() - begun < quiet_s or not total:
            return
        bar = "#" * (_WIDTH * done // total)
        line = f"embedding lines [{bar:.<{_WIDTH}}] {done} of {total}"
        sys.stderr.write(f"\r{line}")
        sys.stderr.flush()
        written = len(line)

    try:
        yield show if _is_seen() else _show_nothing
    finally:
        if written:
            sys.stderr.write(f"\r{' ' * written}\r")


def _show_nothing(done: int, total: int) -> None:
    pass


def _is_seen() -> bool:
    """Return whether a person sees standard error: a terminal, or a notebook's cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") or (sys.stderr is not None and sys.stderr.isatty())
