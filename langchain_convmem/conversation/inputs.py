"""What a send takes: messages in any form, read and checked; what comes out is shared with nobody.

Media are read as they come in, so that a turn can be repeated from its messages alone.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.messages.tool import tool_call as create_tool_call
from langchain_core.prompt_values import PromptValue

from langchain_convmem.causes import ErrorTrap, describe_name, describe_value
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import make_ulid
from langchain_convmem.text.messages import REASONING_KEYS, ROLES, TEMPLATE_FIELDS, make_plain
from langchain_convmem.views.codec import decode_message
from langchain_convmem.views.media import read_media
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
    "tool": ToolMessage,
}
_ROLE = re.compile(r"\S{1,64}")
_OWN = frozenset({"audio", "file", "image", "video"})
_SOURCES = ("path", "blob", "base64")
_DATA_URL = re.compile(r"\s*data:[^,]{0,200};base64,", re.IGNORECASE)

_FIELDS = ("content", "id", "name", "tool_call_id")


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """What media a message may hold.

    Attributes:
        max_bytes: The largest single one, in bytes; None for any size.
        folder: Where files must lie that parts name, links resolved; None for anywhere. Set it
            where messages come from strangers.
    """

    max_bytes: int | None = 20_000_000  # about what most providers take in one request
    folder: str | os.PathLike[str] | None = None

    def check_size(self, size: int, what: str) -> None:
        """Refuse what is too large.

        Raises:
            InvalidMessageError: If `size`, in bytes, is over the limit.
        """
        if self.max_bytes is not None and size > self.max_bytes:
            raise InvalidMessageError(
                f"{what} is larger than {self.max_bytes:,} bytes; send a smaller one, or raise "
                "the limit with MediaLimits(max_bytes=...)"
            )


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
            if kind is not None and kind is not ToolMessage:  # which answers a call
                message = change_class(message, kind)
        settle_media(message, limits or MediaLimits(), what)
        messages.append(message)
    return messages


def copy_message(message: M) -> M:
    """Return a message that shares nothing with another but what a tool keeps for itself."""
    return copy_detached(message, shared=("artifact",))


# -- Messages as maps of role and content, as chat templates and OpenAI have them -----------------


def _read_map(value: Mapping[str, Any], what: str) -> BaseMessage:
    """Return a map as a message; media are left as they are.

    Args:
        value: Holds `role` and `content`, an assistant's `tool_calls`, a tool's `tool_call_id`;
            further keys are kept for chat templates.
        what: Names the message in errors.

    Raises:
        InvalidMessageError: If it lacks what its role needs, or holds what cannot be read.
    """
    if "role" not in value:  # LangChain's own form, or none
        with ErrorTrap(TypeError, ValueError, AttributeError, LookupError):
            return decode_message({**value.get("data", value), "type": value["type"]})
        way = f"{MESSAGE_FORMS}; wrap parts as {{'role': 'user', 'content': [...]}}"
        raise InvalidMessageError(f"{what} has no role; {way}")
    rest = {key: item for key, item in value.items() if item is not None}
    role = rest.pop("role", None)
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        msg = f"{what} has the role {describe_value(role)}; it needs one such as 'user'"
        raise InvalidMessageError(msg)
    known = ROLES.get(role.lower())
    fields: dict[str, Any] = {key: rest.pop(key) for key in _FIELDS if key in rest}
    fields["additional_kwargs"] = dict(rest.pop("additional_kwargs", {}))
    if known == "assistant":
        _read_assistant(fields, rest, what)
    elif known == "tool":
        _read_result(fields, rest, what)
    elif known is None:
        fields["role"] = role
    if rest:
        fields["additional_kwargs"][TEMPLATE_FIELDS] = make_plain(rest, what)
    fields["content"] = _read_content(fields.get("content"), what)
    with ErrorTrap(ValueError, TypeError) as trap:
        return _CLASSES.get(known or "", ChatMessage)(**fields)
    raise InvalidMessageError(f"{what} is no message: {trap.reason}")


def _read_assistant(fields: dict[str, Any], rest: dict[str, Any], what: str) -> None:
    """Move to the fields of a message what an assistant's map holds beside others."""
    fields |= _read_calls(rest.pop("tool_calls", []), what)
    if fields["tool_calls"] or fields["invalid_tool_calls"]:
        fields.setdefault("content", "")
    thoughts = [rest.pop(key) for key in REASONING_KEYS if isinstance(rest.get(key), str)]
    if thoughts:
        fields["additional_kwargs"]["reasoning_content"] = thoughts[0]


def _read_result(fields: dict[str, Any], rest: dict[str, Any], what: str) -> None:
    """Move to the fields of a message what a tool's map holds; values become JSON."""
    if not fields.get("tool_call_id"):
        msg = f"{what} is a tool's result without the tool_call_id of the call that it answers"
        raise InvalidMessageError(msg)
    fields["status"] = "error" if rest.pop("status", None) == "error" else "success"
    content = fields.get("content", "")
    if not isinstance(content, str) and not _is_parts(content):
        fields["content"] = json.dumps(make_plain(content, what), ensure_ascii=False)


def _read_content(content: Any, what: str) -> Any:
    if isinstance(content, str):
        return str(content)
    parts = [content] if isinstance(content, Mapping) else content
    if not isinstance(parts, list | tuple):
        msg = f"{what} has the content {describe_value(content)}; pass text or a list of parts"
        raise InvalidMessageError(msg)
    return [_read_part(part, f"part {number} of {what}") for number, part in enumerate(parts)]


def _read_part(part: Any, what: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    has_text = isinstance(part, dict) and isinstance(part.get("text"), str)
    if not has_text and not get_block_type(part):
        found = describe_value(part)
        raise InvalidMessageError(f"{what} is {found}; pass text, or a map with 'type' or 'text'")
    return {"type": "text", **part}


def _is_parts(content: Any) -> bool:
    return isinstance(content, list) and bool(content) and all(map(get_block_type, content))


def _read_calls(given: Any, what: str) -> dict[str, list[Any]]:
    """Return the calls of a map, by the field of a message that holds them."""
    if not isinstance(given, list | tuple):
        raise InvalidMessageError(f"{what} has tool_calls {describe_value(given)}; pass a list")
    calls: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for number, call in enumerate(given):
        function = call.get("function", call) if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
            raise InvalidMessageError(
                f"tool call {number} of {what} is {describe_value(call)}; it needs a 'name', its "
                "'arguments' and an 'id'"
            )
        call_id = call.get("id") or f"call_{make_ulid()}"
        written = function.get("arguments", function.get("args"))
        args = written or {}
        with ErrorTrap(ValueError, RecursionError):
            args = json.loads(args) if isinstance(args, str) else args
        if isinstance(args, Mapping):
            calls["tool_calls"].append(create_tool_call(name=name, args=dict(args), id=call_id))
        else:
            told = "the arguments are not a JSON object"
            broken = invalid_tool_call(name=name, args=str(written), id=call_id, error=told)
            calls["invalid_tool_calls"].append(broken)
    return calls


# -- Pictures and sounds: read and checked as they come in ----------------------------------------


def is_media(part: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a part of a message holds media in any form."""
    return isinstance(part, dict) and (get_block_type(part) in _OWN or read_media(part) is not None)


def settle_media(message: BaseMessage, limits: MediaLimits, what: str) -> None:
    """Read and check the media of a message, which is changed in place. Reads files: may block.

    Raises:
        InvalidMessageError: If media are missing, broken, too large or of an unknown type.
    """
    if isinstance(message.content, list):
        message.content = [
            _settle_part(part, limits, f"part {place} of {what}") if is_media(part) else part
            for place, part in enumerate(message.content)
        ]


def _settle_part(part: dict[str, Any], limits: MediaLimits, what: str) -> dict[str, Any]:
    """Return LangChain's block for a part that holds bytes or names a file; others as they are."""
    sources = {key: part[key] for key in _SOURCES if part.get(key) is not None}
    is_own = get_block_type(part) in _OWN and bool(sources)
    if is_own:
        name, data = next(iter(sources.items()))
        if name == "path":
            data = _read_file(data, limits, what)
        elif isinstance(data, str):
            data = _DATA_URL.sub("", data)
        part = {key: value for key, value in part.items() if key not in _SOURCES}
        part["base64"] = data
    found = read_media(part)
    if found is None or (found.kind == "file" and not is_own):
        return part  # documents come in more forms than anybody knows
    if not found.data:
        keys = ", ".join(sorted(f"'{describe_name(key)}'" for key in part))
        raise InvalidMessageError(
            f"{what} holds nothing that can be read (it has {keys}); give it 'path', 'blob' "
            "(base64), 'url' or 'file_id'"
        )
    if found.form != "base64":
        return part
    limits.check_size(found.size, what)
    if not found.type:
        raise InvalidMessageError(f"{what} is of an unknown type; name its type with 'mime_type'")
    return {**part, "base64": found.data, "mime_type": found.type} if is_own else part


def _read_file(place: Any, limits: MediaLimits, what: str) -> bytes:
    """Return what a file holds.

    Raises:
        InvalidMessageError: If it is not a file that can and may be read, or is too large.
    """
    if not isinstance(place, str | os.PathLike) or not place:
        raise InvalidMessageError(f"{what} has the path {place!r}; pass the name of a file")
    named = f"{what} is the file {os.fspath(place)!r}"
    try:
        path = Path(place).resolve(strict=True)
        if limits.folder is not None and not path.is_relative_to(Path(limits.folder).resolve()):
            raise InvalidMessageError(f"{named} outside {limits.folder!s}")
        # Opening a pipe would wait for whoever writes to it, and a device may never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidMessageError(f"{named}, which is not a regular file")
        with path.open("rb") as file:
            data = file.read(-1 if limits.max_bytes is None else limits.max_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidMessageError):
            raise
        raise InvalidMessageError(f"{named}: {error}") from error
    limits.check_size(len(data), named)
    return data
