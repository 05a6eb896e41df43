import pytest
from mcp import Client
from scripted_chat import ScriptedChatModel
from turn_hosts import HOSTS

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.integrations import ConversationStore, make_mcp_server
from langchain_convmem.testing import HashEmbeddings


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog(), embeddings=HashEmbeddings()) as memory:
        yield memory


def write_by_turn(host):
    async def write(memory, user_id, asked, answered):
        app = host.app(memory, ScriptedChatModel(replies=[answered]), recall=False)
        await app.ainvoke(asked, {"configurable": {"user_id": user_id, "thread_id": "t"}})

    return write


async def write_by_mcp(memory, user_id, asked, answered):
    async with Client(make_mcp_server(memory, user_id=user_id)) as client:
        for text, said_by in ((asked, "user"), (answered, "assistant")):
            call = {"text": text, "said_by": said_by, "thread_id": "t"}
            assert not (await client.call_tool("remember", call)).is_error


async def write_by_store(memory, user_id, asked, answered):
    store = ConversationStore(memory, user_id=user_id)
    number = len(memory.history("t", user_id=user_id).entries)
    for role, text in (("user", asked), ("assistant", answered)):
        await store.aput(("threads", "t"), f"{role}{number}", {"role": role, "content": text})


def read_by_turn(host):
    async def read(memory, user_id):
        model = ScriptedChatModel(replies=["-"])
        app = host.app(memory, model, recall=False)
        copy = {"configurable": {"user_id": user_id, "thread_id": "t"}}
        await app.ainvoke("What was said?", copy)
        roles = {"human": "user", "ai": "assistant"}
        said = [(roles[one.type], str(one.text)) for one in model.seen[-1] if one.type in roles]
        memory.history("t", user_id=user_id).undo()
        return said[:-1]

    return read


async def read_by_history(memory, user_id):
    view = await memory.history("t", user_id=user_id).aget_messages()
    return [("user" if one.type == "human" else "assistant", str(one.text)) for one in view]


async def read_by_mcp(memory, user_id):
    async with Client(make_mcp_server(memory, user_id=user_id)) as client:
        page = (await client.call_tool("read_thread", {"thread_id": "t"})).structured_content
    return [(line["role"], line["text"]) for line in page["lines"]]


async def read_by_store(memory, user_id):
    items = await ConversationStore(memory, user_id=user_id).asearch(("threads", "t"), limit=99)
    return [(item.value["role"], item.value["content"]) for item in reversed(items)]


WRITERS = [*map(write_by_turn, HOSTS.values()), write_by_mcp, write_by_store]
READERS = [read_by_history, read_by_mcp, read_by_store]


@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
async def test_a_turn_continues_what_all_others_wrote(memory, host):
    expected = []
    for number, write in enumerate(WRITERS):
        await write(memory, "ana", f"Question {number}?", f"Answer {number}.")
        expected += [("user", f"Question {number}?"), ("assistant", f"Answer {number}.")]
    assert await read_by_turn(host)(memory, "ana") == expected
    for read in READERS:
        assert (await read(memory, "ana"))[: len(expected)] == expected
