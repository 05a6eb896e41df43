"""With a summarizer, a graph compacts its thread, and the model reads the summary."""

from __future__ import annotations

from graphs import says
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, SummarySettings
from langchain_convmem.integrations.langgraph import create_memory_graph
from langchain_convmem.offline import ExtractiveSummarizer

SETTINGS = SummarySettings(trigger=("messages", 6), keep=("messages", 2))
TEXTS = [f"On {day} May I paid {day}40 euros." for day in range(1, 6)]


def memory_of(when):
    return ConversationMemory.open(
        ":memory:",
        summarizer=ExtractiveSummarizer(),
        summary_settings=SETTINGS,
        summarize_when=when,
    )


def played(memory):
    """Return the messages of the last call of the model, after five turns."""
    model = ScriptedChatModel(replies=[f"Noted {number}." for number in range(5)])
    graph = create_memory_graph(memory, model, recall=False)
    for text in TEXTS:
        graph.invoke(says(text), at())
        memory.flush()
    return graph, model.seen[-1]


def test_without_a_summarizer_there_is_no_such_node(memory):
    graph = create_memory_graph(memory, ScriptedChatModel(replies=["A."]))
    assert "summarize" not in graph.get_graph().nodes


def test_a_turn_that_is_not_remembered_compacts_nothing():
    with memory_of("foreground") as memory:
        model = ScriptedChatModel(replies=["A."] * 6)
        graph = create_memory_graph(memory, model, recall=False)
        for text in TEXTS:
            graph.invoke(says(text), at(remember=False))
        assert memory.history("t", user_id="ana").last_summary is None
