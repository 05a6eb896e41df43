"""One turn: what is asked, tool calls and their results, the reply; all of it or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage

from langchain_convmem.chat_templates import RenderStats
from langchain_convmem.conversation.backends import Attempt, Backend, ModelReply, ReplyRequest
from langchain_convmem.conversation.flows import Flow, TurnControl, observed, unhurried
from langchain_convmem.conversation.tools import cancelled_answers, unanswered_calls
from langchain_convmem.errors import (
    ContextFullError,
    InvalidMessageError,
    LogError,
    ToolLoopLimitError,
    TurnCancelledError,
)
from langchain_convmem.ids import now_ms
from langchain_convmem.protocols import ThreadMemory, ThreadView
from langchain_convmem.steps import Steps

__all__ = ["Turn"]

_CANCELS = (TurnCancelledError, asyncio.CancelledError)


@dataclass(slots=True)
class Turn:
    """A turn in the making. One caller."""

    thread: ThreadMemory
    backend: Backend
    request: ReplyRequest
    control: TurnControl
    asked: list[BaseMessage]
    noted: Callable[[tuple[RenderStats, ...]], object]
    """Told how the texts of a turn that stands came about."""
    said: list[BaseMessage] = field(default_factory=list)
    timing: dict[str, int] = field(default_factory=dict)
    late: list[BaseException] = field(default_factory=list)
    """Cancellations that came while the turn was written, and were too late to undo it."""

    def flow(self) -> Flow[ModelReply]:
        """Run the turn, and store it; on any error the conversation is as before."""
        view = yield from self.thread.view_steps(self.asked)
        missing = self._missing(view)
        if missing:
            self.asked = [*missing, *self.asked]
            view = view._replace(asked=(*missing, *view.asked))
        attempt = self.backend.attempt(self.request)
        shown = {message.id: message for message in view.asked}
        for said in self.asked:
            if said.id in shown and shown[said.id].content != said.content:
                attempt.remember(said, shown[said.id])
        try:
            reply = yield from self._rounds(view, attempt)
            yield from self._stored(view, attempt)
        except BaseException as error:
            yield from self._ended(view, attempt, error)
            raise
        if self.late:
            raise self.late[0]
        return reply

    def _missing(self, view: ThreadView) -> list[ToolMessage]:
        """Return the answers that earlier calls still lack, before anybody speaks."""
        given = next(
            (n for n, one in enumerate(view.asked) if not isinstance(one, ToolMessage)),
            len(view.asked),
        )
        waiting = unanswered_calls([*view.before, *view.asked[:given]])
        if not waiting:
            return []
        if self.request.config.answer_missing == "cancelled":
            return cancelled_answers(waiting)
        names = ", ".join(f"{call['name']} ({call['id']})" for call in waiting)
        raise InvalidMessageError(
            f"the model still waits for the results of its calls: {names}; send them as tool "
            'messages, or set answer_missing="cancelled"'
        )

    # -- model and tools in turns -----------------------------------------------------------------

    def _rounds(self, view: ThreadView, attempt: Attempt) -> Flow[ModelReply]:
        context = [*view.before, *view.asked]
        self.timing["llmStart"] = now_ms()
        for done in range(self.request.config.max_tool_rounds + 1):
            reply = yield from observed(attempt.reply([*context, *self.said]), self._saw)
            self._check_length(reply)
            if not self._is_for_tools(reply.message):
                self.said.append(reply.message)
                self.timing["llmEnd"] = now_ms()
                return reply
            if done == self.request.config.max_tool_rounds:
                break
            self.said.append(reply.message)
            self.said += yield from self._answers(reply.message)
        limit = self.request.config.max_tool_rounds
        raise ToolLoopLimitError(
            f"the model called tools {limit} times and wants to go on; what they did stands. "
            "Raise max_tool_rounds if that is what you expect",
            rounds=limit,
        )

    def _saw(self, chunk: AIMessageChunk) -> None:
        """Note when the first words come."""
        if chunk.text:
            self.timing.setdefault("firstToken", now_ms())

    def _check_length(self, reply: ModelReply) -> None:
        if reply.is_cut and self.request.config.on_max_tokens == "raise":
            raise ContextFullError(
                "the model had no room to end its reply; give it more by max_output_tokens, or "
                "shorten what it is sent",
                text=reply.message.text,
            )

    def _is_for_tools(self, message: AIMessage) -> bool:
        """Return whether all calls of a reply are answered here."""
        config, tools = self.request.config, self.request.tools
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        if not config.auto_tools or not calls:
            return False
        described = {name for name in tools if not tools.is_executable(name)}
        return not any(call["name"] in described for call in message.tool_calls)

    def _answers(self, message: AIMessage) -> Flow[list[ToolMessage]]:
        config = self.request.config
        broken = [
            ToolMessage(
                f"Error: this call cannot be read ({call['error'] or 'no valid JSON'}); "
                "make it again",
                tool_call_id=call["id"] or "",
                name=call["name"],
                status="error",
            )
            for call in message.invalid_tool_calls
        ]
        made = yield from self.request.tools.answers_steps(
            message.tool_calls,
            config=self.request.run,
            handler=config.tool_handler,
            on_result=config.on_tool_result,
            parallel=config.parallel_tools,
            cancelled=self.control.stopped,
        )
        return [*made, *broken]

    # -- the end ----------------------------------------------------------------------------------

    def _stored(self, view: ThreadView, attempt: Attempt) -> Steps[None]:
        self.control.seal()
        steps = self.thread.add_steps([*self.asked, *self.said], view, self.timing)
        yield from unhurried(steps, self.late)
        attempt.commit()
        self.noted(attempt.stats)

    def _ended(self, view: ThreadView, attempt: Attempt, error: BaseException) -> Steps[None]:
        """Keep of a turn that ended early what is to be kept, and let the rest be undone."""
        if self._keeps(attempt, error):
            try:
                yield from self._stored(view, attempt)
            except BaseException:
                attempt.rollback()
                raise
            return
        attempt.rollback()
        reason: Literal["failed", "cancelled"] = (
            "cancelled" if isinstance(error, _CANCELS) else "failed"
        )
        if isinstance(error, LogError):
            return  # what cannot be written cannot be noted
        try:
            steps = self.thread.failed_steps([*self.asked, *self.said], reason)
            yield from unhurried(steps, self.late)
        except LogError as second:
            error.add_note(f"and the failed turn could not be noted: {second}")

    def _keeps(self, attempt: Attempt, error: BaseException) -> bool:
        config = self.request.config
        if isinstance(error, ToolLoopLimitError):
            return config.on_tool_limit == "keep"
        if not isinstance(error, _CANCELS) or config.on_cancel != "keep":
            return False
        partial = attempt.partial()
        if partial is None:
            return False
        self.said.append(partial)
        return True
