"""A chat model for demos and tests without key, network or weights. It is not a language model."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool
from pydantic import Field

from langchain_convmem.background import hop
from langchain_convmem.offline.context import ContextLine, read_context
from langchain_convmem.offline.matching import (
    Match,
    find_matches,
    fold,
    is_question,
    split_sentences,
)
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.tokens import count_text_tokens

MODEL_NAME = "convmem-offline (quotes its context; not a language model)"


class OfflineChatModel(BaseChatModel):
    """Answers by quoting, word for word, what its context holds that fits the question best.

    Not a language model: it has no weights, knows nothing, opens no connection, and says so when
    asked. Lines inside a `<recalled>` fence, earlier messages, summaries and tool results can be
    quoted; the question is the latest user message. Equal input gives equal output. Tools and
    structured output are not supported. Safe to use from several threads.

    Example:
        ```python
        model = OfflineChatModel()
        model.invoke(
            [
                HumanMessage("I parked on level 3."),
                AIMessage("Good to know."),
                HumanMessage("Where did I park?"),
            ]
        ).text
        # 'You said: "I parked on level 3."'
        ```
    """

    stop: list[str] | None = None
    """The answer ends before the first of these texts; those of a call come in addition."""

    max_tokens: int | None = Field(default=None, ge=1)
    """The answer ends before the word that would exceed so many tokens; None: no limit."""

    @property
    def _llm_type(self) -> str:
        return "convmem-offline"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model_name": MODEL_NAME, "stop": self.stop, "max_tokens": self.max_tokens}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = LangSmithParams(
            ls_provider="convmem-offline",
            # Traces name the model a caller asked for; the response says which one answered.
            ls_model_name=str(kwargs.get("model", MODEL_NAME)),
            ls_model_type="chat",
        )
        stops = self._list_stops(stop)
        if stops:
            params["ls_stop"] = stops
        max_tokens = kwargs.get("max_tokens", self.max_tokens)
        if max_tokens is not None:
            params["ls_max_tokens"] = max_tokens
        return params

    # -- counting -----------------------------------------------------------------------------

    def get_token_ids(self, text: str) -> list[int]:
        """Return one number for each approximate token of `text`, in order.

        There is no vocabulary behind them: equal pieces have equal numbers, nothing more.
        """
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        total = count_text_tokens(text)
        cuts = [number * len(text) // total for number in range(total)] + [len(text)]
        return [
            zlib.crc32(text[start:end].encode("utf-8", "surrogatepass"))
            for start, end in pairwise(cuts)
        ]

    def get_num_tokens_from_messages(
        self,
        messages: list[BaseMessage],
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool] | None = None,  # noqa: ARG002 - tools are never sent anywhere
    ) -> int:
        """Return the approximate size of `messages` in tokens; `tools` count nothing."""
        return count_tokens(messages)

    # -- answering ----------------------------------------------------------------------------

    def _list_stops(self, stop: Sequence[str] | None) -> list[str]:
        return [*(self.stop or ()), *(stop or ())]

    def _write_reply(
        self,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        options: Mapping[str, Any],
    ) -> _QuotingReply:
        text = _cut_at_stop(answer(messages), self._list_stops(stop))
        max_tokens = options.get("max_tokens", self.max_tokens)
        kept = text if max_tokens is None else _cut_to_tokens(text, max_tokens)
        return _QuotingReply(kept, "stop" if kept == text else "length", count_tokens(messages))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's hook
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._write_reply(messages, stop, kwargs)
        message = AIMessage(
            reply.text,
            usage_metadata=_build_usage(reply.input_tokens, reply.output_tokens),
            response_metadata=reply.metadata,
        )
        info = {"finish_reason": reply.finish_reason}
        return ChatResult(generations=[ChatGeneration(message=message, generation_info=info)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _stream_chunks(self._write_reply(messages, stop, kwargs)):
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
        reply = await hop(partial(self._write_reply, messages, stop, kwargs))
        for chunk in _stream_chunks(reply):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
            # Nothing else here waits, and a reader must be able to cancel between two words.
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class _QuotingReply:
    text: str
    finish_reason: str
    input_tokens: int

    @property
    def metadata(self) -> dict[str, Any]:
        return {"model_name": MODEL_NAME, "finish_reason": self.finish_reason}

    @property
    def output_tokens(self) -> int:
        return count_text_tokens(self.text)


_WORD = re.compile(r"\s*\S+\s*\Z|\s*\S+|\s+\Z")


def _cut_at_stop(text: str, stop: Sequence[str]) -> str:
    places = [text.find(word) for word in stop if word]
    return text[: min((at for at in places if at >= 0), default=len(text))]


def _cut_to_tokens(text: str, max_tokens: int) -> str:
    """Return as many whole words from the start of `text` as fit into `max_tokens`."""
    words = _WORD.findall(text)
    while words and count_text_tokens("".join(words)) > max_tokens:
        words.pop()
    return "".join(words)


def _build_usage(input_tokens: int, output_tokens: int) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
    )


def _stream_chunks(reply: _QuotingReply) -> Iterator[ChatGenerationChunk]:
    """Yield the reply word by word; a last chunk without text closes it.

    The first chunk carries the input tokens and the last the output tokens, so that the sum of
    all chunks is the usage of the whole reply.
    """
    for number, word in enumerate(_WORD.findall(reply.text)):
        usage = _build_usage(reply.input_tokens, 0) if number == 0 else None
        yield ChatGenerationChunk(message=AIMessageChunk(content=word, usage_metadata=usage))
    input_tokens = 0 if reply.text else reply.input_tokens
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content="",
            usage_metadata=_build_usage(input_tokens, reply.output_tokens),
            response_metadata=reply.metadata,
            chunk_position="last",
        ),
        generation_info={"finish_reason": reply.finish_reason},
    )


# -- What it answers ------------------------------------------------------------------------------

IDENTITY = (
    "I am the offline chat model of langchain-convmem, not a language model: I have no weights "
    "and no knowledge of my own. I answer by quoting, word for word, what fits a question best "
    "in the conversation and the memories I am given."
)

NOTHING_ANSWERS = "I found nothing in what I was given that answers this."
NOTHING_FITS = "I can only quote, and I found nothing else in what I was given that fits this."

_WHO_ARE_YOU = re.compile(
    r"\b(?:who|what)(?: exactly| on earth| kind of \w+| sort of \w+)? are you(?: really| exactly)?$"
    r"|\b(?:what|which) (?:\w+ ){0,2}model (?:are you|is this)\b"
    r"|\b(?:who|what) (?:am i|are we) (?:talking|speaking|chatting) (?:to|with)\b"
    r"|\bare you (?:an? |the )?(?:real |actual |large )*(?:ai|llm|bot|chatbot|robot|human|person|"
    r"machine|model|language model|chatgpt|gpt|claude|gemini|assistant)\b"
    r"|\b(?:what is|what's) your name$|\b(?:introduce|describe) yourself\b"
    r"|\btell me about yourself\b|^who (?:is|am) (?:this|speaking)$"
)

_GREETING = re.compile(
    r"(?:(?:hello|hi|hey|greetings|good (?:morning|afternoon|evening|day))"
    r"(?: there| again)?[\s,]*)+"
)

_QUOTING = re.compile(
    r"(?:[^\"\n]{1,60} said(?: on \d{4}-\d{2}-\d{2})?|(?:A tool|The tool [^\"\n]{1,60}) returned|"
    r"The summary says|The instructions say): \""
)


def answer(messages: Sequence[BaseMessage]) -> str:
    """Return the answer to the latest user message, made of what `messages` hold.

    One to three quotes with speaker and, where known, date, each on a line of its own, best first;
    what this model is, when that is asked; or a sentence saying that nothing fits.
    """
    given = read_context(messages)
    about_me = _describe_itself(given.question)
    if about_me is not None:
        return about_me
    lines = [
        line
        for line in given.lines
        if not (line.speaker == "Assistant" and is_own_answer(line.text))
    ]
    matches = find_matches(given.question, lines)
    if matches:
        return "\n".join(_quote(match) for match in matches)
    return NOTHING_ANSWERS if _is_asking(given.question) or not given.question else NOTHING_FITS


def is_own_answer(text: str) -> bool:
    """Tell whether `text` reads like an answer of this model, which must not be quoted again."""
    plain = text.strip()
    openings = (IDENTITY, NOTHING_ANSWERS, NOTHING_FITS, "Hello. " + IDENTITY)
    return plain.startswith(openings) or bool(_QUOTING.match(plain))


def _describe_itself(question: str) -> str | None:
    plain = " ".join(fold(question).split()).strip(" .,!?")
    if plain and _GREETING.fullmatch(plain):
        return "Hello. " + IDENTITY
    return IDENTITY if _WHO_ARE_YOU.search(plain) else None


def _quote(match: Match) -> str:
    return f'{_name_source(match.line)}: "{match.text}"'


def _name_source(line: ContextLine) -> str:
    match line.source:
        case "summary":
            said = "The summary says"
        case "system":
            said = "The instructions say"
        case "tool":
            said = f"The tool {line.speaker} returned" if line.speaker else "A tool returned"
        case _:
            said = f"{line.speaker} said"
    return f"{said} on {line.date}" if line.date and line.source == "dialogue" else said


def _is_asking(message: str) -> bool:
    pieces = [message[span.start : span.end] for span in split_sentences(message)]
    return any(is_question(piece, requests=True) for piece in pieces)
