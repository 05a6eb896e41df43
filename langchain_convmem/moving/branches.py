"""A dialogue that was edited is a tree: the path that counts, and the branches it left. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Branch", "branches", "main_leaf"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A stretch of the tree.

    Attributes:
        nodes: In order, away from the root.
        parent: The node that the first of them follows; None for a root.
    """

    nodes: tuple[str, ...]
    parent: str | None


def main_leaf(parents: Mapping[str, str | None], current: str | None) -> str:
    """Return the last node of the path that counts: `current`, else the last leaf of the file.

    Args:
        parents: The node before each node, in the order of the file; at least one.
        current: The node that the file calls the current one, if it does.
    """
    if current in parents and current is not None:
        return current
    inner = set(parents.values())
    leaves = [node for node in parents if node not in inner]
    # In a circle no node is the last; whoever walks it will notice.
    return leaves[-1] if leaves else next(iter(parents))


def branches(parents: Mapping[str, str | None], leaf: str) -> list[Branch]:
    """Return the path to `leaf`, then every branch; each node stands in one of them.

    Args:
        parents: The node before each node, in the order of the file; nodes whose parent is not in
            the file are roots.
        leaf: Where the first path ends.

    Raises:
        ValueError: If nodes follow each other in a circle.
    """
    taken: set[str] = set()
    inner = set(parents.values())
    leaves = [leaf, *(node for node in parents if node not in inner)]
    found = [_stretch(parents, end, taken) for end in leaves]
    # Where `leaf` is no leaf of the tree, what follows it is found from the leaves behind it.
    if len(taken) < len(parents):
        lost = next(node for node in parents if node not in taken)
        msg = f"{lost!r} follows itself in a circle"
        raise ValueError(msg)
    return [branch for branch in found if branch.nodes]


def _stretch(parents: Mapping[str, str | None], end: str, taken: set[str]) -> Branch:
    """Return the nodes from `end` back to the first one that is taken, and take them."""
    nodes: list[str] = []
    node: str | None = end
    while node is not None and node in parents and node not in taken:
        taken.add(node)
        nodes.append(node)
        node = parents[node]
    if node in nodes:
        msg = f"{node!r} follows itself in a circle"
        raise ValueError(msg)
    return Branch(tuple(reversed(nodes)), node if node in parents else None)
