"""What a conversation keeps its history in: a list, a store, or a thread of a memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_convmem.gates import Gate
    from langchain_convmem.steps import Steps

__all__ = ["ThreadMemory", "ThreadView"]


class ThreadView(NamedTuple):
    """What a model sees of a thread in one turn.

    Attributes:
        before: What was said before; a summary stands first, where older messages are left out.
        asked: What is said now, as the model gets it: with recalled text before the user's words.
        note: The thread's own, for `add_steps`.
    """

    before: tuple[BaseMessage, ...]
    asked: tuple[BaseMessage, ...]
    note: Any = None


@runtime_checkable
class ThreadMemory(Protocol):
    """One thread, as a conversation reads and writes it.

    The conversation runs one turn at a time and writes whole turns only.
    """

    @property
    def gate(self) -> Gate | None:
        """The line of those who run turns of this thread; None if only the conversation does."""
        ...

    def view_steps(self, asked: Sequence[BaseMessage]) -> Steps[ThreadView]:
        """Return what the model sees when these messages are said; writes nothing."""
        ...

    def add_steps(
        self, messages: Sequence[BaseMessage], view: ThreadView, timing: Mapping[str, int]
    ) -> Steps[None]:
        """Store a whole turn: all of it or nothing.

        Args:
            messages: What was asked, what the tools said, and the reply; in order.
            view: What the model had seen.
            timing: When, in milliseconds since the epoch; see `Metadata`.
        """
        ...

    def failed_steps(
        self, messages: Sequence[BaseMessage], reason: Literal["failed", "cancelled"]
    ) -> Steps[None]:
        """Note a turn that did not come about; it shows in no view."""
        ...

    def messages_steps(self) -> Steps[list[BaseMessage]]:
        """Return copies of all that was said, in order."""
        ...

    def undo_steps(self, turns: int) -> Steps[list[BaseMessage]]:
        """Take back the last turns; return what they held."""
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
