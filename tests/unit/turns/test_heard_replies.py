"""Which replies are heard of the models that run in one turn."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from scripted_chat import ProviderError, ScriptedChatModel

from langchain_convmem.runnables import INTERNAL_TAGS
from langchain_convmem.turns.replies import PartialReplyHandler


def _begin(heard: PartialReplyHandler, **options: object) -> UUID:
    run_id = uuid4()
    heard.on_chat_model_start({}, [], run_id=run_id, **options)
    return run_id


def _say(heard: PartialReplyHandler, run_id: UUID, text: str) -> None:
    chunk = ChatGenerationChunk(message=AIMessageChunk(text, id=str(run_id)))
    heard.on_llm_new_token(text, run_id=run_id, chunk=chunk)


def _end(heard: PartialReplyHandler, run_id: UUID, text: str) -> None:
    said = ChatGeneration(message=AIMessage(text))
    heard.on_llm_end(LLMResult(generations=[[said]]), run_id=run_id)


def _texts(heard: PartialReplyHandler) -> list[str]:
    return [str(message.text) for message in heard.collect_broken()]


@pytest.mark.parametrize("tag", INTERNAL_TAGS)
def test_what_the_memory_asks_and_nobody_is_shown_is_not_heard(tag):
    heard = PartialReplyHandler()
    run_id = _begin(heard, tags=[tag])
    _say(heard, run_id, "Half")
    assert heard.collect_broken() == []
    _end(heard, run_id, "Whole.")
    assert heard.message is None


def test_a_model_that_makes_the_reply_of_another_is_not_heard():
    heard = PartialReplyHandler()
    outer = _begin(heard)
    inner = _begin(heard, parent_run_id=outer)
    _end(heard, inner, "Inner.")
    assert heard.message is None
    _end(heard, outer, "Outer.")
    assert heard.message.text == "Outer."


def test_what_broke_is_forgotten_when_it_was_tried_again():
    heard = PartialReplyHandler()
    first = _begin(heard)
    _say(heard, first, "Half")
    assert _texts(heard) == ["Half"]
    second = _begin(heard)
    _end(heard, second, "Whole.")
    assert heard.collect_broken() == []


def test_models_at_the_same_time_are_heard_each():
    heard = PartialReplyHandler()
    first, second = _begin(heard), _begin(heard)
    _say(heard, second, "Half")
    _end(heard, first, "First.")
    assert _texts(heard) == ["Half"], "the other one goes on"
    _end(heard, second, "Half and half.")
    assert heard.message.text == "Half and half."
    assert heard.collect_broken() == []


def test_the_words_of_a_stream_that_breaks_are_heard():
    heard = PartialReplyHandler()
    model = ScriptedChatModel(replies=["One two three"], breaks_after=2)
    with pytest.raises(ProviderError):
        list(model.stream("Count.", heard.listen(None)))
    assert _texts(heard) == ["One two "]
    assert heard.first_token_ms is not None
    assert heard.message is None
