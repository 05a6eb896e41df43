"""The part of a conversation that looks back: its history, and ways to return to a point of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.messages.ai import UsageMetadata, add_usage

from langchain_convmem.chat_templates import RenderStats
from langchain_convmem.conversation.activity import Activity
from langchain_convmem.conversation.backends import Backend, ReplyRequest
from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.copies import copied
from langchain_convmem.conversation.flows import TurnControl
from langchain_convmem.conversation.inputs import ConversationInput, prepared_steps
from langchain_convmem.conversation.threads import ListThread
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.errors import ConfigError, ConversationBusyError, UnsupportedError
from langchain_convmem.gates import Gate, Refusals
from langchain_convmem.ids import new_ulid
from langchain_convmem.protocols import ThreadMemory
from langchain_convmem.steps import Steps, arun, run
from langchain_convmem.views.heard import Heard

__all__ = ["Checkpoint", "Parts", "TurnsBack"]

T = TypeVar("T")

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point of a conversation to return to.

    Attributes:
        label: The caller's name for it.
        mark: Where the history stood; plain values.
    """

    label: str | None
    mark: Any


class Parts(NamedTuple):
    """What a conversation is made of."""

    thread: ThreadMemory
    backend: Backend
    config: ConversationConfig
    tools: ToolSet
    activity: Activity


def _busy(timeout_s: float) -> ConversationBusyError:
    return ConversationBusyError(
        f"the conversation was still busy after {timeout_s:g} s; is a stream of it left open? "
        "Close it, or raise busy_timeout_s"
    )


def _inside() -> ConversationBusyError:
    return ConversationBusyError(
        "a turn of this conversation started another turn of it, which would wait for itself; "
        "send what follows when the turn is over, or use a clone"
    )


REFUSALS = Refusals(_busy, _inside)
"""What is told to turns that wait in vain."""


class TurnsBack:
    """History, checkpoints, branches and prompts of a conversation. Reading is thread-safe."""

    def _take(self, parts: Parts) -> None:
        """Begin with these parts."""
        self._thread = parts.thread
        self._backend = parts.backend
        self._config = parts.config
        self._tools = parts.tools
        self._activity = parts.activity
        self._gate = parts.thread.gate or Gate(REFUSALS)
        self._stats: tuple[RenderStats, ...] = ()
        self._pending: tuple[BaseMessage, ...] = ()

    # -- reading ----------------------------------------------------------------------------------

    @property
    def config(self) -> ConversationConfig:
        """The settings; they do not change."""
        return self._config

    @property
    def history(self) -> list[BaseMessage]:
        """Copies of all messages but the preface, tool calls and results included."""
        return run(self._thread.messages_steps())

    async def ahistory(self) -> list[BaseMessage]:
        """Return copies of all messages; see `history`."""
        return await arun(self._thread.messages_steps())

    @property
    def pending(self) -> list[BaseMessage]:
        """Copies of what was sent with `pending=True` and waits for the rest of its message."""
        return [copied(message) for message in self._pending]

    def access_history(self, look: Callable[[Sequence[BaseMessage]], T]) -> T:
        """Return what a function makes of the messages, without copying those of a list.

        It must not change them.
        """
        if isinstance(self._thread, ListThread):
            return look(self._thread.view())
        return look(tuple(self.history))

    @property
    def last_message(self) -> BaseMessage | None:
        """The latest message, a copy; None before the first."""
        last = self.access_history(lambda messages: messages[-1] if messages else None)
        return None if last is None else copied(last)

    @property
    def usage(self) -> UsageMetadata | None:
        """What all replies in the history took together; None if no model told."""

        def total(messages: Sequence[BaseMessage]) -> UsageMetadata | None:
            found: UsageMetadata | None = None
            for message in messages:
                if isinstance(message, AIMessage) and message.usage_metadata:
                    found = add_usage(found, message.usage_metadata)
            return found

        return self.access_history(total)

    @property
    def render_stats(self) -> tuple[RenderStats, ...]:
        """How the text of each model call of the latest turn came about; empty for chat models."""
        return self._stats

    @property
    def token_count(self) -> int:
        """Tokens that the session holds; for a chat model, those of what it would be sent."""
        view = run(self._thread.view_steps(()))
        return self._backend.token_count([*self._config.preface.messages, *view.before])

    # -- prompts ----------------------------------------------------------------------------------

    def render_message(self, message: ConversationInput, **options: Any) -> str:
        """Return the text that a session would read for a message now; changes nothing.

        Raises:
            UnsupportedError: If the model takes messages, not text.
            ChatTemplateError: If the template refuses the message.
        """
        asked = run(self._asked_steps(message))
        view = run(self._thread.view_steps(asked))
        request = self._request(SendOptions.of(options))
        return self._backend.rendered(request, view.before, view.asked)

    def _asked_steps(self, message: ConversationInput) -> Steps[list[BaseMessage]]:
        """Return what is said, each message with an id of its own, after what is pending."""
        asked = yield from prepared_steps(message, limits=self._config.media_limits)
        taken: set[str] = set()
        for one in asked:
            if not one.id or one.id in taken:
                one.id = new_ulid()
            taken.add(one.id)
        return _join_parts(self._pending, asked)

    def render_preface(self) -> str:
        """Return what a session reads before the first message; see `render_message`."""
        return self._backend.rendered_preface(self._request(SendOptions()))

    def prefill_steps(self) -> Steps[None]:
        """Let the model read the preface."""
        yield from self._backend.prefill_steps(self._request(SendOptions()))

    def score(self, texts: Sequence[str], **options: Any) -> list[float]:
        """Return for each text the logarithm of its probability as the next reply.

        Raises:
            UnsupportedError: If the model tells none.
        """
        return run(self._alone_steps(self._scores(texts, options)))

    async def ascore(self, texts: Sequence[str], **options: Any) -> list[float]:
        """Return how likely texts are as the next reply; see `score`."""
        return await arun(self._alone_steps(self._scores(texts, options)))

    def _scores(self, texts: Sequence[str], options: Mapping[str, Any]) -> Steps[list[float]]:
        view = yield from self._thread.view_steps(())
        request = self._request(SendOptions.of(options))
        return (yield from self._backend.score_steps(request, view.before, texts))

    # -- going back -------------------------------------------------------------------------------

    def checkpoint(self, label: str | None = None) -> Checkpoint:
        """Return a mark of where the conversation stands."""
        return Checkpoint(label, run(self._thread.mark_steps()))

    async def acheckpoint(self, label: str | None = None) -> Checkpoint:
        """Return a mark of where the conversation stands."""
        return Checkpoint(label, await arun(self._thread.mark_steps()))

    def rewind(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint; what was said since is taken back, and what is pending dropped.

        Raises:
            UnknownCheckpointError: If the history no longer holds what the checkpoint saw.
        """
        run(self._rewind_steps(checkpoint))

    async def arewind(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint; see `rewind`."""
        await arun(self._rewind_steps(checkpoint))

    def undo(self, turns: int = 1) -> list[BaseMessage]:
        """Take back the last turns; return what they held. What is pending is dropped."""
        return run(self._undo_steps(turns))

    async def aundo(self, turns: int = 1) -> list[BaseMessage]:
        """Take back the last turns; see `undo`."""
        return await arun(self._undo_steps(turns))

    def drop_pending(self) -> list[BaseMessage]:
        """Drop what was sent with `pending=True`, as if it had not been; return it."""
        return run(self._alone_steps(self._drop_pending_steps()))

    async def adrop_pending(self) -> list[BaseMessage]:
        """Drop what was sent with `pending=True`; see `drop_pending`."""
        return await arun(self._alone_steps(self._drop_pending_steps()))

    def _rewind_steps(self, checkpoint: Checkpoint) -> Steps[None]:
        steps = self._thread.rewind_steps(checkpoint.mark)
        return self._alone_steps(self._drop_pending_after(steps))

    def _undo_steps(self, turns: int) -> Steps[list[BaseMessage]]:
        return self._alone_steps(self._drop_pending_after(self._thread.undo_steps(turns)))

    def _drop_pending_after(self, steps: Steps[T]) -> Steps[T]:
        result = yield from steps
        self._pending = ()
        return result

    def _drop_pending_steps(self) -> Steps[list[BaseMessage]]:
        yield from ()
        dropped, self._pending = self._pending, ()
        return list(dropped)

    def cut_reply(self, heard_until: Heard, *, message_id: str | None = None) -> AIMessage | None:
        """Cut a spoken reply to what was heard of it: the rest was never said.

        Waits for a turn that runs. Whoever speaks while the reply is being written cancels that
        first, with `on_cancel="keep"`, and names the reply by the `id` of its chunks, so that no
        earlier one is cut if nothing of it was kept.

        Args:
            heard_until: How many characters of the reply's text were heard, or the words that
                were; see `ConversationHistory.cut_reply`.
            message_id: Id of the reply; None is the latest one.

        Returns:
            A copy of what is left, under the same id and with the same metadata, marked by
            `response_metadata["interrupted"]`; the whole reply, as it was, if all of it was heard;
            None if nothing was: it is taken out of the history then.

        Raises:
            ConfigError: If the history holds no such reply.
            InvalidMessageError: If the words are not in the reply.
            UnsupportedError: If the history is in a store that takes nothing back.
        """
        return cast(
            "AIMessage | None",
            run(self._alone_steps(self._thread.cut_steps(heard_until, message_id))),
        )

    async def acut_reply(
        self, heard_until: Heard, *, message_id: str | None = None
    ) -> AIMessage | None:
        """Cut a spoken reply to what was heard of it; see `cut_reply`."""
        return cast(
            "AIMessage | None",
            await arun(self._alone_steps(self._thread.cut_steps(heard_until, message_id))),
        )

    def _alone_steps(self, steps: Steps[T]) -> Steps[T]:
        """Take steps between turns; they are waited for like a turn, but not cancelled."""
        control = TurnControl()
        control.end()
        with self._activity.running(control, None):
            ticket = control.ticket = self._gate.enter()
            try:
                yield from self._gate.wait_steps(ticket, self._config.busy_timeout_s)
                return (yield from steps)
            finally:
                self._gate.leave(ticket)

    def to_dict(self) -> dict[str, Any]:
        """Return the history in plain values; settings and model are not part of it.

        Raises:
            UnsupportedError: If the history is in a memory: it is kept there already.
        """
        thread = self._thread
        if not isinstance(thread, ListThread):
            raise UnsupportedError(
                "the history is kept in a memory; open it there by its thread_id"
            )
        return {
            "version": _VERSION,
            "messages": messages_to_dict(thread.view()),
            "starts": thread.starts,
        }

    @staticmethod
    def thread_from_dict(data: Mapping[str, Any]) -> ListThread:
        """Return the history that `to_dict` wrote, to create a conversation with.

        Raises:
            ConfigError: If it is of another version, or none at all.
        """
        if data.get("version") != _VERSION:
            raise ConfigError(
                f"version {data.get('version')!r} of a conversation cannot be read, only {_VERSION}"
            )
        messages = messages_from_dict(copy.deepcopy(data["messages"]))
        return ListThread(messages, data["starts"])

    def _request(self, options: SendOptions) -> ReplyRequest:
        return ReplyRequest(self._config, options, self._tools, {}, streaming=False)


# -- messages in parts ----------------------------------------------------------------------------


def _join_parts(held: Sequence[BaseMessage], asked: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages of which the last held one goes on with the first asked one.

    It does if both are of one role; the message takes the id of its last part.
    """
    if not (held and asked and _continues(held[-1], asked[0])):
        return [*held, *asked]
    *before, first = held
    part, *after = asked
    more = {**first.additional_kwargs, **part.additional_kwargs}
    update = {
        "content": _join_content(first.content, part.content),
        "name": part.name or first.name,
        "additional_kwargs": more,
    }
    return [*before, part.model_copy(update=update), *after]


def _continues(first: BaseMessage, part: BaseMessage) -> bool:
    if isinstance(first, ChatMessage) and isinstance(part, ChatMessage):
        return first.role == part.role
    return any(
        isinstance(first, kind) and isinstance(part, kind) for kind in (HumanMessage, SystemMessage)
    )


def _join_content(first: Any, part: Any) -> Any:
    if isinstance(first, str) and isinstance(part, str):
        return first + part
    return [*_list_blocks(first), *_list_blocks(part)]


def _list_blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)
