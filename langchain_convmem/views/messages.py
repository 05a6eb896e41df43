"""Messages: read out of whatever callers pass for them, and copied for those who get them.

The one place where forms become messages. LangChain's own conversion comes first; what it refuses
with the words of the message in its error is refused here by its type, since what was said belongs
in no error and no log.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import NoneType
from typing import Any, TypeAlias, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
    messages_from_dict,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.prompt_values import PromptValue

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import Entry, Role

M = TypeVar("M", bound=BaseMessage)
OneMessage: TypeAlias = str | BaseMessage | Mapping[str, Any] | tuple[str, Any]
MessagesInput: TypeAlias = OneMessage | PromptValue | Sequence[OneMessage] | Iterator[OneMessage]
"""Text is the user's; a pair is role and content; a map holds `role` and `content`; or several."""

MESSAGE_FORMS = (
    "pass text, a LangChain message, a dict with 'role' and 'content', a pair of role and content, "
    "a list of these, {'messages': [...]}, or a prompt's value"
)
"""What callers may pass, for errors."""

_ROLES = frozenset(
    {"ai", "assistant", "developer", "function", "human", "model", "system", "tool", "user"}
)

_PAIR = 2


def read_messages(value: Any) -> list[BaseMessage]:
    """Return what was passed as LangChain messages, in order.

    Messages that are whole come back as they are, not copied. Chunks that follow each other are
    summed to the message that they are pieces of.

    Args:
        value: Text, which is the user's; a message; a dict with `role` and `content`, or as
            LangChain writes messages down; a pair of role and content; a list of these;
            `{"messages": ...}` with any of these; or the value of a prompt.

    Raises:
        InvalidMessageError: If a part of it is not a message. The error names types and places,
            never the text.
    """
    items = unpack_messages(value)
    if items is None:
        items = [value]
    return [_read_message(item, number, len(items)) for number, item in enumerate(items)]


def unpack_messages(value: Any) -> list[Any] | None:
    """Return the items of a list of messages, however it is packed; None for one item alone.

    Chunks that follow each other are one item: the message that they are pieces of.
    """
    if isinstance(value, PromptValue):
        return list(value.to_messages())
    if isinstance(value, Mapping):
        if "messages" not in value or "role" in value:
            return None
        inner = value["messages"]
        return [inner] if (items := unpack_messages(inner)) is None else items
    if isinstance(value, str | bytes | BaseMessage) or not isinstance(value, Sequence | Iterator):
        return None
    if isinstance(value, tuple) and _is_pair(value):
        return None
    return list(_merge_chunks(value))


def _is_pair(value: Sequence[Any]) -> bool:
    """Return whether a tuple is a role and a content, and not two texts."""
    return len(value) == _PAIR and isinstance(value[0], str) and value[0].lower() in _ROLES


def _read_message(item: Any, number: int, among: int) -> BaseMessage:
    what = "the message" if among == 1 else f"message {number}"
    if isinstance(item, RemoveMessage):
        raise InvalidMessageError(f"{what} is a RemoveMessage; take turns back with undo or rewind")
    if isinstance(item, BaseMessage):
        return message_chunk_to_message(item) if isinstance(item, BaseMessageChunk) else item
    if not isinstance(item, str | Mapping | tuple | list):
        raise InvalidMessageError(f"{what} is of type {type(item).__name__}; {MESSAGE_FORMS}")
    if isinstance(item, Mapping):
        item = _complete(item, what)
    try:
        [message] = _convert(item)
    except (ValueError, TypeError, LookupError, NotImplementedError, AttributeError):
        # Not chained: LangChain quotes the message in its error.
        raise InvalidMessageError(f"{what} {_explain(item)}; {MESSAGE_FORMS}") from None
    return message


def _explain(item: Any) -> str:
    """Return why an item is not a message, in words of ours alone."""
    is_pair = isinstance(item, tuple | list) and len(item) == _PAIR
    role = item.get("role") if isinstance(item, Mapping) else item[0] if is_pair else "user"
    if role is not None and (not isinstance(role, str) or role.lower() not in _ROLES):
        return f"has a role that is not one of {', '.join(sorted(_ROLES))}"
    if isinstance(item, Mapping) and "content" not in item and "data" not in item:
        return "is a dict without 'content'"
    return f"is a {type(item).__name__} that LangChain cannot read as a message"


def _complete(item: Mapping[Any, Any], what: str) -> dict[Any, Any]:
    """Return the map of a message with the role and content that LangChain asks for."""
    if "role" not in item and not isinstance(item.get("type"), str):
        keys = ", ".join(sorted(repr(str(key))[:40] for key in item)) or "none"
        raise InvalidMessageError(f"{what} is a dict without a 'role' (keys: {keys})")
    fields = dict(item)
    if "role" in fields and str(fields["role"]).lower() in _ROLES:
        role = str(fields["role"]).lower()
        fields["role"] = "assistant" if role == "model" else role
        if fields.get("tool_calls") or "tool_call_id" in fields:
            fields.setdefault("content", "")
        if fields.get("tool_calls", ...) is None:
            del fields["tool_calls"]
    return fields


def _convert(item: Any) -> list[BaseMessage]:
    if isinstance(item, dict) and "role" not in item and isinstance(item.get("data"), Mapping):
        return messages_from_dict([item])
    if isinstance(item, tuple | list) and len(item) == _PAIR and item[0] == "model":
        item = ("assistant", item[1])
    return convert_to_messages([item])


# -- Chunks ---------------------------------------------------------------------------------------
def _merge_chunks(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items, chunks of one message as that message."""
    pieces: list[BaseMessage] = []
    for item in items:
        if pieces and not _is_continuation(pieces[-1], item):
            yield message_chunk_to_message(merge_pieces(pieces))
            pieces = []
        if isinstance(item, BaseMessageChunk):
            pieces.append(item)
        else:
            yield item
    if pieces:
        yield message_chunk_to_message(merge_pieces(pieces))


def _is_continuation(before: BaseMessage, item: Any) -> bool:
    if type(before) is not type(item) or getattr(before, "chunk_position", None) == "last":
        return False
    return before.id is None or item.id is None or before.id == item.id


def change_class(message: BaseMessage, kind: type[M]) -> M:
    """Return a message as one of another class, which says the same under the same id and name."""
    return kind(
        message.content,
        id=message.id,
        name=message.name,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
    )


def merge_pieces(pieces: Sequence[M]) -> M:
    """Return the sum of the chunks of one message; nothing of their text is lost.

    An empty list as first content would swallow text that follows; so all empty contents are made
    of the kind that the first real one has. Adding also forgets the speaker's name.
    """
    first, *others = pieces
    if not others:
        return first
    kind = next((type(piece.content) for piece in pieces if piece.content), str)
    even = [
        piece if piece.content else piece.model_copy(update={"content": kind()}) for piece in pieces
    ]
    total: M = even[0] + even[1:]  # type: ignore[assignment]  # chunks add up
    total.name = next((piece.name for piece in pieces if piece.name), None)
    return total


# -- Messages as they are handed out --------------------------------------------------------------

_PLAIN: dict[Role, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}

_USER_ROLES = frozenset({"user", "human"})
_MESSAGES = frozenset(_PLAIN.values())
_UNSHAREABLE = frozenset({NoneType, str, int, float, bool, bytes})
"""Types whose values cannot be changed."""


def build_message(entry: Entry) -> BaseMessage:
    """Return a whole message of the entry's role, with an id.

    Nothing in it is shared with the entry.
    """
    message = _copy_message(entry)
    plain = _PLAIN.get(entry.role)
    if plain is not None and not isinstance(message, plain):
        more = {"tool_call_id": ""} if plain is ToolMessage else {}
        message = plain(
            message.content,
            name=message.name or _get_role_as_name(message, entry.role),
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            **more,
        )
    key = entry.message_id
    if message.id != key:
        message.id = key
    return message


def is_plain_text(message: BaseMessage) -> bool:
    """Return whether a message is text that every provider takes, and nothing beside it."""
    content = message.content
    return (
        isinstance(content, str)
        and not message.additional_kwargs
        and message.name is None
        and "output_version" not in message.response_metadata
        and (content.isascii() or clean_text(content) == content)
        and not content.isspace()
    )


def is_blank_message(message: BaseMessage) -> bool:
    """Return whether a message that was handed out has neither content nor tool calls."""
    return not message.content and not getattr(message, "tool_calls", None)


def _copy_message(entry: Entry) -> BaseMessage:
    if entry.message is None:
        return HumanMessage("\n".join(entry.contents))
    message = copy_detached(entry.message)
    return message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message


def copy_detached(message: M, shared: Collection[str] = ()) -> M:
    """Return a message that shares nothing with another but the fields named in `shared`."""
    twin = message.model_copy() if type(message) not in _MESSAGES else _copy_shallow(message)
    for fields in (twin.__dict__, twin.__pydantic_extra__ or {}):
        for name, value in fields.items():
            if type(value) not in _UNSHAREABLE and name not in shared:
                fields[name] = _copy_value(value)
    return twin


def _copy_shallow(message: M) -> M:
    """Return what `model_copy` does of a message without private values, in a third of the time."""
    twin = object.__new__(type(message))
    extra = message.__pydantic_extra__
    _set_slot(twin, "__dict__", message.__dict__.copy())
    _set_slot(twin, "__pydantic_extra__", None if extra is None else extra.copy())
    _set_slot(twin, "__pydantic_fields_set__", message.__pydantic_fields_set__.copy())
    _set_slot(twin, "__pydantic_private__", None)
    return twin


_set_slot = object.__setattr__


def _copy_value(value: Any) -> Any:
    """Return a deep copy; lists, mappings and texts, which is nearly all, without `deepcopy`."""
    kind = type(value)
    if kind in _UNSHAREABLE:
        return value
    if kind is list:
        return [_copy_value(item) for item in value] if value else []
    if kind is dict:
        return {key: _copy_value(item) for key, item in value.items()} if value else {}
    if isinstance(value, str | int | float | bytes):
        return value
    return copy.deepcopy(value)


def _get_role_as_name(message: BaseMessage, role: Role) -> str | None:
    """Return a chat role that no model knows: it says who speaks."""
    said = message.role if role == "user" and isinstance(message, ChatMessage) else "user"
    return said if said.lower() not in _USER_ROLES else None


def get_block_type(block: object) -> str:
    """Return what a content block says it is; empty where it is plain text or says nothing."""
    # Nearly every block is a dict, and whether something is a mapping is slow to find out.
    if not isinstance(block, dict) and not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def clean_text(text: str) -> str:
    """Return text that can be sent: half characters, which no encoding carries, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def escape_tag(text: str, tag: str) -> str:
    """Return text in which no tag of that name opens or closes: quoted words cannot end a fence."""
    return re.sub(rf"<(?=\s*/?\s*{tag}\b)", "&lt;", text, flags=re.IGNORECASE)


def make_plain(value: Any) -> Any:
    """Return `value` as JSON can carry it; what JSON has no form for becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {clean_text(str(key)): make_plain(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((make_plain(item) for item in value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [make_plain(item) for item in value]
    return clean_text(str(value))
