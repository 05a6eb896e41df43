"""The part of a conversation that goes on: one turn, from its place in the line to its end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig

from langchain_convmem.chat_templates import RenderStats
from langchain_convmem.conversation.backends import ModelReply, ReplyRequest
from langchain_convmem.conversation.config import SendOptions
from langchain_convmem.conversation.flows import Flow, TurnControl, adrive, drive
from langchain_convmem.conversation.turn import Turn
from langchain_convmem.conversation.turns_back import TurnsBack
from langchain_convmem.errors import (
    ConversationBusyError,
    InvalidMessageError,
    TurnTimeoutError,
)
from langchain_convmem.gates import Ticket
from langchain_convmem.ids import now_ms
from langchain_convmem.steps import Steps
from langchain_convmem.streams import summed

__all__ = ["Sending", "TurnsAhead", "late"]


@dataclass(slots=True)
class Sending:
    """One send: what it asks for, and what came of it."""

    options: SendOptions
    is_streaming: bool = False
    is_told_inside: bool = False
    """Whether the end is told while the conversation is still held by the turn."""
    is_counted: bool = False
    """Whether whoever waits for the conversation waits for it already."""
    control: TurnControl = field(default_factory=TurnControl)
    asked_ms: int = field(default_factory=now_ms)
    """When it was sent, however long it waits for its turn."""
    reply: AIMessage | None = None


class TurnsAhead(TurnsBack):
    """Runs turns, in both worlds."""

    def _send(
        self,
        message: Any,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: Sending,
    ) -> AIMessage:
        del run_manager
        with self._counted(sending):
            deque(drive(self._flow(message, config, sending), sending.control), maxlen=0)
        return sending.reply  # type: ignore[return-value]  # the flow came to its end

    async def _asend(
        self,
        message: Any,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: Sending,
    ) -> AIMessage:
        del run_manager
        with self._counted(sending):
            async for _ in adrive(self._flow(message, config, sending), sending.control):
                pass
        return sending.reply  # type: ignore[return-value]  # the flow came to its end

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: Sending,
    ) -> Iterator[AIMessageChunk]:
        del run_manager
        with self._counted(sending):
            message = summed(list(inputs))
            yield from drive(self._flow(message, config, sending), sending.control)

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: Sending,
    ) -> AsyncIterator[AIMessageChunk]:
        del run_manager
        with self._counted(sending):
            message = summed([part async for part in inputs])
            flow = adrive(self._flow(message, config, sending), sending.control)
            try:
                async for chunk in flow:
                    yield chunk
            finally:
                await flow.aclose()

    def _flow(self, message: Any, config: RunnableConfig, sending: Sending) -> Flow[None]:
        """Run a turn from its place in the line to its last chunk."""
        control = sending.control
        ticket = control.ticket = control.ticket or self._entered()
        try:
            yield from self._gate.wait_steps(ticket, self._config.busy_timeout_s, control.stopped)
            self._activity.check_open()
            asked = yield from self._asked_steps(message)
            turn = self._turn(asked, config, sending)
            if sending.options.pending:
                yield from self._hold_steps(turn)
                last = AIMessageChunk(content="", chunk_position="last")
            else:
                reply = yield from turn.flow()
                sending.reply = reply.message
                last = _last_chunk(reply)
            if sending.is_told_inside:
                yield last
        finally:
            self._leave(sending)
        if not sending.is_told_inside:
            yield last

    def _turn(self, asked: list[BaseMessage], config: RunnableConfig, sending: Sending) -> Turn:
        control = sending.control
        request = ReplyRequest(
            self._config,
            sending.options,
            self._tools,
            config,
            sending.is_streaming,
            control.stopped,
        )
        return Turn(
            self._thread, self._backend, request, control, asked, sending.asked_ms, self._noted
        )

    def _noted(self, stats: tuple[RenderStats, ...]) -> None:
        """Take note of a turn that stands."""
        self._stats, self._pending = stats, ()

    def _hold_steps(self, turn: Turn) -> Steps[None]:
        """Keep what is said so far for the turn that it begins; let the model read it already."""
        if not turn.asked:
            raise InvalidMessageError("nothing is sent that could be pending")
        view = yield from self._thread.view_steps(())
        missing = turn.find_missing_answers(view._replace(asked=tuple(turn.asked)))
        context = [*view.before, *missing, *turn.asked]
        yield from self._backend.read_ahead_steps(turn.request, context)
        turn.control.end()
        self._pending = tuple(turn.asked)

    def _entered(self) -> Ticket:
        """Return a place in the line.

        Raises:
            ConversationBusyError: If this call comes from within a turn, or others come first and
                nobody is to wait.
        """
        ticket = self._gate.enter()
        if self._config.on_busy == "error" and not ticket.done():
            self._gate.leave(ticket)
            raise ConversationBusyError('a turn is running, and on_busy is "error"')
        return ticket

    def _leave(self, sending: Sending) -> None:
        sending.control.end()
        if sending.control.ticket is not None:
            self._gate.leave(sending.control.ticket)

    @contextmanager
    def _counted(self, sending: Sending) -> Iterator[None]:
        """Let the turn be cancelled, and be waited for; end it when its time is up."""
        options = sending.options
        if sending.is_counted:
            yield
            return
        sending.is_counted = True
        with self._activity.running(sending.control, options.group):
            if options.timeout is None:
                yield
                return
            timer = threading.Timer(options.timeout, sending.control.stop, [late(options.timeout)])
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()


def _last_chunk(reply: ModelReply) -> AIMessageChunk:
    """Return the chunk that ends a reply: without content, with all that was not shown yet."""
    last = AIMessageChunk(content="", id=reply.message.id, chunk_position="last")
    return last if reply.rest is None else reply.rest + last


def late(seconds: float) -> TurnTimeoutError:
    """Return the error of a turn that took longer than allowed."""
    return TurnTimeoutError(f"the turn took longer than {seconds:g} s")
