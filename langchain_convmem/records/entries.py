"""Threads, and what is said in them: an `Entry` is one write to a log, a `Turn` a view of some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = [
    "Control",
    "Cover",
    "Draft",
    "Entry",
    "Metadata",
    "Owner",
    "RetractReason",
    "Role",
    "ThreadKey",
    "Turn",
]

Role = Literal["user", "assistant", "tool", "system", "summary", "control"]
RetractReason = Literal["undo", "rewind", "failed", "cancelled", "replaced", "cleared"]


def _check_id(name: str, value: object) -> None:
    """Refuse an id that is no text, empty, or holds lone surrogates, which no encoding can hold."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be a non-empty string, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} {value!r} is no valid Unicode: {error.reason}") from error


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose lines are searched together: a user, or a thread that belongs to no user.

    Exactly one of both is set; a thread without a user is never shared with another one.
    """

    user_id: str | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse an owner that is nobody or two, or whose id no thread can have."""
        if (self.user_id is None) == (self.thread_id is None):
            msg = (
                f"an owner is a user or a lone thread: got user_id={self.user_id!r} and "
                f"thread_id={self.thread_id!r}; pass exactly one"
            )
            raise ConfigError(msg)
        name = "thread_id" if self.user_id is None else "user_id"
        _check_id(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """The identity of a thread: always the pair, so equal names of two users never meet."""

    user_id: str | None
    thread_id: str

    def __post_init__(self) -> None:
        """Refuse ids that cannot be kept, before anything is written under them."""
        _check_id("thread_id", self.thread_id)
        if self.user_id is not None:
            _check_id("user_id", self.user_id)

    @property
    def owner(self) -> Owner:
        """Who owns the thread's lines."""
        if self.user_id is None:
            return Owner(thread_id=self.thread_id)
        return Owner(user_id=self.user_id)


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is known about an entry beside its message.

    Attributes:
        attributes: Marks in order of arrival, repeats allowed (`fake`, `merged`, `interrupted`).
        timing: Milliseconds since the epoch by name (`creation`, `llmStart`, `firstToken`, ...).
        summary_ids: For a summary: the previous summary's id, then the covered ids in order.
        aux: Plain values by key, free for the application.
    """

    attributes: tuple[str, ...] = ()
    timing: Mapping[str, int] = field(default_factory=dict)
    summary_ids: tuple[str, ...] = ()
    aux: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Control:
    """What a control entry does to the views: the retracted entries are skipped.

    Attributes:
        retracts: Ids of the entries that the views skip; the log keeps them.
        reason: Why.
        replacement: For `replaced`: the id of the entry that takes the retracted one's place.
    """

    retracts: tuple[str, ...]
    reason: RetractReason
    replacement: str | None = None


@dataclass(frozen=True, slots=True)
class Cover:
    """Which entries a summary stands for.

    Attributes:
        ranges: Closed position ranges, ascending.
        digest: Hash of the covered entries' ids, to notice a stale summary.
        model: Name of the model or procedure that wrote the summary.
        prompt_version: Version of the summarising prompt.
    """

    ranges: tuple[tuple[int, int], ...]
    digest: str = ""
    model: str = ""
    prompt_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a caller asks a log to append; the log adds id and position."""

    role: Role
    message: BaseMessage | None = None
    contents: tuple[str, ...] = ()
    turn_id: str | None = None
    metadata: Metadata = field(default_factory=Metadata)
    control: Control | None = None
    cover: Cover | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One append to a log.

    Attributes:
        id: ULID text, unique in the log.
        key: The thread it belongs to.
        position: Strictly increasing within the thread; gaps are normal. Never a time.
        turn_id: Groups one exchange: the request, its tool loop and its reply.
        role: Who speaks, or `summary`, or `control` (which has no message).
        message: The exact LangChain message; treat it as read-only (views hand out copies).
        contents: The message's text pieces: its dialog lines.
        metadata: See `Metadata`.
        control: Set for control entries only.
        cover: Set for summaries only.
    """

    id: str
    key: ThreadKey
    position: int
    turn_id: str
    role: Role
    message: BaseMessage | None = None
    contents: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=Metadata)
    control: Control | None = None
    cover: Cover | None = None

    @property
    def message_id(self) -> str:
        """The key of the message within its thread: its own id, else (None, "") the entry's."""
        return (self.message.id if self.message is not None else None) or self.id


@dataclass(frozen=True, slots=True)
class Turn:
    """A maximal run of one role, as the views show it.

    Attributes:
        id: Id of its first entry; a placeholder's id is derived and the same in every process.
        role: The role of all its parts.
        contents: Text pieces of all parts, in order, blank ones left out.
        entries: The parts, in order; empty for a placeholder.
        metadata: One `merged` mark per further part; timings of the first part win where both
            set the same name; aux keys of later parts win.
    """

    id: str
    role: Role
    contents: tuple[str, ...]
    entries: tuple[Entry, ...]
    metadata: Metadata
