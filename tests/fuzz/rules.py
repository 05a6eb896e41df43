"""The providers' rules as the judges read them: apart from the package's own profiles.

Sources: the API references of Anthropic Messages, Bedrock Converse, Chat Completions and Gemini
`generateContent`, and the errors their services answer.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage


@dataclass(frozen=True)
class Rules:
    """One provider's rules.

    Attributes:
        call_id: Pattern of a call's id.
        tool_name: Pattern of a tool's name.
        speaker: Pattern of a message's `name`; None where it is never sent.
        media: By place and kind: accepted forms and media types.
        most: Media of a kind in one request.
        system_anywhere: Whether system messages may stand between others.
        alternates: Whether two user messages may never follow each other.
        text_keys: What a text block may hold.
        thoughts: Judge of a reasoning block; None where none is taken.
        server_tools: Whether blocks of tools that ran at the provider are taken.
        compactions: What an item of its own compaction holds; empty where none is taken.
        error_is_text: Whether a failed result holds text only.
        named_files: Whether each file needs its own plain name, and text beside it.
    """

    call_id: str = ".*"
    tool_name: str = "[a-zA-Z0-9_-]{1,64}"
    speaker: str | None = None
    media: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    system_anywhere: bool = False
    alternates: bool = True
    text_keys: frozenset[str] = frozenset({"type", "text"})
    thoughts: Callable[[Mapping[str, Any], AIMessage], bool] | None = None
    server_tools: bool = False
    compactions: str = ""
    error_is_text: bool = False
    named_files: bool = False


def bytes_of(data: Any) -> bytes:
    """Return what base64 text says; nothing where it is none."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


def _made_by(message: AIMessage, *names: str) -> bool:
    return message.response_metadata.get("model_provider") in (None, *names)


def _claude_takes(block: Mapping[str, Any], message: AIMessage) -> bool:
    if not _made_by(message, "anthropic"):
        return False
    if block["type"] == "redacted_thinking":
        return isinstance(block.get("data"), str) and bool(block["data"])
    is_signed = isinstance(block.get("signature"), str) and bool(block["signature"])
    return block["type"] == "thinking" and isinstance(block.get("thinking"), str) and is_signed


def _converse_takes(block: Mapping[str, Any], message: AIMessage) -> bool:
    inner = block.get("reasoning_content")
    if not isinstance(inner, dict) or not _made_by(message, "bedrock", "bedrock_converse"):
        return False
    return all(isinstance(inner.get(key), str) and inner[key] for key in ("text", "signature"))


def _gemini_takes(block: Mapping[str, Any], message: AIMessage) -> bool:
    if block["type"] != "thinking" or not _made_by(message, "google_genai", "google_vertexai"):
        return False
    text, signature = block.get("thinking"), block.get("signature")
    return isinstance(text, str) and bool(text.strip()) and bool(bytes_of(signature))


_PICTURES = "image/(png|jpeg|gif|webp)"
_CONVERSE_FILES = (
    "application/pdf|text/(csv|html|plain|markdown)|application/msword|"
    r"application/vnd\.openxmlformats-officedocument\.(wordprocessingml\.document|"
    r"spreadsheetml\.sheet)|application/vnd\.ms-excel"
)
_GEMINI_PICTURES = "image/(png|jpeg|webp|heic|heif)"

RULES: Mapping[str, Rules] = {
    "bedrock_converse": Rules(
        call_id="[a-zA-Z0-9_-]{1,64}",
        media={
            ("user", "image"): ("base64", _PICTURES),
            ("user", "video"): ("base64", "video/.+"),
            ("user", "file"): ("base64", _CONVERSE_FILES),
            ("tool", "image"): ("base64", _PICTURES),
            ("tool", "file"): ("base64", "application/pdf"),
        },
        most={"image": 20, "file": 5},
        thoughts=_converse_takes,
        named_files=True,
    ),
    "anthropic": Rules(
        call_id="[a-zA-Z0-9_-]{1,64}",
        tool_name="[a-zA-Z0-9_-]{1,128}",
        media={
            ("user", "image"): ("base64 url file_id", _PICTURES),
            ("user", "file"): ("base64 url file_id", "application/pdf"),
            ("tool", "image"): ("base64 url", _PICTURES),
            ("tool", "file"): ("base64 url", "application/pdf"),
        },
        most={"image": 100},
        text_keys=frozenset({"type", "text", "cache_control"}),
        thoughts=_claude_takes,
        server_tools=True,
        compactions="content",
        error_is_text=True,
    ),
    "openai": Rules(
        call_id=".{1,40}",
        speaker="[a-zA-Z0-9_-]{1,64}",
        media={
            ("user", "image"): ("base64 url", _PICTURES),
            ("user", "audio"): ("base64", "audio/(wav|mp3)"),
            ("user", "file"): ("base64 file_id", "application/pdf"),
        },
        system_anywhere=True,
        alternates=False,
    ),
    "gemini": Rules(
        tool_name="[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
        media={
            ("user", "image"): ("base64 url file_id", _GEMINI_PICTURES),
            ("user", "audio"): ("base64 url file_id", "audio/.+"),
            ("user", "video"): ("base64 url file_id", "video/.+"),
            ("user", "file"): ("base64 url file_id", "application/pdf"),
            ("assistant", "image"): ("base64", _GEMINI_PICTURES),
            ("tool", "image"): ("base64 url", _GEMINI_PICTURES),
        },
        thoughts=_gemini_takes,
    ),
}
RULES = {**RULES, "openai_responses": replace(RULES["openai"], compactions="encrypted_content")}
FILE_IDS = {
    "anthropic": "file_",
    "openai": "file-",
    "openai_responses": "file-",
    "gemini": "https://",
}
