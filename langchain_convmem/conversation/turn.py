"""One turn: what is asked, tool calls and their results, the reply; all of it or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage

from langchain_convmem.conversation.chat_backend import Attempt, Backend, ModelReply, ReplyRequest
from langchain_convmem.conversation.flows import Flow, TurnControl, observed, unhurried
from langchain_convmem.conversation.inputs import copied
from langchain_convmem.conversation.tools import (
    cancelled_answers,
    find_stray_results,
    unanswered_calls,
)
from langchain_convmem.effects import Steps
from langchain_convmem.errors import (
    ContextFullError,
    InvalidMessageError,
    LogError,
    ReplyFormatError,
    ToolLoopLimitError,
    TurnCancelledError,
)
from langchain_convmem.ids import now_ms
from langchain_convmem.protocols import ThreadMemory, ThreadView
from langchain_convmem.text import RenderStats
from langchain_convmem.views.drafts import INTERRUPTED

_CANCELS = (TurnCancelledError, asyncio.CancelledError)


@dataclass(slots=True)
class Turn:
    """A turn in the making. One caller."""

    thread: ThreadMemory
    backend: Backend
    request: ReplyRequest
    control: TurnControl
    asked: list[BaseMessage]
    asked_ms: int
    """When it was asked, in milliseconds since the epoch."""
    noted: Callable[[tuple[RenderStats, ...]], object]
    """Told how the texts of a turn that stands came about."""
    said: list[BaseMessage] = field(default_factory=list)
    timing: dict[str, int] = field(default_factory=dict)
    late: list[BaseException] = field(default_factory=list)
    """Cancellations that came while the turn was written, and were too late to undo it."""

    def flow(self) -> Flow[ModelReply]:
        """Run the turn, and store it; on any error the conversation is as before."""
        view = yield from self.thread.view_steps(self.asked)
        missing = self.find_missing_answers(view)
        if missing:
            self.asked = [*missing, *self.asked]
            view = view._replace(asked=(*missing, *view.asked))
        attempt = self.backend.attempt(self.request)
        shown = {message.id: message for message in view.asked}
        for said in self.asked:
            if said.id in shown and shown[said.id].content != said.content:
                attempt.remember(said, shown[said.id])
        try:
            yield from self._begin(view)
            reply = yield from self._rounds(view, attempt)
            yield from self._stored(view, attempt)
        except BaseException as error:
            self.control.end()
            yield from self._ended(view, attempt, error)
            raise
        if self.late:
            raise self.late[0]
        return reply

    def _begin(self, view: ThreadView) -> Steps[None]:
        """Make what is asked durable; a cancellation meanwhile takes it back."""
        late: list[BaseException] = []
        yield from unhurried(self.thread.begin_steps(self.asked, view, self.asked_ms), late)
        if late:
            raise late[0]

    def find_missing_answers(self, view: ThreadView) -> list[ToolMessage]:
        """Return the answers that earlier calls still lack, before anybody speaks.

        Raises:
            InvalidMessageError: If they are not to be answered by us, or a result that is sent
                answers no open call.
        """
        stray = find_stray_results(view.before, self.asked)
        if stray:
            raise InvalidMessageError(
                f"the tool result for {stray[0].tool_call_id!r} answers no open call; send results "
                "of the calls that the last reply made, before the user speaks again"
            )
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
            self._check(reply)
            is_for_tools = self._is_for_tools(reply.message)
            if is_for_tools and done == self.request.config.max_tool_rounds:
                break
            # A copy: the reply itself is handed out, and the history is nobody else's.
            self.said.append(copied(reply.message))
            if not is_for_tools:
                self.timing["llmEnd"] = now_ms()
                return reply
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

    def _check(self, reply: ModelReply) -> None:
        config, message = self.request.config, reply.message
        if message.invalid_tool_calls and config.on_broken_call == "raise":
            call = message.invalid_tool_calls[0]
            raise ReplyFormatError(
                f"the call of {call['name']!r} cannot be read: {call['error'] or call['args']}",
                text=message.text,
            )
        if reply.is_cut and config.on_max_tokens == "raise":
            raise ContextFullError(
                "the model had no room to end its reply; give it more by max_output_tokens, or "
                "shorten what it is sent",
                text=message.text,
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
        made = yield from self.request.tools.answers_steps(
            message.tool_calls,
            config=self.request.run,
            handler=config.tool_handler,
            on_result=config.on_tool_result,
            parallel=config.parallel_tools,
            cancelled=self.control.stopped,
        )
        return [*made, *_answers_to_broken(message)]

    # -- the end ----------------------------------------------------------------------------------

    def _stored(self, view: ThreadView, attempt: Attempt) -> Steps[None]:
        self.control.seal()
        steps = self.thread.add_steps(self.said, view, self.timing)
        yield from unhurried(steps, self.late)
        attempt.commit()
        self.noted(attempt.stats)

    def _ended(self, view: ThreadView, attempt: Attempt, error: BaseException) -> Steps[None]:
        """Keep of a turn that ended early what is to be kept, and let the rest be undone."""
        if self._keeps(attempt, error):
            self._close_calls()
            try:
                yield from self._stored(view, attempt)
            except BaseException as second:
                yield from self._take_back(view, attempt, second)
                raise
            return
        yield from self._take_back(view, attempt, error)

    def _take_back(self, view: ThreadView, attempt: Attempt, error: BaseException) -> Steps[None]:
        said = [*self.said, *self._find_partial(attempt)]
        attempt.rollback()
        reason: Literal["failed", "cancelled"] = (
            "cancelled" if isinstance(error, _CANCELS) else "failed"
        )
        if reason == "failed" and len(said) > len(self.said):
            # Nobody cancelled it, and the model did not say why it stopped.
            said[-1].response_metadata.pop("finish_reason", None)
        try:
            yield from unhurried(self.thread.failed_steps(said, view, reason), self.late)
        except LogError as second:
            error.add_note(f"and the failed turn could not be taken back: {second}")

    def _keeps(self, attempt: Attempt, error: BaseException) -> bool:
        config = self.request.config
        if isinstance(error, ToolLoopLimitError):
            attempt.drop_reply()
            return config.on_tool_limit == "keep"
        if not isinstance(error, _CANCELS) or config.on_cancel != "keep":
            return False
        partial = self._find_partial(attempt)
        if not self._has_replied:
            attempt.drop_reply()
        self.said += partial
        self._mark_interrupted()
        return bool(self.said)

    @property
    def _has_replied(self) -> bool:
        """Whether the latest call of the model came to its end."""
        return bool(self.said) and not isinstance(self.said[-1], ToolMessage)

    def _find_partial(self, attempt: Attempt) -> list[AIMessage]:
        """Return what had come of a reply that broke off."""
        partial = None if self._has_replied else attempt.partial()
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
            self.said += [*cancelled_answers(last.tool_calls), *_answers_to_broken(last)]


def _answers_to_broken(message: AIMessage) -> list[ToolMessage]:
    return [
        ToolMessage(
            f"Error: this call cannot be read ({call['error'] or 'no valid JSON'}); make it again",
            tool_call_id=call["id"] or "",
            name=call["name"],
            status="error",
        )
        for call in message.invalid_tool_calls
    ]
