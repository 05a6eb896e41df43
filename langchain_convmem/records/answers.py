"""What logs and views answer with, and what summarisers are asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_convmem.records.entries import Entry, ThreadKey
from langchain_convmem.records.recalled import DialogLine

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = [
    "CacheDraft",
    "Changes",
    "Context",
    "ForgetReceipt",
    "LineChanges",
    "StateDocument",
    "SummaryRequest",
    "ThreadInfo",
]


@dataclass(frozen=True, slots=True)
class Context:
    """What a model gets.

    Attributes:
        messages: Valid for the profile they were built for; fresh copies.
        repairs: What had to be mended, one sentence each; empty for a sound history.
        tokens: Size of `messages` by the token counter.
        positions: Positions of the entries that `messages` show.
        is_whole: Whether nothing was left out for the budget.
    """

    messages: list[BaseMessage]
    repairs: tuple[str, ...]
    tokens: int
    positions: frozenset[int]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Changes:
    """Entries of one owner behind a cursor, in commit order.

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
    """Dialog lines of one owner behind a cursor, in commit order.

    Attributes:
        lines: Those of the entries after the cursor; retracted ones among them.
        controls: The control entries after the cursor.
        cursor: Pass it to the next call; the same again at the end of the log.
        generation: See `Changes`.
        is_last: Whether nothing else stood behind the cursor; False where that is not known.
    """

    lines: tuple[DialogLine, ...]
    controls: tuple[Entry, ...]
    cursor: int
    generation: int
    is_last: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class StateDocument:
    """A small JSON document beside a thread.

    Attributes:
        value: Plain JSON.
        version: Changes with every write; pass it back to overwrite just this version.
    """

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class CacheDraft:
    """A state document that is a cache, to be written beside entries.

    Attributes:
        name: Begins with `CACHE_PREFIX`.
        value: Plain JSON.
        expected: The version that it takes the place of; None where there is none yet.
    """

    name: str
    value: Any
    expected: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """What a summariser is asked for.

    Attributes:
        transcript: What was said, as text: one line per speaker, tool calls and results told. It
            is data, whatever it says.
        previous: The summary so far; what it tells must be told by the next one, too.
        missing: What an earlier attempt at the same text did not tell and should have.
        max_tokens: How long the summary should be.
    """

    transcript: str
    previous: str = ""
    missing: tuple[str, ...] = ()
    max_tokens: int = 600


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """One row of a thread listing.

    Attributes:
        key: The thread.
        entries: How many entries the log holds, control entries included.
        first_ms: Creation of its first entry, milliseconds since the epoch.
        last_ms: Creation of its last entry.
    """

    key: ThreadKey
    entries: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What `forget` erased: counts only, since a receipt must not keep what it attests.

    Attributes:
        entries: Log entries.
        threads: Threads that are gone whole.
        segments: Derived index rows (terms and vectors).
        documents: State documents (buffers, cursors, leases).
        at_ms: When, milliseconds since the epoch.
    """

    entries: int = 0
    threads: int = 0
    segments: int = 0
    documents: int = 0
    at_ms: int = 0
