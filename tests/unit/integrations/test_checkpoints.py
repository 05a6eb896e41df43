"""Threads of LangGraph's checkpointers, brought into a memory."""

from __future__ import annotations

from itertools import count

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from postgres_server import running_server
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations import import_checkpoints
from langchain_convmem.testing import HashEmbeddings


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"21 degrees in {city}"


CALLS = count(1)


def talk(saver, user_id="ana", thread_id="t1", turns=2):
    """Let an agent without a memory of ours take turns, and return what its state holds."""
    call = {"name": "weather", "args": {"city": "Porto"}, "id": f"c{next(CALLS)}"}
    replies = [AIMessage("", tool_calls=[call]), "It is 21 degrees.", "My pleasure."]
    agent = create_agent(ScriptedChatModel(replies=replies), [weather], checkpointer=saver)
    config = {"configurable": {"thread_id": thread_id, "user_id": user_id}}
    for number in range(turns):
        said = "How warm is it in Porto?" if number == 0 else f"Thanks, {number}."
        state = agent.invoke({"messages": [HumanMessage(said)]}, config)
    return state["messages"]


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog(), embeddings=HashEmbeddings()) as opened:
        yield opened


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as opened:
            yield opened
    else:
        postgres = pytest.importorskip("langgraph.checkpoint.postgres")
        server = running_server()
        server.execute("CREATE DATABASE checkpoints")
        dsn = server.dsn.replace("dbname=postgres", "dbname=checkpoints")
        with postgres.PostgresSaver.from_conn_string(dsn) as opened:
            opened.setup()
            yield opened
        server.execute("DROP DATABASE checkpoints WITH (FORCE)")


def test_every_thread_becomes_one_and_no_message_differs(memory, saver):
    first, second = talk(saver), talk(saver, thread_id="t2", turns=3)
    reports = import_checkpoints(memory, saver, user_id="ana")
    assert {one.thread_ids: one.added for one in reports} == {
        ("t1",): len(first),
        ("t2",): len(second),
    }
    assert {(one.known, one.skipped) for one in reports} == {(0, ())}
    assert memory.history("t2", user_id="ana").messages == second
    view = memory.history("t1", user_id="ana").messages
    assert view == first
    assert [type(one) for one in view[:4]] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    found = memory.recall("How warm was it in Porto?", user_id="ana")
    assert any("21 degrees" in block.text for block in found.blocks)


def test_importing_again_adds_what_is_new(memory, saver):
    talk(saver)
    import_checkpoints(memory, saver, user_id="ana")
    longer = talk(saver, turns=1)
    [report] = import_checkpoints(memory, saver, user_id="ana")
    assert (report.added, report.known) == (len(longer) - 6, 6)
    assert memory.history("t1", user_id="ana").messages == longer


def test_users_are_found_in_the_metadata(memory, saver):
    talk(saver)
    talk(saver, user_id="bo", thread_id="t2")
    import_checkpoints(memory, saver, find_user=lambda _, found: found.get("user_id"))
    assert [one.key.thread_id for one in memory.threads("ana")] == ["t1"]
    assert [one.key.thread_id for one in memory.threads("bo")] == ["t2"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"user_id": "ana", "find_user": lambda *_: "bo"}, "not both"),
        ({"thread_ids": "t1"}, "one text"),
    ],
)
def test_what_makes_no_sense_is_refused(memory, options, said):
    with pytest.raises(ConfigError, match=said):
        import_checkpoints(memory, InMemorySaver(), **options)


def test_what_is_no_checkpointer_is_refused(memory):
    with pytest.raises(ConfigError, match="PostgresSaver"):
        import_checkpoints(memory, "postgresql://localhost")
