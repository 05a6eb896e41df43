"""The values everything else is made of: threads, entries, turns, lines, recalls. Immutable.

An `Entry` is one write to a log and never changes, except that attributes, timings and aux keys
may be added to its metadata. Every other value here is derived from entries. May import only
`errors`; LangChain's message types are named for typing alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


Role = Literal["user", "assistant", "tool", "system", "summary", "control"]
RetractReason = Literal["undo", "rewind", "failed", "cancelled", "replaced", "cleared", "damaged"]

LONGEST_ID = 1_000
"""Bytes in UTF-8 that the id of a user or a thread has at most; the indexes of databases end."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A user or an anonymous thread; the lines of one owner are searched together.

    Exactly one of both is set; a thread without a user is never shared with another one.
    """

    user_id: str | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse an owner that names neither or both, or whose id no thread can have."""
        if (self.user_id is None) == (self.thread_id is None):
            msg = (
                f"an owner is a user or an anonymous thread: got user_id={self.user_id!r} and "
                f"thread_id={self.thread_id!r}; pass exactly one"
            )
            raise ConfigError(msg)
        name = "thread_id" if self.user_id is None else "user_id"
        object.__setattr__(self, name, read_id(name, getattr(self, name)))


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """Identifies a thread by user and thread id, so that equal thread ids of two users never clash.

    Both are strings; UUIDs and integers are converted.
    """

    user_id: str | None
    thread_id: str

    def __post_init__(self) -> None:
        """Refuse ids that cannot be kept, before anything is written under them."""
        object.__setattr__(self, "thread_id", read_id("thread_id", self.thread_id))
        if self.user_id is not None:
            object.__setattr__(self, "user_id", read_id("user_id", self.user_id))

    @property
    def owner(self) -> Owner:
        """The owner of the thread's lines."""
        if self.user_id is None:
            return Owner(thread_id=self.thread_id)
        return Owner(user_id=self.user_id)


def find_owner(user_id: str | None, thread_id: str | None) -> Owner:
    """Return the owner that the arguments of a call name.

    Raises:
        ConfigError: If neither a user nor a thread is given.
    """
    if user_id is None and thread_id is None:
        raise ConfigError("pass user_id, or thread_id for a thread of no user")
    return ThreadKey(user_id, "-" if thread_id is None else thread_id).owner


def read_id(name: str, value: object) -> str:
    """Return an id as text: a UUID or a whole number as `str()` writes it.

    Raises:
        ConfigError: If it is anything else, blank, too long for an index, or holds surrogates.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if is_number or isinstance(value, UUID) else value
    if not isinstance(text, str) or not text.strip():
        msg = f"{name} must be text that is not blank, a UUID or a whole number, got "
        raise ConfigError(msg + describe_value(value))
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} {text!r} is not valid Unicode: {error.reason}") from error
    if size > LONGEST_ID:
        msg = (
            f"{name} has {size:,} bytes in UTF-8; pass at most {LONGEST_ID:,}, such as a hash of it"
        )
        raise ConfigError(msg)
    return text


TIMINGS = (
    *("creation", "listenStart", "listenEnd", "llmStart", "firstToken", "llmEnd"),
    *("playStart", "playEnd"),
)
"""Names of times that an entry may have, in the order of a spoken turn."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Data about an entry in addition to its message.

    Attributes:
        attributes: Marks in order of arrival, repeats allowed (`merged`, `interrupted`, `kept`).
        timing: Milliseconds since the epoch by name: one of `TIMINGS`, or an
            application's own, which begins with `x_` or `app.`.
        summary_ids: For a summary, the previous summary's id, then the covered ids in order.
        aux: Plain values by key, for the application to use.
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
        reason: Why; `damaged` for what stands in for an entry that cannot be read, which retracts
            nothing and is never written.
        replacement: For `replaced`: the id of the entry that takes the retracted one's place.
    """

    retracts: tuple[str, ...]
    reason: RetractReason
    replacement: str | None = None


Stretch: TypeAlias = tuple[int, int | None]
"""Positions of a thread: after the first, up to the second, itself included; None: to the end."""


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
    """An entry to append; the log adds its id and position."""

    role: Role
    message: BaseMessage | None = None
    contents: tuple[str, ...] = ()
    turn_id: str | None = None
    metadata: Metadata = field(default_factory=Metadata)
    control: Control | None = None
    cover: Cover | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record in a log.

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
        cover: Set for summaries, and for the control entry that undoes one.
        checksum: 20 hexadecimal digits computed from the entry as it was written; metadata added
            later does not change it. Empty if the log has no checksums.
        damage: What is wrong with the entry, in a few words; empty for an intact one. A damaged
            entry shows none of its content: it is a control entry that retracts nothing.
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
    checksum: str = field(default="", compare=False)
    damage: str = ""

    @property
    def message_id(self) -> str:
        """The key of the message within its thread: its own id, else (None, "") the entry's."""
        return (self.message.id if self.message is not None else None) or self.id


# -- Dialog lines, and what a recall answers with -------------------------------------------------
Scalar: TypeAlias = "str | int | float | bool | None"
Trust: TypeAlias = Literal["user", "model", "tool", "import", "outside"]
"""Where a line came from; see `DialogLine.trust`."""


@dataclass(frozen=True, slots=True)
class DialogLine:
    """A line of dialogue: one text of an entry, as recall searches it.

    Attributes:
        line_id: The message's id; further lines of the same message are `id#2`, `id#3`, ...
        key: The thread.
        position: Position of its entry.
        part: Number of the line within its entry, from 0.
        speaker: The message's name as one line, or else `User` or `Assistant`.
        text: Verbatim.
        time_ms: When it was said, milliseconds since the epoch.
        session: Label of the session it belongs to, if the message names one.
        role: Role of its entry.
        entry_id: Id of its entry.
        tags: Other marks of the message: the scalars in its `additional_kwargs`. Treat it as
            read-only.
        trust: Where it comes from: the user or the model in this memory, "import" for files, or
            "tool" and "outside" for text that the application marks as quoted from there.
    """

    line_id: str
    key: ThreadKey
    position: int
    part: int
    speaker: str
    text: str
    time_ms: int
    session: str | None
    role: Role
    entry_id: str
    tags: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
    trust: Trust = "user"


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """What an index derived from one segment of a line, kept so that a cold start is cheap.

    Attributes:
        position: Position of the line's entry.
        part: Which line of the entry, from 0.
        segment: Which segment of the line, from 0.
        terms: Analysed words, separated by blanks.
        vector: float16, little endian; None while the embedding is pending.
        analysis: Version of the analysis that gave the terms; a vector is good under any.
        terms_check: CRC-32 of the terms, begun with that of the segment's text: what does not fit
            is not used. None where nobody noted it.
        vector_check: The same of the vector.
    """

    position: int
    part: int
    segment: int
    terms: str
    vector: bytes | None
    analysis: int = 1
    terms_check: int | None = None
    vector_check: int | None = None


# -- What logs and views answer with ---------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Changes:
    """Entries of one owner after a cursor, in commit order.

    Attributes:
        entries: Entries after the cursor, control entries included.
        cursor: Pass it to the next call.
        generation: Raised by every `forget`; when it differs from the caller's, caches must be
            rebuilt from cursor 0.
    """

    entries: tuple[Entry, ...]
    cursor: int
    generation: int


@dataclass(frozen=True, slots=True)
class LineChanges:
    """Dialog lines of one owner after a cursor, in commit order.

    Attributes:
        lines: Those of the entries after the cursor; retracted ones among them.
        controls: The control entries after the cursor.
        cursor: Pass it to the next call; the same again at the end of the log.
        generation: See `Changes`.
        is_last: Whether nothing else stood after the cursor; False where that is not known.
    """

    lines: tuple[DialogLine, ...]
    controls: tuple[Entry, ...]
    cursor: int
    generation: int
    is_last: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class StateDocument:
    """A small JSON document stored with a thread.

    Attributes:
        value: Plain JSON.
        version: Changes with every write; pass it back to overwrite just this version.
    """

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """One row of a thread listing.

    Attributes:
        key: The thread.
        entries: Number of entries in the log, control entries included.
        first_ms: Creation of its first entry, milliseconds since the epoch.
        last_ms: Creation of its last entry.
        title: Its title; empty if it has none. Logs leave this field and the next one empty;
            `ConversationMemory.threads` fills them in.
        archived: Whether it is archived: it is kept and searched, but lists may leave it out.
    """

    key: ThreadKey
    entries: int
    first_ms: int
    last_ms: int
    title: str = ""
    archived: bool = False


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What `forget` erased, as counts only, so that nothing erased survives here.

    Attributes:
        entries: Log entries.
        threads: Threads that were erased completely.
        segments: Derived index rows (terms and vectors).
        documents: State documents (buffers, cursors, leases).
        at_ms: When, milliseconds since the epoch.
    """

    entries: int = 0
    threads: int = 0
    segments: int = 0
    documents: int = 0
    at_ms: int = 0

    def __add__(self, later: ForgetReceipt) -> ForgetReceipt:
        """Return what two calls erased; when, says the later one."""
        sums = [mine + more for mine, more in zip(astuple(self), astuple(later), strict=True)]
        return replace(ForgetReceipt(*sums), at_ms=later.at_ms)
