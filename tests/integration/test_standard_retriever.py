"""LangChain's own tests on the retriever, over both logs."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_convmem import DialogLineRetriever, InMemoryLog, SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

LINES = ["Good morning", "I parked on floor three", "The dog is at the vet", "See you in May"]


def fill(log):
    log.append(ThreadKey("ana", "t"), [make_draft(HumanMessage(text)) for text in LINES])
    return LineRecall(log)


class _Suite(RetrieversIntegrationTests):
    recall: LineRecall

    @property
    def retriever_constructor(self):
        return DialogLineRetriever

    @property
    def retriever_constructor_params(self):
        return {"recall": self.recall, "user_id": "ana"}

    @property
    def retriever_query_example(self):
        return "Where did I park?"


class TestOverAnInMemoryLog(_Suite):
    @pytest.fixture(autouse=True)
    def _filled(self):
        self.recall = fill(InMemoryLog())


class TestOverASQLiteLog(_Suite):
    @pytest.fixture(autouse=True)
    def _filled(self, tmp_path):
        with SQLiteLog(tmp_path / "memory.db") as log:
            self.recall = fill(log)
            yield
