"""`Conversation`: what was said so far, and a model that goes on with it."""

from __future__ import annotations

import asyncio
import copy
import html
import inspect
import json
import threading
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, wait
from contextlib import ExitStack, aclosing, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
    runtime_checkable,
)

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_config_list

from langchain_convmem.conversation.chat_backend import Backend, ModelReply, ReplyRequest
from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.flows import Flow, TurnControl, adrive, drive
from langchain_convmem.conversation.inputs import ConversationInput, copied, prepared_steps
from langchain_convmem.conversation.threads import ListThread, MessageStore
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.conversation.turn import Turn
from langchain_convmem.effects import Steps, arun, run
from langchain_convmem.errors import (
    ConfigError,
    ConversationBusyError,
    ConversationClosedError,
    InvalidMessageError,
    TurnTimeoutError,
    UnsupportedError,
)
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.locks import FifoLock, Waiter, note_held
from langchain_convmem.protocols import TextEngine, ThreadMemory
from langchain_convmem.streams import ClosingStreams, summed
from langchain_convmem.text import RenderStats
from langchain_convmem.views.drafts import Heard
from langchain_convmem.workers import in_thread, started

if TYPE_CHECKING:
    from langchain_convmem.conversation.engine import Engine


class TurnsBack:
    """History, checkpoints, branches and prompts of a conversation. Reading is thread-safe."""

    def _take(self, parts: Parts) -> None:
        """Begin with these parts."""
        self._thread = parts.thread
        self._backend = parts.backend
        self._config = parts.config
        self._tools = parts.tools
        self._activity = parts.activity
        self._gate = parts.thread.gate or FifoLock(_make_late_error, _make_reentry_error)
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
        sent = yield from prepared_steps(message, limits=self._config.media_limits)
        asked = yield from self._thread.select_asked_steps(sent)
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


# -- The part of a conversation that goes on ------------------------------------------------------


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

    def _entered(self) -> Waiter:
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


# -- `Conversation`: what was said so far, and a model that goes on with it -----------------------


class Conversation(ClosingStreams, TurnsAhead, Runnable[Any, AIMessage]):
    """A conversation with a model.

    A turn is all or nothing: whatever fails, the conversation is as before. Turns run one at a
    time, in the order of their calls. Thread-safe, and a Runnable: `invoke` is `send_message`.
    """

    def __init__(
        self,
        model: Engine | BaseChatModel | Runnable[Any, Any] | TextEngine | Parts,
        config: ConversationConfig | None = None,
        *,
        history: MessageStore | Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> None:
        """Begin a conversation; see `Engine.create_conversation`.

        Args:
            model: A model, or an engine that several conversations share. (Or the parts of a
                conversation, as the package puts them together itself.)
            config: Its settings; None takes the engine's defaults.
            history: What was said before, or where the history is kept.
            **settings: Single settings, which go before `config`; see `ConversationConfig`.
        """
        from langchain_convmem.conversation.engine import Engine

        if isinstance(model, Parts):
            self._take(model)
            return
        engine = model if isinstance(model, Engine) else Engine(model)
        self._take(run(engine.parts_steps(config, history, settings)))
        if self.config.prefill_preface:
            run(self.prefill_steps())

    def __repr__(self) -> str:
        return f"Conversation({self._backend!r}, {self._thread!r})"

    def _repr_html_(self) -> str:
        return html_table(self.history)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Text, a message in any form, or a list of messages."""
        return Any

    @property
    def OutputType(self) -> type[AIMessage]:  # noqa: N802 - LangChain's name
        """The reply."""
        return AIMessage

    # -- one turn ---------------------------------------------------------------------------------

    @overload
    def send_message(
        self,
        message: ConversationInput,
        config: RunnableConfig | None = None,
        *,
        pending: Literal[True],
        **options: Any,
    ) -> None: ...

    @overload
    def send_message(
        self,
        message: ConversationInput,
        config: RunnableConfig | None = None,
        *,
        pending: Literal[False] = False,
        **options: Any,
    ) -> AIMessage: ...

    def send_message(
        self, message: ConversationInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage | None:
        """Send a message and return the whole reply; None for one that is to go on (`pending`).

        Args:
            message: Text of the user, a LangChain message, a map with `role` and `content`, a pair
                of these, or a list of messages; an empty list lets the model go on.
            config: Callbacks, tags and metadata.
            **options: See `SendOptions`; anything else goes to the model, such as `temperature`.

        Raises:
            InvalidMessageError: If the message cannot be sent.
            ConversationError: If the turn did not come about; its subclasses say why.
        """
        return self.invoke(message, config, **options)

    @overload
    async def asend_message(
        self,
        message: ConversationInput,
        config: RunnableConfig | None = None,
        *,
        pending: Literal[True],
        **options: Any,
    ) -> None: ...

    @overload
    async def asend_message(
        self,
        message: ConversationInput,
        config: RunnableConfig | None = None,
        *,
        pending: Literal[False] = False,
        **options: Any,
    ) -> AIMessage: ...

    async def asend_message(
        self, message: ConversationInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage | None:
        """Send a message and return the whole reply; see `send_message`."""
        return await self.ainvoke(message, config, **options)

    def invoke(
        self,
        input: ConversationInput,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Send a message and return the whole reply; see `send_message`."""
        sending, config = Sending(SendOptions.of(kwargs)), self._stamped(config)
        if sending.options.timeout is not None:
            return self._within(sending, input, config, sending.options.timeout)
        return self._call_with_config(partial(self._send, sending=sending), input, config)

    async def ainvoke(
        self,
        input: ConversationInput,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Send a message and return the whole reply; see `send_message`."""
        sending, config = Sending(SendOptions.of(kwargs)), self._stamped(config)
        return await self._acall_with_config(partial(self._asend, sending=sending), input, config)

    def _stamped(self, config: RunnableConfig | None) -> RunnableConfig | None:
        return self._thread.stamp_config(config)

    def transform(
        self,
        input: Iterator[Any],  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        *,
        sending: Sending | None = None,
        **kwargs: Any,
    ) -> Generator[AIMessageChunk]:
        """Send a message once it is complete, and yield what is new of the reply."""
        chosen = sending or Sending(SendOptions.of(kwargs), is_streaming=True)
        with closing(super().transform(input, config, sending=chosen)) as chunks:
            for chunk in chunks:
                note_held(chosen.control.held)
                yield chunk

    def astream(
        self,
        input: ConversationInput,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[AIMessageChunk]:
        """Send a message, and yield what is new of the reply as it comes."""
        sending = Sending(SendOptions.of(kwargs), is_streaming=True)
        return Reader(super().astream(input, config, sending=sending), sending.control)

    async def atransform(
        self,
        input: AsyncIterator[Any],  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        *,
        sending: Sending | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[AIMessageChunk]:
        """Send a message once it is complete, and yield what is new of the reply."""
        chosen = sending or Sending(SendOptions.of(kwargs), is_streaming=True)
        async with aclosing(super().atransform(input, config, sending=chosen)) as chunks:
            async for chunk in chunks:
                note_held(chosen.control.held)
                yield chunk

    def send_message_async(
        self,
        message: ConversationInput,
        on_message: MessageCallback | Callable[[MessageEvent], Any] | None = None,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> TurnHandle:
        """Send a message in the background; return at once.

        Args:
            message: See `send_message`.
            on_message: Gets each chunk, and then either one empty chunk with
                `chunk_position="last"`, when the history holds the reply, or the error that ended
                the turn. Or an object with `on_message`, `on_done` and `on_error`. It is called
                in order in another thread. What it raises before the end takes the turn back; the
                handle tells of it in any case.
            config: Callbacks, tags and metadata.
            **options: See `send_message`.

        Raises:
            ConversationBusyError: If this is called from within a turn of the conversation.
        """
        sending = Sending(SendOptions.of(options), is_streaming=True, is_told_inside=True)
        listener = Listener(on_message)

        def turn() -> AIMessage:
            try:
                with closing(self.stream(message, config, sending=sending)) as chunks:
                    for chunk in chunks:
                        listener.heard(chunk, sending.reply)
            except BaseException as error:
                listener.error(error)
                raise
            return sending.reply  # type: ignore[return-value]  # the stream came to its end

        return self._started(sending, turn)

    def _started(self, sending: Sending, turn: Callable[[], AIMessage]) -> TurnHandle:
        """Run a turn in a thread; its place in the line is that of this call."""
        counted = ExitStack()
        try:
            counted.enter_context(self._counted(sending))
            sending.control.ticket = self._entered()
            counted.callback(self._leave, sending)

            def counted_turn() -> AIMessage:
                with counted:
                    return turn()

            return TurnHandle(sending.control, started(counted_turn))
        except BaseException:
            counted.close()
            raise

    def _within(
        self,
        sending: Sending,
        message: ConversationInput,
        config: RunnableConfig | None,
        timeout_s: float,
    ) -> AIMessage:
        """Send, and come back in time even if the model does not."""
        send = partial(self._send, sending=sending)
        handle = self._started(sending, lambda: self._call_with_config(send, message, config))
        try:
            if not handle.ended(timeout_s):
                sending.control.stop(late(timeout_s))
            # If nothing can end it any more, it is over, or being stored.
            if handle.done() or sending.control.is_sealed:
                return handle.result()
        except BaseException:
            handle.cancel()
            raise
        raise late(timeout_s)

    def batch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Send messages one after the other: each sees the replies before it.

        The first that fails ends it, but for `return_exceptions`.
        """
        if not return_exceptions:
            configs = get_config_list(config, len(inputs))
            return [self.invoke(*one, **kwargs) for one in zip(inputs, configs, strict=True)]
        chosen = _one_at_a_time(config, len(inputs))
        return super().batch(inputs, chosen, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Send messages one after the other; see `batch`."""
        if not return_exceptions:
            configs = get_config_list(config, len(inputs))
            return [await self.ainvoke(*one, **kwargs) for one in zip(inputs, configs, strict=True)]
        chosen = _one_at_a_time(config, len(inputs))
        return await super().abatch(inputs, chosen, return_exceptions=return_exceptions, **kwargs)

    # -- the end ----------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Cancel the turns that run or wait; return whether there was one to cancel."""
        return self._activity.cancel() > 0

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs; return whether that came about within so many seconds.

        From within a turn it waits for all others.
        """
        return self._activity.wait(timeout_s)

    def clone(self) -> Conversation:
        """Return a conversation that holds the same, and goes on by itself.

        While a turn runs it holds what was said before. A history in a memory is forked to a new
        thread.
        """
        return run(self._cloned_steps())

    async def aclone(self) -> Conversation:
        """Return a conversation that holds the same; see `clone`."""
        return await arun(self._cloned_steps())

    def _cloned_steps(self) -> Steps[Conversation]:
        self._activity.check_open()
        # First what the session holds: if a turn ends meanwhile, its messages are only to be read.
        backend, activity = self._backend.branch(), self._activity.sibling()
        thread = yield from self._thread.branch_steps()
        twin = Conversation(Parts(thread, backend, self._config, self._tools, activity))
        twin._pending = self._pending
        return twin

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the turns, wait for them, and release the session. Idempotent.

        From within a turn, which cannot be waited for, its session is released when it ends.

        Args:
            timeout_s: Seconds to wait at most: a model or tool that does not come back is left.
        """
        if self._activity.close():
            self._activity.wait(timeout_s)
            self._backend.close()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the running turn, wait for it, and release the session; see `close`."""
        if self._activity.close():
            await in_thread(lambda: self._activity.wait(timeout_s))
            self._backend.close()


def _one_at_a_time(
    config: RunnableConfig | list[RunnableConfig] | None, count: int
) -> list[RunnableConfig]:
    return [{**one, "max_concurrency": 1} for one in get_config_list(config, count)]


# -- The part of a conversation that goes on ------------------------------------------------------


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


def _last_chunk(reply: ModelReply) -> AIMessageChunk:
    """Return the chunk that ends a reply: without content, with all that was not shown yet."""
    last = AIMessageChunk(content="", id=reply.message.id, chunk_position="last")
    return last if reply.rest is None else reply.rest + last


def late(seconds: float) -> TurnTimeoutError:
    """Return the error of a turn that took longer than allowed."""
    return TurnTimeoutError(f"the turn took longer than {seconds:g} s")


# -- The part of a conversation that looks back ---------------------------------------------------


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


def _make_late_error(timeout_s: float) -> ConversationBusyError:
    return ConversationBusyError(
        f"the conversation was still busy after {timeout_s:g} s; is a stream of it left open? "
        "Close it, or raise busy_timeout_s"
    )


def _make_reentry_error() -> ConversationBusyError:
    return ConversationBusyError(
        "a turn of this conversation started another turn of it, which would wait for itself; "
        "send what follows when the turn is over, or use a clone"
    )


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


# -- The turns that run or wait: to cancel them, and to wait for them -----------------------------


class Activity:
    """The turns of a conversation or of an engine. Thread-safe."""

    def __init__(self, what: str, parent: Activity | None = None) -> None:
        """Begin idle.

        Args:
            what: What errors call it.
            parent: Where its turns count as well.
        """
        self._what = what
        self._parent = parent
        self._changed = threading.Condition()
        self._running: dict[TurnControl, str | None] = {}
        self._is_closed = False

    def sibling(self) -> Activity:
        """Return one for another conversation of the same engine."""
        return Activity(self._what, self._parent)

    def check_open(self) -> None:
        """Refuse whatever comes after the end.

        Raises:
            ConversationClosedError: If it was closed.
        """
        if self._parent is not None:
            self._parent.check_open()
        if self._is_closed:
            raise ConversationClosedError(f"{self._what} is closed; create another one")

    @contextmanager
    def running(self, control: TurnControl, group: str | None) -> Iterator[None]:
        """Count a turn from its call to its end."""
        with self._changed:
            self.check_open()
            self._running[control] = group
        try:
            if self._parent is None:
                yield
            else:
                with self._parent.running(control, group):
                    yield
        finally:
            with self._changed:
                del self._running[control]
                self._changed.notify_all()

    def cancel(self, group: str | None = None) -> int:
        """Cancel turns, of a group or all; return how many could still be cancelled."""
        with self._changed:
            controls = [one for one, name in self._running.items() if group in (None, name)]
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


# -- A turn that runs in the background, and who is told of it ------------------------------------


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


# -- Who reads a reply in an event loop: one who leaves is not waited for by himself --------------


class Reader(AsyncGenerator[AIMessageChunk, None]):
    """A stream of chunks that knows when its reader has dropped it.

    An asynchronous generator that is dropped is closed by the event loop a little later. Its turn
    still has its place in the line then, but whoever read it may get in that line again.
    """

    def __init__(self, stream: AsyncGenerator[AIMessageChunk], control: TurnControl) -> None:
        """Read a stream of the turn that `control` belongs to."""
        self._stream = stream
        self._control = control

    def __del__(self) -> None:
        for ticket in self._control.held:
            ticket.is_over = True

    async def asend(self, value: None) -> AIMessageChunk:
        """Return the next chunk."""
        return await self._stream.asend(value)

    async def athrow(self, *error: Any) -> AIMessageChunk:
        """Raise an error where the stream stands."""
        return await self._stream.athrow(*error)

    async def aclose(self) -> None:
        """Leave the turn: it is taken back if it is not complete."""
        await self._stream.aclose()


# -- A conversation as a table, for notebooks -----------------------------------------------------


_MAX_ROWS = 200


_MAX_TEXT = 2000


def html_table(messages: Sequence[BaseMessage]) -> str:
    """Return who said what, one row a message; of a long conversation the latest."""
    shown = messages[-_MAX_ROWS:]
    rows = "".join(
        f"<tr><td>{message.type}</td><td>{_cell(message)}</td></tr>" for message in shown
    )
    left_out = len(messages) - len(shown)
    head = f"<caption>{left_out} earlier messages</caption>" if left_out else ""
    return f"<table>{head}{rows}</table>"


def _cell(message: BaseMessage) -> str:
    text = html.escape(message.text[:_MAX_TEXT]).replace("\n", "<br>")
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    written = [f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})" for call in calls]
    return text + "".join(f"<br><code>{html.escape(one)}</code>" for one in written)
