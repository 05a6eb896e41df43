"""The part of a memory that holds conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from langchain_core.runnables import Runnable

from langchain_convmem.memory.chain_shape import chain_shape
from langchain_convmem.memory.summarizing import SummarizingPart
from langchain_convmem.memory.turn_switches import TurnSwitches
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.budget import ContextBudget
from langchain_convmem.views.profiles import Profile, resolved

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from langchain_convmem.conversation import Conversation, Engine
    from langchain_convmem.memory.conversation_memory import ConversationMemory
    from langchain_convmem.protocols import TextEngine, ThreadMemory

__all__ = ["ConversingMemory", "ThreadOptions"]


class ThreadOptions(TypedDict, total=False):
    """What a conversation sees of its thread and of others; see `ConversationMemory.wrap`.

    Attributes:
        recall: Whether to recall lines of earlier conversations; True by default.
        max_tokens: Budget of the recalled text.
        k: Recall exactly so many blocks instead.
        history_tokens: Budget of what was said before.
        context_tokens: One budget for all that the model gets.
        reserved_tokens: Of these, so many are left for the preface and for tools.
        profile: Whose rules the messages keep. None goes by the chat model, and keeps those of all
            (`"strict"`) for text engines.
    """

    recall: bool
    max_tokens: int | None
    k: int | None
    history_tokens: int | None
    context_tokens: int | None
    reserved_tokens: int
    profile: Profile | None


class ConversingMemory(SummarizingPart):
    """Conversations that live in a thread."""

    def conversation(
        self,
        model: BaseChatModel | Runnable[Any, Any] | TextEngine | Engine,
        *,
        thread_id: str,
        user_id: str | None = None,
        **settings: Any,
    ) -> Conversation:
        """Return a conversation whose history is a thread: it goes on where that stands.

        What is asked is stored before the model is called, the rest of the turn in one write when
        the reply is there. A turn that fails is taken back. What is recalled stands before the
        user's words; the log keeps these alone.

        Args:
            model: A chat model, a text engine, or an engine that several conversations share.
            thread_id: The thread.
            user_id: Its user, whose lines are recalled.
            **settings: See `ThreadOptions` and `ConversationConfig`.

        Raises:
            ConfigError: If a setting is unknown, or a budget leaves no room.
        """
        from langchain_convmem.conversation import Conversation, Engine

        engine = model if isinstance(model, Engine) else Engine(model)
        named = ThreadOptions.__annotations__.keys() & settings.keys()
        options: dict[str, Any] = {name: settings.pop(name) for name in named}
        options["profile"] = options.get("profile") or _profile_of(engine.model)
        thread = self.conversation_thread(thread_id, user_id=user_id, **options)
        return Conversation(engine, history=thread, **settings)

    def conversation_thread(
        self, thread_id: str, *, user_id: str | None = None, **options: Unpack[ThreadOptions]
    ) -> ThreadMemory:
        """Return a thread for `history=` of a conversation.

        `await engine.acreate_conversation(history=memory.conversation_thread("t7"))` begins one
        within an event loop.

        Raises:
            ConfigError: If a budget leaves no room.
        """
        from langchain_convmem.memory.thread_memory import MemoryThread

        recall, most = options.get("recall", True), options.get("max_tokens")
        history_tokens, whole = options.get("history_tokens"), options.get("context_tokens")
        budget = None
        self.check_budget(history_tokens)
        if whole is not None:
            budget = ContextBudget(whole, options.get("reserved_tokens", 0))
            self.check_budget(budget.of_messages(self.wished_tokens(recall, most))[0])
        switches = TurnSwitches(
            recall=recall,
            max_tokens=most,
            k=options.get("k"),
            history_tokens=history_tokens,
            budget=budget,
        )
        memory = cast("ConversationMemory", self)
        profile = resolved(options.get("profile") or "strict")
        return MemoryThread(memory, ThreadKey(user_id, thread_id), switches, profile)


def _profile_of(model: Any) -> Profile | None:
    """Return whose rules a model's messages keep; None for one that reads text."""
    if not isinstance(model, Runnable):
        return None
    return chain_shape(model, {}, None).profile
