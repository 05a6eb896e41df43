from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.conversation.tools import answer_cancelled, find_unanswered_calls


def asking(*ids):
    calls = [{"name": f"tool_{at}", "args": {}, "id": own} for at, own in enumerate(ids)]
    return AIMessage("", tool_calls=calls)


def result(own):
    return ToolMessage("x", tool_call_id=own)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], []),
        ([HumanMessage("Hi"), AIMessage("Yes?")], []),
        ([asking("a", "b")], ["tool_0", "tool_1"]),
        ([asking("a", "b"), result("b")], ["tool_0"]),
        ([asking("a", "b"), result("b"), result("a")], []),
        ([asking("a"), HumanMessage("Wait"), result("a")], []),
        ([asking("0", "0"), result("0")], ["tool_1"]),
        ([asking("0"), result("0"), asking("0")], ["tool_0"]),
        ([result("a"), asking("a")], ["tool_0"]),
        ([asking("a"), result("other")], ["tool_0"]),
    ],
)
def test_calls_without_a_later_result_are_unanswered(history, expected):
    assert [call["name"] for call in find_unanswered_calls(history)] == expected


def test_unanswered_calls_can_be_closed():
    history = [asking("a", "b"), result("b")]
    closing = answer_cancelled(AIMessage("", tool_calls=find_unanswered_calls(history)))
    assert [(answer.tool_call_id, answer.name, answer.status) for answer in closing] == [
        ("a", "tool_0", "error")
    ]
    assert closing[0].content == "Error: the call was cancelled"
    assert find_unanswered_calls([*history, *closing]) == []
