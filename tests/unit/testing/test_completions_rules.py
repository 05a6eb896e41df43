"""What the strict service for completions refuses, takes, and answers."""

from __future__ import annotations

import pytest

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import ScriptedReply, ScriptedToolCall
from langchain_convmem.testing.chat_completions import (
    Envelope,
    find_completion_fault,
    text_completion,
    text_stream_events,
)

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
    (choice,) = text_completion(request, reply, ENVELOPE)["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text, reason)
    pieces = [event["choices"][0] for event in text_stream_events(request, reply, ENVELOPE)]
    assert "".join(piece["text"] for piece in pieces) == text
    assert [piece["finish_reason"] for piece in pieces[-2:]][-1] == reason


def test_sixteen_tokens_are_written_if_nobody_says_how_many():
    body = text_completion(ASKED, ScriptedReply(text="word " * 17), ENVELOPE)
    assert body["choices"][0]["text"].split() == ["word"] * 16
    assert body["choices"][0]["finish_reason"] == "length"


def test_a_completion_is_text():
    for reply in (
        ScriptedReply(tool_calls=[ScriptedToolCall("look")]),
        ScriptedReply(reasoning="Hm."),
    ):
        with pytest.raises(ConfigError, match="text"):
            text_completion(ASKED, reply, ENVELOPE)
