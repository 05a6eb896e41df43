"""Scripted replies and their JSON forms: one body, or the events of a stream. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_convmem.errors import ConfigError
from langchain_convmem.views.tokens import count_text_tokens

__all__ = [
    "Envelope",
    "Reply",
    "ScriptedError",
    "ScriptedReply",
    "ScriptedToolCall",
    "completion",
    "stream_events",
]


@dataclass(frozen=True, slots=True)
class ScriptedToolCall:
    """One call the scripted assistant makes.

    Attributes:
        name: Name of the tool.
        arguments: Its arguments; a text is sent as it is, valid JSON or not.
        call_id: Its id; two calls of one reply need different ones.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    call_id: str = "call_1"

    @property
    def arguments_text(self) -> str:
        """The arguments as sent."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """What the scripted assistant answers.

    Attributes:
        text: Its text; streamed word by word.
        tool_calls: Its calls.
        cut_after_chunks: Close the connection after so many stream events, in the middle of the
            response; without streaming, after half of the body. None: answer whole.
        before_chunk: Called with the number of each stream event, from 0, before it is sent; it
            may block, so that a test decides how far a stream has come.
    """

    text: str = ""
    tool_calls: Sequence[ScriptedToolCall] = ()
    cut_after_chunks: int | None = None
    before_chunk: Callable[[int], object] | None = None

    def __post_init__(self) -> None:
        """Refuse calls that could not be told apart."""
        ids = [call.call_id for call in self.tool_calls]
        if len(set(ids)) != len(ids):
            raise ConfigError(f"tool calls of one reply need different ids, got {ids}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedError:
    """An error the scripted service answers.

    Attributes:
        status: HTTP status, 400 to 599.
        message: The error's sentence.
        kind: The error's `type`.
        code: The error's `code`.
        retry_after_s: Sent as `Retry-After`, in seconds; None sends none.
    """

    status: int
    message: str = "scripted error"
    kind: str = "server_error"
    code: str | None = None
    retry_after_s: float | None = None


Reply: TypeAlias = str | ScriptedReply | ScriptedError


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
    answered = count_text_tokens(reply.text) + sum(
        count_text_tokens(call.name + call.arguments_text) for call in reply.tool_calls
    )
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answered,
        "total_tokens": prompt + answered,
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
    for word in re.findall(r"\s*\S+|\s+\Z", reply.text):
        yield {"content": word}
    for index, call in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **_call(call, "")}]}
        for piece in re.findall(r"(?s).{1,12}", call.arguments_text):
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
