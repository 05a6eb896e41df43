"""What an agent's memory may be told, and turns of which nothing is stored."""

from __future__ import annotations

import inspect

import pytest
from langchain_core.messages import HumanMessage
from scripted_agents import agent_with, says, shape, view
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations import ConversationMemoryMiddleware
from langchain_convmem.turns.options import TurnOptions


def test_options_are_arguments_that_help_shows(memory):
    shown = inspect.signature(ConversationMemoryMiddleware).parameters
    assert {"recall_tokens", "recall_place", "history_tokens", "remember", "options"} <= set(shown)
    with pytest.raises(TypeError):
        ConversationMemoryMiddleware(memory, retrieval=True)
    with pytest.raises(ConfigError, match="options must be TurnOptions"):
        ConversationMemoryMiddleware(memory, options={"recall": False})


def test_an_argument_goes_before_the_options_as_one_value(memory):
    model = ScriptedChatModel(replies=["One.", "Two."])
    options = {"options": TurnOptions(history_tokens=0), "history_tokens": 1000}
    agent = agent_with(memory, model, options=options)
    agent.invoke(says("First."), at())
    agent.invoke(says("Second."), at())
    assert shape(model.seen[-1]) == ["human: First.", "ai: One.", "human: Second."]


@pytest.mark.parametrize("keep_state", ["all", "turn"])
@pytest.mark.parametrize("form", [lambda text: ("user", text), HumanMessage])
def test_deep_agents_store_what_is_said_in_any_form(memory, saver, form, keep_state):
    deepagents = pytest.importorskip("deepagents")
    own = ConversationMemoryMiddleware(memory, keep_state=keep_state)
    model = ScriptedChatModel(replies=["Kept.", "In the attic."])
    agent = deepagents.create_deep_agent(model=model, middleware=[own], checkpointer=saver)
    agent.invoke({"messages": [form("My skis are in the attic.")]}, at())
    agent.invoke({"messages": [form("Where are my skis?")]}, at())
    assert view(memory) == [
        "human: My skis are in the attic.",
        "ai: Kept.",
        "human: Where are my skis?",
        "ai: In the attic.",
    ]
