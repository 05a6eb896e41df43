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
from langchain_convmem.history.live_reading import context_steps
from langchain_convmem.history.summarized import SummarizedThread
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Context, ThreadKey, Turn
from langchain_convmem.steps import Steps, arun, run
from langchain_convmem.views.codec import role_of
from langchain_convmem.views.coercion import MessagesInput, read_messages
from langchain_convmem.views.context import Profile, SummaryPlace
from langchain_convmem.views.drafting import Drafting, WriteHook, content_of
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

    def __init__(
        self,
        log: MessageLog,
        thread_id: str,
        *,
        user_id: str | None = None,
        before_write: WriteHook | None = None,
    ) -> None:
        """Look at a thread, which need not exist yet.

        Args:
            log: Where entries are kept; stays the caller's to close.
            thread_id: The thread.
            user_id: Its user; None is a thread of its own, shared with nobody.
            before_write: Gets a copy of each message before it is stored, and returns what to
                store, or None; see `WriteHook`. Histories made by a memory have the memory's.

        Raises:
            ConfigError: If an id is empty, or `before_write` is no plain function.
        """
        super().__init__()
        self.log = log
        self.key = ThreadKey(user_id, thread_id)
        self.drafting = Drafting(before_write)

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

        If the write hook stores nothing of it, that turn has no entries.

        Args:
            role: Who speaks; summaries are added through their own method.
            contents: One text or several pieces; blank pieces are left out.

        Raises:
            InvalidMessageError: If the role is unknown or every piece is blank; nothing is written.
        """
        return run(self._adding(_text_message(role, contents)))

    async def aadd(
        self, role: Literal["user", "assistant", "system"], contents: str | Sequence[str]
    ) -> AddedTurn:
        """Add what one role said; see `add`."""
        return await arun(self._adding(_text_message(role, contents)))

    def _adding(self, message: BaseMessage) -> Steps[AddedTurn]:
        draft = self.drafting.draft(message)
        if draft is None:
            return AddedTurn.unstored(role_of(message), self.log)
        [entry] = yield from self._append([draft])
        return (yield from AddedTurn.holding_steps(entry, self.log))

    def add_messages(self, messages: MessagesInput) -> None:
        """Store messages verbatim, all or none.

        Besides messages, it takes what a chain takes: text of the user, dicts and pairs of role and
        content, `{"messages": [...]}`, the value of a prompt.

        A message whose id the thread already has is stored once; with another payload it replaces
        the earlier one. Left out is what is marked `additional_kwargs={"remember": False}`, and
        what the write hook stores nothing of.

        Raises:
            InvalidMessageError: If one of them cannot be stored; nothing is written.
        """
        self.log.append(self.key, self.drafting.drafts(read_messages(messages)))

    async def aadd_messages(self, messages: MessagesInput) -> None:
        """Store messages verbatim; see `add_messages`."""
        await self.log.aappend(self.key, self.drafting.drafts(read_messages(messages)))

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
        options = {
            "profile": profile,
            "max_tokens": max_tokens,
            "summary": summary,
            "token_counter": token_counter,
        }
        return run(context_steps(self.log, self.key, **options))

    async def acontext(
        self,
        *,
        profile: Profile = "strict",
        max_tokens: int | None = None,
        summary: SummaryPlace = "system",
        token_counter: Callable[[Sequence[BaseMessage]], int] = count_tokens,
    ) -> Context:
        """Return what a model gets; see `context`."""
        options = {
            "profile": profile,
            "max_tokens": max_tokens,
            "summary": summary,
            "token_counter": token_counter,
        }
        return await arun(context_steps(self.log, self.key, **options))


def _text_message(role: str, contents: str | Sequence[str]) -> BaseMessage:
    make = _MESSAGES.get(role)
    if make is None:
        raise InvalidMessageError(f"role must be one of {', '.join(_MESSAGES)}; got {role!r}")
    spoken = checked_pieces(contents, what="contents")
    return make(content_of(spoken))
