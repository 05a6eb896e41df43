from __future__ import annotations

from dataclasses import replace

import pytest
from histories import spoken
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.views.lines import DEFAULT_SPEAKERS, dialog_lines


def test_a_line_says_who_said_what_when_and_where():
    message = HumanMessage(
        "Behind the harbour.",
        id="h1",
        name="Ana",
        additional_kwargs={"timestamp": "1970-01-01T00:00:07Z", "session": 4},
    )
    [entry] = spoken(message)
    [line] = dialog_lines(entry)
    assert (line.line_id, line.part, line.entry_id) == ("h1", 0, entry.id)
    assert (line.key, line.position, line.role) == (entry.key, entry.position, "user")
    assert (line.speaker, line.text) == ("Ana", "Behind the harbour.")
    assert (line.time_ms, line.session) == (7_000, "4")


def test_without_a_name_id_or_time_the_entry_gives_them():
    user, assistant = spoken(HumanMessage("a"), AIMessage("b", id="", name=""))
    [first], [second] = dialog_lines(user), dialog_lines(assistant)
    assert [first.speaker, second.speaker] == list(DEFAULT_SPEAKERS.values())
    assert [first.line_id, second.line_id] == [user.id, assistant.id]
    assert first.time_ms == user.metadata.timing["creation"]
    assert first.session is None


def test_each_piece_of_text_is_a_line_of_its_own():
    [entry] = spoken(AIMessage(["one", " ", {"type": "text", "text": "two"}, "three"], id="m"))
    lines = dialog_lines(entry)
    assert [line.text for line in lines] == ["one", "two", "three"]
    assert [line.line_id for line in lines] == ["m", "m#2", "m#3"]
    assert [line.part for line in lines] == [0, 1, 2]


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage("s"),
        ToolMessage("t", tool_call_id="c"),
        FunctionMessage(name="f", content="f"),
        HumanMessage(" "),
        AIMessage([{"type": "reasoning", "reasoning": "thought"}]),
        ChatMessage(content="d", role="developer"),
    ],
)
def test_only_what_user_and_assistant_said_are_lines(message):
    [entry] = spoken(message)
    assert dialog_lines(entry) == []


def test_summaries_and_controls_are_no_lines():
    [entry] = spoken("a")
    assert dialog_lines(replace(entry, role="summary")) == []
    assert dialog_lines(replace(entry, role="control", message=None)) == []


def test_a_line_is_tagged_with_the_short_plain_values_beside_its_message():
    tags = {"topic": "boats", "weight": 2, "share": 0.5, "urgent": False, "mood": None}
    other = {"session": "one", "timestamp": 7, "speaker": "Bo", "call": {"a": 1}, "why": "hm " * 99}
    [entry] = spoken(HumanMessage(["one", "two"], additional_kwargs={**tags, **other}))
    first, second = dialog_lines(entry)
    assert first.tags == second.tags == tags
    assert hash(first) == hash(replace(first, tags={}))
