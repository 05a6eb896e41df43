"""Graphs and agents without a checkpointer, whose callers send the whole chat with every run."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState
from pydantic import BaseModel
from scripted_agents import agent_with
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.integrations.langgraph import memory_graph

HOSTS = {
    "agent": lambda memory, model: agent_with(memory, model, tools=()),
    "graph": lambda memory, model: memory_graph(
        memory, model, state_schema=MessagesState, recall=False
    ),
}


def _say(app, shown, text):
    shown.append({"role": "user", "content": text})
    found = app.invoke({"messages": shown}, at())
    shown.append({"role": "assistant", "content": found["messages"][-1].text})


def _view(memory):
    return [str(one.text) for one in memory.history("t", user_id="ana").messages]


@pytest.fixture
def quick():
    return ConversationMemory(InMemoryLog())


@pytest.fixture
def model():
    return ScriptedChatModel(replies=[f"Reply {n}." for n in range(1, 7)])


@pytest.fixture(params=HOSTS)
def app(request, quick, model):
    return HOSTS[request.param](quick, model)


def test_each_said_thing_is_stored_and_seen_once(quick, model, app):
    shown = []
    for text in ("Where is the bike?", "yes", "yes"):
        _say(app, shown, text)
    assert _view(quick) == [one["content"] for one in shown]
    assert len(quick.history("t", user_id="ana").entries) == 6
    assert [one.text for one in model.seen[2]] == [one["content"] for one in shown[:-1]]


def test_the_last_messages_are_enough(quick, model, app):
    shown = []
    for text in ("Where is the bike?", "In which town?", "When?"):
        _say(app, shown, text)
        shown = shown[-2:]
    assert len(quick.history("t", user_id="ana").entries) == 6
    assert len(model.seen[2]) == 5


def test_another_answer_takes_the_place_of_the_first(quick, model, app):
    shown = []
    for text in ("Where is the bike?", "In which town?"):
        _say(app, shown, text)
    app.invoke({"messages": shown[:-1]}, at())
    assert _view(quick) == ["Where is the bike?", "Reply 1.", "In which town?", "Reply 3."]
    assert [one.text for one in model.seen[2]] == [
        "Where is the bike?",
        "Reply 1.",
        "In which town?",
    ]


def test_an_edit_takes_back_what_followed(quick, model, app):
    shown = []
    for text in ("Where is the bike?", "In which town?", "When?"):
        _say(app, shown, text)
    app.invoke({"messages": [*shown[:2], {"role": "user", "content": "In which city?"}]}, at())
    assert _view(quick) == ["Where is the bike?", "Reply 1.", "In which city?", "Reply 4."]
    assert len(model.seen[3]) == 3


def test_a_second_page_takes_nothing_back(quick, app):
    shown = []
    for text in ("Where is the bike?", "In which town?"):
        _say(app, shown, text)
    app.invoke({"messages": [*shown[:2], {"role": "user", "content": "Play some jazz"}]}, at())
    assert _view(quick)[2:] == ["In which town?", "Reply 2.", "Play some jazz", "Reply 3."]


class Place(BaseModel):
    """Where something is."""

    level: int


@pytest.mark.parametrize("include_raw", [False, True])
def test_structured_output_is_the_reply_of_a_graph(quick, include_raw):
    call = {"name": "Place", "args": {"level": 3}, "id": "c1", "type": "tool_call"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call])])
    inner = model.with_structured_output(Place, include_raw=include_raw)
    memory_graph(quick, inner, recall=False).invoke({"input": "Where?"}, at())
    assert _view(quick) == ["Where?", '{"level": 3}']
    assert quick.history("t", user_id="ana").context().repairs == ()
