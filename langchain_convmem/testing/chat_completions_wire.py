"""Scripted replies as Chat Completions says them: one body, or the events of a stream. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_convmem.testing.scripted_replies import (
    ScriptedReply,
    ScriptedToolCall,
    pieces_of,
    words_of,
)
from langchain_convmem.views.tokens import count_text_tokens

__all__ = ["Envelope", "completion", "stream_end", "stream_event", "stream_events"]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every object of one response repeats."""

    completion_id: str
    created: int
    model: str


def _message_texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield str(part.get("text") or "")
    for call in message.get("tool_calls") or ():
        yield json.dumps(call, ensure_ascii=False)


def _usage(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, int]:
    texts = [text for message in request["messages"] for text in _message_texts(message)]
    prompt = sum(count_text_tokens(text) for text in texts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply.tokens,
        "total_tokens": prompt + reply.tokens,
    }


def _finish_reason(reply: ScriptedReply) -> str:
    return "tool_calls" if reply.tool_calls else "stop"


def _call(call: ScriptedToolCall, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def completion(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> dict[str, Any]:
    """Return the body of a response that is not streamed."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text if reply.text or not reply.tool_calls else None,
        "refusal": None,
    }
    if reply.tool_calls:
        message["tool_calls"] = [_call(call, call.arguments_text) for call in reply.tool_calls]
    return {
        "id": envelope.completion_id,
        "object": "chat.completion",
        "created": envelope.created,
        "model": envelope.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _finish_reason(reply),
            }
        ],
        "usage": _usage(request, reply),
    }


def _deltas(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if reply.text or not reply.tool_calls else None}
    for word in words_of(reply.text):
        yield {"content": word}
    for index, call in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **_call(call, "")}]}
        for piece in pieces_of(call.arguments_text):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def stream_events(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response in order, without the closing `[DONE]`.

    With `stream_options.include_usage` every event has a `usage`, null but in the last, which has
    no choices.
    """
    with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    frame: dict[str, Any] = {
        "id": envelope.completion_id,
        "object": "chat.completion.chunk",
        "created": envelope.created,
        "model": envelope.model,
        **({"usage": None} if with_usage else {}),
    }
    for delta in _deltas(reply):
        yield {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = _finish_reason(reply)
    yield {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    if with_usage:
        yield {**frame, "choices": [], "usage": _usage(request, reply)}


def stream_event(data: Mapping[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def stream_end() -> bytes:
    """Return the event that closes a whole stream."""
    return b"data: [DONE]\n\n"
