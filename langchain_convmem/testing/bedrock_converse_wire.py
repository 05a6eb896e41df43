"""Scripted replies as Bedrock says them: one JSON body, or the frames of an event stream. Pure.

A frame is one message of `application/vnd.amazon.eventstream`: lengths, a checksum of these,
headers, a JSON payload, a checksum of all, every number big-endian.

Source: the public API reference of Converse and ConverseStream, and the event stream encoding of
the AWS SDKs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.scripted_replies import (
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
    pieces_of,
    words_of,
)
from langchain_convmem.views.tokens import count_text_tokens

__all__ = [
    "EVENT_STREAM",
    "OWN_SIGNATURE",
    "StreamEvent",
    "converse_body",
    "event_frame",
    "exception_frame",
    "exception_name",
    "frame",
    "signature_of",
    "stream_events",
]

EVENT_STREAM = "application/vnd.amazon.eventstream"

OWN_SIGNATURE = "scripted:"
"""How the signatures of scripted reasoning begin: those can be checked when they come back."""

_EXCEPTIONS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
_STREAM_EXCEPTIONS = {**_EXCEPTIONS, 424: "ModelStreamErrorException"}

# -- frames ---------------------------------------------------------------------------------------

_PRELUDE = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_PRELUDE_BYTES = _PRELUDE.size + _CHECKSUM.size
_STRING = 7
"""The header type whose value is UTF-8 text."""


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message of an event stream.

    Args:
        headers: By name, in order; sent as text.
        payload: What follows them.
    """
    head = b"".join(_header(name, value) for name, value in headers.items())
    total = _PRELUDE_BYTES + len(head) + len(payload) + _CHECKSUM.size
    lengths = _PRELUDE.pack(total, len(head))
    prelude = lengths + _CHECKSUM.pack(zlib.crc32(lengths))
    body = prelude + head + payload
    return body + _CHECKSUM.pack(zlib.crc32(body))


def _header(name: str, value: str) -> bytes:
    raw_name, raw_value = name.encode(), value.encode()
    return (
        struct.pack(">B", len(raw_name))
        + raw_name
        + struct.pack(">BH", _STRING, len(raw_value))
        + raw_value
    )


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of ConverseStream.

    Attributes:
        kind: Such as `contentBlockDelta`.
        body: What it says.
    """

    kind: str
    body: Mapping[str, Any]


def event_frame(event: StreamEvent) -> bytes:
    """Return the frame of an event."""
    return _json_frame("event", event.kind, event.body)


def exception_frame(error: ScriptedError) -> bytes:
    """Return the frame with which a stream fails after it has begun."""
    name = exception_name(error, _STREAM_EXCEPTIONS)
    return _json_frame("exception", name[:1].lower() + name[1:], {"message": error.message})


def exception_name(error: ScriptedError, names: Mapping[int, str] = _EXCEPTIONS) -> str:
    """Return the name of the exception that an error is at Bedrock."""
    usual = "ValidationException" if error.status < 500 else "InternalServerException"
    return error.code or names.get(error.status, usual)


def _json_frame(message_type: str, kind: str, body: Mapping[str, Any]) -> bytes:
    headers = {
        f":{message_type}-type": kind,
        ":content-type": "application/json",
        ":message-type": message_type,
    }
    return frame(headers, json.dumps(body, ensure_ascii=False).encode())


# -- replies --------------------------------------------------------------------------------------


def signature_of(reasoning: str) -> str:
    """Return how scripted reasoning is signed; another text has another signature."""
    digest = hashlib.sha256(reasoning.encode()).digest()
    return OWN_SIGNATURE + base64.b64encode(digest).decode()


def converse_body(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    """Return the body of a response that is not streamed.

    Raises:
        ConfigError: If the arguments of a call are no JSON object.
    """
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        told = {"text": reply.reasoning, "signature": signature_of(reply.reasoning)}
        content.append({"reasoningContent": {"reasoningText": told}})
    if reply.text:
        content.append({"text": reply.text})
    content.extend(
        {"toolUse": {"toolUseId": call.call_id, "name": call.name, "input": _input(call)}}
        for call in reply.tool_calls
    )
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _stop_reason(reply),
        **_metadata(request, reply),
    }


def stream_events(request: Mapping[str, Any], reply: ScriptedReply) -> Iterator[StreamEvent]:
    """Yield the events of a streamed response in order.

    Text comes word by word and arguments in pieces; only calls have a `contentBlockStart`.
    """
    yield StreamEvent("messageStart", {"role": "assistant"})
    for number, block in enumerate(_blocks(reply)):
        for kind, body in block:
            yield StreamEvent(kind, {**body, "contentBlockIndex": number})
        yield StreamEvent("contentBlockStop", {"contentBlockIndex": number})
    yield StreamEvent("messageStop", {"stopReason": _stop_reason(reply)})
    yield StreamEvent("metadata", _metadata(request, reply))


def _blocks(reply: ScriptedReply) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    if reply.reasoning:
        yield _deltas(*_reasoning_deltas(reply.reasoning))
    if reply.text:
        yield _deltas(*({"text": word} for word in words_of(reply.text)))
    for call in reply.tool_calls:
        yield _call_events(call)


def _deltas(*deltas: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for delta in deltas:
        yield "contentBlockDelta", {"delta": delta}


def _reasoning_deltas(reasoning: str) -> Iterator[dict[str, Any]]:
    for word in words_of(reasoning):
        yield {"reasoningContent": {"text": word}}
    yield {"reasoningContent": {"signature": signature_of(reasoning)}}


def _call_events(call: ScriptedToolCall) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "contentBlockStart",
        {"start": {"toolUse": {"toolUseId": call.call_id, "name": call.name}}},
    )
    yield from _deltas(*({"toolUse": {"input": piece}} for piece in pieces_of(call.arguments_text)))


def _input(call: ScriptedToolCall) -> dict[str, Any]:
    try:
        given = json.loads(call.arguments_text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        msg = (
            f"the arguments of {call.name!r} are no JSON object: {call.arguments_text!r:.80}; "
            "Converse can only stream such a call"
        )
        raise ConfigError(msg)
    return given


def _stop_reason(reply: ScriptedReply) -> str:
    return "tool_use" if reply.tool_calls else "end_turn"


def _metadata(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    blocks = [block for message in request["messages"] for block in message["content"]]
    asked = sum(_block_tokens(block) for block in [*(request.get("system") or ()), *blocks])
    usage = {
        "inputTokens": asked,
        "outputTokens": reply.tokens,
        "totalTokens": asked + reply.tokens,
    }
    return {"usage": usage, "metrics": {"latencyMs": 1}}


def _block_tokens(block: Mapping[str, Any]) -> int:
    text = block.get("text")
    told = text if isinstance(text, str) else json.dumps(block, ensure_ascii=False)
    return count_text_tokens(told)
