"""How the turns of one conversation run: one at a time, in the order of their calls."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.runnables import RunnableConfig

from langchain_convmem.background import hop, start_in_thread
from langchain_convmem.conversation.chat_backend import Backend, ReplyRequest
from langchain_convmem.conversation.config import ConversationConfig
from langchain_convmem.conversation.inputs import ConversationInput, SendOptions, coerce_messages
from langchain_convmem.conversation.threads import ThreadMemory
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.conversation.turn import (
    ActiveTurns,
    ConversationTurn,
    TurnControl,
    TurnHandle,
)
from langchain_convmem.errors import ThreadBusyError, TurnCancelledError
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.locks import FifoLock, Waiter, get_held
from langchain_convmem.text import RenderStats
from langchain_convmem.text.messages import join_content

T = TypeVar("T")


@dataclass(slots=True)
class SendState:
    """One send: what it asks for, and what came of it."""

    options: SendOptions
    is_streaming: bool = False
    ends_inside: bool = False
    """Whether the last chunk comes while the turn still holds the conversation."""
    is_counted: bool = False
    """Whether whoever waits for the conversation waits for it already."""
    control: TurnControl = field(default_factory=TurnControl)
    asked_ms: int = field(default_factory=get_now_ms)
    """When it was sent, however long it waits for its turn."""
    reply: AIMessage | None = None


@dataclass(slots=True, eq=False)
class TurnRunner:
    """Runs the turns of one conversation, and holds what they go by. Thread-safe.

    Attributes:
        thread: What the turns read and write.
        backend: The model.
        config: Settings of the conversation.
        tools: What the model may call.
        turns: Where turns are counted, to be cancelled and waited for.
        pending: What waits for the rest of its message.
        stats: How the texts of the latest turn came about.
    """

    thread: ThreadMemory
    backend: Backend
    config: ConversationConfig
    tools: ToolSet
    turns: ActiveTurns
    pending: tuple[BaseMessage, ...] = ()
    stats: tuple[RenderStats, ...] = ()
    _lock: FifoLock = field(init=False)

    def __post_init__(self) -> None:
        """Take the line of the thread, if it has one."""
        self._lock = self.thread.lock or FifoLock(_make_busy_error, _make_inside_error)

    def branch(self) -> TurnRunner:
        """Return one that holds the same, and goes on by itself."""
        self.turns.check_open()
        # First what the session holds: if a turn ends meanwhile, its messages are only to be read.
        backend, turns = self.backend.branch(), self.turns.create_sibling()
        return replace(self, thread=self.thread.branch(), backend=backend, turns=turns, stats=())

    def run(
        self, message: Any, config: RunnableConfig, sending: SendState
    ) -> Iterator[AIMessageChunk]:
        """Run a turn from its place in the line to its last chunk."""
        control = sending.control
        with self._take_place(control) as waiter:
            self._lock.wait(waiter, self.config.busy_timeout_s, control.stopped)
            with self.thread.count():
                turn = self._begin_turn(message, config, sending)
                if sending.options.pending:
                    self.backend.read_ahead(turn.request, turn.context)
                else:
                    yield from turn.run()
            last = self._end_turn(turn, sending)
            if sending.ends_inside:
                control.held = get_held()
                yield last
        if not sending.ends_inside:
            yield last

    async def arun(
        self, message: Any, config: RunnableConfig, sending: SendState
    ) -> AsyncGenerator[AIMessageChunk]:
        """Run a turn without blocking the event loop; see `run`."""
        control = sending.control
        with self._take_place(control) as waiter:
            await control.run(self._lock.await_turn(waiter, self.config.busy_timeout_s))
            with self.thread.count():
                begin = partial(self._begin_turn, message, config, sending)
                turn = await control.run(hop(begin))
                if sending.options.pending:
                    reading = self.backend.aread_ahead(turn.request, turn.context)
                    await control.run(reading)
                else:
                    async with aclosing(turn.arun()) as chunks:
                        async for chunk in chunks:
                            yield chunk
            last = self._end_turn(turn, sending)
        yield last

    @contextmanager
    def _take_place(self, control: TurnControl) -> Iterator[Waiter]:
        """Be in the line while the block runs."""
        waiter = control.waiter = control.waiter or self._enter()
        try:
            yield waiter
        finally:
            control.end()
            self._lock.leave(waiter)

    def _begin_turn(
        self, message: Any, config: RunnableConfig, sending: SendState
    ) -> ConversationTurn:
        """Return a turn that has seen what was said before."""
        self.turns.check_open()
        asked, control = self.prepare(message), sending.control
        request = ReplyRequest(
            self.config,
            sending.options,
            self.tools,
            config,
            sending.is_streaming,
        )
        turn = ConversationTurn(
            self.thread, self.backend, request, control, asked, sending.asked_ms, self._commit
        )
        turn.look()
        return turn

    def _end_turn(self, turn: ConversationTurn, sending: SendState) -> AIMessageChunk:
        """Return the chunk that ends a turn: without content, with all that was not shown yet."""
        if sending.options.pending:
            turn.control.seal()
            self.pending = tuple(turn.asked)
            return AIMessageChunk(content="", chunk_position="last")
        if turn.reply is None:  # the collector closed the turn before what reads it
            raise GeneratorExit
        sending.reply, rest = turn.reply.message, turn.reply.rest
        last = AIMessageChunk(content="", id=sending.reply.id, chunk_position="last")
        return last if rest is None else rest + last

    def _commit(self, stats: tuple[RenderStats, ...]) -> None:
        """Take note of a turn that stands."""
        self.stats, self.pending = stats, ()

    def _enter(self) -> Waiter:
        """Return a place in the line.

        Raises:
            ThreadBusyError: If this call comes from within a turn, or others come first and
                nobody is to wait.
        """
        waiter = self._lock.enter()
        if self.config.on_busy == "error" and not waiter.done():
            self._lock.leave(waiter)
            raise ThreadBusyError('a turn is running, and on_busy is "error"')
        return waiter

    @contextmanager
    def count(self, sending: SendState) -> Iterator[None]:
        """Let the turn be cancelled, and be waited for; end it when its time is up."""
        options = sending.options
        if sending.is_counted:
            yield
            return
        sending.is_counted = True
        with self.turns.count(sending.control):
            if options.timeout is None:
                yield
                return
            timer = threading.Timer(
                options.timeout, sending.control.stop, [make_timeout_error(options.timeout)]
            )
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()

    def prepare(self, message: ConversationInput) -> list[BaseMessage]:
        """Return what is said, each message with an id of its own, after what is pending."""
        sent = coerce_messages(message, limits=self.config.media_limits)
        asked = self.thread.select_asked(sent)
        taken: set[str] = set()
        for one in asked:
            if not one.id or one.id in taken:
                one.id = make_ulid()
            taken.add(one.id)
        return _join_parts(self.pending, asked)

    def build_request(self, options: SendOptions) -> ReplyRequest:
        """Return what is asked of the model outside a turn, or before one."""
        return ReplyRequest(self.config, options, self.tools, {}, streaming=False)

    def start(self, sending: SendState, turn: Callable[[], AIMessage]) -> TurnHandle:
        """Run a turn in a thread; its place in the line is that of this call."""
        counted = ExitStack()
        try:
            counted.enter_context(self.count(sending))
            counted.enter_context(self._take_place(sending.control))

            def run_counted() -> AIMessage:
                with counted:
                    return turn()

            return TurnHandle(sending.control, start_in_thread(run_counted))
        except BaseException:
            counted.close()
            raise

    # -- between turns ----------------------------------------------------------------------------

    def hold(self, call: Callable[[], T]) -> T:
        """Make a call between turns; it is waited for like a turn, but not cancelled."""
        with self._enter_alone() as waiter:
            self._lock.wait(waiter, self.config.busy_timeout_s)
            with self.thread.count():
                return call()

    async def ahold(self, call: Callable[[], T]) -> T:
        """Make a call between turns without blocking the event loop; see `hold`."""
        with self._enter_alone() as waiter:
            await self._lock.await_turn(waiter, self.config.busy_timeout_s)
            with self.thread.count():
                return await hop(call)

    def go_back(self, call: Callable[[], T]) -> T:
        """Take something back between turns, and what is pending with it."""
        return self.hold(partial(self._drop_pending, call))

    async def ago_back(self, call: Callable[[], T]) -> T:
        """Take something back without blocking the event loop; see `go_back`."""
        return await self.ahold(partial(self._drop_pending, call))

    def _drop_pending(self, call: Callable[[], T]) -> T:
        gone = call()
        self.pending = ()
        return gone

    @contextmanager
    def _enter_alone(self) -> Iterator[Waiter]:
        control = TurnControl()
        control.end()
        with self.turns.count(control):
            control.waiter = self._lock.enter()
            with self._take_place(control) as waiter:
                yield waiter


def make_timeout_error(seconds: float) -> TurnCancelledError:
    """Return the error of a turn that took longer than allowed."""
    return TurnCancelledError(f"the turn took longer than {seconds:g} s")


def _make_busy_error(timeout_s: float) -> ThreadBusyError:
    return ThreadBusyError(
        f"the conversation was still busy after {timeout_s:g} s; is a stream of it left open? "
        "Close it, or raise busy_timeout_s"
    )


def _make_inside_error() -> ThreadBusyError:
    return ThreadBusyError(
        "a turn of this conversation started another turn of it, which would wait for itself; "
        "send what follows when the turn is over, or use a clone"
    )


# -- Messages that come in parts ------------------------------------------------------------------


def _join_parts(held: Sequence[BaseMessage], asked: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages of which the last held one goes on with the first asked one.

    It does if both are of one role; the message takes the id of its last part.
    """
    if not (held and asked and _is_continued(held[-1], asked[0])):
        return [*held, *asked]
    *before, first = held
    part, *after = asked
    more = {**first.additional_kwargs, **part.additional_kwargs}
    update = {
        "content": join_content(first.content, part.content),
        "name": part.name or first.name,
        "additional_kwargs": more,
    }
    return [*before, part.model_copy(update=update), *after]


def _is_continued(first: BaseMessage, part: BaseMessage) -> bool:
    if isinstance(first, ChatMessage) and isinstance(part, ChatMessage):
        return first.role == part.role
    return any(
        isinstance(first, kind) and isinstance(part, kind) for kind in (HumanMessage, SystemMessage)
    )
