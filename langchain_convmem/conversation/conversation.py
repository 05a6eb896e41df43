"""`Conversation`: what was said so far, and a model that goes on with it; `Engine`: the model."""

from __future__ import annotations

import copy
import html
import json
import threading
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
from contextlib import ExitStack, aclosing, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import (
    Any,
    Literal,
    NamedTuple,
    Protocol,
    Self,
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

from langchain_convmem.background import run_in_thread, start_in_thread
from langchain_convmem.causes import ErrorTrap, describe_value
from langchain_convmem.conversation.chat_backend import (
    Backend,
    ChatModelBackend,
    Flow,
    ModelReply,
    ReplyRequest,
)
from langchain_convmem.conversation.config import ConversationConfig
from langchain_convmem.conversation.inputs import (
    ConversationInput,
    SendOptions,
    copy_message,
    prepare,
)
from langchain_convmem.conversation.text_backend import SessionPool, TextBackend, TextState
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.conversation.turn import (
    ActiveTurns,
    CallbackAdapter,
    ConversationTurn,
    MessageCallback,
    MessageEvent,
    ReplyStream,
    TurnControl,
    TurnHandle,
    adrive,
    drive,
)
from langchain_convmem.effects import Effect, Steps, run_async, run_sync, sync, twin
from langchain_convmem.errors import (
    ConfigError,
    ConversationBusyError,
    HistoryWriteError,
    InvalidMessageError,
    TurnTimeoutError,
    UnknownCheckpointError,
    UnsupportedError,
)
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.locks import FifoLock, Waiter, note_held
from langchain_convmem.protocols import ThreadMemory, ThreadView
from langchain_convmem.streams import ClosingStreams, merge_chunks
from langchain_convmem.text import ChatTemplate, RenderStats
from langchain_convmem.text.messages import join_content
from langchain_convmem.text.reply_formats import find_reply_format, get_reply_format
from langchain_convmem.text.sessions import TextEngine, TokenNamingEngine
from langchain_convmem.views.edits import Heard, cut_to_heard

T = TypeVar("T")

_VERSION = 1
"""Of what `to_dict` writes."""

_TEXT_SETTINGS = (
    "template",
    "reply_format",
    "channels",
    "stop",
    "prefill_preface",
    "reasoning_history",
    "on_divergence",
)
_NOT_FOR_CHAT_MODELS = (
    "is for text engines; a chat model writes its prompts and reads its replies itself. "
    "TemplateChatModel makes a chat model of a text model"
)

_MAX_ROWS = 200
_MAX_TEXT = 2000


class Conversation(ClosingStreams, Runnable[Any, AIMessage]):
    """A conversation with a model.

    A turn is all or nothing: whatever fails, the conversation is as before. Turns run one at a
    time, in the order of their calls. Thread-safe, and a Runnable: `invoke` is `send_message`.
    """

    def __init__(
        self,
        model: Engine | BaseChatModel | Runnable[Any, Any] | TextEngine,
        config: ConversationConfig | None = None,
        *,
        history: MessageStore | Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> None:
        """Begin a conversation; see `Engine.create_conversation`.

        Args:
            model: A model, or an engine that several conversations share.
            config: Its settings; None takes the engine's defaults.
            history: What was said before, or where the history is kept.
            **settings: Single settings, which go before `config`; see `ConversationConfig`.
        """
        engine = model if isinstance(model, Engine) else Engine(model)
        self._begin(run_sync(engine.open(config, history, settings)))
        if self.config.prefill_preface:
            run_sync(self.prefill_steps())

    @classmethod
    def from_state(cls, state: ConversationState) -> Conversation:
        """Return a conversation over parts that are made already."""
        conversation: Conversation = cls.__new__(cls)
        conversation._begin(state)
        return conversation

    def _begin(self, state: ConversationState) -> None:
        self._thread = state.thread
        self._backend = state.backend
        self._config = state.config
        self._tools = state.tools
        self._turns = state.turns
        self._lock = state.thread.lock or FifoLock(_make_busy_error, _make_inside_error)
        self._stats: tuple[RenderStats, ...] = ()
        self._pending: tuple[BaseMessage, ...] = ()

    def __repr__(self) -> str:
        return f"Conversation({self._backend!r}, {self._thread!r})"

    def _repr_html_(self) -> str:
        return _render_table(self.history)

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
        sending, config = SendState(SendOptions.parse(kwargs)), self._stamp(config)
        if sending.options.timeout is not None:
            return self._send_in_time(sending, input, config, sending.options.timeout)
        return self._call_with_config(partial(self._send, sending=sending), input, config)

    async def ainvoke(
        self,
        input: ConversationInput,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Send a message and return the whole reply; see `send_message`."""
        sending, config = SendState(SendOptions.parse(kwargs)), self._stamp(config)
        return await self._acall_with_config(partial(self._asend, sending=sending), input, config)

    def transform(
        self,
        input: Iterator[Any],  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        *,
        sending: SendState | None = None,
        **kwargs: Any,
    ) -> Generator[AIMessageChunk]:
        """Send a message once it is complete, and yield what is new of the reply."""
        chosen = sending or SendState(SendOptions.parse(kwargs), is_streaming=True)
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
        sending = SendState(SendOptions.parse(kwargs), is_streaming=True)
        return ReplyStream(super().astream(input, config, sending=sending), sending.control)

    async def atransform(
        self,
        input: AsyncIterator[Any],  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        *,
        sending: SendState | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[AIMessageChunk]:
        """Send a message once it is complete, and yield what is new of the reply."""
        chosen = sending or SendState(SendOptions.parse(kwargs), is_streaming=True)
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
                handle raises it in any case.
            config: Callbacks, tags and metadata.
            **options: See `send_message`.

        Raises:
            ConversationBusyError: If this is called from within a turn of the conversation.
        """
        sending = SendState(SendOptions.parse(options), is_streaming=True, ends_inside=True)
        adapter = CallbackAdapter(on_message)

        def run_turn() -> AIMessage:
            try:
                with closing(self.stream(message, config, sending=sending)) as chunks:
                    for chunk in chunks:
                        adapter.on_chunk(chunk, sending.reply)
            except BaseException as error:
                adapter.on_error(error)
                raise
            return sending.reply  # type: ignore[return-value]  # the stream came to its end

        return self._start(sending, run_turn)

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
        chosen = _limit_concurrency(config, len(inputs))
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
        chosen = _limit_concurrency(config, len(inputs))
        return await super().abatch(inputs, chosen, return_exceptions=return_exceptions, **kwargs)

    # -- reading ----------------------------------------------------------------------------------

    @property
    def config(self) -> ConversationConfig:
        """The settings; they do not change."""
        return self._config

    @property
    def history(self) -> list[BaseMessage]:
        """Copies of all messages but the preface, tool calls and results included."""
        return run_sync(self._thread.read_messages())

    async def aget_history(self) -> list[BaseMessage]:
        """Return copies of all messages; see `history`."""
        return await run_async(self._thread.read_messages())

    @property
    def pending(self) -> list[BaseMessage]:
        """Copies of what was sent with `pending=True` and waits for the rest of its message."""
        return [copy_message(message) for message in self._pending]

    def read_history(self, look: Callable[[Sequence[BaseMessage]], T]) -> T:
        """Return what a function makes of the messages, without copying those of a list.

        It must not change them.
        """
        if isinstance(self._thread, ListThread):
            return look(self._thread.get_messages())
        return look(tuple(self.history))

    @property
    def last_message(self) -> BaseMessage | None:
        """The latest message, a copy; None before the first."""
        last = self.read_history(lambda messages: messages[-1] if messages else None)
        return None if last is None else copy_message(last)

    @property
    def usage(self) -> UsageMetadata | None:
        """What all replies in the history took together; None if no model reported any."""
        replies = self.read_history(
            lambda messages: [one for one in messages if isinstance(one, AIMessage)]
        )
        told = [reply.usage_metadata for reply in replies if reply.usage_metadata]
        return reduce(add_usage, told) if told else None

    @property
    def render_stats(self) -> tuple[RenderStats, ...]:
        """How the text of each model call of the latest turn came about; empty for chat models."""
        return self._stats

    @property
    def token_count(self) -> int:
        """Tokens that the session holds; for a chat model, those of what it would be sent."""
        view = run_sync(self._thread.read_view(()))
        return self._backend.count_tokens([*self._config.preface.messages, *view.before])

    # -- prompts ----------------------------------------------------------------------------------

    def render_message(self, message: ConversationInput, **options: Any) -> str:
        """Return the text that a session would read for a message now; changes nothing.

        Raises:
            UnsupportedError: If the model takes messages, not text.
            ChatTemplateError: If the template refuses the message.
        """
        asked = run_sync(self._prepare_steps(message))
        view = run_sync(self._thread.read_view(asked))
        request = self._build_request(SendOptions.parse(options))
        return self._backend.render(request, view.before, view.asked)

    def render_preface(self) -> str:
        """Return what a session reads before the first message; see `render_message`."""
        return self._backend.render_preface(self._build_request(SendOptions()))

    @sync
    def score(self, texts: Sequence[str], **options: Any) -> Steps[list[float]]:
        """Return for each text the logarithm of its probability as the next reply.

        Raises:
            UnsupportedError: If the model reports none.
        """
        return self._run_alone_steps(self._score_steps(texts, options))

    ascore = twin(score)
    """Async `score`."""

    def prefill_steps(self) -> Steps[None]:
        """Let the model read the preface."""
        yield from self._backend.prefill_steps(self._build_request(SendOptions()))

    # -- going back -------------------------------------------------------------------------------

    @sync
    def checkpoint(self, label: str | None = None) -> Steps[Checkpoint]:
        """Return a mark of where the conversation stands."""
        return self._mark_steps(label)

    acheckpoint = twin(checkpoint)
    """Async `checkpoint`."""

    def _mark_steps(self, label: str | None) -> Steps[Checkpoint]:
        return Checkpoint(label, (yield from self._thread.mark()))

    @sync
    def rewind(self, checkpoint: Checkpoint) -> Steps[None]:
        """Go back to a checkpoint; what was said since is taken back, and what is pending dropped.

        Raises:
            UnknownCheckpointError: If the history no longer holds what the checkpoint saw.
        """
        return self._run_alone_steps(self._thread.rewind(checkpoint.mark), drops_pending=True)

    arewind = twin(rewind)
    """Async `rewind`."""

    @sync
    def undo(self, turns: int = 1) -> Steps[list[BaseMessage]]:
        """Take back the last turns; return what they held. What is pending is dropped."""
        return self._run_alone_steps(self._thread.undo(turns), drops_pending=True)

    aundo = twin(undo)
    """Async `undo`."""

    @sync
    def drop_pending(self) -> Steps[list[BaseMessage]]:
        """Drop what was sent with `pending=True`, as if it had not been; return it."""
        return self._run_alone_steps(self._pop_pending_steps())

    adrop_pending = twin(drop_pending)
    """Async `drop_pending`."""

    @sync
    def cut_reply(
        self, heard_until: Heard, *, message_id: str | None = None
    ) -> Steps[AIMessage | None]:
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
        cut = self._run_alone_steps(self._thread.cut(heard_until, message_id))
        return cast("Steps[AIMessage | None]", cut)

    acut_reply = twin(cut_reply)
    """Async `cut_reply`."""

    @sync
    def clone(self) -> Steps[Conversation]:
        """Return a conversation that holds the same, and goes on by itself.

        While a turn runs it holds what was said before. A history in a memory is forked to a new
        thread.
        """
        return self._clone_steps()

    aclone = twin(clone)
    """Async `clone`."""

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
            "messages": messages_to_dict(thread.get_messages()),
            "starts": thread.starts,
        }

    @staticmethod
    def load_thread(data: Mapping[str, Any]) -> ListThread:
        """Return the history that `to_dict` wrote, to create a conversation with.

        Raises:
            ConfigError: If it is of another version, or none at all.
        """
        if data.get("version") != _VERSION:
            raise ConfigError(
                f"version "
                f"{describe_value(data.get('version'))} of a conversation cannot be "
                f"read, only {_VERSION}"
            )
        messages = messages_from_dict(copy.deepcopy(data["messages"]))
        return ListThread(messages, data["starts"])

    # -- the end ----------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Cancel the turns that run or wait; return whether there was one to cancel."""
        return self._turns.cancel() > 0

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs; return whether that came about within so many seconds.

        From within a turn it waits for all others.
        """
        return self._turns.wait(timeout_s)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the turns, wait for them, and release the session. Idempotent.

        From within a turn, which cannot be waited for, its session is released when it ends.

        Args:
            timeout_s: Seconds to wait at most: a model or tool that does not come back is left.
        """
        if self._turns.close():
            self._turns.wait(timeout_s)
            self._backend.close()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the running turn, wait for it, and release the session; see `close`."""
        if self._turns.close():
            await run_in_thread(lambda: self._turns.wait(timeout_s))
            self._backend.close()

    # -- how a turn runs --------------------------------------------------------------------------

    def _stamp(self, config: RunnableConfig | None) -> RunnableConfig | None:
        return self._thread.stamp_config(config)

    def _send(self, message: Any, config: RunnableConfig, *, sending: SendState) -> AIMessage:
        with self._count(sending):
            deque(drive(self._run_flow(message, config, sending), sending.control), maxlen=0)
        return sending.reply  # type: ignore[return-value]  # the flow came to its end

    async def _asend(
        self, message: Any, config: RunnableConfig, *, sending: SendState
    ) -> AIMessage:
        with self._count(sending):
            async for _ in adrive(self._run_flow(message, config, sending), sending.control):
                pass
        return sending.reply  # type: ignore[return-value]  # the flow came to its end

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: SendState,
    ) -> Iterator[AIMessageChunk]:
        del run_manager
        with self._count(sending):
            message = merge_chunks(list(inputs))
            yield from drive(self._run_flow(message, config, sending), sending.control)

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: SendState,
    ) -> AsyncIterator[AIMessageChunk]:
        del run_manager
        with self._count(sending):
            message = merge_chunks([part async for part in inputs])
            flow = adrive(self._run_flow(message, config, sending), sending.control)
            try:
                async for chunk in flow:
                    yield chunk
            finally:
                await flow.aclose()

    def _run_flow(self, message: Any, config: RunnableConfig, sending: SendState) -> Flow[None]:
        """Run a turn from its place in the line to its last chunk."""
        control = sending.control
        waiter = control.waiter = control.waiter or self._enter()
        try:
            yield from self._lock.wait(waiter, self._config.busy_timeout_s, control.stopped)
            self._turns.check_open()
            asked = yield from self._prepare_steps(message)
            turn = self._build_turn(asked, config, sending)
            if sending.options.pending:
                yield from self._hold_steps(turn)
                last = AIMessageChunk(content="", chunk_position="last")
            else:
                reply = yield from turn.run_flow()
                sending.reply = reply.message
                last = _build_last_chunk(reply)
            if sending.ends_inside:
                yield last
        finally:
            self._leave(sending)
        if not sending.ends_inside:
            yield last

    def _build_turn(
        self, asked: list[BaseMessage], config: RunnableConfig, sending: SendState
    ) -> ConversationTurn:
        control = sending.control
        request = ReplyRequest(
            self._config,
            sending.options,
            self._tools,
            config,
            sending.is_streaming,
            control.stopped,
        )
        return ConversationTurn(
            self._thread, self._backend, request, control, asked, sending.asked_ms, self._commit
        )

    def _commit(self, stats: tuple[RenderStats, ...]) -> None:
        """Take note of a turn that stands."""
        self._stats, self._pending = stats, ()

    def _hold_steps(self, turn: ConversationTurn) -> Steps[None]:
        """Keep what is said so far for the turn that it begins; let the model read it already."""
        if not turn.asked:
            raise InvalidMessageError("nothing is sent that could be pending")
        view = yield from self._thread.read_view(())
        missing = turn.find_missing_answers(view._replace(asked=tuple(turn.asked)))
        context = [*view.before, *missing, *turn.asked]
        yield from self._backend.read_ahead_steps(turn.request, context)
        turn.control.end()
        self._pending = tuple(turn.asked)

    def _enter(self) -> Waiter:
        """Return a place in the line.

        Raises:
            ConversationBusyError: If this call comes from within a turn, or others come first and
                nobody is to wait.
        """
        waiter = self._lock.enter()
        if self._config.on_busy == "error" and not waiter.done():
            self._lock.leave(waiter)
            raise ConversationBusyError('a turn is running, and on_busy is "error"')
        return waiter

    def _leave(self, sending: SendState) -> None:
        sending.control.end()
        if sending.control.waiter is not None:
            self._lock.leave(sending.control.waiter)

    @contextmanager
    def _count(self, sending: SendState) -> Iterator[None]:
        """Let the turn be cancelled, and be waited for; end it when its time is up."""
        options = sending.options
        if sending.is_counted:
            yield
            return
        sending.is_counted = True
        with self._turns.count(sending.control, options.group):
            if options.timeout is None:
                yield
                return
            timer = threading.Timer(
                options.timeout, sending.control.stop, [_make_timeout_error(options.timeout)]
            )
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()

    def _prepare_steps(self, message: ConversationInput) -> Steps[list[BaseMessage]]:
        """Return what is said, each message with an id of its own, after what is pending."""
        sent = yield from prepare(message, limits=self._config.media_limits)
        asked = yield from self._thread.select_asked(sent)
        taken: set[str] = set()
        for one in asked:
            if not one.id or one.id in taken:
                one.id = make_ulid()
            taken.add(one.id)
        return _join_parts(self._pending, asked)

    def _build_request(self, options: SendOptions) -> ReplyRequest:
        return ReplyRequest(self._config, options, self._tools, {}, streaming=False)

    def _start(self, sending: SendState, turn: Callable[[], AIMessage]) -> TurnHandle:
        """Run a turn in a thread; its place in the line is that of this call."""
        counted = ExitStack()
        try:
            counted.enter_context(self._count(sending))
            sending.control.waiter = self._enter()
            counted.callback(self._leave, sending)

            def run_counted() -> AIMessage:
                with counted:
                    return turn()

            return TurnHandle(sending.control, start_in_thread(run_counted))
        except BaseException:
            counted.close()
            raise

    def _send_in_time(
        self,
        sending: SendState,
        message: ConversationInput,
        config: RunnableConfig | None,
        timeout_s: float,
    ) -> AIMessage:
        """Send, and come back in time even if the model does not."""
        send = partial(self._send, sending=sending)
        handle = self._start(sending, lambda: self._call_with_config(send, message, config))
        try:
            if not handle.wait(timeout_s):
                sending.control.stop(_make_timeout_error(timeout_s))
            # If nothing can end it any more, it is over, or being stored.
            if handle.done() or sending.control.is_sealed:
                return handle.result()
        except BaseException:
            handle.cancel()
            raise
        raise _make_timeout_error(timeout_s)

    # -- between turns ----------------------------------------------------------------------------

    def _run_alone_steps(self, steps: Steps[T], *, drops_pending: bool = False) -> Steps[T]:
        """Take steps between turns; they are waited for like a turn, but not cancelled."""
        control = TurnControl()
        control.end()
        with self._turns.count(control, None):
            waiter = control.waiter = self._lock.enter()
            try:
                yield from self._lock.wait(waiter, self._config.busy_timeout_s)
                result = yield from steps
                if drops_pending:
                    self._pending = ()
                return result
            finally:
                self._lock.leave(waiter)

    def _score_steps(self, texts: Sequence[str], options: Mapping[str, Any]) -> Steps[list[float]]:
        view = yield from self._thread.read_view(())
        request = self._build_request(SendOptions.parse(options))
        return (yield from self._backend.score_steps(request, view.before, texts))

    def _pop_pending_steps(self) -> Steps[list[BaseMessage]]:
        yield from ()
        dropped, self._pending = self._pending, ()
        return list(dropped)

    def _clone_steps(self) -> Steps[Conversation]:
        self._turns.check_open()
        # First what the session holds: if a turn ends meanwhile, its messages are only to be read.
        backend, turns = self._backend.branch(), self._turns.create_sibling()
        thread = yield from self._thread.branch()
        state = ConversationState(thread, backend, self._config, self._tools, turns)
        twin: Conversation = Conversation.from_state(state)
        twin._pending = self._pending
        return twin


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point of a conversation to return to.

    Attributes:
        label: The caller's name for it.
        mark: Where the history stood; plain values.
    """

    label: str | None
    mark: Any


class Engine:
    """One model, and the conversations with it.

    Thread-safe. Closing it cancels the turns of all its conversations.
    """

    def __init__(
        self,
        model: BaseChatModel | Runnable[Any, Any] | TextEngine,
        *,
        defaults: ConversationConfig | None = None,
        max_live_sessions: int | None = None,
    ) -> None:
        """Take a model; it stays the caller's, but for text engines, which are closed with this.

        Args:
            model: A chat model, or one with bound arguments; or a text engine.
            defaults: Settings of conversations that are created without.
            max_live_sessions: How many sessions of a text engine may live at once; those that
                were idle longest make room, and read their conversation again when it goes on.
                None is any number.

        Raises:
            ConfigError: If it is not a model, or the limit is not positive.
        """
        if max_live_sessions is not None and max_live_sessions < 1:
            raise ConfigError(f"max_live_sessions must be at least 1, got {max_live_sessions!r}")
        self.model = model
        self.defaults = defaults or ConversationConfig()
        self.turns = ActiveTurns("the engine")
        self._pool: SessionPool | None = None
        if isinstance(model, TextEngine):
            self._pool = SessionPool(model, max_live_sessions)
        elif not isinstance(model, Runnable):
            raise ConfigError(
                f""
                f"{describe_value(model)} is not a model; "
                "expected a LangChain chat model or a text engine"
            )

    def __repr__(self) -> str:
        return f"Engine({type(self.model).__name__})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_conversation(
        self,
        config: ConversationConfig | None = None,
        *,
        history: MessageStore | Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> Conversation:
        """Begin a conversation.

        Args:
            config: Its settings; None takes the engine's defaults.
            history: What was said before: messages; or where the history is kept: any chat
                history of LangChain, or a thread of a memory.
            **settings: Single settings, which go before `config`; see `ConversationConfig`.

        Raises:
            ConfigError: If a setting is unknown, or does not fit the model.
            ConversationClosedError: If the engine is closed.
            ChatTemplateError: If the template is not valid.
        """
        return Conversation(self, config, history=history, **settings)

    async def acreate_conversation(
        self,
        config: ConversationConfig | None = None,
        *,
        history: MessageStore | Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> Conversation:
        """Begin a conversation; see `create_conversation`."""
        conversation = Conversation.from_state(
            await run_async(self.open(config, history, settings))
        )
        if conversation.config.prefill_preface:
            await run_async(conversation.prefill_steps())
        return conversation

    def open(
        self,
        config: ConversationConfig | None,
        history: MessageStore | Sequence[Any] | ThreadMemory | None,
        settings: dict[str, Any],
    ) -> Steps[ConversationState]:
        """Return what a conversation is made of; see `create_conversation`."""
        self.turns.check_open()
        chosen = _apply_settings(config or self.defaults, settings)
        tools = ToolSet.coerce(chosen.preface.tools)
        backend = self._create_backend(chosen, tools)
        thread = yield from _open_thread_steps(history)
        return ConversationState(
            thread, backend, chosen, tools, ActiveTurns("the conversation", self.turns)
        )

    def _create_backend(self, config: ConversationConfig, tools: ToolSet) -> Backend:
        if self._pool is None:
            _refuse_settings(config, _TEXT_SETTINGS, _NOT_FOR_CHAT_MODELS)
            return ChatModelBackend(self.model)  # type: ignore[arg-type]  # checked at creation
        _refuse_settings(config, ("context_kwargs",), "is for chat models; templates read contexts")
        engine = self._pool.engine
        template = _find_template(config, engine)
        wanted = config.reply_format or engine.reply_format
        told = find_reply_format(template)
        found = told if wanted is None else get_reply_format(wanted)
        stop = tuple(dict.fromkeys((*engine.stop, *told.stop, *found.stop)))
        state = TextState(template.start(tools=tools.schemas or None))
        return TextBackend(self._pool, template, reply_format=found, stop=stop, state=state)

    def cancel_group(self, group: str) -> int:
        """Cancel all turns that were sent with `group`; return how many could be cancelled."""
        return self.turns.cancel(group)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs; return whether that came about within so many seconds."""
        return self.turns.wait(timeout_s)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel all turns, wait for them, and close a text engine. Idempotent.

        An engine that a turn still uses is closed when that ends.

        Args:
            timeout_s: Seconds to wait at most: a model or tool that does not come back is left.
        """
        if self.turns.close():
            self.turns.wait(timeout_s)
            if self._pool is not None:
                self._pool.close()


def _apply_settings(config: ConversationConfig, settings: dict[str, Any]) -> ConversationConfig:
    unknown = sorted(set(settings) - set(ConversationConfig.model_fields))
    if unknown:
        known = sorted(ConversationConfig.model_fields)
        raise ConfigError(f"there is no setting {unknown[0]!r}; there are {', '.join(known)}")
    if not settings:
        return config
    given = {name: getattr(config, name) for name in config.model_fields_set}
    return ConversationConfig(**{**given, **settings})


def _open_thread_steps(
    history: MessageStore | Sequence[Any] | ThreadMemory | None,
) -> Steps[ThreadMemory]:
    if isinstance(history, ThreadMemory):
        return history
    if isinstance(history, MessageStore):
        return (yield from ListThread.from_store_steps(history))
    return ListThread((yield from prepare(list(history or ()))))


def _find_template(config: ConversationConfig, engine: TextEngine) -> ChatTemplate:
    template = config.template or engine.template
    if template is None:
        raise ConfigError(
            f"{type(engine).__name__} knows no chat template; pass template=, a ChatTemplate or "
            "the name of a built-in one"
        )
    found = ChatTemplate.from_builtin(template) if isinstance(template, str) else template
    if isinstance(engine, TokenNamingEngine):
        return found.extend_control_tokens(engine.control_tokens)
    return found


def _refuse_settings(config: ConversationConfig, names: Sequence[str], why: str) -> None:
    """Refuse settings that would do nothing."""
    for name in names:
        if getattr(config, name) != ConversationConfig.model_fields[name].default:
            raise ConfigError(f"{name} {why}")


# -- What a conversation is made of ---------------------------------------------------------------


class ConversationState(NamedTuple):
    """What a conversation is made of."""

    thread: ThreadMemory
    backend: Backend
    config: ConversationConfig
    tools: ToolSet
    turns: ActiveTurns


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


def _build_last_chunk(reply: ModelReply) -> AIMessageChunk:
    """Return the chunk that ends a reply: without content, with all that was not shown yet."""
    last = AIMessageChunk(content="", id=reply.message.id, chunk_position="last")
    return last if reply.rest is None else reply.rest + last


def _make_timeout_error(seconds: float) -> TurnTimeoutError:
    """Return the error of a turn that took longer than allowed."""
    return TurnTimeoutError(f"the turn took longer than {seconds:g} s")


def _make_busy_error(timeout_s: float) -> ConversationBusyError:
    return ConversationBusyError(
        f"the conversation was still busy after {timeout_s:g} s; is a stream of it left open? "
        "Close it, or raise busy_timeout_s"
    )


def _make_inside_error() -> ConversationBusyError:
    return ConversationBusyError(
        "a turn of this conversation started another turn of it, which would wait for itself; "
        "send what follows when the turn is over, or use a clone"
    )


# -- A history without a memory: a list, or any chat history --------------------------------------


@runtime_checkable
class MessageStore(Protocol):
    """Any chat history of LangChain, by its shape."""

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """All messages."""
        ...

    def add_messages(self, messages: Sequence[BaseMessage], /) -> None:
        """Store messages."""
        ...


class ListThread:
    """A history in a list; what is said goes to a store as well, if there is one.

    Reading is thread-safe; one turn writes at a time.
    """

    lock = None

    def __init__(
        self,
        messages: Sequence[BaseMessage] = (),
        starts: Sequence[int] | None = None,
        store: MessageStore | None = None,
    ) -> None:
        """Begin with messages.

        Args:
            messages: What was said, oldest first.
            starts: Where turns begin, as numbers of messages; None goes by the user's messages.
            store: Where later turns are stored.
        """
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = make_lock()
        self._messages = _add_ids(messages)
        self._starts = _find_starts(self._messages) if starts is None else list(starts)
        self._store = store

    def __repr__(self) -> str:
        return f"{len(self._messages)} messages"

    @property
    def starts(self) -> list[int]:
        """Where turns begin, as numbers of messages."""
        with self._lock:
            return list(self._starts)

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config as it is: a list has no name."""
        return config

    def select_asked(self, sent: Sequence[BaseMessage]) -> Steps[list[BaseMessage]]:
        """Return everything: what is sent is said now; see `ThreadMemory`."""
        yield from ()
        return list(sent)

    def read_view(self, asked: Sequence[BaseMessage]) -> Steps[ThreadView]:
        """Return everything; see `ThreadMemory`."""
        yield from ()
        with self._lock:
            return ThreadView(tuple(self._messages), tuple(asked))

    def begin(self, asked: Sequence[BaseMessage], view: ThreadView, asked_ms: int) -> Steps[None]:
        """Do nothing: a list does not outlive the process, and a store takes nothing back."""
        del asked, view, asked_ms
        yield from ()

    def add(
        self, said: Sequence[BaseMessage], view: ThreadView, timing: Mapping[str, int]
    ) -> Steps[None]:
        """Store the turn, what was asked included; see `ThreadMemory`."""
        del timing
        named = _add_ids([*view.asked, *said])
        if self._store is not None:
            yield from self._store(self._store, named)
        with self._lock:
            self._starts.append(len(self._messages))
            self._messages += named

    def _store(self, store: MessageStore, messages: Sequence[BaseMessage]) -> Steps[None]:
        copies = [copy_message(message) for message in messages]
        reply = messages[-1].text if isinstance(messages[-1], AIMessage) else ""
        # Border to foreign code: a store may fail in any way, and the reply must not be lost.
        with ErrorTrap(Exception, texts=[str(message.content) for message in copies]) as trap:
            yield Effect(
                lambda: store.add_messages(copies),
                lambda: store.aadd_messages(copies),  # type: ignore[attr-defined]
            )
            return
        msg = f"the turn could not be stored ({trap.reason}); the reply is in `text`"
        raise HistoryWriteError(msg, text=reply) from trap.cause

    def retract(
        self, said: Sequence[BaseMessage], view: ThreadView, reason: Literal["failed", "cancelled"]
    ) -> Steps[None]:
        """Forget the turn: a list keeps no failures."""
        del said, view, reason
        yield from ()

    def read_messages(self) -> Steps[list[BaseMessage]]:
        """Return copies of all messages."""
        yield from ()
        return [copy_message(message) for message in self.get_messages()]

    def get_messages(self) -> tuple[BaseMessage, ...]:
        """Return the messages themselves; they must not be changed."""
        with self._lock:
            return tuple(self._messages)

    def undo(self, turns: int) -> Steps[list[BaseMessage]]:
        """Take back the last turns; see `ThreadMemory`."""
        yield from ()
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise ConfigError(
                f"turns must be a whole number of at least 1, got {describe_value(turns)}"
            )
        with self._lock:
            first = self._starts[-turns] if turns <= len(self._starts) else 0
            return self._cut(first)

    def cut(self, heard: int | str, message_id: str | None) -> Steps[BaseMessage | None]:
        """Cut a reply to what was heard of it; see `ThreadMemory`."""
        yield from ()
        with self._lock:
            number = self._find_reply(message_id)
            cut = cut_to_heard(self._messages[number], heard)
            if cut is self._messages[number]:
                return copy_message(cut)
            self._check_writable()
            # Another object in its place: a clone may hold the reply too.
            self._messages[number : number + 1] = [] if cut is None else [cut]
            if cut is None:
                self._starts = [start - (start > number) for start in self._starts]
        return None if cut is None else copy_message(cut)

    def _find_reply(self, message_id: str | None) -> int:
        """Return the number of a reply, or of the latest one."""
        for number in reversed(range(len(self._messages))):
            message = self._messages[number]
            if message_id is not None and message.id == message_id:
                if isinstance(message, AIMessage):
                    return number
                raise InvalidMessageError(f"message {message_id!r} is not a reply of the assistant")
            if message_id is None and isinstance(message, AIMessage) and message.text.strip():
                return number
        named = "" if message_id is None else f" {message_id!r}"
        raise ConfigError(f"the conversation holds no reply{named} that could be cut")

    def mark(self) -> Steps[Any]:
        """Return how many messages there are, and the latest one's id."""
        yield from ()
        with self._lock:
            return [len(self._messages), self._messages[-1].id if self._messages else None]

    def rewind(self, mark: Any) -> Steps[None]:
        """Take back what was said since a mark; see `ThreadMemory`."""
        yield from ()
        count, last = mark
        with self._lock:
            held = self._messages[count - 1].id if 0 < count <= len(self._messages) else None
            if count and held != last:
                raise UnknownCheckpointError(
                    f"the conversation no longer holds the {count} messages of this checkpoint"
                )
            self._cut(count)

    def _cut(self, count: int) -> list[BaseMessage]:
        if count < len(self._messages):
            self._check_writable()
        # Copies: a clone may hold these messages too.
        cut = [copy_message(message) for message in self._messages[count:]]
        del self._messages[count:]
        self._starts = [start for start in self._starts if start < count]
        return cut

    def _check_writable(self) -> None:
        if self._store is not None:
            raise UnsupportedError(
                f"{type(self._store).__name__} cannot take messages back; keep the conversation "
                "in a ConversationMemory, or in no store"
            )

    def branch(self) -> Steps[ListThread]:
        """Return a list that goes on by itself; what it adds goes to no store."""
        yield from ()
        with self._lock:
            return ListThread(self._messages, self._starts)

    @classmethod
    def from_store_steps(cls, store: MessageStore) -> Steps[ListThread]:
        """Return a thread that goes on from what a store holds."""

        async def aread() -> Sequence[BaseMessage]:
            return await store.aget_messages()  # type: ignore[attr-defined, no-any-return]

        messages: Sequence[BaseMessage] = yield Effect(lambda: store.messages, aread)
        return cls([copy_message(message) for message in messages], store=store)


def _add_ids(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages, each with an id: checkpoints go by it."""
    for message in messages:
        message.id = message.id or make_ulid()
    return list(messages)


def _find_starts(messages: Sequence[BaseMessage]) -> list[int]:
    """Return where turns begin: with the first of several messages of the user in a row."""
    return [
        number
        for number, message in enumerate(messages)
        if message.type == "human" and (number == 0 or messages[number - 1].type != "human")
    ]


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


def _limit_concurrency(
    config: RunnableConfig | list[RunnableConfig] | None, count: int
) -> list[RunnableConfig]:
    return [{**one, "max_concurrency": 1} for one in get_config_list(config, count)]


# -- A conversation as a table, for notebooks -----------------------------------------------------


def _render_table(messages: Sequence[BaseMessage]) -> str:
    """Return who said what, one row a message; of a long conversation the latest."""
    shown = messages[-_MAX_ROWS:]
    rows = "".join(
        f"<tr><td>{message.type}</td><td>{_render_cell(message)}</td></tr>" for message in shown
    )
    left_out = len(messages) - len(shown)
    head = f"<caption>{left_out} earlier messages</caption>" if left_out else ""
    return f"<table>{head}{rows}</table>"


def _render_cell(message: BaseMessage) -> str:
    text = html.escape(message.text[:_MAX_TEXT]).replace("\n", "<br>")
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    written = [f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})" for call in calls]
    return text + "".join(f"<br><code>{html.escape(one)}</code>" for one in written)
