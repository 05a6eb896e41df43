"""One send, from its place in the line to its reply: all of it or nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ChatMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langchain_convmem.background import finish, hop
from langchain_convmem.conversation.chat_backend import (
    Backend,
    ModelReply,
    ReplyRequest,
    TurnTransaction,
)
from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.control import ActiveTurns, TurnControl
from langchain_convmem.conversation.inputs import coerce_messages, copy_message
from langchain_convmem.conversation.tools import (
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
from langchain_convmem.locks import FifoLock
from langchain_convmem.text import RenderStats
from langchain_convmem.text.messages import join_content
from langchain_convmem.thread_memory import MemoryThread
from langchain_convmem.turns.replies import mark_interrupted
from langchain_convmem.turns.turn import Turn

_CANCELS = (TurnCancelledError, asyncio.CancelledError, GeneratorExit)
_END = object()


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
        lock: The line of those who run turns of the thread.
    """

    thread: MemoryThread
    backend: Backend
    config: ConversationConfig
    tools: ToolSet
    turns: ActiveTurns
    pending: tuple[BaseMessage, ...] = ()
    stats: tuple[RenderStats, ...] = ()
    lock: FifoLock = field(init=False)

    def __post_init__(self) -> None:
        """Take the line of the thread."""
        self.lock = self.thread.lock

    def branch(self) -> Talk:
        """Return one that holds the same, and goes on by itself."""
        self.turns.check_open()
        # First what the session holds: if a turn ends meanwhile, its messages are only to be read.
        backend, turns = self.backend.branch(), ActiveTurns("the conversation", self.turns.parent)
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

    def find_missing_answers(self, asked: Sequence[BaseMessage]) -> list[ToolMessage]:
        """Return the answers that earlier calls still lack before the user speaks.

        Raises:
            InvalidMessageError: If they are to come from the caller.
        """
        if not self.thread.is_plain:  # the view of a memory tells the model that nothing came
            return []
        speaks = [n for n, one in enumerate(asked) if not isinstance(one, ToolMessage)]
        results = asked[: speaks[0]] if speaks else asked
        waiting = find_unanswered_calls([*self.thread.peek(), *results])
        if waiting and self.config.on_pending_tool_calls == "error":
            names = ", ".join(f"{call['name']} ({call['id']})" for call in waiting)
            raise InvalidMessageError(
                f"the model still waits for the results of its calls: {names}; send them as tool "
                'messages, or set on_pending_tool_calls="cancel"'
            )
        return answer_cancelled(AIMessage("", tool_calls=waiting))


def _is_continued(first: BaseMessage, part: BaseMessage) -> bool:
    if isinstance(first, ChatMessage) and isinstance(part, ChatMessage):
        return first.role == part.role
    return first.type == part.type and first.type in ("human", "system")


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
    reply: ModelReply | None = None
    _request: ReplyRequest = field(init=False)
    _turn: Turn = field(init=False)
    _transaction: TurnTransaction = field(init=False)
    _late: list[BaseException] = field(default_factory=list)
    """Cancellations that came while the turn was written, and were too late to undo it."""

    @property
    def last_word(self) -> AIMessage:
        """The reply; None of a part that is to go on."""
        return self.reply.message if self.reply else None  # type: ignore[return-value]

    # -- its place in the line --------------------------------------------------------------------

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Be counted and in the line while the block runs, if it is not already.

        Raises:
            ThreadBusyError: If this call comes from within a turn.
        """
        control, lock = self.control, self.talk.lock
        if control.waiter is not None:
            yield
            return
        with self.talk.turns.count(control), self._end_in_time():
            waiter = control.waiter = lock.enter()
            try:
                yield
            finally:
                control.end()
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
        with self.enter():
            timeout_s = self.talk.config.busy_timeout_s
            self.talk.lock.wait(self.control.waiter, timeout_s, self.control.stopped)  # type: ignore[arg-type]  # it has entered
            with self.talk.thread.hold():
                yield

    @asynccontextmanager
    async def ahold(self) -> AsyncIterator[None]:
        """Have the conversation to itself without blocking the event loop; see `hold`."""
        with self.enter():
            timeout_s = self.talk.config.busy_timeout_s
            await self.control.run(self.talk.lock.await_turn(self.control.waiter, timeout_s))  # type: ignore[arg-type]  # it has entered
            with self.talk.thread.hold():
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
                    self.said += self.talk.tools.answer(calls, **self._tool_options)
            self.control.seal()
            self._store()
        except BaseException as error:
            self.control.end()
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
                    answering = self.talk.tools.aanswer(calls, **self._tool_options)
                    self.said += await self.control.run(answering)
            self.control.seal()
            await self._finish(self._store)
        except BaseException as error:
            self.control.end()
            await self._finish(partial(self._end, error))
            raise
        if self._late:
            raise self._late[0]
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
        if self.options.pending and not self.asked:
            raise InvalidMessageError("nothing is sent that could be pending")
        missing = talk.find_missing_answers(self.asked)
        if self.options.pending:
            self.context = [*talk.thread.peek(), *missing, *self.asked]
            return
        self.asked = [*missing, *self.asked]
        self._transaction = talk.backend.begin(self._request)
        self._turn = talk.thread.make_turn(config)

    def _begin(self) -> None:
        """Store what is said: it was, whatever happens now."""
        self.context, said, shown = self.talk.thread.begin(self._turn, self.asked)
        if said is not None and shown is not None:
            self._transaction.remember(said, shown)

    def _keep_part(self) -> AIMessageChunk:
        self.control.seal()
        self.talk.pending = tuple(self.asked)
        return AIMessageChunk(content="", chunk_position="last")

    def _make_last_chunk(self) -> AIMessageChunk:
        """Return the chunk that ends a turn: without content, with all that was not shown yet."""
        if self.reply is None:  # the collector closed the turn before what reads it
            raise GeneratorExit
        message, rest = self.reply
        last = AIMessageChunk(content="", id=message.id, chunk_position="last")
        return last if rest is None else rest + last

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
            yield chunk
            self.control.check()

    def _take_reply(self) -> Iterator[list[Any]]:
        """Take what the model said; yield its calls if they are answered here.

        Raises:
            ConversationError: If tools were called too often before.
        """
        reply = self._transaction.builder.build()
        is_for_tools = self._is_for_tools(reply.message)
        limit = self.talk.config.max_tool_rounds
        if is_for_tools and sum(isinstance(one, AIMessage) for one in self.said) == limit:
            raise ConversationError(
                f"the model called tools {limit} times and wants to go on; what they did stands. "
                "Raise max_tool_rounds if that is what you expect",
                rounds=limit,
            )
        # A copy: the reply itself is handed out, and the history is nobody else's.
        self.said.append(copy_message(reply.message))
        if not is_for_tools:
            self.reply = reply
            return
        yield reply.message.tool_calls
        self.said += answer_invalid(reply.message)

    def _is_for_tools(self, message: BaseMessage) -> bool:
        """Return whether all calls of a reply are answered here."""
        if not isinstance(message, AIMessage) or not self.talk.config.auto_tools:
            return False
        names = [call["name"] for call in message.tool_calls]
        is_calling = bool(names or message.invalid_tool_calls)
        return is_calling and all(map(self.talk.tools.can_run, names))

    @property
    def _tool_options(self) -> dict[str, Any]:
        handler, run = self.talk.config.tool_handler, self._request.run
        return {"config": run, "handler": handler, "stopped": self.control.stopped}

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
            self._late.append(error)

    def _store(self) -> None:
        self._turn.finish(self.said)
        self._transaction.commit()
        self.talk.stats, self.talk.pending = tuple(self._transaction.stats), ()
        self.talk.thread.finish()

    def _end(self, error: BaseException) -> None:
        """Keep of a turn that ended early what is to be kept, and let the rest be undone."""
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
        self._transaction.rollback()
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
            self._transaction.drop_reply()
        elif self._is_for_tools(last):
            answers = [*answer_cancelled(last), *answer_invalid(last)]
            self.said[-1:] = [mark_interrupted(last), *answers]
        return bool(self.said)

    def _find_part(self, error: BaseException) -> list[BaseMessage]:
        """Return what had come of a reply that broke off."""
        if self.said and not isinstance(self.said[-1], ToolMessage):
            return []
        told = {"finish_reason": "cancelled"} if isinstance(error, _CANCELS) else {}
        return self._transaction.builder.build_part(told)
