from __future__ import annotations

import sys

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate

from langchain_convmem.cli.models import (
    ModelCallError,
    choose_embeddings,
    choose_model,
    translate_errors,
)
from langchain_convmem.errors import ConfigError, MissingExtraError

PROMPT = ChatPromptTemplate([("human", "{text}")])


class ScriptedModel(BaseChatModel):
    """Streams pieces; a piece that is an exception is raised in its turn."""

    pieces: list

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        text = "".join(self.pieces)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for piece in self.pieces:
            if isinstance(piece, BaseException):
                raise piece
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


def streamed(*pieces):
    for chunk in (PROMPT | translate_errors(ScriptedModel(pieces=list(pieces)))).stream(
        {"text": "hi"}
    ):
        yield chunk.text


def test_whatever_a_provider_raises_becomes_one_error_behind_what_was_streamed():
    seen = []
    with pytest.raises(ModelCallError, match="OSError: no route to host") as caught:
        seen.extend(streamed("a", OSError("no route\n  to host")))
    assert "a" in seen
    assert isinstance(caught.value.__cause__, OSError)


def test_ctrl_c_is_no_failure_of_the_model():
    with pytest.raises(KeyboardInterrupt):
        list(streamed("a", KeyboardInterrupt()))


def test_without_a_name_the_offline_model_is_taken_and_has_no_address():
    assert type(choose_model(None)).__name__ == "OfflineChatModel"
    with pytest.raises(ConfigError, match="--model"):
        choose_model(None, base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize("name", ["nosuchprovider:x", "gibberish", "openai:test-model"])
def test_a_model_that_cannot_be_made_is_a_configuration_error(name, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=name):
        choose_model(name)


def test_a_missing_langchain_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'langchain-convmem\[cli\]'"):
        choose_model("openai:test-model")


def test_an_embedder_that_cannot_be_made_is_named():
    assert choose_embeddings(None) is None
    with pytest.raises(ConfigError, match="nobody:model"):
        choose_embeddings("nobody:model")
