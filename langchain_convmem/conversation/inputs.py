"""What a send takes: messages in any form, read and checked; what comes out is shared with nobody.

Media are read as they come in, so that a turn can be repeated from its messages alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.prompt_values import PromptValue

from langchain_convmem.causes import ErrorTrap, describe_name, describe_value
from langchain_convmem.conversation.media import MediaLimits, settle_media
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import make_ulid
from langchain_convmem.text.messages import REASONING_KEYS, ROLES, TEMPLATE_FIELDS, make_plain
from langchain_convmem.views.codec import decode_message
from langchain_convmem.views.messages import (
    MESSAGE_FORMS,
    OneMessage,
    change_class,
    copy_detached,
    get_block_type,
    read_messages,
)

M = TypeVar("M", bound=BaseMessage)
ConversationInput: TypeAlias = OneMessage | PromptValue | Sequence[OneMessage]
"""Text is the user's; a pair is role and content; a map holds `role` and `content`; or a list."""

_CLASSES: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}
_ROLE = re.compile(r"\S{1,64}")
_PARTS = {*("audio", "file", "image", "image_url", "input_audio"), *("reasoning", "text")}
_PARTS |= {"thinking", "tool_call", "video"}
"""Types of parts that a map's content may hold; LangChain messages may hold any of a provider."""

_MOST_KEYS = 8


def coerce_messages(
    value: ConversationInput, *, limits: MediaLimits | None = None
) -> list[BaseMessage]:
    """Return what was given as LangChain messages; reads the files that parts name.

    Args:
        value: Text of the user, a LangChain message, a map, a pair, a prompt's value, or a list of
            messages; an empty list is allowed.
        limits: How large media may be and where they may lie; the defaults if None.

    Returns:
        Copies, in order. Keys of a map that have no place of their own in a message stand in
        `additional_kwargs` for chat templates.

    Raises:
        InvalidMessageError: If it is nothing that could be a message, lacks its role or content,
            or holds parts or media that cannot be read.
    """
    messages: list[BaseMessage] = []
    for number, given in enumerate(read_messages(value, _read_map)):
        what = f"message {number}"
        with ErrorTrap(TypeError, RecursionError) as trap:
            message = copy_message(given)
        if trap.reason:
            raise InvalidMessageError(f"{what} holds what cannot be copied: {trap.reason}")
        if isinstance(message, ChatMessage):
            # A role that has a class of its own, such as `model`, is one of that.
            kind = _CLASSES.get(ROLES.get(message.role.lower(), ""))
            message = message if kind is None else change_class(message, kind)
        settle_media(message, limits or MediaLimits(), what)
        messages.append(message)
    return messages


# -- Messages as maps of role and content, as chat templates and OpenAI have them -----------------


def copy_message(message: M) -> M:
    """Return a message that shares nothing with another but what a tool keeps for itself."""
    return copy_detached(message, shared=("artifact",))


def _describe(value: Any) -> str:
    """Return what a value is, for an error: its type and keys, never what it says."""
    if value is None:
        return "None"
    kind = f"of type {type(value).__name__}"
    if not isinstance(value, Mapping):
        return kind
    keys = ", ".join(sorted(f"'{describe_name(key)}'" for key in value)[:_MOST_KEYS])
    return f"{kind} with the keys {keys or 'none'}"


def _read_map(value: Mapping[str, Any], what: str) -> BaseMessage:
    """Return a map as a message; media are left as they are.

    Args:
        value: Holds `role` and `content`, an assistant's `tool_calls`, a tool's `tool_call_id`;
            further keys are kept for chat templates.
        what: Names the message in errors.

    Raises:
        InvalidMessageError: If it lacks what its role needs, or holds what cannot be read.
    """
    if "role" not in value:
        with ErrorTrap(TypeError, ValueError, AttributeError, LookupError):  # LangChain's own form
            return decode_message({**value.get("data", value), "type": value["type"]})
        way = f"{MESSAGE_FORMS}; wrap parts as {{'role': 'user', 'content': [...]}}"
        raise InvalidMessageError(f"{what} has no role: it is {_describe(value)}; {way}")
    role, rest = value["role"], {key: item for key, item in value.items() if key != "role"}
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        raise InvalidMessageError(
            f"{what} has the role {describe_value(role)}; it needs one such as 'user'"
        )
    known = ROLES.get(role.lower())
    read = _READERS.get(known or "", _read_said)
    content, own = read(rest, what)
    more = _read_fields(rest, what)
    own["additional_kwargs"] = {**more.pop("additional_kwargs"), **own.pop("additional_kwargs", {})}
    if known == "tool":
        return ToolMessage(content, **own, **more)
    if known is None:
        return ChatMessage(content=content, role=role, **own, **more)
    return _CLASSES[known](content=content, **own, **more)


def _read_said(rest: dict[str, Any], what: str) -> tuple[Any, dict[str, Any]]:
    return _read_content(rest, what), {}


def _read_assistant(rest: dict[str, Any], what: str) -> tuple[Any, dict[str, Any]]:
    calls, broken = _read_calls(rest.pop("tool_calls", None), what)
    thoughts = [rest.pop(key) for key in REASONING_KEYS if isinstance(rest.get(key), str)]
    own: dict[str, Any] = {"tool_calls": calls, "invalid_tool_calls": broken}
    if thoughts:
        own["additional_kwargs"] = {"reasoning_content": thoughts[0]}
    if (calls or broken) and rest.get("content") is None:
        rest["content"] = ""
    return _read_content(rest, what), own


def _read_tool(rest: dict[str, Any], what: str) -> tuple[Any, dict[str, Any]]:
    call_id = rest.pop("tool_call_id", None)
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessageError(
            f"{what} is a tool's result with the tool_call_id {call_id!r}; "
            "it needs the id of the call that it answers"
        )
    given = rest.get("content")
    if given is not None and not isinstance(given, str) and not _is_parts(given):
        rest["content"] = json.dumps(make_plain(given, what), ensure_ascii=False)
    status = "error" if rest.pop("status", None) == "error" else "success"
    return _read_content(rest, what), {"tool_call_id": call_id, "status": status}


_Reader: TypeAlias = Callable[[dict[str, Any], str], tuple[Any, dict[str, Any]]]
_READERS: dict[str, _Reader] = {"assistant": _read_assistant, "tool": _read_tool}


def _read_fields(rest: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the fields that any message has; what else the map holds is the template's."""
    fields: dict[str, Any] = {}
    for key in ("name", "id"):
        if rest.get(key) is not None:
            if not isinstance(rest[key], str):
                raise InvalidMessageError(f"{what} has the {key} {_describe(rest[key])}; pass text")
            fields[key] = rest.pop(key)
    given = rest.pop("additional_kwargs", None)
    more = dict(given) if isinstance(given, Mapping) else {}
    kept = {key: item for key, item in rest.items() if item is not None}
    if kept:
        more[TEMPLATE_FIELDS] = make_plain(kept, what)
    return {**fields, "additional_kwargs": more}


def _read_content(rest: dict[str, Any], what: str) -> Any:
    content = rest.pop("content", None)
    if isinstance(content, str):
        return str(content)
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list | tuple):
        raise InvalidMessageError(
            f"{what} has content {_describe(content)}; pass text or a list of parts"
        )
    return [_read_part(part, f"part {number} of {what}") for number, part in enumerate(content)]


def _read_part(part: Any, what: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type", "text" if "text" in part else None) if isinstance(part, dict) else None
    if kind not in _PARTS:
        found = f"of the type {describe_value(kind)}" if isinstance(kind, str) else _describe(part)
        known = ", ".join(sorted(_PARTS))
        raise InvalidMessageError(f"{what} is {found}; a part's 'type' is one of {known}")
    if kind == "text" and not isinstance(part.get("text"), str):
        raise InvalidMessageError(f"{what} has a text {_describe(part.get('text'))}; pass text")
    return {**part, "type": kind}


def _is_parts(content: Any) -> bool:
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(part, dict) and get_block_type(part) in _PARTS for part in content)


def _read_calls(given: Any, what: str) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    if not isinstance(given, list | tuple | None):
        raise InvalidMessageError(f"{what} has tool_calls {_describe(given)}; pass a list")
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for number, call in enumerate(given or ()):
        one = call if isinstance(call, Mapping) else {}
        function = one.get("function", one)
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidMessageError(
                f"tool call {number} of {what} is {_describe(call)}; it needs a 'name', its "
                "'arguments' and an 'id'"
            )
        call_id = one.get("id") or f"call_{make_ulid()}"
        given_args = function.get("arguments", function.get("args"))
        args = _read_arguments(given_args)
        if args is not None:
            calls.append(ToolCall(type="tool_call", name=name, args=args, id=call_id))
            continue
        kept = InvalidToolCall(
            type="invalid_tool_call",
            name=name,
            args=str(given_args),
            id=call_id,
            error="the arguments are not a JSON object",
        )
        broken.append(kept)
    return calls, broken


def _read_arguments(given: Any) -> dict[str, Any] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given.strip() or "{}")
        except (ValueError, RecursionError):
            return None
    if given is None:
        return {}
    return dict(given) if isinstance(given, Mapping) else None
