from __future__ import annotations

import operator
import threading
from typing import Annotated, TypedDict

import pytest
from graphs import Crash, CrashingLog, answer_of, echo, says, spoken
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    recall_node,
)


def ask_at_once(memory, saver):
    """Let four threads ask in one thread of the conversation, and then ask once more."""
    together = threading.Barrier(4)

    def answer(messages):
        together.wait(30)
        return echo(messages)

    model = ScriptedChatModel(replies=[answer])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    threads = [
        threading.Thread(target=graph.invoke, args=(says(f"question {number}"), at()))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    model = ScriptedChatModel(replies=["Yes."])
    later = create_memory_graph(memory, model, checkpointer=saver)
    later.invoke(says("All there?"), at())
    return memory.history("t", user_id="ana").entries


def test_turns_at_once_on_one_thread_are_all_stored_and_shown(filed, saver):
    entries = ask_at_once(filed, saver)
    assert [entry for entry in entries if entry.role == "control"] == []
    texts = [text for text in spoken(filed) if text.startswith("question")]
    assert sorted(texts) == [f"question {number}" for number in range(4)]
    assert len([text for text in spoken(filed) if text.startswith("re: ")]) == 4


# -- Send -----------------------------------------------------------------------------------------


class Several(TypedDict, total=False):
    questions: list[str]
    answers: Annotated[list[str], operator.add]


def turns_of(memory):
    """Return the texts of every turn of the thread, turn by turn."""
    by_turn = {}
    for entry in memory.history("t", user_id="ana").entries:
        by_turn.setdefault(entry.turn_id, []).extend(entry.contents)
    return sorted(by_turn.values())


def a_graph_that_asks_several(memory, saver, model):
    chat = create_memory_graph(memory, model)
    builder = StateGraph(Several)
    builder.add_node("ask", lambda state: {"answers": [answer_of(chat.invoke(state))]})
    builder.add_conditional_edges(
        START, lambda state: [Send("ask", says(one)) for one in state["questions"]]
    )
    return builder.compile(checkpointer=saver)


def test_questions_sent_to_the_graph_at_once_are_turns_of_their_own(memory, saver):
    graph = a_graph_that_asks_several(memory, saver, ScriptedChatModel(replies=[echo]))
    found = graph.invoke({"questions": ["one", "two", "three"]}, at())
    assert found["answers"] == ["re: one", "re: two", "re: three"]
    assert turns_of(memory) == [
        ["one", "re: one"],
        ["three", "re: three"],
        ["two", "re: two"],
    ]


def test_of_several_questions_the_one_that_failed_is_asked_again_and_doubles_nothing(memory, saver):
    failures = [ProviderError("overloaded")]

    def answer(messages):
        return failures.pop() if failures and "two" in messages[-1].text else echo(messages)

    graph = a_graph_that_asks_several(memory, saver, ScriptedChatModel(replies=[answer]))
    with pytest.raises(ProviderError):
        graph.invoke({"questions": ["one", "two"]}, at())
    found = graph.invoke(None, at())
    assert sorted(found["answers"]) == ["re: one", "re: two"]
    assert turns_of(memory) == [["one", "re: one"], ["two", "re: two"]]


def test_a_message_that_is_sent_without_an_id_is_stored_once(memory, saver):
    def a_graph(memory):
        builder = StateGraph(MessagesState)
        builder.add_node("recall", recall_node(memory))
        builder.add_conditional_edges(
            START, lambda _: [Send("recall", {"messages": [HumanMessage("Hi")]})]
        )
        return builder.compile(checkpointer=saver)

    crashing = ConversationMemory(CrashingLog(memory.log, 1))
    with pytest.raises(Crash):
        a_graph(crashing).invoke({"messages": []}, at(), durability="sync")
    a_graph(memory).invoke(None, at())
    assert spoken(memory) == ["Hi"]
