"""A model, shared by any number of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from langchain_convmem.conversation.chat_backend import Backend, ChatModelBackend
from langchain_convmem.conversation.config import ConversationConfig
from langchain_convmem.conversation.conversation import Activity, Conversation, Parts
from langchain_convmem.conversation.inputs import prepared_steps
from langchain_convmem.conversation.text_backend import SessionPool, TextBackend
from langchain_convmem.conversation.threads import ListThread, MessageStore
from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.effects import Steps, arun
from langchain_convmem.errors import ConfigError
from langchain_convmem.protocols import TextEngine, ThreadMemory
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.reply_formats import format_of, reply_format

__all__ = ["Engine"]


class Engine:
    """One model, and the conversations with it.

    Thread-safe. Closing it cancels the turns of all its conversations.
    """

    def __init__(
        self,
        model: BaseChatModel | Runnable[Any, Any] | TextEngine,
        *,
        defaults: ConversationConfig | None = None,
        max_live_sessions: int | None = None,
    ) -> None:
        """Take a model; it stays the caller's, but for text engines, which are closed with this.

        Args:
            model: A chat model, or one with bound arguments; or a text engine.
            defaults: Settings of conversations that are created without.
            max_live_sessions: How many sessions of a text engine may live at once; those that
                were idle longest make room, and read their conversation again when it goes on.
                None is any number.

        Raises:
            ConfigError: If it is not a model, or the limit is not positive.
        """
        if max_live_sessions is not None and max_live_sessions < 1:
            raise ConfigError(f"max_live_sessions must be at least 1, got {max_live_sessions!r}")
        self.model = model
        self.defaults = defaults or ConversationConfig()
        self.activity = Activity("the engine")
        self._pool: SessionPool | None = None
        if isinstance(model, TextEngine):
            self._pool = SessionPool(model, max_live_sessions)
        elif not isinstance(model, Runnable):
            raise ConfigError(
                f"{model!r:.80} is not a model; expected a LangChain chat model or a text engine"
            )

    def __repr__(self) -> str:
        return f"Engine({type(self.model).__name__})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_conversation(
        self,
        config: ConversationConfig | None = None,
        *,
        history: MessageStore | Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> Conversation:
        """Begin a conversation.

        Args:
            config: Its settings; None takes the engine's defaults.
            history: What was said before: messages; or where the history is kept: any chat
                history of LangChain, or a thread of a memory.
            **settings: Single settings, which go before `config`; see `ConversationConfig`.

        Raises:
            ConfigError: If a setting is unknown, or does not fit the model.
            ConversationClosedError: If the engine is closed.
            ChatTemplateError: If the template is not valid.
        """
        return Conversation(self, config, history=history, **settings)

    async def acreate_conversation(
        self,
        config: ConversationConfig | None = None,
        *,
        history: MessageStore | Sequence[Any] | ThreadMemory | None = None,
        **settings: Any,
    ) -> Conversation:
        """Begin a conversation; see `create_conversation`."""
        conversation = Conversation(await arun(self.parts_steps(config, history, settings)))
        if conversation.config.prefill_preface:
            await arun(conversation.prefill_steps())
        return conversation

    def parts_steps(
        self,
        config: ConversationConfig | None,
        history: MessageStore | Sequence[Any] | ThreadMemory | None,
        settings: dict[str, Any],
    ) -> Steps[Parts]:
        """Return what a conversation is made of; see `create_conversation`."""
        self.activity.check_open()
        chosen = _configured(config or self.defaults, settings)
        tools = ToolSet.of(chosen.preface.tools)
        backend = self._backend(chosen, tools)
        thread = yield from _thread_steps(history)
        return Parts(thread, backend, chosen, tools, Activity("the conversation", self.activity))

    def _backend(self, config: ConversationConfig, tools: ToolSet) -> Backend:
        if self._pool is None:
            _refuse_text_settings(config)
            return ChatModelBackend(self.model)  # type: ignore[arg-type]  # checked at creation
        engine = self._pool.engine
        template = _template_of(config, engine)
        wanted = config.reply_format or engine.reply_format
        told = format_of(template)
        found = told if wanted is None else reply_format(wanted)
        stop = tuple(dict.fromkeys((*engine.stop, *told.stop, *found.stop)))
        state = template.start(tools=tools.schemas or None)
        return TextBackend(self._pool, template, reply_format=found, stop=stop, state=state)

    def cancel_group(self, group: str) -> int:
        """Cancel all turns that were sent with `group`; return how many could be cancelled."""
        return self.activity.cancel(group)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no turn runs; return whether that came about within so many seconds."""
        return self.activity.wait(timeout_s)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Cancel all turns, wait for them, and close a text engine. Idempotent.

        An engine that a turn still uses is closed when that ends.

        Args:
            timeout_s: Seconds to wait at most: a model or tool that does not come back is left.
        """
        if self.activity.close():
            self.activity.wait(timeout_s)
            if self._pool is not None:
                self._pool.close()


def _configured(config: ConversationConfig, settings: dict[str, Any]) -> ConversationConfig:
    unknown = sorted(set(settings) - set(ConversationConfig.model_fields))
    if unknown:
        known = sorted(ConversationConfig.model_fields)
        raise ConfigError(f"there is no setting {unknown[0]!r}; there are {', '.join(known)}")
    if not settings:
        return config
    given = {name: getattr(config, name) for name in config.model_fields_set}
    return ConversationConfig(**{**given, **settings})


def _thread_steps(
    history: MessageStore | Sequence[Any] | ThreadMemory | None,
) -> Steps[ThreadMemory]:
    if isinstance(history, ThreadMemory):
        return history
    if isinstance(history, MessageStore):
        return (yield from ListThread.of_store_steps(history))
    return ListThread((yield from prepared_steps(list(history or ()))))


def _template_of(config: ConversationConfig, engine: TextEngine) -> ChatTemplate:
    template = config.template or engine.template
    if template is None:
        raise ConfigError(
            f"{type(engine).__name__} knows no chat template; pass template=, a ChatTemplate or "
            "the name of a built-in one"
        )
    return ChatTemplate.builtin(template) if isinstance(template, str) else template


def _refuse_text_settings(config: ConversationConfig) -> None:
    for name in ("template", "reply_format", "channels", "stop"):
        if getattr(config, name):
            raise ConfigError(
                f"{name} is for text engines; a chat model writes its prompts and reads its "
                "replies itself. TemplateChatModel makes a chat model of a text model"
            )
