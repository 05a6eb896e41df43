"""LangChain's own tests on the embedded embedder."""

from __future__ import annotations

from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_convmem import EmbeddedEmbeddings


class TestEmbeddedUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self):
        return EmbeddedEmbeddings


class TestEmbeddedIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self):
        return EmbeddedEmbeddings
