"""The part of a memory that holds conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from langchain_core.runnables import Runnable

from langchain_convmem.memory.summarizing import SummarizingPart
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.chain_shape import chain_shape
from langchain_convmem.turns.options import TurnOptions, TurnSettings
from langchain_convmem.views.profiles import Profile, resolved

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from langchain_convmem.conversation import Conversation, Engine
    from langchain_convmem.protocols import TextEngine, ThreadMemory

__all__ = ["ConversingMemory", "ThreadOptions"]


class ThreadOptions(TurnSettings, total=False):
    """What a conversation sees of its thread and of others: `TurnOptions`, and a profile.

    Attributes:
        profile: Whose rules the messages keep. None goes by the chat model, and keeps those of all
            (`"strict"`) for text engines.
    """

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
        user's words; the log keeps these alone. A send may set options for itself:
        `config={"configurable": {"memory": {"recall": False}}}`.

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

        settings: dict[str, Any] = {**options}
        profile = resolved(settings.pop("profile", None) or "strict")
        turn_options = TurnOptions.of(settings, where="a conversation")
        self.check_options(turn_options)
        return MemoryThread(self, ThreadKey(user_id, thread_id), turn_options, profile)


def _profile_of(model: Any) -> Profile | None:
    """Return whose rules a model's messages keep; None for one that reads text."""
    if not isinstance(model, Runnable):
        return None
    return chain_shape(model, {}, None).profile
