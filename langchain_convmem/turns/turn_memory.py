"""What a turn needs of the memory that it runs over."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_convmem.protocols import MessageLog
    from langchain_convmem.recall import DialogRecall
    from langchain_convmem.records import Context, ThreadKey
    from langchain_convmem.steps import Steps
    from langchain_convmem.turns.options import TurnOptions
    from langchain_convmem.views.drafting import Drafting

__all__ = ["TurnMemory"]


class TurnMemory(Protocol):
    """A memory as a turn sees it; `ConversationMemory` is one.

    Thread-safe: the turns of all threads share it.
    """

    @property
    def log(self) -> MessageLog:
        """Where entries are kept."""
        ...

    @property
    def log_place(self) -> Hashable:
        """What tells the log from others in this process."""
        ...

    @property
    def drafting(self) -> Drafting:
        """Makes drafts of messages, through the write hook."""
        ...

    @property
    def line_recall(self) -> DialogRecall:
        """Finds lines of earlier conversations."""
        ...

    def wished_tokens(self, options: TurnOptions) -> int:
        """Return how many tokens of recalled lines a turn with these options wishes for."""
        ...

    def after_turn_steps(
        self, key: ThreadKey, view: Context | None = None, replies: Sequence[BaseMessage] = ()
    ) -> Steps[None]:
        """Do what is due after a turn was stored: have it embedded, compact the thread.

        Args:
            key: Its thread.
            view: What the model got of the thread; None if that is not at hand.
            replies: What was stored of the answer.
        """
        ...
