"""One turn, from its question to its reply: all of it or nothing; and how turns run and end."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage

from langchain_convmem.background import finish, hop
from langchain_convmem.conversation.chat_backend import (
    Backend,
    ModelReply,
    ReplyRequest,
    TurnTransaction,
)
from langchain_convmem.conversation.inputs import copy_message
from langchain_convmem.conversation.threads import ThreadMemory, ThreadTurn
from langchain_convmem.conversation.tools import (
    answer_cancelled,
    find_stray_results,
    find_unanswered_calls,
)
from langchain_convmem.errors import (
    ConfigError,
    ConversationError,
    InvalidMessageError,
    LogError,
    TurnCancelledError,
)
from langchain_convmem.forks import make_lock
from langchain_convmem.locks import Waiter, get_held
from langchain_convmem.text import RenderStats
from langchain_convmem.views.edits import INTERRUPTED

T = TypeVar("T")
_CANCELS = (TurnCancelledError, asyncio.CancelledError, GeneratorExit)
_END = object()


@dataclass(slots=True)
class ConversationTurn:
    """A turn in the making. One caller."""

    thread: ThreadMemory
    backend: Backend
    request: ReplyRequest
    control: TurnControl
    asked: list[BaseMessage]
    asked_ms: int
    """When it was asked, in milliseconds since the epoch."""
    on_commit: Callable[[tuple[RenderStats, ...]], object]
    """Called with how the texts of the turn came about, once it stands."""
    said: list[BaseMessage] = field(default_factory=list)
    late: list[BaseException] = field(default_factory=list)
    """Cancellations that came while the turn was written, and were too late to undo it."""
    reply: ModelReply | None = None
    """What came of it."""
    context: list[BaseMessage] = field(default_factory=list)
    """What the model sees before it says anything."""
    _turn: ThreadTurn = field(init=False)
    _transaction: TurnTransaction = field(init=False)

    def look(self) -> None:
        """See what the model is to be sent.

        Raises:
            InvalidMessageError: If calls are not to be answered by us, a result that is sent
                answers no open call, or nothing is to be pending.
        """
        is_pending = self.request.options.pending
        if is_pending and not self.asked:
            raise InvalidMessageError("nothing is sent that could be pending")
        view = self.thread.read_view(() if is_pending else self.asked)
        shown = tuple(self.asked) if is_pending else view.asked
        missing = self._find_missing_answers(view.before, shown)
        self.context = [*view.before, *missing, *shown]
        if is_pending:
            return
        self._turn = view.turn
        self._transaction = self.backend.begin(self.request)
        given = {message.id: message for message in shown}
        for said in self.asked:
            if said.id in given and given[said.id].content != said.content:
                self._transaction.remember(said, given[said.id])
        self.asked = [*missing, *self.asked]

    def run(self) -> Iterator[AIMessageChunk]:
        """Run the turn, and store it; on any error the conversation is as before.

        Yields what is new of what the model says; in the end, `reply` is its last word.
        """
        try:
            self._open()
            while True:
                yield from self._ask()
                message = self._take_reply()
                if message is None:
                    break
                made = self.request.tools.answer(message.tool_calls, **self._tool_options)
                self.said += [*made, *_answer_invalid_calls(message)]
            self.control.seal()
            self._store()
        except BaseException as error:
            self.control.end()
            self._end(error)
            raise
        self._turn.settle()

    async def arun(self) -> AsyncGenerator[AIMessageChunk]:
        """Run the turn without blocking the event loop; see `run`."""
        try:
            await finish(self._open)
            while True:
                async with aclosing(self._aask()) as chunks:
                    async for chunk in chunks:
                        yield chunk
                message = self._take_reply()
                if message is None:
                    break
                answering = self.request.tools.aanswer(message.tool_calls, **self._tool_options)
                made = await self.control.run(answering)
                self.said += [*made, *_answer_invalid_calls(message)]
            self.control.seal()
            await self._finish(self._store)
        except BaseException as error:
            self.control.end()
            await self._finish(partial(self._end, error))
            raise
        if self.late:
            raise self.late[0]
        await hop(self._turn.settle)

    def _open(self) -> None:
        self._turn.open(self.asked, self.asked_ms)

    def _find_missing_answers(
        self, before: Sequence[BaseMessage], asked: Sequence[BaseMessage]
    ) -> list[ToolMessage]:
        """Return the answers that earlier calls still lack, before anybody speaks."""
        stray = find_stray_results(before, self.asked)
        if stray:
            raise InvalidMessageError(
                f"the tool result for {stray[0].tool_call_id!r} answers no open call; send results "
                "of the calls that the last reply made, before the user speaks again"
            )
        given = next(
            (n for n, one in enumerate(asked) if not isinstance(one, ToolMessage)), len(asked)
        )
        waiting = find_unanswered_calls([*before, *asked[:given]])
        if not waiting:
            return []
        if self.request.config.on_pending_tool_calls == "cancel":
            return answer_cancelled(waiting)
        names = ", ".join(f"{call['name']} ({call['id']})" for call in waiting)
        raise InvalidMessageError(
            f"the model still waits for the results of its calls: {names}; send them as tool "
            'messages, or set on_pending_tool_calls="cancel"'
        )

    # -- model and tools in turns -----------------------------------------------------------------

    def _ask(self) -> Iterator[AIMessageChunk]:
        """Let the model say something; yield it as it comes."""
        self.control.check()
        with closing(self._transaction.pieces([*self.context, *self.said])) as pieces:
            for piece in pieces:
                self.control.check()
                yield from self._show(self._transaction.take(piece))
        self.control.check()
        yield from self._show(self._transaction.end())

    async def _aask(self) -> AsyncGenerator[AIMessageChunk]:
        """Let the model say something without blocking the event loop; see `_ask`."""
        self.control.check()
        async with aclosing(self._transaction.apieces([*self.context, *self.said])) as pieces:
            while (piece := await self.control.run(anext(pieces, _END))) is not _END:
                for chunk in self._show(self._transaction.take(piece)):
                    yield chunk
        for chunk in self._show(self._transaction.end()):
            yield chunk

    def _show(self, chunks: Iterable[AIMessageChunk]) -> Iterator[AIMessageChunk]:
        for chunk in chunks:
            if chunk.text:
                self._turn.note_first_token()
            self.control.held = get_held()
            yield chunk
            self.control.check()

    def _take_reply(self) -> AIMessage | None:
        """Take what the model said; return it if it calls for tools, None if it is the last word.

        Raises:
            ConversationError: If tools were called too often before.
        """
        reply = self._transaction.build()
        is_for_tools = self._is_for_tools(reply.message)
        limit = self.request.config.max_tool_rounds
        if is_for_tools and sum(isinstance(one, AIMessage) for one in self.said) == limit:
            raise ConversationError(
                f"the model called tools {limit} times and wants to go on; what they did stands. "
                "Raise max_tool_rounds if that is what you expect",
                rounds=limit,
            )
        # A copy: the reply itself is handed out, and the history is nobody else's.
        self.said.append(copy_message(reply.message))
        if is_for_tools:
            return reply.message
        self.reply = reply
        return None

    def _is_for_tools(self, message: AIMessage) -> bool:
        """Return whether all calls of a reply are answered here."""
        config, tools = self.request.config, self.request.tools
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        if not config.auto_tools or not calls:
            return False
        described = {name for name in tools if not tools.is_executable(name)}
        return not any(call["name"] in described for call in message.tool_calls)

    @property
    def _tool_options(self) -> dict[str, Any]:
        config = self.request.config
        return {
            "config": self.request.run,
            "handler": config.tool_handler,
            "cancelled": self.control.stopped,
        }

    # -- the end ----------------------------------------------------------------------------------

    async def _finish(self, call: Callable[[], object]) -> None:
        """Make a call to its end, also when the task is cancelled; that is raised in the end."""
        if self.control.is_dropped:  # whose loop may be about to end, and waits for nothing
            call()
            return
        ended: list[object] = []
        try:
            await finish(lambda: ended.append(call()))
        except asyncio.CancelledError as error:
            if not ended:
                raise
            self.late.append(error)

    def _store(self) -> None:
        self._turn.finish(self.said)
        self._transaction.commit()
        self.on_commit(self._transaction.stats)

    def _end(self, error: BaseException) -> None:
        """Keep of a turn that ended early what is to be kept, and let the rest be undone."""
        if not self._keep_rest(error):
            self._take_back(error)
            return
        self._close_calls()
        try:
            self._store()
        except BaseException as second:
            self._take_back(second)
            raise

    def _take_back(self, error: BaseException) -> None:
        said = [*self.said, *self._find_partial()]
        self._transaction.rollback()
        reason: Literal["failed", "cancelled"] = (
            "cancelled" if isinstance(error, _CANCELS) else "failed"
        )
        if reason == "failed" and len(said) > len(self.said):
            # Nobody cancelled it, and the model did not say why it stopped.
            said[-1].response_metadata.pop("finish_reason", None)
        try:
            self._turn.finish(said, reason)
        except LogError as second:
            error.add_note(f"and the failed turn could not be taken back: {second}")

    def _keep_rest(self, error: BaseException) -> bool:
        config = self.request.config
        if getattr(error, "rounds", 0):
            self._transaction.drop_reply()
            return config.on_tool_limit == "keep"
        if not isinstance(error, _CANCELS) or config.on_cancel != "keep":
            return False
        partial = self._find_partial()
        if not self._has_replied:
            self._transaction.drop_reply()
        self.said += partial
        self._mark_interrupted()
        return bool(self.said)

    @property
    def _has_replied(self) -> bool:
        """Whether the latest call of the model came to its end."""
        return bool(self.said) and not isinstance(self.said[-1], ToolMessage)

    def _find_partial(self) -> list[AIMessage]:
        """Return what had come of a reply that broke off."""
        partial = None if self._has_replied else self._transaction.get_partial()
        return [] if partial is None else [partial]

    def _mark_interrupted(self) -> None:
        """Mark the last reply if its calls were cut short; half a reply is marked already."""
        for number, message in reversed(list(enumerate(self.said))):
            if isinstance(message, AIMessage):
                if self._is_for_tools(message):
                    metadata = {**message.response_metadata, INTERRUPTED: True}
                    self.said[number] = message.model_copy(update={"response_metadata": metadata})
                return

    def _close_calls(self) -> None:
        """Answer the calls that were interrupted."""
        last = self.said[-1] if self.said else None
        if isinstance(last, AIMessage) and self._is_for_tools(last):
            self.said += [*answer_cancelled(last.tool_calls), *_answer_invalid_calls(last)]


def _answer_invalid_calls(message: AIMessage) -> list[ToolMessage]:
    return [
        ToolMessage(
            f"Error: this call cannot be read ({call['error'] or 'no valid JSON'}); make it again",
            tool_call_id=call["id"] or "",
            name=call["name"],
            status="error",
        )
        for call in message.invalid_tool_calls
    ]


# -- Turns in the background: their handle, and their callbacks -------------------------------


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


# -- Turns that run or wait: to end them, and to wait for them ------------------------------------


class TurnControl:
    """Whether a turn is to end early, and why. Thread-safe."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = make_lock()
        self._error: ConversationError | None = None
        self._is_sealed = False
        self._wake: Callable[[], object] | None = None
        self.stopped: Future[None] = Future()
        """Gets the error of a turn that is to end early; for those who wait for several things."""
        self.waiter: Waiter | None = None
        """The turn's place in the line."""
        self.held: frozenset[Waiter] = frozenset()
        """What the turn is inside by while it shows a chunk; so is whoever reads it."""
        self.is_dropped = False
        """Whether its reader forgot it, rather than to close it."""

    @property
    def is_mine(self) -> bool:
        """Whether the running code was started by the turn."""
        return self.waiter is not None and self.waiter.is_mine

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

    def check(self) -> None:
        """Go on, unless the turn is to end early.

        Raises:
            ConversationError: If it is.
        """
        with self._lock:
            if self._error is not None and not self._is_sealed:
                raise self._error

    def seal(self) -> None:
        """Let nothing end the turn any more: it is about to be stored.

        Raises:
            ConversationError: If it is to end early.
        """
        with self._lock:
            self.check()
            self._is_sealed = True

    def end(self) -> None:
        """Let nothing end the turn any more: it is over, or being undone."""
        with self._lock:
            self._is_sealed = True

    async def run(self, call: Awaitable[T]) -> T:
        """Return what is awaited; a stop from outside cancels the await, and the task lives on.

        Raises:
            ConversationError: If the turn is to end early.
        """
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
            with self._lock:
                self._wake = wake
                if self._error is not None and not self._is_sealed:
                    wake()
            result = await call
        except asyncio.CancelledError as error:
            if is_woken and task.cancelling() == before + 1:
                raise self._error or error from None
            raise  # somebody cancelled the task itself
        finally:
            is_awaiting, self._wake = False, None
            if is_woken:
                task.uncancel()
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
        self._parent = parent
        self._changed = threading.Condition(make_lock())
        self._running: set[TurnControl] = set()
        self._is_closed = False

    def create_sibling(self) -> ActiveTurns:
        """Return one for another conversation of the same engine."""
        return ActiveTurns(self._what, self._parent)

    def check_open(self) -> None:
        """Refuse whatever comes after the end.

        Raises:
            ConversationError: If it was closed.
        """
        if self._parent is not None:
            self._parent.check_open()
        if self._is_closed:
            raise ConversationError(f"{self._what} is closed; create another one")

    @contextmanager
    def count(self, control: TurnControl) -> Iterator[None]:
        """Count a turn from its call to its end."""
        with self._changed:
            self.check_open()
            self._running.add(control)
        try:
            if self._parent is None:
                yield
            else:
                with self._parent.count(control):
                    yield
        finally:
            with self._changed:
                self._running.discard(control)
                self._changed.notify_all()

    def cancel(self) -> int:
        """Cancel all turns; return how many could still be cancelled."""
        with self._changed:
            controls = list(self._running)
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


class ReplyStream(AsyncGenerator[AIMessageChunk, None]):
    """A stream of chunks that knows when its reader has dropped it.

    An asynchronous generator that is dropped is closed by the event loop a little later. Its turn
    still has its place in the line then, but whoever read it may get in that line again.
    """

    def __init__(self, stream: AsyncGenerator[AIMessageChunk], control: TurnControl) -> None:
        """Read a stream of the turn that `control` belongs to."""
        self._stream = stream
        self._control = control

    def __del__(self) -> None:
        self._control.is_dropped = True
        for waiter in self._control.held:
            waiter.is_over = True

    async def asend(self, value: None) -> AIMessageChunk:
        """Return the next chunk."""
        return await self._stream.asend(value)

    async def athrow(self, *error: Any) -> AIMessageChunk:
        """Raise an error where the stream stands."""
        return await self._stream.athrow(*error)

    async def aclose(self) -> None:
        """Leave the turn: it is taken back if it is not complete."""
        await self._stream.aclose()
