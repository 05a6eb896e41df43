"""A turn as one generator of steps and chunks, and its two drivers: direct calls and awaits.

A flow yields a `Step` and gets its result back, or yields a chunk, which its reader gets. Whatever
ends a turn early (a failing step, a reader who leaves, a cancel) is raised inside the flow at the
point that it has reached; the flow puts things back by further steps and lets the error go on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from langchain_core.messages import AIMessageChunk

from langchain_convmem.effects import Step, Steps
from langchain_convmem.errors import ConversationError, TurnCancelledError
from langchain_convmem.locks import Waiter, get_held
from langchain_convmem.streams import carried_through, closed

__all__ = ["Flow", "Pulled", "TurnControl", "adrive", "drive", "observed", "unhurried"]

T = TypeVar("T")

Flow: TypeAlias = Generator[Step | AIMessageChunk, Any, T]
"""Steps to take and chunks to show; returns the turn's outcome."""

_END = object()


class _ReaderLeftError(TurnCancelledError):
    """What a flow gets for a `GeneratorExit`, which generators close each other by: without steps.

    Its reader does not hear of it.
    """


class TurnControl:
    """Whether a turn is to end early, and why. Thread-safe."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = threading.RLock()
        self._error: ConversationError | None = None
        self._is_told = False
        self._is_sealed = False
        self._wake: Callable[[], object] | None = None
        self.stopped: Future[None] = Future()
        """Gets the error of a turn that is to end early; for those who wait for several things."""
        self.ticket: Waiter | None = None
        """The turn's place in the line."""
        self.held: frozenset[Waiter] = frozenset()
        """What the turn is inside by while it shows a chunk; so is whoever reads it."""

    @property
    def is_mine(self) -> bool:
        """Whether the running code was started by the turn."""
        return self.ticket is not None and self.ticket.is_mine

    @property
    def is_sealed(self) -> bool:
        """Whether nothing can end the turn any more."""
        with self._lock:
            return self._is_sealed

    def stop(self, error: ConversationError) -> bool:
        """Let the turn end with an error; return whether it can still be ended."""
        with self._lock:
            if self._is_sealed or self._error is not None:
                return False
            self._error = error
            wake = self._wake
        self.stopped.set_exception(error)
        if wake is not None:
            wake()
        return True

    def cancel(self) -> bool:
        """Let the turn end; return whether it can still be ended."""
        return self.stop(TurnCancelledError("the turn was cancelled"))

    def seal(self) -> None:
        """Let nothing end the turn any more: it is about to be stored.

        Raises:
            ConversationError: If it was to end and has not been told so.
        """
        with self._lock:
            self._is_sealed = True
            error = self.due()
        if error is not None:
            raise error

    def end(self) -> None:
        """Let nothing end the turn any more: it is over, or being undone."""
        with self._lock:
            self._is_sealed = self._is_told = True

    def due(self) -> ConversationError | None:
        """Return the error to raise in the flow now; once."""
        with self._lock:
            if self._is_told or self._error is None:
                return None
            self._is_told = True
            return self._error

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Let a stop interrupt what is waited for."""
        with self._lock:
            self._wake = wake
            is_late = self._error is not None and not self._is_told
        try:
            if is_late:
                wake()
            yield
        finally:
            with self._lock:
                self._wake = None


class Pulled:
    """A stream that a flow takes chunk by chunk, in either world."""

    def __init__(
        self, stream: Callable[[], Iterator[Any]], astream: Callable[[], AsyncIterator[Any]]
    ) -> None:
        """Take the functions that open the stream; it is opened with the first chunk."""
        self._open, self._aopen = stream, astream
        self._stream: Any = None

    def chunks(self, use: Callable[[Any], Flow[None]]) -> Flow[None]:
        """Pass each chunk to `use` as it comes; close the stream in any case."""
        try:
            while (chunk := (yield Step(self._next, self._anext))) is not _END:
                yield from use(chunk)
        finally:
            yield Step(self._close, self._aclose)

    def _next(self) -> Any:
        if self._stream is None:
            self._stream = iter(self._open())
        return next(self._stream, _END)

    async def _anext(self) -> Any:
        if self._stream is None:
            self._stream = aiter(self._aopen())
        return await anext(self._stream, _END)

    def _close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()

    async def _aclose(self) -> None:
        await closed(self._stream)


def unhurried(steps: Steps[T], late: list[BaseException]) -> Steps[T]:
    """Take steps to their end, also when the caller is cancelled meanwhile: they write.

    Args:
        steps: The steps.
        late: Gets the cancellations; whoever called has to raise one in the end.
    """
    try:
        step = next(steps)
        while True:
            try:
                result = yield Step(step.call, partial(_carried, step, late))
            except BaseException as error:  # noqa: BLE001 - handed to the steps, which decide
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def _carried(step: Step, late: list[BaseException]) -> Any:
    found: list[Any] = []

    async def kept() -> None:
        found.append(await step.acall())

    try:
        await carried_through(kept())
    except asyncio.CancelledError as error:
        if not found:
            raise
        late.append(error)
    return found[0]


def observed(flow: Flow[T], saw: Callable[[AIMessageChunk], object]) -> Flow[T]:
    """Pass a flow on, and tell of each chunk before it is shown."""
    try:
        item = next(flow)
        while True:
            if isinstance(item, AIMessageChunk):
                saw(item)
            try:
                sent = yield item
            except BaseException as error:  # noqa: BLE001 - handed to the flow, which decides
                item = flow.throw(error)
            else:
                item = flow.send(sent)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def drive(flow: Flow[None], control: TurnControl) -> Generator[AIMessageChunk]:
    """Run a flow by direct calls; yield its chunks."""
    try:
        item = next(flow)
        while True:
            try:
                if isinstance(item, Step):
                    result = item.call()
                else:
                    control.held = get_held()
                    yield item
                    result = None
                _check(control)
            except BaseException as error:  # noqa: BLE001 - handed to the flow, which decides
                item = flow.throw(_told(error, control))
            else:
                item = flow.send(result)
    except StopIteration:
        return
    except _ReaderLeftError:
        raise GeneratorExit from None


async def adrive(flow: Flow[None], control: TurnControl) -> AsyncGenerator[AIMessageChunk]:
    """Run a flow by awaiting; yield its chunks."""
    try:
        item = next(flow)
        while True:
            try:
                if isinstance(item, Step):
                    result = await _interruptible(item, control)
                else:
                    control.held = get_held()
                    yield item
                    result = None
                _check(control)
            except BaseException as error:  # noqa: BLE001 - handed to the flow, which decides
                item = flow.throw(_told(error, control))
            else:
                item = flow.send(result)
    except StopIteration:
        return
    except _ReaderLeftError:
        raise GeneratorExit from None


def _check(control: TurnControl) -> None:
    # Behind each step, not before it: one that closes a stream has to be taken in any case.
    error = control.due()
    if error is not None:
        raise error


def _told(error: BaseException, control: TurnControl) -> BaseException:
    """Return the error as the flow gets it."""
    if not isinstance(error, Exception):
        control.end()  # it ends the turn in any case, and nothing is to come between
    is_left = isinstance(error, GeneratorExit)
    return _ReaderLeftError("whoever read the reply left before its end") if is_left else error


async def _interruptible(step: Step, control: TurnControl) -> Any:
    """Await a step; a stop from outside cancels the await, and the task lives on."""
    task = cast("asyncio.Task[Any]", asyncio.current_task())
    loop, before = asyncio.get_running_loop(), task.cancelling()
    is_awaiting, is_woken = True, False

    def interrupt() -> None:
        nonlocal is_woken
        if is_awaiting:
            is_woken = True
            task.cancel()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(interrupt)

    try:
        with control.waking(wake):
            return await step.acall()
    except asyncio.CancelledError as error:
        if is_woken and task.cancelling() == before + 1:
            raise control.due() or error from None
        raise  # somebody cancelled the task itself
    finally:
        is_awaiting = False
        if is_woken:
            task.uncancel()
