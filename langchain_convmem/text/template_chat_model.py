"""`TemplateChatModel`: a model that reads text, as a chat model of LangChain."""

from __future__ import annotations

import hashlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import (
    BaseChatModel,
    BaseLLM,
    LangSmithParams,
    LanguageModelInput,
)
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata, add_ai_message_chunks
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
)
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, field_validator

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.call_syntaxes import BARE_JSON, BARE_PYTHON
from langchain_convmem.text.replies import ReplyReader, StopTexts
from langchain_convmem.text.reply_formats import ReplyFormat, find_reply_format, get_reply_format
from langchain_convmem.views.tokens import count_text_tokens

_MOST_STOPS = 4
"""Many services take no more; the text is cut here in any case."""

_MEDIA = {"audio", "file", "image", "video"}


@dataclass(frozen=True, slots=True)
class _PreparedCall:
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
    def sent_stop(self) -> list[str] | None:
        """The stop texts that the model is sent."""
        return list(self.stop[:_MOST_STOPS]) or None


class TemplateChatModel(BaseChatModel):
    """Any completion model as a chat model, by the model's own chat template.

    Messages and tools are written down as the template says, the reply is read by its format: text,
    reasoning, tool calls. It keeps nothing between calls. `bind` and call options that the template
    reads (`template.variables`), such as `enable_thinking`, go to the template, others to the
    model. Safe to use from several threads if the model is.

    Where the model does not report its tokens, `usage_metadata` is an estimate.

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
    """How its replies are written; None: as the template asks for."""

    stop: list[str] = Field(default_factory=list)
    """Texts that end a reply, besides those of the reply format and of a call."""

    _inner: BaseLLM = PrivateAttr()
    _name: str = PrivateAttr()
    _format: ReplyFormat = PrivateAttr()

    @field_validator("template", mode="before")
    @classmethod
    def _load_template(cls, value: Any) -> Any:
        return ChatTemplate.from_builtin(value) if isinstance(value, str) else value

    def model_post_init(self, context: Any, /) -> None:
        """Choose the reply format.

        Raises:
            ConfigError: If there is no such format, or `llm` reads no text.
        """
        super().model_post_init(context)
        found = find_reply_format(self.template)
        self._inner, self._name = _to_llm(self.llm), _find_name(self.llm)
        self._format = found if self.reply_format is None else get_reply_format(self.reply_format)
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
            "model_name": self._name,
            "llm": {"llm_type": self._inner._llm_type, **self._inner._identifying_params},  # noqa: SLF001 - LangChain's hooks
            "template": self.template.name,
            "template_hash": hashlib.sha256(source.encode()).hexdigest(),
            "reply_format": self._format.name,
            "stop": self.stop,
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = LangSmithParams(
            ls_provider="convmem-template",
            ls_model_name=str(kwargs.get("model", self._name)),
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
            ConfigError: If the template shows no tools, or nothing in the format of its
                replies makes a call certain.
            ConfigError: If there is no such tool.
        """
        if tools and "tools" not in self.template.variables:
            raise ConfigError(f"{self.template.name} shows no tools; use another template")
        schemas = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        choice = ToolChoice.parse(tool_choice, schemas, self._format, self.template)
        return self.bind(tools=choice.shown, tool_choice=choice.value, **kwargs)

    # -- calls --------------------------------------------------------------------------------

    def _prepare_call(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, kwargs: dict[str, Any]
    ) -> _PreparedCall:
        """Return the call to make, or raise before anything is sent."""
        _refuse_media(messages)
        if "response_format" in kwargs and isinstance(self._inner, _RunnableLLM):
            raise ConfigError(
                f"{self._name} takes no response_format; use with_structured_output, or a BaseLLM "
                "whose service takes it"
            )
        variables = {name: value for name, value in kwargs.items() if self._is_variable(name)}
        options = {name: value for name, value in kwargs.items() if name not in variables}
        tools = variables.pop("tools", None) or options.pop("tools", None) or ()
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        choice = ToolChoice.parse(
            options.pop("tool_choice", None), schemas, self._format, self.template
        )
        prompt = self.template.render(messages, tools=choice.shown or None, **variables)
        return _PreparedCall(
            prompt,
            choice.write_start(prompt),
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
        call = self._prepare_call(messages, stop, kwargs)
        # The public methods would report each call a second time.
        written = self._inner._generate([call.text], call.sent_stop, **call.options)  # noqa: SLF001
        return self._build_result(call, written)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's hook
        **kwargs: Any,
    ) -> ChatResult:
        call = await hop(partial(self._prepare_call, messages, stop, kwargs))
        written = await self._inner._agenerate([call.text], call.sent_stop, **call.options)  # noqa: SLF001
        return self._build_result(call, written)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call = self._prepare_call(messages, stop, kwargs)
        reply = self._start_reply(call)
        with closing(self._open_stream(call)) as pieces:
            for chunk in reply.stream_chunks(pieces):
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
        call = await hop(partial(self._prepare_call, messages, stop, kwargs))
        reply = self._start_reply(call)
        async with aclosing(self._open_async_stream(call)) as pieces:
            async for chunk in reply.astream_chunks(pieces):
                if run_manager is not None:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _open_stream(self, call: _PreparedCall) -> Generator[Generation]:
        """Yield what is new; the whole reply if the model does not stream."""
        if type(self._inner)._stream is BaseLLM._stream:  # noqa: SLF001
            written = self._inner._generate([call.text], call.sent_stop, **call.options)  # noqa: SLF001
            yield written.generations[0][0]
            return
        chunks: Any = self._inner._stream(call.text, call.sent_stop, **call.options)  # noqa: SLF001
        with closing(chunks):
            yield from chunks

    async def _open_async_stream(self, call: _PreparedCall) -> AsyncGenerator[Generation]:
        """Yield what is new; see `_open_stream`."""
        kind = type(self._inner)
        if kind._astream is BaseLLM._astream and kind._stream is BaseLLM._stream:  # noqa: SLF001
            written = await self._inner._agenerate([call.text], call.sent_stop, **call.options)  # noqa: SLF001
            yield written.generations[0][0]
            return
        chunks: Any = self._inner._astream(call.text, call.sent_stop, **call.options)  # noqa: SLF001
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    def _start_reply(
        self, call: _PreparedCall, usage: Mapping[str, int] | None = None
    ) -> _TemplateReply:
        return _TemplateReply(call, self._format, self._name, usage or {})

    def _build_result(self, call: _PreparedCall, written: LLMResult) -> ChatResult:
        told = (written.llm_output or {}).get("token_usage")
        replies = written.generations[0]
        usage = told if len(replies) == 1 and isinstance(told, Mapping) else {}
        made = [self._start_reply(call, usage).build_generation(one) for one in replies]
        return ChatResult(generations=made, llm_output={"model_name": self._name})


class _TemplateReply:
    """One reply, from the model's text to chunks of a message."""

    def __init__(
        self, call: _PreparedCall, form: ReplyFormat, model_name: str, usage: Mapping[str, int]
    ) -> None:
        self._call = call
        self._model_name = model_name
        self._stops = StopTexts(call.stop)
        self._reader = ReplyReader(form, prompt_end=call.prompt, tools=call.has_tools)
        self._finish_reason: str | None = None
        self._usage = usage

    def stream_chunks(self, pieces: Iterator[Generation]) -> Iterator[ChatGenerationChunk]:
        """Yield the chunks of a reply that comes in pieces, as far as a stop text."""
        yield from self._feed(self._call.forced)
        for piece in pieces:
            yield from self._take(piece)
            if self._stops.found:
                break
        yield from self._end()

    async def astream_chunks(
        self, pieces: AsyncIterator[Generation]
    ) -> AsyncIterator[ChatGenerationChunk]:
        """Yield the chunks of a reply; see `stream_chunks`."""
        for chunk in self._feed(self._call.forced):
            yield chunk
        async for piece in pieces:
            for chunk in self._take(piece):
                yield chunk
            if self._stops.found:
                break
        for chunk in self._end():
            yield chunk

    def build_generation(self, written: Generation) -> ChatGeneration:
        """Return a reply that came at once: what its chunks add up to."""
        chunks = [chunk.message for chunk in self.stream_chunks(iter([written]))]
        parts = [chunk for chunk in chunks if isinstance(chunk, AIMessageChunk)]
        message = message_chunk_to_message(add_ai_message_chunks(parts[0], *parts[1:]))
        return ChatGeneration(
            message=message,
            generation_info={"finish_reason": message.response_metadata["finish_reason"]},
        )

    def _take(self, piece: Generation) -> Iterator[ChatGenerationChunk]:
        reason = (piece.generation_info or {}).get("finish_reason")
        self._finish_reason = self._finish_reason if reason is None else str(reason)
        yield from self._feed(self._stops.feed(piece.text))

    def _feed(self, text: str) -> Iterator[ChatGenerationChunk]:
        for chunk in self._reader.feed(text) if text else ():
            yield ChatGenerationChunk(message=chunk)

    def _end(self) -> Iterator[ChatGenerationChunk]:
        yield from self._feed(self._stops.finish())
        reason = "stop" if self._stops.found else self._finish_reason or "stop"
        *before, last = self._reader.finish(finish_reason=reason)
        for chunk in before:
            yield ChatGenerationChunk(message=chunk)
        raw: str = last.response_metadata["raw_text"]
        last.usage_metadata = self._count_usage(raw.removeprefix(self._call.forced))
        last.response_metadata["model_name"] = self._model_name
        yield ChatGenerationChunk(message=last, generation_info={"finish_reason": reason})

    def _count_usage(self, text: str) -> UsageMetadata:
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
            raise ConfigError(
                f"message {number} has {', '.join(found)}; a model that reads text sees none of it"
            )


# -- Models that read text ------------------------------------------------------------------------


class _RunnableLLM(BaseLLM):
    """A Runnable from text to text as a completion model; it may take no options, and gets none."""

    runnable: Any

    @property
    def _llm_type(self) -> str:
        return type(self.runnable).__name__

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"llm": repr(self.runnable)}

    def _generate(self, prompts: list[str], *_: Any, **__: Any) -> LLMResult:
        texts = [_check_text(self.runnable.invoke(prompt)) for prompt in prompts]
        return LLMResult(generations=[[Generation(text=text)] for text in texts])

    async def _agenerate(self, prompts: list[str], *_: Any, **__: Any) -> LLMResult:
        texts = [_check_text(await self.runnable.ainvoke(prompt)) for prompt in prompts]
        return LLMResult(generations=[[Generation(text=text)] for text in texts])

    def _stream(self, prompt: str, *_: Any, **__: Any) -> Iterator[GenerationChunk]:
        for piece in self.runnable.stream(prompt):
            yield GenerationChunk(text=_check_text(piece))

    async def _astream(self, prompt: str, *_: Any, **__: Any) -> AsyncIterator[GenerationChunk]:
        async for piece in self.runnable.astream(prompt):
            yield GenerationChunk(text=_check_text(piece))


def _check_text(piece: object) -> str:
    if not isinstance(piece, str):
        raise ConfigError(f"the model returned a {type(piece).__name__}; it must return text")
    return piece


def _to_llm(model: Any) -> BaseLLM:
    """Return a completion model.

    Raises:
        ConfigError: If it is not a Runnable, or reads messages.
    """
    if isinstance(model, BaseChatModel):
        raise ConfigError(
            f"{type(model).__name__} reads messages and has a template of its own; use it as "
            "it is, or pass a model that reads text"
        )
    if not isinstance(model, Runnable):
        raise ConfigError(f"llm is a {type(model).__name__}; pass a BaseLLM or another Runnable")
    return model if isinstance(model, BaseLLM) else _RunnableLLM(runnable=model)


def _find_name(model: Any) -> str:
    """Return what a model is called."""
    told = (getattr(model, name, None) for name in ("model_name", "model", "model_id", "name"))
    named = (value for value in told if isinstance(value, str) and value)
    return next(named, type(model).__name__)


# -- What a caller demands of the model's choice of tools, as far as text can make it so ----------


_FREE = (None, False, "auto")
_ANY = (True, "any", "required")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A choice that is made before the model writes.

    Attributes:
        value: As it was given.
        shown: The tools that the model gets to see.
        start: What its reply is made to begin with; empty if it is free.
        closings: What opens a channel, and what closes it.
    """

    value: Any
    shown: list[dict[str, Any]]
    start: str
    closings: tuple[tuple[str, str], ...]

    @classmethod
    def parse(
        cls,
        value: Any,
        tools: Sequence[dict[str, Any]],
        form: ReplyFormat,
        template: ChatTemplate,
    ) -> Self:
        """Read a choice.

        Args:
            value: See `TemplateChatModel.bind_tools`.
            tools: Schemas in OpenAI's form.
            form: How calls are written.
            template: What asks for them.

        Raises:
            ConfigError: If there is no such tool, or none at all where one is demanded.
            ConfigError: If nothing in the format makes a call certain.
        """
        closings = tuple((channel.start, channel.end) for channel in form.channels)
        if value == "none":
            return cls(value, [], "", closings)
        if value in _FREE:
            return cls(value, list(tools), "", closings)
        shown = list(tools) if value in _ANY else [_find_tool(value, tools)]
        if not shown:
            raise ConfigError(f"tool_choice {value!r} demands a call, and there are no tools")
        return cls(value, shown, _find_call_start(form, template), closings)

    def write_start(self, prompt: str) -> str:
        """Return what is put after the prompt: the beginning of a call, or nothing."""
        if not self.start:
            return ""
        # A call within a channel would be a thought.
        ended = prompt.rstrip()
        closing = next((end for start, end in self.closings if ended.endswith(start)), "")
        return f"{closing}\n\n{self.start}" if closing else self.start


def _find_tool(value: Any, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    name = value
    if isinstance(value, Mapping):
        name = value.get("function", value).get("name")
    known = {tool["function"]["name"]: tool for tool in tools}
    if name not in known:
        raise ConfigError(f"tool_choice {value!r} names none of the tools {sorted(known)}")
    return known[name]


def _find_call_start(form: ReplyFormat, template: ChatTemplate) -> str:
    if form.bare is BARE_JSON:
        return '{"name": "'
    # A block that opens in the header of a message comes too late once that has begun.
    starts = [block.start for block in form.call_blocks if not block.start.startswith("<|start|>")]
    if len(starts) == len(form.call_blocks):
        shown = [start for start in starts if start in template.source]
        found = shown or (["["] if form.bare is BARE_PYTHON else starts)
        if found:
            return found[0]
    raise ConfigError(
        f"nothing in replies of the format {form.name!r} makes a call certain; "
        "use tool_choice='auto', and check what came"
    )
