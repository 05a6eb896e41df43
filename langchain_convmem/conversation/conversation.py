"""`Conversation`: what was said so far, and a model that goes on with it; `Engine`: the model."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Self, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_config_list

from langchain_convmem.background import hop, run_in_thread, to_async
from langchain_convmem.causes import describe_value, suggest_name
from langchain_convmem.conversation.chat_backend import Backend, ChatModelBackend, bind_tools
from langchain_convmem.conversation.config import ConversationConfig, Preface
from langchain_convmem.conversation.inputs import (
    ConversationInput,
    SendOptions,
    coerce_messages,
    copy_message,
)
from langchain_convmem.conversation.streams import ClosingStreams, merge_chunks
from langchain_convmem.conversation.text_backend import SessionPool, TextBackend, TextState
from langchain_convmem.conversation.threads import ListThread, ThreadMemory
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.conversation.turn import (
    ActiveTurns,
    CallbackTeller,
    MessageCallback,
    ReplyStream,
    TurnHandle,
)
from langchain_convmem.conversation.turn_runner import SendState, TurnRunner, make_timeout_error
from langchain_convmem.errors import ConfigError
from langchain_convmem.locks import note_held
from langchain_convmem.text import ChatTemplate, RenderStats
from langchain_convmem.text.reply_formats import find_reply_format, get_reply_format
from langchain_convmem.text.sessions import TextEngine, TokenNamingEngine
from langchain_convmem.views.edits import Heard

_TEXT_SETTINGS = (
    "template",
    "reply_format",
    "channels",
    "stop",
    "prefill_preface",
)
_NOT_FOR_CHAT_MODELS = (
    "is for text engines; a chat model writes its prompts and reads its replies itself. "
    "TemplateChatModel makes a chat model of a text model"
)


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
        history: Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> None:
        """Begin a conversation; see `Engine.create_conversation`.

        Args:
            model: A model, or an engine that several conversations share.
            config: Its settings; None takes the engine's defaults.
            history: What was said before, or where it is kept.
            **settings: Single settings, which go before `config`; see `ConversationConfig`.
                `system_prompt` is the first message of the preface.
        """
        engine = model if isinstance(model, Engine) else Engine(model)
        self._runner = engine.open(config, history, settings)
        if self.config.prefill_preface:
            self._runner.backend.read_ahead(self._runner.build_request(SendOptions()), ())

    @classmethod
    def from_runner(cls, runner: TurnRunner) -> Conversation:
        """Return a conversation over what runs its turns."""
        conversation: Conversation = cls.__new__(cls)
        conversation._runner = runner
        return conversation

    def __repr__(self) -> str:
        return f"Conversation({self._runner.backend!r}, {self._runner.thread!r})"

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

    def send_message(
        self, message: ConversationInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage:
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

    async def asend_message(
        self, message: ConversationInput, config: RunnableConfig | None = None, **options: Any
    ) -> AIMessage:
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
        on_message: MessageCallback | None = None,
        config: RunnableConfig | None = None,
        **options: Any,
    ) -> TurnHandle:
        """Send a message in the background; return at once.

        Args:
            message: See `send_message`.
            on_message: Gets each chunk, and then either one empty chunk with
                `chunk_position="last"`, when the history holds the reply, or the error that ended
                the turn. It is called in order in another thread. What it raises before the end
                takes the turn back; the handle raises it in any case.
            config: Callbacks, tags and metadata.
            **options: See `send_message`.

        Raises:
            ThreadBusyError: If this is called from within a turn of the conversation.
        """
        sending = SendState(SendOptions.parse(options), is_streaming=True, ends_inside=True)
        teller = CallbackTeller(on_message)

        def run_turn() -> AIMessage:
            try:
                with closing(self.stream(message, config, sending=sending)) as chunks:
                    for chunk in chunks:
                        teller.tell(chunk)
            except BaseException as error:
                teller.tell(error)
                raise
            return sending.reply  # type: ignore[return-value]  # the stream came to its end

        return self._runner.start(sending, run_turn)

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
        return self._runner.config

    @property
    def history(self) -> list[BaseMessage]:
        """Copies of all messages but the preface, tool calls and results included."""
        return self._runner.thread.read_messages()

    async def aget_history(self) -> list[BaseMessage]:
        """Return copies of all messages; see `history`."""
        return await hop(self._runner.thread.read_messages)

    @property
    def pending(self) -> list[BaseMessage]:
        """Copies of what was sent with `pending=True` and waits for the rest of its message."""
        return [copy_message(message) for message in self._runner.pending]

    @property
    def last_message(self) -> BaseMessage | None:
        """The latest message, a copy; None before the first."""
        return next(reversed(self.history), None)

    @property
    def usage(self) -> UsageMetadata | None:
        """What all replies in the history took together; None if no model reported any."""
        replies = (one for one in self.history if isinstance(one, AIMessage))
        told = [reply.usage_metadata for reply in replies if reply.usage_metadata]
        return reduce(add_usage, told) if told else None

    @property
    def render_stats(self) -> tuple[RenderStats, ...]:
        """How the text of each model call of the latest turn came about; empty for chat models."""
        return self._runner.stats

    @property
    def token_count(self) -> int:
        """Tokens that the session holds; for a chat model, those of what it would be sent."""
        view = self._runner.thread.read_view(())
        return self._runner.backend.count_tokens(
            [*self._runner.config.preface.messages, *view.before]
        )

    # -- prompts ----------------------------------------------------------------------------------

    def render_message(self, message: ConversationInput, **options: Any) -> str:
        """Return the text that a session would read for a message now; changes nothing.

        Raises:
            ConfigError: If the model takes messages, not text.
            ChatTemplateError: If the template refuses the message.
        """
        view = self._runner.thread.read_view(self._runner.prepare(message))
        request = self._runner.build_request(SendOptions.parse(options))
        return self._runner.backend.render(request, view.before, view.asked)

    def render_preface(self) -> str:
        """Return what a session reads before the first message; see `render_message`."""
        return self._runner.backend.render_preface(self._runner.build_request(SendOptions()))

    # -- going back -------------------------------------------------------------------------------

    def checkpoint(self, label: str | None = None) -> Checkpoint:
        """Return a mark of where the conversation stands."""
        last = self.last_message
        return Checkpoint(label, None if last is None else last.id)

    acheckpoint = to_async(checkpoint)

    def rewind(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint; what was said since is taken back, and what is pending dropped.

        Raises:
            ConversationError: If the history no longer holds what the checkpoint saw.
        """
        self._runner.go_back(partial(self._runner.thread.rewind, checkpoint.message_id))

    async def arewind(self, checkpoint: Checkpoint) -> None:
        """Async `rewind`."""
        await self._runner.ago_back(partial(self._runner.thread.rewind, checkpoint.message_id))

    def undo(self, turns: int = 1) -> list[BaseMessage]:
        """Take back the last exchanges; return what they held. What is pending is dropped.

        An exchange is what the user said and all that followed, results of tools included.
        """
        return self._runner.go_back(partial(self._runner.thread.undo, turns))

    async def aundo(self, turns: int = 1) -> list[BaseMessage]:
        """Async `undo`."""
        return await self._runner.ago_back(partial(self._runner.thread.undo, turns))

    def drop_pending(self) -> list[BaseMessage]:
        """Drop what was sent with `pending=True`, as if it had not been; return it."""
        return self._runner.go_back(lambda: list(self._runner.pending))

    async def adrop_pending(self) -> list[BaseMessage]:
        """Async `drop_pending`."""
        return await self._runner.ago_back(lambda: list(self._runner.pending))

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
        """
        cut = self._runner.hold(partial(self._runner.thread.cut, heard_until, message_id))
        return cast("AIMessage | None", cut)

    async def acut_reply(
        self, heard_until: Heard, *, message_id: str | None = None
    ) -> AIMessage | None:
        """Async `cut_reply`."""
        cut = await self._runner.ahold(partial(self._runner.thread.cut, heard_until, message_id))
        return cast("AIMessage | None", cut)

    def clone(self) -> Conversation:
        """Return a conversation that holds the same, and goes on by itself.

        While a turn runs it holds what was said before. A history in a memory is forked to a new
        thread.
        """
        return Conversation.from_runner(self._runner.branch())

    aclone = to_async(clone)

    # -- the end ----------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Cancel the turns that run or wait; return whether there was one to cancel."""
        return self._runner.turns.cancel() > 0

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs; return whether that came about within so many seconds.

        From within a turn it waits for all others.
        """
        return self._runner.turns.wait(timeout_s)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the turns, wait for them, and release the session. Idempotent.

        From within a turn, which cannot be waited for, its session is released when it ends.

        Args:
            timeout_s: Seconds to wait at most: a model or tool that does not come back is left.
        """
        if self._runner.turns.close():
            self._runner.turns.wait(timeout_s)
            self._runner.backend.close()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the running turn, wait for it, and release the session; see `close`."""
        await run_in_thread(partial(self.close, timeout_s))

    # -- how a turn runs --------------------------------------------------------------------------

    def _stamp(self, config: RunnableConfig | None) -> RunnableConfig | None:
        return self._runner.thread.stamp_config(config)

    def _send(self, message: Any, config: RunnableConfig, *, sending: SendState) -> AIMessage:
        with self._runner.count(sending):
            deque(self._runner.run(message, config, sending), maxlen=0)
        return sending.reply  # type: ignore[return-value]  # the turn came to its end

    async def _asend(
        self, message: Any, config: RunnableConfig, *, sending: SendState
    ) -> AIMessage:
        with self._runner.count(sending):
            async for _ in self._runner.arun(message, config, sending):
                pass
        return sending.reply  # type: ignore[return-value]  # the turn came to its end

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: SendState,
    ) -> Iterator[AIMessageChunk]:
        del run_manager
        with self._runner.count(sending):
            yield from self._runner.run(merge_chunks(list(inputs)), config, sending)

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        *,
        sending: SendState,
    ) -> AsyncIterator[AIMessageChunk]:
        del run_manager
        with self._runner.count(sending):
            message = merge_chunks([part async for part in inputs])
            async with aclosing(self._runner.arun(message, config, sending)) as chunks:
                async for chunk in chunks:
                    yield chunk

    def _send_in_time(
        self,
        sending: SendState,
        message: ConversationInput,
        config: RunnableConfig | None,
        timeout_s: float,
    ) -> AIMessage:
        """Send, and come back in time even if the model does not."""
        send = partial(self._send, sending=sending)
        handle = self._runner.start(sending, lambda: self._call_with_config(send, message, config))
        try:
            if not handle.wait(timeout_s):
                sending.control.stop(make_timeout_error(timeout_s))
            # If nothing can end it any more, it is over, or being stored.
            if handle.done() or sending.control.is_sealed:
                return handle.result()
        except BaseException:
            handle.cancel()
            raise
        raise make_timeout_error(timeout_s)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point of a conversation to return to.

    Attributes:
        label: The caller's name for it.
        message_id: Id of the last message that the history held; None if it held none.
    """

    label: str | None
    message_id: str | None


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
            max_live_sessions: How many sessions of a text engine are kept; those that were idle
                longest make room, and read their conversation again when it goes on. Turns that
                run at the same time have one each. None keeps them all.

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
        history: Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> Conversation:
        """Begin a conversation.

        Args:
            config: Its settings; None takes the engine's defaults.
            history: What was said before: messages; or where it is kept: a thread of a memory.
            **settings: Single settings, which go before `config`; see `ConversationConfig`.
                `system_prompt` is the first message of the preface.

        Raises:
            ConfigError: If a setting is unknown, or does not fit the model.
            ConversationError: If the engine is closed.
            ChatTemplateError: If the template is not valid.
        """
        return Conversation(self, config, history=history, **settings)

    async def acreate_conversation(
        self,
        config: ConversationConfig | None = None,
        *,
        history: Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> Conversation:
        """Begin a conversation; see `create_conversation`."""
        create = partial(self.create_conversation, config, history=history, **settings)
        return await run_in_thread(create)

    def open(
        self,
        config: ConversationConfig | None,
        history: Sequence[Any] | ThreadMemory | None,
        settings: dict[str, Any],
    ) -> TurnRunner:
        """Return what a conversation is made of; see `create_conversation`."""
        self.turns.check_open()
        chosen = _apply_settings(config or self.defaults, settings)
        tools = ToolSet(chosen.preface.tools)
        backend = self._create_backend(chosen, tools)
        turns = ActiveTurns("the conversation", self.turns)
        return TurnRunner(_open_thread(history), backend, chosen, tools, turns)

    def _create_backend(self, config: ConversationConfig, tools: ToolSet) -> Backend:
        if self._pool is None:
            _refuse_settings(config, _TEXT_SETTINGS, _NOT_FOR_CHAT_MODELS)
            # Refuses tools that the model does not take, before anything is said.
            bind_tools(self.model, tools)  # type: ignore[arg-type]  # checked at creation
            return ChatModelBackend(self.model)  # type: ignore[arg-type]
        _refuse_settings(config, ("context_kwargs",), "is for chat models; templates read contexts")
        engine = self._pool.engine
        template = _find_template(config, engine)
        if tools.schemas and "tools" not in template.variables:
            msg = f"{template!r} shows no tools to the model; take a template that reads `tools`"
            raise ConfigError(msg)
        wanted = config.reply_format or engine.reply_format
        told = find_reply_format(template)
        found = told if wanted is None else get_reply_format(wanted)
        stop = tuple(dict.fromkeys((*engine.stop, *told.stop, *found.stop)))
        state = TextState(template.start(tools=tools.schemas or None))
        return TextBackend(self._pool, template, reply_format=found, stop=stop, state=state)

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
    settings = _read_preface(config, settings)
    unknown = sorted(set(settings) - set(ConversationConfig.model_fields))
    if unknown:
        known = sorted([*ConversationConfig.model_fields, "system_prompt"])
        way = suggest_name(unknown[0], known)
        if "system" in unknown[0]:
            way = "; what the model is told first is system_prompt='...'"
        raise ConfigError(f"there is no setting {unknown[0]!r}; there are {', '.join(known)}{way}")
    if not settings:
        return config
    given = {name: getattr(config, name) for name in config.model_fields_set}
    return ConversationConfig(**{**given, **settings})


def _read_preface(config: ConversationConfig, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with what `system_prompt` says as the first message of the preface."""
    preface = settings.get("preface", config.preface)
    if not isinstance(preface, Preface | Mapping):
        way = "for what the model is told first, pass system_prompt='...'"
        raise ConfigError(f"preface must be a Preface, got {describe_value(preface)}; {way}")
    given = {name: value for name, value in settings.items() if name != "system_prompt"}
    said = settings.get("system_prompt")
    if said is None:
        return given
    if not isinstance(said, str):
        raise ConfigError(f"system_prompt must be text, got {describe_value(said)}")
    preface = Preface.model_validate(preface)
    messages = (SystemMessage(said), *preface.messages)
    return {**given, "preface": preface.model_copy(update={"messages": messages})}


def _open_thread(history: Sequence[Any] | ThreadMemory | None) -> ThreadMemory:
    if isinstance(history, ThreadMemory):
        return history
    if isinstance(history, str) or not isinstance(history, Sequence | None):
        way = "pass a list, such as history.messages, or keep it in a ConversationMemory"
        raise ConfigError(f"history is {describe_value(history)}; {way}")
    return ListThread(coerce_messages(list(history or ())))


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


def _limit_concurrency(
    config: RunnableConfig | list[RunnableConfig] | None, count: int
) -> list[RunnableConfig]:
    return [{**one, "max_concurrency": 1} for one in get_config_list(config, count)]
