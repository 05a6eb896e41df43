from __future__ import annotations

import pytest
from graphs import answer_of, says, shown
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_messages,
    recall_node,
    record_node,
)
from langchain_convmem.turns.options import TurnOptions


class Noted(MessagesState):
    """A state with a place for the note."""

    convmem_turn: dict


GARAGE = "I parked on level C, next to the blue pillar."


def a_model(*replies):
    return ScriptedChatModel(replies=list(replies) or ["Noted."])


# -- streams --------------------------------------------------------------------------------------


def test_a_stream_of_messages_holds_the_answer_and_nothing_else(memory, saver):
    graph = create_memory_graph(memory, a_model("On level C."), checkpointer=saver)
    for _ in range(2):
        parts = list(graph.stream(says(GARAGE), at(), stream_mode="messages"))
        assert "".join(part.text for part, _ in parts) == "On level C."
        assert {about["langgraph_node"] for _, about in parts} == {"model"}
    assert shown(memory) == [GARAGE, "On level C.", GARAGE, "On level C."]


def test_a_stream_holds_nothing_of_a_model_that_the_memory_calls(memory, saver):
    own = a_model("Nobody is to read this.")

    def hook(message):
        own.invoke("May this be stored?")
        return message

    careful = ConversationMemory(memory.log, before_write=hook)
    graph = create_memory_graph(careful, a_model("On level C."), checkpointer=saver)
    stream = graph.stream(says(GARAGE), at(), stream_mode="messages")
    assert "".join(part.text for part, _ in stream) == "On level C."
    assert own.seen


def test_a_model_chosen_by_the_call_gets_what_that_model_takes(memory):
    one, other = a_model("one"), a_model("other")
    slots = [MessagesPlaceholder("history"), MessagesPlaceholder("input")]
    prompt = ChatPromptTemplate([SystemMessage("Be brief."), *slots])
    chosen = one.configurable_alternatives(ConfigurableField("model"), other=prompt | other)
    graph = create_memory_graph(memory, chosen)
    assert answer_of(graph.invoke(says("Hi"), at())) == "one"
    assert answer_of(graph.invoke(says("Hi"), at(model="other"))) == "other"
    assert [seen.text for seen in other.seen[0]] == ["Be brief.", "Hi", "one", "Hi"]


# -- nodes of one's own ---------------------------------------------------------------------------


def test_a_model_node_of_ones_own_gets_its_messages_from_the_log(memory, saver):
    seen = []

    def answering(state, config):
        seen.append(model_messages(memory, state, config))
        return {"messages": [("ai", f"You said: {seen[-1][-1].text}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("answering", answering)
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answering")
    builder.add_edge("answering", "record")
    graph = builder.compile(checkpointer=saver)

    graph.invoke(says("One"), at())
    graph.invoke(says("Two"), at())
    assert shown(memory) == ["One", "You said: One", "Two", "You said: Two"]
    assert [one.text for one in seen[1]] == ["One", "You said: One", "Two"]


@tool
def level_of(colour: str) -> str:
    """Return the level with a pillar of this colour."""
    return f"The {colour} pillar is on level C."


def test_messages_that_a_state_had_before_are_stored_with_the_first_turn(memory, saver):
    before = [
        SystemMessage("Be brief.", id="s"),
        HumanMessage(GARAGE, id="h"),
        AIMessage("", id="a", tool_calls=[{"name": "level_of", "args": {}, "id": "c"}]),
        ToolMessage("Level C.", id="r", tool_call_id="c"),
        AIMessage("On level C.", id="b"),
    ]
    model = a_model("You are welcome.")
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.update_state(at(), {"messages": before})
    graph.invoke(says("Thanks."), at())
    assert [one.text for one in model.seen[0]] == [
        *("Be brief.", GARAGE, "", "Level C.", "On level C.", "Thanks."),
    ]
    assert [one.id for one in model.seen[0]][:5] == ["s", "h", "a", "r", "b"]


@pytest.mark.parametrize("schema", [MessagesState, Noted])
def test_a_reply_that_no_node_recorded_is_stored_by_the_next_turn(memory, saver, schema, caplog):
    def answering(state, config):
        given = model_messages(memory, state, config)
        return {"messages": [("ai", f"re: {given[-1].text}")]}

    builder = StateGraph(schema)
    builder.add_sequence([("recall", recall_node(memory)), ("answering", answering)])
    builder.add_edge(START, "recall")
    graph = builder.compile(checkpointer=saver)
    for text in ("One", "Two", "Three"):
        graph.invoke(says(text), at())
    assert shown(memory) == ["One", "re: One", "Two", "re: Two", "Three"]
    assert len([one for one in caplog.records if "record_node" in one.getMessage()]) == 2
    assert "re: One" not in caplog.text


def test_options_come_as_one_value_or_by_name(memory):
    options = TurnOptions(history_tokens=1, recall=False)
    for named, count in (({}, 1), ({"history_tokens": 100}, 3)):
        model = a_model("Noted.")
        thread = at(f"thread {count}")
        graph = create_memory_graph(memory, model, options=options, **named)
        for text in ("One", "Two"):
            graph.invoke(says(text), thread)
        assert len([one for one in model.seen[-1] if one.type != "system"]) == count


# -- a state that keeps one turn ------------------------------------------------------------------


def test_a_state_may_keep_its_turn_alone(memory, saver):
    model = a_model("Noted.", "On level C.", "Bye.")
    graph = create_memory_graph(memory, model, checkpointer=saver, keep_state="turn")
    said = (GARAGE, "Where did I park?", "Thanks.")
    states = [graph.invoke(says(text), at()) for text in said]
    assert [one.text for one in states[-1]["messages"]] == ["Thanks.", "Bye."]
    assert [one.text for one in model.seen[-1]][:4] == [GARAGE, "Noted.", said[1], "On level C."]
    assert shown(memory) == [GARAGE, "Noted.", said[1], "On level C.", "Thanks.", "Bye."]


def test_going_back_works_where_a_state_keeps_its_turn_alone(memory, saver):
    model = a_model("One.", "Two.", "Three.")
    graph = create_memory_graph(memory, model, checkpointer=saver, keep_state="turn")
    graph.invoke(says("First?"), at())
    first = graph.get_state(at()).config["configurable"]
    graph.invoke(says("Second?"), at())
    graph.invoke(says("Another?"), {"configurable": {**first, "user_id": "ana"}})
    assert shown(memory) == ["First?", "One.", "Another?", "Three."]


# -- refusals -------------------------------------------------------------------------------------


def test_a_state_without_messages_and_a_wrong_choice_are_refused(memory):
    from typing import TypedDict

    class Words(TypedDict):
        input: str

    with pytest.raises(ConfigError, match=r"Words has no key 'messages'.*MessagesState"):
        create_memory_graph(memory, a_model(), state_schema=Words)
    with pytest.raises(ConfigError, match="keep_state must be 'all' or 'turn', got 'none'"):
        recall_node(memory, keep_state="none")
    builder = StateGraph(Words)
    builder.add_node("recall", recall_node(memory))
    builder.add_edge(START, "recall")
    with pytest.raises(ConfigError, match=r"must be a list of messages.*MessagesState"):
        builder.compile().invoke({"input": "Teresa"}, at())


@pytest.mark.parametrize("messages", [[], [("system", "Be brief.")]])
def test_a_state_in_which_nobody_says_anything_changes_nothing(memory, messages):
    graph = create_memory_graph(memory, a_model())
    graph.invoke({"messages": [("user", "Hi")]}, at())
    before = memory.history("t", user_id="ana").entries
    with pytest.raises(ConfigError, match="nothing to answer"):
        graph.invoke({"messages": messages}, at())
    assert memory.history("t", user_id="ana").entries == before


def test_messages_without_ids_are_refused(memory):
    from typing import TypedDict

    class Bare(TypedDict):
        messages: list

    builder = StateGraph(Bare)
    builder.add_node("recall", recall_node(memory))
    builder.add_edge(START, "recall")
    with pytest.raises(ConfigError, match=r"message 0 .* has no id.*add_messages"):
        builder.compile().invoke({"messages": [HumanMessage("Hi")]}, at())
    assert memory.threads("ana") == []
