"""`ConversationHistory`: one thread of a log, read through the views.

The only file that names `BaseChatMessageHistory`, which langchain-core deprecates: everything here
works by composition over a log, and the base class only lets older chains accept the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.history.added_turn import AddedTurn
from langchain_convmem.history.edited import EditedThread
from langchain_convmem.history.exported import ExportedThread
from langchain_convmem.history.summarized import SummarizedThread
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Context, Draft, ThreadKey, Turn
from langchain_convmem.views.codec import draft_of
from langchain_convmem.views.context import Profile, SummaryPlace, context
from langchain_convmem.views.summaries import checked_pieces
from langchain_convmem.views.tokens import count_tokens
from langchain_convmem.views.turns import model_turns, turns

__all__ = ["ConversationHistory"]

_MESSAGES: dict[str, Callable[..., BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}


class ConversationHistory(SummarizedThread, EditedThread, ExportedThread, BaseChatMessageHistory):
    """One thread of a log.

    Holds nothing of its own: every read asks the log, so that several histories of one thread,
    in several processes, agree. Thread-safe as the log is.
    """

    def __init__(self, log: MessageLog, thread_id: str, *, user_id: str | None = None) -> None:
        """Look at a thread, which need not exist yet.

        Args:
            log: Where entries are kept; stays the caller's to close.
            thread_id: The thread.
            user_id: Its user; None is a thread of its own, shared with nobody.
        """
        super().__init__()
        self.log = log
        self.key = ThreadKey(user_id, thread_id)

    def __repr__(self) -> str:
        return f"ConversationHistory({self.thread_id!r}, user_id={self.user_id!r})"

    @property
    def thread_id(self) -> str:
        """The thread."""
        return self.key.thread_id

    @property
    def user_id(self) -> str | None:
        """The thread's user, if it has one."""
        return self.key.user_id

    # -- writing --------------------------------------------------------------------------------

    def add(
        self, role: Literal["user", "assistant", "system"], contents: str | Sequence[str]
    ) -> AddedTurn:
        """Add what one role said and return the turn that now holds it.

        Args:
            role: Who speaks; summaries are added through their own method.
            contents: One text or several pieces; blank pieces are left out.

        Raises:
            InvalidMessageError: If the role is unknown or every piece is blank; nothing is written.
        """
        draft = _text_draft(role, contents)
        [entry] = self.log.append(self.key, [draft])
        return AddedTurn.holding(entry, self.log.entries(self.key), self.log)

    async def aadd(
        self, role: Literal["user", "assistant", "system"], contents: str | Sequence[str]
    ) -> AddedTurn:
        """Add what one role said; see `add`."""
        draft = _text_draft(role, contents)
        [entry] = await self.log.aappend(self.key, [draft])
        return AddedTurn.holding(entry, await self.log.aentries(self.key), self.log)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages verbatim, all or none.

        A message whose id the thread already has is stored once; with another payload it replaces
        the earlier one.

        Raises:
            InvalidMessageError: If one of them cannot be stored; nothing is written.
        """
        self.log.append(self.key, [draft_of(message) for message in messages])

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages verbatim; see `add_messages`."""
        await self.log.aappend(self.key, [draft_of(message) for message in messages])

    # -- reading --------------------------------------------------------------------------------

    @property
    def turns(self) -> list[AddedTurn]:
        """The conversation in display order, summaries and placeholders included."""
        return self._added(turns(self.entries))

    async def aturns(self) -> list[AddedTurn]:
        """Return the conversation in display order; see `turns`."""
        return self._added(turns(await self.log.aentries(self.key)))

    @property
    def model_turns(self) -> list[AddedTurn]:
        """What no summary covers, in order: the turns that `messages` are made of, piece by piece.

        Summaries are left out; a placeholder stands where the assistant would speak first.
        """
        return self._added(model_turns(self.entries))

    async def amodel_turns(self) -> list[AddedTurn]:
        """Return what no summary covers, in order; see `model_turns`."""
        return self._added(model_turns(await self.log.aentries(self.key)))

    def _added(self, shown: Sequence[Turn]) -> list[AddedTurn]:
        return [AddedTurn.of(turn, self.log) for turn in shown]

    @property
    def messages(self) -> list[BaseMessage]:
        """The model's view: the live summary as one marked system message, then the turns."""
        return self.context().messages

    @messages.setter
    def messages(self, value: list[BaseMessage]) -> None:
        del value
        msg = "messages is a view; add with add_messages(), start anew with clear()"
        raise AttributeError(msg)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the model's view."""
        return (await self.acontext()).messages

    def context(
        self,
        *,
        profile: Profile = "strict",
        max_tokens: int | None = None,
        summary: SummaryPlace = "system",
        token_counter: Callable[[Sequence[BaseMessage]], int] = count_tokens,
    ) -> Context:
        """Return what a model gets: valid messages within budget, and what had to be mended.

        Args:
            profile: Whose rules to keep.
            max_tokens: Budget; whole exchanges are left out, oldest first.
            summary: The live summary as a system message, or left out.
            token_counter: Counts the tokens of messages.

        Raises:
            BudgetError: If the latest exchange alone is larger than the budget.
        """
        return context(
            self.entries,
            profile=profile,
            max_tokens=max_tokens,
            summary=summary,
            token_counter=token_counter,
        )

    async def acontext(
        self,
        *,
        profile: Profile = "strict",
        max_tokens: int | None = None,
        summary: SummaryPlace = "system",
        token_counter: Callable[[Sequence[BaseMessage]], int] = count_tokens,
    ) -> Context:
        """Return what a model gets; see `context`."""
        return context(
            await self.log.aentries(self.key),
            profile=profile,
            max_tokens=max_tokens,
            summary=summary,
            token_counter=token_counter,
        )


def _text_draft(role: str, contents: str | Sequence[str]) -> Draft:
    make = _MESSAGES.get(role)
    if make is None:
        raise InvalidMessageError(f"role must be one of {', '.join(_MESSAGES)}; got {role!r}")
    spoken = checked_pieces(contents, what="contents")
    if len(spoken) == 1:
        return draft_of(make(spoken[0]))
    return draft_of(make([{"type": "text", "text": piece} for piece in spoken]))
