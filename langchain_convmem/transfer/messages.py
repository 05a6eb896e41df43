"""Messages of LangChain, made of what files hold: lines, contents, tool calls. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    messages_from_dict,
)

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.transfer.source import Node, format_time
from langchain_convmem.views.codec import get_line_time_ms


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message of a file, under the id that the file gives it, if any.

    Attributes:
        message: Verbatim.
        location: Where it stands in the file.
    """

    message: BaseMessage
    location: str


def build_stamp(time: datetime | None, session: str | None = None) -> dict[str, str]:
    """Return the `additional_kwargs` of a message said at `time` in the session `session`."""
    extra = {}
    if time is not None:
        extra["timestamp"] = format_time(time)
    if session is not None:
        extra["session"] = session
    return extra


# -- lines of a dialogue, by speaker --------------------------------------------------------------

ImportedRole = Literal["user", "assistant", "system"]
ROLE_WORDS: dict[str, ImportedRole] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
}
"""Words that name a role, in lower case; files write them in any."""
_MESSAGES: dict[ImportedRole, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """One line of a file, checked.

    Attributes:
        role: Who speaks.
        text: Verbatim.
        location: Where it stands in the file.
        own_id: The id the file gives it, if any.
        name: The speaker's name, if it is more than the role.
        time: When it was said, in UTC, if the file tells.
        session: Label of the session, if the file tells.
    """

    role: ImportedRole
    text: str
    location: str
    own_id: str | None = None
    name: str | None = None
    time: datetime | None = None
    session: str | None = None


def build_line_message(line: ImportedLine) -> FoundMessage:
    """Return the message that a line is."""
    extra = build_stamp(line.time, line.session)
    cls = _MESSAGES[line.role]
    message = cls(content=line.text, id=line.own_id, name=line.name, additional_kwargs=extra)
    return FoundMessage(message, line.location)


def space_times(lines: Sequence[ImportedLine]) -> list[ImportedLine]:
    """Return the lines with times that increase within a session.

    Files give all lines of a session its time: the second line that repeats a time of its session
    is put one millisecond later, the third two, and so on.
    """
    repeats: dict[tuple[str | None, datetime], int] = {}
    spaced = []
    for line in lines:
        if line.time is None:
            spaced.append(line)
            continue
        repeat = repeats.get((line.session, line.time), 0)
        repeats[line.session, line.time] = repeat + 1
        spaced.append(replace(line, time=line.time + timedelta(milliseconds=repeat)))
    return spaced


def cast_roles(speakers: Iterable[str]) -> dict[str, ImportedRole]:
    """Return the role of every speaker.

    A speaker called by a role (`user`, `bot`, ...) has that role. Of the others, the first to
    appear takes the role of the user and the second that of the assistant, unless somebody is
    called by it; every further speaker is a user with a name.

    Args:
        speakers: In order of appearance; repeats do not count.
    """
    named = list(dict.fromkeys(speakers))
    cast = {name: ROLE_WORDS[name.lower()] for name in named if name.lower() in ROLE_WORDS}
    taken = set(cast.values())
    free: list[ImportedRole] = [role for role in ("user", "assistant") if role not in taken]
    for name in named:
        if name not in cast:
            cast[name] = free.pop(0) if free else "user"
    return cast


def name_speaker(speaker: str) -> str | None:
    """Return the name to keep with a message: none where it only repeats the role."""
    return None if speaker.lower() in ROLE_WORDS else speaker


# -- contents -------------------------------------------------------------------------------------

Block = dict[str, Any]


def make_text_block(words: str) -> Block:
    """Return the block of a text."""
    return {"type": "text", "text": words}


def make_reasoning_block(words: str) -> Block:
    """Return the block of what a model thought before it spoke."""
    return {"type": "reasoning", "reasoning": words}


def make_foreign_block(value: Any) -> Block:
    """Return the block that keeps what has no counterpart, such as a picture's reference."""
    return {"type": "non_standard", "value": value}


def build_content(blocks: Sequence[Block]) -> str | list[str | Block]:
    """Return a message's content: plain text where there is nothing else."""
    spoken = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    if not spoken:
        return ""
    if len(spoken) == 1 and spoken[0]["type"] == "text":
        return str(spoken[0]["text"])
    return list(spoken)


# -- tool calls -----------------------------------------------------------------------------------

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def clean_tool_name(name: str) -> str:
    """Return the name in the characters that every provider takes for a tool's name."""
    return _NOT_IN_NAMES.sub("_", name) or "tool"


def parse_tool_call(name: str, arguments: str, call_id: str) -> ToolCall | None:
    """Return the call whose arguments are JSON text; None where they are not a JSON object."""
    try:
        values = json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    return ToolCall(name=clean_tool_name(name), args=values, id=call_id, type="tool_call")


def make_text_call(name: str, words: str, call_id: str) -> ToolCall:
    """Return the call of a tool that takes plain text."""
    return ToolCall(name=clean_tool_name(name), args={"input": words}, id=call_id, type="tool_call")


def make_invalid_call(name: str, arguments: str, call_id: str) -> InvalidToolCall:
    """Return a call whose arguments are not a JSON object, as they are."""
    return InvalidToolCall(
        name=clean_tool_name(name),
        args=arguments,
        id=call_id,
        error="the arguments are not a JSON object",
        type="invalid_tool_call",
    )


# -- messages as LangChain's own histories store them ---------------------------------------------

_STORED_FORM = 'a stored message {"type": "human", "data": {"content": ...}}'


def read_stored_message(node: Node) -> FoundMessage:
    """Return the message that LangChain stored.

    Raises:
        ImportFormatError: If it is not one.
    """
    kind, data = node.member("type"), node.member("data")
    if not kind.is_a(str) or not data.is_a(dict) or "content" not in data.value:
        node.fail(_STORED_FORM)
    with ErrorTrap(ValueError, TypeError, LookupError, AttributeError) as trap:
        # Chooses from a fixed table of types; nothing is imported by name.
        [message] = messages_from_dict([{"type": kind.value, "data": dict(data.value)}])
        return repair_timestamp(message, node.location)
    return node.fail(f"{_STORED_FORM}: {trap.reason}")


def repair_timestamp(message: BaseMessage, location: str) -> FoundMessage:
    """Return a message of another store; a time that cannot be read is kept under another key."""
    try:
        get_line_time_ms(message)
    except InvalidMessageError:
        extra: dict[str, Any] = message.additional_kwargs
        extra["original_timestamp"] = extra.pop("timestamp")
    return FoundMessage(message, location)
