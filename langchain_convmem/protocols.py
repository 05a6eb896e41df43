"""The seams of the package, as structural protocols: what logs, summarisers and models must do.

Optional abilities are protocols of their own, asked for once with `isinstance`.
Asynchronous twins carry the prefix `a` and keep every promise of their synchronous method.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_convmem.locks import FifoLock
    from langchain_convmem.records import (
        SummaryRequest,
    )
    from langchain_convmem.text import ChatTemplate


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

    The conversation runs one turn at a time: `select_asked` and `read_view`, then
    `begin` before the model is called, and at its end `add` or `retract`. Until
    it is added, the turn shows in no other answer of the thread.
    """

    @property
    def lock(self) -> FifoLock | None:
        """The line of those who run turns of this thread; None if only the conversation does."""
        ...

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of a send, with what its runs are found by."""
        ...

    def select_asked(self, sent: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what is asked with these messages; writes nothing.

        Who shows a chat may send all of it every time; what the thread has of it is left out.
        """
        ...

    def read_view(self, asked: Sequence[BaseMessage]) -> ThreadView:
        """Return what the model sees when these messages are said; writes nothing."""
        ...

    def begin(self, asked: Sequence[BaseMessage], view: ThreadView, asked_ms: int) -> None:
        """Make what is asked durable, where a turn that fails can be taken back.

        Args:
            asked: What is said now, and results of tools that come with it; in order.
            view: What the model is going to see.
            asked_ms: When it was said, in milliseconds since the epoch.
        """
        ...

    def add(self, said: Sequence[BaseMessage], view: ThreadView, timing: Mapping[str, int]) -> None:
        """Store the rest of a turn that has begun: all of it or nothing.

        Args:
            said: Replies and what the tools said, in order.
            view: What the model had seen.
            timing: When, in milliseconds since the epoch; see `Metadata`.
        """
        ...

    def retract(
        self, said: Sequence[BaseMessage], view: ThreadView, reason: Literal["failed", "cancelled"]
    ) -> None:
        """Take back a turn that has begun, however far it was written; it shows in no view."""
        ...

    def read_messages(self) -> list[BaseMessage]:
        """Return copies of all that was said, in order."""
        ...

    def undo(self, turns: int) -> list[BaseMessage]:
        """Take back the last turns; return what they held."""
        ...

    def cut(self, heard: int | str, message_id: str | None) -> BaseMessage | None:
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

    def mark(self) -> Any:
        """Return a mark of where the thread stands, of plain values."""
        ...

    def rewind(self, mark: Any) -> None:
        """Take back everything that was said since a mark.

        Raises:
            UnknownCheckpointError: If the thread does not go back that far any more.
        """
        ...

    def branch(self) -> ThreadMemory:
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
