"""Messages as the OpenAI API takes them: `{role, content | parts, tool_calls, tool_call_id, name}`.

Beside those keys a message may have `id`, `timestamp` and `session`. Whole files of them are a
JSON list, or an object with the key `messages`; `jsonl` reads them line by line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from langchain_convmem.transfer.messages import (
    ROLE_WORDS,
    Block,
    FoundMessage,
    build_content,
    build_stamp,
    make_foreign_block,
    make_invalid_call,
    make_text_block,
    parse_tool_call,
)
from langchain_convmem.transfer.source import Node, Source
from langchain_convmem.transfer.threads import ImportedThread, build_thread

FORM = 'OpenAI messages [{"role", "content", "tool_calls"?, "tool_call_id"?, "name"?}]'
_ROLES = {**ROLE_WORDS, "system": "system", "developer": "system", "tool": "tool"}
_ROLES["function"] = "tool"
_TEXTS = ("text", "input_text", "output_text")
_SAYS = ("content", "parts", "tool_calls", "function_call")


def fits_openai(source: Source) -> bool:
    """Return whether the file is a list that starts with a message, or an object holding one."""
    document = source.document
    if isinstance(document, dict):
        document = document.get("messages")
    if not isinstance(document, list) or not document or not isinstance(document[0], dict):
        return False
    return "role" in document[0] and any(name in document[0] for name in _SAYS)


def read_openai(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread, named after its stem.

    Raises:
        ImportFormatError: If an item is not such a message.
    """
    root = Node(source.document, source.path, "$")
    items = root.items() if root.is_a(list) else root.member("messages").items()
    reader = MessageReader()
    found = [reader.read(item) for item in items]
    return [build_thread(thread_id or Path(source.path).stem, found, source.path)]


class MessageReader:
    """Reads the messages of one dialogue, in order: a result may name its call by place alone."""

    def __init__(self) -> None:
        self._number = 0
        self._last_call = ""

    def read(self, node: Node) -> FoundMessage:
        """Return the next message.

        Raises:
            ImportFormatError: If it is not a message.
        """
        self._number += 1
        role = _read_role(node.member("role"))
        if role == "assistant":
            message: BaseMessage = self._read_reply(node)
        elif role == "tool":
            message = self._read_result(node)
        else:
            cls = SystemMessage if role == "system" else HumanMessage
            message = cls(_read_content(node))
        self._add_names(message, node)
        return FoundMessage(message, node.location)

    def _add_names(self, message: BaseMessage, node: Node) -> None:
        own_id, name = node.optional("id"), node.optional("name")
        time, session = node.optional("timestamp"), node.optional("session")
        message.id = None if own_id is None else own_id.label()
        message.name = None if name is None else name.text()
        message.additional_kwargs.update(
            build_stamp(
                None if time is None else time.time(),
                None if session is None else session.label(),
            )
        )

    def _read_reply(self, node: Node) -> AIMessage:
        listed = node.optional("tool_calls")
        asked = [] if listed is None else [item.member("function") for item in listed.items()]
        ids = [] if listed is None else [_read_id(item) for item in listed.items()]
        old = node.optional("function_call")
        if old is not None:
            asked.append(old)
            ids.append(None)
        calls: list[ToolCall] = []
        broken: list[InvalidToolCall] = []
        for place, (function, own_id) in enumerate(zip(asked, ids, strict=True), start=1):
            call_id = own_id or f"call-{self._number}-{place}"
            self._last_call = call_id
            name = function.member("name").text()
            arguments = _read_arguments(function)
            call = parse_tool_call(name, arguments, call_id)
            if call is None:
                broken.append(make_invalid_call(name, arguments, call_id))
            else:
                calls.append(call)
        content = _read_optional_content(node) if asked else _read_content(node)
        return AIMessage(content, tool_calls=calls, invalid_tool_calls=broken)

    def _read_result(self, node: Node) -> ToolMessage:
        own_id = node.optional("tool_call_id")
        call_id = self._last_call if own_id is None else own_id.label()
        if not call_id:
            node.fail('an object with the key "tool_call_id"')
        return ToolMessage(_read_optional_content(node), tool_call_id=call_id)


def _read_role(node: Node) -> str:
    role = _ROLES.get(node.value.lower()) if isinstance(node.value, str) else None
    if role is None:
        node.fail(f"one of {', '.join(_ROLES)}")
    return role


def _read_id(item: Node) -> str | None:
    own_id = item.optional("id")
    return None if own_id is None or own_id.is_blank() else own_id.label()


def _read_arguments(function: Node) -> str:
    arguments = function.optional("arguments")
    return "" if arguments is None else arguments.text_or_blank()


def _read_content(node: Node) -> str | list[Any]:
    """Return the content of a message that must say something."""
    if not node.has("parts") and not node.has("content"):
        node.member("content")
    content = node.member("parts" if node.has("parts") else "content")
    if not content.is_a(list):
        return content.text()
    found = build_content([_read_block(part) for part in content.items()])
    if not found:
        content.fail("a part that says something")
    return found


def _read_optional_content(node: Node) -> str | list[Any]:
    """Return the content of a message that may be empty."""
    content = node.optional("parts") or node.optional("content")
    if content is None:
        return ""
    if not content.is_a(list):
        return content.text_or_blank()
    return build_content([_read_block(part) for part in content.items()])


def _read_block(part: Node) -> Block:
    if part.is_a(str):
        return make_text_block(part.text_or_blank())
    kind = part.optional("type")
    if (kind is None and part.has("text")) or (kind is not None and kind.value in _TEXTS):
        return make_text_block(part.member("text").text_or_blank())
    if kind is None or not kind.is_a(str):
        return make_foreign_block(part.value)
    return dict(part.value)
