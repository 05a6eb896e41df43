"""A chat model that plays a script, and answers at once."""
# ruff: noqa: ARG002 - LangChain names what its models are called with

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from benchmarks.synthetic_dialogue import answer

__all__ = ["InstantModel", "TurnModel"]


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


class TurnModel(InstantModel):
    """Answers with what is answered in its turn."""

    turn: int = 0

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        return AIMessage(answer(self.turn))
