"""From the tree of an export to its thread and the threads of its branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from langchain_convmem.moving.branches import Branch, branches, main_leaf
from langchain_convmem.moving.node import Node
from langchain_convmem.moving.source import refuse
from langchain_convmem.moving.threads import FoundMessage, ImportedThread, thread_of_messages

__all__ = ["Tree", "threads_of_tree"]


@dataclass(frozen=True, slots=True)
class Tree:
    """A dialogue of an export.

    Attributes:
        thread_id: Its name.
        root: Where it stands in the file.
        parents: The node before each node, in the order of the file.
        current: The last node of the path that counts, where the file names it.
        messages: Reads a node; it may hold no message, or several.
    """

    thread_id: str
    root: Node
    parents: Mapping[str, str | None]
    current: str | None
    messages: Callable[[str], list[FoundMessage]]


def threads_of_tree(tree: Tree) -> list[ImportedThread]:
    """Return the dialogue's thread, then a thread per branch: `<id>~branch-1`, `-2`, ...

    A dialogue without any message makes no thread.

    Raises:
        ImportFormatError: If the nodes follow each other in a circle, or a message is bad.
    """
    if not tree.parents:
        return []
    try:
        found = branches(tree.parents, main_leaf(tree.parents, tree.current))
    except ValueError as error:
        refuse(tree.root.path, tree.root.location, str(error))
    spoken = [pair for pair in ((_messages(tree, branch), branch) for branch in found) if pair[0]]
    threads = []
    for number, (messages, branch) in enumerate(spoken):
        name, origin = tree.thread_id, None
        if number > 0:
            name, origin = f"{name}~branch-{number}", name
            _mark(messages[0], tree, branch)
        threads.append(thread_of_messages(name, messages, tree.root.path, branch_of=origin))
    return threads


def _messages(tree: Tree, branch: Branch) -> list[FoundMessage]:
    return [found for node in branch.nodes for found in tree.messages(node)]


def _mark(first: FoundMessage, tree: Tree, branch: Branch) -> None:
    """Let a branch tell which message it followed: the nearest one that says something."""
    node = branch.parent
    while node is not None:
        before = tree.messages(node)
        if before:
            first.message.additional_kwargs["branched_from"] = before[-1].message.id
            return
        node = tree.parents.get(node)
