"""States that `update_state` took back, and runs that name no snapshot: the log follows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from graphs import says
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemoryMiddleware, create_memory_graph
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.integrations.langgraph import model_node, recall_node, record_node


@pytest.fixture(params=["graph", "agent"])
def app(request, memory, model):
    saver = InMemorySaver()
    if request.param == "graph":
        return create_memory_graph(memory, model, recall=False, checkpointer=saver)
    own = ConversationMemoryMiddleware(memory, recall=False)
    return create_agent(model, middleware=[own], checkpointer=saver)


@pytest.fixture
def model():
    return ScriptedChatModel(replies=[f"Reply {number}." for number in range(1, 10)])


def _shown(memory):
    return [str(one.text) for one in memory.history("t", user_id="ana").messages]


def _snapshot(app, size, *, is_open=False):
    """Return the config of a snapshot: as LangGraph has it, without a user."""
    states = app.get_state_history(at())
    return next(
        state
        for state in states
        if bool(state.next) == is_open and len(state.values["messages"]) == size
    )


def _chat(app, *texts):
    for text in texts:
        app.invoke(says(text), at())


def test_a_fork_takes_back_what_its_state_does_not_hold(app, memory, model):
    _chat(app, "Porto?", "In May?", "By train?")
    old = _snapshot(app, 2)
    edited = HumanMessage("Lisbon?", id=old.values["messages"][0].id)
    app.update_state(old.config, {"messages": [edited]})
    _chat(app, "In June?")
    assert [one.text for one in model.seen[-1]] == ["Lisbon?", "Reply 1.", "In June?"]
    assert _shown(memory) == ["Lisbon?", "Reply 1.", "In June?", "Reply 4."]
    said = [
        entry.contents[0] for entry in memory.history("t", user_id="ana").entries if entry.contents
    ]
    assert "By train?" in said, "the log keeps it"


def test_a_fork_within_a_turn_takes_back_the_later_ones(app, memory, model):
    _chat(app, "Porto?", "In May?", "By train?")
    states = [one for one in app.get_state_history(at()) if len(one.values["messages"]) == 3]
    old = next(one for one in states if one.next)
    edited = HumanMessage("In June?", id=old.values["messages"][2].id)
    app.update_state(old.config, {"messages": [edited]})
    app.invoke(None, at())
    assert [one.text for one in model.seen[-1]] == ["Porto?", "Reply 1.", "In June?"]
    assert _shown(memory) == ["Porto?", "Reply 1.", "In June?", "Reply 4."]


def test_a_state_that_is_cut_at_its_front_takes_nothing_back(memory, model):
    graph = create_memory_graph(
        memory, model, recall=False, follow_edits=False, checkpointer=InMemorySaver()
    )
    _chat(graph, "Porto?", "In May?")
    for message in graph.get_state(at()).values["messages"][:3]:
        graph.update_state(at(), {"messages": [RemoveMessage(id=message.id)]})
    _chat(graph, "By train?", "Or bus?")
    assert len(_shown(memory)) == 8


def test_a_turn_beside_an_earlier_state_takes_nothing_back(memory, model):
    """Two runs begin with one state; the second finds the first one's turn in the log."""
    graph = create_memory_graph(memory, model, recall=False, checkpointer=InMemorySaver())
    _chat(graph, "Porto?")
    inner = []

    def reply(messages):
        if not inner:
            inner.append(1)
            graph.invoke(says("In May?"), at())
        return "Yes."

    model.replies = [reply]
    _chat(graph, "By train?", "Or bus?")
    assert {"In May?", "By train?", "Or bus?"} <= set(_shown(memory))


@pytest.mark.parametrize("name", ["q1", "q2"])
def test_a_question_edited_under_its_id_takes_the_place_of_what_followed(app, memory, model, name):
    for number in ("q1", "q2"):
        app.invoke({"messages": [HumanMessage(f"Where is {number}?", id=number)]}, at())
    state = app.invoke({"messages": [HumanMessage("Where is Rex?", id=name)]}, at())
    kept = [] if name == "q1" else ["Where is q1?", "Reply 1."]
    assert [one.text for one in model.seen[-1]] == [*kept, "Where is Rex?"]
    assert _shown(memory) == [*kept, "Where is Rex?", "Reply 3."]
    assert [one.text for one in state["messages"]] == [*kept, "Where is Rex?", "Reply 3."]


# -- two users who name a thread alike ------------------------------------------------------------


def _own_nodes(memory, model):
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory, recall=False))
    builder.add_node("model", model_node(memory, model, recall=False))
    builder.add_node("record", record_node(memory))
    for before, after in pairwise([START, "recall", "model", "record"]):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=InMemorySaver())


def test_a_plain_state_of_one_user_is_refused_to_another(memory, model):
    _check_two_users(_own_nodes(memory, model), memory, model)


def test_a_state_of_one_user_is_refused_to_another(app, memory, model):
    _check_two_users(app, memory, model)


def _check_two_users(graph, memory, model):
    _chat(graph, "The code is 4711.")
    for _ in range(2):
        with pytest.raises(ConfigError, match="name that user, or another thread"):
            graph.invoke(says("Which code?"), at(user_id="ben"))
    assert memory.threads(user_id="ben") == []
    _chat(graph, "Thanks.")
    assert [one.text for one in model.seen[-1]] == ["The code is 4711.", "Reply 1.", "Thanks."]
    assert _shown(memory) == ["The code is 4711.", "Reply 1.", "Thanks.", "Reply 2."]
    assert len(graph.get_state(at()).values["messages"]) == 4


# -- nothing to answer ----------------------------------------------------------------------------


def test_replies_alone_are_no_input(app, memory, model):
    for before in ([], ["Porto?"]):
        _chat(app, *before)
        with pytest.raises(InvalidMessageError, match="nothing to answer"):
            app.invoke({"messages": [AIMessage("How can I help?")]}, at(f"{len(before)}"))
    assert len(model.seen) == 1
    assert _shown(memory) == ["Porto?", "Reply 1."]


def test_a_model_that_answers_nothing_is_an_error(memory):
    graph = create_memory_graph(memory, lambda _: None, recall=False)
    with pytest.raises(InvalidMessageError, match="the model returned None"):
        graph.invoke(says("Porto?"), at())
    assert _shown(memory) == ["Porto?"]


@pytest.mark.parametrize("keep_state", ["all", "turn"])
def test_a_reply_under_the_id_of_an_earlier_one_gets_its_own(memory, model, keep_state):
    model.replies = [AIMessage(text, id="same") for text in ("One.", "Two.")]
    for saver in (None, InMemorySaver()):
        graph = create_memory_graph(
            memory, model, recall=False, keep_state=keep_state, checkpointer=saver
        )
        _chat(graph, "First?", "Second?")
    assert _shown(memory)[:4] == ["First?", "One.", "Second?", "Two."]
    assert len(_shown(memory)) == 8


# -- a person who is asked ------------------------------------------------------------------------


@tool
def ask(place: str) -> str:
    """Ask a person."""
    return str(interrupt(place))


def test_going_back_from_a_call_that_waits_takes_it_back(memory):
    call = AIMessage("", tool_calls=[{"name": "ask", "args": {"place": "yard"}, "id": "c1"}])
    model = ScriptedChatModel(replies=["Hello.", call, "In the shed."])
    own = ConversationMemoryMiddleware(memory, recall=False)
    agent = create_agent(model, [ask], middleware=[own], checkpointer=InMemorySaver())
    _chat(agent, "Hi.")
    old = _snapshot(agent, 2)
    _chat(agent, "Where is the bike?")
    assert len(_shown(memory)) == 4, "the call is open"
    agent.update_state(old.config, {"messages": []})
    _chat(agent, "Where is the rake?")
    assert [one.text for one in model.seen[-1]] == ["Hi.", "Hello.", "Where is the rake?"]
    assert _shown(memory) == ["Hi.", "Hello.", "Where is the rake?", "In the shed."]
