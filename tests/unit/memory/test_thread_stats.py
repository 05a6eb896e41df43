"""`memory.stats()`: a thread in numbers."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputParser
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.turns.stats import ThreadStats

CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


def _usage(read, written):
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _stats(memory, thread_id="t"):
    found = memory.stats(thread_id, user_id="ana")
    assert asyncio.run(memory.astats(thread_id, user_id="ana")) == found
    return found


def test_a_thread_that_does_not_exist_has_nothing(memory):
    assert _stats(memory) == ThreadStats()
    assert memory.threads("ana") == []


def test_messages_are_counted_by_role_and_turns_as_the_history_shows_them(memory):
    memory.add_messages(
        [
            SystemMessage("Be brief."),
            HumanMessage("Where"),
            HumanMessage("did I park?"),
            AIMessage("", tool_calls=[CALL], usage_metadata=_usage(10, 2)),
            ToolMessage("level 3", tool_call_id="c1"),
            AIMessage("On level 3.", usage_metadata=_usage(20, 5)),
            AIMessage("Anything else?"),
        ],
        thread_id="t",
        user_id="ana",
    )
    found = _stats(memory)
    assert found.messages == {"system": 1, "user": 2, "tool": 1, "assistant": 3}
    assert found.turns == len(memory.history("t", user_id="ana").turns)
    assert (found.input_tokens, found.output_tokens, found.unreported) == (30, 7, 1)
    assert (found.entries, found.retracted, found.summaries) == (7, 0, 0)


def test_what_a_reply_took_is_counted_once_however_often_it_is_cut_or_edited(memory):
    memory.add_messages(
        [HumanMessage("Where?"), AIMessage("On level 3.", id="r1", usage_metadata=_usage(20, 5))],
        thread_id="t",
        user_id="ana",
    )
    history = memory.history("t", user_id="ana")
    first = _stats(memory)
    history.cut_reply("On level")
    history.cut_reply("On")
    history.replace("r1", "On level 4.")
    found = _stats(memory)
    assert (found.input_tokens, found.output_tokens) == (20, 5)
    assert (found.interrupted, found.retracted) == (1, 3)
    assert found.first_ms == first.first_ms
    history.replace("r1", AIMessage("No.", usage_metadata=_usage(30, 1)))
    assert _stats(memory).input_tokens == 50


def test_threads_of_other_names_and_users_do_not_count(memory):
    for user_id, thread_id in (("ana", "t"), ("ana", "u"), ("ben", "t"), (None, "t")):
        memory.add_messages([HumanMessage("Hi!")], thread_id=thread_id, user_id=user_id)
    assert _stats(memory).entries == 1
    assert memory.stats("t").entries == 1


def test_the_placeholder_that_views_put_first_is_no_turn(memory):
    memory.history("t", user_id="ana").add("assistant", "Good evening!")
    assert _stats(memory).turns == 1


def test_what_is_undone_is_retracted_and_its_tokens_were_spent(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["One.", "Two."]), recall=False)
    for question in ("First?", "Second?"):
        chain.invoke(question, at())
    before = _stats(memory)
    memory.history("t", user_id="ana").undo()
    after = _stats(memory)
    assert before.messages == {"user": 2, "assistant": 2}
    assert sum(after.messages.values()) == 4 - after.retracted
    assert after.retracted > 0
    assert after.entries == before.entries + 1
    assert (after.input_tokens, after.output_tokens) == (1 + 3, 2 + 2)


def test_interrupted_replies_are_counted_until_they_are_replaced(memory):
    asked = HumanMessage("Where?", id="q1")
    broken = memory.wrap(ScriptedChatModel(replies=["On level 3."], breaks_after=2), recall=False)
    with pytest.raises(ProviderError):
        list(broken.stream(asked, at()))
    assert _stats(memory).interrupted == 1
    memory.wrap(ScriptedChatModel(replies=["On level 3."]), recall=False).invoke(asked, at())
    assert _stats(memory).interrupted == 0


def test_summaries_are_counted_beside_messages(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["On level 3."]), recall=False)
    chain.invoke("Where?", at())
    history = memory.history("t", user_id="ana")
    history.add_summary("The car is on level 3.", history.summary_window())
    found = _stats(memory)
    assert found.summaries == 1
    assert found.messages == {"user": 1, "assistant": 1}
    assert found.turns == 2


def test_the_first_and_the_last_time_are_those_of_the_entries(memory):
    history = memory.history("t", user_id="ana")
    for text in ("Hi!", "Ho!"):
        history.add("user", text)
    found, entries = _stats(memory), history.entries
    assert found.first_ms == entries[0].metadata.timing["creation"]
    assert found.last_ms == entries[1].metadata.timing["creation"]


def test_bytes_grow_with_what_was_said(memory):
    history = memory.history("t", user_id="ana")
    history.add("user", "ß" * 1000)
    small = _stats(memory).bytes
    history.add("user", "ß" * 1000)
    assert small > 2000
    assert _stats(memory).bytes == pytest.approx(2 * small, rel=0.05)


def test_what_an_application_keeps_under_our_key_breaks_nothing(memory):
    turn = memory.history("t", user_id="ana").add("user", "Hi!")
    turn.add_data("own_tokens", ["mine"])
    assert _stats(memory).own_calls == 0


class StructuredModel(ScriptedChatModel):
    def with_structured_output(self, schema, **_):
        return self | JsonOutputParser()


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_what_a_summariser_and_a_profiler_take_is_counted(way):
    usage = {"input_tokens": 90, "output_tokens": 10, "total_tokens": 100}
    replies = [AIMessage(text, usage_metadata=usage) for text in ("They live.", '{"items": []}')]
    model = StructuredModel(replies=replies)
    with ConversationMemory(InMemoryLog(), summarizer=model, profiler=model) as memory:
        memory.history("t").add("user", "I live in Porto, near the river.")
        memory.history("t").add("assistant", "Noted.")
        if way == "sync":
            assert memory.summarize("t", force=True)
            assert memory.update_profile(thread_id="t").calls == 1
        else:
            assert await memory.asummarize("t", force=True)
            assert (await memory.aupdate_profile(thread_id="t")).calls == 1
        found = memory.stats("t")
    assert (found.own_calls, found.own_input_tokens, found.own_output_tokens) == (2, 180, 20)


def test_no_turn_counts_the_thread(memory, monkeypatch):
    from langchain_convmem import memory as thread_stats

    monkeypatch.setattr(thread_stats, "compute_stats", None)
    memory.wrap(ScriptedChatModel(replies=["Yes."])).invoke("Really?", at())
    assert len(memory.history("t", user_id="ana").entries) == 2
