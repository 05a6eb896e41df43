"""An agent in several processes, one after the other, with the same two files."""

from __future__ import annotations

import pytest
from forked_processes import ForkedProcess
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted_agents import agent_with, says, shape, spoken
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory

_PROCESS = """
import asyncio, sys

folder, keep_state, way, step = sys.argv[1:]
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from scripted_agents import agent_with, calls, says
from scripted_chat import ScriptedChatModel, at
from langchain_convmem import ConversationMemory

replies, said = {
    "asks": ([calls("yard")], says("Where is my bicycle?")),
    "decides": (["In the yard."], Command(resume={"decisions": [{"type": "approve"}]})),
}[step]
place = folder + "/checkpoints.db"

def agent_of(memory, saver):
    person = HumanInTheLoopMiddleware({"look": True})
    return agent_with(
        memory,
        ScriptedChatModel(replies=replies),
        before=[person],
        options={"keep_state": keep_state},
        checkpointer=saver,
    )

def run():
    with (
        ConversationMemory.open(folder + "/memory.db") as memory,
        SqliteSaver.from_conn_string(place) as saver,
    ):
        agent_of(memory, saver).invoke(said, at())

async def arun():
    async with (
        ConversationMemory.open(folder + "/memory.db") as memory,
        AsyncSqliteSaver.from_conn_string(place) as saver,
    ):
        await agent_of(memory, saver).ainvoke(said, at())

run() if way == "invoke" else asyncio.run(arun())
"""


@pytest.mark.parametrize(("keep_state", "way"), [("all", "invoke"), ("turn", "ainvoke")])
def test_what_one_process_asks_another_decides_and_a_third_remembers(tmp_path, keep_state, way):
    for step in ("asks", "decides"):
        assert ForkedProcess(_PROCESS, tmp_path, keep_state, way, step).ends() == 0
    with (
        ConversationMemory.open(tmp_path / "memory.db") as memory,
        SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver,
    ):
        loop = [
            "human: Where is my bicycle?",
            "ai -> c0",
            "tool c0: yard: a bicycle",
            "ai: In the yard.",
        ]
        assert spoken(memory) == loop
        entries = memory.history("t", user_id="ana").entries
        assert len({entry.turn_id for entry in entries}) == 1, "one turn in two processes"
        model = ScriptedChatModel(replies=["You are welcome."])
        options = {"keep_state": keep_state}
        agent = agent_with(memory, model, options=options, checkpointer=saver)
        returned = agent.invoke(says("Thanks."), at())["messages"]
        assert shape(model.seen[0]) == [*loop, "human: Thanks."]
        assert len(returned) == {"all": 6, "turn": 2}[keep_state]
