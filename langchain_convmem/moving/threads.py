"""What the readers make: threads of LangChain messages, with ids that survive a second import."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.moving.source import refuse
from langchain_convmem.moving.times import iso
from langchain_convmem.records import Entry
from langchain_convmem.views.codec import draft_of, encode_body, line_time_ms, role_of

__all__ = [
    "ROLE_WORDS",
    "FoundMessage",
    "ImportedLine",
    "ImportedRole",
    "ImportedThread",
    "in_order",
    "renamed",
    "sittings",
    "thread_of",
    "thread_of_messages",
    "time_and_session",
]

ImportedRole = Literal["user", "assistant", "system"]

ROLE_WORDS: dict[str, ImportedRole] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
}
"""Words that name a role, in lower case; files write them in any."""

_MESSAGES: dict[ImportedRole, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}
_SITTING_GAP_MS = 30 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """One line of a file, checked.

    Attributes:
        role: Who speaks.
        text: Verbatim.
        location: Where it stands in the file.
        own_id: The id the file gives it, if any.
        name: The speaker's name, if it is more than the role.
        time: When it was said, in UTC, if the file tells.
        session: Label of the sitting, if the file tells.
    """

    role: ImportedRole
    text: str
    location: str
    own_id: str | None = None
    name: str | None = None
    time: datetime | None = None
    session: str | None = None


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
        sessions: How many sittings the dialogue has.
        branch_of: For a branch that the dialogue left: the thread of the dialogue. The branch
            holds what is not in that thread; the first of its messages names the one it followed
            (`additional_kwargs["branched_from"]`).
        entries: For an exported thread: its entries, edits and summaries included.
    """

    thread_id: str
    messages: tuple[BaseMessage, ...]
    sessions: int
    branch_of: str | None = None
    entries: tuple[Entry, ...] = ()

    def __len__(self) -> int:
        """Return how many entries it makes."""
        return len(self.entries or self.messages)


def thread_of(thread_id: str, lines: Sequence[ImportedLine], path: str) -> ImportedThread:
    """Return the thread that the lines of the file `path` make.

    Raises:
        ImportFormatError: If two lines have the same id, or one cannot be stored.
    """
    found = [FoundMessage(_message(line), line.location) for line in lines]
    return thread_of_messages(thread_id, found, path)


def thread_of_messages(
    thread_id: str,
    found: Sequence[FoundMessage],
    path: str,
    *,
    number_repeats: bool = False,
    branch_of: str | None = None,
) -> ImportedThread:
    """Return the thread that the messages of the file `path` make; they get ids where they lack.

    Args:
        thread_id: The thread.
        found: In order.
        path: The file.
        number_repeats: Give the second message of an id the id `id~2`, instead of refusing it.
        branch_of: The thread it is a branch of.

    Raises:
        ImportFormatError: If two messages have the same id, or one cannot be stored.
    """
    places: dict[str, str] = {}
    for number, item in enumerate(found, start=1):
        own_id = item.message.id or _derived_id(number, item.message)
        if number_repeats:
            own_id = _numbered(own_id, places)
        if own_id in places:
            first = places[own_id]
            refuse(path, item.location, f"the id {own_id!r} is taken already, by {first}")
        places[own_id] = item.location
        item.message.id = own_id
        _check_storable(item, path)
    messages = tuple(item.message for item in found)
    return ImportedThread(thread_id, messages, sittings(messages), branch_of)


def _numbered(own_id: str, taken: dict[str, str]) -> str:
    repeat = own_id
    number = 1
    while repeat in taken:
        number += 1
        repeat = f"{own_id}~{number}"
    return repeat


def _derived_id(number: int, message: BaseMessage) -> str:
    """Return the same id for the same message at the same place, so that nothing doubles."""
    body = f"{number}\x00{role_of(message)}\x00{_payload(message)}"
    digest = hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=12)
    return f"line-{digest.hexdigest()}"


def _payload(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    answered = message.tool_call_id if isinstance(message, ToolMessage) else None
    if isinstance(message.content, str) and not calls and answered is None:
        return message.content
    return json.dumps([message.content, calls, answered], sort_keys=True, default=repr)


def _check_storable(item: FoundMessage, path: str) -> None:
    try:
        encode_body(draft_of(item.message))
    except InvalidMessageError as error:
        refuse(path, item.location, f"this message cannot be stored: {error}")


def _message(line: ImportedLine) -> BaseMessage:
    extra = time_and_session(line.time, line.session)
    cls = _MESSAGES[line.role]
    return cls(content=line.text, id=line.own_id, name=line.name, additional_kwargs=extra)


def time_and_session(time: datetime | None, session: str | None = None) -> dict[str, str]:
    """Return the `additional_kwargs` of a message said at `time` in the sitting `session`."""
    extra = {}
    if time is not None:
        extra["timestamp"] = iso(time)
    if session is not None:
        extra["session"] = session
    return extra


def in_order(lines: Sequence[ImportedLine]) -> list[ImportedLine]:
    """Return the lines with times that increase within a sitting.

    Files give all lines of a sitting its time: the second line that repeats a time of its sitting
    is put one millisecond later, the third two, and so on.
    """
    repeats: dict[tuple[str | None, datetime], int] = {}
    spaced = []
    for line in lines:
        if line.time is None:
            spaced.append(line)
            continue
        repeat = repeats.get((line.session, line.time), 0)
        repeats[line.session, line.time] = repeat + 1
        spaced.append(replace(line, time=line.time + timedelta(milliseconds=repeat)))
    return spaced


def sittings(messages: Sequence[BaseMessage]) -> int:
    """Return how many sittings the messages of a thread make."""
    return sum(
        before is None or _starts_sitting(before, message)
        for before, message in zip((None, *messages), messages, strict=False)
    )


def _starts_sitting(before: BaseMessage, message: BaseMessage) -> bool:
    labels = [item.additional_kwargs.get("session") for item in (before, message)]
    if labels != [None, None]:
        return bool(labels[0] != labels[1])
    earlier, later = line_time_ms(before), line_time_ms(message)
    return earlier is not None and later is not None and later - earlier > _SITTING_GAP_MS


def renamed(
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
    return [_renamed(thread, dialogues[0].thread_id, thread_id) for thread in found]


def _renamed(thread: ImportedThread, old: str, new: str) -> ImportedThread:
    name = new + thread.thread_id.removeprefix(old)
    return replace(thread, thread_id=name, branch_of=new if thread.branch_of else None)
