"""What may be sent, in any form, as LangChain messages of ours.

What comes out shares nothing with what was given; media are read and checked, so that a turn can
be repeated from its messages alone.
"""

from __future__ import annotations

import copy
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
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.prompt_values import PromptValue

from langchain_convmem.conversation.media import MediaLimits, has_media, settle_media
from langchain_convmem.effects import Step, Steps, run
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import new_ulid
from langchain_convmem.text.messages import REASONING_KEYS, TEMPLATE_FIELDS, plain
from langchain_convmem.views.codec import decode_message
from langchain_convmem.views.messages import change_class, unpack_messages
from langchain_convmem.views.messages import copied as wholly_copied
from langchain_convmem.workers import in_thread

OneMessage: TypeAlias = str | BaseMessage | Mapping[str, Any] | tuple[str, Any]


ConversationInput: TypeAlias = OneMessage | PromptValue | Sequence[OneMessage]


"""Text is the user's; a pair is role and content; a map holds `role` and `content`; or a list."""


_CLASSES: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}


_FORMS = (
    "pass text, a LangChain message, a map with 'role' and 'content', a pair of role and content, "
    "or a list of these"
)


def as_messages(
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
        InvalidMessageError: If a message lacks its role or content, or holds parts or media that
            nobody can read.
        TypeError: If it is nothing that could be a message.
    """
    return run(prepared_steps(value, limits=limits))


def prepared_steps(
    value: ConversationInput, *, limits: MediaLimits | None = None
) -> Steps[list[BaseMessage]]:
    """Do what `as_messages` does; media are read and checked in a step, off an event loop."""
    messages = _messages(value)
    if any(map(has_media, messages)):
        chosen = limits or MediaLimits()
        yield Step(
            lambda: settle_media(messages, chosen),
            lambda: in_thread(lambda: settle_media(messages, chosen)),
        )
    return messages


def _messages(value: Any) -> list[BaseMessage]:
    items = unpack_messages(value)
    if items is None:
        return [_message(value, "the message")]
    return [_message(item, f"message {number}") for number, item in enumerate(items)]


def _is_pair(value: tuple[Any, ...]) -> bool:
    return len(value) == len(("role", "content")) and not isinstance(value[0], BaseMessage | dict)


def _message(value: Any, what: str) -> BaseMessage:
    if isinstance(value, str):
        return HumanMessage(str(value))
    if isinstance(value, BaseMessage):
        return _copied(value, what)
    if isinstance(value, tuple) and _is_pair(value):
        return message_of_map({"role": value[0], "content": value[1]}, what)
    if isinstance(value, Mapping):
        return message_of_map(value, what) if "role" in value else _of_stored(value, what)
    raise TypeError(f"{what} is {describe(value)}; {_FORMS}")


def _copied(message: BaseMessage, what: str) -> BaseMessage:
    if isinstance(message, RemoveMessage):
        raise InvalidMessageError(f"{what} is a RemoveMessage; take turns back with undo or rewind")
    try:
        twin = copied(message)
    except (TypeError, RecursionError) as error:
        raise InvalidMessageError(f"{what} holds what cannot be copied: {error}") from error
    whole = message_chunk_to_message(twin) if isinstance(twin, BaseMessageChunk) else twin
    return _convert_chat_message(whole) if isinstance(whole, ChatMessage) else whole


def _convert_chat_message(message: ChatMessage) -> BaseMessage:
    """Return a message of a role that has a class of its own as one of that, such as `model`."""
    kind = _CLASSES.get(KNOWN_ROLES.get(message.role.lower(), ""))
    return message if kind is None else change_class(message, kind)


def _of_stored(value: Mapping[str, Any], what: str) -> BaseMessage:
    """Return the message that LangChain wrote as a map: with its type, flat or with `data`."""
    fields = value.get("data", value)
    kind = value.get("type")
    if not isinstance(fields, Mapping) or not isinstance(kind, str) or "content" not in fields:
        is_part = isinstance(kind, str)
        hint = "wrap parts as {'role': 'user', 'content': [...]}" if is_part else _FORMS
        raise InvalidMessageError(f"{what} has no role: it is {describe(value)}; {hint}")
    try:
        message = decode_message({**fields, "type": kind})
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidMessageError(
            f"{what} is no stored message of type {kind!r}: {error}"
        ) from error
    return _copied(message, what)


# -- Copies of messages, so that nobody changes a history from outside ----------------------------


M = TypeVar("M", bound=BaseMessage)


def copied(message: M) -> M:
    """Return a message that shares nothing with another but the artifact of a tool.

    That is the tool's own, may be of any type, and is shown to no model.
    """
    return wholly_copied(message, shared=("artifact",))


# -- Messages as maps of role and content ------------------------------------------------------


KNOWN_ROLES = {
    "ai": "assistant",
    "assistant": "assistant",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


"""Our names of roles by those that templates and providers have for them."""


_ROLE = re.compile(r"\S{1,64}")


_PARTS = frozenset(
    {
        "audio",
        "file",
        "image",
        "image_url",
        "input_audio",
        "reasoning",
        "text",
        "thinking",
        "tool_call",
        "video",
    }
)


"""Types of parts that a map's content may hold; LangChain messages may hold any of a provider."""


_MOST_KEYS = 8


def describe(value: Any) -> str:
    """Return what a value is, for an error: its type and keys, never what it says."""
    if value is None:
        return "None"
    kind = f"of type {type(value).__name__}"
    if not isinstance(value, Mapping):
        return kind
    keys = ", ".join(sorted(repr(str(key))[:40] for key in value)[:_MOST_KEYS])
    return f"{kind} with the keys {keys or 'none'}"


def message_of_map(value: Mapping[str, Any], what: str) -> BaseMessage:
    """Return a map as a message that shares nothing with it; media are left as they are.

    Args:
        value: Holds `role` and `content`, an assistant's `tool_calls`, a tool's `tool_call_id`;
            further keys are kept for chat templates.
        what: Names the message in errors.

    Raises:
        InvalidMessageError: If it lacks what its role needs, or holds what nobody can read.
    """
    role = value["role"]
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        raise InvalidMessageError(f"{what} has the role {role!r}; it needs one such as 'user'")
    known = KNOWN_ROLES.get(role.lower(), "other")
    rest = {key: item for key, item in value.items() if key != "role"}
    try:
        return _MAKERS[known](role, rest, what)
    except RecursionError as error:
        raise InvalidMessageError(f"{what} is nested too deep") from error


def _user(_role: str, rest: dict[str, Any], what: str) -> BaseMessage:
    return HumanMessage(_content(rest, what), **_common(rest, what))


def _system(_role: str, rest: dict[str, Any], what: str) -> BaseMessage:
    return SystemMessage(_content(rest, what), **_common(rest, what))


def _other(role: str, rest: dict[str, Any], what: str) -> BaseMessage:
    return ChatMessage(content=_content(rest, what), role=role, **_common(rest, what))


def _assistant(_role: str, rest: dict[str, Any], what: str) -> BaseMessage:
    calls, broken = _calls(rest.pop("tool_calls", None), what)
    thoughts = [rest.pop(key) for key in REASONING_KEYS if isinstance(rest.get(key), str)]
    content = _content(rest, what, is_needed=not (calls or broken))
    message = AIMessage(content, tool_calls=calls, invalid_tool_calls=broken, **_common(rest, what))
    if thoughts:
        message.additional_kwargs["reasoning_content"] = thoughts[0]
    return message


def _tool(_role: str, rest: dict[str, Any], what: str) -> BaseMessage:
    call_id = rest.pop("tool_call_id", None)
    if not isinstance(call_id, str) or not call_id:
        raise InvalidMessageError(
            f"{what} is a tool's result with the tool_call_id {call_id!r}; "
            "it needs the id of the call that it answers"
        )
    given = rest.get("content")
    if given is not None and not isinstance(given, str) and not _is_parts(given):
        rest["content"] = json.dumps(plain(given, what), ensure_ascii=False)
    status = "error" if rest.pop("status", None) == "error" else "success"
    content = _content(rest, what)
    return ToolMessage(content, tool_call_id=call_id, status=status, **_common(rest, what))


_MAKERS: dict[str, Callable[[str, dict[str, Any], str], BaseMessage]] = {
    "user": _user,
    "system": _system,
    "assistant": _assistant,
    "tool": _tool,
    "other": _other,
}


def _common(rest: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the fields that any message has; what else the map holds is the template's."""
    fields: dict[str, Any] = {}
    for key in ("name", "id"):
        if rest.get(key) is not None:
            if not isinstance(rest[key], str):
                raise InvalidMessageError(f"{what} has the {key} {describe(rest[key])}; pass text")
            fields[key] = rest.pop(key)
    given = rest.pop("additional_kwargs", None)
    more = copy.deepcopy(dict(given)) if isinstance(given, Mapping) else {}
    kept = {key: item for key, item in rest.items() if item is not None}
    if kept:
        more[TEMPLATE_FIELDS] = plain(kept, what)
    return {**fields, "additional_kwargs": more}


# -- content --------------------------------------------------------------------------------------
def _content(rest: dict[str, Any], what: str, *, is_needed: bool = True) -> Any:
    content = rest.pop("content", None)
    if content is None and not is_needed:
        return ""
    if isinstance(content, str):
        return str(content)
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list | tuple):
        raise InvalidMessageError(
            f"{what} has content {describe(content)}; pass text or a list of parts"
        )
    return [_part(part, f"part {number} of {what}") for number, part in enumerate(content)]


def _part(part: Any, what: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type", "text" if "text" in part else None) if isinstance(part, dict) else None
    if kind not in _PARTS:
        known = ", ".join(sorted(_PARTS))
        raise InvalidMessageError(
            f"{what} is {_describe_part(part)}; a part's 'type' is one of {known}"
        )
    if kind == "text" and not isinstance(part.get("text"), str):
        raise InvalidMessageError(f"{what} has a text {describe(part.get('text'))}; pass text")
    return {**copy.deepcopy(part), "type": kind}


def _describe_part(part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    return f"of the type {kind[:40]!r}" if isinstance(kind, str) else describe(part)


def _is_parts(content: Any) -> bool:
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(part, dict) and part.get("type") in _PARTS for part in content)


# -- calls ----------------------------------------------------------------------------------------
def _calls(given: Any, what: str) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    if given is None:
        return [], []
    if not isinstance(given, list | tuple):
        raise InvalidMessageError(f"{what} has tool_calls {describe(given)}; pass a list")
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for number, call in enumerate(given):
        _add_call(call, f"tool call {number} of {what}", calls, broken)
    return calls, broken


def _add_call(call: Any, what: str, calls: list[ToolCall], broken: list[InvalidToolCall]) -> None:
    given = call if isinstance(call, Mapping) else {}
    function = given.get("function", given)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InvalidMessageError(
            f"{what} is {describe(call)}; it needs a 'name', its 'arguments' and an 'id'"
        )
    call_id = given.get("id") or f"call_{new_ulid()}"
    args = function.get("arguments", function.get("args"))
    read = _arguments(args)
    if read is None:
        error = "the arguments are no JSON object"
        kept = InvalidToolCall(
            type="invalid_tool_call", name=name, args=str(args), id=call_id, error=error
        )
        broken.append(kept)
    else:
        calls.append(ToolCall(type="tool_call", name=name, args=read, id=call_id))


def _arguments(given: Any) -> dict[str, Any] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given.strip() or "{}")
        except (ValueError, RecursionError):
            return None
    if given is None:
        return {}
    return copy.deepcopy(dict(given)) if isinstance(given, Mapping) else None
