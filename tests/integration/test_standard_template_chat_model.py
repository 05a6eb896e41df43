"""LangChain's standard tests for chat models, on a completion model with a chat template."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from text_models import OfflineLLM

from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.template_chat_model import TemplateChatModel

PARAMS = {"llm": OfflineLLM(), "template": ChatTemplate.from_builtin("qwen")}


class TestTemplateChatModelUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return TemplateChatModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return PARAMS


class TestTemplateChatModelIntegration(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return TemplateChatModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return PARAMS
