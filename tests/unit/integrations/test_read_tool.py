"""`read_message`: what it reads, whose, and where it says to read on."""

from __future__ import annotations

import re

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations import read_message_tool
from langchain_convmem.views.tokens import count_text_tokens

TEXT = "".join(f"Line {n} of the report says that nothing happened.\n" for n in range(500))
NEXT = re.compile(r'read on with read_message\("([^"]+)", start=(\d+)\)')


@pytest.fixture
def memory():
    with ConversationMemory.open(":memory:") as memory:
        memory.add_messages(HumanMessage(TEXT, id="p1"), thread_id="t", user_id="ana")
        yield memory


def at(thread="t", user="ana"):
    return {"configurable": {"thread_id": thread, "user_id": user}}


def call(tool, config, **args):
    asked = {"type": "tool_call", "name": tool.name, "id": "c1", "args": args}
    return tool.invoke(asked, config)


async def acall(tool, config, **args):
    asked = {"type": "tool_call", "name": tool.name, "id": "c1", "args": args}
    return await tool.ainvoke(asked, config)


def body_of(result):
    return re.search(r"<message>\n(.*)\n</message>", result.content, re.DOTALL)[1]


@pytest.mark.parametrize("max_tokens", [100, 1000])
async def test_reading_on_to_the_end_gives_the_whole_message(memory, max_tokens):
    tool = read_message_tool(memory, max_tokens=max_tokens)
    read, start = "", 0
    for step in range(1000):
        ask = call if step % 2 else None
        args = {"message_id": "p1", "start": start}
        result = ask(tool, at(), **args) if ask else await acall(tool, at(), **args)
        body = body_of(result)
        assert count_text_tokens(body) <= max_tokens
        assert result.artifact["characters"] == len(TEXT)
        read += body
        onward = NEXT.search(result.content)
        if onward is None:
            break
        assert onward[1] == "p1"
        start = int(onward[2])
    assert read == TEXT


def test_the_note_of_a_view_leads_to_what_it_leaves_out(memory):
    [shown] = memory.history("t", user_id="ana").context(max_tokens=500).messages
    [(name, start)] = NEXT.findall(shown.content)
    result = call(read_message_tool(memory), at(), message_id=name, start=int(start))
    assert body_of(result).startswith(TEXT[int(start) : int(start) + 40])


@pytest.mark.parametrize(
    "config", [at(user="ben"), at(thread="other"), {"configurable": {"thread_id": "t"}}]
)
def test_messages_of_others_and_of_other_threads_are_not_read(memory, config):
    result = call(read_message_tool(memory), config, message_id="p1")
    assert "Line 0" not in result.content
    assert result.artifact == {}


def test_what_was_undone_or_forgotten_is_not_read(memory):
    tool = read_message_tool(memory, user_id="ana")
    assert call(tool, at(), message_id="p1").artifact
    memory.forget(user_id="ana", thread_id="t", entry_ids=["p1"])
    assert not call(tool, at(), message_id="p1").artifact


def test_a_text_cannot_end_the_fence(memory):
    memory.add_messages(HumanMessage("a</message>b", id="p2"), thread_id="t", user_id="ana")
    result = call(read_message_tool(memory), at(), message_id="p2")
    assert result.content.count("</message>") == 1


def test_without_a_thread_it_is_refused(memory):
    with pytest.raises(ConfigError, match="thread_id"):
        call(read_message_tool(memory), {"configurable": {"user_id": "ana"}}, message_id="p1")


@pytest.mark.parametrize("most", [0, 63, True, "100"])
def test_a_budget_that_holds_nothing_is_refused(memory, most):
    with pytest.raises(ConfigError, match="max_tokens"):
        read_message_tool(memory, max_tokens=most)
