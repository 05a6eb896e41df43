"""Graphs and agents with a checkpointer: what comes twice stands once, in state, log and view."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from scripted_agents import agent_with, calls, shape
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)

HOSTS = {
    "agent": lambda memory, model, saver: agent_with(memory, model, tools=(), checkpointer=saver),
    "agent of the latest turn": lambda memory, model, saver: agent_with(
        memory, model, tools=(), checkpointer=saver, options={"keep_state": "turn"}
    ),
    "graph": lambda memory, model, saver: create_memory_graph(
        memory, model, state_schema=MessagesState, recall=False, checkpointer=saver
    ),
}
WHOLE_STATES = pytest.mark.parametrize("app", ["agent", "graph"], indirect=True)


@pytest.fixture
def quick():
    return ConversationMemory(InMemoryLog())


@pytest.fixture
def model():
    return ScriptedChatModel(replies=[f"Reply {n}." for n in range(1, 7)])


@pytest.fixture(params=HOSTS)
def app(request, quick, model):
    return HOSTS[request.param](quick, model, InMemorySaver())


def _say(app, text, name=None):
    return app.invoke({"messages": [HumanMessage(text, id=name)]}, at())["messages"]


def _fail(app, text, name=None):
    with pytest.raises(ProviderError):
        _say(app, text, name)


def _held(app):
    return [str(one.text) for one in app.get_state(at()).values["messages"]]


def _view(memory):
    return [str(one.text) for one in memory.history("t", user_id="ana").messages]


@pytest.mark.parametrize("host", HOSTS)
def test_words_of_a_reply_that_broke_are_one_so_the_same_question_is_another(quick, host):
    model = ScriptedChatModel(replies=["In the yard.", "In the hall."], breaks_after=1)
    app = HOSTS[host](quick, model, InMemorySaver())
    with pytest.raises(ProviderError):
        list(app.stream({"messages": [("user", "Where?")]}, at(), stream_mode="messages"))
    model.breaks_after = None
    _say(app, "Where?")
    roles = [one.role for one in quick.history("t", user_id="ana").entries]
    assert roles == ["user", "assistant", "user", "assistant"]


def test_an_answered_question_that_comes_again_has_one_answer(quick, model, app):
    _say(app, "Where?", "q1")
    _say(app, "When?", "q2")
    _say(app, "When?", "q2")
    assert _held(app)[-2:] == ["When?", "Reply 3."]
    assert "Reply 2." not in _held(app)
    assert _view(quick) == ["Where?", "Reply 1.", "When?", "Reply 3."]
    assert [one.text for one in model.seen[2]] == ["Where?", "Reply 1.", "When?"]


def test_a_loop_of_tools_that_comes_again_makes_way_whole(quick):
    model = ScriptedChatModel(replies=[calls("yard"), "No.", calls("hall"), "Yes."])
    agent = agent_with(quick, model, checkpointer=InMemorySaver())
    for _ in range(2):
        _say(agent, "Where?", "q1")
    expected = ["human: Where?", "ai -> c0", "tool c0: hall: a bicycle", "ai: Yes."]
    assert shape(agent.get_state(at()).values["messages"]) == expected
    assert shape(quick.history("t", user_id="ana").messages) == expected
    assert shape(model.seen[2]) == expected[:1]


def test_two_answers_of_an_attempt_that_came_to_nothing_are_one_in_the_next_turn():
    log, model = InMemoryLog(), ScriptedChatModel(replies=["One.", "Two.", "Bye."])
    memory = ConversationMemory(FailingLog(log, fails_at=3))
    app = HOSTS["graph"](memory, model, InMemorySaver())
    _say(app, "When?", "q1")
    with pytest.raises(LogUnavailableError):
        _say(app, "When?", "q1")
    assert _held(app) == ["When?", "Two."]
    _say(app, "Thanks", "q2")
    assert _held(app) == _view(ConversationMemory(log)) == ["When?", "Two.", "Thanks", "Bye."]


def test_a_run_that_speaks_twice_keeps_both_replies(quick, model):
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(quick, recall=False))
    builder.add_node("model", model_node(quick, model, recall=False))
    builder.add_node("record", record_node(quick))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_edge("model", "record")
    builder.add_conditional_edges(
        "record", lambda state: "recall" if len(state["messages"]) < 3 else "__end__"
    )
    app = builder.compile(checkpointer=InMemorySaver())
    _say(app, "Go on.")
    assert _held(app) == ["Go on.", "Reply 1.", "Reply 2."]
    assert _view(quick) == ["Go on.", "Reply 1.\nReply 2."]


@WHOLE_STATES
def test_an_edit_of_the_log_reaches_the_state(quick, model, app):
    _say(app, "Where?")
    history = quick.history("t", user_id="ana")
    history.cut_reply("Reply")
    _say(app, "When?")
    history.replace(history.turns[-1].id, "At noon.")
    _say(app, "Thanks")
    _say(app, "Bye")
    said = ["Where?", "Reply", "When?", "At noon.", "Thanks", "Reply 3.", "Bye", "Reply 4."]
    assert _held(app) == _view(quick) == said
    assert [one.text for one in model.seen[-1]] == said[:-1]
    controls = [one.control for one in history.entries if one.control]
    assert len(controls) == 2, "nothing is written for an edit that the state learns of"


@WHOLE_STATES
def test_an_edit_of_the_state_after_one_of_the_log_counts(quick, app):
    first = _say(app, "Where?")
    quick.history("t", user_id="ana").replace(str(first[-1].id), "In the log.")
    _say(app, "When?")
    app.update_state(at(), {"messages": [AIMessage("In the state.", id=first[-1].id)]})
    _say(app, "Thanks")
    assert _view(quick)[:2] == _held(app)[:2] == ["Where?", "In the state."]


@pytest.mark.parametrize("host", ["agent", "graph"])
def test_an_edit_of_the_log_while_a_run_waits_is_what_its_model_sees(quick, model, host):
    if host == "agent":
        model.replies = [calls("yard"), "Here."]
        app = agent_with(quick, model, checkpointer=InMemorySaver())
        waits = {"interrupt_before": ["tools"]}
    else:
        app, waits = HOSTS[host](quick, model, InMemorySaver()), {"interrupt_before": ["model"]}
    app.invoke({"messages": [HumanMessage("Where?", id="q1")]}, at(), **waits)
    quick.history("t", user_id="ana").replace("q1", "Where is the bike?", keep_later=True)
    app.invoke(None, at())
    assert model.seen[-1][0].text == "Where is the bike?"
    _say(app, "Thanks")
    assert _view(quick)[0] == _held(app)[0] == "Where is the bike?"


def test_what_leaves_the_state_shows_up_in_no_stream_of_messages(model, app):
    model.replies = [ProviderError(), "Then.", "Then, I say."]
    _fail(app, "When?")
    for text, name in (("When?", None), ("Why?", "q2"), ("Why?", "q2")):
        value = {"messages": [HumanMessage(text, id=name)]}
        shown = [one for one, _ in app.stream(value, at(), stream_mode="messages")]
        assert {one.type for one in shown} <= {"AIMessageChunk", "ai"}
