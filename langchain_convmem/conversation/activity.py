"""The turns that run or wait: to cancel them, and to wait for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from langchain_convmem.conversation.flows import TurnControl
from langchain_convmem.errors import ConversationClosedError

__all__ = ["Activity"]


class Activity:
    """The turns of a conversation or of an engine. Thread-safe."""

    def __init__(self, what: str, parent: Activity | None = None) -> None:
        """Begin idle.

        Args:
            what: What errors call it.
            parent: Where its turns count as well.
        """
        self._what = what
        self._parent = parent
        self._changed = threading.Condition()
        self._running: dict[TurnControl, str | None] = {}
        self._is_closed = False

    def sibling(self) -> Activity:
        """Return one for another conversation of the same engine."""
        return Activity(self._what, self._parent)

    def check_open(self) -> None:
        """Refuse whatever comes after the end.

        Raises:
            ConversationClosedError: If it was closed.
        """
        if self._parent is not None:
            self._parent.check_open()
        if self._is_closed:
            raise ConversationClosedError(f"{self._what} is closed; create another one")

    @contextmanager
    def running(self, control: TurnControl, group: str | None) -> Iterator[None]:
        """Count a turn from its call to its end."""
        with self._changed:
            self.check_open()
            self._running[control] = group
        try:
            if self._parent is None:
                yield
            else:
                with self._parent.running(control, group):
                    yield
        finally:
            with self._changed:
                del self._running[control]
                self._changed.notify_all()

    def cancel(self, group: str | None = None) -> int:
        """Cancel turns, of a group or all; return how many could still be cancelled."""
        with self._changed:
            controls = [one for one, name in self._running.items() if group in (None, name)]
        return sum(control.cancel() for control in controls)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs or waits, but for those the caller is within.

        Returns:
            Whether that came about in time.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not all(control.is_mine for control in self._running):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self) -> bool:
        """Let no turn begin any more, and cancel those there are; return whether it was open."""
        with self._changed:
            was_open, self._is_closed = not self._is_closed, True
        self.cancel()
        return was_open
