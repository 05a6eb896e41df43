from __future__ import annotations

import pytest
from graphs import FORMS, echo, messages_of, says, shown, snapshot, spoken
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel, at
from summaries import bare

from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations.langgraph import create_memory_graph


def a_graph(memory, saver, model=None, **options):
    model = model or ScriptedChatModel(replies=[echo])
    return create_memory_graph(memory, model, checkpointer=saver, **options)


def chat(graph, *texts):
    for text in texts:
        graph.invoke(says(text), at())


def ended(text):
    """Return whether a snapshot is the end of the turn that answered a text."""

    def holds(state):
        messages = state.values.get("messages")
        return not state.next and bool(messages) and messages[-1].text == f"re: {text}"

    return holds


def test_going_on_from_an_earlier_checkpoint_takes_back_the_later_turns(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = a_graph(memory, saver, model)
    chat(graph, "one", "two", "three")

    graph.invoke(says("another two"), snapshot(graph, ended("one")))

    assert [one.text for one in model.seen[-1]] == ["one", "re: one", "another two"]
    assert shown(memory) == ["one", "re: one", "another two", "re: another two"]
    assert "re: three" in spoken(memory)
    chat(graph, "more")
    assert [one.text for one in model.seen[-1]][-3:] == ["another two", "re: another two", "more"]


def test_a_rewound_turn_is_recalled_no_more(memory, saver):
    model = ScriptedChatModel(replies=["Noted."])
    graph = a_graph(memory, saver, model)
    chat(graph, "Hello there", "I parked on level C")
    first = [state.config for state in graph.get_state_history(at()) if not state.next][-1]
    graph.invoke(
        says("I parked by the river"),
        {"configurable": {**first["configurable"], "user_id": "ana"}},
    )
    graph.invoke(says("Where did I park?"), at("other"))
    assert "level C" not in str(model.seen[-1][-1].content)
    assert "by the river" in str(model.seen[-1][-1].content)


@pytest.mark.parametrize("schema", FORMS)
def test_going_back_to_the_very_beginning_takes_back_everything(memory, saver, schema):
    graph = a_graph(memory, saver, state_schema=schema)
    chat(graph, "one", "two")
    beginning = snapshot(graph, lambda s: s.next == ("__start__",) and s.metadata["step"] == -1)
    graph.invoke(says("anew"), beginning)
    assert shown(memory) == ["anew", "re: anew"]


@pytest.mark.parametrize("node", ["recall", "model", "record"])
def test_running_a_turn_again_from_within_replaces_it(memory, saver, node):
    replies = [lambda _, number=number: f"answer {number}" for number in range(9)]
    model = ScriptedChatModel(replies=replies)
    graph = a_graph(memory, saver, model)
    chat(graph, "one", "two", "three")

    two = [s for s in graph.get_state_history(at()) if s.next == (node,)][1]
    graph.invoke(None, {"configurable": {**two.config["configurable"], "user_id": "ana"}})

    again = "answer 1" if node == "record" else "answer 3"
    assert shown(memory) == ["one", "answer 0", "two", again]


def test_a_branch_that_was_left_is_found_again(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = a_graph(memory, saver, model)
    chat(graph, "one", "two", "three")
    graph.invoke(says("another two"), snapshot(graph, ended("one")))
    graph.invoke(says("four"), snapshot(graph, ended("three")))
    first = ["one", "two", "three", "four"]
    assert shown(memory) == [text for said in first for text in (said, f"re: {said}")]

    graph.invoke(says("five"), snapshot(graph, ended("another two")))
    second = ["one", "another two", "five"]
    assert shown(memory) == [text for said in second for text in (said, f"re: {said}")]

    graph.invoke(says("six"), snapshot(graph, ended("four")))
    assert shown(memory) == [text for said in [*first, "six"] for text in (said, f"re: {said}")]
    assert [one.text for one in model.seen[-1]][-2:] == ["re: four", "six"]
    assert len(spoken(memory)) == 2 * 7


def test_a_question_edited_in_a_fork_is_answered_anew(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = a_graph(memory, saver, model)
    chat(graph, "one", "two", "three")
    asked = messages_of(graph)[2]
    before = snapshot(
        graph, lambda s: s.next == ("recall",) and s.values["messages"][-1].id == asked.id
    )
    fork = graph.update_state(before, {"messages": [HumanMessage("another two", id=asked.id)]})
    graph.invoke(None, {"configurable": {**fork["configurable"], "user_id": "ana"}})

    assert [one.text for one in model.seen[-1]] == ["one", "re: one", "another two"]
    assert shown(memory) == ["one", "re: one", "another two", "re: another two"]
    assert "re: three" in spoken(memory)


def test_going_back_leaves_alone_what_others_said_in_the_thread(memory, saver):
    graph = a_graph(memory, saver)
    chat(graph, "one")
    memory.history("t", user_id="ana").add("user", "from elsewhere")
    chat(graph, "two")
    graph.invoke(says("another two"), snapshot(graph, ended("one")))
    assert "from elsewhere" in shown(memory)
    assert "two" not in shown(memory)


def test_the_config_of_a_snapshot_without_the_user_is_refused(memory, saver):
    graph = a_graph(memory, saver)
    chat(graph, "one", "two")
    config = next(iter(graph.get_state_history(at()))).config
    with pytest.raises(ConfigError, match="names no user: add user_id"):
        graph.invoke(says("three"), config)
    assert memory.threads() == []


def test_a_summary_that_tells_of_what_is_taken_back_goes_with_it(memory, saver):
    graph = a_graph(memory, saver)
    chat(graph, "one", "two")
    history = memory.history("t", user_id="ana")
    history.add_summary("They said one and two.", history.summary_window())
    chat(graph, "three")
    graph.invoke(says("another two"), snapshot(graph, ended("one")))
    assert shown(memory) == ["one", "re: one", "another two", "re: another two"]
    graph.invoke(says("four"), snapshot(graph, ended("three")))
    assert history.last_summary.contents == ("They said one and two.",)
    assert bare(history.messages[0].text) == "They said one and two."


def test_going_back_reaches_turns_that_a_subgraph_stored(memory, saver):
    builder = StateGraph(MessagesState)
    inner = create_memory_graph(memory, ScriptedChatModel(replies=[echo]))
    builder.add_node("chat", inner)
    builder.add_edge(START, "chat")
    graph = builder.compile(checkpointer=saver)
    chat(graph, "one", "two", "three")
    graph.invoke(says("another two"), snapshot(graph, ended("one")))
    assert shown(memory) == ["one", "re: one", "another two", "re: another two"]
