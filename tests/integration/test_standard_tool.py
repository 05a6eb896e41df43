"""LangChain's own tests on `search_dialog`, over both logs."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations import create_search_tool


class _SearchDialog:
    file_name: str | None = None
    memory: ConversationMemory

    @pytest.fixture(autouse=True)
    def _filled(self, tmp_path):
        place = ":memory:" if self.file_name is None else tmp_path / self.file_name
        with ConversationMemory.open(place) as self.memory:
            said = [HumanMessage("I parked on floor three."), AIMessage("Noted.")]
            self.memory.add_messages(said, user_id="ana", thread_id="t")
            yield

    @property
    def tool_constructor(self):
        return create_search_tool(self.memory, user_id="ana")

    @property
    def tool_invoke_params_example(self):
        return {"query": "Where did I park?"}


class TestTheToolItself(_SearchDialog, ToolsUnitTests):
    pass


class TestOverAnInMemoryLog(_SearchDialog, ToolsIntegrationTests):
    pass


class TestOverASQLiteLog(_SearchDialog, ToolsIntegrationTests):
    file_name = "memory.db"
