"""Services on loopback that compact what they are sent, as Anthropic's and OpenAI's do.

Each takes back what it compacted itself, and nothing else: an item that was changed, or is another
service's, is refused.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from langchain_convmem.testing.loopback_server import Headers, LoopbackServer
from langchain_convmem.testing.scripted_replies import RecordedRequest, ScriptedError, ScriptedReply

__all__ = ["CompactingReply", "MessagesServer", "ResponsesServer", "chat_anthropic", "chat_openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactingReply(ScriptedReply):
    """A reply before which the service compacts the conversation, to this text."""

    compaction: str


def _refuse(message: str) -> ScriptedError:
    return ScriptedError(status=400, message=message, kind="invalid_request_error")


class _CompactingServer(LoopbackServer):
    """A service that remembers its items, as they must come back."""

    stream_type = "text/event-stream"
    path: ClassVar[str]

    def __init__(self, reply: Any) -> None:
        super().__init__(reply, check=lambda request: next(self.find_faults(request.body), None))
        self.items: list[dict[str, Any]] = []

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests as they came."""
        return [request.body for request in self.requests]

    def hand_out(self, item: dict[str, Any]) -> dict[str, Any]:
        """Remember an item."""
        self.items.append(item)
        return item

    def find_fault(self, request: RecordedRequest) -> ScriptedError | None:
        is_known = request.path.partition("?")[0] == self.path
        return None if is_known else ScriptedError(status=404, message=f"no {request.path}")

    def find_faults(self, body: dict[str, Any]) -> Iterator[ScriptedError]:
        """Yield what is wrong with a request."""
        raise NotImplementedError

    def refuse_item(self, item: dict[str, Any]) -> Iterator[ScriptedError]:
        """Refuse an item that was not handed out as it is."""
        if item not in self.items:
            yield _refuse(f"no such compaction: {json.dumps(item)}")

    def stream(self, request: RecordedRequest, reply: ScriptedReply) -> Iterator[bytes]:
        """Yield server-sent events that bear the name of their type."""
        for event in self.stream_events(self.write(request, reply)):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def stream_events(self, whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events of an answer."""
        raise NotImplementedError

    def write_error(self, error: ScriptedError) -> tuple[dict[str, Any], Headers]:
        return {"type": "error", "error": {"type": error.kind, "message": error.message}}, {}

    def write_last_event(self, error: ScriptedError) -> bytes:
        del error
        return b""


# -- Anthropic Messages ---------------------------------------------------------------------------


class MessagesServer(_CompactingServer):
    """Answers like Anthropic's Messages."""

    path = "/v1/messages"

    @property
    def url(self) -> str:
        """The base address for a client."""
        return self.origin

    def read_compacted(self, body: dict[str, Any]) -> list[str]:
        """Return the texts that a model would read: all before the last item is ignored."""
        read: list[str] = []
        for message in body["messages"]:
            content = message["content"]
            for block in [content] if isinstance(content, str) else content:
                if isinstance(block, str):
                    read.append(block)
                elif block["type"] == "compaction":
                    read = [f"compacted: {block['content']}"]
                else:
                    read.append(block["text"])
        return read

    def find_faults(self, body: dict[str, Any]) -> Iterator[ScriptedError]:
        roles = [message["role"] for message in body["messages"]]
        if not roles or roles[0] != "user" or any(a == b for a, b in zip(roles, roles[1:])):  # noqa: B905, RUF007
            yield _refuse(f"roles must alternate and begin with the user: {roles}")
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] == "compaction":
                    yield from self.refuse_item(block)
                elif block["type"] != "text" or block.keys() - {"type", "text"}:
                    yield _refuse(f"unexpected block: {json.dumps(block)}")

    def write(self, request: RecordedRequest, reply: ScriptedReply) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        if isinstance(reply, CompactingReply):
            number = len(self.items)
            item = {"type": "compaction", "content": reply.compaction, "signature": f"sig{number}"}
            blocks.append(self.hand_out(item))
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        number = len(self.requests)
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": request.body["model"],
            "content": blocks,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    def stream_events(self, whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
        return _stream_message(whole, whole["content"])


def _stream_message(
    whole: dict[str, Any], blocks: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(blocks):
        start = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in block.get("text", "")]
        if block["type"] == "compaction":
            start = {"type": "compaction", "content": None}  # type: ignore[dict-item]
            deltas = [{**block, "type": "compaction_delta"}]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


@asynccontextmanager
async def chat_anthropic(server: MessagesServer, **options: Any) -> AsyncIterator[Any]:
    """Open a `ChatAnthropic` that asks for compaction."""
    langchain = pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is missing")
    edits = {"edits": [{"type": "compact_20260112"}]}
    model = langchain.ChatAnthropic(
        base_url=server.url,
        api_key="test",
        model="claude-test",
        max_retries=0,
        betas=["compact-2026-01-12"],
        context_management=edits,
        **options,
    )
    yield model
    model._client.close()
    await model._async_client.close()


# -- OpenAI Responses -----------------------------------------------------------------------------


class ResponsesServer(_CompactingServer):
    """Answers like OpenAI's Responses."""

    path = "/v1/responses"

    @property
    def url(self) -> str:
        """The base address for a client."""
        return f"{self.origin}/v1"

    def read_compacted(self, body: dict[str, Any]) -> list[str]:
        """Return what came, item by item: a client leaves out itself what an item stands for."""
        return [text for item in body["input"] for text in _read_item(item)]

    def find_faults(self, body: dict[str, Any]) -> Iterator[ScriptedError]:
        for item in body["input"]:
            if item["type"] == "compaction":
                yield from self.refuse_item(item)
            elif item["type"] != "message":
                yield _refuse(f"unexpected item: {json.dumps(item)}")

    def write(self, request: RecordedRequest, reply: ScriptedReply) -> dict[str, Any]:
        number = len(self.requests)
        output: list[dict[str, Any]] = []
        if isinstance(reply, CompactingReply):
            cipher = f"cipher of {len(reply.compaction)}"
            item = {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": cipher}
            output.append(self.hand_out(item))
        if reply.text:
            said = {"type": "output_text", "text": reply.text, "annotations": []}
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            output.append({**message, "status": "completed", "content": [said]})
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "model": request.body["model"],
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 1,
                "output_tokens": 1,
                "total_tokens": 2,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }

    def stream_events(self, whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
        return _stream_response(whole, whole["output"])


def _read_item(item: dict[str, Any]) -> list[str]:
    if item["type"] == "compaction":
        return [f"compacted: {item['encrypted_content']}"]
    content = item["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def _stream_response(
    whole: dict[str, Any], output: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    events = [{"type": "response.created", "response": {**whole, "output": []}}]
    for index, item in enumerate(output):
        at = {"output_index": index}
        events.append({"type": "response.output_item.added", **at, "item": item})
        if item["type"] == "message":
            within = {**at, "item_id": item["id"], "content_index": 0, "logprobs": []}
            text = item["content"][0]["text"]
            events += [
                {"type": "response.output_text.delta", **within, "delta": part} for part in text
            ]
            events.append({"type": "response.output_text.done", **within, "text": text})
        events.append({"type": "response.output_item.done", **at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


@asynccontextmanager
async def chat_openai(server: ResponsesServer, **options: Any) -> AsyncIterator[Any]:
    """Open a `ChatOpenAI` that asks for compaction."""
    openai = pytest.importorskip("openai", reason="openai is not installed")
    langchain = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    with openai.DefaultHttpxClient(verify=False) as client:
        async with openai.DefaultAsyncHttpxClient(verify=False) as async_client:
            yield langchain.ChatOpenAI(
                base_url=server.url,
                api_key="test",
                model="test-model",
                max_retries=0,
                context_management=[{"type": "compaction", "compact_threshold": 1000}],
                http_client=client,
                http_async_client=async_client,
                **options,
            )
