"""A Chat Completions service on loopback for tests: real HTTP, scripted answers.

Speaks `POST /v1/chat/completions`, whole and streamed, and `POST /v1/embeddings`.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

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

_CHATS, _EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
STREAM_END = b"data: [DONE]\n\n"


class ChatCompletionsServer(LoopbackServer):
    """An OpenAI-compatible service on 127.0.0.1 during a `with` block.

    Leaving the block closes every connection and joins every thread; an exception that `reply`
    raised is raised again there, unless the block itself failed. Safe to use from several threads.

    Example:
        ```python
        with ChatCompletionsServer(reply="Level 3.") as server:
            model = ChatOpenAI(base_url=server.url, api_key="test", model="test-model")
            model.invoke("Where did I park?")
            assert server.requests[0].body["messages"][0]["content"] == "Where did I park?"
        ```
    """

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        return f"{self.origin}/v1"

    def find_fault(self, request: RecordedRequest) -> ScriptedError | None:
        """Return the error for an unknown address or a request without a key."""
        kind = "invalid_request_error"
        if request.path not in (_CHATS, _EMBEDDINGS):
            return ScriptedError(status=404, message=f"Unknown request URL: {request.path}.")
        if not request.headers.get("authorization", "").startswith("Bearer "):
            message = "You didn't provide an API key in an Authorization header (Bearer)."
            return ScriptedError(status=401, message=message, kind=kind)
        return None

    def list_inputs(self, request: RecordedRequest) -> Sequence[Any] | None:
        """Return texts to embed, or tokens by number."""
        if request.path != _EMBEDDINGS:
            return None
        given = request.body["input"]
        return [given] if isinstance(given, str) or isinstance(given[0], int) else given

    def write_vectors(self, request: RecordedRequest, vectors: list[list[float]]) -> dict[str, Any]:
        """Return vectors as OpenAI does; in base64 they are of single precision."""
        shown: Sequence[Any] = vectors
        if request.body.get("encoding_format") == "base64":
            shown = [base64.b64encode(np.asarray(v, "<f4").tobytes()).decode() for v in vectors]
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(shown)
        ]
        usage = {"prompt_tokens": len(data), "total_tokens": len(data)}
        return {"object": "list", "data": data, "model": request.body["model"], "usage": usage}

    def write(self, request: RecordedRequest, reply: ScriptedReply) -> dict[str, Any]:
        """Return an answer that is not streamed."""
        read = sum(map(count_text_tokens, _list_texts(request.body)))
        return {
            "id": f"chatcmpl-{len(self._recorded)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.body["model"],
            "choices": [_build_choice(reply)],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": reply.tokens,
                "total_tokens": read + reply.tokens,
            },
        }

    def stream(self, request: RecordedRequest, reply: ScriptedReply) -> Iterator[bytes]:
        """Yield the server-sent events of a streamed answer.

        With `stream_options.include_usage` every event has a `usage`, null but in the last, which
        has no choices.
        """
        whole = self.write(request, reply)
        usage, [choice] = whole.pop("usage"), whole.pop("choices")
        with_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
        frame = {**whole, "object": "chat.completion.chunk"}
        frame |= {"usage": None} if with_usage else {}
        piece = {"index": 0, "finish_reason": None}
        for delta in _stream_deltas(reply):
            yield encode_event({**frame, "choices": [{**piece, "delta": delta}]})
        ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield encode_event({**frame, "choices": [ended]})
        if with_usage:
            yield encode_event({**frame, "choices": [], "usage": usage})
        yield STREAM_END

    def write_error(self, error: ScriptedError) -> tuple[dict[str, Any], Headers]:
        """Return an error as OpenAI says it."""
        told = {
            "message": error.message,
            "type": error.kind,
            "param": error.param,
            "code": error.code,
        }
        return {"error": told}, {}

    def write_last_event(self, error: ScriptedError) -> bytes:
        """Return an event that says why the stream ends."""
        return encode_event(self.write_error(error)[0])


def encode_event(data: Mapping[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _list_texts(body: Mapping[str, Any]) -> Iterator[str]:
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        for part in content if isinstance(content, list) else ():
            yield str(part.get("text") or "")
        for call in message.get("tool_calls") or ():
            yield json.dumps(call, ensure_ascii=False)


def _build_choice(reply: ScriptedReply) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text if reply.text or not reply.tool_calls else None,
        "refusal": None,
    }
    if reply.tool_calls:
        message["tool_calls"] = [_build_call(one, one.arguments_text) for one in reply.tool_calls]
    reason = "tool_calls" if reply.tool_calls else "stop"
    return {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}


def _build_call(call: ScriptedToolCall, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _stream_deltas(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if reply.text or not reply.tool_calls else None}
    for word in split_words(reply.text):
        yield {"content": word}
    for index, call in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **_build_call(call, "")}]}
        for piece in split_pieces(call.arguments_text):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
