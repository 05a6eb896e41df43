"""What a conversation keeps its history in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_convmem.locks import FifoLock


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
