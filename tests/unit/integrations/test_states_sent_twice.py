from functools import partial

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from scripted_agents import agent_with, calls, shape
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at, entries, texts

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)


@pytest.fixture
def model():
    return ScriptedChatModel(replies=[f"Reply {n}." for n in range(1, 7)])


def _nodes(memory, model, *names):
    """Return a builder with nodes in a row; its state has no place for the note of a turn."""
    nodes = {
        "recall": recall_node(memory, recall=False),
        "model": model_node(memory, model, recall=False),
        "record": record_node(memory),
    }
    builder = StateGraph(MessagesState).add_sequence([(name, nodes[name]) for name in names])
    return builder.add_edge(START, names[0])


@pytest.mark.parametrize("names", [("model", "record"), ("recall", "model", "record")])
def test_a_graph_of_ones_own_stores_and_shows_each_said_thing_once(memory, model, names):
    graph, shown = _nodes(memory, model, *names).compile(), []
    for text in ("Where is the bike?", "yes", "yes"):
        shown.append({"role": "user", "content": text})
        found = graph.invoke({"messages": shown}, at())
        shown.append({"role": "assistant", "content": found["messages"][-1].text})
    assert texts(memory) == [one["content"] for one in shown]
    assert len(entries(memory)) == 6
    assert [one.text for one in model.seen[2]] == [one["content"] for one in shown[:-1]]


LATEST = {"options": {"keep_state": "turn"}}
PLAIN = {"state_schema": MessagesState, "recall": False}
SAVED_HOSTS = {
    "agent": partial(agent_with, tools=()),
    "agent of the latest turn": partial(agent_with, tools=(), **LATEST),
    "graph": partial(create_memory_graph, **PLAIN),
}
WHOLE_STATES = pytest.mark.parametrize("saved", ["agent", "graph"], indirect=True)


@pytest.fixture(params=SAVED_HOSTS)
def saved(request, memory, model):
    return SAVED_HOSTS[request.param](memory, model, checkpointer=InMemorySaver())


def _ask(saved, text, name=None):
    return saved.invoke({"messages": [HumanMessage(text, id=name)]}, at())["messages"]


def _fail(saved, text, name=None):
    with pytest.raises(ProviderError):
        _ask(saved, text, name)


def _held(saved):
    return [str(one.text) for one in saved.get_state(at()).values["messages"]]


def test_an_answered_question_that_comes_again_has_one_answer(memory, model, saved):
    _ask(saved, "Where?", "q1")
    _ask(saved, "When?", "q2")
    _ask(saved, "When?", "q2")
    assert _held(saved)[-2:] == ["When?", "Reply 3."]
    assert "Reply 2." not in _held(saved)
    assert texts(memory) == ["Where?", "Reply 1.", "When?", "Reply 3."]
    assert [one.text for one in model.seen[2]] == ["Where?", "Reply 1.", "When?"]


def test_a_loop_of_tools_that_comes_again_makes_way_whole(memory):
    model = ScriptedChatModel(replies=[calls("yard"), "No.", calls("hall"), "Yes."])
    agent = agent_with(memory, model, checkpointer=InMemorySaver())
    for _ in range(2):
        _ask(agent, "Where?", "q1")
    expected = ["human: Where?", "ai -> c0", "tool c0: hall: a bicycle", "ai: Yes."]
    assert shape(agent.get_state(at()).values["messages"]) == expected
    assert shape(memory.history("t", user_id="ana").messages) == expected
    assert shape(model.seen[2]) == expected[:1]


def test_an_answer_stays_where_another_one_could_not_be_stored():
    log, model = InMemoryLog(), ScriptedChatModel(replies=["One.", "Two.", "Bye."])
    memory = ConversationMemory(FailingLog(log, fails_at=3))
    saved = SAVED_HOSTS["graph"](memory, model, checkpointer=InMemorySaver())
    _ask(saved, "When?", "q1")
    with pytest.raises(LogUnavailableError):
        _ask(saved, "When?", "q1")
    _ask(saved, "Thanks", "q2")
    assert texts(ConversationMemory(log)) == ["When?", "One.", "Thanks", "Bye."]


def test_a_run_that_speaks_twice_keeps_both_replies(memory, model):
    builder = _nodes(memory, model, "recall", "model", "record")
    builder.add_conditional_edges(
        "record", lambda state: "recall" if len(state["messages"]) < 3 else "__end__"
    )
    saved = builder.compile(checkpointer=InMemorySaver())
    _ask(saved, "Go on.")
    assert _held(saved) == ["Go on.", "Reply 1.", "Reply 2."]
    assert texts(memory) == ["Go on.", "Reply 1.\nReply 2."]


@WHOLE_STATES
def test_an_edit_of_the_log_stays_though_the_state_has_the_old_text(memory, model, saved):
    _ask(saved, "Where?")
    history = memory.history("t", user_id="ana")
    history.cut_reply("Reply")
    _ask(saved, "When?")
    history.replace(history.turns[-1].id, "At noon.")
    _ask(saved, "Thanks")
    said = ["Where?", "Reply", "When?", "At noon.", "Thanks", "Reply 3."]
    assert texts(memory) == said
    assert [one.text for one in model.seen[-1]] == said[:-1]
    controls = [one.control for one in history.entries if one.control]
    assert len(controls) == 2, "nothing is written for a text that the state had before"


def test_what_leaves_the_state_shows_up_in_no_stream_of_messages(model, saved):
    model.replies = [ProviderError(), "Then.", "Then, I say."]
    _fail(saved, "When?")
    for text, name in (("When?", None), ("Why?", "q2"), ("Why?", "q2")):
        value = {"messages": [HumanMessage(text, id=name)]}
        shown = [one for one, _ in saved.stream(value, at(), stream_mode="messages")]
        assert {one.type for one in shown} <= {"AIMessageChunk", "ai"}


def test_a_text_that_is_sent_again_after_a_failure_is_one_question(memory, model, saved):
    model.replies = [ProviderError(), "Then."]
    _fail(saved, "When?")
    _ask(saved, "When?")
    assert _held(saved) == texts(memory) == ["When?", "Then."]
    assert [one.text for one in model.seen[-1]] == ["When?"]
