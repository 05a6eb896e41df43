"""Which content blocks Converse refuses wherever they stand. Pure.

Source: the public API reference of Bedrock and the error bodies of its service.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_convmem.testing.bedrock_converse_wire import OWN_SIGNATURE, signature_of

__all__ = ["block_faults"]

_KNOWN = frozenset(
    {
        "audio",
        "cachePoint",
        "citationsContent",
        "document",
        "guardContent",
        "image",
        "reasoningContent",
        "searchResult",
        "text",
        "toolResult",
        "toolUse",
        "video",
    }
)
_ONLY_FROM = {
    "audio": "user",
    "document": "user",
    "image": "user",
    "reasoningContent": "assistant",
    "searchResult": "user",
    "toolResult": "user",
    "toolUse": "assistant",
    "video": "user",
}
_IN_RESULTS = frozenset({"document", "image", "json", "searchResult", "text", "video"})
_FORMATS = {
    "document": frozenset({"csv", "doc", "docx", "html", "md", "pdf", "txt", "xls", "xlsx"}),
    "image": frozenset({"gif", "jpeg", "png", "webp"}),
    "video": frozenset({"flv", "mkv", "mov", "mp4", "mpeg", "mpg", "three_gp", "webm", "wmv"}),
}
_MOST_BYTES = {"document": 4_500_000, "image": 3_750_000, "video": 25_000_000}
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DOCUMENT_NAME = re.compile(r"(?!.{201})[a-zA-Z0-9()\[\]-]+(?:\s[a-zA-Z0-9()\[\]-]+)*")


def block_faults(block: object, role: str, at: str) -> Iterator[str]:
    """Yield what is wrong with one block of a message.

    Args:
        block: The block.
        role: Whose message it stands in.
        at: Its place, such as `messages.0.content.1`.
    """
    kind = _kind_of(block, _KNOWN)
    if kind is None or not isinstance(block, Mapping):
        yield f"The ContentBlock object at {at} must set exactly one known field, got {block!r:.60}"
        return
    if _ONLY_FROM.get(kind, role) != role:
        yield (
            f"The {kind} field at {at} is only allowed in messages of the role "
            f"{_ONLY_FROM[kind]}, not of {role}."
        )
        return
    yield from _inner_faults(kind, block[kind], at)


def _kind_of(block: object, known: frozenset[str]) -> str | None:
    """Return the one member that a union has; None where it has none, another, or more."""
    if not isinstance(block, Mapping) or len(block) != 1:
        return None
    [kind] = block
    return kind if kind in known else None


def _inner_faults(kind: str, value: Any, at: str) -> Iterator[str]:
    if kind == "text":
        yield from _text_faults(value, at)
    elif kind == "toolUse":
        yield from _call_faults(value, at)
    elif kind == "toolResult":
        yield from _result_faults(value, at)
    elif kind == "reasoningContent":
        yield from _reasoning_faults(value, at)
    elif kind in _FORMATS:
        yield from _media_faults(kind, value, at)


def _text_faults(text: object, at: str) -> Iterator[str]:
    if not isinstance(text, str) or not text.strip():
        yield (
            f"The text field in the ContentBlock object at {at} is blank. Add text to the text "
            "field, and try again."
        )


# -- tools ----------------------------------------------------------------------------------------


def _call_faults(call: object, at: str) -> Iterator[str]:
    if not isinstance(call, Mapping):
        yield f"The value at {at}.toolUse is no tool use."
        return
    yield from _pattern_faults(call.get("toolUseId"), _CALL_ID, f"{at}.toolUse.toolUseId")
    yield from _pattern_faults(call.get("name"), _TOOL_NAME, f"{at}.toolUse.name")
    if not isinstance(call.get("input"), Mapping):
        yield (
            f"The format of the value at {at}.toolUse.input is invalid. Provide a json object for "
            "the field and try again."
        )


def _pattern_faults(value: object, pattern: re.Pattern[str], at: str) -> Iterator[str]:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        yield (
            f"1 validation error detected: Value {value!r} at '{at}' failed to satisfy "
            f"constraint: Member must satisfy regular expression pattern: {pattern.pattern}"
        )


def _result_faults(result: object, at: str) -> Iterator[str]:
    if not isinstance(result, Mapping):
        yield f"The value at {at}.toolResult is no tool result."
        return
    yield from _pattern_faults(result.get("toolUseId"), _CALL_ID, f"{at}.toolResult.toolUseId")
    if result.get("status", "success") not in ("success", "error"):
        yield (
            f"1 validation error detected: Value {result['status']!r} at "
            f"'{at}.toolResult.status' failed to satisfy constraint: Member must satisfy enum "
            "value set: [success, error]"
        )
    content = result.get("content")
    if not isinstance(content, list) or not content:
        yield (
            f"The content field in the ToolResultBlock object at {at} is empty. Add a "
            "ToolResultContentBlock object to the content field and try again."
        )
        return
    for number, block in enumerate(content):
        inside = f"{at}.toolResult.content.{number}"
        kind = _kind_of(block, _IN_RESULTS)
        if kind is None:
            yield f"The ToolResultContentBlock object at {inside} must set exactly one known field."
        elif kind != "json":
            yield from _inner_faults(kind, block[kind], inside)


# -- reasoning ------------------------------------------------------------------------------------


def _reasoning_faults(value: object, at: str) -> Iterator[str]:
    told = value.get("reasoningText") if isinstance(value, Mapping) else None
    if not isinstance(told, Mapping):
        if not (isinstance(value, Mapping) and value.get("redactedContent")):
            yield f"The value at {at}.reasoningContent is no reasoning."
        return
    text, signature = told.get("text"), told.get("signature")
    if not isinstance(text, str):
        yield f"The text field at {at}.reasoningContent.reasoningText must be text."
    elif not isinstance(signature, str) or not signature:
        yield f"The signature field at {at}.reasoningContent.reasoningText is missing."
    elif signature.startswith(OWN_SIGNATURE) and signature != signature_of(text):
        yield (
            "The model returned the following errors: "
            f"{at}: Invalid `signature` in `thinking` block"
        )


# -- media ----------------------------------------------------------------------------------------


def _media_faults(kind: str, value: object, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"The value at {at}.{kind} is no {kind}."
        return
    if value.get("format") not in _FORMATS[kind]:
        yield (
            f"1 validation error detected: Value {value.get('format')!r} at '{at}.{kind}.format' "
            f"failed to satisfy constraint: Member must satisfy enum value set: "
            f"{sorted(_FORMATS[kind])}"
        )
    yield from _source_faults(kind, value.get("source"), at)
    name = value.get("name")
    if kind == "document" and not (isinstance(name, str) and _DOCUMENT_NAME.fullmatch(name)):
        yield (
            "The document file name can only contain alphanumeric characters, whitespace "
            "characters, hyphens, parentheses, and square brackets. The name can't contain more "
            f"than one consecutive whitespace character: {name!r:.80} at {at}"
        )


def _source_faults(kind: str, source: object, at: str) -> Iterator[str]:
    form = _kind_of(source, frozenset({"bytes", "content", "s3Location", "text"}))
    if form is None or not isinstance(source, Mapping):
        yield f"The source field at {at}.{kind} must set exactly one known field."
        return
    if form != "bytes":
        return
    data = _decoded(source["bytes"])
    if not data:
        yield f"The bytes field at {at}.{kind}.source is empty or no base64."
    elif len(data) > _MOST_BYTES[kind]:
        yield (
            f"The {kind} at {at} has {len(data)} bytes; the most allowed is {_MOST_BYTES[kind]}."
        )


def _decoded(data: object) -> bytes:
    if not isinstance(data, str):
        return b""
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return b""
