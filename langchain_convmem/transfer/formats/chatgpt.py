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
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.transfer.messages import (
    Block,
    FoundMessage,
    build_content,
    build_stamp,
    clean_tool_name,
    make_foreign_block,
    make_reasoning_block,
    make_text_block,
    make_text_call,
    parse_tool_call,
)
from langchain_convmem.transfer.source import Node, Source
from langchain_convmem.transfer.threads import (
    FindAttachment,
    ImportedThread,
    Tree,
    build_all_threads,
    read_title,
)

FORM = 'a ChatGPT export [{"conversation_id", "current_node", "mapping": {...}}]'
_TO_ALL = "all"
_TEXT_FIELDS = ("text", "result", "user_profile", "user_instructions", "content")
_THOUGHTS = ("thoughts", "reasoning_recap")
_INSTRUCTIONS = "user_editable_context"


def fits_chatgpt(source: Source) -> bool:
    """Return whether the file is a conversation with a mapping, or a list that starts with one."""
    return is_conversation(source.sample)


def is_conversation(value: Any) -> bool:
    """Return whether a value is meant to be one of the conversations."""
    return isinstance(value, dict) and "mapping" in value


def read_chatgpt(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the threads of all conversations, each followed by those of its branches.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    return build_all_threads(source, read_tree, thread_id)


def read_tree(conversation: Node, find_attachment: FindAttachment) -> Tree:
    """Return the tree of a conversation.

    Args:
        conversation: The conversation.
        find_attachment: Returns the text of a file that the user attached.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    named = conversation.optional("conversation_id") or conversation.member("id")
    current = conversation.optional("current_node")
    mapping = conversation.member("mapping")
    nodes = {name: mapping.member(name) for name in mapping.names()}
    above = {name: node.optional("parent") for name, node in nodes.items()}
    parents = {name: None if node is None else node.label() for name, node in above.items()}
    reader = _Reader(nodes, parents, find_attachment)
    return Tree(
        thread_id=named.label(),
        root=conversation,
        parents=parents,
        current=None if current is None else current.label(),
        messages=cache(reader.read_messages),
        title=read_title(conversation, "title"),
    )


class _Reader:
    """Reads the nodes of one conversation."""

    def __init__(
        self,
        nodes: dict[str, Node],
        parents: dict[str, str | None],
        find_attachment: FindAttachment,
    ) -> None:
        self._nodes = nodes
        self._parents = parents
        self._find_attachment = find_attachment

    def read_messages(self, name: str) -> list[FoundMessage]:
        """Return the node's message, if it says or calls anything."""
        node = self._nodes[name].optional("message")
        if node is None:
            return []
        message = self._read_message(name, node)
        if not message.content and not getattr(message, "tool_calls", None):
            return []
        return [FoundMessage(message, node.location)]

    def _read_message(self, name: str, node: Node) -> BaseMessage:
        role = _read_role(node)
        own_id = node.optional("id")
        time = node.optional("create_time")
        message_id = name if own_id is None else own_id.label()
        blocks = _read_blocks(node.member("content"))
        extra = build_stamp(None if time is None else time.seconds())
        if role == "assistant":
            return _read_reply(node, blocks, message_id, extra)
        if role == "tool":
            return ToolMessage(
                build_content(blocks),
                tool_call_id=self._find_call(name) or _make_call_id(message_id),
                name=clean_tool_name(_read_author(node) or "tool"),
                id=message_id,
                additional_kwargs=extra,
            )
        blocks += _read_attachments(node, self._find_attachment)
        cls = SystemMessage if role == "system" else HumanMessage
        author = _read_author(node)
        return cls(build_content(blocks), name=author, id=message_id, additional_kwargs=extra)

    def _find_call(self, name: str) -> str | None:
        """Return the id of the call that the tool's node `name` answers: the nearest one above."""
        above = self._parents.get(name)
        while above is not None and above in self._nodes:
            node = self._nodes[above].optional("message")
            role = None if node is None else _read_role(node)
            if role == "user":
                return None
            if node is not None and role == "assistant" and _read_recipient(node) != _TO_ALL:
                own_id = node.optional("id")
                return _make_call_id(above if own_id is None else own_id.label())
            above = self._parents.get(above)
        return None


def _read_reply(
    node: Node, blocks: list[Block], message_id: str, extra: dict[str, str]
) -> AIMessage:
    model = _read_model(node)
    recipient = _read_recipient(node)
    message = AIMessage(
        build_content(blocks),
        id=message_id,
        additional_kwargs=extra,
        response_metadata={} if model is None else {"model_name": model},
    )
    if recipient != _TO_ALL:
        said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        rest = [block for block in blocks if block["type"] != "text"]
        call = parse_tool_call(recipient, said, _make_call_id(message_id))
        if call is None:
            call = make_text_call(recipient, said, _make_call_id(message_id))
        message.content = build_content(rest)
        message.tool_calls = [call]
        message.additional_kwargs["recipient"] = recipient
    return message


def _read_role(node: Node) -> str:
    author = node.member("author").member("role")
    if author.value not in ("user", "assistant", "system", "tool"):
        author.fail("one of user, assistant, system, tool")
    content = node.optional("content")
    kind = None if content is None else content.optional("content_type")
    # What the user set once for all conversations is not a line of this one.
    return "system" if kind is not None and kind.value == _INSTRUCTIONS else str(author.value)


def _read_author(node: Node) -> str | None:
    name = node.member("author").optional("name")
    return None if name is None or name.is_blank() else name.text()


def _read_recipient(node: Node) -> str:
    recipient = node.optional("recipient")
    return _TO_ALL if recipient is None else recipient.text()


def _read_model(node: Node) -> str | None:
    metadata = node.optional("metadata")
    slug = None if metadata is None else metadata.optional("model_slug")
    return None if slug is None or slug.is_blank() else slug.text()


def _make_call_id(message_id: str) -> str:
    return f"call-{message_id}"


def _read_blocks(content: Node) -> list[Block]:
    kind = content.optional("content_type")
    if kind is not None and kind.value in _THOUGHTS:
        return _read_thoughts(content)
    parts = content.optional("parts")
    if parts is not None:
        return [block for part in parts.items() for block in _read_part(part)]
    texts = [content.optional(name) for name in _TEXT_FIELDS]
    said = [node.text_or_blank() for node in texts if node is not None and node.is_a(str)]
    return (
        [make_text_block(words) for words in said] if said else [make_foreign_block(content.value)]
    )


def _read_part(part: Node) -> list[Block]:
    if part.is_a(str):
        return [make_text_block(part.text_or_blank())]
    if part.value is None:
        return []
    words = part.optional("text")  # a voice's transcription
    if words is not None and words.is_a(str):
        return [make_text_block(words.text_or_blank())]
    return [make_foreign_block(part.value)]


def _read_attachments(node: Node, find: FindAttachment) -> list[Block]:
    """Return the files that the user attached: their text where it is known, else their names.

    Pictures stand among the parts of the message already.
    """
    metadata = node.optional("metadata")
    found = None if metadata is None else metadata.optional("attachments")
    items = [] if found is None or not found.is_a(list) else list(found.items())
    blocks: list[Block] = []
    for item in items:
        own_id, name, kind = (_read_label(item, key) for key in ("id", "name", "mime_type"))
        kind = kind or _read_label(item, "mimeType")
        text = find(own_id, name)
        if text is not None and text.strip():
            title = {"title": name} if name else {}
            blocks.append({"type": "text-plain", "text": text, "mime_type": "text/plain", **title})
        elif not kind.startswith("image/"):
            blocks.append(make_foreign_block(item.value))
    return blocks


def _read_label(item: Node, name: str) -> str:
    found = item.optional(name) if item.is_a(dict) else None
    return found.value if found is not None and found.is_a(str) else ""


def _read_thoughts(content: Node) -> list[Block]:
    thoughts = content.optional("thoughts")
    if thoughts is None:
        recap = content.optional("content")
        return [] if recap is None else [make_reasoning_block(recap.text_or_blank())]
    blocks = []
    for thought in thoughts.items():
        parts = [thought.optional(name) for name in ("summary", "content")]
        said = [node.text_or_blank() for node in parts if node is not None]
        if any(said):
            blocks.append(make_reasoning_block("\n".join(words for words in said if words)))
    return blocks
