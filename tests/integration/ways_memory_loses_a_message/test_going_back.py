"""Checkpoints resumed, questions edited: no answer twice, and the log keeps what was taken back."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt
from scripted_agents import agent_with, calls, says, shape, view
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import create_memory_graph


@tool
def ask(place: str) -> str:
    """Ask a person."""
    return f"{place}: {interrupt(place)}"


# -- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_state", ["all", "turn"])
def test_an_agent_that_waits_for_a_person_is_resumed_after_a_restart(tmp_path, logged, keep_state):
    def run(model, value):
        with (
            ConversationMemory.open(tmp_path / "memory.db") as memory,
            SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver,
        ):
            options = {"keep_state": keep_state}
            agent = agent_with(memory, model, tools=[ask], options=options, checkpointer=saver)
            agent.invoke(value, at())
            return logged(memory)

    assert run(ScriptedChatModel(replies=["Hello."]), says("Hi.")) == [
        "user: Hi.",
        "assistant: Hello.",
    ]
    waiting = run(ScriptedChatModel(replies=[calls("yard", tool_name="ask")]), says("Where?"))
    assert waiting[2:] == ["user: Where?", "assistant: -> c0"]

    model = ScriptedChatModel(replies=["In the yard."])
    resumed = run(model, Command(resume="a bicycle"))
    assert shape(model.seen[0]) == [
        "human: Hi.",
        "ai: Hello.",
        "human: Where?",
        "ai -> c0",
        "tool c0: yard: a bicycle",
    ]
    assert resumed == [*waiting, "tool: yard: a bicycle", "assistant: In the yard."]


def test_a_graph_that_failed_is_resumed_after_a_restart(tmp_path, logged):
    def run(model, value):
        with (
            ConversationMemory.open(tmp_path / "memory.db") as memory,
            SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver,
        ):
            graph = create_memory_graph(memory, model, checkpointer=saver)
            try:
                graph.invoke(value, at(), durability="sync")
            finally:
                found.append(logged(memory))

    found = []
    with pytest.raises(ProviderError):
        run(
            ScriptedChatModel(replies=[ProviderError("overloaded")]),
            {"messages": [("user", "Where?")]},
        )
    model = ScriptedChatModel(replies=["On level C."])
    run(model, None)
    assert found == [["user: Where?"], ["user: Where?", "assistant: On level C."]]
    assert shape(model.seen[0]) == ["human: Where?"]


# -- edits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["invoke", "ainvoke"])
def test_an_edited_question_is_answered_anew_and_takes_back_what_followed(memory, logged, is_async):
    model = ScriptedChatModel(replies=["On level C.", "Near the exit.", "In Lyon."])
    chain = memory.wrap(model, recall=False)
    chain.invoke(HumanMessage("Where did I park?", id="q1"), at())
    chain.invoke(HumanMessage("And where exactly?", id="q2"), at())

    edited = HumanMessage("Where did I work?", id="q1")
    history = memory.history("t", user_id="ana")
    if is_async:

        async def edit():
            await history.areplace("q1", edited)
            await chain.ainvoke(edited, at())

        asyncio.run(edit())
    else:
        history.replace("q1", edited)
        chain.invoke(edited, at())

    assert shape(model.seen[2]) == ["human: Where did I work?"]
    assert view(memory) == ["human: Where did I work?", "ai: In Lyon."]
    log = logged(memory)
    assert [line for line in log if line.startswith(("user", "assistant"))] == [
        "user: Where did I park?",
        "assistant: On level C.",
        "user: And where exactly?",
        "assistant: Near the exit.",
        "user: Where did I work?",
        "assistant: In Lyon.",
    ]


def test_an_edit_by_time_travel_is_answered_anew_and_takes_back_what_followed(tmp_path, logged):
    with (
        ConversationMemory.open(tmp_path / "memory.db") as memory,
        SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver,
    ):
        model = ScriptedChatModel(replies=["On level C.", "Near the exit.", "In Lyon."])
        agent = agent_with(memory, model, checkpointer=saver)
        agent.invoke(says("Where did I park?", "q1"), at())
        then = next(one for one in agent.get_state_history(at()) if one.next == ("model",))
        agent.invoke(says("And where exactly?", "q2"), at())

        edited = says("Where did I work?", "q1")
        fork = agent.update_state(then.config, edited)
        agent.invoke(None, {"configurable": {**fork["configurable"], "user_id": "ana"}})

        assert shape(model.seen[2]) == ["human: Where did I work?"]
        assert view(memory) == ["human: Where did I work?", "ai: In Lyon."]
        said = [line for line in logged(memory) if line.startswith(("user", "assistant"))]
        assert said == [
            "user: Where did I park?",
            "assistant: On level C.",
            "user: And where exactly?",
            "assistant: Near the exit.",
            "user: Where did I work?",
            "assistant: In Lyon.",
        ]
