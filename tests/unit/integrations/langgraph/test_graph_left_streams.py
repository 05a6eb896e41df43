"""Synchronous streams whose reader leaves: what LangGraph does, and what is stored."""

from __future__ import annotations

from contextlib import closing

from graphs import answer_of, says, shown, spoken
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
)


def _leave(graph, text="Where?", **options):
    """Read the first piece of a stream, and no more."""
    more = {"stream_mode": "messages", **options}
    with closing(graph.stream(says(text), at(), **more)) as parts:
        return next(parts)


# -- a memory graph -------------------------------------------------------------------------------


def test_a_question_that_comes_again_after_its_reader_left_has_one_answer(memory, saver):
    model = ScriptedChatModel(replies=["In the hall.", "In the yard."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    with closing(graph.stream(says("Where?", "q1"), at(), stream_mode="messages")) as parts:
        next(parts)
    graph.invoke(says("Where?", "q1"), at())
    assert shown(memory) == ["Where?", "In the yard."]


def test_a_run_that_is_resumed_after_its_reader_left_has_one_answer(memory, saver):
    model = ScriptedChatModel(replies=["In the hall.", "In the yard."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    _leave(graph)
    reply = answer_of(graph.invoke(None, at()))
    assert shown(memory) == ["Where?", reply]


def test_a_reply_that_waits_for_a_human_is_not_stored_before(memory, saver):
    model = ScriptedChatModel(replies=["In the hall."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    value, modes = says("Where?"), ["messages", "updates"]
    with closing(
        graph.stream(value, at(), stream_mode=modes, interrupt_before=["record"])
    ) as parts:
        for mode, part in parts:
            if mode == "updates" and "__interrupt__" in part:
                break
    assert spoken(memory) == ["Where?"]
    graph.invoke(None, at())
    assert spoken(memory) == ["Where?", "In the hall."]
