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

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.moving.content import (
    Block,
    called,
    content_of,
    foreign,
    reasoning,
    text,
    tool_name,
    whole_call,
)
from langchain_convmem.moving.node import Node
from langchain_convmem.moving.source import Source
from langchain_convmem.moving.threads import (
    FoundMessage,
    ImportedThread,
    renamed,
    time_and_session,
)
from langchain_convmem.moving.trees import Tree, threads_of_tree

__all__ = ["FORM", "fits_chatgpt", "read_chatgpt"]

FORM = 'a ChatGPT export [{"conversation_id", "current_node", "mapping": {...}}]'
_EVERYBODY = "all"
_TEXT_FIELDS = ("text", "result", "user_profile", "user_instructions", "content")
_THOUGHTS = ("thoughts", "reasoning_recap")
_INSTRUCTIONS = "user_editable_context"


def fits_chatgpt(source: Source) -> bool:
    """Return whether the file is a conversation with a mapping, or a list that starts with one."""
    sample = source.sample
    return isinstance(sample, dict) and "mapping" in sample


def read_chatgpt(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the threads of all conversations, each followed by those of its branches.

    Raises:
        ImportFormatError: If a part of it is not as the form says.
    """
    root = Node(source.document, source.path, "$")
    conversations = list(root.items()) if root.is_a(list) else [root]
    threads = [thread for node in conversations for thread in threads_of_tree(_tree(node))]
    return renamed(threads, thread_id, source.path)


def _tree(conversation: Node) -> Tree:
    named = conversation.optional("conversation_id") or conversation.member("id")
    current = conversation.optional("current_node")
    mapping = conversation.member("mapping")
    nodes = {name: mapping.member(name) for name in mapping.names()}
    above = {name: node.optional("parent") for name, node in nodes.items()}
    parents = {name: None if node is None else node.label() for name, node in above.items()}
    reader = _Reader(nodes, parents)
    return Tree(
        thread_id=named.label(),
        root=conversation,
        parents=parents,
        current=None if current is None else current.label(),
        messages=cache(reader.messages),
    )


class _Reader:
    """Reads the nodes of one conversation."""

    def __init__(self, nodes: dict[str, Node], parents: dict[str, str | None]) -> None:
        self._nodes = nodes
        self._parents = parents

    def messages(self, name: str) -> list[FoundMessage]:
        """Return the node's message, if it says or calls anything."""
        node = self._nodes[name].optional("message")
        if node is None:
            return []
        message = self._message(name, node)
        if not message.content and not getattr(message, "tool_calls", None):
            return []
        return [FoundMessage(message, node.location)]

    def _message(self, name: str, node: Node) -> BaseMessage:
        role = _role(node)
        own_id = node.optional("id")
        time = node.optional("create_time")
        message_id = name if own_id is None else own_id.label()
        blocks = _blocks(node.member("content"))
        extra = time_and_session(None if time is None else time.seconds())
        if role == "assistant":
            return _reply(node, blocks, message_id, extra)
        if role == "tool":
            return ToolMessage(
                content_of(blocks),
                tool_call_id=self._call_before(name) or _call_id(message_id),
                name=tool_name(_author_name(node) or "tool"),
                id=message_id,
                additional_kwargs=extra,
            )
        cls = SystemMessage if role == "system" else HumanMessage
        author = _author_name(node)
        return cls(content_of(blocks), name=author, id=message_id, additional_kwargs=extra)

    def _call_before(self, name: str) -> str | None:
        """Return the id of the call that the tool's node `name` answers: the nearest one above."""
        above = self._parents.get(name)
        while above is not None and above in self._nodes:
            node = self._nodes[above].optional("message")
            role = None if node is None else _role(node)
            if role == "user":
                return None
            if node is not None and role == "assistant" and _recipient(node) != _EVERYBODY:
                own_id = node.optional("id")
                return _call_id(above if own_id is None else own_id.label())
            above = self._parents.get(above)
        return None


def _reply(node: Node, blocks: list[Block], message_id: str, extra: dict[str, str]) -> AIMessage:
    model = _model(node)
    recipient = _recipient(node)
    message = AIMessage(
        content_of(blocks),
        id=message_id,
        additional_kwargs=extra,
        response_metadata={} if model is None else {"model_name": model},
    )
    if recipient != _EVERYBODY:
        said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        rest = [block for block in blocks if block["type"] != "text"]
        call = called(recipient, said, _call_id(message_id))
        if call is None:
            call = whole_call(recipient, said, _call_id(message_id))
        message.content = content_of(rest)
        message.tool_calls = [call]
        message.additional_kwargs["recipient"] = recipient
    return message


def _role(node: Node) -> str:
    author = node.member("author").member("role")
    if author.value not in ("user", "assistant", "system", "tool"):
        author.fail("one of user, assistant, system, tool")
    content = node.optional("content")
    kind = None if content is None else content.optional("content_type")
    # What the user set once for all conversations is no line of this one.
    return "system" if kind is not None and kind.value == _INSTRUCTIONS else str(author.value)


def _author_name(node: Node) -> str | None:
    name = node.member("author").optional("name")
    return None if name is None or name.is_blank() else name.text()


def _recipient(node: Node) -> str:
    recipient = node.optional("recipient")
    return _EVERYBODY if recipient is None else recipient.text()


def _model(node: Node) -> str | None:
    metadata = node.optional("metadata")
    slug = None if metadata is None else metadata.optional("model_slug")
    return None if slug is None or slug.is_blank() else slug.text()


def _call_id(message_id: str) -> str:
    return f"call-{message_id}"


def _blocks(content: Node) -> list[Block]:
    kind = content.optional("content_type")
    if kind is not None and kind.value in _THOUGHTS:
        return _thoughts(content)
    parts = content.optional("parts")
    if parts is not None:
        return [block for part in parts.items() for block in _part(part)]
    texts = [content.optional(name) for name in _TEXT_FIELDS]
    said = [node.text_or_blank() for node in texts if node is not None and node.is_a(str)]
    return [text(words) for words in said] if said else [foreign(content.value)]


def _part(part: Node) -> list[Block]:
    if part.is_a(str):
        return [text(part.text_or_blank())]
    if part.value is None:
        return []
    words = part.optional("text")  # a voice's transcription
    if words is not None and words.is_a(str):
        return [text(words.text_or_blank())]
    return [foreign(part.value)]


def _thoughts(content: Node) -> list[Block]:
    thoughts = content.optional("thoughts")
    if thoughts is None:
        recap = content.optional("content")
        return [] if recap is None else [reasoning(recap.text_or_blank())]
    blocks = []
    for thought in thoughts.items():
        parts = [thought.optional(name) for name in ("summary", "content")]
        said = [node.text_or_blank() for node in parts if node is not None]
        if any(said):
            blocks.append(reasoning("\n".join(words for words in said if words)))
    return blocks
