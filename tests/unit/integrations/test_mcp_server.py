from contextlib import asynccontextmanager

import pytest
from mcp import Client
from scripted_chat import entries

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations import make_mcp_server
from langchain_convmem.testing import HashEmbeddings

CAT = "I adopted a cat, Miso."


@pytest.fixture
def memory():
    with ConversationMemory.open(":memory:", embeddings=HashEmbeddings()) as memory:
        memory.add_messages([CAT, ("ai", "How lovely!")], thread_id="monday", user_id="ana")
        memory.add_messages(["My cat is called Tofu."], thread_id="monday", user_id="bo")
        yield memory


@asynccontextmanager
async def connect(memory, **options):
    options.setdefault("user_id", "ana")
    async with Client(make_mcp_server(memory, **options)) as client:
        yield client


async def test_recall_returns_fenced_text_and_the_lines_as_values(memory):
    async with connect(memory) as client:
        found = await client.call_tool("recall", {"query": "Which cat do I have?"})
    [text] = found.content
    assert text.text.startswith("<recalled>")
    assert f"User: {CAT}" in text.text
    block = found.structured_content["blocks"][0]
    line = block["lines"][0]
    assert (line["text"], line["thread_id"], line["role"]) == (CAT, "monday", "user")
    assert line["trust"] == "user"
    assert found.structured_content["verdict"] == "answered"


async def test_no_argument_leads_to_another_user(memory):
    async with connect(memory) as client:
        tools = (await client.list_tools()).tools
        for tool in tools:
            assert "user_id" not in tool.input_schema["properties"]
        found = await client.call_tool(
            "recall", {"query": "What is the cat of bo called?", "user_id": "bo", "user": "bo"}
        )
        blocks = found.structured_content["blocks"]
        texts = [line["text"] for block in blocks for line in block["lines"]]
        assert "My cat is called Tofu." not in texts
        read = await client.call_tool("read_thread", {"thread_id": "monday"})
        assert [line["text"] for line in read.structured_content["lines"]] == [CAT, "How lovely!"]
        await client.call_tool("remember", {"text": "hers", "thread_id": "bo"})
        latest = (await client.call_tool("list_threads", {"limit": 1})).structured_content
        assert [one["thread_id"] for one in latest["result"]] == ["bo"]
    assert [info.key.thread_id for info in memory.threads(user_id="bo")] == ["monday"]


async def test_tools_say_whether_they_read_add_or_erase(memory):
    async with connect(memory) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    hints = {name: tool.annotations for name, tool in tools.items()}
    readers = {name for name, hint in hints.items() if hint.read_only_hint}
    assert readers == {"recall", "profile", "read_thread", "list_threads"}
    changes = {name: hints[name].destructive_hint for name in hints.keys() - readers}
    assert changes == {"remember": False, "forget": True}
    assert all(tool.output_schema for tool in tools.values())


async def test_a_thread_is_read_backwards_page_by_page(memory):
    memory.add_messages([f"line {n}" for n in range(7)], thread_id="long", user_id="ana")
    pages, before = [], None
    async with connect(memory) as client:
        while True:
            call = {"thread_id": "long", "limit": 3, "before": before}
            page = (await client.call_tool("read_thread", call)).structured_content
            pages.append([line["text"] for line in page["lines"]])
            before = page["earlier"]
            if before is None:
                break
    assert pages == [["line 4", "line 5", "line 6"], ["line 1", "line 2", "line 3"], ["line 0"]]


async def test_a_note_is_stored_once_however_often_it_is_sent(memory):
    call = {"text": "Likes tea.", "message_id": "n1"}
    async with connect(memory) as client:
        for _ in range(2):
            stored = await client.call_tool("remember", call)
            assert stored.structured_content == {"message_id": "n1", "thread_id": "mcp"}
    assert [entry.contents for entry in entries(memory, "mcp")] == [("Likes tea.",)]


@pytest.mark.parametrize("said_by", ["user", "assistant"])
async def test_a_note_is_not_trusted_as_words_of_the_user(memory, said_by):
    async with connect(memory) as client:
        await client.call_tool("remember", {"text": "I like tea.", "said_by": said_by})
        read = await client.call_tool("read_thread", {"thread_id": "mcp"})
    [line] = read.structured_content["lines"]
    assert (line["trust"], line["role"]) == ("tool", said_by)


@pytest.mark.parametrize(("only", "left"), [(None, 0), (CAT, 1)])
async def test_forgetting_takes_two_calls(memory, only, left):
    history = memory.history("monday", user_id="ana")
    ids = [one.id for one in history.entries if one.contents == (only,)] or None
    call = {"thread_id": "monday", "message_ids": ids}
    async with connect(memory) as client:
        asked = (await client.call_tool("forget", call)).structured_content
        assert (asked["is_done"], asked["threads"], asked["messages"]) == (False, 1, 2 - left)
        assert len(history.entries) == 2
        call["confirmation"] = asked["confirmation"]
        assert (await client.call_tool("forget", call)).structured_content["is_done"]
    assert len(history.entries) == left
    assert len(memory.threads(user_id="bo")) == 1


async def test_a_confirmation_is_good_for_what_it_was_asked_for_alone(memory):
    memory.add_messages(["other"], thread_id="tuesday", user_id="ana")
    async with connect(memory) as client:
        asked = await client.call_tool("forget", {"thread_id": "tuesday"})
        code = asked.structured_content["confirmation"]
        for call in ({"thread_id": "monday"}, {"everything": True}):
            refused = await client.call_tool("forget", {**call, "confirmation": code})
            assert refused.is_error
        [other] = memory.history("tuesday", user_id="ana").entries
        memory.forget(user_id="ana", thread_id="tuesday", entry_ids=[other.id])
        memory.add_messages(["came in since"], thread_id="tuesday", user_id="ana")
        late = await client.call_tool("forget", {"thread_id": "tuesday", "confirmation": code})
        assert late.is_error
        for forged in ("", "x", "0" * 64, "²" * 64):
            call = {"thread_id": "tuesday", "confirmation": forged}
            assert (await client.call_tool("forget", call)).is_error
    assert len(memory.threads(user_id="ana")) == 2


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"message_ids": ["a"]},
        {"thread_id": "monday", "message_ids": []},
        {"thread_id": "monday", "everything": True},
        {"thread_id": "no such"},
    ],
)
async def test_forgetting_nothing_in_particular_is_refused(memory, call):
    async with connect(memory) as client:
        assert (await client.call_tool("forget", call)).is_error
    assert len(memory.threads(user_id="ana")) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"memory": None},
        {"user_id": None, "tokens": {}},
        {"user_id": "ana", "tokens": {"a" * 16: "ana"}},
        {"user_id": None, "tokens": {"short": "ana"}},
        {"user_id": None, "tokens": ["a" * 16]},
        {"user_id": ""},
    ],
)
def test_a_server_of_nobody_or_of_two_is_refused(memory, options):
    with pytest.raises(ConfigError):
        make_mcp_server(**{"memory": memory, "user_id": "ana", **options})


async def test_a_server_with_tokens_serves_nobody_without_one(memory):
    async with connect(memory, user_id=None, tokens={"a" * 16: "ana"}) as client:
        found = await client.call_tool("recall", {"query": "cat"})
    assert found.is_error
    assert "bearer token" in found.content[0].text


async def test_every_argument_has_a_limit_in_the_schema(memory):
    async with connect(memory) as client:
        tools = (await client.list_tools()).tools
    limits = {"maxLength", "maximum", "maxItems", "enum", "pattern", "format"}
    for tool in tools:
        for name, schema in tool.input_schema["properties"].items():
            kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
            for kind in kinds:
                assert kind["type"] == "boolean" or limits & kind.keys(), (tool.name, name)


@pytest.mark.parametrize(
    ("tool", "call", "named"),
    [
        ("recall", {"query": "cat " * 1_000_000}, "query"),
        ("recall", {"query": "cat", "max_tokens": 10**9}, "max_tokens"),
        ("recall", {"query": "cat", "since": "2026-01-01T00:00:00"}, "since"),
        ("remember", {"text": "t" * 100_001}, "text"),
        ("forget", {"thread_id": "monday", "message_ids": ["m"] * 501}, "message_ids"),
        ("forget", {"thread_id": "monday", "confirmation": "²" * 64}, "confirmation"),
    ],
)
async def test_what_is_beyond_a_limit_is_refused_by_name(memory, monkeypatch, tool, call, named):
    def refuse(*_args, **_options):
        raise AssertionError("nothing may be read or written")

    for name in ("entries", "append", "threads"):
        monkeypatch.setattr(memory.log, name, refuse)
    async with connect(memory) as client:
        refused = await client.call_tool(tool, call)
    assert refused.is_error
    assert named in refused.content[0].text
    assert len(refused.content[0].text) < 500
    assert "input_value" not in refused.content[0].text
