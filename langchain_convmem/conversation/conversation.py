"""`Conversation`: what was said so far, and a model that goes on with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, aclosing, closing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
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
from langchain_convmem.conversation.printing import html_table
from langchain_convmem.conversation.readers import Reader
from langchain_convmem.conversation.threads import MessageStore
from langchain_convmem.conversation.turns_ahead import Sending, TurnsAhead, late
from langchain_convmem.conversation.turns_back import Parts
from langchain_convmem.conversation.worker_threads import in_thread, started
from langchain_convmem.gates import hold
from langchain_convmem.protocols import TextEngine, ThreadMemory
from langchain_convmem.steps import Steps, arun, run
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
                hold(chosen.control.held)
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
                hold(chosen.control.held)
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
