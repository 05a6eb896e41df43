"""`Conversation`: what was said so far, and a model that goes on with it; `Engine`: the model."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, aclosing, closing, suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_config_list

from langchain_convmem.background import hop, run_in_thread, start_in_thread, to_async
from langchain_convmem.causes import describe_value
from langchain_convmem.conversation.chat_backend import Backend, ChatModelBackend, ReplyRequest
from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.inputs import ConversationInput, coerce_messages, copy_message
from langchain_convmem.conversation.text_backend import TextBackend
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.conversation.turn import ActiveTurns, Send, Talk, TurnControl
from langchain_convmem.errors import ConfigError
from langchain_convmem.text import RenderStats
from langchain_convmem.text.reply_formats import find_reply_format, get_reply_format
from langchain_convmem.text.sessions import TextEngine, TokenNamingEngine, load_template
from langchain_convmem.thread_memory import MemoryThread
from langchain_convmem.turns.memory import stamp_config
from langchain_convmem.views.edits import Heard

P = ParamSpec("P")
T = TypeVar("T")

MessageCallback: TypeAlias = Callable[[AIMessageChunk | BaseException], Any]
"""Gets what becomes of a turn: chunks, then an empty one with `chunk_position="last"` when the
history holds the reply, or the error that ended the turn. One call at a time, in order."""

_FOR_TEXT = ("template", "reply_format", "channels", "stop", "prefill_preface", "thinking_tokens")


def _between_turns(
    call: Callable[Concatenate[Conversation, P], T],
) -> Callable[Concatenate[Conversation, P], T]:
    """Return a method that runs between turns; it is waited for like a turn, but not cancelled."""

    @wraps(call)
    def hold(self: Conversation, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.make_pause().hold():
            return call(self, *args, **kwargs)

    return hold


def _await_turns(
    method: Callable[Concatenate[Conversation, P], T],
) -> Callable[Concatenate[Conversation, P], Coroutine[Any, Any, T]]:
    """Return the asynchronous form of a method that runs between turns."""
    call: Callable[..., T] = method.__wrapped__  # type: ignore[attr-defined]

    @wraps(call, updated=())
    async def ahold(self: Conversation, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with self.make_pause().ahold():
            return await hop(partial(call, self, *args, **kwargs))

    ahold.__name__, ahold.__doc__ = f"a{method.__name__}", f"Async `{method.__name__}`."
    ahold.__qualname__ = f"Conversation.a{method.__name__}"
    return ahold


class Conversation(Runnable[Any, AIMessage]):
    """A conversation with a model.

    A turn happens completely or not at all: if anything fails, the conversation is unchanged. Turns
    run one at a time, in call order. Thread-safe, and a Runnable: `invoke` is `send_message`.
    """

    def __init__(
        self,
        model: Engine | BaseChatModel | Runnable[Any, Any] | TextEngine,
        config: ConversationConfig | None = None,
        *,
        history: Sequence[Any] | MemoryThread | None = None,
        **settings: Any,
    ) -> None:
        """Create a conversation; see `Engine.create_conversation`.

        Args:
            model: A model, or an engine that several conversations share.
            config: Its settings; None uses the defaults.
            history: Earlier messages, or the thread that stores them.
            **settings: Single settings, which override `config`; see `ConversationConfig`.
                `system_prompt` is the first message of the preface.
        """
        engine = model if isinstance(model, Engine) else Engine(model)
        talk = self._talk = engine.open(config, history, settings)
        if self.config.prefill_preface:
            options = SendOptions.parse({}, self.config)
            talk.backend.read_ahead(ReplyRequest(self.config, options, talk.tools, {}, False), ())

    _run_off_loop = staticmethod(run_in_thread)
    """How `to_async` calls what may wait for a model."""

    def __repr__(self) -> str:
        return f"Conversation({self._talk.backend!r}, {self._talk.thread!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- one turn ---------------------------------------------------------------------------------

    def send_message(
        self, message: ConversationInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage:
        """Send a message and return the whole reply; None if the message continues (`pending`).

        Args:
            message: The user's text, a LangChain message, a dict with `role` and `content`, a pair
                of these, or a list of messages. An empty list continues an unfinished turn.
            config: Callbacks, tags and metadata.
            **options: See `SendOptions`; anything else goes to the model, such as `temperature`.

        Raises:
            InvalidMessageError: If the message cannot be sent.
            ConversationError: If the turn failed; subclasses give the reason.
        """
        return self.invoke(message, config, **options)

    async def asend_message(
        self, message: ConversationInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage:
        """Send a message and return the whole reply; see `send_message`."""
        return await self.ainvoke(message, config, **options)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AIMessage:  # noqa: A002
        """Send a message and return the whole reply; see `send_message`."""
        send = self._make_send(kwargs)

        def run(message: Any, config: RunnableConfig) -> AIMessage:
            deque(send.run(message, config), maxlen=0)
            return send.last_word

        def take_turn() -> AIMessage:
            with send.hold():
                return self._call_with_config(cast("Any", run), input, self._stamp(config))

        if send.options.timeout is None:
            return take_turn()
        handle = self._start(send, take_turn)
        try:
            with suppress(TimeoutError):  # a model's own is raised by the result below
                return handle.result(send.options.timeout)
            send.control.stop(send.make_late_error())
            send.control.check()  # the model may not come back
            return handle.result()
        except BaseException:
            handle.cancel()
            raise

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Send a message and return the whole reply; see `send_message`."""
        send = self._make_send(kwargs)

        async def run(message: Any, config: RunnableConfig) -> AIMessage:
            async for _ in send.arun(message, config):
                pass
            return send.last_word

        async with send.ahold():
            return await self._acall_with_config(cast("Any", run), input, self._stamp(config))

    def stream(
        self,
        input: Any,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        *,
        send: Send | None = None,
        **kwargs: Any,
    ) -> Generator[AIMessageChunk]:
        """Send a message, and yield what is new of the reply as it comes."""
        is_own, send = send is None, send or self._make_send(kwargs, is_streaming=True)
        opened: list[Generator[AIMessageChunk]] = []

        def run(messages: Iterator[Any], config: RunnableConfig) -> Any:
            opened.append(send.run(next(messages), config))
            return opened[0]

        with ExitStack() as place:
            place.enter_context(send.hold())
            shown: Any = self._transform_stream_with_config(
                iter([input]), cast("Any", run), self._stamp(config)
            )
            try:
                for chunk in shown:
                    if is_own and chunk.chunk_position == "last":
                        place.close()  # who reads it may send at once
                    yield chunk
            finally:  # LangChain drops a stream that its reader left; this ends its turn
                for chunks in opened:
                    chunks.close()

    def astream(
        self,
        input: Any,  # noqa: A002 - Runnable's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[AIMessageChunk]:
        """Send a message, and yield what is new of the reply as it comes."""
        send = self._make_send(kwargs, is_streaming=True)
        stream = self._read_stream(input, config, send)
        # The event loop closes a stream that is dropped a little later.
        weakref.finalize(stream, send.control.drop).atexit = False
        return stream

    async def _read_stream(
        self, message: Any, config: RunnableConfig | None, send: Send
    ) -> AsyncGenerator[AIMessageChunk]:
        async def say() -> AsyncIterator[Any]:
            yield message

        async def run(
            messages: AsyncIterator[Any], config: RunnableConfig
        ) -> AsyncIterator[AIMessageChunk]:
            async with aclosing(send.arun(await anext(messages), config)) as chunks:
                async for chunk in chunks:
                    yield chunk

        async with AsyncExitStack() as place:
            await place.enter_async_context(send.ahold())
            shown: Any = self._atransform_stream_with_config(
                say(), cast("Any", run), self._stamp(config)
            )
            async with aclosing(shown) as chunks:
                async for chunk in chunks:
                    if chunk.chunk_position == "last":
                        await place.aclose()  # who reads it may send at once
                    yield chunk

    def send_message_async(
        self,
        message: ConversationInput,
        on_message: MessageCallback | None = None,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> TurnHandle:
        """Send a message in the background; return at once.

        Args:
            message: See `send_message`.
            on_message: Gets each chunk, and then either an empty chunk with
                `chunk_position="last"`, once the history contains the reply, or the error that
                ended the turn. It is called in order, in another thread. If it raises an error
                before the end, the turn is undone; the handle always raises that error.
            config: Callbacks, tags and metadata.
            **options: See `send_message`.

        Raises:
            ThreadBusyError: If this is called from within a turn of the conversation.
        """
        if on_message is not None and not callable(on_message):
            raise ConfigError(f"{on_message!r:.80} is not a callback; pass a function")
        if inspect.iscoroutinefunction(on_message):
            raise ConfigError("the callback is asynchronous; read `astream` instead")
        send = self._make_send(options, is_streaming=True)
        waiting = [on_message] if on_message is not None else []

        def tell(event: AIMessageChunk | BaseException) -> None:
            for callback in waiting[:]:
                waiting.clear()  # what it raises ends the turn, and is not told to it
                callback(event)
                waiting.append(callback)

        def run_turn() -> AIMessage:
            try:
                with closing(self.stream(message, config, send=send)) as chunks:
                    for chunk in chunks:
                        tell(chunk)
            except BaseException as error:
                tell(error)
                raise
            return send.last_word

        return self._start(send, run_turn)

    def _start(self, send: Send, turn: Callable[[], AIMessage]) -> TurnHandle:
        """Run a turn in a thread; its place in the line is that of this call."""
        with ExitStack() as places:
            places.enter_context(send.enter())
            held = places.pop_all()

        def run() -> AIMessage:
            with held:
                return turn()

        return TurnHandle(send.control, start_in_thread(run))

    def batch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Send messages one after the other: each sees the replies before it."""
        configs = get_config_list(config, len(inputs))
        if not return_exceptions:  # the first that fails ends it
            return [self.invoke(*one, **kwargs) for one in zip(inputs, configs, strict=True)]
        one_by_one = [cast("RunnableConfig", {**one, "max_concurrency": 1}) for one in configs]
        return super().batch(inputs, one_by_one, return_exceptions=True, **kwargs)

    # -- reading ----------------------------------------------------------------------------------

    @property
    def config(self) -> ConversationConfig:
        """The settings, which cannot be changed."""
        return self._talk.config

    @property
    def history(self) -> list[BaseMessage]:
        """Copies of all messages except the preface, including tool calls and results."""
        return self._talk.thread.read_messages()

    async def aget_history(self) -> list[BaseMessage]:
        """Return copies of all messages; see `history`."""
        return await hop(self._talk.thread.read_messages)

    @property
    def pending(self) -> list[BaseMessage]:
        """Copies of the parts sent with `pending=True` that wait for the rest of their message."""
        return list(map(copy_message, self._talk.pending))

    @property
    def last_message(self) -> BaseMessage | None:
        """A copy of the latest message; None before the first."""
        return next(reversed(self.history), None)

    @property
    def render_stats(self) -> tuple[RenderStats, ...]:
        """What each model call of the latest turn sent and why; empty for chat models."""
        return self._talk.stats

    @property
    def token_count(self) -> int:
        """Tokens in the session, or those a chat model would get; possibly estimated."""
        preface = self.config.preface.messages
        return self._talk.backend.count_tokens([*preface, *self._talk.thread.peek()])

    # -- going back -------------------------------------------------------------------------------

    def checkpoint(self, label: str | None = None) -> Checkpoint:
        """Return a checkpoint of the conversation as it is now."""
        last = self.last_message
        return Checkpoint(label, None if last is None else last.id)

    acheckpoint = to_async(checkpoint)

    @_between_turns
    def rewind(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint; later messages and pending parts are dropped.

        Raises:
            ConfigError: If it is not a checkpoint.
            ConversationError: If the history no longer contains the checkpoint's messages.
        """
        if not isinstance(checkpoint, Checkpoint):
            what = describe_value(checkpoint)
            raise ConfigError(f"{what} is no checkpoint; pass what checkpoint() returned")
        self._talk.thread.rewind(checkpoint.message_id)
        self._talk.pending = ()

    arewind = _await_turns(rewind)

    @_between_turns
    def undo(self, turns: int = 1) -> list[BaseMessage]:
        """Undo the last exchanges and return their messages. Pending parts are dropped.

        An exchange is a user message and everything after it, including tool results.
        """
        undone = self._talk.thread.undo(turns)
        self._talk.pending = ()
        return undone

    aundo = _await_turns(undo)

    @_between_turns
    def drop_pending(self) -> list[BaseMessage]:
        """Drop the parts sent with `pending=True`, and return them."""
        dropped, self._talk.pending = list(self._talk.pending), ()
        return dropped

    adrop_pending = _await_turns(drop_pending)

    @_between_turns
    def cut_reply(self, heard_until: Heard, *, message_id: str | None = None) -> AIMessage | None:
        """Cut a spoken reply to the part that the user heard.

        Waits for a running turn. To cut a reply that is still being written, cancel it first, with
        `on_cancel="keep"`, and pass the `id` of its chunks, so that no earlier reply is cut if
        nothing of this one was kept.

        Args:
            heard_until: The number of characters of the reply's text that were heard, or the words;
                see `ConversationHistory.cut_reply`.
            message_id: The reply's id; None means the latest reply.

        Returns:
            A copy of what was heard, with the same id and metadata, marked by
            `response_metadata["interrupted"]`; the unchanged reply if all of it was heard; None if
            nothing was heard, in which case the reply is removed from the history.

        Raises:
            ConfigError: If the history has no such reply.
            InvalidMessageError: If the words are not in the reply.
        """
        return cast("AIMessage | None", self._talk.thread.cut(heard_until, message_id))

    acut_reply = _await_turns(cut_reply)

    def clone(self) -> Conversation:
        """Return an independent copy of the conversation.

        The copy does not contain a running turn. A history in a memory is forked to a new thread.
        """
        twin: Conversation = Conversation.__new__(Conversation)
        twin._talk = self._talk.branch()
        return twin

    aclone = to_async(clone)

    # -- the end ----------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Cancel running and waiting turns; return whether there were any."""
        return self._talk.turns.cancel()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn is running; return whether that happened within the timeout.

        From within a turn it waits for all others.
        """
        return self._talk.turns.wait(timeout_s)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the turns, wait for them, and release the session. Idempotent.

        From within a turn, it does not wait for that turn; its session is released when it ends.

        Args:
            timeout_s: Maximum seconds to wait; a model or tool that does not return is abandoned.
        """
        self._talk.turns.close(timeout_s)

    aclose = to_async(close)

    # -- sends and what happens between them ------------------------------------------------------

    def _stamp(self, config: RunnableConfig | None) -> RunnableConfig | None:
        return stamp_config(config, thread_id=self._talk.thread.key.thread_id)

    def _make_send(self, options: dict[str, Any], *, is_streaming: bool = False) -> Send:
        return Send(self._talk, SendOptions.parse(options, self.config), is_streaming)

    def make_pause(self) -> Send:
        """Return a place in the line that is no turn: nothing cancels it."""
        pause = self._make_send({})
        pause.control.seal(checks=False)
        return pause


class TurnHandle:
    """A turn that runs in the background. Thread-safe; may be awaited."""

    def __init__(self, control: TurnControl, outcome: Future[AIMessage]) -> None:
        self._control = control
        self._outcome = outcome

    def result(self, timeout: float | None = None) -> AIMessage:
        """Wait for the reply and return it.

        Args:
            timeout: Maximum seconds to wait; the turn continues after that.

        Raises:
            TimeoutError: If it takes longer.
            ConversationError: If the turn was cancelled or exceeded its timeout.
        """
        return self._outcome.result(timeout)

    def cancel(self) -> bool:
        """Cancel the turn; return whether it could still be cancelled.

        A model or tool that is running may continue for a while; its result is ignored.
        """
        return self._control.cancel()

    def done(self) -> bool:
        """Return whether the turn has ended."""
        return self._outcome.done()

    def __await__(self) -> Generator[Any, None, AIMessage]:
        """Wait for the reply without blocking the event loop."""
        return asyncio.shield(asyncio.wrap_future(self._outcome)).__await__()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point in a conversation that you can return to.

    Attributes:
        label: The caller's name for it.
        message_id: Id of the last message that the history held; None if it held none.
    """

    label: str | None
    message_id: str | None


class Engine:
    """A model and its conversations.

    Thread-safe. Closing it cancels the turns of all its conversations.
    """

    def __init__(self, model: BaseChatModel | Runnable[Any, Any] | TextEngine) -> None:
        """Use a model. The caller closes it, except for text engines, which are closed with this.

        Args:
            model: A chat model, or one with bound arguments; or a text engine.

        Raises:
            ConfigError: If it is not a model.
        """
        if not isinstance(model, TextEngine | Runnable):
            wanted = "a LangChain chat model, or an engine derived from text.sessions.TextEngine"
            raise ConfigError(f"{describe_value(model)} is not a model; expected {wanted}")
        self.model = model
        release = model.close if isinstance(model, TextEngine) else lambda: None
        self._turns = ActiveTurns("the engine", release)

    _run_off_loop = staticmethod(run_in_thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_conversation(
        self,
        config: ConversationConfig | None = None,
        *,
        history: Sequence[Any] | MemoryThread | None = None,
        **settings: Any,
    ) -> Conversation:
        """Create a conversation.

        Args:
            config: Its settings; None uses the defaults.
            history: Earlier messages, or a memory's thread that stores them.
            **settings: Single settings, which override `config`; see `ConversationConfig`.
                `system_prompt` is the first message of the preface.

        Raises:
            ConfigError: If a setting is unknown or does not apply to the model.
            ConversationError: If the engine is closed.
            ChatTemplateError: If the template is invalid.
        """
        return Conversation(self, config, history=history, **settings)

    acreate_conversation = to_async(create_conversation)

    def open(
        self,
        config: ConversationConfig | None,
        history: Sequence[Any] | MemoryThread | None,
        settings: dict[str, Any],
    ) -> Talk:
        """Return what a conversation is made of; see `create_conversation`."""
        self._turns.check_open()
        if not isinstance(config, ConversationConfig | None):
            raise ConfigError(f"config is {describe_value(config)}; pass ConversationConfig(...)")
        chosen = (config or ConversationConfig()).change(settings)
        tools = ToolSet(chosen.preface.tools)
        if isinstance(history, str) or not isinstance(history, MemoryThread | Sequence | None):
            way = "pass a list, such as history.messages, or keep it in a ConversationMemory"
            raise ConfigError(f"history is {describe_value(history)}; {way}")
        backend = self._create_backend(chosen, tools)
        if not isinstance(history, MemoryThread):
            history = MemoryThread.from_messages(coerce_messages(list(history or ())))
        turns = ActiveTurns("the conversation", backend.close, self._turns)
        return Talk(history, backend, chosen, tools, turns)

    def _create_backend(self, config: ConversationConfig, tools: ToolSet) -> Backend:
        """Return how a conversation uses the model; what that does not heed is refused."""
        engine = self.model if isinstance(self.model, TextEngine) else None
        if engine is None:
            for name in _FOR_TEXT:
                if getattr(config, name) != ConversationConfig.model_fields[name].default:
                    raise ConfigError(f"{name} is for text engines; leave it out")
            return ChatModelBackend(cast("Runnable[Any, Any]", self.model), tools)
        template = load_template(config.template or engine.template)
        if template is None:
            raise ConfigError(
                f"{type(engine).__name__} knows no chat template; pass template=, a ChatTemplate "
                "or the name of a built-in one"
            )
        if isinstance(engine, TokenNamingEngine):
            template = template.extend_control_tokens(engine.control_tokens)
        if tools.names and "tools" not in template.variables:
            msg = f"{template!r} shows no tools to the model; take a template that reads `tools`"
            raise ConfigError(msg)
        wanted, told = config.reply_format or engine.reply_format, find_reply_format(template)
        found = told if wanted is None else get_reply_format(wanted)
        stop = tuple(dict.fromkeys((*engine.stop, *told.stop, *found.stop)))
        state = template.start(tools=tools.schemas or None)
        return TextBackend(engine, template, found, stop, state)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn is running; return whether that happened within the timeout."""
        return self._turns.wait(timeout_s)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel all turns, wait for them, and close a text engine. Idempotent.

        If a turn is still using the engine, the engine is closed when the turn ends.

        Args:
            timeout_s: Maximum seconds to wait; a model or tool that does not return is abandoned.
        """
        self._turns.close(timeout_s)
