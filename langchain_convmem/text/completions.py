"""Models behind an OpenAI-compatible `/v1/completions`: vLLM, llama.cpp, and many others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_convmem.errors import BudgetError, ConversationError, MissingExtraError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.checkpoints import KeptSession, SessionCheckpoint
from langchain_convmem.text.replies import StopTexts

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from langchain_convmem.text.sessions import Part


_MOST_STOPS = 4
"""The API takes no more; at others the session cuts the text itself."""


class CompletionsEngine:
    """A model behind an OpenAI-compatible API for completions of text, as a `TextEngine`.

    The service keeps nothing between calls: a session sends its whole text with every decode, so
    going back, cloning and resetting cost nothing, and a service that caches beginnings of prompts
    reads only what is new. Needs the extra `openai`.

    What the client raises passes unchanged: `openai.APIError` and its kinds, such as
    `openai.RateLimitError`, and where a stream breaks, the error of its HTTP library. A prompt that
    is too long is a `BudgetError` instead.

    Thread-safe. The client for asynchronous calls belongs to the event loop that first uses it.

    Example:
        ```python
        engine = CompletionsEngine(
            "my-model", base_url="http://127.0.0.1:8000/v1", api_key="none", template="qwen"
        )
        session = engine.create_session()
        session.prefill(["Once upon a time"])
        print("".join(session.decode(max_tokens=20, temperature=0.0)))
        ```
    """

    takes_response_format = True
    """It goes to the service, as all options do."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: OpenAI | None = None,
        async_client: AsyncOpenAI | None = None,
        template: ChatTemplate | str | None = None,
        reply_format: str | None = None,
        stop: Sequence[str] = (),
        max_tokens: int = 1024,
        **options: Any,
    ) -> None:
        """Create the engine; nothing is sent.

        Args:
            model: Its name at the service.
            base_url: Where the service is, `/v1` included; by default what the client reads from
                the environment.
            api_key: The service's key; by default from the environment. One that asks for none
                takes any text.
            client: A client to use for synchronous calls instead of one made here; it stays open.
            async_client: The same for asynchronous calls.
            template: How conversations are written for the model, or the name of a built-in.
            reply_format: Name of the format of its replies.
            stop: Texts that end its replies.
            max_tokens: The most tokens to write when a decode names no number. The API's own
                default is 16.
            **options: What else to send with every decode, such as `temperature`.

        Raises:
            MissingExtraError: If the extra `openai` is not installed.
            ConfigError: If there is no built-in template of that name.
        """
        self._openai = _import_openai()
        self.model = model
        self.template = (
            ChatTemplate.from_builtin(template) if isinstance(template, str) else template
        )
        self.reply_format = reply_format
        self.stop = tuple(stop)
        self.max_tokens = max_tokens
        self.options = dict(options)
        self._settings = {"base_url": base_url, "api_key": api_key}
        self._given = client
        self._client = client or self._openai.OpenAI(**self._settings)
        self._given_async = async_client
        self._async_client = async_client
        self._is_closed = False

    # -- the protocol -------------------------------------------------------------------------

    def create_session(self) -> CompletionsSession:
        """Return a new, empty session; nothing is sent.

        Raises:
            ConversationError: If the engine is closed.
        """
        self.check_open()
        return CompletionsSession(self)

    def close(self) -> None:
        """Close the client that was made here; `aclose` closes the asynchronous one, too."""
        self._is_closed = True
        if self._given is None:
            self._client.close()

    async def aclose(self) -> None:
        """Close the clients that were made here."""
        self.close()
        if self._given_async is None and self._async_client is not None:
            await self._async_client.close()

    # -- for its sessions ---------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise `ConversationError` if the engine is closed."""
        if self._is_closed:
            raise ConversationError("the engine is closed; create another one")

    @property
    def client(self) -> OpenAI:
        """The client for synchronous calls."""
        return self._client

    @property
    def async_client(self) -> AsyncOpenAI:
        """The client for asynchronous calls; made when it is first needed."""
        if self._async_client is None:
            self._async_client = self._openai.AsyncOpenAI(**self._settings)
        return self._async_client

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise what the client raises, and `BudgetError` if the prompt is too long."""
        try:
            yield
        except self._openai.APIError as error:
            if is_too_long(error):
                raise BudgetError(f"the model {self.model!r} has no room: {error}") from error
            raise


class CompletionsSession(KeptSession):
    """A text that grows, and is sent whole.

    After an error, or a decode that was left early, it holds all that was yielded.
    """

    def __init__(
        self,
        engine: CompletionsEngine,
        pieces: Sequence[str] = (),
        known: Sequence[SessionCheckpoint] = (),
    ) -> None:
        """Created by its engine, or as a clone."""
        super().__init__(engine, known)
        self._pieces = list(pieces)

    @property
    def length(self) -> int:
        """Pieces that it holds."""
        return len(self._pieces)

    def cut(self, length: int) -> None:
        """Forget the pieces after the first `length`."""
        super().cut(length)
        del self._pieces[length:]

    @property
    def text(self) -> str:
        """All that it holds."""
        return "".join(self._pieces)

    # -- reading and writing ------------------------------------------------------------------

    def prefill(self, parts: Sequence[Part]) -> None:
        """Add text to what the next decode sends.

        Raises:
            ConfigError: If there are media: the API reads text only.
        """
        self._pieces += self.list_texts(parts)

    async def aprefill(self, parts: Sequence[Part]) -> None:
        """Add text to what the next decode sends; see `prefill`."""
        self.prefill(parts)

    def decode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> Iterator[str]:
        """Send the text, and yield what the model writes; leaving early ends the request.

        Args:
            stop: Texts that end the reply. More than four are looked for here alone, as the API
                takes no more.
            max_tokens: The most tokens to write; None is the engine's number.
            **options: Fields of the request, such as `temperature` or `top_k`.

        Raises:
            BudgetError: If the text is too long for the model.
            ConversationError: If the service ends its reply without saying that it is whole.
            openai.APIError: If the service fails, or does not take the request.
        """
        request = self._build_request(stop, max_tokens, options)
        reply = StreamedReply(stop)
        with (
            self.engine.translate_errors(),
            self.engine.client.completions.create(**request) as events,
        ):
            for event in events:
                yield from self._keep(reply.read(event))
                if reply.is_whole:
                    break
        yield from self._keep(reply.finish())
        self._end(reply)

    async def adecode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """Send the text, and yield what the model writes; see `decode`."""
        request = self._build_request(stop, max_tokens, options)
        reply = StreamedReply(stop)
        with self.engine.translate_errors():
            async with await self.engine.async_client.completions.create(**request) as events:
                async for event in events:
                    for piece in self._keep(reply.read(event)):
                        yield piece
                    if reply.is_whole:
                        break
        for piece in self._keep(reply.finish()):
            yield piece
        self._end(reply)

    def _build_request(
        self, stop: Sequence[str], max_tokens: int | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what to ask the client for."""
        self.check_open()
        self.finish_reason, self.stop_text = None, ""
        stops = [text for text in dict.fromkeys(stop) if text]
        return {
            "model": self.engine.model,
            "prompt": self.text,
            "stream": True,
            "max_tokens": self.engine.max_tokens if max_tokens is None else max_tokens,
            **({"stop": stops[:_MOST_STOPS]} if stops else {}),
            # The client takes only what OpenAI's own service knows; others know more.
            "extra_body": {**self.engine.options, **options},
        }

    def _keep(self, piece: str) -> Iterator[str]:
        """Yield a piece of the reply, which the session then holds."""
        if piece:
            self._pieces.append(piece)
            yield piece

    def _end(self, reply: StreamedReply) -> None:
        self.finish_reason, self.stop_text = reply.finish_reason, reply.stop_text

    def clone(self) -> Self:
        """Return a session that goes on from here by itself."""
        self.check_open()
        return type(self)(self.engine, self._pieces, self._known)


def _import_openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError.build("CompletionsEngine", "openai") from error
    return openai


# -- What a service for completions answers, and what that means to a session ---------------------


_TOO_LONG = re.compile(r"context[ _-]?(length|size|window)|maximum context", re.IGNORECASE)
_TOO_LONG_STATUSES = (400, 413)


class StreamedReply:
    """What a service streams, as far as it has come."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.finish_reason: Literal["stop", "length"] | None = None
        self._stops = StopTexts(stop)
        self._told = ""

    @property
    def is_whole(self) -> bool:
        """Whether nothing of what still comes is wanted."""
        return bool(self._stops.found)

    @property
    def stop_text(self) -> str:
        """The text that ended the reply, as far as that is known."""
        return self._stops.found or self._told

    def read(self, event: Any) -> str:
        """Return what can be passed on of an event."""
        for choice in event.choices:
            if choice.finish_reason is not None:
                self.finish_reason = "length" if choice.finish_reason == "length" else "stop"
                # vLLM's word for the stop text that it met; a number is the model's own end.
                told = getattr(choice, "stop_reason", None)
                self._told = told if isinstance(told, str) else ""
            return self._stops.feed(choice.text or "")
        return ""

    def finish(self) -> str:
        """Return what was held back.

        Raises:
            ConversationError: If the service did not say why it ended.
        """
        rest = self._stops.finish()
        if self._stops.found:
            self.finish_reason = "stop"
        if self.finish_reason is None:
            raise ConversationError(
                "the service ended its reply without a finish reason, so it may not be whole"
            )
        return rest


def is_too_long(error: Any) -> bool:
    """Return whether an error of the client says that the prompt is too long for the model."""
    if getattr(error, "status_code", None) not in _TOO_LONG_STATUSES:
        return False
    return any(_TOO_LONG.search(str(told)) for told in (error.code, error.type, error.message))
