"""The part of a memory that holds conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from langchain_convmem.memory.summarizing import SummarizingPart
from langchain_convmem.memory.turn_switches import TurnSwitches
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.budget import ContextBudget
from langchain_convmem.views.profiles import Profile, resolved

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

    from langchain_convmem.conversation import Conversation, Engine
    from langchain_convmem.memory.conversation_memory import ConversationMemory
    from langchain_convmem.protocols import TextEngine

__all__ = ["ConversingMemory"]


class ConversingMemory(SummarizingPart):
    """Conversations that live in a thread."""

    def conversation(
        self,
        model: BaseChatModel | Runnable[Any, Any] | TextEngine | Engine,
        *,
        thread_id: str,
        user_id: str | None = None,
        recall: bool = True,
        max_tokens: int | None = None,
        k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int = 0,
        profile: Profile | None = None,
        **settings: Any,
    ) -> Conversation:
        """Return a conversation whose history is a thread: it goes on where that stands.

        A turn is stored in one write when the reply is there. A turn that fails is stored too, and
        taken back. What is recalled stands before the user's words; the log keeps these alone.

        Args:
            model: A chat model, a text engine, or an engine that several conversations share.
            thread_id: The thread.
            user_id: Its user, whose lines are recalled.
            recall: Whether to recall lines of earlier conversations.
            max_tokens: Budget of the recalled text; see `wrap`.
            k: Recall exactly so many blocks instead.
            history_tokens: Budget of what was said before; see `wrap`.
            context_tokens: One budget for all that the model gets; see `wrap`.
            reserved_tokens: Of these, so many are left for the preface and for tools.
            profile: Whose rules the messages keep; None keeps those of all (`"strict"`).
            **settings: See `ConversationConfig`.

        Raises:
            ConfigError: If a setting is unknown, or a budget leaves no room.
        """
        from langchain_convmem.conversation import Engine
        from langchain_convmem.memory.thread_memory import MemoryThread

        budget = None
        self.check_budget(history_tokens)
        if context_tokens is not None:
            budget = ContextBudget(context_tokens, reserved_tokens)
            self.check_budget(budget.of_messages(self.wished_tokens(recall, max_tokens))[0])
        thread = MemoryThread(
            cast("ConversationMemory", self),
            ThreadKey(user_id, thread_id),
            TurnSwitches(
                recall=recall,
                max_tokens=max_tokens,
                k=k,
                history_tokens=history_tokens,
                budget=budget,
            ),
            resolved(profile or "strict"),
        )
        engine = model if isinstance(model, Engine) else Engine(model)
        return engine.create_conversation(history=thread, **settings)
