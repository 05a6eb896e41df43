"""`TemplateChatModel`: a model that reads text, as a chat model of LangChain."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult, Generation, LLMResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, field_validator

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.replies import ReplyReader, StopTexts
from langchain_convmem.text.reply_formats import ReplyFormat, find_reply_format, get_reply_format
from langchain_convmem.text.sessions import MOST_STOPS, load_template, read_stops
from langchain_convmem.views.tokens import count_text_tokens

_MEDIA = {"audio", "file", "image", "video"}
_FREE = (None, False, "auto")
_ANY = (True, "any", "required")


@dataclass(frozen=True, slots=True)
class _PreparedCall:
    """One call of the model, ready to be made."""

    prompt: str
    forced: str
    stop: tuple[str, ...]
    options: Mapping[str, Any]
    has_tools: bool
    form: ReplyFormat
    model_name: str

    @property
    def text(self) -> str:
        """What the model goes on from."""
        return self.prompt + self.forced


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

    llm: BaseLLM
    """The completion model."""

    template: ChatTemplate
    """How conversations are written for the model; or the name of a built-in."""

    reply_format: str | ReplyFormat | None = None
    """How its replies are written; None: as the template asks for."""

    stop: list[str] = Field(default_factory=list)
    """Texts that end a reply, besides those of the reply format and of a call."""

    _format: ReplyFormat = PrivateAttr()

    @field_validator("template", mode="before")
    @classmethod
    def _load_template(cls, value: Any) -> Any:
        return load_template(value)

    def model_post_init(self, context: Any, /) -> None:
        """Choose the reply format.

        Raises:
            ConfigError: If there is no such format.
        """
        super().model_post_init(context)
        found = find_reply_format(self.template)
        self._format = found if self.reply_format is None else get_reply_format(self.reply_format)
        if not self._format.stop:
            self._format = replace(self._format, stop=found.stop)

    # -- what it is ---------------------------------------------------------------------------

    @property
    def _llm_type(self) -> str:
        return "convmem-template"

    @property
    def model_name(self) -> str:
        """What the model is called; traces name it so."""
        names = ("model_name", "model", "model_id", "name")
        told = (getattr(self.llm, name, None) for name in names)
        return next((one for one in told if isinstance(one, str) and one), type(self.llm).__name__)

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        source = self.template.source + repr(sorted(self.template.special_tokens.items()))
        return {
            "llm": [self.model_name, self.llm._llm_type, dict(self.llm._identifying_params)],  # noqa: SLF001 - LangChain's hooks
            "template": [self.template.name, hashlib.sha256(source.encode()).hexdigest()],
            "reply_format": self._format.name,
            "stop": self.stop,
        }

    def get_num_tokens(self, text: str) -> int:
        """Return the approximate size of a text in tokens."""
        return count_text_tokens(text)

    def get_num_tokens_from_messages(
        self, messages: list[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Return the approximate size in tokens of what the model reads for `messages`."""
        return count_text_tokens(self.template.render(messages, tools=tools))

    # -- tools --------------------------------------------------------------------------------

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: dict[str, Any] | str | bool | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
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
        shown, _ = self._choose_tools(tool_choice, schemas)
        return self.bind(tools=shown, tool_choice=tool_choice, **kwargs)

    def _choose_tools(
        self, choice: Any, tools: Sequence[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the tools that the model sees, and what its reply is made to begin with."""
        if choice == "none":
            return [], ""
        if choice in _FREE:
            return list(tools), ""
        shown = list(tools) if choice in _ANY else [_find_tool(choice, tools)]
        if not shown:
            raise ConfigError(f"tool_choice {choice!r} demands a call, and there are no tools")
        return shown, _find_call_start(self._format, self.template)

    # -- calls --------------------------------------------------------------------------------

    def _prepare_call(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, kwargs: dict[str, Any]
    ) -> _PreparedCall:
        """Return the call to make, or raise before anything is sent."""
        _refuse_media(messages)
        wanted = self.template.variables - {"add_generation_prompt", "messages", "tool_choice"}
        variables = {name: value for name, value in kwargs.items() if name in wanted}
        options = {name: value for name, value in kwargs.items() if name not in wanted}
        tools = variables.pop("tools", None) or options.pop("tools", None) or ()
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        shown, start = self._choose_tools(options.pop("tool_choice", None), schemas)
        prompt = self.template.render(messages, tools=shown or None, **variables)
        # A call within a channel would be a thought.
        opened = [one.end for one in self._format.channels if prompt.rstrip().endswith(one.start)]
        forced = f"{opened[0]}\n\n{start}" if start and opened else start
        stops = tuple(dict.fromkeys([*read_stops(stop), *self.stop, *self._format.stop]))
        told = {**options, "stop": list(stops[:MOST_STOPS]) or None}
        form, name = self._format, self.model_name
        return _PreparedCall(prompt, forced, stops, told, bool(shown), form, name)

    # The public methods of the model would report each call a second time. LangChain itself reports
    # the runs and chunks of these, and passes no `run_manager` where none is asked for.

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> ChatResult:
        call = self._prepare_call(messages, stop, kwargs)
        written = self.llm._generate([call.text], **call.options)  # noqa: SLF001
        return self._build_result(call, written)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> ChatResult:
        call = await hop(partial(self._prepare_call, messages, stop, kwargs))
        written = await self.llm._agenerate([call.text], **call.options)  # noqa: SLF001
        return self._build_result(call, written)

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        call = self._prepare_call(messages, stop, kwargs)
        reply = _TemplateReply(call)
        pieces: Any = self.llm._stream(call.text, **call.options)  # noqa: SLF001
        with closing(pieces):
            for piece in pieces:
                yield from reply.take(piece)
                if reply.stops.found:
                    break
        yield from reply.end()

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        call = await hop(partial(self._prepare_call, messages, stop, kwargs))
        reply = _TemplateReply(call)
        pieces: Any = self.llm._astream(call.text, **call.options)  # noqa: SLF001
        async with aclosing(pieces):
            async for piece in pieces:
                for chunk in reply.take(piece):
                    yield chunk
                if reply.stops.found:
                    break
        for chunk in reply.end():
            yield chunk

    def _should_stream(self, *, async_api: bool, **kwargs: Any) -> bool:
        kind = type(self.llm)
        streams = kind._stream is not BaseLLM._stream  # noqa: SLF001
        streams |= async_api and kind._astream is not BaseLLM._astream  # noqa: SLF001
        return streams and super()._should_stream(async_api=async_api, **kwargs)

    def _build_result(self, call: _PreparedCall, written: LLMResult) -> ChatResult:
        told = (written.llm_output or {}).get("token_usage")
        reply = _TemplateReply(call, told)
        return generate_from_stream(chain(reply.take(written.generations[0][0]), reply.end()))


class _TemplateReply:
    """One reply, from the model's text to chunks of a message."""

    def __init__(self, call: _PreparedCall, usage: Mapping[str, int] | None = None) -> None:
        self._call = call
        self.stops = StopTexts(call.stop)
        self._reader = ReplyReader(call.form, prompt_end=call.prompt, tools=call.has_tools)
        self._forced = call.forced  # not read yet
        self._finish_reason = "stop"
        self._usage = usage or {}

    def take(self, piece: Generation) -> Iterator[ChatGenerationChunk]:
        """Yield the chunks of what comes next."""
        reason = (piece.generation_info or {}).get("finish_reason")
        self._finish_reason = self._finish_reason if reason is None else str(reason)
        return self._read(self.stops.feed(piece.text))

    def _read(self, text: str) -> Iterator[ChatGenerationChunk]:
        text, self._forced = self._forced + text, ""
        for chunk in self._reader.feed(text):
            yield ChatGenerationChunk(message=chunk)

    def end(self) -> Iterator[ChatGenerationChunk]:
        """Yield the chunks of what was held back, and the last one."""
        yield from self._read(self.stops.finish())
        reason = "stop" if self.stops.found else self._finish_reason
        *before, last = self._reader.finish(finish_reason=reason)
        for chunk in before:
            yield ChatGenerationChunk(message=chunk)
        wrote: str = last.response_metadata["raw_text"].removeprefix(self._call.forced)
        last.usage_metadata = self._count_usage(self._call.text, wrote)
        last.response_metadata["model_name"] = self._call.model_name
        yield ChatGenerationChunk(message=last, generation_info={"finish_reason": reason})

    def _count_usage(self, *texts: str) -> UsageMetadata:
        told = [self._usage.get(f"{name}_tokens") for name in ("prompt", "completion")]
        pairs = zip(told, map(count_text_tokens, texts), strict=True)
        read, wrote = (counted if one is None else one for one, counted in pairs)
        return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)


def _refuse_media(messages: Sequence[BaseMessage]) -> None:
    """Raise if there is anything that the model could not see."""
    for number, message in enumerate(messages):
        blocks = [] if isinstance(message.content, str) else message.content_blocks
        found = ", ".join(sorted({block["type"] for block in blocks} & _MEDIA))
        if found:
            raise ConfigError(f"message {number} has {found}; a model of text sees none of it")


# -- What a caller demands of the model's choice of tools, as far as text can make it so ----------


def _find_tool(value: Any, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    name = value.get("function", value).get("name") if isinstance(value, Mapping) else value
    known = {tool["function"]["name"]: tool for tool in tools}
    if name not in known:
        raise ConfigError(f"tool_choice {value!r} names none of the tools {sorted(known)}")
    return known[name]


def _find_call_start(form: ReplyFormat, template: ChatTemplate) -> str:
    if form.has_bare_calls:
        return '{"name": "'
    # A block that opens in the header of a message comes too late once that has begun.
    starts = [block.start for block in form.call_blocks]
    if starts and not any(start.startswith("<|start|>") for start in starts):
        shown = [start for start in starts if start in template.source]
        return (shown or starts)[0]
    raise ConfigError(
        f"nothing in replies of the format {form.name!r} makes a call certain; "
        "use tool_choice='auto', and check what came"
    )
