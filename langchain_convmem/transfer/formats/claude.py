"""The export of Claude: `conversations.json`, a list of conversations with their messages.

    [{uuid, name, chat_messages: [{uuid, sender: "human" | "assistant", created_at, text,
                                   content: [{type, ...}], attachments, files,
                                   parent_message_uuid?}, ...]}, ...]

A reply that used tools becomes several messages: what was said before with the calls, the results,
what was said after them. Attached texts are kept as documents, attached files by their names.
Messages without a word are left out. Where messages name the one before them, those that are not
on the way to the last one make further threads.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from pydantic import Field

from langchain_convmem.transfer.messages import (
    Block,
    FoundMessage,
    build_content,
    build_stamp,
    clean_tool_name,
    make_attachment,
    make_foreign_block,
    make_reasoning_block,
    make_text_block,
)
from langchain_convmem.transfer.source import Form, Label, Node, Time, Words
from langchain_convmem.transfer.threads import FindAttachment, Tree, read_title

FORM = 'a Claude export [{"uuid", "chat_messages": [{"sender", "content", ...}]}]'


class _Piece(Form):
    type: Words
    text: str = ""
    thinking: str = ""
    name: Words | None = None
    id: Label | None = None
    input: Any = None
    tool_use_id: Label | None = None
    is_error: Any = None
    content: Any = None


class _Attachment(Form):
    file_name: str = ""
    extracted_content: str = ""


class _Message(Form):
    uuid: Label
    sender: Literal["human", "assistant"]
    created_at: Time | None = None
    parent_message_uuid: Label | None = None
    text: str = ""
    content: list[Any] = Field([])
    attachments: list[Any] = Field([])
    files: list[Any] = Field([])


class _Conversation(Form):
    uuid: Label
    name: Any = None
    current_leaf_message_uuid: Label | None = None
    chat_messages: list[_Message]


def is_conversation(value: Any) -> bool:
    """Return whether a value is meant to be one of the conversations."""
    return isinstance(value, dict) and "chat_messages" in value


def read_tree(node: Node, _find: FindAttachment) -> Tree:
    """Return the tree of a conversation; the texts of its attached files stand in it.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    conversation = node.parse(_Conversation)
    nodes: dict[str, tuple[_Message, Node]] = {}
    parents: dict[str, str | None] = {}
    before: str | None = None
    for number, message in enumerate(conversation.chat_messages):
        place = node.at(None, "chat_messages", number)
        if message.uuid in nodes:
            first = nodes[message.uuid][1].location
            place.at(message.uuid, "uuid").fail(f"another id than that of {first}")
        nodes[message.uuid] = message, place
        # Exports without this key hold the messages in order.
        parents[message.uuid] = message.parent_message_uuid or before
        before = message.uuid
    return Tree(
        thread_id=conversation.uuid,
        root=node,
        parents=parents,
        current=conversation.current_leaf_message_uuid or before,
        messages=cache(lambda name: _read_messages(*nodes[name])),
        title=read_title(conversation.name),
    )


def _read_messages(read: _Message, place: Node) -> list[FoundMessage]:
    listed: list[Any] = read.content or [{"type": "text", "text": read.text}]
    nodes = list(place.at(listed, "content").items())
    pieces = [(node, node.parse(_Piece)) for node in nodes]
    attached = [_read_attachment(one) for one in place.at(read.attachments, "attachments").items()]
    attached += map(make_foreign_block, read.files)
    if read.sender == "human":
        blocks = [block for node, piece in pieces for block in _read_block(node, piece)]
        content = build_content([*blocks, *attached])
        messages: list[BaseMessage] = [HumanMessage(content)] if content else []
    else:
        messages = _Reply(read.uuid).read(pieces, attached)
    for number, message in enumerate(messages, start=1):
        message.id = read.uuid if number == 1 else f"{read.uuid}~{number}"
        message.additional_kwargs = dict(build_stamp(read.created_at))
    return [FoundMessage(message, place.location) for message in messages]


def _read_attachment(node: Node) -> Block:
    attachment = node.parse(_Attachment)
    return make_attachment(attachment.extracted_content, attachment.file_name, node.value)


def _read_block(node: Node, piece: _Piece) -> list[Block]:
    """Return what a piece of content says, if anything."""
    if piece.type == "text":
        return [make_text_block(piece.text)]
    if piece.type == "thinking":
        return [make_reasoning_block(piece.thinking)] if piece.thinking.strip() else []
    if piece.type == "token_budget":  # the service's own bookkeeping
        return []
    return [make_foreign_block(node.value)]


class _Reply:
    """Parts one reply at its tool results."""

    def __init__(self, own_id: str) -> None:
        self._own_id = own_id
        self._messages: list[BaseMessage] = []
        self._blocks: list[Block] = []
        self._calls: list[ToolCall] = []
        self._called: list[str] = []
        self._open: list[str] = []

    def read(self, pieces: list[tuple[Node, _Piece]], attached: list[Block]) -> list[BaseMessage]:
        """Return the messages of the reply, without ids."""
        for node, piece in pieces:
            if piece.type == "tool_use":
                self._read_call(node, piece)
            elif piece.type == "tool_result":
                self._read_result(piece)
            else:
                self._blocks += _read_block(node, piece)
        self._blocks += attached
        self._flush()
        return self._messages

    def _read_call(self, node: Node, piece: _Piece) -> None:
        if piece.name is None:
            node.fail('an object with the key "name"')
        call_id = piece.id or f"call-{self._own_id}-{len(self._called) + 1}"
        values = {} if piece.input is None else piece.input
        args = values if isinstance(values, dict) else {"input": values}
        name = clean_tool_name(piece.name)
        self._calls.append(ToolCall(name=name, args=args, id=call_id, type="tool_call"))
        self._called.append(call_id)
        self._open.append(call_id)

    def _read_result(self, piece: _Piece) -> None:
        waiting = self._open[0] if self._open else f"call-{self._own_id}-lost"
        call_id = piece.tool_use_id or waiting
        if call_id in self._open:
            self._open.remove(call_id)
        self._flush()
        self._messages.append(
            ToolMessage(
                build_content(_read_result_blocks(piece.content)),
                tool_call_id=call_id,
                name=piece.name and clean_tool_name(piece.name),
                status="error" if piece.is_error is True else "success",
            )
        )

    def _flush(self) -> None:
        """Close the message under construction."""
        content = build_content(self._blocks)
        if content or self._calls:
            self._messages.append(AIMessage(content, tool_calls=self._calls))
        self._blocks, self._calls = [], []


def _read_result_blocks(content: Any) -> list[Block]:
    if content is None:
        return []
    if not isinstance(content, str | list):
        content = json.dumps(content, ensure_ascii=False)
    return [
        _read_result_block(item) for item in ([content] if isinstance(content, str) else content)
    ]


def _read_result_block(item: Any) -> Block:
    said = item.get("text") if isinstance(item, dict) and item.get("type") == "text" else item
    return make_text_block(said) if isinstance(said, str) else make_foreign_block(item)
