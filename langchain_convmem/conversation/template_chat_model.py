"""`TemplateChatModel`: a model that reads text, as a chat model of LangChain."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    message_chunk_to_message,
)
from langchain_core.messages.ai import UsageMetadata, add_ai_message_chunks
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, field_validator

from langchain_convmem.chat_templates import ChatTemplate
from langchain_convmem.conversation.replies import (
    ReplyFormat,
    ReplyReader,
    format_of,
    reply_format,
)
from langchain_convmem.conversation.stop_texts import StopTexts
from langchain_convmem.conversation.text_models import TextModel, Written
from langchain_convmem.conversation.tool_choice import ToolChoice
from langchain_convmem.errors import UnsupportedError
from langchain_convmem.views.tokens import count_text_tokens

__all__ = ["TemplateChatModel"]

_MOST_STOPS = 4
"""Many services take no more; the text is cut here in any case."""
_MEDIA = {"audio", "file", "image", "video"}


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the model, ready to be made."""

    prompt: str
    forced: str
    stop: tuple[str, ...]
    options: Mapping[str, Any]
    has_tools: bool

    @property
    def text(self) -> str:
        """What the model goes on from."""
        return self.prompt + self.forced

    @property
    def sent_stop(self) -> list[str]:
        """The stop texts that the model is told."""
        return list(self.stop[:_MOST_STOPS])


class TemplateChatModel(BaseChatModel):
    """Any completion model as a chat model, by the model's own chat template.

    Messages and tools are written down as the template says, the reply is read by its format: text,
    reasoning, tool calls. It keeps nothing between calls. `bind` and call options that the template
    reads (`template.variables`), such as `enable_thinking`, go to the template, others to the
    model. Safe to use from several threads if the model is.

    Where the model does not tell how many tokens there were, `usage_metadata` is an estimate.

    Example:
        ```python
        llm = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none", model="my-model")
        model = TemplateChatModel(llm=llm, template="qwen")
        model.bind_tools([look_up]).invoke("Where did I park?", enable_thinking=False)
        ```
    """

    llm: Any
    """A `BaseLLM`, or another Runnable that takes text and returns text."""

    template: ChatTemplate
    """How conversations are written for the model; or the name of a built-in."""

    reply_format: str | ReplyFormat | None = None
    """How its replies are written; None: as the template tells."""

    stop: list[str] = Field(default_factory=list)
    """Texts that end a reply, besides those of the reply format and of a call."""

    _model: TextModel = PrivateAttr()
    _format: ReplyFormat = PrivateAttr()

    @field_validator("template", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return ChatTemplate.builtin(value) if isinstance(value, str) else value

    def model_post_init(self, context: Any, /) -> None:
        """Choose the reply format.

        Raises:
            ConfigError: If there is no such format, or `llm` reads no text.
        """
        super().model_post_init(context)
        found = format_of(self.template)
        self._model = TextModel(self.llm)
        self._format = found if self.reply_format is None else reply_format(self.reply_format)
        if not self._format.stop:
            self._format = replace(self._format, stop=found.stop)

    # -- what it is ---------------------------------------------------------------------------

    @property
    def _llm_type(self) -> str:
        return "convmem-template"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        source = self.template.source + repr(sorted(self.template.special_tokens.items()))
        return {
            "model_name": self._model.name,
            "llm": self._model.identity,
            "template": self.template.name,
            "template_hash": hashlib.sha256(source.encode()).hexdigest(),
            "reply_format": self._format.name,
            "stop": self.stop,
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = LangSmithParams(
            ls_provider="convmem-template",
            ls_model_name=str(kwargs.get("model", self._model.name)),
            ls_model_type="chat",
        )
        if stop or self.stop:
            params["ls_stop"] = [*(stop or ()), *self.stop]
        for name in ("temperature", "max_tokens"):
            value = kwargs.get(name, getattr(self.llm, name, None))
            if isinstance(value, int | float):
                params[f"ls_{name}"] = value  # type: ignore[literal-required]
        return params

    def get_num_tokens(self, text: str) -> int:
        """Return the approximate size of a text in tokens."""
        return count_text_tokens(text)

    def get_num_tokens_from_messages(
        self,
        messages: list[BaseMessage],
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool] | None = None,
    ) -> int:
        """Return the approximate size in tokens of what the model reads for `messages`."""
        return count_text_tokens(self.template.render(messages, tools=tools))

    # -- tools --------------------------------------------------------------------------------

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: dict[str, Any] | str | bool | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with tools that it may call.

        Args:
            tools: Maps, functions, `BaseTool` or pydantic classes.
            tool_choice: None or "auto": the model chooses. "none": no tools. "any", "required" or
                True: the reply is made to begin with a call. The name of a tool, or a map that
                names one: the same, and no other tool is shown.
            strict: Passed on in the schemas; nothing makes the model keep to them.
            **kwargs: Bound as well.

        Raises:
            UnsupportedError: If the template shows no tools, or nothing in the format of its
                replies makes a call certain.
            ConfigError: If there is no such tool.
        """
        if tools and "tools" not in self.template.variables:
            raise UnsupportedError(f"{self.template.name} shows no tools; use another template")
        schemas = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        choice = ToolChoice.of(tool_choice, schemas, self._format, self.template)
        return self.bind(tools=choice.shown, tool_choice=choice.value, **kwargs)

    # -- calls --------------------------------------------------------------------------------

    def _prepared(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, kwargs: dict[str, Any]
    ) -> _Call:
        """Return the call to make, or raise before anything is sent."""
        _refuse_media(messages)
        variables = {name: value for name, value in kwargs.items() if self._is_variable(name)}
        options = {name: value for name, value in kwargs.items() if name not in variables}
        tools = variables.pop("tools", None) or options.pop("tools", None) or ()
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        choice = ToolChoice.of(
            options.pop("tool_choice", None), schemas, self._format, self.template
        )
        prompt = self.template.render(messages, tools=choice.shown or None, **variables)
        return _Call(
            prompt,
            choice.forced(prompt),
            tuple(dict.fromkeys([*(stop or ()), *self.stop, *self._format.stop])),
            options,
            bool(choice.shown),
        )

    def _is_variable(self, name: str) -> bool:
        return name in self.template.variables and name not in {
            "add_generation_prompt",
            "messages",
            "tool_choice",
        }

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's hook
        **kwargs: Any,
    ) -> ChatResult:
        call = self._prepared(messages, stop, kwargs)
        written = self._model.write(call.text, call.sent_stop, call.options)
        return self._result(call, written)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's hook
        **kwargs: Any,
    ) -> ChatResult:
        call = await run_in_executor(None, self._prepared, messages, stop, kwargs)
        written = await self._model.awrite(call.text, call.sent_stop, call.options)
        return self._result(call, written)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call = self._prepared(messages, stop, kwargs)
        reply = self._reply(call)
        with closing(self._model.stream(call.text, call.sent_stop, call.options)) as pieces:
            for chunk in reply.chunks(pieces):
                if run_manager is not None:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        call = await run_in_executor(None, self._prepared, messages, stop, kwargs)
        reply = self._reply(call)
        async with aclosing(self._model.astream(call.text, call.sent_stop, call.options)) as pieces:
            async for chunk in reply.achunks(pieces):
                if run_manager is not None:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _reply(self, call: _Call) -> _Reply:
        return _Reply(call, self._format, self._model.name)

    def _result(self, call: _Call, written: Sequence[Written]) -> ChatResult:
        made = [self._reply(call).generation(one) for one in written]
        return ChatResult(generations=made, llm_output={"model_name": self._model.name})


class _Reply:
    """One reply, from the model's text to chunks of a message."""

    def __init__(self, call: _Call, form: ReplyFormat, model_name: str) -> None:
        self._call = call
        self._model_name = model_name
        self._stops = StopTexts(call.stop)
        self._reader = ReplyReader(form, prompt_end=call.prompt, tools=call.has_tools)
        self._finish_reason: str | None = None
        self._usage: Mapping[str, int] = {}

    def chunks(self, pieces: Iterator[Written]) -> Iterator[ChatGenerationChunk]:
        """Yield the chunks of a reply that comes in pieces, as far as a stop text."""
        yield from self._fed(self._call.forced)
        for piece in pieces:
            yield from self._taken(piece)
            if self._stops.found:
                break
        yield from self._ended()

    async def achunks(self, pieces: AsyncIterator[Written]) -> AsyncIterator[ChatGenerationChunk]:
        """Yield the chunks of a reply; see `chunks`."""
        for chunk in self._fed(self._call.forced):
            yield chunk
        async for piece in pieces:
            for chunk in self._taken(piece):
                yield chunk
            if self._stops.found:
                break
        for chunk in self._ended():
            yield chunk

    def generation(self, written: Written) -> ChatGeneration:
        """Return a reply that came at once: what its chunks add up to."""
        self._usage = written.usage
        chunks = [chunk.message for chunk in self.chunks(iter([written]))]
        parts = [chunk for chunk in chunks if isinstance(chunk, AIMessageChunk)]
        message = message_chunk_to_message(add_ai_message_chunks(parts[0], *parts[1:]))
        return ChatGeneration(
            message=message,
            generation_info={"finish_reason": message.response_metadata["finish_reason"]},
        )

    def _taken(self, piece: Written) -> Iterator[ChatGenerationChunk]:
        self._finish_reason = piece.finish_reason or self._finish_reason
        yield from self._fed(self._stops.feed(piece.text))

    def _fed(self, text: str) -> Iterator[ChatGenerationChunk]:
        for chunk in self._reader.feed(text) if text else ():
            yield ChatGenerationChunk(message=chunk)

    def _ended(self) -> Iterator[ChatGenerationChunk]:
        yield from self._fed(self._stops.rest())
        reason = "stop" if self._stops.found else self._finish_reason or "stop"
        *before, last = self._reader.finish(finish_reason=reason)
        for chunk in before:
            yield ChatGenerationChunk(message=chunk)
        raw: str = last.response_metadata["raw_text"]
        last.usage_metadata = self._told_usage(raw.removeprefix(self._call.forced))
        last.response_metadata["model_name"] = self._model_name
        yield ChatGenerationChunk(message=last, generation_info={"finish_reason": reason})

    def _told_usage(self, text: str) -> UsageMetadata:
        told = self._usage
        read, wrote = told.get("prompt_tokens"), told.get("completion_tokens")
        read = count_text_tokens(self._call.text) if read is None else read
        wrote = count_text_tokens(text) if wrote is None else wrote
        return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)


def _refuse_media(messages: Sequence[BaseMessage]) -> None:
    """Raise if there is anything that the model could not see."""
    for number, message in enumerate(messages):
        if isinstance(message.content, str):
            continue
        found = sorted({block["type"] for block in message.content_blocks} & _MEDIA)
        if found:
            raise UnsupportedError(
                f"message {number} has {', '.join(found)}; a model that reads text sees none of it"
            )
