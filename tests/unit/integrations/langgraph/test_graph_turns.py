from __future__ import annotations

import pytest
from graphs import KINDS, says, shown
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableField
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.integrations.langgraph import (
    MemoryState,
    amodel_messages,
    create_memory_graph,
    model_messages,
    model_node,
    recall_node,
    record_node,
)

GARAGE = "I parked on level C, next to the blue pillar."


def a_model(*replies):
    return ScriptedChatModel(replies=list(replies) or ["Noted."])


# -- one turn after the other ---------------------------------------------------------------------


@pytest.mark.parametrize("schema", KINDS)
def test_the_thread_goes_on_without_a_checkpointer(memory, schema):
    model = a_model("Noted.", "On level C.")
    graph = create_memory_graph(memory, model, state_schema=schema)
    graph.invoke(says(schema, GARAGE), at())
    graph.invoke(says(schema, "Where did I park?"), at())
    assert shown(memory) == [GARAGE, "Noted.", "Where did I park?", "On level C."]
    assert [one.text for one in model.seen[1]] == [GARAGE, "Noted.", "Where did I park?"]


@pytest.mark.parametrize("schema", KINDS)
def test_the_thread_goes_on_behind_a_checkpointer_that_was_lost(memory, schema):
    from langgraph.checkpoint.memory import InMemorySaver

    for said in (GARAGE, "And now?"):
        graph = create_memory_graph(
            memory, a_model(), state_schema=schema, checkpointer=InMemorySaver()
        )
        graph.invoke(says(schema, said), at())
        graph.invoke(says(schema, f"{said} Again."), at())
    assert shown(memory)[::2] == [GARAGE, f"{GARAGE} Again.", "And now?", "And now? Again."]


def test_a_line_forgotten_after_it_was_recalled_does_not_reach_the_model(memory, saver):
    model = a_model("Noted.")
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke({"input": GARAGE}, at("monday"))
    question = {"input": "Where did I park?"}
    stopped = graph.invoke(question, at("tuesday"), interrupt_before=["model"])
    assert stopped["recalled_ids"]
    memory.forget(user_id="ana", thread_id="monday")
    graph.invoke(None, at("tuesday"))
    assert [one.text for one in model.seen[-1]] == ["Where did I park?"]


def test_two_users_never_meet(memory):
    model = a_model()
    graph = create_memory_graph(memory, model)
    graph.invoke({"input": GARAGE}, at("t", "ana"))
    graph.invoke({"input": "Where did I park?"}, at("t", "ben"))
    assert [one.text for one in model.seen[1]] == ["Where did I park?"]


# -- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", KINDS)
def test_a_stream_of_messages_holds_the_answer_and_nothing_else(memory, saver, schema):
    graph = create_memory_graph(
        memory, a_model("On level C."), state_schema=schema, checkpointer=saver
    )
    for _ in range(2):
        parts = list(graph.stream(says(schema, GARAGE), at(), stream_mode="messages"))
        assert "".join(part.text for part, _ in parts) == "On level C."
        assert {about["langgraph_node"] for _, about in parts} == {"model"}
    assert shown(memory) == [GARAGE, "On level C.", GARAGE, "On level C."]


@pytest.mark.parametrize("schema", KINDS)
async def test_an_asynchronous_stream_holds_the_answer_and_nothing_else(memory, saver, schema):
    graph = create_memory_graph(
        memory, a_model("On level C."), state_schema=schema, checkpointer=saver
    )
    stream = graph.astream(says(schema, GARAGE), at(), stream_mode="messages")
    parts = [part async for part in stream]
    assert "".join(part.text for part, _ in parts) == "On level C."
    assert shown(memory) == [GARAGE, "On level C."]


def test_a_stream_holds_nothing_of_a_model_that_the_memory_calls(memory, saver):
    own = a_model("Nobody is to read this.")

    def hook(message):
        own.invoke("May this be stored?")
        return message

    careful = ConversationMemory(memory.log, before_write=hook)
    for schema in KINDS:
        graph = create_memory_graph(
            careful, a_model("On level C."), state_schema=schema, checkpointer=saver
        )
        stream = graph.stream(says(schema, GARAGE), at(schema.__name__), stream_mode="messages")
        assert "".join(part.text for part, _ in stream) == "On level C."
    assert own.seen


def test_a_model_chosen_by_the_call_gets_what_that_model_takes(memory):
    one, other = a_model("one"), a_model("other")
    slots = [MessagesPlaceholder("history"), MessagesPlaceholder("input")]
    prompt = ChatPromptTemplate([SystemMessage("Be brief."), *slots])
    chosen = one.configurable_alternatives(ConfigurableField("model"), other=prompt | other)
    graph = create_memory_graph(memory, chosen)
    assert graph.invoke({"input": "Hi"}, at())["answer"] == "one"
    assert graph.invoke({"input": "Hi"}, at(model="other"))["answer"] == "other"
    assert [seen.text for seen in other.seen[0]] == ["Be brief.", "Hi", "one", "Hi"]


# -- nodes of one's own ---------------------------------------------------------------------------


def test_a_model_node_of_ones_own_gets_its_messages_from_the_log(memory, saver):
    seen = []

    def answering(state, config):
        seen.append(model_messages(memory, state, config))
        return {"answer": f"You said: {seen[-1][-1].text}"}

    builder = StateGraph(MemoryState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("answering", answering)
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answering")
    builder.add_edge("answering", "record")
    graph = builder.compile(checkpointer=saver)

    graph.invoke({"input": "One"}, at())
    graph.invoke({"input": "Two"}, at())
    assert shown(memory) == ["One", "You said: One", "Two", "You said: Two"]
    assert [one.text for one in seen[1]] == ["One", "You said: One", "Two"]


async def test_an_asynchronous_model_node_of_ones_own_gets_its_messages_from_the_log(memory):
    async def answering(state, config):
        found = await amodel_messages(memory, state, config)
        return {"messages": [AIMessage(f"You said: {found[-1].text}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("answering", answering)
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answering")
    builder.add_edge("answering", "record")
    await builder.compile().ainvoke(says(MessagesState, "One"), at())
    assert shown(memory) == ["One", "You said: One"]


@tool
def level_of(colour: str) -> str:
    """Return the level with a pillar of this colour."""
    return f"The {colour} pillar is on level C."


def test_a_tool_loop_is_stored_whole_and_each_result_before_the_model_is_called(memory, saver):
    call = {"name": "level_of", "args": {"colour": "blue"}, "id": "c1"}
    model = a_model(AIMessage("", tool_calls=[call]), "On level C.", "You are welcome.")
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("model", model_node(memory, model))
    builder.add_node("tools", ToolNode([level_of]))
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "model")
    builder.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "record"})
    builder.add_edge("tools", "model")
    graph = builder.compile(checkpointer=saver)

    graph.invoke(says(MessagesState, "Where is the blue pillar?"), at())
    graph.invoke(says(MessagesState, "Thanks."), at())

    assert [one.type for one in model.seen[1]] == ["human", "ai", "tool"]
    assert [one.type for one in model.seen[2]] == ["human", "ai", "tool", "ai", "human"]
    entries = memory.history("t", user_id="ana").entries
    assert [entry.role for entry in entries] == [
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant"),
    ]
    assert len({entry.turn_id for entry in entries}) == 2


def test_a_chain_gets_what_a_wrapped_chain_gets(memory):
    model = a_model()
    prompt = ChatPromptTemplate(
        [
            SystemMessage("Be brief."),
            MessagesPlaceholder("history"),
            MessagesPlaceholder("recalled"),
            MessagesPlaceholder("input"),
        ]
    )
    graph = create_memory_graph(memory, prompt | model)
    graph.invoke({"input": GARAGE}, at("monday"))
    graph.invoke({"input": "Hi."}, at("tuesday"))
    graph.invoke({"input": "Where did I park?"}, at("tuesday"))
    texts = [one.text for one in model.seen[2]]
    assert texts[:3] == ["Be brief.", "Hi.", "Noted."]
    assert GARAGE in texts[3]
    assert texts[4] == "Where did I park?"


def test_an_agent_may_be_the_model_and_its_tool_loop_is_stored(memory, saver):
    agents = pytest.importorskip("langchain.agents")
    call = {"name": "level_of", "args": {"colour": "blue"}, "id": "c1"}
    model = a_model(AIMessage("", tool_calls=[call]), "On level C.")
    graph = create_memory_graph(memory, agents.create_agent(model, [level_of]), checkpointer=saver)
    reply = graph.invoke({"input": "Where is the blue pillar?"}, at())
    assert reply["answer"] == "On level C."
    entries = memory.history("t", user_id="ana").entries
    assert [entry.role for entry in entries] == ["user", "assistant", "tool", "assistant"]


def test_messages_that_a_state_had_before_are_stored_with_the_first_turn(memory, saver):
    before = [
        SystemMessage("Be brief.", id="s"),
        HumanMessage(GARAGE, id="h"),
        AIMessage("", id="a", tool_calls=[{"name": "level_of", "args": {}, "id": "c"}]),
        ToolMessage("Level C.", id="r", tool_call_id="c"),
        AIMessage("On level C.", id="b"),
    ]
    model = a_model("You are welcome.")
    graph = create_memory_graph(memory, model, state_schema=MessagesState, checkpointer=saver)
    graph.update_state(at(), {"messages": before})
    graph.invoke(says(MessagesState, "Thanks."), at())
    assert [one.text for one in model.seen[0]] == [
        *("Be brief.", GARAGE, "", "Level C.", "On level C.", "Thanks."),
    ]
    assert [one.id for one in model.seen[0]][:5] == ["s", "h", "a", "r", "b"]


def test_a_model_that_repeats_its_ids_loses_no_reply(memory, saver):
    for schema in (MemoryState, MessagesState):
        model = a_model(AIMessage("One.", id="same"), AIMessage("Two.", id="same"))
        graph = create_memory_graph(memory, model, state_schema=schema, checkpointer=saver)
        name = schema.__name__
        graph.invoke(says(schema, "First?"), at(name))
        graph.invoke(says(schema, "Second?"), at(name))
        assert shown(memory, name) == ["First?", "One.", "Second?", "Two."]


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", ["", None, []])
def test_a_state_that_holds_nothing_to_answer_is_refused(memory, nothing):
    graph = create_memory_graph(memory, a_model())
    with pytest.raises(ConfigError, match=r"nothing to answer.*input=None"):
        graph.invoke({"input": nothing}, at())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (7, "of type int"),
        ("  ", "blank"),
        ({"secret": "Teresa"}, "needs the key 'input'"),
        ([("user", "Teresa"), ("ai", "Hi")], "ends with an AIMessage"),
    ],
)
def test_an_input_that_is_not_what_the_user_says_is_refused_without_its_words(memory, given, why):
    graph = create_memory_graph(memory, a_model())
    with pytest.raises(InvalidMessageError, match=why) as refused:
        graph.invoke({"input": given}, at())
    assert "Teresa" not in str(refused.value)
    assert memory.threads("ana") == []


def test_a_state_of_ids_takes_one_message(memory):
    graph = create_memory_graph(memory, a_model())
    chat = [("user", "Hi"), ("ai", "Hello"), ("user", "Where?")]
    with pytest.raises(ConfigError, match=r"holds 3 messages.*'messages' key"):
        graph.invoke({"input": chat}, at())


@pytest.mark.parametrize(
    "said",
    [
        ("user", "Hi"),
        {"role": "user", "content": "Hi"},
        [{"type": "text", "text": "Hi"}],
        [{"type": "human", "data": {"content": "Hi"}}],
    ],
)
def test_a_state_of_ids_takes_a_message_in_any_form(memory, said):
    create_memory_graph(memory, a_model()).invoke({"input": said}, at())
    assert memory.history("t", user_id="ana").entries[0].contents == ("Hi",)


@pytest.mark.parametrize("messages", [[], [("system", "Be brief.")]])
def test_a_state_in_which_nobody_says_anything_changes_nothing(memory, messages):
    graph = create_memory_graph(memory, a_model(), state_schema=MessagesState)
    graph.invoke({"messages": [("user", "Hi")]}, at())
    before = memory.history("t", user_id="ana").entries
    with pytest.raises(ConfigError, match="nothing to answer"):
        graph.invoke({"messages": messages}, at())
    assert memory.history("t", user_id="ana").entries == before


def test_what_was_said_once_is_not_taken_for_something_new(memory, saver):
    graph = create_memory_graph(memory, a_model(), checkpointer=saver)
    graph.invoke({"input": "Hi"}, at())
    with pytest.raises(ConfigError, match="nothing to answer"):
        graph.invoke({"recalled_ids": []}, at())


def test_a_model_without_recall_before_it_is_refused(memory):
    builder = StateGraph(MemoryState)
    builder.add_node("model", model_node(memory, a_model()))
    builder.add_edge(START, "model")
    with pytest.raises(ConfigError, match="'recall' must run first"):
        builder.compile().invoke({"input": "Hi"}, at())


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


def test_what_is_no_message_is_refused(memory):
    from typing import TypedDict

    class Bare(TypedDict):
        messages: list

    builder = StateGraph(Bare)
    builder.add_node("recall", recall_node(memory))
    builder.add_edge(START, "recall")
    with pytest.raises(ConfigError, match="must be a list of messages"):
        builder.compile().invoke({"messages": ["Hi"]}, at())


def test_an_answer_that_is_none_is_refused(memory):
    builder = StateGraph(MemoryState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("answering", lambda state: {"answer": 7})
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answering")
    builder.add_edge("answering", "record")
    with pytest.raises(ConfigError, match=r"state\['answer'\] must be text.*of type int"):
        builder.compile().invoke({"input": "Hi"}, at())
