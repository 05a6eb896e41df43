"""The seams of the package, as structural protocols: what logs, summarisers and models must do.

Optional abilities are protocols of their own, asked for once with `isinstance`.
Asynchronous twins carry the prefix `a` and keep every promise of their synchronous method.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_convmem.effects import Steps
    from langchain_convmem.locks import FifoLock
    from langchain_convmem.records import (
        CacheDraft,
        Changes,
        Draft,
        Entry,
        ForgetReceipt,
        IndexSnapshot,
        LineChanges,
        Owner,
        StateDocument,
        StoredSegment,
        SummaryRequest,
        ThreadInfo,
        ThreadKey,
    )
    from langchain_convmem.text import ChatTemplate


CACHE_PREFIX = "cache:"
"""How the names of state documents begin that are caches; see `ThreadState`."""
Stretch: TypeAlias = tuple[int, int | None]
"""Positions of a thread: after the first, up to the second, itself included; None: to the end."""


@runtime_checkable
class MessageLog(Protocol):
    """An append-only log of entries, by thread.

    Every method is safe to call from several threads and processes at once.
    """

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts, or none; return one entry for each, in order.

        A message whose own id is already in the thread is stored once: with equal payload the
        entry that is there comes back; with another payload a control entry (`replaced`) retracts
        it and the new one is appended. On return the entries survive a crash of the machine.

        Args:
            key: The thread.
            drafts: What to append; an empty sequence does nothing.
            durable: Survive a crash of the machine; False, for bulk imports that can be repeated: a
                crash of the process only.

        Raises:
            InvalidMessageError: If a message cannot be stored; nothing was written.
            LogUnavailableError: If the storage cannot be reached; nothing was written.
        """
        ...

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position, control entries included.

        Args:
            key: The thread; an unknown one has no entries.
            after: Only positions greater than this.
            until: Only positions up to this one, itself included; None is up to the newest.
            last: Only this many of the latest, still in ascending order.
        """
        ...

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries whose `message_id` is one of these, by ascending position.

        Retracted and replaced ones included, so one id may have several entries. Control entries
        have no message id and are never found; unknown ids are skipped.

        Raises:
            ConfigError: If the ids come as one text.
        """
        ...

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata, durably; attributes append, the others overwrite by name.

        Raises:
            LogError: If the thread has no such entry.
        """
        ...

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; None lists the threads of no user."""
        ...

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return the owner's entries after `cursor` in commit order, at most `limit` of them."""
        ...

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase a whole owner, one thread, or some entries of a thread, for good.

        Of an owner or a thread all goes: entries of every kind, state documents, segments. Of
        single entries go they and their segments, and of the thread's state documents those that
        are caches, whatever ids are given; see `ThreadState`. All else stays: later versions,
        control entries that name what is gone, and summaries that tell of it, whose ids the caller
        has to give, too (`ConversationMemory.forget` does).

        Positions are never given again, and the owner's `Changes.generation` differs afterwards.
        Idempotent: what is gone already and unknown ids are not an error, and the receipt counts
        what this call erased. What others append at the same time is erased or not.

        Args:
            scope: The owner, or the thread.
            entry_ids: Entries of the thread by entry id, or by message id, which names every
                version of the message; an empty collection names none. None is the whole scope.

        Returns:
            What was erased, in counts.

        Raises:
            ConfigError: If `entry_ids` come without a `ThreadKey`, or as one text.
            LogUnavailableError: If the storage cannot be reached. Part may be gone already: call
                again.
        """
        ...

    def close(self) -> None:
        """Release what the log opened; later calls raise `LogClosedError`. Idempotent."""
        ...

    async def aappend(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append, without blocking the event loop."""
        ...

    async def aentries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries, without blocking the event loop."""
        ...

    async def afind(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Find entries, without blocking the event loop."""
        ...

    async def aannotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Annotate, without blocking the event loop."""
        ...

    async def athreads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, without blocking the event loop."""
        ...

    async def achanges(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return changes, without blocking the event loop."""
        ...

    async def aforget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Forget, without blocking the event loop."""
        ...

    async def aclose(self) -> None:
        """Close, without blocking the event loop."""
        ...


@runtime_checkable
class OwnerListing(Protocol):
    """Optional ability of a log: it knows whose entries it holds."""

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries, in no order."""
        ...

    async def aowners(self) -> list[Owner]:
        """Return the owners, without blocking the event loop."""
        ...


@runtime_checkable
class LineSource(Protocol):
    """Optional ability of a log: it reads dialog lines without making messages of entries."""

    def line_changes(
        self, owner: Owner, cursor: int = 0, *, limit: int | None = None
    ) -> LineChanges:
        """Return what `MessageLog.changes` does, as lines: of the same entries, in their order.

        Args:
            owner: Whose.
            cursor: That of an earlier call, of this one or of `changes`.
            limit: Entries at most; a page may hold fewer lines, or none.

        """
        ...


@runtime_checkable
class ThreadState(Protocol):
    """Small JSON documents by thread and name, with compare-and-set.

    They are deleted when their thread is forgotten. A document whose name begins with
    `CACHE_PREFIX` is a cache of what the thread shows: it goes whenever entries of the thread are
    forgotten, since it may tell of them. A reader from before a `forget` may write such a document
    after it; so keep in it the `Changes.generation` that it was made from, and trust no other.
    """

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        ...

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected` (None: if there is none yet).

        Returns:
            The document written, or None when another writer was faster and nothing was written.
        """
        ...

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        ...

    async def aget_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, without blocking the event loop."""
        ...

    async def aset_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document, without blocking the event loop."""
        ...

    async def adelete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document, without blocking the event loop."""
        ...


@runtime_checkable
class ThreadTransactions(Protocol):
    """Optional ability of a log: what a turn reads, and what it reads to write, is one transaction.

    Of other logs the same is asked call by call, which takes longer and promises less: what others
    append between two calls is seen by one of them alone. Needs `ThreadState`.
    """

    def read_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries of its thread, all from one state of the log.

        The entries may be the same objects as at an earlier call: read them, and change nothing.

        Args:
            key: The thread.
            name: The document.
            stretches: Tells from the document which entries to read, in ascending order and
                without overlap; called inside the transaction, so it must be quick.

        Raises:
            LogError: If the document or an entry cannot be read.
        """
        ...

    def append_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
        documents: Sequence[CacheDraft] = (),
    ) -> list[Entry]:
        """Append what `plan` makes of what is there, as `append` does; no append comes between.

        Args:
            key: The thread.
            plan: Gets the entries after a position and those of some ids, each once, in order of
                position; returns what to append. Called inside the transaction, perhaps again if
                it has to begin anew: so it must be quick, and do nothing else.
            after: The position.
            message_ids: The ids; see `MessageLog.find`.
            documents: Caches to write as well; one whose version is not as expected is left out.
        """
        ...

    async def aread_thread(
        self,
        key: ThreadKey,
        name: str,
        stretches: Callable[[StateDocument | None], Sequence[Stretch]],
    ) -> tuple[StateDocument | None, list[Entry]]:
        """Return a document and entries, without blocking the event loop."""
        ...

    async def aappend_planned(
        self,
        key: ThreadKey,
        plan: Callable[[Sequence[Entry]], Sequence[Draft]],
        *,
        after: int,
        message_ids: Collection[str] = (),
        documents: Sequence[CacheDraft] = (),
    ) -> list[Entry]:
        """Append what was planned, without blocking the event loop."""
        ...


@runtime_checkable
class SegmentCache(Protocol):
    """Optional ability of a log: keeps what recall derived from its lines. Always rebuildable.

    Rows belong to their entry: `forget` erases them with it. A fingerprint names what made their
    vectors: an embedder, and how lines are cut.
    """

    def load_segments(
        self, owner: Owner, fingerprint: str, *, after: int = 0
    ) -> list[StoredSegment]:
        """Return rows made under `fingerprint` with a position greater than `after`, in order."""
        ...

    def save_segments(self, owner: Owner, fingerprint: str, rows: Iterable[StoredSegment]) -> None:
        """Add or overwrite rows; those whose entry is gone meanwhile are left out.

        A row without a vector leaves the vector that is there.
        """
        ...

    def segment_fingerprints(self, owner: Owner) -> list[str]:
        """Return, sorted, the fingerprints under which the owner has rows with a vector."""
        ...

    def delete_segments(self, owner: Owner, fingerprint: str) -> int:
        """Delete the owner's rows made under `fingerprint`; return how many there were."""
        ...


@runtime_checkable
class IndexSnapshots(Protocol):
    """Optional ability of a log: keeps the index of an owner's lines whole. Always rebuildable.

    An owner has one at most. It holds what was said: `forget` erases it in the same step as the
    lines, and no other process may bring it back.
    """

    def load_snapshot(self, owner: Owner, name: str) -> IndexSnapshot | None:
        """Return the owner's snapshot if it was saved under this name, is sound and still holds.

        Its bytes are the caller's. It holds as long as nothing of the owner's was forgotten.

        Raises:
            LogError: If the log cannot be read.
        """
        ...

    def save_snapshot(self, owner: Owner, name: str, snapshot: IndexSnapshot) -> bool:
        """Put a snapshot in the place of the owner's last one.

        Args:
            owner: Whose lines it holds.
            name: Tells how it was made. What asks for another name gets none.
            snapshot: The snapshot.

        Returns:
            Whether it was saved; not if something of the owner's was forgotten since it was made,
            or another process saved one meanwhile.

        Raises:
            LogError: If the log cannot be written.
        """
        ...


@runtime_checkable
class EndsWithProcess(Protocol):
    """Optional ability of a log: it keeps nothing beyond this process, so no cache is missed."""

    ends_with_process: Literal[True]


def find_segment_cache(log: object) -> SegmentCache | None:
    """Return a log that keeps segments beyond this process; None for another."""
    return log if isinstance(log, SegmentCache) and not isinstance(log, EndsWithProcess) else None


def is_valid_for(log: object, name: str, *others: str) -> bool:
    """Return whether a log's method still stands for others that its class may have overridden.

    A class that overrides `append` means every append; a method that does the same by a
    shorter way, and was written before, would go around it.

    Args:
        log: The log.
        name: The method that stands for others.
        others: These.
    """
    for names in (getattr(log, "__dict__", {}), *map(vars, type(log).__mro__)):
        if name in names or not names.keys().isdisjoint(others):
            return name in names
    return False


# -- What writes summaries, and the tags of runs that the memory starts itself -------------------
INTERNAL_TAG = "langchain_convmem:internal"
"""Tag of every run that the memory itself starts."""
INTERNAL_TAGS = (INTERNAL_TAG, "nostream")
"""By `nostream` LangGraph leaves a model out of what `stream_mode="messages"` shows."""


@runtime_checkable
class Summarizer(Protocol):
    """Writes summaries. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """What stands with a summary as its author: a model's name, or a procedure's."""
        ...

    def summarize(self, request: SummaryRequest) -> str:
        """Return the summary of what the request holds.

        Raises:
            SummaryError: If there is none; nothing is compacted then.
        """
        ...

    async def asummarize(self, request: SummaryRequest) -> str:
        """Return the summary, without blocking the event loop."""
        ...


# -- What a conversation keeps its history in -----------------------------------------------------
class ThreadView(NamedTuple):
    """What a model sees of a thread in one turn.

    Attributes:
        before: What was said before; a summary stands first, where older messages are left out.
        asked: What is said now, as the model gets it: with recalled text before the user's words.
        note: The thread's own, for the steps that write the turn.
    """

    before: tuple[BaseMessage, ...]
    asked: tuple[BaseMessage, ...]
    note: Any = None


@runtime_checkable
class ThreadMemory(Protocol):
    """One thread, as a conversation reads and writes it.

    The conversation runs one turn at a time: `select_asked_steps` and `read_view_steps`, then
    `begin_steps` before the model is called, and at its end `add_steps` or `retract_steps`. Until
    it is added, the turn shows in no other answer of the thread.
    """

    @property
    def lock(self) -> FifoLock | None:
        """The line of those who run turns of this thread; None if only the conversation does."""
        ...

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of a send, with what its runs are found by."""
        ...

    def select_asked_steps(self, sent: Sequence[BaseMessage]) -> Steps[list[BaseMessage]]:
        """Return what is asked with these messages; writes nothing.

        Who shows a chat may send all of it every time; what the thread has of it is left out.
        """
        ...

    def read_view_steps(self, asked: Sequence[BaseMessage]) -> Steps[ThreadView]:
        """Return what the model sees when these messages are said; writes nothing."""
        ...

    def begin_steps(
        self, asked: Sequence[BaseMessage], view: ThreadView, asked_ms: int
    ) -> Steps[None]:
        """Make what is asked durable, where a turn that fails can be taken back.

        Args:
            asked: What is said now, and results of tools that come with it; in order.
            view: What the model is going to see.
            asked_ms: When it was said, in milliseconds since the epoch.
        """
        ...

    def add_steps(
        self, said: Sequence[BaseMessage], view: ThreadView, timing: Mapping[str, int]
    ) -> Steps[None]:
        """Store the rest of a turn that has begun: all of it or nothing.

        Args:
            said: Replies and what the tools said, in order.
            view: What the model had seen.
            timing: When, in milliseconds since the epoch; see `Metadata`.
        """
        ...

    def retract_steps(
        self, said: Sequence[BaseMessage], view: ThreadView, reason: Literal["failed", "cancelled"]
    ) -> Steps[None]:
        """Take back a turn that has begun, however far it was written; it shows in no view."""
        ...

    def read_messages_steps(self) -> Steps[list[BaseMessage]]:
        """Return copies of all that was said, in order."""
        ...

    def undo_steps(self, turns: int) -> Steps[list[BaseMessage]]:
        """Take back the last turns; return what they held."""
        ...

    def cut_steps(self, heard: int | str, message_id: str | None) -> Steps[BaseMessage | None]:
        """Cut a reply to what was heard of it.

        Args:
            heard: Characters of its text, or the words that were heard.
            message_id: Its id; None is the latest reply.

        Returns:
            A copy of what is left; None if nothing was heard.

        Raises:
            ConfigError: If there is no such reply.
            InvalidMessageError: If the words are not in it.
        """
        ...

    def mark_steps(self) -> Steps[Any]:
        """Return a mark of where the thread stands, of plain values."""
        ...

    def rewind_steps(self, mark: Any) -> Steps[None]:
        """Take back everything that was said since a mark.

        Raises:
            UnknownCheckpointError: If the thread does not go back that far any more.
        """
        ...

    def branch_steps(self) -> Steps[ThreadMemory]:
        """Return a thread that holds the same and goes on by itself."""
        ...


# -- What reads text and goes on with it: a model that knows nothing of messages ------------------
@dataclass(frozen=True, slots=True)
class Media:
    """A picture or a sound within a prompt, at the place of its mark in the text."""

    kind: Literal["image", "audio"]
    data: bytes
    mime_type: str


Part: TypeAlias = str | Media
"""What a session reads."""


@runtime_checkable
class ModelSession(Protocol):
    """The running state of a model: all that it has read and written.

    One caller at a time. It applies no template of its own, and adds no text of its own. After an
    error, or a decode that was left early, its state is unknown until it is rewound or reset.
    """

    @property
    def holds_stop(self) -> bool:
        """Whether its state contains the stop text at which a decode ended."""
        ...

    @property
    def finish_reason(self) -> Literal["stop", "length"] | None:
        """Why the latest decode ended; None before the first, and while one runs."""
        ...

    @property
    def stop_text(self) -> str:
        """The stop text at which the latest decode ended; empty if at none."""
        ...

    def prefill(self, parts: Sequence[Part]) -> None:
        """Read text and media, after all that was read and written before."""
        ...

    async def aprefill(self, parts: Sequence[Part]) -> None:
        """Read text and media; see `prefill`."""
        ...

    def decode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> Iterator[str]:
        """Write on, and yield the text as it comes: every character of it, unchanged.

        Args:
            stop: Texts that end the reply, besides the model's own end; not yielded.
            max_tokens: The most tokens to write; None is the session's own limit.
            **options: What else the model takes, such as `temperature`.
        """
        ...

    def adecode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """Write on; see `decode`."""
        ...

    def reset(self) -> None:
        """Forget everything: as new. Never blocks for long."""
        ...

    def close(self) -> None:
        """Release what it holds. Idempotent."""
        ...


@runtime_checkable
class RewindableSession(Protocol):
    """A session that can go back."""

    def checkpoint(self) -> Any:
        """Return a mark of the state as it is. Cheap."""
        ...

    def rewind(self, checkpoint: Any) -> None:
        """Go back to a mark of this session, or of the one that it was cloned from. Cheap.

        Raises:
            UnknownCheckpointError: If the mark is not of this session, or lies after a rewind.
        """
        ...


@runtime_checkable
class ClonableSession(Protocol):
    """A session that can be copied with its state."""

    def clone(self) -> ModelSession:
        """Return a session that goes on from here by itself."""
        ...


@runtime_checkable
class ScoringSession(Protocol):
    """A session that can say how likely texts are."""

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return for each text the logarithm of its probability as the next text.

        Leaves the state as it is.
        """
        ...


@runtime_checkable
class TokenCountingSession(Protocol):
    """A session that can count the tokens it holds."""

    @property
    def token_count(self) -> int:
        """Tokens of its state."""
        ...


@runtime_checkable
class PiecewiseSession(Protocol):
    """A session that makes tokens of each text of a prefill by itself, so that none lies across.

    Where a message spells a control token, the text is cut inside it, and stays what it was. Other
    sessions get it in one text, with a blank there.
    """

    reads_pieces: Literal[True]


@runtime_checkable
class TokenNamingEngine(Protocol):
    """An engine that knows the tokens that are parts of no word, such as `<|im_start|>`."""

    @property
    def control_tokens(self) -> Collection[str]:
        """What no text of a message may become in a prompt."""
        ...


@runtime_checkable
class TextEngine(Protocol):
    """A model that hands out sessions. Thread-safe; the sessions are not."""

    @property
    def template(self) -> ChatTemplate | None:
        """How conversations are written for it; None if it does not know."""
        ...

    @property
    def reply_format(self) -> str | None:
        """Name of the format of its replies; None if it does not know."""
        ...

    @property
    def stop(self) -> Sequence[str]:
        """Texts that end its replies."""
        ...

    def create_session(self) -> ModelSession:
        """Return a new, empty session."""
        ...

    def close(self) -> None:
        """Release the model. Idempotent."""
        ...
