"""What files become: threads of messages, whose ids are the same at every import."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import Entry
from langchain_convmem.titles import shorten_title
from langchain_convmem.transfer.messages import FoundMessage
from langchain_convmem.transfer.source import HALF_CHARACTER, MAX_LINE_BYTES, Node, Source, refuse
from langchain_convmem.views.codec import encode_body, get_line_time_ms, get_role, make_draft


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """One dialogue, ready to be stored.

    Attributes:
        thread_id: Its thread.
        messages: In order; each has an id, unique in the thread and the same at every import.
        sessions: How many sessions the dialogue has.
        branch_of: For a branch that the dialogue left: the thread of the dialogue. The branch
            holds what is not in that thread; the first of its messages names the one it followed
            (`additional_kwargs["branched_from"]`).
        entries: For an exported thread: its entries, edits and summaries included.
        title: What the file calls it; empty where it says nothing.
        unread: One sentence for each thing in the file that cannot be kept.
    """

    thread_id: str
    messages: tuple[BaseMessage, ...]
    sessions: int
    branch_of: str | None = None
    entries: tuple[Entry, ...] = ()
    title: str = ""
    unread: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return how many entries it makes."""
        return len(self.entries or self.messages)


# -- building -------------------------------------------------------------------------------------


def build_thread(
    thread_id: str,
    found: Sequence[FoundMessage],
    path: str,
    *,
    number_repeats: bool = False,
    branch_of: str | None = None,
    is_checked: bool = False,
) -> ImportedThread:
    """Return the thread that the messages of the file `path` make; they get ids where they lack.

    Args:
        thread_id: The thread.
        found: In order.
        path: The file.
        number_repeats: Give the second message of an id the id `id~2`, instead of refusing it.
        branch_of: The thread it is a branch of.
        is_checked: Whether it is known that every message can be stored.

    Raises:
        ImportFormatError: If two messages have the same id, or one cannot be stored.
    """
    places: dict[str, str] = {}
    for number, item in enumerate(found, start=1):
        own_id = item.message.id or _derive_id(number, item.message)
        if number_repeats:
            own_id = _number_repeat(own_id, places)
        if own_id in places:
            first = places[own_id]
            refuse(path, item.location, f"the id {own_id!r} is taken already, by {first}")
        places[own_id] = item.location
        item.message.id = own_id
        if is_checked:
            continue
        _check_storable(item, path)
    messages = tuple(item.message for item in found)
    return ImportedThread(thread_id, messages, count_sessions(messages), branch_of)


def build_entry_thread(
    thread_id: str, entries: Sequence[Entry], *, title: str = "", unread: Sequence[str] = ()
) -> ImportedThread:
    """Return the thread that entries make, edits and summaries included."""
    messages = tuple(
        entry.message.model_copy(update={"id": entry.message.id or entry.id})
        for entry in entries
        if entry.message is not None
    )
    sessions = count_sessions(messages)
    return ImportedThread(thread_id, messages, sessions, None, tuple(entries), title, tuple(unread))


def _number_repeat(own_id: str, taken: dict[str, str]) -> str:
    repeat = own_id
    number = 1
    while repeat in taken:
        number += 1
        repeat = f"{own_id}~{number}"
    return repeat


def _derive_id(number: int, message: BaseMessage) -> str:
    """Return the same id for the same message at the same place, so that nothing doubles."""
    body = f"{number}\x00{get_role(message)}\x00{_read_payload(message)}"
    digest = hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=12)
    return f"line-{digest.hexdigest()}"


def _read_payload(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    answered = message.tool_call_id if isinstance(message, ToolMessage) else None
    if isinstance(message.content, str) and not calls and answered is None:
        return message.content
    return json.dumps([message.content, calls, answered], sort_keys=True, default=repr)


def _check_storable(item: FoundMessage, path: str) -> None:
    content = item.message.content
    blocks = [content] if isinstance(content, str) else content
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks]
    for text in texts:
        if isinstance(text, str) and HALF_CHARACTER.search(text):
            refuse(path, item.location, "found half of a surrogate pair, expected text")
        size = len(text.encode()) if isinstance(text, str) else 0
        if size > MAX_LINE_BYTES:
            limit = f"the limit for one line is {MAX_LINE_BYTES:,}"
            refuse(path, item.location, f"found {size:,} bytes of text; {limit}")
    try:
        encode_body(make_draft(item.message))
    except InvalidMessageError as error:
        refuse(path, item.location, f"this message cannot be stored: {error}")


# -- sessions -------------------------------------------------------------------------------------

_SESSION_GAP_MS = 30 * 60 * 1000


def count_sessions(messages: Sequence[BaseMessage]) -> int:
    """Return how many sessions the messages of a thread make."""
    return sum(
        before is None or _starts_session(before, message)
        for before, message in zip((None, *messages), messages, strict=False)
    )


def _starts_session(before: BaseMessage, message: BaseMessage) -> bool:
    labels = [item.additional_kwargs.get("session") for item in (before, message)]
    if labels != [None, None]:
        return bool(labels[0] != labels[1])
    earlier, later = get_line_time_ms(before), get_line_time_ms(message)
    return earlier is not None and later is not None and later - earlier > _SESSION_GAP_MS


# -- naming ---------------------------------------------------------------------------------------


def rename_threads(
    threads: Iterable[ImportedThread], thread_id: str | None, path: str
) -> list[ImportedThread]:
    """Return the threads of a file under the name that was asked for, if any.

    Args:
        threads: All threads of the file.
        thread_id: Takes the place of the only dialogue's name, its branches' names included.
        path: The file.

    Raises:
        ImportFormatError: If two threads have the same name, or `thread_id` should name several.
    """
    found = list(threads)
    dialogues = [thread for thread in found if thread.branch_of is None]
    if not dialogues:
        refuse(path, "", "holds no message; expected at least one")
    [(name, count)] = Counter(thread.thread_id for thread in found).most_common(1)
    if count > 1:
        refuse(path, "", f"holds {count} dialogues named {name!r}; their names must differ")
    if thread_id is None:
        return found
    if len(dialogues) > 1:
        refuse(path, "", f"holds {len(dialogues)} dialogues; one thread id cannot name them")
    return [_rename(thread, dialogues[0].thread_id, thread_id) for thread in found]


def _rename(thread: ImportedThread, old: str, new: str) -> ImportedThread:
    name = new + thread.thread_id.removeprefix(old)
    return replace(thread, thread_id=name, branch_of=new if thread.branch_of else None)


# -- a dialogue that was edited: a tree -----------------------------------------------------------


FindAttachment: TypeAlias = Callable[[str, str], str | None]
"""Gets id and name of an attached file, and returns its text; None where it has none."""


def find_no_attachment(_own_id: str, _name: str) -> None:
    """Return None: what a file that stands alone knows of attached files."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A dialogue of an export, in which messages were edited or generated anew.

    Attributes:
        thread_id: Its name.
        root: Where it stands in the file.
        parents: The node before each node, in the order of the file.
        current: The last node of the path that counts, where the file names it.
        messages: Reads a node; it may hold no message, or several.
        title: What the file calls the dialogue; empty where it says nothing.
    """

    thread_id: str
    root: Node
    parents: Mapping[str, str | None]
    current: str | None
    messages: Callable[[str], list[FoundMessage]]
    title: str = ""


def read_title(value: Any) -> str:
    """Return what a file calls a conversation; empty where that is missing or no text."""
    return shorten_title(value) if isinstance(value, str) else ""


def build_all_threads(
    read_tree: Callable[[Node, FindAttachment], Tree], source: Source, thread_id: str | None
) -> list[ImportedThread]:
    """Return the threads of a file that holds one conversation, or a list of them.

    Args:
        read_tree: Reads a conversation.
        source: The file.
        thread_id: See `rename_threads`.

    Raises:
        ImportFormatError: If a part of it is not as the form says, or `thread_id` should name
            several.
    """
    threads = [
        thread
        for node in source.nodes()
        for thread in build_tree_threads(read_tree(node, find_no_attachment))
    ]
    return rename_threads(threads, thread_id, source.path)


def build_tree_threads(tree: Tree, *, is_checked: bool = False) -> list[ImportedThread]:
    """Return the dialogue's thread, then a thread per branch: `<id>~branch-1`, `-2`, ...

    A dialogue without any message makes no thread.

    Args:
        tree: The dialogue.
        is_checked: See `build_thread`.

    Raises:
        ImportFormatError: If the nodes follow each other in a circle, or a message is bad.
    """
    if not tree.parents:
        return []
    try:
        branches = split_branches(tree.parents, tree.current)
    except ValueError as error:
        refuse(tree.root.path, tree.root.location, str(error))
    threads: list[ImportedThread] = []
    for nodes, before in branches:
        messages = [found for node in nodes for found in tree.messages(node)]
        if not messages:
            continue
        name, origin, title = tree.thread_id, None, tree.title
        if threads:
            name, origin = f"{name}~branch-{len(threads)}", name
            title = f"{title} (branch {len(threads)})" if title else ""
            _mark_origin(messages[0], tree, before)
        thread = build_thread(
            name, messages, tree.root.path, branch_of=origin, is_checked=is_checked
        )
        threads.append(replace(thread, title=title))
    return threads


def _mark_origin(first: FoundMessage, tree: Tree, node: str | None) -> None:
    """Let a branch say which message it followed: the nearest one that says something."""
    while node is not None:
        before = tree.messages(node)
        if before:
            first.message.additional_kwargs["branched_from"] = before[-1].message.id
            return
        node = tree.parents.get(node)


def split_branches(
    parents: Mapping[str, str | None], current: str | None
) -> list[tuple[list[str], str | None]]:
    """Return the path that counts, then every branch; each node stands in one of them.

    The path ends at the current node, else at the last leaf of the file.

    Args:
        parents: The node before each node, in the order of the file, at least one; nodes whose
            parent is not in the file are roots.
        current: The node that the file calls the current one, if it does.

    Returns:
        The nodes of each in order, away from the root, and the node that the first of them
        follows; None for a root.

    Raises:
        ValueError: If nodes follow each other in a circle.
    """
    inner = set(parents.values())
    leaves = [node for node in parents if node not in inner]
    ends = [current] if current in parents else leaves[-1:]
    found = []
    taken: set[str] = set()
    # Where the current node is no leaf, what follows it is found from the leaves after it.
    for end in [*ends, *leaves]:
        nodes: list[str] = []
        node = end
        while node is not None and node in parents and node not in taken:
            taken.add(node)
            nodes.append(node)
            node = parents[node]
        if node in nodes:
            taken.discard(str(node))
            break
        if nodes:
            found.append((nodes[::-1], node if node in parents else None))
    if len(taken) < len(parents):
        lost = next(node for node in parents if node not in taken)
        msg = f"{lost!r} follows itself in a circle"
        raise ValueError(msg)
    return found
