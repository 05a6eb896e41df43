"""Graphs and agents without a checkpointer, whose callers send the whole chat with every run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from langchain.agents.middleware import wrap_model_call
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from scripted_agents import agent_with, calls, shape
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)

HOSTS = {
    "agent": lambda memory, model: agent_with(memory, model, tools=()),
    "graph": lambda memory, model: create_memory_graph(
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


def test_a_window_of_messages_with_their_own_ids_takes_nothing_back(quick, model, app):
    shown = []
    for text in ("Where is the bike?", "In which town?", "When?", "Why?"):
        found = app.invoke({"messages": [*shown, HumanMessage(text)]}, at())
        shown = found["messages"][-2:]
    assert len(_view(quick)) == 8
    assert len(model.seen[3]) == 7
    assert not [one for one in quick.history("t", user_id="ana").entries if one.control]


def test_system_messages_steer_their_own_run_alone(quick, model, app):
    shown = []
    for day in ("Monday", "Tuesday"):
        shown.append({"role": "user", "content": f"Where, on {day}?"})
        system = {"role": "system", "content": f"Today is {day}."}
        found = app.invoke({"messages": [system, *shown]}, at())
        shown.append({"role": "assistant", "content": found["messages"][-1].text})
    assert _view(quick) == [one["content"] for one in shown]
    assert [one.text for one in model.seen[1]] == [
        "Today is Tuesday.",
        *(one["content"] for one in shown[:-1]),
    ]


def test_what_middleware_shows_stands_once_beside_what_the_caller_sent(quick, model):
    @wrap_model_call
    def instructed(request, handler):
        own = SystemMessage("Speak Latin.")
        return handler(request.override(messages=[own, *request.messages]))

    app = agent_with(quick, model, tools=(), before=[instructed])
    app.invoke({"messages": [("system", "Be brief."), ("user", "Hello")]}, at())
    texts = "\n".join(str(one.text) for one in model.seen[0])
    assert [texts.count(part) for part in ("Be brief.", "Speak Latin.", "Hello")] == [1, 1, 1]


def _unnamed(message):
    return message.model_copy(update={"id": None})


@pytest.mark.parametrize("most", [None, 4])
def test_loops_of_tools_come_with_the_chat(quick, most):
    replies = [calls("yard"), "In the yard.", calls("hall", "shed", first=1), "In both."]
    model = ScriptedChatModel(replies=[*replies, "Bye."])
    app = agent_with(quick, model)
    chat = []
    for text in ("Where is it?", "And the car?", "Thanks"):
        chat.append(HumanMessage(text))
        sent = [_unnamed(one) for one in (chat if most is None else chat[-most:])]
        chat += app.invoke({"messages": sent}, at())["messages"][len(sent) :]
    assert shape(quick.history("t", user_id="ana").messages) == shape(chat)
    assert shape(model.seen[-1]) == shape(chat[:-1])
    assert len(quick.history("t", user_id="ana").entries) == len(chat)


def test_who_runs_the_tools_of_a_graph_may_send_the_whole_chat(quick):
    replies = ["Hi.", calls("yard"), calls("hall", first=1), "In the hall.", "Bye."]
    model = ScriptedChatModel(replies=replies)
    app = create_memory_graph(quick, model, state_schema=MessagesState, recall=False)
    chat = []
    results = [ToolMessage(text, tool_call_id=f"c{n}") for n, text in enumerate(("no", "yes"))]
    for said in (HumanMessage("Hello"), HumanMessage("Where?"), *results, HumanMessage("Thanks")):
        chat.append(said)
        found = app.invoke({"messages": [_unnamed(one) for one in chat]}, at())
        chat.append(found["messages"][-1])
    history = quick.history("t", user_id="ana")
    assert shape(history.messages) == shape(chat)
    assert shape(model.seen[3]) == shape(chat[:7])
    assert len(history.entries) == len(chat)
    assert len({entry.turn_id for entry in history.entries}) == 3


def test_an_agent_goes_on_with_results_that_its_caller_has(quick):
    wrapped = quick.wrap(ScriptedChatModel(replies=[calls("yard")]), recall=False)
    asked = wrapped.invoke("Where?", at())
    model = ScriptedChatModel(replies=["In the yard."])
    done = ToolMessage("a bicycle", tool_call_id="c0")
    chat = [HumanMessage("Where?"), _unnamed(asked), done]
    agent_with(quick, model).invoke({"messages": chat}, at())
    history = quick.history("t", user_id="ana")
    assert shape(model.seen[0]) == ["human: Where?", "ai -> c0", "tool c0: a bicycle"]
    assert [one.role for one in history.entries] == ["user", "assistant", "tool", "assistant"]
    assert len({entry.turn_id for entry in history.entries}) == 1


def _own_graph(memory, model, *names):
    nodes = {
        "recall": recall_node(memory, recall=False),
        "model": model_node(memory, model, recall=False),
        "record": record_node(memory),
    }
    builder = StateGraph(MessagesState)
    for name in names:
        builder.add_node(name, nodes[name])
    for before, after in pairwise([START, *names]):
        builder.add_edge(before, after)
    return builder.compile()


@pytest.fixture(params=[("model", "record"), ("recall", "model", "record")], ids="-".join)
def own(request, quick, model):
    """A graph whose state has no place for the note of a turn."""
    return _own_graph(quick, model, *request.param)


def test_a_graph_of_ones_own_stores_and_shows_each_said_thing_once(quick, model, own):
    shown = []
    for text in ("Where is the bike?", "yes", "yes"):
        _say(own, shown, text)
    assert _view(quick) == [one["content"] for one in shown]
    assert len(quick.history("t", user_id="ana").entries) == 6
    assert [one.text for one in model.seen[2]] == [one["content"] for one in shown[:-1]]
