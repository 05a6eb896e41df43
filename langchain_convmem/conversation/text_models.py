"""Calling models that read text and write text, in the one way that `TemplateChatModel` needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.outputs import Generation, LLMResult
from langchain_core.runnables import Runnable

from langchain_convmem.errors import ConfigError

__all__ = ["TextModel", "Written"]

_Options: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote: a whole reply, or what is new of one.

    Attributes:
        text: The text.
        finish_reason: Why it ended, if the model says.
        usage: Tokens by the names that the model gives them; empty if it does not say.
    """

    text: str
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)


class TextModel:
    """A `BaseLLM`, or another Runnable that takes text and returns text. Thread-safe if that is.

    The inner methods of a `BaseLLM` are called, as its callbacks would report each call a second
    time. Other Runnables get the text and nothing else, as they may take no options.
    """

    def __init__(self, model: Runnable[Any, Any]) -> None:
        """Wrap a model.

        Raises:
            ConfigError: If it is no Runnable, or reads messages.
        """
        if isinstance(model, BaseChatModel):
            raise ConfigError(
                f"{type(model).__name__} reads messages and has a template of its own; use it as "
                "it is, or pass a model that reads text"
            )
        if not isinstance(model, Runnable):
            raise ConfigError(
                f"llm is a {type(model).__name__}; pass a BaseLLM or another Runnable"
            )
        self._runnable = model
        self._llm = model if isinstance(model, BaseLLM) else None

    @property
    def name(self) -> str:
        """What the model is called."""
        for attribute in ("model_name", "model", "model_id", "name"):
            value = getattr(self._runnable, attribute, None)
            if isinstance(value, str) and value:
                return value
        return type(self._runnable).__name__

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it write as it does, as far as it is known."""
        if self._llm is None:
            return {"llm_type": type(self._runnable).__name__, "llm": repr(self._runnable)}
        return {"llm_type": self._llm._llm_type, **self._llm._identifying_params}  # noqa: SLF001 - LangChain's hooks

    # -- whole replies ------------------------------------------------------------------------

    def write(self, prompt: str, stop: list[str], options: _Options) -> list[Written]:
        """Return what the model writes; more than one only if the options ask for it."""
        if self._llm is None:
            return [Written(_text(self._runnable.invoke(prompt)))]
        return _replies(self._llm._generate([prompt], stop or None, **options))  # noqa: SLF001 - as above

    async def awrite(self, prompt: str, stop: list[str], options: _Options) -> list[Written]:
        """Return what the model writes; see `write`."""
        if self._llm is None:
            return [Written(_text(await self._runnable.ainvoke(prompt)))]
        return _replies(await self._llm._agenerate([prompt], stop or None, **options))  # noqa: SLF001 - as above

    # -- streams ------------------------------------------------------------------------------

    def stream(self, prompt: str, stop: list[str], options: _Options) -> Generator[Written]:
        """Yield what is new; the whole reply if the model does not stream."""
        if self._llm is None:
            for piece in self._runnable.stream(prompt):
                yield Written(_text(piece))
        elif type(self._llm)._stream is BaseLLM._stream:  # noqa: SLF001 - as above
            yield self.write(prompt, stop, options)[0]
        else:
            chunks: Any = self._llm._stream(prompt, stop or None, **options)  # noqa: SLF001 - as above
            with closing(chunks):
                for chunk in chunks:
                    yield _written(chunk)

    async def astream(
        self, prompt: str, stop: list[str], options: _Options
    ) -> AsyncGenerator[Written]:
        """Yield what is new; see `stream`."""
        if self._llm is None:
            async for piece in self._runnable.astream(prompt):
                yield Written(_text(piece))
        elif not _streams_asynchronously(type(self._llm)):
            yield (await self.awrite(prompt, stop, options))[0]
        else:
            chunks: Any = self._llm._astream(prompt, stop or None, **options)  # noqa: SLF001 - as above
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield _written(chunk)


def _streams_asynchronously(kind: type[BaseLLM]) -> bool:
    return kind._astream is not BaseLLM._astream or kind._stream is not BaseLLM._stream  # noqa: SLF001 - as above


def _text(piece: object) -> str:
    if not isinstance(piece, str):
        raise ConfigError(f"the model returned a {type(piece).__name__}; it must return text")
    return piece


def _written(generation: Generation) -> Written:
    info = generation.generation_info or {}
    reason = info.get("finish_reason")
    return Written(generation.text, None if reason is None else str(reason))


def _replies(result: LLMResult) -> list[Written]:
    usage = (result.llm_output or {}).get("token_usage") or {}
    replies = [_written(generation) for generation in result.generations[0]]
    if len(replies) == 1 and isinstance(usage, Mapping):
        return [Written(replies[0].text, replies[0].finish_reason, usage)]
    return replies
