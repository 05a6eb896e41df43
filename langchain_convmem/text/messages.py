"""Messages as templates want them: plain maps of role and content, without bytes.

LangChain messages are mapped; maps are taken as they are, as a template of theirs expects them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import InvalidMessageError

MessageLike = str | BaseMessage | Mapping[str, Any] | tuple[str, Any]
"""Text is the user's; a pair is role and content; a map holds at least `role`."""

TemplateMessage = dict[str, Any]

TEMPLATE_FIELDS = "template_fields"
"""Key in `additional_kwargs` of a LangChain message: a map of what else templates read of it."""

ROLES = {
    "ai": "assistant",
    "assistant": "assistant",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "user": "user",
}
"""Our names of roles by those that templates and providers have for them."""

_MAX_DEPTH = 100
_PLAIN = frozenset({str, int, float, bool, type(None)})
_BUFFERS = (bytes, bytearray, memoryview)

_MEDIA = {
    "audio": "audio",
    "file": "file",
    "image": "image",
    "image_url": "image",
    "input_audio": "audio",
    "input_image": "image",
    "media": "file",
    "video": "video",
}

# Keys of media parts that hold what the media are made of.
_BYTES = {"base64", "blob", "bytes", "data", "file_data"}

_REASONING = ("reasoning", "thinking")
REASONING_KEYS = ("reasoning_content", *_REASONING)

# Parts that repeat what other fields say, or that are for the provider alone.
_CALLS = {
    *("function_call", "input_json_delta", "invalid_tool_call", "redacted_thinking", "tool_call"),
    *("tool_call_chunk", "tool_use"),
}

# Templates write roles between control tokens, where any other sign could end one.
_NAME_OF_ROLE = re.compile(r"\w[\w .-]{0,63}")

_DATA_URL = re.compile(r"\s*data:", re.IGNORECASE)


def build_template_messages(
    messages: Iterable[MessageLike],
    *,
    roles: Mapping[str, str],
    as_parts: bool,
    call_names: MutableMapping[str, str],
) -> list[TemplateMessage]:
    """Return messages as a template gets them; they share nothing with what was given.

    Args:
        messages: In order.
        roles: What the template calls a role, where that differs.
        as_parts: Whether the template wants text in parts; concerns LangChain messages only.
        call_names: Names of tools by the ids of their calls; what is called here is added.

    Raises:
        InvalidMessageError: If one has no role, or holds what templates cannot read.
        TypeError: If one is not a message.
    """
    made = []
    for number, message in enumerate(messages):
        found = _build_message(message, f"message {number}", as_parts=as_parts)
        role = found.get("role")
        if not isinstance(role, str) or not _NAME_OF_ROLE.fullmatch(role):
            told = f"has the role {describe_value(role)}; it needs a name such as 'user'"
            raise InvalidMessageError(f"message {number} {told}")
        _name_results(found, call_names)
        role = ROLES.get(role, role)
        found["role"] = roles.get(role, role)
        made.append(found)
    return made


def _build_message(message: Any, what: str, *, as_parts: bool) -> TemplateMessage:
    if isinstance(message, str | BaseMessage):
        given = HumanMessage(message) if isinstance(message, str) else message
        return _read_langchain(given, what, as_parts=as_parts)
    if isinstance(message, tuple) and len(message) == len(("role", "content")):
        content = make_plain(message[1], what)
        if as_parts and isinstance(content, str):
            content = [{"type": "text", "text": content}]
        message = {"role": message[0], "content": content}
    if not isinstance(message, Mapping):
        told = "pass text, a LangChain message, a map with 'role', or a pair of role and content"
        raise TypeError(f"{what} is a {type(message).__name__}; {told}")
    found: TemplateMessage = make_plain(message, what)
    if isinstance(found.get("content"), list):
        found["content"] = [
            _scrub(part) if isinstance(part, dict) and str(part.get("type")) in _MEDIA else part
            for part in found["content"]
        ]
    return _add_reasoning(found, found.get("reasoning"))


def list_functions(message: TemplateMessage) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the id of each call in a message, and the map of its name and arguments."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function", call) if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield call.get("id"), function


def _name_results(message: TemplateMessage, call_names: MutableMapping[str, str]) -> None:
    """Give a tool's result the tool's name, which some templates go by."""
    for call_id, function in list_functions(message):
        if isinstance(call_id, str) and "name" in function:
            call_names[call_id] = function["name"]
    if message["role"] == "tool" and not message.get("name"):
        name = call_names.get(str(message.get("tool_call_id")))
        if name is not None:
            message["name"] = name


# -- LangChain messages ---------------------------------------------------------------------------
def _read_langchain(message: BaseMessage, what: str, *, as_parts: bool) -> TemplateMessage:
    kind = message.type.removesuffix("MessageChunk").lower()
    known = {**ROLES, "function": "function"}
    role = message.role if isinstance(message, ChatMessage) else known.get(kind)
    if role is None:
        raise InvalidMessageError(f"{what} is a {type(message).__name__}; no template shows it")
    parts, reasoning = _split_parts(message, what)
    content: Any = [part for part in parts if part.get("type") != "text" or part.get("text")]
    is_result = kind in {"function", "tool"}
    if all(part.get("type") == "text" for part in parts) and (is_result or not as_parts):
        content = "".join(str(part.get("text", "")) for part in parts)
    elif is_result:  # few templates read anything but text there
        content = json.dumps(content, ensure_ascii=False)
    made: TemplateMessage = {"role": role, "content": content}
    if message.name:
        made["name"] = make_plain(message.name, what)
    if isinstance(message, ToolMessage):
        made["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage) and message.tool_calls:
        made["tool_calls"] = [
            {
                "type": "function",
                "id": call["id"],
                "function": {"name": call["name"], "arguments": make_plain(call["args"], what)},
            }
            for call in message.tool_calls
        ]
    fields = message.additional_kwargs.get(TEMPLATE_FIELDS)
    more = make_plain(fields, what) if isinstance(fields, Mapping) else {}
    return _add_reasoning({**made, **more, **made}, reasoning or None)


def _split_parts(message: BaseMessage, what: str) -> tuple[list[dict[str, Any]], str]:
    """Return the parts that a template may show, and the reasoning."""
    given = message.content if isinstance(message.content, list) else [message.content]
    parts, reasoning = [], []
    for block in given:
        part = {"type": "text", "text": block} if isinstance(block, str) else block
        kind = str(part.get("type"))
        if kind in _REASONING:
            reasoning += [part[key] for key in _REASONING if isinstance(part.get(key), str)]
        elif kind not in _CALLS:
            parts.append(_build_marker(make_plain(part, what)))
    extra = message.additional_kwargs.get("reasoning_content")
    if not reasoning and isinstance(extra, str):
        reasoning.append(extra)
    return parts, "".join(reasoning)


def _add_reasoning(message: TemplateMessage, reasoning: Any) -> TemplateMessage:
    """Add reasoning under the names that templates know it by."""
    if reasoning is not None:
        for key in REASONING_KEYS:
            message.setdefault(key, reasoning)
    return message


def join_content(first: Any, second: Any) -> Any:
    """Return the content of a message that comes in two parts: text, or a list of blocks."""
    if isinstance(first, str) and isinstance(second, str):
        return first + second
    return [*_list_blocks(first), *_list_blocks(second)]


def _list_blocks(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


# -- media ----------------------------------------------------------------------------------------
def _build_marker(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part that says what it is, not what it is made of; types as templates know them."""
    kind = _MEDIA.get(str(part.get("type")))
    return part if kind is None else {**_scrub(part), "type": kind}


def _scrub(value: Any) -> Any:
    """Return a media part without its bytes, in whatever form they are written."""
    if isinstance(value, list):
        return [_scrub(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _scrub(item)
        for key, item in value.items()
        if key not in _BYTES and not (isinstance(item, str) and _DATA_URL.match(item))
    }


# -- plain values ---------------------------------------------------------------------------------
def make_plain(value: Any, what: str, depth: int = 0) -> Any:
    """Return a copy of a value in types of JSON; bytes are left out of maps and lists.

    Raises:
        InvalidMessageError: If it holds anything else, or is nested too deep.
    """
    if type(value) in _PLAIN:
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):  # a subclass might act within the template
            return kind.__str__(value) if kind is str else kind(value)
    if depth > _MAX_DEPTH:
        raise InvalidMessageError(f"{what} is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {
            str(key): item if type(item) in _PLAIN else make_plain(item, f"{what}.{key}", depth + 1)
            for key, item in value.items()
            if not isinstance(item, _BUFFERS)
        }
    if isinstance(value, list | tuple):
        return [
            make_plain(item, f"{what}[{number}]", depth + 1)
            for number, item in enumerate(value)
            if not isinstance(item, _BUFFERS)
        ]
    told = "templates read text, numbers, lists and maps only"
    raise InvalidMessageError(f"{what} is a {type(value).__name__}; {told}")


def build_template_tool(tool: Any) -> Any:
    """Return a tool as templates want it: a map is taken as it is, anything else is described."""
    if isinstance(tool, Mapping):
        return tool
    if isinstance(tool, BaseTool) or callable(tool):
        return convert_to_openai_tool(tool)
    told = "pass a map, a function, a BaseTool or a pydantic class"
    raise TypeError(f"{describe_value(tool)} is not a tool; {told}")
