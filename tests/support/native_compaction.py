"""Services on loopback that compact what they are sent, as Anthropic's and OpenAI's do.

Each takes back what it compacted itself, and nothing else: an item that was changed, or is another
service's, is refused.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from langchain_convmem.testing.loopback_server import LoopbackConnection, LoopbackServer
from langchain_convmem.testing.scripted_replies import RecordedRequest, ScriptedError, ScriptedReply

__all__ = ["CompactingReply", "MessagesServer", "ResponsesServer", "chat_anthropic", "chat_openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactingReply(ScriptedReply):
    """A reply before which the service compacts the conversation, to this text."""

    compaction: str


def _refuse(message: str) -> ScriptedError:
    return ScriptedError(status=400, message=message, kind="invalid_request_error")


class _CompactingServer(LoopbackServer):
    """A service that remembers its items.

    Attributes:
        items: What it handed out, as it must come back.
    """

    def __init__(self, reply: Any) -> None:
        super().__init__(reply)
        self.items: list[dict[str, Any]] = []

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests as they came."""
        return [request.body for request in self.requests]

    def hand_out(self, item: dict[str, Any]) -> dict[str, Any]:
        """Remember an item."""
        self.items.append(item)
        return item


class _CompactingConnection(LoopbackConnection):
    path_of_service = ""

    @property
    def service(self) -> _CompactingServer:
        return cast("_CompactingServer", self.server.service)

    def find_wrong_address(self) -> ScriptedError | None:
        is_known = self.command == "POST" and self.bare_path == self.path_of_service
        return None if is_known else ScriptedError(status=404, message=f"no {self.path}")

    def find_fault(self, request: RecordedRequest) -> ScriptedError | None:
        return next(self.find_faults(request.body), None)

    def is_for_embeddings(self) -> bool:
        return False

    def write_embeddings(self, request: dict[str, Any], maker: Any) -> Any:
        raise NotImplementedError

    def find_faults(self, body: dict[str, Any]) -> Iterator[ScriptedError]:
        """Yield what is wrong with a request."""
        raise NotImplementedError

    def refuse_item(self, item: dict[str, Any]) -> Iterator[ScriptedError]:
        """Refuse an item that was not handed out as it is."""
        if item not in self.service.items:
            yield _refuse(f"no such compaction: {json.dumps(item)}")

    def send_fault(self, error: ScriptedError) -> None:
        told = {"type": error.kind, "message": error.message}
        self.send_json(error.status, {"type": "error", "error": told})

    def send_events(self, events: Iterator[dict[str, Any]], reply: ScriptedReply) -> None:
        """Send server-sent events that bear the name of their type."""
        encoded = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
        self.send_stream("text/event-stream", encoded, reply, lambda _: b"")


# -- Anthropic Messages ---------------------------------------------------------------------------


class MessagesServer(_CompactingServer):
    """Answers like Anthropic's Messages."""

    @property
    def url(self) -> str:
        """The base address for a client."""
        return self.origin

    @property
    def connection(self) -> type[LoopbackConnection]:
        """What serves a connection."""
        return _MessagesConnection

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


class _MessagesConnection(_CompactingConnection):
    path_of_service = "/v1/messages"

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

    def send_reply(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        blocks: list[dict[str, Any]] = []
        if isinstance(reply, CompactingReply):
            number = len(self.service.items)
            item = {"type": "compaction", "content": reply.compaction, "signature": f"sig{number}"}
            blocks.append(self.service.hand_out(item))
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        number = self.service.script.take_number()
        whole = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": blocks,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if request.get("stream"):
            self.send_events(_stream_message(whole, blocks), reply)
        else:
            self.send_whole(whole, reply)


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

    @property
    def url(self) -> str:
        """The base address for a client."""
        return f"{self.origin}/v1"

    @property
    def connection(self) -> type[LoopbackConnection]:
        """What serves a connection."""
        return _ResponsesConnection

    def read_compacted(self, body: dict[str, Any]) -> list[str]:
        """Return what came, item by item: a client leaves out itself what an item stands for."""
        return [text for item in body["input"] for text in _read_item(item)]


def _read_item(item: dict[str, Any]) -> list[str]:
    if item["type"] == "compaction":
        return [f"compacted: {item['encrypted_content']}"]
    content = item["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


class _ResponsesConnection(_CompactingConnection):
    path_of_service = "/v1/responses"

    def find_faults(self, body: dict[str, Any]) -> Iterator[ScriptedError]:
        for item in body["input"]:
            if item["type"] == "compaction":
                yield from self.refuse_item(item)
            elif item["type"] != "message":
                yield _refuse(f"unexpected item: {json.dumps(item)}")

    def send_reply(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        number = self.service.script.take_number()
        output: list[dict[str, Any]] = []
        if isinstance(reply, CompactingReply):
            cipher = f"cipher of {len(reply.compaction)}"
            item = {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": cipher}
            output.append(self.service.hand_out(item))
        if reply.text:
            said = {"type": "output_text", "text": reply.text, "annotations": []}
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            output.append({**message, "status": "completed", "content": [said]})
        whole = {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "model": request["model"],
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
        if request.get("stream"):
            self.send_events(_stream_response(whole, output), reply)
        else:
            self.send_whole(whole, reply)


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
