"""Replies that break off: the words that came are kept, marked, and make way for a whole reply."""

from __future__ import annotations

import asyncio

import pytest
from graphs import says, shown
from langchain_core.messages import RemoveMessage
from langchain_core.runnables import Runnable
from scripted_agents import calls
from scripted_chat import ProviderError, ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import create_memory_graph


def breaking(*replies, after=2):
    return ScriptedChatModel(replies=list(replies) or ["One two three four"], breaks_after=after)


def a_graph(memory, model, saver=None):
    return create_memory_graph(memory, model, checkpointer=saver)


def run_broken(graph):
    with pytest.raises(ProviderError):
        list(graph.stream(says("Count.", "q1"), at(), stream_mode="messages"))


def test_broken_words_stay_where_a_state_is_kept_that_never_held_them(memory, saver):
    run_broken(a_graph(memory, breaking(), saver))
    model = ScriptedChatModel(replies=["Three.", "Four."])
    graph = a_graph(memory, model, saver)
    for text in ("Go on.", "And now?"):
        graph.invoke(says(text), at())
    said = ["Count.", "One two ", "Go on.", "Three.", "And now?"]
    assert [one.text for one in model.seen[-1]] == said
    assert shown(memory) == [*said, "Four."]


def test_broken_words_go_with_the_question_that_a_state_removes(memory, saver):
    run_broken(a_graph(memory, breaking(), saver))
    graph = a_graph(memory, ScriptedChatModel(replies=["Three.", "Four."]), saver)
    graph.invoke(says("Go on."), at())
    graph.update_state(at(), {"messages": [RemoveMessage(id="q1")]})
    graph.invoke(says("And now?"), at())
    assert shown(memory) == ["Go on.", "Three.", "And now?", "Four."]


def test_a_tool_call_that_came_is_stored_though_the_run_is_cancelled_at_once(memory):
    class Cancelled(Runnable):
        """Calls a tool, in a run that is cancelled as soon as it has."""

        def invoke(self, given, config=None, **more):
            raise NotImplementedError

        async def ainvoke(self, given, config=None, **more):
            runs[0].cancel()
            return calls("yard")

    async def chat():
        runs.append(asyncio.create_task(graph.ainvoke(says("Where?"), at())))
        with pytest.raises(asyncio.CancelledError):
            await runs[0]

    runs = []
    graph = a_graph(memory, Cancelled())
    asyncio.run(chat())
    *_, last = memory.history("t", user_id="ana").entries
    assert [call["id"] for call in last.message.tool_calls] == ["c0"]
