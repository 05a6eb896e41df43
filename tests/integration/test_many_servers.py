"""Two server processes over one log, between which users move from turn to turn."""

import json

import pytest
from dynamodb_servers import moto_server, new_client, new_table_name
from forked_processes import ForkedProcess
from postgres_server import new_schema, running_server

from langchain_convmem import ConversationMemory
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing import HashEmbeddings

pytestmark = [pytest.mark.sockets, pytest.mark.slow]

SERVER = """
import json, sys
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_convmem import ConversationMemory
from langchain_convmem.testing import HashEmbeddings
from langchain_convmem.views.context import is_framing

seen = []

def answer(given):
    messages = given["messages"] if isinstance(given, dict) else given
    seen[:] = [str(one.text) for one in messages if not is_framing(one)]
    return AIMessage("I see.")

with ConversationMemory.open(sys.argv[1], embeddings=HashEmbeddings()) as memory:
    chain = memory.wrap(RunnableLambda(answer), recall_tokens=300, profile_tokens=0)
    for line in iter(sys.stdin.readline, ""):
        user, thread, text = json.loads(line)
        chain.invoke(text, {"configurable": {"user_id": user, "thread_id": thread}})
        print(json.dumps(seen), flush=True)
"""
ALLERGIES = {"ana": "I'm allergic to walnuts.", "ben": "I'm allergic to sesame."}
TURNS = 8


@pytest.fixture(params=["sqlite", "dynamodb", pytest.param("postgres", marks=pytest.mark.postgres)])
def address(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "memory.db")
    elif request.param == "postgres":
        directory = running_server().directory
        yield f"postgresql://postgres@/postgres?host={directory}&schema={new_schema()}"
    else:
        with moto_server() as url:
            table = new_table_name()
            DynamoDBLog(table, client=new_client(url)).create_table()
            yield f"dynamodb://{table}?region=eu-central-1&endpoint={url}"


def test_users_who_move_between_servers_are_the_same_everywhere(address, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    said = {(user, thread): [] for user in ALLERGIES for thread in ("monday", "friday")}
    with ForkedProcess(SERVER, address) as one, ForkedProcess(SERVER, address) as other:
        servers = [one, other]
        for number in range(TURNS):
            thread = "monday" if number < TURNS - 2 else "friday"
            turns = dict(zip(ALLERGIES, servers, strict=True))
            servers.reverse()
            texts = {user: f"Number {number} of {user}." for user in ALLERGIES}
            if number == 1:
                texts = ALLERGIES
            elif number == TURNS - 1:
                texts = dict.fromkeys(ALLERGIES, "What am I allergic to?")
            for user, server in turns.items():  # both turns are under way at once
                server.stdin.write(json.dumps([user, thread, texts[user]]) + "\n")
            for user, server in turns.items():
                *before, question = json.loads(server.stdout.readline())
                assert before == [part for text in said[user, thread] for part in (text, "I see.")]
                if number == TURNS - 1:
                    recalled = [own for own, text in ALLERGIES.items() if text in question]
                    assert recalled == [user]
                said[user, thread].append(texts[user])
    with ConversationMemory.open(address, embeddings=HashEmbeddings()) as memory:
        for (user, thread), texts in said.items():
            stored = memory.log.entries(ThreadKey(user, thread))
            both = [part for text in texts for part in (text, "I see.")]
            assert [entry.contents[0] for entry in stored if entry.contents] == both
        for user, text in ALLERGIES.items():
            assert [item.text for item in memory.profile(user).current] == [text]
