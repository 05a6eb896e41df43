"""`Conversation`: what was said so far, and a model that goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_config_list

from langchain_convmem.conversation.config import ConversationConfig, SendOptions
from langchain_convmem.conversation.handles import (
    Listener,
    MessageCallback,
    MessageEvent,
    TurnHandle,
)
from langchain_convmem.conversation.inputs import ConversationInput
from langchain_convmem.conversation.threads import MessageStore
from langchain_convmem.conversation.turns_ahead import Sending, TurnsAhead, late
from langchain_convmem.conversation.turns_back import Parts
from langchain_convmem.conversation.worker_threads import in_thread, started
from langchain_convmem.errors import TurnTimeoutError
from langchain_convmem.protocols import TextEngine, ThreadMemory
from langchain_convmem.steps import arun, run
from langchain_convmem.streams import ClosingStreams

if TYPE_CHECKING:
    from langchain_convmem.conversation.engine import Engine

__all__ = ["Conversation"]


class Conversation(ClosingStreams, TurnsAhead, Runnable[Any, AIMessage]):
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
        from langchain_convmem.conversation.engine import Engine

        engine = model if isinstance(model, Engine) else Engine(model)
        self._take(engine.parts(config, history, settings))
        if self.config.prefill_preface:
            run(self.prefill_steps())

    def __repr__(self) -> str:
        return f"Conversation({type(self._backend).__name__}, {self._thread!r})"

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
        """Send a message and return the whole reply.

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
        sending = Sending(SendOptions.of(kwargs))
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
        sending = Sending(SendOptions.of(kwargs))
        return await self._acall_with_config(partial(self._asend, sending=sending), input, config)

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
                in order in another thread; what it raises takes the turn back.
            config: Callbacks, tags and metadata.
            **options: See `send_message`.

        Raises:
            ConversationBusyError: If this is called from within a turn of the conversation.
        """
        sending = Sending(SendOptions.of(options), is_streaming=True, is_told_inside=True)
        return self._start(sending, message, config, Listener(on_message))

    def _start(
        self,
        sending: Sending,
        message: ConversationInput,
        config: RunnableConfig | None,
        listener: Listener,
    ) -> TurnHandle:
        self._activity.check_open()
        sending.ticket = self._entered()

        def turn() -> AIMessage:
            try:
                for chunk in self.stream(message, config, sending=sending):
                    if chunk.chunk_position == "last" and sending.reply is not None:
                        listener.done(chunk, sending.reply)
                    else:
                        listener.message(chunk)
            except BaseException as error:
                listener.error(error)
                raise
            finally:
                self._leave(sending)
            return sending.reply  # type: ignore[return-value]  # the stream came to its end

        return TurnHandle(sending.control, started(turn))

    def _within(
        self,
        sending: Sending,
        message: ConversationInput,
        config: RunnableConfig | None,
        timeout_s: float,
    ) -> AIMessage:
        """Send, and come back in time even if the model does not."""
        handle = self._start(sending, message, config, Listener(None))
        try:
            return handle.result(timeout_s)
        except TimeoutError as error:
            sending.control.stop(late(timeout_s))
            raise error if isinstance(error, TurnTimeoutError) else late(timeout_s) from None
        except BaseException:
            handle.cancel()
            raise

    def batch(
        self,
        inputs: list[Any],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Send messages one after the other: each sees the replies before it."""
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
        chosen = _one_at_a_time(config, len(inputs))
        return await super().abatch(inputs, chosen, return_exceptions=return_exceptions, **kwargs)

    # -- the end ----------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Cancel the turns that run or wait; return whether there was one to cancel."""
        return self._activity.cancel() > 0

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs; return whether that came about within so many seconds."""
        return self._activity.wait(timeout_s)

    def clone(self) -> Conversation:
        """Return a conversation that holds the same, and goes on by itself.

        While a turn runs it holds what was said before. A history in a memory is forked to a new
        thread.
        """
        return self._cloned(run(self._thread.branch_steps()))

    async def aclone(self) -> Conversation:
        """Return a conversation that holds the same; see `clone`."""
        return self._cloned(await arun(self._thread.branch_steps()))

    def _cloned(self, thread: ThreadMemory) -> Conversation:
        self._activity.check_open()
        twin = object.__new__(Conversation)
        twin._take(
            Parts(
                thread,
                self._backend.branch(),
                self._config,
                self._tools,
                self._activity.sibling(),
            )
        )
        return twin

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the running turn, wait for it, and release the session. Idempotent.

        Args:
            timeout_s: Seconds to wait at most: a model or tool that does not come back is left.
        """
        if self._activity.close():
            # Called from within a turn, there is nothing to wait for but the caller.
            self._activity.wait(timeout_s, but=int(self._gate.is_mine))
            self._backend.close()

    async def aclose(self, timeout_s: float | None = 10.0) -> None:
        """Cancel the running turn, wait for it, and release the session; see `close`."""
        if self._activity.close():
            but = int(self._gate.is_mine)
            await in_thread(lambda: self._activity.wait(timeout_s, but=but))
            self._backend.close()


def _one_at_a_time(
    config: RunnableConfig | list[RunnableConfig] | None, count: int
) -> list[RunnableConfig]:
    return [{**one, "max_concurrency": 1} for one in get_config_list(config, count)]
