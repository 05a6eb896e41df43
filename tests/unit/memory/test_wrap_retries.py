"""Trying a turn again doubles nothing; saying a thing twice is two turns."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from scripted_chat import ProviderError, ScriptedChatModel, at

CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


def _view(memory, thread_id="t"):
    return [str(message.text) for message in memory.history(thread_id, user_id="ana").messages]


def _entries(memory, thread_id="t"):
    return memory.history(thread_id, user_id="ana").entries


# -- the same message id ------------------------------------------------------------------------


def test_a_whole_tool_loop_is_replaced_when_its_turn_is_tried_again(memory):
    def loop(given):
        return [
            AIMessage("", tool_calls=[CALL]),
            ToolMessage("found", tool_call_id="c1"),
            AIMessage("It is here."),
        ]

    chain = memory.wrap(RunnableLambda(loop), recall=False)
    for _ in range(2):
        chain.invoke(HumanMessage("Look.", id="q1"), at())
    history = memory.history("t", user_id="ana")
    assert _view(memory) == ["Look.", "", "found", "It is here."]
    assert history.context().repairs == ()


def test_a_reply_whose_id_is_the_same_in_both_tries_is_there_once(memory):
    chain = memory.wrap(ScriptedChatModel(replies=[AIMessage("Here.", id="m1")]), recall=False)
    for _ in range(2):
        chain.invoke(HumanMessage("Look.", id="q1"), at())
    assert _view(memory) == ["Look.", "Here."]


# -- the same parent run ------------------------------------------------------------------------


def test_a_retry_within_the_memory_stores_one_turn_as_well(memory):
    model = ScriptedChatModel(replies=[ProviderError(), "Level three."])
    retrying = model.with_retry(wait_exponential_jitter=False)
    memory.wrap(retrying, recall=False).invoke("Where?", at())
    assert [entry.contents for entry in _entries(memory)] == [("Where?",), ("Level three.",)]


def test_a_fallback_replaces_what_a_broken_stream_had_brought(memory):
    broken = ScriptedChatModel(replies=["One two three"], breaks_after=2)
    other = memory.wrap(ScriptedChatModel(replies=["One to three"]), recall=False)

    def either(text, config):
        try:
            return "".join(chunk.text for chunk in memory.wrap(broken).stream(text, config))
        except ProviderError:
            return other.invoke(text, config).text

    RunnableLambda(either).invoke("Count.", at(recall=False))
    assert _view(memory) == ["Count.", "One to three"]
    assert [entry.role for entry in _entries(memory)] == [
        "user",
        "assistant",
        "control",
        "assistant",
    ]


# -- not a retry --------------------------------------------------------------------------------


def test_a_step_that_says_a_thing_twice_makes_two_turns(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["First.", "Second."]), recall=False)

    def twice(_, config):
        return [chain.invoke("Go on.", config).text for _ in range(2)]

    assert RunnableLambda(twice).invoke("", at()) == ["First.", "Second."]
    assert _view(memory) == ["Go on.", "First.", "Go on.", "Second."]


def test_another_text_under_the_same_run_is_another_turn(memory):
    model = ScriptedChatModel(replies=[ProviderError(), "B.", ProviderError(), "A again."])
    chain = memory.wrap(model, recall=False)

    def several(_, config):
        for text in ("a", "b"):
            try:
                chain.invoke(text, config)
            except ProviderError:
                continue
        with pytest.raises(ProviderError):
            chain.invoke("a", config)
        return chain.invoke("a", config).text

    assert RunnableLambda(several).invoke("", at()) == "A again."
    said = [entry.contents for entry in _entries(memory) if entry.role == "user"]
    assert said == [("a",), ("b",)]


def test_equal_texts_of_one_batch_are_turns_of_their_own(memory):
    model = ScriptedChatModel(replies=[lambda _: "Yes."])
    memory.wrap(model, recall=False).batch(["And?"] * 3, at())
    assert _view(memory) == ["And?", "Yes."] * 3
