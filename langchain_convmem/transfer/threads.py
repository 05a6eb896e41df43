"""What files become: messages, and threads of them, whose ids are the same at every import."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, count
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
    messages_from_dict,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import Entry
from langchain_convmem.titles import shorten_title
from langchain_convmem.transfer.source import (
    HALF_CHARACTER,
    Database,
    Node,
    Source,
    format_time,
    refuse,
)
from langchain_convmem.views.codec import encode_body, get_line_time_ms, get_role, make_draft


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message of a file, under the id that the file gives it, if any.

    Attributes:
        message: Verbatim.
        location: Where it stands in the file.
    """

    message: BaseMessage
    location: str


@dataclass(frozen=True, slots=True)
class ImportedThread:
    """One dialogue, ready to be stored.

    Attributes:
        thread_id: Its thread.
        messages: In order; each has an id, unique in the thread and the same at every import.
        branch_of: For a branch that the dialogue left: the thread of the dialogue. The branch
            holds what is not in that thread.
        entries: For an exported thread: its entries, edits and summaries included.
        title: What the file calls it; empty where it says nothing.
        unread: One sentence for each thing in the file that cannot be kept.
    """

    thread_id: str
    messages: tuple[BaseMessage, ...]
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
    branch_of: str | None = None,
    is_checked: bool = False,
) -> ImportedThread:
    """Return the thread that the messages of the file `path` make.

    They get ids where they lack, and the second message of an id gets `id~2`.

    Args:
        thread_id: The thread.
        found: In order.
        path: The file.
        branch_of: The thread it is a branch of.
        is_checked: Whether it is known that every message can be stored.

    Raises:
        ImportFormatError: If one of them cannot be stored.
    """
    taken: set[str] = set()
    for number, item in enumerate(found, start=1):
        own_id = item.message.id or _derive_id(number, item.message)
        repeats = (f"{own_id}~{repeat}" for repeat in count(2))
        item.message.id = next(one for one in chain([own_id], repeats) if one not in taken)
        taken.add(item.message.id)
        if not is_checked:
            _check_storable(item, path)
    return ImportedThread(thread_id, tuple(item.message for item in found), branch_of)


def build_entry_thread(
    thread_id: str, entries: Sequence[Entry], *, title: str = "", unread: Sequence[str] = ()
) -> ImportedThread:
    """Return the thread that entries make, edits and summaries included."""
    messages = tuple(
        entry.message.model_copy(update={"id": entry.message.id or entry.id})
        for entry in entries
        if entry.message is not None
    )
    return ImportedThread(thread_id, messages, None, tuple(entries), title, tuple(unread))


def _derive_id(number: int, message: BaseMessage) -> str:
    """Return the same id for the same message at the same place, so that nothing doubles."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    answered = message.tool_call_id if isinstance(message, ToolMessage) else None
    said = [number, get_role(message), message.content, calls, answered]
    body = json.dumps(said, sort_keys=True, default=repr)
    digest = hashlib.blake2b(body.encode(), digest_size=12)
    return f"line-{digest.hexdigest()}"


def _check_storable(item: FoundMessage, path: str) -> None:
    content, calls = item.message.content, getattr(item.message, "tool_calls", ())
    blocks = [content] if isinstance(content, str) else content
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks]
    if any(isinstance(text, str) and HALF_CHARACTER.search(text) for text in texts):
        refuse(path, item.location, "found half of a surrogate pair, expected text")
    try:
        draft = make_draft(item.message)
        if calls or blocks is content:  # text alone can always be stored
            encode_body(draft)
    except InvalidMessageError as error:
        refuse(path, item.location, f"this message cannot be stored: {error}")


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
    [(name, times)] = Counter(thread.thread_id for thread in found).most_common(1)
    if times > 1:
        refuse(path, "", f"holds {times} dialogues named {name!r}; their names must differ")
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
    for nodes in branches:
        messages = [found for node in nodes for found in tree.messages(node)]
        if not messages:
            continue
        name, origin, title = tree.thread_id, None, tree.title
        if threads:
            name, origin = f"{name}~branch-{len(threads)}", name
            title = f"{title} (branch {len(threads)})" if title else ""
        thread = build_thread(
            name, messages, tree.root.path, branch_of=origin, is_checked=is_checked
        )
        threads.append(replace(thread, title=title))
    return threads


def split_branches(parents: Mapping[str, str | None], current: str | None) -> list[list[str]]:
    """Return the path that counts, then every branch; each node stands in one of them.

    The path ends at the current node, else at the last leaf of the file.

    Args:
        parents: The node before each node, in the order of the file, at least one; nodes whose
            parent is not in the file are roots.
        current: The node that the file calls the current one, if it does.

    Returns:
        The nodes of each in order, away from the root.

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
            found.append(nodes[::-1])
    if len(taken) < len(parents):
        lost = next(node for node in parents if node not in taken)
        msg = f"{lost!r} follows itself in a circle"
        raise ValueError(msg)
    return found


# -- messages: when they were said ----------------------------------------------------------------


def build_stamp(time: datetime | None, session: str | None = None) -> dict[str, str]:
    """Return the `additional_kwargs` of a message said at `time` in the session `session`."""
    extra = {}
    if time is not None:
        extra["timestamp"] = format_time(time)
    if session is not None:
        extra["session"] = session
    return extra


# -- contents -------------------------------------------------------------------------------------

Block = dict[str, Any]


def make_part(said: Any, value: Any) -> Block:
    """Return the block of what is said; where that is no text, the block that keeps `value`."""
    if isinstance(said, str):
        return {"type": "text", "text": said}
    return {"type": "non_standard", "value": value}


def make_attachment(text: str, name: str, value: Any) -> Block:
    """Return the block of an attached file: its text if that is known, else what names it."""
    if not text.strip():
        return make_part(None, value)
    title = {"title": name} if name.strip() else {}
    return {"type": "text-plain", "text": text, "mime_type": "text/plain", **title}


def build_content(blocks: Sequence[Block]) -> str | list[str | Block]:
    """Return a message's content: plain text where there is nothing else."""
    spoken = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    if not spoken:
        return ""
    if len(spoken) == 1 and spoken[0]["type"] == "text":
        return str(spoken[0]["text"])
    return list(spoken)


# -- tool calls -----------------------------------------------------------------------------------

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def clean_tool_name(name: str) -> str:
    """Return the name in the characters that every provider takes for a tool's name."""
    return _NOT_IN_NAMES.sub("_", name) or "tool"


def read_call(name: str, arguments: str, call_id: str) -> ToolCall | InvalidToolCall:
    """Return the call whose arguments are JSON text; an invalid one where they are no object."""
    cleaned = clean_tool_name(name)
    with ErrorTrap(ValueError, RecursionError):
        values = json.loads(arguments or "{}", strict=False)
        if isinstance(values, dict):
            return tool_call(name=cleaned, args=values, id=call_id)
    problem = "the arguments are not a JSON object"
    return invalid_tool_call(name=cleaned, args=arguments, id=call_id, error=problem)


# -- messages as LangChain's own histories store them ---------------------------------------------

_STORED_FORM = 'a stored message {"type": "human", "data": {"content": ...}}'


def read_stored_message(node: Node, read_data: Callable[[Any], Any] = dict) -> FoundMessage:
    """Return the message that LangChain stored.

    Args:
        node: The stored message.
        read_data: Returns its fields.

    Raises:
        ImportFormatError: If it is not one.
    """
    stored = node.value if isinstance(node.value, dict) else {}
    kind, data = stored.get("type"), stored.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict) or "content" not in data:
        node.fail(_STORED_FORM)
    with ErrorTrap(ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as trap:
        # Chooses from a fixed table of types; nothing is imported by name.
        [message] = messages_from_dict([{"type": kind, "data": read_data(data)}])
        return repair_timestamp(message, node.location)
    return node.fail(f"{_STORED_FORM}: {trap.reason}")


def repair_timestamp(message: BaseMessage, location: str) -> FoundMessage:
    """Return a message of another store; a time that cannot be read is kept under another key."""
    extra: dict[str, Any] = message.additional_kwargs
    if extra.get("timestamp") is not None and get_line_time_ms(message) is None:
        extra["original_timestamp"] = extra.pop("timestamp")
    return FoundMessage(message, location)


# -- formats -------------------------------------------------------------------------------------


class Reader(NamedTuple):
    """A format of files that are read whole.

    Attributes:
        name: What a caller calls it, who knows what the file must be.
        form: What such a file looks like, in one phrase.
        fits: Whether a file is meant to be of this format; it may still be a bad one.
        read: The file's threads; the second argument renames the only one.
        opens: What the file is read as: its text, or a SQLite database.
    """

    name: str
    form: str
    fits: Callable[[Any], bool]
    read: Callable[[Any, str | None], list[ImportedThread]]
    opens: type[Source | Database] = Source


class Export(NamedTuple):
    """A service's format of conversations, which are read one at a time.

    Attributes:
        name: See `Reader`.
        form: See `Reader`.
        key: What an object has that is a conversation.
        read_tree: The tree of a conversation's messages.
    """

    name: str
    form: str
    key: str
    read_tree: Callable[[Node, FindAttachment], Tree]
