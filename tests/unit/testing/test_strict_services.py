from __future__ import annotations

import re
from typing import Any

import pytest
from strict_chats import find_chat_fault
from strict_converse import find_converse_fault

HELLO = {"role": "user", "content": "Hello there"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "found"}


def chat(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **fields}


@pytest.mark.parametrize(
    ("request_body", "param"),
    [
        (chat(), "messages"),
        (chat({"role": "robot", "content": "hi"}), "messages[0].role"),
        (chat(HELLO, TOLD), "messages[1].role"),
        (chat(HELLO, ASKED, HELLO), "messages[2].role"),
        (chat(HELLO, ASKED), "messages[1].role"),
        (chat({**HELLO, "name": "Ana Lee"}), "messages[0].name"),
        (chat({"role": "user", "content": None}), "messages[0].content"),
        (chat({"role": "user", "content": []}), "messages[0].content"),
        (
            chat({"role": "user", "content": [{"type": "reasoning"}]}),
            "messages[0].content[0].type",
        ),
        (chat(HELLO, {**ASKED, "content": "Hm.", "tool_calls": []}), "messages[1].tool_calls"),
        (chat(HELLO, stream_options={}), "stream_options"),
        (chat(HELLO, tool_choice="auto"), "tool_choice"),
    ],
)
def test_a_chat_out_of_order_is_refused_by_name(request_body, param):
    assert find_chat_fault(chat(HELLO, ASKED, TOLD)) is None
    fault = find_chat_fault(request_body)
    assert fault is not None
    assert (fault.status, fault.param) == (400, param)


TOOLS = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]}
USE = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}
RESULT = {"toolResult": {"toolUseId": "c1", "content": [{"text": "found"}]}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or [{"text": "Hi"}]}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks) or [{"text": "Yes?"}]}


def converse(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), "toolConfig": TOOLS, **fields}


@pytest.mark.parametrize(
    ("request_body", "reason"),
    [
        ({}, "messages field is empty"),
        (converse(assistant(), user()), "start with a user message"),
        (converse(user(), user()), "alternate.*messages.1"),
        (converse(user(), assistant()), "must end with a user"),
        (converse(user({"text": " \n"})), "messages.0.content.0 is blank"),
        (converse(user({"type": "text", "text": "Hi"})), "exactly one"),
        (converse(user(), system=[{"text": " "}]), "system.0 is blank"),
        (converse(user(), assistant(USE)), "Ids: c1"),
        (converse(user(), assistant(USE), user()), "Expected toolResult.*Ids: c1"),
        (converse(user(RESULT)), "exceeds that"),
        (converse(user(), assistant(USE), user({"text": "Well."}, RESULT)), "before all other"),
        (
            {"messages": [user(), assistant(USE), user(RESULT)]},
            "toolConfig field must be defined",
        ),
        (converse(user(), toolConfig={"tools": []}), "1 member or more"),
        (
            converse(
                user(),
                assistant({"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "Y"}),
                user(),
            ),
            "signature field.*missing",
        ),
    ],
)
def test_a_conversation_out_of_order_is_refused_with_the_reason(request_body, reason):
    assert find_converse_fault(converse(user(), assistant(USE), user(RESULT))) is None
    fault = find_converse_fault(request_body)
    assert fault is not None
    assert (fault.code, fault.status) == ("ValidationException", 400)
    assert re.search(reason, fault.message), fault.message
