"""Scripted replies as Completions says them: one body, or the events of a stream. Pure.

As the real service does, it stops at the stop texts of the request and after `max_tokens`, which is
16 if the request does not say. A word with the blanks before it is a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.chat_completions_wire import Envelope
from langchain_convmem.testing.scripted_replies import ScriptedReply, words_of
from langchain_convmem.views.tokens import count_text_tokens

__all__ = ["text_completion", "text_stream_events"]

_USUAL_MAX_TOKENS = 16


class _Written(NamedTuple):
    words: list[str]
    finish_reason: str


def text_completion(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> dict[str, Any]:
    """Return the body of a response that is not streamed; every prompt gets the same reply."""
    written = _written(request, reply)
    return {
        **_frame(envelope),
        "choices": [
            {
                "index": index,
                "text": "".join(_echoed(request, prompt) + written.words),
                "logprobs": _logprobs(request, prompt, written.words),
                "finish_reason": written.finish_reason,
            }
            for index, prompt in enumerate(_prompts(request))
        ],
        "usage": _usage(request, written),
    }


def text_stream_events(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response in order, without the closing `[DONE]`.

    With `stream_options.include_usage` a last event has the `usage`, and no choices.
    """
    written = _written(request, reply)
    frame = _frame(envelope)
    for index, prompt in enumerate(_prompts(request)):
        for word in _echoed(request, prompt) + written.words:
            yield {**frame, "choices": [_piece(index, word, None)]}
        yield {**frame, "choices": [_piece(index, "", written.finish_reason)]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": _usage(request, written)}


def _frame(envelope: Envelope) -> dict[str, Any]:
    return {
        "id": envelope.completion_id,
        "object": "text_completion",
        "created": envelope.created,
        "model": envelope.model,
    }


def _piece(index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _prompts(request: Mapping[str, Any]) -> list[str]:
    prompt = request["prompt"]
    return [prompt] if isinstance(prompt, str) else prompt


def _echoed(request: Mapping[str, Any], prompt: str) -> list[str]:
    return words_of(prompt) if request.get("echo") else []


def _written(request: Mapping[str, Any], reply: ScriptedReply) -> _Written:
    if reply.tool_calls or reply.reasoning:
        raise ConfigError("a completion is text: it has no tool calls and no reasoning of its own")
    stop = request.get("stop") or ()
    stops: list[str] = [stop] if isinstance(stop, str) else list(stop)
    text = reply.text[: min(_places(reply.text, stops), default=len(reply.text))]
    asked = request.get("max_tokens")
    limit = _USUAL_MAX_TOKENS if asked is None else asked
    words = words_of(text)
    return _Written(words[:limit], "stop" if len(words) <= limit and limit else "length")


def _places(text: str, stops: list[str]) -> list[int]:
    return [place for stop in stops if stop and (place := text.find(stop)) >= 0]


def _logprobs(request: Mapping[str, Any], prompt: str, words: list[str]) -> dict[str, Any] | None:
    """Return probabilities that are as good as any: a token's is e to the minus its length."""
    if request.get("logprobs") is None:
        return None
    tokens = _echoed(request, prompt) + words
    offsets, place = [], 0 if request.get("echo") else len(prompt)
    for token in tokens:
        offsets.append(place)
        place += len(token)
    chances: list[float | None] = [-float(len(token)) for token in tokens]
    if request.get("echo") and chances:
        chances[0] = None  # nothing stands before the first token that it could follow from
    return {
        "tokens": tokens,
        "token_logprobs": chances,
        "top_logprobs": None,
        "text_offset": offsets,
    }


def _usage(request: Mapping[str, Any], written: _Written) -> dict[str, int]:
    prompts = _prompts(request)
    read = sum(count_text_tokens(prompt) for prompt in prompts)
    wrote = count_text_tokens("".join(written.words)) * len(prompts)
    return {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
