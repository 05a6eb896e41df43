"""What a turn leaves in the log, and when."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableLambda
from scripted_chat import WAYS, ScriptedChatModel, at

CALL = {"name": "look", "args": {"where": "garage"}, "id": "c1", "type": "tool_call"}


def _entries(memory, thread_id="t", user_id="ana"):
    return memory.history(thread_id, user_id=user_id).entries


def _spoken(memory, thread_id="t"):
    return [(entry.role, *entry.contents) for entry in _entries(memory, thread_id)]


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_keeps_id_usage_and_tool_calls(memory, way):
    usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    reply = AIMessage("Let me look.", id="msg-1", tool_calls=[CALL], usage_metadata=usage)
    WAYS[way](memory.wrap(ScriptedChatModel(replies=[reply]), recall=False), "Where?", at())
    stored = _entries(memory)[-1].message
    assert stored.id == "msg-1"
    assert stored.usage_metadata == usage
    assert stored.tool_calls == [CALL]
    assert stored.text == "Let me look."


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_without_an_id_is_known_by_the_id_of_its_run(memory, way):
    WAYS[way](memory.wrap(ScriptedChatModel(replies=["Yes."]), recall=False), "So?", at())
    assert _entries(memory)[-1].message_id.startswith("lc_run-")


@pytest.mark.parametrize("way", WAYS)
def test_a_call_returns_what_the_chain_returns(memory, way):
    model = ScriptedChatModel(replies=[AIMessage("Yes, I do.", id="m")])
    plain = WAYS[way](model, "So?", at())
    wrapped = WAYS[way](memory.wrap(model, recall=False), "So?", at())
    assert wrapped == plain


def test_a_chunk_that_a_chain_returns_whole_is_stored_as_a_message(memory):
    chain = memory.wrap(RunnableLambda(lambda _: AIMessageChunk(content="Yes.")), recall=False)
    chain.invoke("So?", at())
    assert type(_entries(memory)[-1].message) is AIMessage


def test_a_batch_over_threads_stores_each_turn_in_its_thread(memory):
    model = ScriptedChatModel(replies=[lambda messages: f"re: {messages[-1].text}"])
    chain = memory.wrap(model, recall=False)
    names = [f"t{number}" for number in range(8)]
    replies = chain.batch(names, [at(name) for name in names])
    assert [reply.text for reply in replies] == [f"re: {name}" for name in names]
    for name in names:
        assert _spoken(memory, name) == [("user", name), ("assistant", f"re: {name}")]


def test_an_id_that_a_model_repeats_costs_no_earlier_reply(memory):
    chain = memory.wrap(ScriptedChatModel(replies=[AIMessage("Yes.", id="same")]), recall=False)
    chain.invoke("So?", at())
    list(chain.stream("Really?", at()))
    assert [entry.contents for entry in _entries(memory)] == [
        ("So?",),
        ("Yes.",),
        ("Really?",),
        ("Yes.",),
    ]
    assert len({message.id for message in memory.history("t", user_id="ana").messages}) == 4


def test_what_the_model_does_to_its_messages_changes_nothing_that_is_stored(memory):
    def meddle(messages):
        messages[-1].content[0]["text"] = "changed"
        messages[-1].additional_kwargs["mood"]["now"] = "changed"
        return "Done."

    mood = {"mood": {"now": "calm"}}
    said = HumanMessage([{"type": "text", "text": "as it was"}], additional_kwargs=mood)
    memory.wrap(ScriptedChatModel(replies=[meddle]), recall=False).invoke(said, at())
    assert said.content[0]["text"] == "as it was"
    assert said.additional_kwargs == mood == {"mood": {"now": "calm"}}
    assert _entries(memory)[0].contents == ("as it was",)


async def test_a_turn_that_is_read_as_events_is_stored_once(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["On level three."]), recall=False)
    events = [event async for event in chain.astream_events("Where?", at(), version="v2")]
    tokens = [e["data"]["chunk"].text for e in events if e["event"] == "on_chat_model_stream"]
    assert "".join(tokens) == "On level three."
    assert _spoken(memory) == [("user", "Where?"), ("assistant", "On level three.")]


async def test_events_that_are_no_longer_read_leave_what_came(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["On level three."]), recall=False)
    events = chain.astream_events("Where?", at(), version="v2")
    async for event in events:
        if event["event"] == "on_chain_stream":
            break
    await events.aclose()
    assert _spoken(memory)[0] == ("user", "Where?")
    await memory.wrap(ScriptedChatModel(replies=["Yes."]), recall=False, queue_timeout_s=5).ainvoke(
        "Next", at()
    )
    assert _spoken(memory)[-2:] == [("user", "Next"), ("assistant", "Yes.")]
