"""Messages as the OpenAI API takes them: `{role, content | parts, tool_calls, tool_call_id, name}`.

Beside those keys a message may have `id`, `timestamp` and `session`. A file of them is a JSON list,
an object with the key `messages`, or JSONL with one message on each line. Further keys are left
aside. The file is one thread, named after its stem.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import BeforeValidator, Field

from langchain_convmem.transfer.source import (
    Form,
    Label,
    Node,
    Source,
    Time,
    Words,
)
from langchain_convmem.transfer.threads import (
    Block,
    FoundMessage,
    ImportedThread,
    Reader,
    build_content,
    build_stamp,
    build_thread,
    make_part,
    read_call,
)

_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}
"""Words that name a role, in lower case; files write them in any."""
_TEXTS = ("text", "input_text", "output_text")
_SAYS = ("content", "parts", "tool_calls")


def _read_role(value: Any) -> str:
    role = _ROLES.get(value.lower()) if isinstance(value, str) else None
    if role is None:
        raise ValueError(f"one of {', '.join(_ROLES)}")
    return role


def _read_content(value: Any) -> Any:
    if isinstance(value, list):
        return build_content([_read_block(part) for part in value])
    if not isinstance(value, str):
        raise ValueError("text or a list of parts")  # noqa: TRY004 - pydantic takes no other
    return value


def _read_block(part: Any) -> Block:
    if isinstance(part, str):
        return make_part(part, part)
    if not isinstance(part, dict):
        raise ValueError("a list of texts and objects")  # noqa: TRY004 - as above
    kind, said = part.get("type"), part.get("text")
    if kind in _TEXTS and not isinstance(said, str):
        raise ValueError("a list of parts whose texts are text")
    return dict(part) if isinstance(kind, str) and kind not in _TEXTS else make_part(said, part)


Content = Annotated[Any, BeforeValidator(_read_content)]


class _Function(Form):
    name: Words
    arguments: str = ""


class _Call(Form):
    id: Any = None
    function: _Function


class _Message(Form):
    role: Annotated[str, BeforeValidator(_read_role)]
    content: Content = None
    parts: Content = None
    tool_calls: list[_Call] = Field([])
    tool_call_id: Label | None = None
    id: Label | None = None
    name: Words | None = None
    timestamp: Time | None = None
    session: Label | None = None


def fits_openai(source: Source) -> bool:
    """Return whether the file has lines of objects, or is a message or starts with one."""
    if source.has_rows:
        return True
    first = source.document
    if isinstance(first, dict):
        first = first.get("messages", first)
    if isinstance(first, list):
        first = first[0] if first else None
    return isinstance(first, dict) and bool({"role", *_SAYS} & first.keys())


def read_openai(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread.

    Raises:
        ImportFormatError: If a line or an item is not such a message.
    """
    nodes = source.nodes()
    if not source.has_rows and isinstance(source.document, dict) and "messages" in source.document:
        root = Node(source.document, source.path, "$")
        nodes = root.at(source.document["messages"], "messages").items()
    found: list[FoundMessage] = []
    for number, node in enumerate(nodes, 1):
        read = node.parse(_Message)
        message = _read_message(node, read, number)
        message.id, message.name = read.id, read.name
        message.additional_kwargs.update(build_stamp(read.timestamp, read.session))
        found.append(FoundMessage(message, node.location))
    return [build_thread(thread_id or Path(source.path).stem, found, source.path)]


def _read_message(node: Node, read: _Message, number: int) -> BaseMessage:
    content = read.content if read.parts is None else read.parts
    if read.role == "tool":
        if read.tool_call_id is None:
            node.fail('an object with the key "tool_call_id"')
        return ToolMessage(content or "", tool_call_id=read.tool_call_id)
    if read.role != "assistant" or not read.tool_calls:
        if content is None:
            node.fail('an object with the key "content"')
        if not content or (isinstance(content, str) and not content.strip()):
            node.at(content, "content").fail("text that is not blank")
    if read.role != "assistant":
        return (SystemMessage if read.role == "system" else HumanMessage)(content)
    calls: list[Any] = []
    for place, call in enumerate(read.tool_calls, start=1):
        call_id = str(call.id or "").strip() or f"call-{number}-{place}"
        calls.append(read_call(call.function.name, call.function.arguments, call_id))
    sound = [call for call in calls if call["type"] == "tool_call"]
    broken = [call for call in calls if call["type"] != "tool_call"]
    return AIMessage(content or "", tool_calls=sound, invalid_tool_calls=broken)


FORM = (
    'messages {"role", "content", "tool_calls"?, "tool_call_id"?, "id"?, "name"?, "timestamp"?, '
    '"session"?} as a list, as {"messages": [...]} or one on each line'
)
READER = Reader("openai", FORM, fits_openai, read_openai)
