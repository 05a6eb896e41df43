"""What the strict Chat Completions service refuses of calls and tools; the rest goes by HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_convmem.testing.chat_completions import find_fault

HELLO = {"role": "user", "content": "Hello"}
FUNCTION = {"name": "look", "arguments": "{}"}
CALL = {"id": "c1", "type": "function", "function": FUNCTION}


def _asked(calls: Any, call_id: str = "c1") -> dict[str, Any]:
    called = {"role": "assistant", "content": "Looking.", "tool_calls": calls}
    told = {"role": "tool", "tool_call_id": call_id, "content": "found"}
    return {"model": "m", "messages": [HELLO, called, told]}


def test_a_call_with_its_result_is_taken():
    assert find_fault(_asked([CALL])) is None


@pytest.mark.parametrize("option", ["tool_choice", "parallel_tool_calls"])
def test_a_choice_among_tools_needs_tools(option):
    request = {"model": "m", "messages": [HELLO], option: "auto"}
    fault = find_fault(request)
    assert fault is not None
    assert fault.param == option
    assert find_fault({**request, "tools": [{"type": "function", "function": FUNCTION}]}) is None


@pytest.mark.parametrize(
    ("calls", "param"),
    [
        ([], ""),
        ("look", ""),
        (["look"], "[0].function"),
        ([{**CALL, "function": None}], "[0].function"),
        ([CALL, {**CALL, "id": "a" * 41}], "[1].id"),
        ([{**CALL, "id": ""}], "[0].id"),
        ([{**CALL, "id": None}], "[0].id"),
        ([{**CALL, "function": {**FUNCTION, "name": "look up"}}], "[0].function.name"),
        ([{**CALL, "function": {**FUNCTION, "name": ""}}], "[0].function.name"),
        ([{**CALL, "function": {"arguments": "{}"}}], "[0].function.name"),
        ([{**CALL, "function": {**FUNCTION, "arguments": {}}}], "[0].function.arguments"),
        ([{**CALL, "function": {"name": "look"}}], "[0].function.arguments"),
    ],
)
def test_a_malformed_call_is_refused_and_named(calls, param):
    fault = find_fault(_asked(calls))
    assert fault is not None
    assert (fault.status, fault.param) == (400, f"messages[1].tool_calls{param}")


def test_a_call_whose_id_is_as_long_as_allowed_is_taken():
    long = "a" * 40
    assert find_fault(_asked([{**CALL, "id": long}], long)) is None
