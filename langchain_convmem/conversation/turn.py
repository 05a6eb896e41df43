"""One send, from its place in the line to its reply: all of it or nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langchain_convmem.background import finish, hop
from langchain_convmem.conversation.chat_backend import (
    Backend,
    ModelTurn,
    ReplyBuilder,
    ReplyRequest,
)
from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.inputs import coerce_messages, copy_message
from langchain_convmem.conversation.tools import (
    ToolRun,
    ToolSet,
    answer_cancelled,
    answer_invalid,
    find_unanswered_calls,
)
from langchain_convmem.errors import (
    ConversationError,
    InvalidMessageError,
    LogError,
    TurnCancelledError,
)
from langchain_convmem.forks import make_lock
from langchain_convmem.locks import Waiter
from langchain_convmem.text import RenderStats
from langchain_convmem.text.messages import join_content
from langchain_convmem.thread_memory import MemoryThread
from langchain_convmem.turns.turn import Turn, mark_interrupted

T = TypeVar("T")

_CANCELS = (TurnCancelledError, asyncio.CancelledError, GeneratorExit)
_END: Any = object()


@dataclass(slots=True, eq=False)
class Talk:
    """What the turns of one conversation go by.

    Attributes:
        thread: What the turns read and write.
        backend: The model.
        config: Settings of the conversation.
        tools: What the model may call.
        turns: Where turns are counted, to be cancelled and waited for.
        pending: What waits for the rest of its message.
        stats: How the texts of the latest turn came about.
    """

    thread: MemoryThread
    backend: Backend
    config: ConversationConfig
    tools: ToolSet
    turns: ActiveTurns
    pending: tuple[BaseMessage, ...] = ()
    stats: tuple[RenderStats, ...] = ()

    def branch(self) -> Talk:
        """Return one that holds the same, and goes on by itself."""
        self.turns.check_open()
        # First what the session holds: if a turn ends meanwhile, its messages are only to be read.
        backend = self.backend.branch()
        turns = ActiveTurns(self.turns.what, backend.close, self.turns.parent)
        return replace(self, thread=self.thread.branch(), backend=backend, turns=turns, stats=())

    def prepare(self, message: Any) -> list[BaseMessage]:
        """Return what is said, after what is pending: a message goes on with its next part.

        It does if both are of one role; the message takes the id of its last part.
        """
        asked = coerce_messages(message, limits=self.config.media_limits)
        held = list(self.pending)
        if not (held and asked and _is_continued(held[-1], asked[0])):
            return [*held, *asked]
        first, part = held.pop(), asked.pop(0)
        update = {
            "content": join_content(first.content, part.content),
            "name": part.name or first.name,
            "additional_kwargs": {**first.additional_kwargs, **part.additional_kwargs},
        }
        return [*held, part.model_copy(update=update), *asked]

    def answer_open_calls(self, asked: list[BaseMessage]) -> list[BaseMessage]:
        """Return what is said after answers to the calls that nothing will answer any more."""
        if not self.thread.is_plain:  # the view of a memory tells the model that nothing came
            return asked
        speaks = [n for n, one in enumerate(asked) if not isinstance(one, ToolMessage)]
        results = asked[: speaks[0]] if speaks else asked
        waiting = find_unanswered_calls([*self.thread.peek(), *results])
        return [*answer_cancelled(AIMessage("", tool_calls=waiting)), *asked]


def _is_continued(first: BaseMessage, part: BaseMessage) -> bool:
    is_one_role = getattr(first, "role", first.type) == getattr(part, "role", part.type)
    return is_one_role and first.type in ("human", "system", "chat")


# -- Turns under way: what cancels them, and who waits for them -----------------------------------


class TurnControl:
    """Whether a turn is to end early, and why. Thread-safe."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = make_lock()
        self._wake: Callable[[], object] | None = None
        self.stopped: Future[None] = Future()
        """Gets the error of a turn that is to end early; for those who wait for several things."""
        self.is_sealed = False
        """Whether nothing can end the turn any more: it is about to be stored, undone, or over."""
        self.waiter: Waiter | None = None
        """The turn's place in the line."""

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
        if self.waiter is not None:
            self.waiter.is_over = True

    def check(self) -> None:
        """Go on, unless the turn is to end early.

        Raises:
            ConversationError: If it is.
        """
        if self.stopped.done() and not self.is_sealed:
            self.stopped.result()

    def seal(self, *, checks: bool = True) -> None:
        """Let nothing end the turn any more.

        Raises:
            ConversationError: If it is to end early, which is checked if it is to be stored.
        """
        with self._lock:
            if checks:
                self.check()
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
    """The turns of a conversation, or of an engine with all its conversations. Thread-safe."""

    def __init__(
        self, what: str, release: Callable[[], object], parent: ActiveTurns | None = None
    ) -> None:
        """Begin idle.

        Args:
            what: What errors call it.
            release: Called once it is closed and no turn runs any more.
            parent: Where its turns count as well, and what closes its children.
        """
        self.what, self.parent = what, parent
        self._release = release
        self._changed = threading.Condition(make_lock())
        self._running: set[TurnControl] = set()
        self.children: WeakSet[ActiveTurns] = WeakSet()
        self._is_closed = False
        if parent is not None:
            parent.children.add(self)

    def check_open(self) -> None:
        """Refuse whatever comes after the end.

        Raises:
            ConversationError: If it was closed.
        """
        if self.parent is not None:
            self.parent.check_open()
        if self._is_closed:
            raise ConversationError(f"{self.what} is closed; create another one")

    @contextmanager
    def count(self, control: TurnControl) -> Iterator[None]:
        """Count a turn from its call to its end."""
        with self.parent.count(control) if self.parent is not None else nullcontext():
            with self._changed:
                self.check_open()
                self._running.add(control)
            try:
                yield
            finally:
                with self._changed:
                    self._running.discard(control)
                    self._release_if_over()
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

    def close(self, timeout_s: float | None) -> None:
        """Let no turn begin any more, cancel those there are, and wait for them; then release.

        What a turn still uses is released when that ends. Idempotent.
        """
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            children = list(self.children)
        self.cancel()
        self.wait(timeout_s)
        for child in children:
            child.close(0)
        with self._changed:
            self._release_if_over()

    def _release_if_over(self) -> None:
        if self._is_closed and not self._running:
            self._release()


# -- One send -------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Send:
    """One send: what it asks for, and what came of it. One caller.

    Attributes:
        talk: The conversation.
        options: What the send sets for itself.
        is_streaming: Whether somebody reads the reply as it comes.
        control: What ends it early.
        asked: What is said.
        context: What the model sees before it says anything.
        said: What came of it so far: replies and results of tools.
        reply: The last word, once it is there; None of a part that is to go on.
    """

    talk: Talk
    options: SendOptions
    is_streaming: bool = False
    control: TurnControl = field(default_factory=TurnControl)
    asked: list[BaseMessage] = field(default_factory=list)
    context: list[BaseMessage] = field(default_factory=list)
    said: list[BaseMessage] = field(default_factory=list)
    reply: AIMessage | None = None
    _builder: ReplyBuilder = field(default_factory=ReplyBuilder)
    _request: ReplyRequest = field(init=False)
    _turn: Turn = field(init=False)
    _model: ModelTurn = field(init=False)
    _is_stored: bool = False

    @property
    def last_word(self) -> AIMessage:
        """The reply; None of a part that is to go on."""
        return self.reply  # type: ignore[return-value]

    # -- its place in the line --------------------------------------------------------------------

    @contextmanager
    def enter(self) -> Iterator[Waiter]:
        """Be counted and in the line while the block runs, if it is not already.

        Raises:
            ThreadBusyError: If this call comes from within a turn.
        """
        control, lock = self.control, self.talk.thread.lock
        if control.waiter is not None:
            yield control.waiter
            return
        with self.talk.turns.count(control), self._end_in_time():
            waiter = control.waiter = lock.enter()
            try:
                yield waiter
            finally:
                control.seal(checks=False)
                lock.leave(waiter)

    @contextmanager
    def _end_in_time(self) -> Iterator[None]:
        if self.options.timeout is None:
            yield
            return
        timer = threading.Timer(self.options.timeout, self.control.stop, [self.make_late_error()])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def make_late_error(self) -> TurnCancelledError:
        """Return the error of a turn that takes longer than allowed."""
        return TurnCancelledError(f"the turn took longer than {self.options.timeout:g} s")

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Have the conversation to itself while the block runs; wait for earlier turns."""
        with self.enter() as waiter:
            lock, timeout_s = self.talk.thread.lock, self.talk.config.busy_timeout_s
            lock.wait(waiter, timeout_s, self.control.stopped)
            with self.talk.thread.memory.active_turns.count():
                yield

    @asynccontextmanager
    async def ahold(self) -> AsyncIterator[None]:
        """Have the conversation to itself without blocking the event loop; see `hold`."""
        with self.enter() as waiter:
            lock, timeout_s = self.talk.thread.lock, self.talk.config.busy_timeout_s
            await self.control.run(lock.await_turn(waiter, timeout_s))
            with self.talk.thread.memory.active_turns.count():
                yield

    # -- the turn ---------------------------------------------------------------------------------

    def run(self, message: Any, config: RunnableConfig) -> Generator[AIMessageChunk]:
        """Run the turn, and store it; on any error the conversation is as before."""
        self._prepare(message, config)
        if self.options.pending:
            self.talk.backend.read_ahead(self._request, self.context)
            yield self._keep_part()
            return
        try:
            self._begin()
            while self.reply is None:
                yield from self._ask()
                for calls in self._take_reply():
                    self.said += self.talk.tools.answer(calls, self._tool_run)
            self.control.seal()
            self._store()
        except BaseException as error:
            self.control.seal(checks=False)
            self._end(error)
            raise
        self._turn.settle()
        yield self._make_last_chunk()

    async def arun(self, message: Any, config: RunnableConfig) -> AsyncGenerator[AIMessageChunk]:
        """Run the turn without blocking the event loop; see `run`."""
        await self.control.run(hop(partial(self._prepare, message, config)))
        if self.options.pending:
            await self.control.run(self.talk.backend.aread_ahead(self._request, self.context))
            yield self._keep_part()
            return
        try:
            await self.control.run(hop(self._begin))
            while self.reply is None:
                async with aclosing(self._aask()) as chunks:
                    async for chunk in chunks:
                        yield chunk
                for calls in self._take_reply():
                    answering = self.talk.tools.aanswer(calls, self._tool_run)
                    self.said += await self.control.run(answering)
            self.control.seal()
            await finish(self._store)
        except BaseException as error:
            self.control.seal(checks=False)
            await finish(partial(self._end, error))
            raise
        await hop(self._turn.settle)
        yield self._make_last_chunk()

    def _prepare(self, message: Any, config: RunnableConfig) -> None:
        """Read what is said; nothing is written yet.

        Raises:
            InvalidMessageError: If it cannot be said now.
        """
        talk = self.talk
        talk.turns.check_open()
        self._request = ReplyRequest(
            talk.config, self.options, talk.tools, config, self.is_streaming
        )
        self.asked = talk.prepare(message)
        if self.options.pending:
            if not self.asked:
                raise InvalidMessageError("nothing is sent that could be pending")
            self.context = [*talk.thread.peek(), *talk.answer_open_calls(self.asked)]
            return
        self.asked = talk.answer_open_calls(self.asked)
        self._model = talk.backend.begin(self._request)
        self._turn = talk.thread.make_turn(config)

    def _begin(self) -> None:
        """Store what is said: it was, whatever happens now."""
        self.context = self.talk.thread.begin(self._turn, self.asked, self._model.remember)

    def _keep_part(self) -> AIMessageChunk:
        self.control.seal()
        self.talk.pending = tuple(self.asked)
        return AIMessageChunk(content="", chunk_position="last")

    def _make_last_chunk(self) -> AIMessageChunk:
        """Return the chunk that ends a turn: without content, with all that was not shown yet."""
        if self.reply is None:  # the collector closed the turn before what reads it
            raise GeneratorExit
        last = AIMessageChunk(content="", id=self.reply.id, chunk_position="last")
        return last if self._builder.rest is None else self._builder.rest + last

    def _ask(self) -> Iterator[AIMessageChunk]:
        """Let the model say something; yield it as it comes."""
        self.control.check()
        self._builder = ReplyBuilder()
        with closing(self._model.stream([*self.context, *self.said])) as news:
            for pieces in news:
                self.control.check()
                yield from self._show(pieces)
        self.control.check()
        yield from self._show_chunks(self._builder.add_value())

    async def _aask(self) -> AsyncGenerator[AIMessageChunk]:
        """Let the model say something without blocking the event loop; see `_ask`."""
        self.control.check()
        self._builder = ReplyBuilder()
        async with aclosing(self._model.astream([*self.context, *self.said])) as news:
            while (pieces := await self.control.run(anext(news, _END))) is not _END:
                for chunk in self._show(pieces):
                    yield chunk
        for chunk in self._show_chunks(self._builder.add_value()):
            yield chunk

    def _show(self, pieces: Iterable[Any]) -> Iterator[AIMessageChunk]:
        for piece in pieces:
            yield from self._show_chunks(self._builder.add(piece))

    def _show_chunks(self, chunks: Iterable[AIMessageChunk]) -> Iterator[AIMessageChunk]:
        for chunk in chunks:
            if chunk.text:
                self._turn.note_first_token()
            yield chunk
            self.control.check()

    def _take_reply(self) -> Iterator[list[Any]]:
        """Take what the model said; yield its calls if they are answered here.

        Raises:
            ConversationError: If tools were called too often before.
        """
        reply = self._builder.build()
        is_for_tools = self._is_for_tools(reply)
        limit = self.talk.config.max_tool_rounds
        if is_for_tools and sum(isinstance(one, AIMessage) for one in self.said) == limit:
            raise ConversationError(
                f"the model called tools {limit} times and wants to go on; what they did stands. "
                "Raise max_tool_rounds if that is what you expect",
                rounds=limit,
            )
        # A copy: the reply itself is handed out, and the history is nobody else's.
        self.said.append(copy_message(reply))
        if not is_for_tools:
            self.reply = reply
            return
        yield reply.tool_calls
        self.said += answer_invalid(reply)

    def _is_for_tools(self, message: BaseMessage) -> bool:
        """Return whether all calls of a reply are answered here."""
        if not isinstance(message, AIMessage) or not self.talk.config.auto_tools:
            return False
        names = [call["name"] for call in message.tool_calls]
        is_calling = bool(names or message.invalid_tool_calls)
        return is_calling and all(map(self.talk.tools.can_run, names))

    @property
    def _tool_run(self) -> ToolRun:
        return ToolRun(self._request.run, self.talk.config.tool_handler, self.control.stopped)

    # -- the end ----------------------------------------------------------------------------------

    def _store(self) -> None:
        self._turn.finish(self.said)
        self._model.commit()
        self.talk.stats, self.talk.pending = tuple(self._model.stats), ()
        self.talk.thread.finish()
        self._is_stored = True

    def _end(self, error: BaseException) -> None:
        """Keep of a turn that ended early what is to be kept, and let the rest be undone."""
        if self._is_stored:  # the task was cancelled too late
            return
        if not self._keep_rest(error):
            self._take_back(error)
            return
        try:
            self._store()
        except BaseException as second:
            self._take_back(second)
            raise

    def _take_back(self, error: BaseException) -> None:
        said = [*self.said, *self._find_part(error)]  # the log shows how far it came
        self._model.rollback()
        is_cancelled = isinstance(error, _CANCELS)
        try:
            self._turn.finish(said, "cancelled" if is_cancelled else "failed")
        except LogError as second:
            error.add_note(f"and the failed turn could not be taken back: {second}")
        self.talk.thread.finish()

    def _keep_rest(self, error: BaseException) -> bool:
        """Leave in `said` what is to be kept; return whether that is anything."""
        if not isinstance(error, _CANCELS) or self.talk.config.on_cancel != "keep":
            return False
        last = self.said[-1] if self.said else None
        if last is None or isinstance(last, ToolMessage):  # the model had not come to its end
            self.said += self._find_part(error)
        elif self._is_for_tools(last):
            answers = [*answer_cancelled(last), *answer_invalid(last)]
            self.said[-1:] = [mark_interrupted(last), *answers]
        return bool(self.said)

    def _find_part(self, error: BaseException) -> list[BaseMessage]:
        """Return what had come of a reply that broke off."""
        if self.said and not isinstance(self.said[-1], ToolMessage):
            return []
        told = {"finish_reason": "cancelled"} if isinstance(error, _CANCELS) else {}
        return self._builder.build_part(told)
