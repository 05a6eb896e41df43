"""A chat model for demos and tests without key, network or weights. It is not a language model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_convmem.offline.context import ContextLine, read_context
from langchain_convmem.offline.matching import Match, find_matches, is_question
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.speech import find_questions

MODEL_NAME = "convmem-offline (quotes its context; not a language model)"


class OfflineChatModel(BaseChatModel):
    """Answers by quoting, word for word, what matches the question best in its context.

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

    @property
    def _llm_type(self) -> str:
        return "convmem-offline"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        told = super()._get_ls_params(stop, **kwargs)
        return LangSmithParams(**{"ls_model_name": MODEL_NAME, **told})

    def get_token_ids(self, text: str) -> list[int]:
        """Return one number for each approximate token of `text`; no vocabulary is behind them."""
        return list(range(count_text_tokens(text)))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - LangChain's hook
        **kwargs: Any,  # noqa: ARG002 - options of a call, which are none of this model's
    ) -> ChatResult:
        text = _cut_at_stop(answer(messages), stop or ())
        message = AIMessage(
            text,
            usage_metadata=_build_usage(count_tokens(messages), count_text_tokens(text)),
            response_metadata={"finish_reason": "stop", "model_name": MODEL_NAME},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        """Yield the reply word by word; a last chunk without text has the usage."""
        [reply] = self._generate(messages, stop, **kwargs).generations
        for word in re.findall(r"\s*\S+", reply.text):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager is not None:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        last = AIMessageChunk(
            content="",
            usage_metadata=_build_usage(count_tokens(messages), count_text_tokens(reply.text)),
            response_metadata=reply.message.response_metadata,
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last)


def _cut_at_stop(text: str, stop: Sequence[str]) -> str:
    return text[: min((text.find(word) for word in stop if word and word in text), default=None)]


def _build_usage(read: int, wrote: int) -> UsageMetadata:
    return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)


# -- What it answers ------------------------------------------------------------------------------

IDENTITY = (
    "I am the offline chat model of langchain-convmem, not a language model: I have no weights "
    "and no knowledge of my own. I answer by quoting, word for word, what matches a question best "
    "in the conversation and the recalled lines."
)

NOTHING_ANSWERS = "I found nothing in my context that answers this."
NOTHING_FITS = "I can only quote, and nothing else in my context matches this."

_ABOUT_ITSELF = re.compile(
    r"(?:hello|hi|hey|good (?:morning|afternoon|evening))(?: there)?[\s,.!]*"
    r"|.*\b(?:who|what) (?:exactly )?are you[\s.?!]*"
    r"|.*\b(?:what|which) (?:\w+ )?model are you\b.*"
    r"|.*\bare you (?:an? |the )?(?:real )?(?:ai|llm|bot|human|person|machine|language model"
    r"|chatgpt|claude|gemini)\b.*"
    r"|.*\b(?:what is|what's) your name\b.*|.*\bintroduce yourself\b.*",
    re.IGNORECASE | re.DOTALL,
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
    if _ABOUT_ITSELF.fullmatch(given.question.replace("\u2019", "'")):
        return IDENTITY
    matches = find_matches(given.question, [line for line in given.lines if not _is_own(line)])
    if matches:
        return "\n".join(map(_quote, matches))
    asks = is_question(given.question) or bool(find_questions(given.question))
    return NOTHING_ANSWERS if asks or not given.question else NOTHING_FITS


def _is_own(line: ContextLine) -> bool:
    """Return whether a line reads like an answer of this model, which is not quoted again."""
    openings = (IDENTITY, NOTHING_ANSWERS, NOTHING_FITS)
    is_own = line.text.startswith(openings) or _QUOTING.match(line.text) is not None
    return line.speaker == "Assistant" and is_own


def _quote(match: Match) -> str:
    line = match.line
    match line.source:
        case "summary":
            said = "The summary says"
        case "system":
            said = "The instructions say"
        case "tool":
            said = f"The tool {line.speaker} returned" if line.speaker else "A tool returned"
        case _:
            said = f"{line.speaker} said" + (f" on {line.date}" if line.date else "")
    return f'{said}: "{match.text}"'
