"""LangChain's own tests on what we hand out: models, embedders, the retriever and the tool."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_tests.integration_tests import (
    ChatModelIntegrationTests,
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
)
from langchain_tests.unit_tests import ChatModelUnitTests, EmbeddingsUnitTests, ToolsUnitTests
from text_models import OfflineLLM

from langchain_convmem import ConversationMemory, DialogLineRetriever, MiniLMEmbeddings
from langchain_convmem.integrations import create_search_tool
from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.testing import HashEmbeddings
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.template_chat_model import TemplateChatModel
from langchain_convmem.turns.memory import get_turn_memory


class _InMemory:
    """A memory in which something was said."""

    memory: ConversationMemory

    @pytest.fixture(autouse=True)
    def _filled(self):
        texts = ("Good morning", "I parked on floor three.", "The dog is at the vet", "See you")
        said = [(HumanMessage, AIMessage)[n % 2](text) for n, text in enumerate(texts)]
        with ConversationMemory.open(":memory:") as self.memory:
            self.memory.add_messages(said, user_id="ana", thread_id="t")
            yield

    @property
    def tool_constructor(self):
        return create_search_tool(self.memory, user_id="ana")

    tool_invoke_params_example = {"query": "Where did I park?"}  # noqa: RUF012
    retriever_constructor = DialogLineRetriever

    @property
    def retriever_constructor_params(self):
        return {"recall": get_turn_memory(self.memory).line_recall, "user_id": "ana"}

    retriever_query_example = "Where did I park?"


OFFLINE = {"chat_model_class": OfflineChatModel, "chat_model_params": {}}
TEMPLATE = {
    "chat_model_class": TemplateChatModel,
    "chat_model_params": {"llm": OfflineLLM(), "template": ChatTemplate.from_builtin("qwen")},
}
CHAT_MODELS = (ChatModelUnitTests, ChatModelIntegrationTests)
EMBEDDINGS = (EmbeddingsUnitTests, EmbeddingsIntegrationTests)

for what, own, fields, suites in (
    ("Offline", object, OFFLINE, CHAT_MODELS),
    ("Template", object, TEMPLATE, CHAT_MODELS),
    ("Hash", object, {"embeddings_class": HashEmbeddings}, EMBEDDINGS),
    ("MiniLM", object, {"embeddings_class": MiniLMEmbeddings}, EMBEDDINGS),
    (
        "InMemory",
        _InMemory,
        {},
        (ToolsUnitTests, ToolsIntegrationTests, RetrieversIntegrationTests),
    ),
):
    for suite in suites:
        name = f"Test{what}{suite.__name__}"
        globals()[name] = type(name, (own, suite) if own is not object else (suite,), fields)
