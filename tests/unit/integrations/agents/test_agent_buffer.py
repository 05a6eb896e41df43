"""With a relevance buffer, an agent reads it as a wrapped chain does."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from scripted_agents import agent_with, says
from scripted_chat import ScriptedChatModel, at
from topics import BOAT, DOG, memory_with_a_buffer

from langchain_convmem.integrations import create_search_tool


@pytest.fixture
def memory():
    with memory_with_a_buffer() as opened:
        yield opened


def shown_to(model):
    """Return what stands before the user's own words in the last call."""
    content = model.seen[-1][-1].content
    return content[0]["text"] if isinstance(content, list) else ""


def test_what_a_model_looks_up_stays_in_sight_too(memory):
    tool = create_search_tool(memory, k=1)
    looked_up = tool.invoke({"query": "the boat"}, at())
    assert BOAT in looked_up
    again = tool.invoke({"query": "the dog"}, at())
    assert 0 < again.index(DOG) < again.index(BOAT)
    model = ScriptedChatModel(replies=["Red."])
    agent_with(memory, model, options={"recall": True}).invoke(says("Well then."), at())
    assert BOAT in shown_to(model)


def test_a_search_without_a_thread_has_no_buffer_and_shows_what_it_finds(memory):
    config = {"configurable": {"user_id": "ana"}}
    call = {"name": "search_dialog", "args": {"query": "boat"}, "id": "c", "type": "tool_call"}
    answer = create_search_tool(memory).invoke(call, config)
    assert BOAT in answer.content
    assert [block["text"].rpartition(": ")[2] for block in answer.artifact] == [BOAT]


def test_a_loop_of_calls_reads_the_same_buffer(memory):
    call = {"name": "look", "args": {"place": "harbour"}, "id": "c0", "type": "tool_call"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), "Red."])
    agent = agent_with(memory, model, options={"recall": True})
    agent.invoke(says("What colour is my boat?"), at())
    first, second = model.seen
    assert first[-1] == second[-3]
    assert BOAT in first[-1].content[0]["text"]
