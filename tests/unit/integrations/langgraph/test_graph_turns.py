from __future__ import annotations

from typing import TypedDict

import pytest
from graphs import Crash, CrashingLog, answer_of, echo, graph_of, messages_of, says, shown, spoken
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_messages,
    model_node,
    recall_node,
)


class Noted(MessagesState):
    """A state with a place for the note."""

    convmem_turn: dict


GARAGE = "I parked on level C, next to the blue pillar."


@pytest.fixture
def seen():
    return []


@pytest.fixture
def answering(memory, seen):
    """A node of one's own; what it sees is kept."""

    def answer(state, config):
        seen.append([one.text for one in model_messages(memory, state, config)])
        return {"messages": [("ai", f"re: {seen[-1][-1]}")]}

    return answer


def test_a_model_node_of_ones_own_gets_its_messages_from_the_log(memory, saver, answering, seen):
    graph = graph_of(memory, ("answering", answering), saver=saver)
    graph.invoke(says("One"), at())
    graph.invoke(says("Two"), at())
    assert shown(memory) == ["One", "re: One", "Two", "re: Two"]
    assert seen[1] == ["One", "re: One", "Two"]


@pytest.mark.parametrize("schema", [MessagesState, Noted])
def test_a_reply_that_no_node_recorded_is_stored_by_the_next_turn(memory, saver, answering, schema):
    builder = StateGraph(schema)
    builder.add_sequence([("recall", recall_node(memory)), ("answering", answering)])
    builder.add_edge(START, "recall")
    graph = builder.compile(checkpointer=saver)
    for text in ("One", "Two", "Three"):
        graph.invoke(says(text), at())
    assert shown(memory) == ["One", "re: One", "Two", "re: Two", "Three"]


def test_a_state_may_keep_its_turn_alone(memory, saver):
    model = ScriptedChatModel(replies=["Noted.", "On level C.", "Bye."])
    graph = create_memory_graph(memory, model, checkpointer=saver, keep_state="turn")
    said = (GARAGE, "Where did I park?", "Thanks.")
    states = [graph.invoke(says(text), at()) for text in said]
    assert [one.text for one in states[-1]["messages"]] == ["Thanks.", "Bye."]
    assert [one.text for one in model.seen[-1]][:4] == [GARAGE, "Noted.", said[1], "On level C."]
    assert shown(memory) == [GARAGE, "Noted.", said[1], "On level C.", "Thanks.", "Bye."]


class Words(TypedDict):
    input: str


class Bare(TypedDict):
    messages: list


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (Words, {"input": "Teresa"}, r"must be a list of messages.*MessagesState"),
        (Bare, {"messages": [HumanMessage("Hi")]}, r"has no id.*add_messages"),
    ],
    ids=["no messages", "no ids"],
)
def test_a_state_that_cannot_be_followed_is_refused(memory, schema, value, why):
    graph = StateGraph(schema).add_node("recall", recall_node(memory)).add_edge(START, "recall")
    with pytest.raises(ConfigError, match=why):
        graph.compile().invoke(value, at())
    assert memory.threads("ana") == []


def test_a_wrong_choice_is_refused(memory):
    with pytest.raises(ConfigError, match="keep_state must be 'all' or 'turn', got 'none'"):
        recall_node(memory, keep_state="none")
    with pytest.raises(ConfigError, match="unknown provider 'cohere'"):
        model_messages(memory, says("One"), at(), provider="cohere")


def test_a_node_that_asks_a_human_runs_again_from_its_start_and_doubles_nothing(memory, saver):
    model = ScriptedChatModel(replies=["On level C."])

    def asking(state, config):
        said = model_messages(memory, state, config)
        approved = interrupt({"question": "May I answer?"})
        reply = model.invoke([*said]).text if approved else "I may not say."
        return {"messages": [("ai", reply)]}

    graph = graph_of(memory, ("asking", asking), saver=saver)
    graph.invoke(says("Where?"), at())
    assert spoken(memory) == ["Where?"]
    graph.invoke(Command(resume=True), at())
    assert spoken(memory) == ["Where?", "On level C."]


def test_a_reply_that_a_human_corrects_before_it_is_recorded_is_stored_as_corrected(memory, saver):
    model = ScriptedChatModel(replies=["On level D."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(says("Where?"), at(), interrupt_before=["record"])
    reply = messages_of(graph)[-1]
    graph.update_state(at(), {"messages": [AIMessage("On level C.", id=reply.id)]})
    graph.invoke(None, at())
    assert shown(memory) == ["Where?", "On level C."]


@pytest.mark.parametrize("has_note", [False, True])
def test_a_reply_before_a_pause_is_part_of_what_follows_it(memory, saver, has_note):
    model = ScriptedChatModel(replies=["First draft.", "Final."])

    def approve(state):
        return {"messages": [HumanMessage(interrupt("How is it?"))]}

    schema = Noted if has_note else MessagesState
    draft, final = (model_node(memory, model) for _ in range(2))
    nodes = [("draft", draft), ("approve", approve), ("model", final)]
    graph = graph_of(memory, *nodes, saver=saver, schema=schema)
    graph.invoke(says("Write a title."), at())
    graph.invoke(Command(resume="Shorter, please."), at())
    told = ["Write a title.", "First draft.", "Shorter, please."]
    assert [message.text for message in model.seen[1]] == told
    assert spoken(memory) == [*told, "Final."]


def test_a_call_that_is_not_stored_stays_out_when_it_is_resumed(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(says("one"), at())
    graph.invoke(says("between us"), at(remember=False), interrupt_before=["model"])
    reply = graph.invoke(None, at())
    assert answer_of(reply) == "re: between us"
    assert spoken(memory) == ["one", "re: one"]


def test_a_subgraph_that_was_interrupted_goes_on_where_it_was(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    builder = StateGraph(MessagesState)
    builder.add_sequence([("chat", create_memory_graph(memory, model)), ("after", lambda _: {})])
    graph = builder.add_edge(START, "chat").compile(checkpointer=saver)
    graph.invoke(says("one"), at())
    list(graph.stream(says("two"), at(), interrupt_before=["model"], subgraphs=True))
    graph.invoke(None, at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
    assert len(model.seen) == 2


@pytest.mark.parametrize("crash", [1, 2])
def test_a_node_that_stopped_right_after_its_write_leaves_each_message_once(memory, saver, crash):
    crashing = ConversationMemory(CrashingLog(memory.log, crash))
    model = ScriptedChatModel(replies=["On level C."])
    graph = create_memory_graph(crashing, model, checkpointer=saver)
    with pytest.raises(Crash):
        graph.invoke(says("Where?"), at(), durability="sync")
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(None, at(), durability="sync")
    assert shown(memory) == ["Where?", "On level C."]


@pytest.mark.parametrize("messages", [[], [("system", "Be brief.")]])
def test_a_state_in_which_nobody_says_anything_changes_nothing(memory, messages):
    graph = create_memory_graph(memory, ScriptedChatModel(replies=["Noted."]))
    graph.invoke({"messages": [("user", "Hi")]}, at())
    with pytest.raises(ConfigError, match="nothing to answer"):
        graph.invoke({"messages": messages}, at())
    assert spoken(memory) == ["Hi", "Noted."]
