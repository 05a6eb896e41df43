"""With a summarizer, what an agent says is compacted behind the run, and the model reads it."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from scripted_agents import agent_with, says
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, SummarySettings
from langchain_convmem.offline import ExtractiveSummarizer

SETTINGS = SummarySettings(trigger=("messages", 6), keep=("messages", 2))


@pytest.fixture(params=["foreground", "background"])
def memory(request):
    with ConversationMemory.open(
        ":memory:",
        summarizer=ExtractiveSummarizer(),
        summary_settings=SETTINGS,
        summarize_when=request.param,
    ) as opened:
        yield opened


def test_a_tool_loop_is_covered_whole_or_not_at_all(memory):
    call = {"name": "look", "args": {"place": "harbour"}, "id": "c0", "type": "tool_call"}
    replies = [AIMessage("", tool_calls=[call]), "Red.", "A.", "B.", "C."]
    model = ScriptedChatModel(replies=replies)
    agent = agent_with(memory, model, options={"recall": False})
    for text in ("What colour is my boat?", "One.", "Two.", "Three."):
        agent.invoke(says(text), at())
        memory.flush()
    assert memory.history("t", user_id="ana").last_summary is not None
    shown = model.seen[-1]
    calls = {one["id"] for message in shown for one in getattr(message, "tool_calls", [])}
    answers = {message.tool_call_id for message in shown if message.type == "tool"}
    assert calls == answers
