from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from graphs import IDS, WITH_MESSAGES, answer_of, says, shown, spoken
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.integrations.langgraph import (
    MemoryState,
    memory_graph,
    model_messages,
    recall_node,
    record_node,
)

STATES = [*IDS, *WITH_MESSAGES]


class Crash(BaseException):
    """What stops a process in the middle of a node."""


class CrashingLog:
    """Writes, and then stops the process instead of coming back, at the given appends."""

    def __init__(self, log, *crashes_at):
        self._log, self._crashes_at, self._appends = log, crashes_at, 0

    def __getattr__(self, name):
        return getattr(self._log, name)

    def append(self, *args, **kwargs):
        entries = self._log.append(*args, **kwargs)
        self._appends += 1
        if self._appends in self._crashes_at:
            raise Crash
        return entries


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", STATES)
def test_what_the_user_said_is_durable_when_the_model_fails_and_resuming_doubles_nothing(
    memory, saver, schema
):
    model = ScriptedChatModel(replies=[ProviderError("overloaded"), "On level C."])
    graph = memory_graph(memory, model, state_schema=schema, checkpointer=saver)
    with pytest.raises(ProviderError):
        graph.invoke(says(schema, "Where did I park?"), at())
    assert spoken(memory) == ["Where did I park?"]

    reply = graph.invoke(None, at())
    assert answer_of(reply) == "On level C."
    assert spoken(memory) == ["Where did I park?", "On level C."]


@pytest.mark.parametrize("schema", STATES)
def test_a_message_with_an_id_can_be_sent_again_after_a_failure(quick, kept, schema):
    model = ScriptedChatModel(replies=[ProviderError("overloaded"), "On level C."])
    graph = memory_graph(quick, model, state_schema=schema, checkpointer=kept)
    with pytest.raises(ProviderError):
        graph.invoke(says(schema, "Where did I park?", "h1"), at())
    graph.invoke(says(schema, "Where did I park?", "h1"), at())
    assert spoken(quick) == ["Where did I park?", "On level C."]
    assert [one.text for one in model.seen[1]] == ["Where did I park?"]


def test_the_same_message_again_replaces_its_answer(quick, kept):
    model = ScriptedChatModel(replies=["On level C.", "On level D."])
    graph = memory_graph(quick, model, checkpointer=kept)
    for _ in range(2):
        graph.invoke(says(MemoryState, "Where did I park?", "h1"), at())
    assert shown(quick) == ["Where did I park?", "On level D."]
    assert [one.text for one in model.seen[1]] == ["Where did I park?"]


@pytest.mark.parametrize("schema", STATES)
@pytest.mark.parametrize("crash", [1, 2])
def test_a_node_that_stopped_right_after_its_write_stores_nothing_twice(
    quick, saver, schema, crash
):
    crashing = ConversationMemory(CrashingLog(quick.log, crash))
    for memory, said in ((crashing, says(schema, "Where?")), (quick, None)):
        model = ScriptedChatModel(replies=["On level C."])
        graph = memory_graph(memory, model, state_schema=schema, checkpointer=saver)
        if memory is crashing:
            with pytest.raises(Crash):
                graph.invoke(said, at(), durability="sync")
        else:
            graph.invoke(said, at(), durability="sync")
    assert spoken(quick) == ["Where?", "On level C."]


@pytest.mark.parametrize("schema", STATES)
def test_a_failed_write_is_raised_before_the_model_is_called(quick, kept, schema):
    model = ScriptedChatModel(replies=["On level C."])
    memory = ConversationMemory(FailingLog(quick.log, fails_at=1))
    graph = memory_graph(memory, model, state_schema=schema, checkpointer=kept)
    with pytest.raises(LogUnavailableError):
        graph.invoke(says(schema, "Where?"), at())
    assert model.seen == []
    graph.invoke(None, at())
    assert spoken(quick) == ["Where?", "On level C."]


@pytest.mark.parametrize("schema", STATES)
def test_a_reply_that_could_not_be_written_is_raised_and_written_on_resuming(quick, kept, schema):
    model = ScriptedChatModel(replies=["On level C.", "another"])
    memory = ConversationMemory(FailingLog(quick.log, fails_at=2))
    graph = memory_graph(memory, model, state_schema=schema, checkpointer=kept)
    with pytest.raises(LogUnavailableError):
        graph.invoke(says(schema, "Where?"), at())
    graph.invoke(None, at())
    assert spoken(quick) == ["Where?", "On level C."]
    assert len(model.seen) == 1


def test_a_retry_policy_stores_nothing_twice(quick):
    memory = ConversationMemory(CrashingLog(quick.log))
    failures = iter([ProviderError("once"), ProviderError("twice")])

    def shaky(state, config):
        model_messages(memory, state, config)
        for failure in failures:
            raise failure
        return {"answer": "At last."}

    policy = RetryPolicy(max_attempts=3, initial_interval=0, retry_on=ProviderError)
    builder = StateGraph(MemoryState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("shaky", shaky, retry_policy=policy)
    builder.add_node("record", record_node(memory), retry_policy=policy)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "shaky")
    builder.add_edge("shaky", "record")
    builder.compile().invoke({"input": "Hi"}, at())
    assert spoken(quick) == ["Hi", "At last."]


# -- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
@pytest.mark.parametrize("node", ["recall", "model", "record"])
@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
def test_a_graph_that_is_interrupted_around_a_node_goes_on_where_it_was(
    memory, saver, schema, node, when
):
    model = ScriptedChatModel(replies=["On level C."])
    graph = memory_graph(memory, model, state_schema=schema, checkpointer=saver)
    graph.invoke(says(schema, "Where?"), at(), **{when: [node]})
    graph.invoke(None, at())
    assert spoken(memory) == ["Where?", "On level C."]
    assert len(model.seen) == 1


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_a_node_that_asks_a_human_runs_again_from_its_start_and_doubles_nothing(
    memory, saver, schema
):
    model = ScriptedChatModel(replies=["On level C."])

    def asking(state, config):
        said = model_messages(memory, state, config)
        approved = interrupt({"question": "May I answer?"})
        reply = model.invoke([*said]).text if approved else "I may not say."
        return {"answer": reply} if schema is MemoryState else {"messages": [("ai", reply)]}

    builder = StateGraph(schema)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("asking", asking)
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "asking")
    builder.add_edge("asking", "record")
    graph = builder.compile(checkpointer=saver)

    graph.invoke(says(schema, "Where?"), at())
    assert spoken(memory) == ["Where?"]
    graph.invoke(Command(resume=True), at())
    assert spoken(memory) == ["Where?", "On level C."]


# -- at once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
def test_turns_at_once_on_one_thread_are_all_stored_question_and_answer_together(
    memory, saver, schema
):
    together = threading.Barrier(4)

    def echo(messages):
        together.wait(30)
        return f"re: {messages[-1].text.splitlines()[-1]}"

    graph = memory_graph(
        memory, ScriptedChatModel(replies=[echo]), state_schema=schema, checkpointer=saver
    )
    graph.invoke  # noqa: B018 - compiled before the threads start
    threads = [
        threading.Thread(target=graph.invoke, args=(says(schema, f"question {number}"), at()))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    model = ScriptedChatModel(replies=["Yes."])
    later = memory_graph(memory, model, state_schema=schema, checkpointer=saver)
    later.invoke(says(schema, "All there?"), at())
    entries = memory.history("t", user_id="ana").entries
    assert [entry for entry in entries if entry.role == "control"] == []
    texts = [text for text in spoken(memory) if text.startswith("question")]
    assert sorted(texts) == [f"question {number}" for number in range(4)]
    assert len([text for text in spoken(memory) if text.startswith("re: ")]) == 4
    by_turn = {}
    for entry in entries:
        by_turn.setdefault(entry.turn_id, []).append(entry.role)
    assert list(by_turn.values()) == [["user", "assistant"]] * 5


@pytest.mark.parametrize("schema", [MemoryState, MessagesState])
async def test_tasks_at_once_on_one_thread_are_all_stored(memory, kept, schema):
    model = ScriptedChatModel(replies=[lambda messages: f"re: {messages[-1].text[-10:]}"])
    graph = memory_graph(memory, model, state_schema=schema, checkpointer=kept)
    await asyncio.gather(
        *(graph.ainvoke(says(schema, f"question {number}"), at()) for number in range(8))
    )
    await graph.ainvoke(says(schema, "All there?"), at())
    assert len([text for text in shown(memory) if text.startswith("question")]) == 8
    assert len([text for text in shown(memory) if text.startswith("re: ")]) == 9


# -- another process ------------------------------------------------------------------------------

PROCESS = """
import os
import sys

from graphs import IdsModel, says
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import MemoryState, memory_graph

folder, state, said, reply = sys.argv[1:]
schema = {one.__name__: one for one in (MemoryState, MessagesState, IdsModel)}[state]


def answer(messages):
    if reply == "killed":
        print("calling", flush=True)
        sys.stdin.read()  # until the test kills this process
    return reply


memory = ConversationMemory.open(f"{folder}/memory.db")
with SqliteSaver.from_conn_string(f"{folder}/checkpoints.db") as saver:
    model = ScriptedChatModel(replies=[answer])
    graph = memory_graph(memory, model, state_schema=schema, checkpointer=saver)
    graph.invoke(says(schema, said) if said else None, at(), durability="sync")
    print([one.text for one in model.seen[-1]], flush=True)
"""


@pytest.mark.parametrize("state", ["MemoryState", "MessagesState", "IdsModel"])
def test_a_process_killed_while_the_model_is_called_is_resumed_by_another(tmp_path, state):
    def start(said, reply):
        arguments = [sys.executable, "-c", PROCESS, str(tmp_path), state, said, reply]
        environment = {
            "PYTHONPATH": "tests/support",
            "PATH": "",
            "LANGGRAPH_STRICT_MSGPACK": "true",
        }
        return subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    first = start("I parked on level C.", "Noted.")
    assert "level C" in first.communicate(timeout=60)[0]
    second = start("Where did I park?", "killed")
    assert second.stdout.readline() == "calling\n"
    second.kill()
    second.communicate(timeout=60)

    third = start("", "On level C.")
    seen = third.communicate(timeout=60)[0].strip()
    assert seen == str(["I parked on level C.", "Noted.", "Where did I park?"])
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        assert spoken(memory) == [
            *("I parked on level C.", "Noted."),
            *("Where did I park?", "On level C."),
        ]
