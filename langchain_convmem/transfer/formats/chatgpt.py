"""The export of ChatGPT: `conversations.json`, a list of conversations, each a tree of messages.

    [{conversation_id, title, current_node,
      mapping: {node: {parent, message: {id, author: {role, name}, create_time, recipient,
                                         content: {content_type, parts | text | ...}}}}}, ...]

A conversation is the path to its current node; what was edited or generated anew makes further
threads. Nodes without a message or without a word are left out. What a model sends to a tool is
a tool call, what a tool says its result; pictures keep their reference.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from pydantic import Field

from langchain_convmem.transfer.source import Form, Label, Node, Seconds, Words
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
    read_call,
    read_title,
)

_TO_ALL = "all"
_TEXT_FIELDS = ("text", "result", "user_profile", "user_instructions", "content")
_THOUGHTS = ("thoughts", "reasoning_recap")
_INSTRUCTIONS = "user_editable_context"


class _Author(Form):
    role: Literal["user", "assistant", "system", "tool"]
    name: str = ""


class _Message(Form):
    id: Label | None = None
    author: _Author
    create_time: Seconds | None = None
    recipient: Words = _TO_ALL
    content: dict[str, Any]
    metadata: dict[str, Any] = Field({})

    @property
    def role(self) -> str:
        """Who speaks; what the user set once for all conversations is no line of this one."""
        is_set = self.content.get("content_type") == _INSTRUCTIONS
        return "system" if is_set else self.author.role

    @property
    def calls(self) -> bool:
        """Whether a model speaks to a tool."""
        return self.role == "assistant" and self.recipient != _TO_ALL


class _Node(Form):
    parent: Label | None = None
    message: _Message | None = None


class _Conversation(Form):
    conversation_id: Label | None = None
    id: Label | None = None
    title: Any = None
    current_node: Label | None = None
    mapping: dict[str, _Node]


def read_tree(node: Node, find_attachment: FindAttachment) -> Tree:
    """Return the tree of a conversation.

    Args:
        node: The conversation.
        find_attachment: Returns the text of a file that the user attached.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    conversation = node.parse(_Conversation)
    named = conversation.conversation_id or conversation.id
    if named is None:
        node.fail('an object with the key "conversation_id"')
    nodes = conversation.mapping

    def read_messages(name: str) -> list[FoundMessage]:
        """Return the node's message, if it says or calls anything."""
        read = nodes[name].message
        if read is None:
            return []
        message = _read_message(name, read, nodes, find_attachment)
        if not message.content and not getattr(message, "tool_calls", None):
            return []
        return [FoundMessage(message, node.at(None, "mapping", name, "message").location)]

    return Tree(
        thread_id=named,
        root=node,
        parents={name: one.parent for name, one in nodes.items()},
        current=conversation.current_node,
        messages=cache(read_messages),
        title=read_title(conversation.title),
    )


def _read_message(
    name: str, read: _Message, nodes: dict[str, _Node], find: FindAttachment
) -> BaseMessage:
    own_id = read.id or name
    blocks = _read_blocks(read.content)
    author = read.author.name if read.author.name.strip() else None
    names: dict[str, Any] = {"id": own_id, "additional_kwargs": build_stamp(read.create_time)}
    if read.role == "assistant":
        return _read_reply(read, blocks, names)
    if read.role == "tool":
        call_id = _find_call(name, nodes) or f"call-{own_id}"
        tool = clean_tool_name(author or "tool")
        return ToolMessage(build_content(blocks), tool_call_id=call_id, name=tool, **names)
    blocks += _read_attachments(read.metadata.get("attachments"), find)
    cls = SystemMessage if read.role == "system" else HumanMessage
    return cls(build_content(blocks), name=author, **names)


def _find_call(name: str, nodes: dict[str, _Node]) -> str | None:
    """Return the id of the call that the tool's node `name` answers: the nearest one above."""
    above = nodes[name].parent
    while above is not None and above in nodes:
        read = nodes[above].message
        if read is not None and read.role == "user":
            return None
        if read is not None and read.calls:
            return f"call-{read.id or above}"
        above = nodes[above].parent
    return None


def _read_reply(read: _Message, blocks: list[Block], names: dict[str, Any]) -> AIMessage:
    model = read.metadata.get("model_slug")
    known = {"model_name": model} if isinstance(model, str) and model.strip() else {}
    message = AIMessage(build_content(blocks), response_metadata=known, **names)
    if read.calls:
        said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        call_id = f"call-{message.id}"
        call = read_call(read.recipient, said, call_id)
        args = call["args"] if isinstance(call["args"], dict) else {"input": said}
        message.tool_calls = [tool_call(name=call["name"] or "", args=args, id=call_id)]
        message.content = build_content([block for block in blocks if block["type"] != "text"])
        message.additional_kwargs["recipient"] = read.recipient
    return message


def _read_blocks(content: dict[str, Any]) -> list[Block]:
    if content.get("content_type") in _THOUGHTS:
        return _read_thoughts(content)
    parts = content.get("parts")
    if isinstance(parts, list):
        # A voice's transcription has its text within.
        said = (part.get("text") if isinstance(part, dict) else part for part in parts)
        return [make_part(*pair) for pair in zip(said, parts, strict=True) if pair[1] is not None]
    texts = [one for one in map(content.get, _TEXT_FIELDS) if isinstance(one, str)]
    return [make_part(one, content) for one in texts] or [make_part(None, content)]


def _read_thoughts(content: dict[str, Any]) -> list[Block]:
    thoughts = content.get("thoughts")
    found = []
    for thought in thoughts if isinstance(thoughts, list) else [content]:
        known = thought if isinstance(thought, dict) else {}
        parts = [known.get(name) for name in ("summary", "content")]
        said = "\n".join(words for words in parts if isinstance(words, str) and words)
        found += [{"type": "reasoning", "reasoning": said}] if said else []
    return found


def _read_attachments(attachments: Any, find: FindAttachment) -> list[Block]:
    """Return the files that the user attached: their text where it is known, else their names.

    Pictures stand among the parts of the message already.
    """
    blocks: list[Block] = []
    for item in attachments if isinstance(attachments, list) else []:
        known = item if isinstance(item, dict) else {}
        own_id, name, kind, other = (
            value if isinstance(value, str) else ""
            for value in map(known.get, ("id", "name", "mime_type", "mimeType"))
        )
        text = find(own_id, name) or ""
        if text.strip() or not (kind or other).startswith("image/"):
            blocks.append(make_attachment(text, name, item))
    return blocks


FORM = 'a ChatGPT export [{"conversation_id", "current_node", "mapping": {...}}]'
EXPORT = Export("chatgpt", FORM, "mapping", read_tree)
