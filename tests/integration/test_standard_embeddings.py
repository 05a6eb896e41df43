"""LangChain's own tests on the embedded embedders."""

from __future__ import annotations

from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_convmem import MiniLMEmbeddings
from langchain_convmem.testing import HashEmbeddings


class TestEmbeddedUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self):
        return HashEmbeddings


class TestEmbeddedIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self):
        return HashEmbeddings


class TestMiniLMUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self):
        return MiniLMEmbeddings


class TestMiniLMIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self):
        return MiniLMEmbeddings
