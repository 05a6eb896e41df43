"""What the loopback server refuses of chats, and of completions of plain text."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import ScriptedReply, ScriptedToolCall
from langchain_convmem.testing.chat_completions import (
    Envelope,
    find_completion_fault,
    find_fault,
    stream_text_events,
    write_text_completion,
)

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


# -- What the strict service for completions refuses, takes, and answers --------------------------


ASKED = {"model": "m", "prompt": "Once"}
ENVELOPE = Envelope("cmpl-1", 0, "m")

SOUND = {
    "a text": {},
    "texts": {"prompt": ["a", "b"]},
    "one stop text": {"stop": "x"},
    "four of them": {"stop": list("abcd")},
    "numbers": {"max_tokens": 0, "temperature": 2, "top_p": 0.5, "logprobs": 5, "echo": True},
    "nothing said": {"stop": None, "max_tokens": None, "logprobs": None},
    "usage of a stream": {"stream": True, "stream_options": {"include_usage": True}},
}

REFUSED = {
    "no model": ({"model": ""}, "model", None),
    "no texts": ({"prompt": []}, "prompt", "empty_array"),
    "tokens": ({"prompt": [1, 2]}, "prompt", "invalid_type"),
    "messages": ({"messages": []}, None, None),
    "five stop texts": ({"stop": list("abcde")}, "stop", "array_above_max_length"),
    "a stop number": ({"stop": 3}, "stop", "invalid_type"),
    "half a token": ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
    "a true token": ({"max_tokens": True}, "max_tokens", "invalid_type"),
    "fewer than none": ({"max_tokens": -1}, "max_tokens", "integer_below_min_value"),
    "too hot": ({"temperature": 2.1}, "temperature", "integer_above_max_value"),
    "usage of no stream": ({"stream_options": {}}, "stream_options", None),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_request_is_taken(name):
    assert find_completion_fault({**ASKED, **SOUND[name]}) is None


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_request_is_refused(name):
    change, param, code = REFUSED[name]
    fault = find_completion_fault({**ASKED, **change})
    assert fault is not None
    assert (fault.status, fault.param, fault.code) == (400, param, code)


def test_a_request_without_a_prompt_is_refused():
    assert find_completion_fault({"model": "m"}).code == "missing_required_parameter"
    assert find_completion_fault("m") is not None


@pytest.mark.parametrize(
    ("asked", "text", "reason"),
    [
        ({}, "one two three", "stop"),
        ({"stop": " three"}, "one two", "stop"),
        ({"stop": ["x", "two", "one two"]}, "", "stop"),
        ({"max_tokens": 2}, "one two", "length"),
        ({"max_tokens": 0, "echo": True}, "Once upon", "length"),
    ],
)
def test_a_body_and_a_stream_say_the_same(asked, text, reason):
    request = {"model": "m", "prompt": "Once upon", **asked}
    reply = ScriptedReply(text="one two three")
    (choice,) = write_text_completion(request, reply, ENVELOPE)["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text, reason)
    pieces = [event["choices"][0] for event in stream_text_events(request, reply, ENVELOPE)]
    assert "".join(piece["text"] for piece in pieces) == text
    assert [piece["finish_reason"] for piece in pieces[-2:]][-1] == reason


def test_sixteen_tokens_are_written_if_nobody_says_how_many():
    body = write_text_completion(ASKED, ScriptedReply(text="word " * 17), ENVELOPE)
    assert body["choices"][0]["text"].split() == ["word"] * 16
    assert body["choices"][0]["finish_reason"] == "length"


def test_a_completion_is_text():
    for reply in (
        ScriptedReply(tool_calls=[ScriptedToolCall("look")]),
        ScriptedReply(reasoning="Hm."),
    ):
        with pytest.raises(ConfigError, match="text"):
            write_text_completion(ASKED, reply, ENVELOPE)
