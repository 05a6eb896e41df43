from itertools import takewhile
from random import Random

import pytest
from graphs import FORMS, echo, graph_of, messages_of, says, shown, snapshot, spoken
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ProviderError, ScriptedChatModel, at, entries
from summaries import bare

from langchain_convmem import ConversationMemory, ConversationMemoryMiddleware
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_node,
    recall_node,
    record_node,
)


@pytest.fixture
def model():
    return ScriptedChatModel(replies=[echo])


@pytest.fixture
def graph(memory, saver, model):
    return a_graph(memory, saver, model)


def chat(graph, *texts):
    for text in texts:
        graph.invoke(says(text), at())


def change(graph, *messages):
    graph.update_state(at(), {"messages": list(messages)})


def controls(memory):
    return [entry.control.reason for entry in entries(memory) if entry.control is not None]


@pytest.mark.parametrize(
    ("numbers", "left"),
    [
        ([0, 1], ["two", "re: two", "three", "re: three"]),
        ([2, 3], ["one", "re: one", "three", "re: three"]),
        ([4, 5], ["one", "re: one", "two", "re: two"]),
        ([1], ["one", "two", "re: two", "three", "re: three"]),
        (range(6), []),
    ],
)
def test_removed_messages_go_out_of_the_views_by_a_control_entry(
    memory, model, graph, numbers, left
):
    chat(graph, "one", "two", "three")
    messages = messages_of(graph)
    change(graph, *[RemoveMessage(id=messages[number].id) for number in numbers])
    chat(graph, "four")
    assert shown(memory) == [*left, "four", "re: four"]
    assert [one.text for one in model.seen[-1]] == [*left, "four"] or numbers == [1]
    assert controls(memory) == ["rewind"]
    assert len(spoken(memory)) == 8


def test_a_message_with_the_id_of_another_takes_its_place(memory, model, graph):
    chat(graph, "one", "two")
    question, answer = messages_of(graph)[:2]
    change(graph, HumanMessage("ONE", id=question.id), AIMessage("RE: ONE", id=answer.id))
    chat(graph, "three")
    assert shown(memory)[:4] == ["ONE", "RE: ONE", "two", "re: two"]
    assert [one.text for one in model.seen[-1]][:2] == ["ONE", "RE: ONE"]
    assert controls(memory) == ["replaced", "replaced"]


def test_messages_trimmed_to_keep_the_state_small_stay_in_the_log_if_told_so(memory, saver, model):
    def trim(state):
        return {"messages": [RemoveMessage(id=one.id) for one in state["messages"][:-2]]}

    nodes = {
        "recall": recall_node(memory, follow_edits=False),
        "model": model_node(memory, model),
        "record": record_node(memory),
        "trim": trim,
    }
    builder = StateGraph(MessagesState).add_sequence(list(nodes.items()))
    graph = builder.add_edge(START, "recall").compile(checkpointer=saver)
    chat(graph, "one", "two", "three")
    assert len(messages_of(graph)) == 2
    assert [one.text for one in model.seen[-1]] == ["one", "re: one", "two", "re: two", "three"]


def a_graph(memory, saver, model=None, **options):
    model = model or ScriptedChatModel(replies=[echo])
    return create_memory_graph(memory, model, checkpointer=saver, **options)


def ended(text):
    """Return whether a snapshot is the end of the turn that answered a text."""

    def holds(state):
        messages = state.values.get("messages")
        return not state.next and bool(messages) and messages[-1].text == f"re: {text}"

    return holds


def test_going_back_to_the_very_beginning_takes_back_everything(memory, graph):
    chat(graph, "one", "two")
    beginning = snapshot(graph, lambda s: s.next == ("__start__",) and s.metadata["step"] == -1)
    graph.invoke(says("anew"), beginning)
    assert shown(memory) == ["anew", "re: anew"]


@pytest.mark.parametrize("node", ["recall", "model", "record"])
def test_running_a_turn_again_from_within_replaces_it(memory, saver, node):
    model = ScriptedChatModel(replies=[f"answer {number}" for number in range(9)])
    graph = a_graph(memory, saver, model)
    chat(graph, "one", "two", "three")

    two = [s for s in graph.get_state_history(at()) if s.next == (node,)][1]
    graph.invoke(None, {"configurable": {**two.config["configurable"], "user_id": "ana"}})

    again = "answer 1" if node == "record" else "answer 3"
    assert shown(memory) == ["one", "answer 0", "two", again]


def test_the_config_of_a_snapshot_without_the_user_is_refused(memory, graph):
    chat(graph, "one", "two")
    config = next(iter(graph.get_state_history(at()))).config
    with pytest.raises(ConfigError, match="names no user: add user_id"):
        graph.invoke(says("three"), config)
    assert memory.threads() == []


def test_a_summary_that_tells_of_what_is_taken_back_goes_with_it(memory, graph):
    chat(graph, "one", "two")
    history = memory.history("t", user_id="ana")
    history.add_summary("They said one and two.", history.summary_window())
    chat(graph, "three")
    graph.invoke(says("another two"), snapshot(graph, ended("one")))
    assert shown(memory) == ["one", "re: one", "another two", "re: another two"]
    graph.invoke(says("four"), snapshot(graph, ended("three")))
    assert history.last_summary.contents == ("They said one and two.",)
    assert bare(history.messages[0].text) == "They said one and two."


@pytest.fixture(params=["graph", "agent"])
def app(request, memory, numbered):
    saver = InMemorySaver()
    if request.param == "graph":
        return create_memory_graph(memory, numbered, recall=False, checkpointer=saver)
    own = ConversationMemoryMiddleware(memory, recall=False)
    return create_agent(numbered, middleware=[own], checkpointer=saver)


@pytest.fixture
def numbered():
    return ScriptedChatModel(replies=[f"Reply {number}." for number in range(1, 10)])


def _snapshot(app, size):
    """Return the end of a turn with so many messages, as LangGraph has it, without a user."""
    states = app.get_state_history(at())
    return next(one for one in states if not one.next and len(one.values["messages"]) == size)


def fork(app, text, old, *changed):
    """Say something behind a snapshot, with changes, by the config that `update_state` returns."""
    config = app.update_state(old.config, {"messages": list(changed)})["configurable"]
    app.invoke(says(text), {"configurable": {**config, "user_id": "ana"}})


def test_a_fork_takes_back_what_its_state_does_not_hold(app, memory, numbered):
    chat(app, "Porto?", "In May?", "By train?")
    old = _snapshot(app, 2)
    edited = HumanMessage("Lisbon?", id=old.values["messages"][0].id)
    fork(app, "In June?", old, edited)
    assert [one.text for one in numbered.seen[-1]] == ["Lisbon?", "Reply 1.", "In June?"]
    assert shown(memory) == ["Lisbon?", "Reply 1.", "In June?", "Reply 4."]
    assert "By train?" in spoken(memory), "the log keeps it"


def test_a_turn_beside_an_earlier_state_takes_nothing_back(memory, numbered):
    """Two runs begin with one state; the second finds the first one's turn in the log."""
    graph = create_memory_graph(memory, numbered, recall=False, checkpointer=InMemorySaver())
    chat(graph, "Porto?")
    inner = []

    def reply(messages):
        if not inner:
            inner.append(1)
            graph.invoke(says("In May?"), at())
        return "Yes."

    numbered.replies = [reply]
    chat(graph, "By train?", "Or bus?")
    assert {"In May?", "By train?", "Or bus?"} <= set(shown(memory))


def test_a_plain_state_of_one_user_is_refused_to_another(memory, numbered):
    nodes = [("model", model_node(memory, numbered, recall=False))]
    graph = graph_of(memory, *nodes, saver=InMemorySaver())
    chat(graph, "The code is 4711.")
    for _ in range(2):
        with pytest.raises(ConfigError, match="name that user, or another thread"):
            graph.invoke(says("Which code?"), at(user_id="ben"))
    assert memory.threads(user_id="ben") == []
    chat(graph, "Thanks.")
    assert [one.text for one in numbered.seen[-1]] == ["The code is 4711.", "Reply 1.", "Thanks."]
    assert shown(memory) == ["The code is 4711.", "Reply 1.", "Thanks.", "Reply 2."]
    assert len(graph.get_state(at()).values["messages"]) == 4


def test_replies_alone_are_no_input(app, memory, numbered):
    for before in ([], ["Porto?"]):
        chat(app, *before)
        with pytest.raises(InvalidMessageError, match="nothing to answer"):
            app.invoke({"messages": [AIMessage("How can I help?")]}, at(f"{len(before)}"))
    assert len(numbered.seen) == 1
    assert shown(memory) == ["Porto?", "Reply 1."]


def test_a_model_that_answers_nothing_is_an_error(memory):
    graph = create_memory_graph(memory, lambda _: None, recall=False)
    with pytest.raises(InvalidMessageError, match="the model returned None"):
        graph.invoke(says("Porto?"), at())
    assert shown(memory) == ["Porto?"]


@pytest.mark.parametrize("keep_state", ["all", "turn"])
def test_a_reply_under_the_id_of_an_earlier_one_gets_its_own(memory, numbered, keep_state):
    numbered.replies = [AIMessage(text, id="same") for text in ("One.", "Two.")]
    for saver in (None, InMemorySaver()):
        graph = create_memory_graph(
            memory, numbered, recall=False, keep_state=keep_state, checkpointer=saver
        )
        chat(graph, "First?", "Second?")
    assert shown(memory)[:4] == ["First?", "One.", "Second?", "Two."]
    assert len(shown(memory)) == 8


def own_nodes(memory, saver):
    """Return a graph made of the nodes, whose state has messages alone."""
    model = ScriptedChatModel(replies=[echo])
    return graph_of(memory, ("model", model_node(memory, model)), saver=saver)


@pytest.mark.parametrize("follow_edits", [True, False])
@pytest.mark.parametrize("schema", FORMS)
def test_a_thread_that_was_forgotten_does_not_come_back_from_a_state(
    memory, saver, schema, follow_edits
):
    graph = a_graph(memory, saver, state_schema=schema, follow_edits=follow_edits)
    chat(graph, "The word is hullabaloo.", "one")
    memory.forget(thread_id="t", user_id="ana")
    chat(graph, "two", "three")
    assert shown(memory) == ["two", "re: two", "three", "re: three"]
    assert "hullabaloo" not in str(spoken(memory))


@pytest.mark.parametrize("make", [a_graph, own_nodes])
def test_a_message_that_was_forgotten_does_not_come_back_from_a_state(memory, saver, make):
    graph = make(memory, saver)
    graph.invoke(says("The word is hullabaloo.", "secret"), at())
    chat(graph, "one")
    memory.forget(thread_id="t", user_id="ana", entry_ids=["secret"])
    chat(graph, "two")
    assert spoken(memory)[0] == "re: The word is hullabaloo."
    assert "The word is hullabaloo." not in spoken(memory)
    assert shown(memory)[-2:] == ["two", "re: two"]


def test_what_is_forgotten_while_a_run_waits_does_not_come_back_with_it(memory, graph):
    chat(graph, "one")
    graph.invoke(says("The code is 1234."), at(), interrupt_before=["model"])
    memory.forget(thread_id="t", user_id="ana")
    graph.invoke(None, at())
    assert spoken(memory) == []  # nor is what answers it stored
    chat(graph, "two")
    assert spoken(memory) == ["two", "re: two"]


def test_a_log_that_is_new_gets_what_the_state_holds(memory, saver):
    chat(a_graph(memory, saver), "one")
    with ConversationMemory.open(":memory:") as other:
        chat(a_graph(other, saver), "two")
        assert shown(other) == ["one", "re: one", "two", "re: two"]


def test_what_was_undone_stays_undone_though_the_state_has_it(memory, graph):
    chat(graph, "one", "two")
    memory.history("t", user_id="ana").undo()
    graph.invoke({"messages": []}, at())
    chat(graph, "three")
    assert shown(memory) == ["one", "re: one", "three", "re: three"]


@pytest.mark.parametrize("keep_state", ["all", "turn"])
@pytest.mark.parametrize("seed", range(8))
def test_a_run_from_any_checkpoint_goes_on_from_what_was_said_there(
    memory, saver, seed, keep_state
):
    rng, model = Random(seed), ScriptedChatModel(replies=[f"a{number}" for number in range(9)])
    parts = {"checkpointer": saver, "keep_state": keep_state, "recall": False}
    graph = create_memory_graph(memory, model, **parts)
    ends = []
    for number in range(9):
        config, path = rng.choice(ends) if ends else (at(), [])
        is_anew = bool(path) and rng.random() < 0.4
        edited = rng.choice([*path[::2], f"q{number}"])
        kept = [*takewhile(lambda text, edited=edited: text != edited, path)]
        name = edited.split(".")[0]
        path = path[:-1] if is_anew else [*kept, f"{name}.{number}"]
        graph.invoke({"messages": []} if is_anew else says(path[-1], name), config)
        path = [*path, f"a{number}"]
        assert shown(memory) == path
        assert [one.text for one in model.seen[-1]] == path[:-1]
        ends.append((snapshot(graph, lambda _: True), path))


def test_a_state_without_a_note_keeps_what_is_not_stored(memory, saver):
    said = ScriptedChatModel(replies=[echo])
    graph = graph_of(memory, ("model", model_node(memory, said)), saver=saver)
    graph.invoke(says("one"), at())
    graph.invoke(says("two"), at(remember=False))
    chat(graph, "three", "four")
    assert [one.text for one in messages_of(graph)][::2] == ["one", "two", "three", "four"]
    assert shown(memory)[::2] == ["one", "three", "four"]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("name", ["q1", "q2"])
def test_a_question_edited_under_its_id_takes_the_place_of_what_followed(
    app, memory, numbered, name, is_open
):
    for number in ("q1", "q2"):
        app.invoke({"messages": [HumanMessage(f"Where is {number}?", id=number)]}, at())
    if is_open:
        app.invoke(says("Where is q3?", "q3"), at(), interrupt_before=["model"])
    state = app.invoke({"messages": [HumanMessage("Where is Rex?", id=name)]}, at())
    kept = [] if name == "q1" else ["Where is q1?", "Reply 1."]
    assert [one.text for one in numbered.seen[-1]] == [*kept, "Where is Rex?"]
    assert shown(memory) == [*kept, "Where is Rex?", "Reply 3."]
    assert [one.text for one in state["messages"]] == [*kept, "Where is Rex?", "Reply 3."]


def test_a_repeated_question_is_one_turn_though_the_graph_around_keeps_both(memory, saver):
    model = ScriptedChatModel(replies=[ProviderError("down"), "There.", "Then."])
    graph = create_memory_graph(memory, model, recall=False)
    outer = StateGraph(MessagesState).add_node("chat", graph).add_edge(START, "chat")
    app = outer.compile(checkpointer=saver)
    with pytest.raises(ProviderError):
        chat(app, "Where?")
    chat(app, "Where?", "When?")
    assert shown(memory) == ["Where?", "There.", "When?", "Then."]


def test_what_other_branches_edited_is_no_edit_of_an_earlier_state(app, memory, numbered):
    for number in ("q1", "q2"):
        app.invoke(says(f"Where is {number}?", number), at())
    config = {"configurable": {**_snapshot(app, 4).config["configurable"], "user_id": "ana"}}
    app.invoke(says("Where is Rex?", "q2"), config)
    app.invoke(says("Where is Tom?", "q1"), config)
    assert shown(memory) == ["Where is Tom?", "Reply 4."]
