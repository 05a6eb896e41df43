"""How turns run and end: what cancels them, who waits for them, and what is told of them."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from langchain_core.messages import AIMessage, AIMessageChunk

from langchain_convmem.errors import ConfigError, ConversationError, TurnCancelledError
from langchain_convmem.forks import make_lock
from langchain_convmem.locks import Waiter

T = TypeVar("T")


class TurnControl:
    """Whether a turn is to end early, and why. Thread-safe."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = make_lock()
        self._wake: Callable[[], object] | None = None
        self.stopped: Future[None] = Future()
        """Gets the error of a turn that is to end early; for those who wait for several things."""
        self.is_sealed = False
        """Whether nothing can end the turn any more."""
        self.waiter: Waiter | None = None
        """The turn's place in the line."""
        self.is_dropped = False
        """Whether its reader forgot it, rather than to close it."""

    @property
    def is_mine(self) -> bool:
        """Whether the running code was started by the turn."""
        return self.waiter is not None and self.waiter.is_mine

    def stop(self, error: ConversationError) -> bool:
        """Let the turn end with an error; return whether it can still be ended."""
        with self._lock:
            if self.is_sealed or self.stopped.done():
                return False
            self.stopped.set_exception(error)
            if self._wake is not None:
                self._wake()
        return True

    def cancel(self) -> bool:
        """Let the turn end; return whether it can still be ended."""
        return self.stop(TurnCancelledError("the turn was cancelled"))

    def drop(self) -> None:
        """Note that the reader forgot the turn: who sends next is not inside by it any more."""
        self.is_dropped = True
        if self.waiter is not None:
            self.waiter.is_over = True

    def check(self) -> None:
        """Go on, unless the turn is to end early.

        Raises:
            ConversationError: If it is.
        """
        if self.stopped.done() and not self.is_sealed:
            self.stopped.result()

    def seal(self) -> None:
        """Let nothing end the turn any more: it is about to be stored.

        Raises:
            ConversationError: If it is to end early.
        """
        with self._lock:
            self.check()
            self.is_sealed = True

    def end(self) -> None:
        """Let nothing end the turn any more: it is over, or being undone."""
        with self._lock:
            self.is_sealed = True

    async def run(self, call: Awaitable[T]) -> T:
        """Return what is awaited; a stop from outside cancels the await, and the task lives on.

        Raises:
            ConversationError: If the turn is to end early.
        """
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(None)

        def end_wait() -> None:
            with suppress(RuntimeError):  # it is over already
                limit.reschedule(loop.time())

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(end_wait)

        try:
            async with limit:
                with self._lock:
                    self._wake = wake
                    if self.stopped.done() and not self.is_sealed:
                        end_wait()
                result = await call
        except TimeoutError:
            if limit.expired():
                self.check()
            raise
        finally:
            self._wake = None
        self.check()
        return result


class ActiveTurns:
    """The turns of a conversation or of an engine. Thread-safe."""

    def __init__(self, what: str, parent: ActiveTurns | None = None) -> None:
        """Begin idle.

        Args:
            what: What errors call it.
            parent: Where its turns count as well.
        """
        self._what = what
        self.parent = parent
        self._changed = threading.Condition(make_lock())
        self._running: set[TurnControl] = set()
        self._is_closed = False

    def check_open(self) -> None:
        """Refuse whatever comes after the end.

        Raises:
            ConversationError: If it was closed.
        """
        if self.parent is not None:
            self.parent.check_open()
        if self._is_closed:
            raise ConversationError(f"{self._what} is closed; create another one")

    @contextmanager
    def count(self, control: TurnControl) -> Iterator[None]:
        """Count a turn from its call to its end."""
        with self._changed:
            self.check_open()
            self._running.add(control)
        try:
            if self.parent is None:
                yield
            else:
                with self.parent.count(control):
                    yield
        finally:
            with self._changed:
                self._running.discard(control)
                self._changed.notify_all()

    def cancel(self) -> bool:
        """Cancel all turns; return whether there was one to cancel."""
        with self._changed:
            cancelled = [control.cancel() for control in self._running]
        return any(cancelled)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs or waits, but for those the caller is within.

        Returns:
            Whether that came about in time.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: all(control.is_mine for control in self._running), timeout_s
            )

    def close(self) -> bool:
        """Let no turn begin any more, and cancel those there are; return whether it was open."""
        with self._changed:
            was_open, self._is_closed = not self._is_closed, True
        self.cancel()
        return was_open


# -- Turns in the background: their handle, and their callbacks -----------------------------------


class TurnHandle:
    """A turn that runs in the background. Thread-safe; may be awaited."""

    def __init__(self, control: TurnControl, outcome: Future[AIMessage]) -> None:
        self._control = control
        self._outcome = outcome

    def result(self, timeout: float | None = None) -> AIMessage:
        """Return the reply; wait for it.

        Args:
            timeout: Seconds to wait at most; the turn goes on nevertheless.

        Raises:
            TimeoutError: If it takes longer.
            ConversationError: If the turn was cancelled or took longer than allowed.
        """
        return self._outcome.result(timeout)

    def cancel(self) -> bool:
        """Cancel the turn; return whether it could still be cancelled.

        What a model or tool is doing just now may go on for a while; nothing will come of it.
        """
        return self._control.cancel()

    def wait(self, timeout_s: float) -> bool:
        """Wait; return whether the turn has come to an end within so many seconds."""
        return bool(wait_for([self._outcome], timeout_s).done)

    def done(self) -> bool:
        """Return whether the turn has come to an end."""
        return self._outcome.done()

    def __await__(self) -> Generator[Any, None, AIMessage]:
        """Wait for the reply without blocking the event loop."""
        return asyncio.shield(asyncio.wrap_future(self._outcome)).__await__()


MessageCallback: TypeAlias = Callable[[AIMessageChunk | BaseException], Any]
"""Gets what becomes of a turn: chunks, then an empty one with `chunk_position="last"` when the
history holds the reply, or the error that ended the turn. One call at a time, in order."""


class CallbackTeller:
    """Tells a callback, if there is one. What it raises ends the turn, and is not told to it."""

    def __init__(self, callback: MessageCallback | None) -> None:
        """Take a callback.

        Raises:
            ConfigError: If it is none, or asynchronous.
        """
        if callback is not None and not callable(callback):
            raise ConfigError(f"{callback!r:.80} is not a callback; pass a function")
        if inspect.iscoroutinefunction(callback):
            raise ConfigError("the callback is asynchronous; read `astream` instead")
        self._callback = callback

    def tell(self, event: AIMessageChunk | BaseException) -> None:
        """Pass on what is new of the reply, or what ended the turn."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(event)
            self._callback = callback
