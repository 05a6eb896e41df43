"""Trying again doubles nothing: same ids, retries inside and outside, other models, caches."""

from __future__ import annotations

import pytest
from langchain.agents.middleware import (
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    wrap_model_call,
)
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted_agents import RUNS, agent_with, calls, says, shape, spoken, view
from scripted_chat import ProviderError, ScriptedChatModel, at

INNER_AND_OUTER = pytest.mark.parametrize("place", ["before", "after"])
"""Other middleware before ours in the list wraps it; behind it, it is wrapped."""


# -- middleware that calls the model again --------------------------------------------------------


@INNER_AND_OUTER
@pytest.mark.parametrize("way", RUNS)
def test_a_model_that_is_called_again_after_an_error_answers_once(memory, way, place):
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    model = ScriptedChatModel(replies=[ProviderError(), ProviderError(), calls("yard"), "Here."])
    agent = agent_with(memory, model, **{place: [retry]})
    RUNS[way](agent, says("Where?"), at())
    expected = ["human: Where?", "ai -> c0", "tool c0: yard: a bicycle", "ai: Here."]
    assert spoken(memory) == expected
    assert shape(model.seen[0]) == shape(model.seen[2]) == ["human: Where?"]


@INNER_AND_OUTER
@pytest.mark.parametrize("way", RUNS)
def test_the_reply_of_the_model_that_stands_in_is_stored(memory, way, place):
    spare = ScriptedChatModel(replies=["From the spare."])
    model = ScriptedChatModel(replies=[ProviderError()])
    agent = agent_with(memory, model, **{place: [ModelFallbackMiddleware(spare)]})
    RUNS[way](agent, says("Where?"), at())
    assert spoken(memory) == ["human: Where?", "ai: From the spare."]
    assert shape(spare.seen[0]) == ["human: Where?"]


class ChatBedrockConverse(ScriptedChatModel):
    __module__ = "langchain_aws"


class ChatOpenAI(ScriptedChatModel):
    __module__ = "langchain_openai"


def test_each_model_gets_what_its_own_provider_takes(memory):
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    audio = {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"}
    said = HumanMessage([{"type": "text", "text": "See and hear."}, picture, audio])
    memory.add_messages([said, AIMessage("I do.")], user_id="ana", thread_id="t")
    spare = ChatOpenAI(replies=["Yes."])
    model = ChatBedrockConverse(replies=[ProviderError()])
    agent_with(memory, model, before=[ModelFallbackMiddleware(spare)]).invoke(says("Well?"), at())
    kinds = [[block["type"] for block in one.seen[0][0].content] for one in (model, spare)]
    assert "audio" in kinds[1]
    assert "audio" not in kinds[0]


@INNER_AND_OUTER
def test_a_reply_that_middleware_refuses_is_not_taken_for_said(memory, place):
    @wrap_model_call
    def choosy(request, handler):
        first = handler(request)
        return first if "good" in first.result[0].text else handler(request)

    model = ScriptedChatModel(replies=["A bad one.", "A good one."])
    agent_with(memory, model, **{place: [choosy]}).invoke(says("Well?"), at())
    assert view(memory) == ["human: Well?", "ai: A good one."]


# -- cached replies -----------------------------------------------------------------------------


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["without", "with"])
def test_a_cached_reply_does_not_take_the_place_of_an_earlier_one(memory, checkpointer):
    model = ScriptedChatModel(replies=[AIMessage("Yes.", id="same")])
    agent = agent_with(memory, model, checkpointer=checkpointer)
    for text in ("First?", "Second?"):
        agent.invoke(says(text), at())
    assert view(memory) == ["human: First?", "ai: Yes.", "human: Second?", "ai: Yes."]
