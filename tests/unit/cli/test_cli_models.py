import pytest

from langchain_convmem.cli.models import choose_embeddings, choose_model
from langchain_convmem.errors import ConfigError


def test_without_a_name_the_offline_model_is_taken_and_has_no_address():
    assert type(choose_model(None)).__name__ == "OfflineChatModel"
    with pytest.raises(ConfigError, match="--model"):
        choose_model(None, base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize("name", ["nosuchprovider:x", "gibberish", "openai:test-model"])
def test_a_model_that_cannot_be_made_is_a_configuration_error(name, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=name):
        choose_model(name)


def test_an_embedder_that_cannot_be_made_is_named():
    assert choose_embeddings(None) is None
    with pytest.raises(ConfigError, match="nobody:model"):
        choose_embeddings("nobody:model")
