"""Models behind an OpenAI-compatible `/v1/completions`: vLLM, llama.cpp, and many others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_convmem.errors import BudgetError, ConversationError, MissingExtraError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.replies import StopTexts
from langchain_convmem.text.sessions import MOST_STOPS, KeptEngine, KeptSession, Part

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_TOO_LONG = re.compile(r"context[ _-]?(length|size|window)|maximum context", re.IGNORECASE)
_TOO_LONG_STATUSES = (400, 413)


class CompletionsEngine(KeptEngine):
    """A model behind an OpenAI-compatible text completion API, as a `TextEngine`.

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
        super().__init__(template, reply_format, stop, max_tokens, options)
        self._openai = _import_openai()
        self.model = model
        self._settings = {"base_url": base_url, "api_key": api_key}
        self._owns_client = client is None
        self.client: OpenAI = client or self._openai.OpenAI(**self._settings)
        self._async_client: AsyncOpenAI | None = None

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
        super().close()
        if self._owns_client:
            self.client.close()

    async def aclose(self) -> None:
        """Close the clients that were made here."""
        self.close()
        if self._async_client is not None:
            await self._async_client.close()

    # -- for its sessions ---------------------------------------------------------------------

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

    @property
    def text(self) -> str:
        """All that it holds."""
        return "".join(self._items)

    # -- reading and writing ------------------------------------------------------------------

    def prefill(self, parts: Sequence[Part]) -> None:
        """Add text to what the next decode sends.

        Raises:
            ConfigError: If there are media: the API reads text only.
        """
        self._items += self.list_texts(parts)

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
        stops = StopTexts(stop)
        with (
            self.engine.translate_errors(),
            self.engine.client.completions.create(**request) as events,
        ):
            for event in events:
                yield from self._take(event, stops)
                if stops.found:
                    break
        yield from self._end(stops)

    async def adecode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """Send the text, and yield what the model writes; see `decode`."""
        request = self._build_request(stop, max_tokens, options)
        stops = StopTexts(stop)
        with self.engine.translate_errors():
            async with await self.engine.async_client.completions.create(**request) as events:
                async for event in events:
                    for piece in self._take(event, stops):
                        yield piece
                    if stops.found:
                        break
        for piece in self._end(stops):
            yield piece

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
            **({"stop": stops[:MOST_STOPS]} if stops else {}),
            # The client takes only what OpenAI's own service knows; others know more.
            "extra_body": {**self.engine.options, **options},
        }

    def _take(self, event: Any, stops: StopTexts) -> Iterator[str]:
        """Yield what can be passed on of what the service streams."""
        for choice in event.choices[:1]:
            if choice.finish_reason is not None:
                self.finish_reason = "length" if choice.finish_reason == "length" else "stop"
                # vLLM's word for the stop text that it met; a number is the model's own end.
                told = getattr(choice, "stop_reason", None)
                self.stop_text = told if isinstance(told, str) else ""
            yield from self._keep(stops.feed(choice.text or ""))

    def _end(self, stops: StopTexts) -> Iterator[str]:
        """Yield what was held back, and note why the reply ended.

        Raises:
            ConversationError: If the service did not say why it ended.
        """
        yield from self._keep(stops.finish())
        if stops.found:
            self.finish_reason, self.stop_text = "stop", stops.found
        if self.finish_reason is None:
            raise ConversationError("the reply ended without a finish reason; it may not be whole")

    def _keep(self, piece: str) -> Iterator[str]:
        """Yield a piece of the reply, which the session then holds."""
        if piece:
            self._items.append(piece)
            yield piece


def _import_openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError.build("CompletionsEngine", "openai") from error
    return openai


def is_too_long(error: Any) -> bool:
    """Return whether an error of the client says that the prompt is too long for the model."""
    if getattr(error, "status_code", None) not in _TOO_LONG_STATUSES:
        return False
    return any(_TOO_LONG.search(str(told)) for told in (error.code, error.type, error.message))
