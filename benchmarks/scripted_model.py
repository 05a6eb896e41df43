"""Chat models that play a script, and answer at once."""
# ruff: noqa: ARG002 - LangChain names what its models are called with

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field


class InstantModel(BaseChatModel):
    """Answers at once. Tools can be bound and change nothing."""

    @abstractmethod
    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Return the next reply."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])


class AnsweringModel(InstantModel):
    """Answers by a function, and keeps what it was called with last."""

    reply: Callable[[Sequence[BaseMessage]], AIMessage]
    seen: list[BaseMessage] = Field(default_factory=list)

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        self.seen = list(messages)
        return self.reply(messages)
