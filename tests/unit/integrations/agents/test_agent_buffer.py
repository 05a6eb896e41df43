"""With a relevance buffer, an agent reads it as a wrapped chain does."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from scripted_agents import RUNS, agent_with, says
from scripted_chat import ScriptedChatModel, at
from topics import BOAT, DOG, memory_of_topics, memory_with_a_buffer

from langchain_convmem.integrations import create_search_tool


@pytest.fixture
def memory():
    with memory_with_a_buffer() as opened:
        yield opened


def shown_to(model):
    """Return what stands before the user's own words in the last call."""
    content = model.seen[-1][-1].content
    return content[0]["text"] if isinstance(content, list) else ""


def test_what_was_found_stays_in_sight_of_later_turns_latest_first(memory):
    model = ScriptedChatModel(replies=["Red.", "Rex.", "Bye."])
    agent = agent_with(memory, model, options={"recall": True})
    agent.invoke(says("What colour is my boat?"), at())
    agent.invoke(says("How is my dog called?"), at())
    agent.invoke(says("Thanks!"), at())
    recalled = shown_to(model)
    assert 0 < recalled.index(DOG) < recalled.index(BOAT)
    [newest, oldest] = memory.recall("Thanks!", user_id="ana", thread_id="t").buffer
    assert (newest.lines[0].text, oldest.lines[0].text) == (DOG, BOAT)


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


@pytest.mark.parametrize("run", RUNS)
def test_a_follow_up_recalls_what_its_topic_recalls(run):
    with memory_of_topics() as memory:
        model = ScriptedChatModel(replies=["Red.", "In May."])
        agent = agent_with(memory, model, options={"recall": True})
        RUNS[run](agent, says("What colour is my boat?"), at())
        RUNS[run](agent, says("and since when?"), at())
        assert BOAT in shown_to(model)
