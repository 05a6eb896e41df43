"""A turn that runs in the background, and who is told of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from typing import Any, Protocol, TypeAlias, runtime_checkable

from langchain_core.messages import AIMessage, AIMessageChunk

from langchain_convmem.conversation.flows import TurnControl
from langchain_convmem.errors import ConfigError

__all__ = ["Listener", "MessageCallback", "MessageEvent", "TurnHandle"]

MessageEvent: TypeAlias = AIMessageChunk | BaseException
"""What a plain callback gets: chunks, then one empty chunk with `chunk_position="last"`, or an
error."""


@runtime_checkable
class MessageCallback(Protocol):
    """Who is told of a turn; called in order, by one thread at a time."""

    def on_message(self, chunk: AIMessageChunk) -> None:
        """Get what is new of the reply."""
        ...

    def on_done(self, message: AIMessage) -> None:
        """Get the whole reply; the history holds it now. Nothing comes after it."""
        ...

    def on_error(self, error: BaseException) -> None:
        """Get what ended the turn; it left no trace. Nothing comes after it."""
        ...


class Listener:
    """A callback of either form. What it raises ends the turn."""

    def __init__(self, callback: MessageCallback | Callable[[MessageEvent], Any] | None) -> None:
        """Take a callback.

        Raises:
            ConfigError: If it is none, or asynchronous.
        """
        if callback is not None and not isinstance(callback, MessageCallback):
            if not callable(callback):
                raise ConfigError(
                    f"{callback!r:.80} is no callback; pass a function, or an object with "
                    "on_message, on_done and on_error"
                )
            if inspect.iscoroutinefunction(callback):
                raise ConfigError("the callback is asynchronous; read `astream` instead")
        self._callback = callback
        self.has_failed = False

    def heard(self, chunk: AIMessageChunk, reply: AIMessage | None) -> None:
        """Pass on what is new, or the whole reply if it is complete."""
        callback = self._callback
        if not isinstance(callback, MessageCallback):
            if callback is not None:
                self._tell(callback, chunk)
        elif reply is None:
            self._tell(callback.on_message, chunk)
        else:
            self._tell(callback.on_done, reply)

    def error(self, error: BaseException) -> None:
        """Tell what ended the turn, unless it was the callback itself."""
        callback = self._callback
        if self.has_failed or callback is None:
            return
        tell = callback.on_error if isinstance(callback, MessageCallback) else callback
        self._tell(tell, error)

    def _tell(self, tell: Callable[[Any], Any], what: Any) -> None:
        self.has_failed = True
        tell(what)
        self.has_failed = False


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

    def ended(self, timeout_s: float) -> bool:
        """Wait; return whether the turn has come to an end within so many seconds."""
        return bool(wait([self._outcome], timeout_s).done)

    def done(self) -> bool:
        """Return whether the turn has come to an end."""
        return self._outcome.done()

    def __await__(self) -> Generator[Any, None, AIMessage]:
        """Wait for the reply without blocking the event loop."""
        return asyncio.shield(asyncio.wrap_future(self._outcome)).__await__()
