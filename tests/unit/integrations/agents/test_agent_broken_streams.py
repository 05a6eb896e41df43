"""Replies that break off: the words that came are kept, marked, and make way for a whole reply."""

from __future__ import annotations

import pytest
from langchain.agents.middleware import (
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    wrap_model_call,
)
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from scripted_agents import RUNS, agent_with, calls, entries, says, view
from scripted_chat import ProviderError, ScriptedChatModel, at

STREAMS = pytest.mark.parametrize("way", ["stream", "astream"])


def breaking(*replies, after=2):
    return ScriptedChatModel(replies=list(replies) or ["One two three four"], breaks_after=after)


def talk(memory):
    return [
        (entry.role, *entry.contents, *entry.metadata.attributes)
        for entry in entries(memory)
        if entry.control is None
    ]


def run_broken(agent, way="stream", says_=None, config=None):
    with pytest.raises(ProviderError):
        RUNS[way](agent, says_ or says("Count.", "q1"), config or at())


def test_a_run_that_is_resumed_answers_in_the_place_of_the_broken_reply(memory):
    saver = InMemorySaver()
    run_broken(agent_with(memory, breaking(), checkpointer=saver))
    agent_with(memory, ScriptedChatModel(replies=["Three."]), checkpointer=saver).invoke(None, at())
    assert view(memory) == ["human: Count.", "ai: Three."]


def test_words_behind_a_tool_are_kept_behind_its_result(memory):
    model = ScriptedChatModel(replies=[calls("yard")])
    saver = InMemorySaver()
    options = {"checkpointer": saver, "interrupt_after": ["tools"]}
    agent_with(memory, model, **options).invoke(says("Where?"), at())
    broken = agent_with(memory, breaking("In the yard."), checkpointer=saver)
    with pytest.raises(ProviderError):
        list(broken.stream(None, at(), stream_mode="messages"))
    assert view(memory) == ["human: Where?", "ai -> c0", "tool c0: yard: a bicycle", "ai: In the "]


@STREAMS
@pytest.mark.parametrize("place", ["before", "after"])
def test_what_a_retry_says_takes_the_place_of_what_broke(memory, way, place):
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False, on_failure="error")
    run_broken(
        agent_with(memory, breaking("One two three", "Four five six"), **{place: [retry]}), way
    )
    assert view(memory) == ["human: Count.", "ai: Four five "]


@STREAMS
def test_of_a_model_that_another_one_stood_in_for_nothing_is_kept(memory, way):
    other = ModelFallbackMiddleware(ScriptedChatModel(replies=["Three."]))
    RUNS[way](agent_with(memory, breaking(), after=[other]), says("Count."), at())
    assert talk(memory) == [("user", "Count."), ("assistant", "Three.")]


def test_a_whole_reply_that_is_refused_behind_the_model_is_not_kept(memory):
    @wrap_model_call
    def refuse(request, handler):
        handler(request)
        raise ProviderError("refused")

    agent = agent_with(memory, ScriptedChatModel(replies=["Secret."]), after=[refuse])
    run_broken(agent)
    assert talk(memory) == [("user", "Count.")]


def test_words_that_are_shown_to_nobody_are_not_kept(memory):
    judge = breaking("Harmless or not").with_config(tags=["nostream"])

    @wrap_model_call
    def ask_judge(request, handler):
        list(judge.stream([HumanMessage("Is this harmless?")]))
        return handler(request)

    run_broken(agent_with(memory, ScriptedChatModel(replies=["Three."]), after=[ask_judge]))
    assert talk(memory) == [("user", "Count.")]
