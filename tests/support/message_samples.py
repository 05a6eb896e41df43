"""Messages of every type and chunk, with every kind of field and value, by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)

_CALL: dict[str, Any] = {"name": "weather", "args": {"city": "Genoa", "days": 2}, "id": "c1"}

_VALUES: dict[str, Any] = {
    "bytes": b"\x00\xff raw",
    "tuple": (1, ("nested", [2.5])),
    "set": {"b", "a", 3},
    "sets": frozenset({frozenset({1, 2}), frozenset()}),
    "datetime": datetime(2026, 9, 3, 18, 20, 0, 123456, tzinfo=UTC),
    "offset": datetime(2026, 9, 3, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "naive": datetime(2026, 9, 3, 18, 20),  # noqa: DTZ001 - kept as it is, without a zone
    "date": date(2026, 9, 3),
    "decimal": Decimal("1.10"),
    "floats": [float("nan"), float("-inf"), -0.0, 1.0],
    "huge": 2**70,
    "true": True,
    "none": None,
    "empty": [{}, [], (), set(), ""],
}

_DOLLAR_KEYS: dict[str, Any] = {
    "bytes": {"$bytes": "bG9vaw=="},
    "set": {"$set": [1, 1]},
    "map": {"$map": [["$map", 1]]},
    "deep": {"$ref": {"$ref": {"$tuple": None}}},
    "several": {"$set": [1], "$tuple": [2]},
    "bare": {"$": 0},
    "unknown": {"$points": "x"},
}


def _make_stripped_reply() -> AIMessage:
    raw = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    message = AIMessage("Never mind.", additional_kwargs={"tool_calls": [raw]})
    message.tool_calls = []
    return message


SAMPLE_MESSAGES: dict[str, Callable[[], BaseMessage]] = {
    "human": lambda: HumanMessage("Where did I park?"),
    "human with everything": lambda: HumanMessage(
        "Behind the harbour.",
        id="h-1",
        name="Ana María",
        additional_kwargs={"timestamp": "2026-09-03T18:20:00+02:00", "session": 4},
        response_metadata={"seen": True},
    ),
    "human with fields of its own": lambda: HumanMessage("Hm.", mood="calm", marks=[1, {"a": 2}]),
    "human of several texts": lambda: HumanMessage(["one", {"type": "text", "text": "two"}, " "]),
    "human with media": lambda: HumanMessage(
        [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "image", "source_type": "base64", "data": "AAEC", "mime_type": "image/png"},
            {"type": "file", "file": {"bytes": b"%PDF-1.7\x00"}},
            {"type": "image", "url": "data:image/png;base64,AAEC", "extras": {"detail": None}},
        ]
    ),
    "system": lambda: SystemMessage("Answer briefly.", additional_kwargs={"cache": {"ttl": 300}}),
    "ai": lambda: AIMessage(
        "Behind the harbour.",
        id="lc_run--0197-0",
        usage_metadata={
            "input_tokens": 9,
            "output_tokens": 4,
            "total_tokens": 13,
            "input_token_details": {"cache_read": 3},
        },
        response_metadata={"model_name": "m", "finish_reason": "stop", "logprobs": None},
    ),
    "ai with parallel calls": lambda: AIMessage(
        "", tool_calls=[_CALL, {**_CALL, "id": "c2"}, {**_CALL, "id": None}]
    ),
    "ai with broken calls": lambda: AIMessage(
        "",
        tool_calls=[_CALL],
        invalid_tool_calls=[
            {"name": "weather", "args": '{"city": ', "id": "c2", "error": "unfinished"}
        ],
    ),
    "ai with blocks": lambda: AIMessage(
        [
            {"type": "reasoning", "reasoning": "The harbour was named.", "signature": "c2ln"},
            {"type": "text", "text": "Let me look.", "annotations": [{"start": 0, "end": 3}]},
            {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Genoa"}},
        ],
        tool_calls=[_CALL],
    ),
    "ai whose calls were taken out": _make_stripped_reply,
    "tool": lambda: ToolMessage("22 °C", tool_call_id="c1", name="weather"),
    "failed tool with an artifact": lambda: ToolMessage(
        [{"type": "text", "text": "no such city"}],
        tool_call_id="c2",
        status="error",
        artifact=_VALUES,
        id="t-1",
    ),
    "values beyond JSON": lambda: HumanMessage("x", additional_kwargs=_VALUES),
    "keys that start with a dollar": lambda: HumanMessage("x", additional_kwargs=_DOLLAR_KEYS),
    "a key of halves": lambda: HumanMessage("x", additional_kwargs={"\ud83d\ude00": "\ud83d"}),
    "chat": lambda: ChatMessage(content="Enter Ophelia.", role="narrator"),
    "function": lambda: FunctionMessage(content="22", name="weather"),
    "human chunk": lambda: HumanMessageChunk(content="Whe"),
    "system chunk": lambda: SystemMessageChunk(content="Answ"),
    "chat chunk": lambda: ChatMessageChunk(content="Ent", role="narrator"),
    "function chunk": lambda: FunctionMessageChunk(content="2", name="weather"),
    "tool chunk": lambda: ToolMessageChunk(content="2", tool_call_id="c1", artifact=b"\x00"),
    "ai chunk": lambda: AIMessageChunk(
        content="Beh", id="lc_run--0197", response_metadata={"n": 1}
    ),
    "ai chunk with half a call": lambda: AIMessageChunk(
        content="",
        tool_call_chunks=[
            {"name": "weather", "args": '{"city": "Gen', "id": "c1", "index": 0},
            {"name": None, "args": "[1", "id": None, "index": 1},
        ],
    ),
    "last ai chunk": lambda: AIMessageChunk(
        content=[{"type": "server_tool_call_chunk", "id": "s1", "args": "{}", "index": 0}],
        chunk_position="last",
        response_metadata={"output_version": "v1"},
    ),
}
"""A fresh message by name."""
