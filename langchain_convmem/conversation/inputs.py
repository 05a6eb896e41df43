"""What a send takes: messages in any form, media that they name, and options of the turn.

What comes out shares nothing with what was given; media are read and checked, so that a turn can
be repeated from its messages alone.
"""

from __future__ import annotations

import base64
import binascii
import copy
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

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
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.ids import make_ulid
from langchain_convmem.text.messages import REASONING_KEYS, ROLES, TEMPLATE_FIELDS, make_plain
from langchain_convmem.views.codec import decode_message
from langchain_convmem.views.media import detect_media_type, get_family, read_media
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

DEFAULT_MAX_BYTES = 20_000_000
"""About what most providers take in one request."""

_CLASSES: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}

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
_MEDIA = frozenset({"audio", "file", "image", "video"})
_WRAPPED_MEDIA = frozenset({"image_url", "input_audio", "video_url"})
_SOURCES = ("path", "blob", "base64", "url", "file_id")
_DATA_URL = re.compile(r"\s*data:[^,]{0,200};base64,", re.IGNORECASE)
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """What one send may set for itself.

    Attributes:
        extra_context: Goes before that of the preface, in every call of the model of this turn.
        thinking: See `ConversationConfig`.
        max_output_tokens: See `ConversationConfig`.
        timeout: Seconds until the turn is cancelled; None is no limit.
        pending: Whether the message is to go on with the next send. Its parts become one message,
            put together without a space between them; the model is asked when the last part is
            sent. A message of another role ends it.
        model_kwargs: What else is given to the model.
    """

    extra_context: Mapping[str, Any] = field(default_factory=dict)
    thinking: bool | None = None
    max_output_tokens: int | None = None
    timeout: float | None = None
    pending: bool = False
    model_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> SendOptions:
        """Return the options among keyword arguments; what is none goes to the model.

        Raises:
            ConfigError: If a limit is not positive.
        """
        own = {one.name for one in fields(cls)} - {"model_kwargs"}
        named = {name: given[name] for name in own & set(given) if given[name] is not None}
        for name in ("max_output_tokens", "timeout"):
            if name in named and not named[name] > 0:
                raise ConfigError(f"{name} must be positive, got {named[name]!r}")
        rest = {name: value for name, value in given.items() if name not in own}
        return cls(**named, model_kwargs=rest)


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """What media a message may hold.

    Attributes:
        max_bytes: The largest single one, in bytes; None for any size.
        folder: Where files must lie that parts name, links resolved; None for anywhere. Set it
            where messages come from strangers.
    """

    max_bytes: int | None = DEFAULT_MAX_BYTES
    folder: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Refuse a limit under which nothing fits."""
        if self.max_bytes is not None and self.max_bytes < 1:
            raise ConfigError(f"max_bytes is {self.max_bytes}; pass a number of bytes, or None")

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
    given = enumerate(read_messages(value, _read_map))
    messages = [_copy_whole(message, f"message {number}") for number, message in given]
    if any(map(has_media, messages)):
        settle_media(messages, limits or MediaLimits())
    return messages


def _copy_whole(message: BaseMessage, what: str) -> BaseMessage:
    whole: BaseMessage | None = None
    with ErrorTrap(TypeError, RecursionError) as trap:
        whole = copy_message(message)
    if whole is None:
        raise InvalidMessageError(f"{what} holds what cannot be copied: {trap.reason}")
    if not isinstance(whole, ChatMessage):
        return whole
    # A role that has a class of its own, such as `model`, is one of that.
    kind = _CLASSES.get(ROLES.get(whole.role.lower(), ""))
    return whole if kind is None else change_class(whole, kind)


def copy_message(message: M) -> M:
    """Return a message that shares nothing with another but the artifact of a tool.

    That is the tool's own, may be of any type, and is shown to no model.
    """
    return copy_detached(message, shared=("artifact",))


# -- Messages as maps of role and content, as chat templates and OpenAI have them -----------------


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
    """Return a map as a message that shares nothing with it; media are left as they are.

    Args:
        value: Holds `role` and `content`, an assistant's `tool_calls`, a tool's `tool_call_id`;
            further keys are kept for chat templates.
        what: Names the message in errors.

    Raises:
        InvalidMessageError: If it lacks what its role needs, or holds what cannot be read.
    """
    if "role" not in value:
        return _decode_stored(value, what)
    role = value["role"]
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        raise InvalidMessageError(
            f"{what} has the role {describe_value(role)}; it needs one such as 'user'"
        )
    rest = {key: item for key, item in value.items() if key != "role"}
    known = ROLES.get(role.lower())
    try:
        if known == "assistant":
            return _read_assistant(rest, what)
        if known == "tool":
            return _read_tool(rest, what)
        content, fields = _read_content(rest, what), _read_fields(rest, what)
    except RecursionError as error:
        raise InvalidMessageError(f"{what} is nested too deep") from error
    if known is None:
        return ChatMessage(content=content, role=role, **fields)
    return _CLASSES[known](content=content, **fields)


def _decode_stored(value: Mapping[str, Any], what: str) -> BaseMessage:
    """Return the message that LangChain wrote as a map: with its type, flat or with `data`."""
    fields = value.get("data", value)
    kind = value.get("type")
    if not isinstance(fields, Mapping) or not isinstance(kind, str) or "content" not in fields:
        is_part = isinstance(kind, str)
        hint = "wrap parts as {'role': 'user', 'content': [...]}" if is_part else MESSAGE_FORMS
        raise InvalidMessageError(f"{what} has no role: it is {_describe(value)}; {hint}")
    message: BaseMessage | None = None
    with ErrorTrap(TypeError, ValueError, AttributeError) as trap:
        message = decode_message({**fields, "type": kind})
    if message is None:
        known = describe_value(kind)
        raise InvalidMessageError(f"{what} is not a stored message of type {known}: {trap.reason}")
    return message


def _read_assistant(rest: dict[str, Any], what: str) -> BaseMessage:
    calls, broken = _read_calls(rest.pop("tool_calls", None), what)
    thoughts = [rest.pop(key) for key in REASONING_KEYS if isinstance(rest.get(key), str)]
    content = _read_content(rest, what, is_needed=not (calls or broken))
    message = AIMessage(
        content, tool_calls=calls, invalid_tool_calls=broken, **_read_fields(rest, what)
    )
    if thoughts:
        message.additional_kwargs["reasoning_content"] = thoughts[0]
    return message


def _read_tool(rest: dict[str, Any], what: str) -> BaseMessage:
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
    content = _read_content(rest, what)
    return ToolMessage(content, tool_call_id=call_id, status=status, **_read_fields(rest, what))


def _read_fields(rest: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the fields that any message has; what else the map holds is the template's."""
    fields: dict[str, Any] = {}
    for key in ("name", "id"):
        if rest.get(key) is not None:
            if not isinstance(rest[key], str):
                raise InvalidMessageError(f"{what} has the {key} {_describe(rest[key])}; pass text")
            fields[key] = rest.pop(key)
    given = rest.pop("additional_kwargs", None)
    more = copy.deepcopy(dict(given)) if isinstance(given, Mapping) else {}
    kept = {key: item for key, item in rest.items() if item is not None}
    if kept:
        more[TEMPLATE_FIELDS] = make_plain(kept, what)
    return {**fields, "additional_kwargs": more}


def _read_content(rest: dict[str, Any], what: str, *, is_needed: bool = True) -> Any:
    content = rest.pop("content", None)
    if content is None and not is_needed:
        return ""
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
    return {**copy.deepcopy(part), "type": kind}


def _is_parts(content: Any) -> bool:
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(part, dict) and get_block_type(part) in _PARTS for part in content)


def _read_calls(given: Any, what: str) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    if given is None:
        return [], []
    if not isinstance(given, list | tuple):
        raise InvalidMessageError(f"{what} has tool_calls {_describe(given)}; pass a list")
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
            f"{what} is {_describe(call)}; it needs a 'name', its 'arguments' and an 'id'"
        )
    call_id = given.get("id") or f"call_{make_ulid()}"
    args = function.get("arguments", function.get("args"))
    read = _read_arguments(args)
    if read is None:
        error = "the arguments are not a JSON object"
        kept = InvalidToolCall(
            type="invalid_tool_call", name=name, args=str(args), id=call_id, error=error
        )
        broken.append(kept)
    else:
        calls.append(ToolCall(type="tool_call", name=name, args=read, id=call_id))


def _read_arguments(given: Any) -> dict[str, Any] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given.strip() or "{}")
        except (ValueError, RecursionError):
            return None
    if given is None:
        return {}
    return copy.deepcopy(dict(given)) if isinstance(given, Mapping) else None


# -- Media: read and checked as they come in ------------------------------------------------------


def has_media(message: BaseMessage) -> bool:
    """Return whether a message holds media in any form. Cheap."""
    return any(is_media(part) for part in list_parts(message))


def list_parts(message: BaseMessage) -> list[Any]:
    """Return the parts of a message's content; none if it is text."""
    return message.content if isinstance(message.content, list) else []


def is_media(part: Any) -> bool:
    """Return whether a part of a message holds media in any form. Cheap."""
    if not isinstance(part, dict):
        return False
    # To read base64 text takes long, and must not be done on an event loop.
    return get_block_type(part) in _MEDIA | _WRAPPED_MEDIA or read_media(part) is not None


def settle_media(messages: Iterable[BaseMessage], limits: MediaLimits) -> None:
    """Read and check the media of messages, which are changed in place. Reads files: may block.

    Raises:
        InvalidMessageError: If media are missing, broken, too large or of an unknown type.
    """
    for number, message in enumerate(messages):
        if isinstance(message.content, list):
            message.content = [
                _settle_part(part, limits, f"part {place} of message {number}")
                if is_media(part)
                else part
                for place, part in enumerate(message.content)
            ]


def _settle_part(part: Any, limits: MediaLimits, what: str) -> dict[str, Any]:
    if get_block_type(part) in _MEDIA:
        sources = {key: part[key] for key in _SOURCES if part.get(key) is not None}
        for key in ("path", "url"):
            if key in sources and (key == "path" or is_file_url(sources[key])):
                return _build_block(part, _read_file(sources[key], limits, what), what)
        for key in ("blob", "base64"):
            if key in sources:
                return _build_block(part, _decode_base64(sources[key], limits, what), what)
    return _check_part(part, limits, what)


def _build_block(part: Mapping[str, Any], data: bytes, what: str) -> dict[str, Any]:
    """Return LangChain's block for the bytes of a part, with whatever else the part says."""
    kind = part["type"]
    media_type = detect_media_type(data) or part.get("mime_type")
    if not isinstance(media_type, str) or "/" not in media_type:
        raise InvalidMessageError(
            f"{what} is not {kind} of a known type; name its type with 'mime_type'"
        )
    # A container may hold sound alone, though its beginning does not say so.
    may_be_audio = kind == "audio" and media_type in ("video/mp4", "video/webm")
    if kind not in ("file", get_family(media_type)) and not may_be_audio:
        raise InvalidMessageError(
            f"{what} is called {kind}, but holds {media_type}; "
            f"pass it as {get_family(media_type)!r}"
        )
    rest = {key: value for key, value in part.items() if key not in _SOURCES}
    return {**rest, "base64": base64.b64encode(data).decode(), "mime_type": media_type}


def _decode_base64(text: Any, limits: MediaLimits, what: str) -> bytes:
    if isinstance(text, bytes | bytearray | memoryview):
        data = bytes(text)
        limits.check_size(len(data), what)
        return data
    if not isinstance(text, str):
        raise InvalidMessageError(f"{what} has {describe_value(text)} for base64 text")
    plain = "".join((_DATA_URL.sub("", text)).split())
    plain = plain.replace("-", "+").replace("_", "/").rstrip("=")
    limits.check_size(len(plain) * 3 // 4, what)
    decoded: bytes | None = None
    with ErrorTrap(ValueError):
        decoded = binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    if decoded is None:
        raise InvalidMessageError(f"{what} is not base64: {len(text)} characters")
    if not decoded:
        raise InvalidMessageError(f"{what} is empty; pass the media by 'path' or 'blob'")
    return decoded


def _check_part(part: dict[str, Any], limits: MediaLimits, what: str) -> dict[str, Any]:
    """Return a part of a provider's shape as it is, if what it holds can be read."""
    found = read_media(part)
    if found is None or found.kind == "file":  # documents come in more forms than anybody knows
        return part
    if not found.data:
        raise InvalidMessageError(
            f"{what} is {_describe(part)} and holds nothing that can be read; give it "
            "'path', 'blob' (base64), 'url' or 'file_id'"
        )
    if found.form == "base64":
        limits.check_size(found.size, what)
        if not found.type:
            raise InvalidMessageError(f"{what} is of an unknown type; name it with 'mime_type'")
    return part


def is_file_url(value: object) -> bool:
    """Return whether a value is the URL of a file on this machine."""
    return isinstance(value, str) and value[:5].lower() == "file:"


def _read_file(place: Any, limits: MediaLimits, what: str) -> bytes:
    """Return what a file holds.

    Args:
        place: A path, relative to the working directory, or a `file://` URL.
        limits: How large it may be and where it may lie.
        what: Names the part in errors.

    Raises:
        InvalidMessageError: If it is not a file that can and may be read, or is too large.
    """
    path = _find_path(place, what)
    try:
        found = path.resolve(strict=True)
        if limits.folder is not None and not found.is_relative_to(Path(limits.folder).resolve()):
            raise InvalidMessageError(f"{what} is the file {place!r} outside {limits.folder!s}")
        return _read_bytes(found, limits, f"{what}, the file {place!r},")
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidMessageError):
            raise
        raise InvalidMessageError(f"{what} is the file {place!r}: {error}") from error


def _find_path(place: Any, what: str) -> Path:
    if isinstance(place, os.PathLike):
        place = os.fspath(place)
    if not isinstance(place, str) or not place:
        raise InvalidMessageError(f"{what} has the path {place!r}; pass the name of a file")
    if not is_file_url(place):
        return Path(place)
    url = urlsplit(place)
    if url.netloc not in ("", "localhost"):
        raise InvalidMessageError(f"{what} is the file {place!r} of another machine")
    return Path(url2pathname(url.path))


def _read_bytes(path: Path, limits: MediaLimits, what: str) -> bytes:
    # Opening a pipe would wait for whoever writes to it, and a device may never end.
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidMessageError(f"{what} is not a regular file")
    with path.open("rb") as file:
        data = file.read(-1 if limits.max_bytes is None else limits.max_bytes + 1)
    limits.check_size(len(data), what)
    return data
