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

from langchain_convmem.moving.content import (
    Block,
    called,
    content_of,
    foreign,
    refused_call,
    text,
)
from langchain_convmem.moving.node import Node
from langchain_convmem.moving.source import Source
from langchain_convmem.moving.threads import (
    ROLE_WORDS,
    FoundMessage,
    ImportedThread,
    thread_of_messages,
    time_and_session,
)

__all__ = ["FORM", "MessageReader", "fits_openai", "read_openai"]

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
    return [thread_of_messages(thread_id or Path(source.path).stem, found, source.path)]


class MessageReader:
    """Reads the messages of one dialogue, in order: a result may name its call by place alone."""

    def __init__(self) -> None:
        self._number = 0
        self._last_call = ""

    def read(self, node: Node) -> FoundMessage:
        """Return the next message.

        Raises:
            ImportFormatError: If it is none.
        """
        self._number += 1
        role = _role(node.member("role"))
        if role == "assistant":
            message: BaseMessage = self._reply(node)
        elif role == "tool":
            message = self._result(node)
        else:
            cls = SystemMessage if role == "system" else HumanMessage
            message = cls(_said(node))
        self._name(message, node)
        return FoundMessage(message, node.location)

    def _name(self, message: BaseMessage, node: Node) -> None:
        own_id, name = node.optional("id"), node.optional("name")
        time, session = node.optional("timestamp"), node.optional("session")
        message.id = None if own_id is None else own_id.label()
        message.name = None if name is None else name.text()
        message.additional_kwargs.update(
            time_and_session(
                None if time is None else time.time(),
                None if session is None else session.label(),
            )
        )

    def _reply(self, node: Node) -> AIMessage:
        listed = node.optional("tool_calls")
        asked = [] if listed is None else [item.member("function") for item in listed.items()]
        ids = [] if listed is None else [_id_of(item) for item in listed.items()]
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
            arguments = _arguments(function)
            call = called(name, arguments, call_id)
            if call is None:
                broken.append(refused_call(name, arguments, call_id))
            else:
                calls.append(call)
        content = _maybe_said(node) if asked else _said(node)
        return AIMessage(content, tool_calls=calls, invalid_tool_calls=broken)

    def _result(self, node: Node) -> ToolMessage:
        own_id = node.optional("tool_call_id")
        call_id = self._last_call if own_id is None else own_id.label()
        if not call_id:
            node.fail('an object with the key "tool_call_id"')
        return ToolMessage(_maybe_said(node), tool_call_id=call_id)


def _role(node: Node) -> str:
    role = _ROLES.get(node.value.lower()) if isinstance(node.value, str) else None
    if role is None:
        node.fail(f"one of {', '.join(_ROLES)}")
    return role


def _id_of(item: Node) -> str | None:
    own_id = item.optional("id")
    return None if own_id is None or own_id.is_blank() else own_id.label()


def _arguments(function: Node) -> str:
    arguments = function.optional("arguments")
    return "" if arguments is None else arguments.text_or_blank()


def _said(node: Node) -> str | list[Any]:
    """Return the content of a message that must say something."""
    if not node.has("parts") and not node.has("content"):
        node.member("content")
    content = node.member("parts" if node.has("parts") else "content")
    if not content.is_a(list):
        return content.text()
    found = content_of([_block(part) for part in content.items()])
    if not found:
        content.fail("a part that says something")
    return found


def _maybe_said(node: Node) -> str | list[Any]:
    """Return the content of a message that may be empty."""
    content = node.optional("parts") or node.optional("content")
    if content is None:
        return ""
    if not content.is_a(list):
        return content.text_or_blank()
    return content_of([_block(part) for part in content.items()])


def _block(part: Node) -> Block:
    if part.is_a(str):
        return text(part.text_or_blank())
    kind = part.optional("type")
    if (kind is None and part.has("text")) or (kind is not None and kind.value in _TEXTS):
        return text(part.member("text").text_or_blank())
    if kind is None or not kind.is_a(str):
        return foreign(part.value)
    return dict(part.value)
