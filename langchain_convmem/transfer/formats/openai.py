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
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from pydantic import BeforeValidator, Field

from langchain_convmem.transfer.messages import (
    Block,
    FoundMessage,
    build_content,
    build_stamp,
    make_foreign_block,
    make_invalid_call,
    make_text_block,
    parse_tool_call,
)
from langchain_convmem.transfer.source import (
    MAX_LINE_BYTES,
    Form,
    Label,
    Node,
    Source,
    Time,
    Words,
    refuse,
)
from langchain_convmem.transfer.threads import ImportedThread, build_thread

FORM = 'OpenAI messages [{"role", "content", "tool_calls"?, "tool_call_id"?, "name"?}]'
ROWS_FORM = 'JSONL with {"role", "content", "id"?, "name"?, "timestamp"?, "session"?} on each line'
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
    "function": "tool",
}
"""Words that name a role, in lower case; files write them in any."""
_TEXTS = ("text", "input_text", "output_text")
_SAYS = ("content", "parts", "tool_calls", "function_call")


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
        return make_text_block(part)
    if not isinstance(part, dict):
        raise ValueError("a list of texts and objects")  # noqa: TRY004 - as above
    kind = part.get("type")
    if kind in _TEXTS or (kind is None and part.get("text") is not None):
        if not isinstance(part.get("text"), str):
            raise ValueError("a list of parts whose texts are text")
        return make_text_block(part["text"])
    return dict(part) if isinstance(kind, str) else make_foreign_block(part)


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
    function_call: _Function | None = None
    tool_call_id: Label | None = None
    id: Label | None = None
    name: Words | None = None
    timestamp: Time | None = None
    session: Label | None = None


def fits_openai(source: Source) -> bool:
    """Return whether the file is a list that starts with a message, or an object holding one."""
    document = source.document
    if isinstance(document, dict):
        document = document.get("messages")
    if not isinstance(document, list) or not document or not isinstance(document[0], dict):
        return False
    return "role" in document[0] and any(name in document[0] for name in _SAYS)


def read_openai(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread.

    Raises:
        ImportFormatError: If an item is not such a message.
    """
    root = Node(source.document, source.path, "$")
    if isinstance(root.value, dict):
        root = root.at(root.value["messages"], "messages")
    return _build(source, list(root.items()), thread_id)


def fits_jsonl(source: Source) -> bool:
    """Return whether the file has several lines of objects, or one that is a message."""
    if source.has_rows:
        return True
    sample = source.document
    return isinstance(sample, dict) and bool({"role", "content"} & sample.keys())


def read_jsonl(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread.

    Raises:
        ImportFormatError: If a line is not such a message.
    """
    for number, row in source.rows():
        size = len(row.encode(errors="surrogatepass"))
        if size > MAX_LINE_BYTES:
            problem = f"is {size:,} bytes long; the limit is {MAX_LINE_BYTES:,}"
            refuse(source.path, f"line {number}", problem)
    return _build(source, list(source.row_nodes()), thread_id)


def _build(source: Source, nodes: list[Node], thread_id: str | None) -> list[ImportedThread]:
    found: list[FoundMessage] = []
    last_call = ""  # a result may name its call by place alone
    for number, node in enumerate(nodes, 1):
        read = node.parse(_Message)
        message, last_call = _read_message(node, read, number, last_call)
        message.id, message.name = read.id, read.name
        message.additional_kwargs.update(build_stamp(read.timestamp, read.session))
        found.append(FoundMessage(message, node.location))
    return [build_thread(thread_id or Path(source.path).stem, found, source.path)]


def _read_message(
    node: Node, read: _Message, number: int, last_call: str
) -> tuple[BaseMessage, str]:
    """Return a message, and the last call so far."""
    content = read.content if read.parts is None else read.parts
    asked = [(call.id, call.function) for call in read.tool_calls]
    asked += [] if read.function_call is None else [(None, read.function_call)]
    if read.role == "tool":
        call_id = read.tool_call_id or last_call
        if not call_id:
            node.fail('an object with the key "tool_call_id"')
        return ToolMessage(content or "", tool_call_id=call_id), last_call
    if read.role != "assistant" or not asked:
        if content is None:
            node.fail('an object with the key "content"')
        if not content or (isinstance(content, str) and not content.strip()):
            node.at(content, "content").fail("text that is not blank")
    if read.role != "assistant":
        return (SystemMessage if read.role == "system" else HumanMessage)(content), last_call
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for place, (own_id, function) in enumerate(asked, start=1):
        last_call = str(own_id or "").strip() or f"call-{number}-{place}"
        call = parse_tool_call(function.name, function.arguments, last_call)
        if call is None:
            broken.append(make_invalid_call(function.name, function.arguments, last_call))
        else:
            calls.append(call)
    return AIMessage(content or "", tool_calls=calls, invalid_tool_calls=broken), last_call
