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

from langchain_convmem.transfer.source import Form, Label, Node, Time, Words
from langchain_convmem.transfer.threads import (
    Block,
    Export,
    FindAttachment,
    FoundMessage,
    Tree,
    build_content,
    build_stamp,
    clean_tool_name,
    make_attachment,
    make_part,
    read_title,
)


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
    attached += [make_part(None, one) for one in read.files]
    if read.sender == "human":
        blocks = [block for node, piece in pieces for block in _read_block(node, piece)]
        content = build_content([*blocks, *attached])
        messages: list[BaseMessage] = [HumanMessage(content)] if content else []
    else:
        messages = _part_reply(read.uuid, pieces, attached)
    for number, message in enumerate(messages, start=1):
        message.id = read.uuid if number == 1 else f"{read.uuid}~{number}"
        message.additional_kwargs = dict(build_stamp(read.created_at))
    return [FoundMessage(message, place.location) for message in messages]


def _read_attachment(node: Node) -> Block:
    attachment = node.parse(_Attachment)
    return make_attachment(attachment.extracted_content, attachment.file_name, node.value)


def _read_block(node: Node, piece: _Piece) -> list[Block]:
    """Return what a piece of content says, if anything."""
    if piece.type == "thinking" and piece.thinking.strip():
        return [{"type": "reasoning", "reasoning": piece.thinking}]
    if piece.type in ("thinking", "token_budget"):  # the service's own bookkeeping
        return []
    return [make_part(piece.text if piece.type == "text" else None, node.value)]


def _part_reply(
    own_id: str, pieces: list[tuple[Node, _Piece]], attached: list[Block]
) -> list[BaseMessage]:
    """Return the messages of a reply, without ids: it is parted at its tool results."""
    messages: list[BaseMessage] = []
    blocks: list[Block] = []
    calls: list[ToolCall] = []
    called = 0
    waiting: list[str] = []
    for node, piece in pieces:
        if piece.type == "tool_use":
            called += 1
            call = _read_call(node, piece, f"call-{own_id}-{called}")
            calls.append(call)
            waiting.append(str(call["id"]))
        elif piece.type == "tool_result":
            messages += _close(blocks, calls)
            blocks, calls = [], []
            call_id = piece.tool_use_id or (waiting[0] if waiting else f"call-{own_id}-lost")
            waiting = [one for one in waiting if one != call_id]
            messages.append(_read_result(piece, call_id))
        else:
            blocks += _read_block(node, piece)
    return messages + _close([*blocks, *attached], calls)


def _close(blocks: list[Block], calls: list[ToolCall]) -> list[BaseMessage]:
    content = build_content(blocks)
    return [AIMessage(content, tool_calls=calls)] if content or calls else []


def _read_call(node: Node, piece: _Piece, call_id: str) -> ToolCall:
    if piece.name is None:
        node.fail('an object with the key "name"')
    values = {} if piece.input is None else piece.input
    args = values if isinstance(values, dict) else {"input": values}
    name = clean_tool_name(piece.name)
    return ToolCall(name=name, args=args, id=piece.id or call_id, type="tool_call")


def _read_result(piece: _Piece, call_id: str) -> ToolMessage:
    content = piece.content
    if content is not None and not isinstance(content, str | list):
        content = json.dumps(content, ensure_ascii=False)
    blocks: list[Block] = []
    for part in [content] if isinstance(content, str) else content or []:
        known = part if isinstance(part, dict) else {"type": "text", "text": part}
        blocks.append(make_part(known.get("text") if known.get("type") == "text" else None, part))
    return ToolMessage(
        build_content(blocks),
        tool_call_id=call_id,
        name=piece.name and clean_tool_name(piece.name),
        status="error" if piece.is_error is True else "success",
    )


FORM = 'a Claude export [{"uuid", "chat_messages": [{"sender", "content", ...}]}]'
EXPORT = Export("claude", FORM, "chat_messages", read_tree)
