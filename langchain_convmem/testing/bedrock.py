"""Bedrock on loopback for tests: real HTTP, scripted answers.

Speaks `POST /model/{modelId}/converse` (JSON), `POST /model/{modelId}/converse-stream` (the binary
event stream) and, for the embedding models of Titan and Cohere, `POST /model/{modelId}/invoke`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.loopback_server import Headers, LoopbackServer
from langchain_convmem.testing.scripted_replies import (
    RecordedRequest,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
    split_pieces,
    split_words,
)
from langchain_convmem.views.tokens import count_text_tokens

_ADDRESS = re.compile(r"/model/([^/]+)/(converse|converse-stream|invoke)")
_SIGNED = ("AWS4-HMAC-SHA256 ", "Bearer ")

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


class BedrockConverseServer(LoopbackServer):
    """Serves Bedrock's conversations and embeddings on 127.0.0.1 during a `with` block.

    Leaving the block closes every connection and joins every thread; an exception that `reply`
    raised is raised again there, unless the block itself failed. Any credentials will do: the
    signature of a request must be there, and is not checked. Safe to use from several threads.

    Example:
        ```python
        with BedrockConverseServer(reply="Level 3.") as server:
            model = ChatBedrockConverse(
                model="anthropic.claude-sonnet-4-20250514-v1:0",
                endpoint_url=server.url,
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
            model.invoke("Where did I park?")
            [message] = server.requests[0].body["messages"]
            assert message["content"] == [{"text": "Where did I park?"}]
        ```
    """

    stream_type = "application/vnd.amazon.eventstream"

    @property
    def url(self) -> str:
        """What to pass as `endpoint_url`."""
        return self.origin

    def find_fault(self, request: RecordedRequest) -> ScriptedError | None:
        """Return the error for an unknown address or a request that nobody signed."""
        if _ADDRESS.fullmatch(request.path) is None:
            message = f"Unknown operation: {request.path}"
            return ScriptedError(status=404, message=message, code="UnknownOperationException")
        if not request.headers.get("authorization", "").startswith(_SIGNED):
            return ScriptedError(status=403, message="Missing Authentication Token")
        return None

    def list_inputs(self, request: RecordedRequest) -> Sequence[Any] | None:
        """Return the text of a request to Titan, or the texts of one to Cohere."""
        if not request.path.endswith("/invoke"):
            return None
        body = request.body
        return [body["inputText"]] if "inputText" in body else body["texts"]

    def write_vectors(self, request: RecordedRequest, vectors: list[list[float]]) -> dict[str, Any]:
        """Return vectors as Titan or Cohere does."""
        if "inputText" in request.body:
            tokens = count_text_tokens(request.body["inputText"])
            return {"embedding": vectors[0], "inputTextTokenCount": tokens}
        is_typed = bool(request.body.get("embedding_types"))
        return {
            "texts": request.body["texts"],
            "embeddings": {"float": vectors} if is_typed else vectors,
            "response_type": "embeddings_by_type" if is_typed else "embeddings_floats",
        }

    def asks_for_stream(self, request: RecordedRequest) -> bool:
        """Return whether a conversation is to be streamed."""
        return request.path.endswith("-stream")

    def write(self, request: RecordedRequest, reply: ScriptedReply) -> dict[str, Any]:
        """Return an answer that is not streamed.

        Raises:
            ConfigError: If the arguments of a call are not JSON.
        """
        content: list[dict[str, Any]] = []
        if reply.reasoning:
            told = {"text": reply.reasoning, "signature": sign(reply.reasoning)}
            content.append({"reasoningContent": {"reasoningText": told}})
        if reply.text:
            content.append({"text": reply.text})
        for call in reply.tool_calls:
            given = {"toolUseId": call.call_id, "name": call.name, "input": _parse_input(call)}
            content.append({"toolUse": given})
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": _get_stop_reason(reply),
            **_build_metadata(request.body, reply),
        }

    def stream(self, request: RecordedRequest, reply: ScriptedReply) -> Iterator[bytes]:
        """Yield the frames of a streamed answer.

        Text comes word by word and arguments in pieces; only calls have a `contentBlockStart`.
        """
        yield _encode("event", "messageStart", {"role": "assistant"})
        for number, block in enumerate(_stream_blocks(reply)):
            for kind, body in block:
                yield _encode("event", kind, {**body, "contentBlockIndex": number})
            yield _encode("event", "contentBlockStop", {"contentBlockIndex": number})
        yield _encode("event", "messageStop", {"stopReason": _get_stop_reason(reply)})
        yield _encode("event", "metadata", _build_metadata(request.body, reply))

    def write_error(self, error: ScriptedError) -> tuple[dict[str, Any], Headers]:
        """Return an error as Bedrock says it: the exception's name stands in a header."""
        return {"message": error.message}, {"x-amzn-ErrorType": _name_exception(error)}

    def write_last_event(self, error: ScriptedError) -> bytes:
        """Return the frame with which a stream fails after it has begun."""
        name = _name_exception(error).replace("ModelErrorE", "ModelStreamErrorE")
        return _encode("exception", name[:1].lower() + name[1:], {"message": error.message})


def sign(reasoning: str) -> str:
    """Return how scripted reasoning is signed; another text has another signature."""
    return "scripted:" + base64.b64encode(hashlib.sha256(reasoning.encode()).digest()).decode()


def _parse_input(call: ScriptedToolCall) -> Any:
    try:
        return json.loads(call.arguments_text)
    except ValueError:
        msg = f"arguments of {call.name!r} that are not JSON can only be streamed"
        raise ConfigError(msg) from None


def _get_stop_reason(reply: ScriptedReply) -> str:
    return "tool_use" if reply.tool_calls else "end_turn"


def _build_metadata(body: Mapping[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    read = sum(map(_count_block_tokens, [*(body.get("system") or ()), *blocks]))
    usage = {
        "inputTokens": read,
        "outputTokens": reply.tokens,
        "totalTokens": read + reply.tokens,
    }
    return {"usage": usage, "metrics": {"latencyMs": 1}}


def _count_block_tokens(block: Mapping[str, Any]) -> int:
    text = block.get("text")
    return count_text_tokens(text if isinstance(text, str) else json.dumps(block))


def _name_exception(error: ScriptedError) -> str:
    """Return the name of the exception that an error is at Bedrock."""
    usual = "ValidationException" if error.status < 500 else "InternalServerException"
    return error.code or _EXCEPTIONS.get(error.status, usual)


# -- streams --------------------------------------------------------------------------------------


def _stream_blocks(reply: ScriptedReply) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    if reply.reasoning:
        thoughts = [{"text": word} for word in split_words(reply.reasoning)]
        thoughts.append({"signature": sign(reply.reasoning)})
        yield _stream_deltas(*({"reasoningContent": thought} for thought in thoughts))
    if reply.text:
        yield _stream_deltas(*({"text": word} for word in split_words(reply.text)))
    for call in reply.tool_calls:
        yield _stream_call(call)


def _stream_deltas(*deltas: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for delta in deltas:
        yield "contentBlockDelta", {"delta": delta}


def _stream_call(call: ScriptedToolCall) -> Iterator[tuple[str, dict[str, Any]]]:
    start = {"toolUse": {"toolUseId": call.call_id, "name": call.name}}
    yield "contentBlockStart", {"start": start}
    pieces = split_pieces(call.arguments_text)
    yield from _stream_deltas(*({"toolUse": {"input": piece}} for piece in pieces))


def _encode(message_type: str, kind: str, body: Mapping[str, Any]) -> bytes:
    """Return one frame of the binary event stream, which has three headers of text."""
    headers = {
        f":{message_type}-type": kind,
        ":content-type": "application/json",
        ":message-type": message_type,
    }
    head = b"".join(_encode_header(name, value) for name, value in headers.items())
    payload = json.dumps(body, ensure_ascii=False).encode()
    lengths = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    frame = lengths + struct.pack(">I", zlib.crc32(lengths)) + head + payload
    return frame + struct.pack(">I", zlib.crc32(frame))


def _encode_header(name: str, value: str) -> bytes:
    text = 7  # the type of a value that is UTF-8
    raw_name, raw_value = name.encode(), value.encode()
    head = struct.pack(">B", len(raw_name)) + raw_name
    return head + struct.pack(">BH", text, len(raw_value)) + raw_value
