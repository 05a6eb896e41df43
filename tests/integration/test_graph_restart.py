"""Graphs that go on in another process, from the files of the one before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from graphs import echo, spoken
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import create_memory_graph

pytest.importorskip("langgraph.checkpoint.sqlite.aio")

ROOT = Path(__file__).parents[2]

PROCESS = """
import sys

from graphs import says
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import create_memory_graph


def answer(messages):
    if "park?" not in messages[-1].text:
        return "Noted."
    print("calling", flush=True)
    return sys.stdin.read()  # until the test kills this process


memory = ConversationMemory.open("memory.db")
with SqliteSaver.from_conn_string("checkpoints.db") as saver:
    graph = create_memory_graph(memory, ScriptedChatModel(replies=[answer]), checkpointer=saver)
    for text in ("I parked on level C.", "Where did I park?"):
        graph.invoke(says(text), at(), durability="sync")
"""


def _start(code, folder):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    environment = {**os.environ, "PYTHONPATH": paths, "LANGGRAPH_STRICT_MSGPACK": "true"}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


async def test_a_process_killed_while_the_model_is_called_is_resumed_by_another(tmp_path):
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    with _start(PROCESS, tmp_path) as first:
        assert first.stdout.readline() == "calling\n"
        first.kill()

    path = str(tmp_path / "checkpoints.db")
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            model = ScriptedChatModel(replies=[echo])
            graph = create_memory_graph(memory, model, checkpointer=saver)
            await graph.ainvoke(None, at(recall=False))
        chat = ["I parked on level C.", "Noted.", "Where did I park?", "re: Where did I park?"]
        assert [one.text for one in model.seen[-1]] == chat[:3]
        assert spoken(memory) == chat
