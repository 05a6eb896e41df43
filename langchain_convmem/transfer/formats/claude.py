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
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from langchain_convmem.transfer.messages import (
    Block,
    FoundMessage,
    build_content,
    build_stamp,
    clean_tool_name,
    make_foreign_block,
    make_reasoning_block,
    make_text_block,
)
from langchain_convmem.transfer.source import Node, Source
from langchain_convmem.transfer.threads import (
    FindAttachment,
    ImportedThread,
    Tree,
    build_all_threads,
    read_title,
)

FORM = 'a Claude export [{"uuid", "chat_messages": [{"sender", "content", ...}]}]'


def fits_claude(source: Source) -> bool:
    """Return whether the file is a conversation, or a list that starts with one."""
    return is_conversation(source.sample)


def is_conversation(value: Any) -> bool:
    """Return whether a value is meant to be one of the conversations."""
    return isinstance(value, dict) and "chat_messages" in value


def read_claude(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the threads of all conversations, each followed by those of its branches.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    return build_all_threads(source, read_tree, thread_id)


def read_tree(conversation: Node, _find: FindAttachment) -> Tree:
    """Return the tree of a conversation; the texts of its attached files stand in it.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    nodes: dict[str, Node] = {}
    parents: dict[str, str | None] = {}
    before: str | None = None
    for node in conversation.member("chat_messages").items():
        named = node.member("uuid")
        name = named.label()
        if name in nodes:
            named.fail(f"another id than that of {nodes[name].location}")
        above = node.optional("parent_message_uuid")
        nodes[name] = node
        # Exports without this key hold the messages in order.
        parents[name] = before if above is None else above.label()
        before = name
    current = conversation.optional("current_leaf_message_uuid")
    return Tree(
        thread_id=conversation.member("uuid").label(),
        root=conversation,
        parents=parents,
        current=before if current is None else current.label(),
        messages=cache(lambda name: _read_messages(nodes[name])),
        title=read_title(conversation, "name"),
    )


def _read_messages(node: Node) -> list[FoundMessage]:
    sender = node.member("sender")
    if sender.value not in ("human", "assistant"):
        sender.fail("one of human, assistant")
    time = node.optional("created_at")
    extra = build_stamp(None if time is None else time.time())
    own_id = node.member("uuid").label()
    if sender.value == "human":
        said = [block for item in _list_content(node) for block in _read_block(item)]
        content = build_content([*said, *_read_attachments(node)])
        messages: list[BaseMessage] = [HumanMessage(content)] if content else []
    else:
        messages = _Reply(own_id).read(node)
    for number, message in enumerate(messages, start=1):
        message.id = own_id if number == 1 else f"{own_id}~{number}"
        message.additional_kwargs = dict(extra)
    return [FoundMessage(message, node.location) for message in messages]


def _list_content(node: Node) -> list[Node]:
    content = node.optional("content")
    items = [] if content is None else list(content.items())
    if items:
        return items
    said = node.optional("text")
    if said is None:
        return []
    return [Node({"type": "text", "text": said.text_or_blank()}, said.path, said.location)]


def _read_block(item: Node) -> list[Block]:
    """Return what a piece of content says, if anything."""
    kind = item.member("type").text()
    if kind == "text":
        return [make_text_block(item.member("text").text_or_blank())]
    if kind == "thinking":
        thought = item.optional("thinking")
        return (
            [] if thought is None or thought.is_blank() else [make_reasoning_block(thought.text())]
        )
    if kind == "token_budget":  # the service's own bookkeeping
        return []
    return [make_foreign_block(item.value)]


def _read_attachments(node: Node) -> list[Block]:
    blocks = []
    for item in _list_items(node, "attachments"):
        name = item.optional("file_name")
        said = item.optional("extracted_content")
        if said is None or said.is_blank():
            blocks.append(make_foreign_block(item.value))
            continue
        title = {} if name is None or name.is_blank() else {"title": name.text()}
        blocks.append(
            {"type": "text-plain", "text": said.text(), "mime_type": "text/plain", **title}
        )
    return [*blocks, *(make_foreign_block(item.value) for item in _list_items(node, "files"))]


def _list_items(node: Node, name: str) -> list[Node]:
    found = node.optional(name)
    return [] if found is None else list(found.items())


class _Reply:
    """Parts one reply at its tool results."""

    def __init__(self, own_id: str) -> None:
        self._own_id = own_id
        self._messages: list[BaseMessage] = []
        self._blocks: list[Block] = []
        self._calls: list[ToolCall] = []
        self._open: list[str] = []

    def read(self, node: Node) -> list[BaseMessage]:
        """Return the messages of the reply, without ids."""
        for item in _list_content(node):
            kind = item.member("type").value
            if kind == "tool_use":
                self._read_call(item)
            elif kind == "tool_result":
                self._read_result(item)
            else:
                self._blocks += _read_block(item)
        self._blocks += _read_attachments(node)
        self._flush()
        return self._messages

    def _read_call(self, item: Node) -> None:
        own_id = item.optional("id")
        number = sum(len(getattr(message, "tool_calls", ())) for message in self._messages)
        derived = f"call-{self._own_id}-{number + len(self._calls) + 1}"
        arguments = item.optional("input")
        values = {} if arguments is None else arguments.value
        call = ToolCall(
            name=clean_tool_name(item.member("name").text()),
            args=values if isinstance(values, dict) else {"input": values},
            id=derived if own_id is None else own_id.label(),
            type="tool_call",
        )
        self._calls.append(call)
        self._open.append(str(call["id"]))

    def _read_result(self, item: Node) -> None:
        own_id = item.optional("tool_use_id")
        waiting = self._open[0] if self._open else f"call-{self._own_id}-lost"
        call_id = waiting if own_id is None else own_id.label()
        if call_id in self._open:
            self._open.remove(call_id)
        self._flush()
        name = item.optional("name")
        failed = item.optional("is_error")
        self._messages.append(
            ToolMessage(
                build_content(_read_result_blocks(item.optional("content"))),
                tool_call_id=call_id,
                name=None if name is None else clean_tool_name(name.text()),
                status="error" if failed is not None and failed.value is True else "success",
            )
        )

    def _flush(self) -> None:
        """Close the message under construction."""
        content = build_content(self._blocks)
        if content or self._calls:
            self._messages.append(AIMessage(content, tool_calls=self._calls))
        self._blocks, self._calls = [], []


def _read_result_blocks(content: Node | None) -> list[Block]:
    if content is None:
        return []
    if content.is_a(str):
        return [make_text_block(content.text_or_blank())]
    if not content.is_a(list):
        return [make_text_block(json.dumps(content.value, ensure_ascii=False))]
    return [_read_result_block(item) for item in content.items()]


def _read_result_block(item: Node) -> Block:
    if item.is_a(str):
        return make_text_block(item.text_or_blank())
    kind, said = item.optional("type"), item.optional("text")
    if kind is not None and kind.value == "text" and said is not None:
        return make_text_block(said.text_or_blank())
    return make_foreign_block(item.value)
