"""Content blocks as models, integrations and people really write them, sound and broken."""

from __future__ import annotations

import base64
import random
from typing import Any

BLANKS = ("", " ", "\n\t ", "\u3000")
TEXTS = (
    "Where did I park?",
    "On level 3.",
    "汉字",
    "  padded \n",
    "trailing ",
    "x" * 300,
    "👩‍👩‍👧 🦊",
    '{"json": 1}',
    "NUL \x00 and \x1b",
    "Bo: not Bo",
)
PROVIDERS = (
    None,
    "anthropic",
    "openai",
    "bedrock_converse",
    "bedrock",
    "google_genai",
    "google_vertexai",
    "groq",
)

_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
_JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(20)).decode()
_PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(20)).decode()
_WAV = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(8)).decode()
_MP4 = base64.b64encode(b"\x00\x00\x00\x18ftypmp42" + bytes(20)).decode()
_URL = "https://example.org/a.png"
_SIGNATURE = base64.b64encode(b"signed").decode()

_MEDIA: tuple[Any, ...] = (
    {"type": "image", "base64": _PNG, "mime_type": "image/png"},
    {"type": "image", "base64": _JPEG, "mime_type": "image/jpg"},
    {"type": "image", "base64": _JPEG, "mime_type": "image/png"},
    {"type": "image", "base64": "aGk", "mime_type": "image/gif", "id": "lc_1", "index": 0},
    {"type": "image", "base64": "not base64!", "mime_type": "image/png"},
    {"type": "image", "base64": "", "mime_type": "image/png"},
    {"type": "image", "base64": _PNG, "extras": {"detail": None}},
    {"type": "image", "url": _URL},
    {"type": "image", "url": f"data:image/png;base64,{_PNG}"},
    {"type": "image", "url": "gs://bucket/a.png"},
    {"type": "image", "url": "not an address"},
    {"type": "image", "file_id": "file-abc123"},
    {"type": "image", "file_id": "file_011abc"},
    {"type": "image", "source_type": "base64", "data": _PNG, "mime_type": "image/png"},
    {"type": "image", "source_type": "base64", "data": _PNG},
    {"type": "image", "source_type": "url", "url": _URL},
    {"type": "image", "source_type": "id", "id": "file_011abc"},
    {"type": "image_url", "image_url": {"url": _URL}},
    {"type": "image_url", "image_url": {"url": _URL, "detail": "low"}},
    {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{_JPEG}"}},
    {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zz4="}},
    {"type": "image_url", "image_url": _URL},
    {"type": "image_url", "image_url": f"data:image/png;base64,{_PNG}"},
    {"type": "file", "base64": _PNG, "mime_type": "image/png"},
    {"type": "image", "base64": _PDF, "mime_type": "application/pdf"},
    {"type": "image_url", "image_url": {}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}},
    {"type": "image", "source": {"type": "url", "url": _URL}, "cache_control": {"type": "x"}},
    {"type": "image", "source": {}},
    {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\nx"}}},
    {"type": "image", "image": {"format": "webp", "source": {"bytes": b"RIFF1234WEBPx"}}},
    {"type": "media", "mime_type": "image/png", "data": base64.b64decode(_PNG)},
    {"type": "media", "mime_type": "video/mp4", "file_uri": "https://example.org/v.mp4"},
    {"type": "media"},
    {"type": "audio", "base64": _WAV, "mime_type": "audio/x-wav"},
    {"type": "audio", "base64": _WAV, "mime_type": "audio/mpeg"},
    {"type": "audio", "url": "https://example.org/a.mp3"},
    {"type": "input_audio", "input_audio": {"data": _WAV, "format": "wav"}},
    {"type": "video", "base64": _MP4, "mime_type": "video/mp4"},
    {"type": "video", "url": "https://example.org/v.mp4"},
    {"type": "file", "base64": _PDF, "mime_type": "application/pdf"},
    {"type": "file", "base64": _PDF, "mime_type": "application/pdf", "filename": "año 1.pdf"},
    {"type": "file", "base64": "YSxi", "mime_type": "text/csv", "filename": "t.csv"},
    {"type": "file", "base64": "/////w==", "mime_type": "text/plain"},
    {"type": "file", "base64": "UEsDBA==", "mime_type": "application/zip"},
    {"type": "file", "url": "https://example.org/a.pdf", "mime_type": "application/pdf"},
    {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{_PDF}"}},
    {"type": "file", "file": {"file_id": "file-abc123"}},
    {"type": "file", "file": {"bytes": b"%PDF-1.7\x00"}},
    {"type": "file", "source_type": "text", "text": "inside", "mime_type": "text/plain"},
    {"type": "text-plain", "text": "inside", "title": "notes"},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "doc"}},
    {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": _PDF},
    },
    {"type": "document", "document": {"format": "pdf", "name": "x", "source": {"bytes": b"%PDF-"}}},
    {"document": {"format": "csv", "name": "a.b", "source": {"bytes": b"a,b"}}},
    {"type": "file", "base64": "A" * 400, "mime_type": "application/pdf", "extras": {"name": "q?"}},
)
COUNTED: tuple[tuple[Any, int], ...] = (
    ({"type": "image", "base64": _PNG, "mime_type": "image/png"}, 20),
    ({"type": "file", "base64": _PDF, "mime_type": "application/pdf", "name": "a"}, 5),
    ({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, 4),
)
"""Blocks of which some provider takes only so many in a request, and how many."""
_THOUGHTS: tuple[Any, ...] = (
    {"type": "thinking", "thinking": "Hm.", "signature": _SIGNATURE},
    {"type": "thinking", "thinking": "", "signature": "sig", "index": 0},
    {"type": "thinking", "thinking": "unsigned"},
    {"type": "thinking", "thinking": None, "signature": 5},
    {"type": "redacted_thinking", "data": "abc"},
    {"type": "redacted_thinking"},
    {"type": "reasoning_content", "reasoning_content": {"text": "Hm.", "signature": "sig"}},
    {"type": "reasoning_content", "reasoning_content": {"text": "Hm."}},
    {"type": "reasoning_content", "reasoning_content": {"redacted_content": b"x"}},
    {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": _SIGNATURE}},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
)
_SERVER_TOOLS: tuple[list[Any], ...] = (
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "url": _URL, "encrypted_content": "e"}],
        },
    ],
    [{"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {}}],
    [{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_3", "content": [{"a": 1}]}],
    [{"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "m", "input": {}, "server_name": "s"}],
    [
        {"type": "server_tool_call", "id": "s1", "name": "code_interpreter", "args": {"code": "1"}},
        {"type": "server_tool_result", "tool_call_id": "s1", "status": "success", "output": "1"},
    ],
    [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
    [{"type": "compaction", "content": "They spoke of snow.", "signature": "s"}],
    [
        {"type": "compaction", "content": "They spoke of snow.", "index": 0},
        {"type": "text", "text": "Yes."},
    ],
    [{"type": "compaction", "content": None}, {"type": "text", "text": "Yes."}],
    [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
        {"type": "text", "text": "Yes."},
    ],
    [{"type": "compaction", "id": "cmp_2"}],
    [{"type": "executable_code", "executable_code": "1", "language": "python"}],
    [{"type": "code_execution_result", "code_execution_result": "1", "outcome": 1}],
)
_WRITTEN_BY = {
    "anthropic": {"thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result",
                  "mcp_tool_use", "compaction", "tool_use"},
    "bedrock": {"reasoning_content", "tool_use"},
    "bedrock_converse": {"reasoning_content", "tool_use"},
    "google_genai": {"thinking"},
    "google_vertexai": {"thinking"},
    "openai": {"refusal", "compaction"},
}  # fmt: skip


def keep_own(content: str | list[Any], provider: str | None) -> str | list[Any]:
    """Return what a provider that is known writes itself of a content: no other's blocks."""
    own = _WRITTEN_BY.get(provider or "")
    if isinstance(content, str) or own is None:
        return content
    kept = [
        block
        for block in content
        if isinstance(block, str)
        or (block.get("type") == "text" and block.keys() <= {"type", "text"})
        or str(block.get("type")) in own
    ]
    return kept or "Well."


_ODD: tuple[Any, ...] = (
    {"type": "refusal", "refusal": "I would rather not."},
    {"type": "refusal", "refusal": ""},
    {"type": "guard_content", "text": "guarded"},
    {"type": "json", "json": {"a": [1]}},
    {"json": {"a": 1}},
    {"text": "no type"},
    {"cachePoint": {"type": "default"}},
    {
        "type": "search_result",
        "source": _URL,
        "title": "T",
        "content": [{"type": "text", "text": "S"}],
    },
    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "22"}]},
    {"type": "non_standard", "value": {"type": "text", "text": "wrapped"}},
    {"type": "non_standard", "value": {"cachePoint": {"type": "default"}}},
    {"type": "non_standard"},
    {"type": "never heard of", "x": 1},
    {"type": ["a", "list"]},
    {"type": None, "text": 5},
    {"type": "text"},
    {"type": "text", "text": None},
    {"type": "text", "text": 7},
    {},
    {"type": "tool_call", "id": "c1", "name": "weather", "args": {}},
    {"type": "tool_use", "id": "c1", "name": "weather", "input": {}},
    {"type": "tool_use"},
    {"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "w", "arguments": "{}"},
    {"type": "invalid_tool_call", "id": "c7", "name": "w", "args": "{"},
    {"type": "input_json_delta", "partial_json": "{"},
    {"type": "additional_tools", "tools": []},
    {"type": "computer_call", "call_id": "cc", "action": {}},
    {"toolUse": {"toolUseId": "c1", "name": "w", "input": {}}},
    {"toolResult": {"toolUseId": "c1", "content": [{"text": "22"}]}},
)


def _text_block(rng: random.Random) -> Any:
    text = rng.choice(BLANKS if rng.random() < 0.15 else TEXTS)
    more: Any = rng.choice(
        (
            {},
            {},
            {},
            {"index": 0},
            {"annotations": []},
            {"id": "lc_2", "extras": {"signature": _SIGNATURE}},
            {"cache_control": {"type": "ephemeral"}},
            {"citations": [{"type": "char_location", "cited_text": "x"}]},
        )
    )
    return text if rng.random() < 0.2 else {"type": "text", "text": text, **more}


def _mixed(rng: random.Random, *pools: tuple[Any, ...]) -> list[Any]:
    blocks: list[Any] = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
        chance = rng.random()
        if chance < 0.45:
            blocks.append(_text_block(rng))
        else:
            found = rng.choice(rng.choice(pools))
            blocks.extend(found if isinstance(found, list) else [found])
    return blocks


def user_blocks(rng: random.Random) -> list[Any]:
    """Return the content of a user's or a system message."""
    return _mixed(rng, _MEDIA, _MEDIA, _MEDIA, _ODD, _THOUGHTS)


def assistant_blocks(rng: random.Random) -> list[Any]:
    """Return the content of an assistant's message."""
    return _mixed(rng, _THOUGHTS, _THOUGHTS, _SERVER_TOOLS, _ODD, _MEDIA)


def tool_blocks(rng: random.Random) -> list[Any]:
    """Return the content of a tool's result."""
    return _mixed(rng, _MEDIA, _MEDIA, _ODD)


def odd_value(rng: random.Random) -> Any:
    """Return something that a tool may be asked with and that is no plain JSON, or barely."""
    return rng.choice(
        (
            float("nan"),
            float("inf"),
            b"bytes",
            {1, 2},
            (1, 2),
            "half \ud83d",
            {"deep": [[[[{}]]]]},
            10**30,
            None,
            {"camelCase": {"snake_case": 1}},
        )
    )
