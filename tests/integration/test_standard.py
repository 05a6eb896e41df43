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


class _Offline:
    chat_model_class = OfflineChatModel
    chat_model_params = {}  # noqa: RUF012 - a property of the suite


class TestOfflineChatModelUnit(_Offline, ChatModelUnitTests):
    pass


class TestOfflineChatModelIntegration(_Offline, ChatModelIntegrationTests):
    pass


class _Template:
    chat_model_class = TemplateChatModel
    chat_model_params = {  # noqa: RUF012 - a property of the suite
        "llm": OfflineLLM(),
        "template": ChatTemplate.from_builtin("qwen"),
    }


class TestTemplateChatModelUnit(_Template, ChatModelUnitTests):
    pass


class TestTemplateChatModelIntegration(_Template, ChatModelIntegrationTests):
    pass


class TestEmbeddedUnit(EmbeddingsUnitTests):
    embeddings_class = HashEmbeddings


class TestEmbeddedIntegration(EmbeddingsIntegrationTests):
    embeddings_class = HashEmbeddings


class TestMiniLMUnit(EmbeddingsUnitTests):
    embeddings_class = MiniLMEmbeddings


class TestMiniLMIntegration(EmbeddingsIntegrationTests):
    embeddings_class = MiniLMEmbeddings


class _InMemory:
    """A memory in which something was said."""

    file_name: str | None = None
    memory: ConversationMemory

    @pytest.fixture(autouse=True)
    def _filled(self, tmp_path):
        place = ":memory:" if self.file_name is None else tmp_path / self.file_name
        texts = ("Good morning", "I parked on floor three.", "The dog is at the vet", "See you")
        said = [(HumanMessage, AIMessage)[n % 2](text) for n, text in enumerate(texts)]
        with ConversationMemory.open(place) as self.memory:
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


class TestTheToolItself(_InMemory, ToolsUnitTests):
    pass


class TestTheTool(_InMemory, ToolsIntegrationTests):
    file_name = "memory.db"


class TestTheRetriever(_InMemory, RetrieversIntegrationTests):
    pass


class TestTheRetrieverOverAFile(_InMemory, RetrieversIntegrationTests):
    file_name = "memory.db"
