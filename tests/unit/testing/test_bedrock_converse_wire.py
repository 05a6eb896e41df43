"""How scripted replies are said to a client of Bedrock, read back by the client's own decoder."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import ScriptedError, ScriptedReply, ScriptedToolCall
from langchain_convmem.testing.bedrock import (
    StreamEvent,
    converse_body,
    event_frame,
    exception_frame,
    frame,
    signature_of,
    stream_events,
)

eventstream = pytest.importorskip("botocore.eventstream", reason="boto3 is not installed")

ASKED = {
    "system": [{"text": "Be brief."}],
    "messages": [{"role": "user", "content": [{"text": "Hello there"}]}],
}


def _decoded(*pieces: bytes) -> Iterator[Any]:
    buffer = eventstream.EventStreamBuffer()
    for piece in pieces:
        buffer.add_data(piece)
        yield from buffer


def _events(reply: ScriptedReply) -> list[StreamEvent]:
    return list(stream_events(ASKED, reply))


def _said(reply: ScriptedReply, kind: str) -> list[Any]:
    return [event.body for event in _events(reply) if event.kind == kind]


# -- frames ---------------------------------------------------------------------------------------


def test_an_empty_frame_is_the_published_one():
    assert frame({}, b"").hex() == "000000100000000005c248eb7d98c8ff"


@given(
    st.dictionaries(st.text(min_size=1, max_size=40), st.text(max_size=200), max_size=4),
    st.binary(max_size=2000),
    st.integers(1, 64),
)
def test_the_clients_decoder_reads_back_what_was_framed_however_it_arrives(headers, payload, step):
    raw = frame(headers, payload)
    pieces = [raw[start : start + step] for start in range(0, len(raw), step)]
    [message] = _decoded(*pieces)
    assert (message.headers, message.payload) == (headers, payload)


def test_frames_of_one_stream_follow_each_other_without_a_gap():
    first, second = frame({"a": "1"}, b"one"), frame({"b": "2"}, b"two")
    assert [message.payload for message in _decoded(first + second)] == [b"one", b"two"]


@pytest.mark.parametrize("place", [0, 5, 9, 14, -6, -1])
def test_a_frame_with_one_bit_changed_is_refused_by_the_decoder(place):
    raw = bytearray(frame({"name": "value"}, b"payload"))
    raw[place] ^= 1
    with pytest.raises((eventstream.ChecksumMismatch, eventstream.InvalidPayloadLength)):
        list(_decoded(bytes(raw)))


def test_the_checksums_are_of_the_lengths_and_of_all_before_the_last():
    raw = frame({":event-type": "messageStop"}, b"{}")
    assert int.from_bytes(raw[:4]) == len(raw)
    assert int.from_bytes(raw[8:12]) == zlib.crc32(raw[:8])
    assert int.from_bytes(raw[-4:]) == zlib.crc32(raw[:-4])


def test_an_event_says_its_kind_and_its_body():
    [message] = _decoded(event_frame(StreamEvent("messageStart", {"role": "assistant", "x": "ü"})))
    assert message.headers == {
        ":event-type": "messageStart",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    assert json.loads(message.payload) == {"role": "assistant", "x": "ü"}


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ScriptedError(status=429), "throttlingException"),
        (ScriptedError(status=424), "modelStreamErrorException"),
        (ScriptedError(status=500), "internalServerException"),
        (ScriptedError(status=503), "serviceUnavailableException"),
        (ScriptedError(status=400), "validationException"),
        (ScriptedError(status=418), "validationException"),
        (ScriptedError(status=599), "internalServerException"),
        (ScriptedError(status=429, code="ModelNotReadyException"), "modelNotReadyException"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.status} {value.code}",
)
def test_an_exception_in_a_stream_says_its_name_and_its_sentence(error, name):
    [message] = _decoded(exception_frame(error))
    assert message.headers[":message-type"] == "exception"
    assert message.headers[":exception-type"] == name
    assert message.to_response_dict()["status_code"] == 400  # how the client knows an exception
    assert json.loads(message.payload) == {"message": "scripted error"}


# -- streams --------------------------------------------------------------------------------------


def test_a_text_is_streamed_word_by_word_in_one_block_without_a_start():
    events = _events(ScriptedReply(text="one two  three "))
    assert [event.kind for event in events] == [
        "messageStart",
        *["contentBlockDelta"] * 4,
        "contentBlockStop",
        "messageStop",
        "metadata",
    ]
    assert [event.body["delta"]["text"] for event in events[1:5]] == ["one", " two", "  three", " "]
    assert {event.body["contentBlockIndex"] for event in events[1:6]} == {0}
    assert events[-2].body == {"stopReason": "end_turn"}


def test_a_call_starts_with_its_name_and_comes_in_pieces_that_join_to_its_arguments():
    call = ScriptedToolCall("look", '{"where": "under the third bench"', "c7")
    reply = ScriptedReply(text="Looking.", tool_calls=[call])
    [start] = _said(reply, "contentBlockStart")
    assert start == {
        "start": {"toolUse": {"toolUseId": "c7", "name": "look"}},
        "contentBlockIndex": 1,
    }
    inputs = [
        body["delta"]["toolUse"]["input"]
        for body in _said(reply, "contentBlockDelta")
        if body["contentBlockIndex"] == 1
    ]
    assert len(inputs) == 3
    assert "".join(inputs) == '{"where": "under the third bench"'
    assert _said(reply, "messageStop") == [{"stopReason": "tool_use"}]


def test_several_calls_have_a_block_each():
    calls = [ScriptedToolCall("look", {}, "a"), ScriptedToolCall("look", {}, "b")]
    stops = _said(ScriptedReply(tool_calls=calls), "contentBlockStop")
    assert stops == [{"contentBlockIndex": 0}, {"contentBlockIndex": 1}]


def test_reasoning_comes_first_and_ends_with_its_signature():
    deltas = _said(ScriptedReply(text="Yes.", reasoning="Let me see."), "contentBlockDelta")
    told = [body["delta"]["reasoningContent"] for body in deltas[:-1]]
    assert "".join(piece.get("text", "") for piece in told) == "Let me see."
    assert told[-1] == {"signature": signature_of("Let me see.")}
    assert deltas[-1] == {"delta": {"text": "Yes."}, "contentBlockIndex": 1}


def test_another_text_is_signed_differently():
    assert signature_of("Let me see.") != signature_of("Let me see")


def test_a_reply_without_words_has_no_blocks():
    kinds = [event.kind for event in _events(ScriptedReply())]
    assert kinds == ["messageStart", "messageStop", "metadata"]
    assert converse_body(ASKED, ScriptedReply())["output"]["message"]["content"] == []


# -- whole replies --------------------------------------------------------------------------------


def test_a_whole_reply_has_reasoning_text_and_calls_in_order():
    reply = ScriptedReply(
        text="Looking.", reasoning="Hm.", tool_calls=[ScriptedToolCall("look", {"a": 1}, "c7")]
    )
    body = converse_body(ASKED, reply)
    signed = {"text": "Hm.", "signature": signature_of("Hm.")}
    assert body["output"]["message"] == {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": signed}},
            {"text": "Looking."},
            {"toolUse": {"toolUseId": "c7", "name": "look", "input": {"a": 1}}},
        ],
    }
    assert body["stopReason"] == "tool_use"


def test_usage_counts_what_was_asked_and_answered_and_is_the_same_when_streamed():
    reply = ScriptedReply(text="Level 3, grün.")
    body = converse_body(ASKED, reply)
    # "Be brief." 9 characters, "Hello there" 11, the answer 14
    assert body["usage"] == {"inputTokens": 6, "outputTokens": 4, "totalTokens": 10}
    assert _said(reply, "metadata") == [{"usage": body["usage"], "metrics": {"latencyMs": 1}}]


@pytest.mark.parametrize("arguments", ['{"half": ', "[1]", "7", ""])
def test_arguments_that_are_no_object_can_only_be_streamed(arguments):
    reply = ScriptedReply(tool_calls=[ScriptedToolCall("look", arguments)])
    with pytest.raises(ConfigError, match=r"'look'.*can only stream"):
        converse_body(ASKED, reply)
    assert [event.kind for event in _events(reply)][-1] == "metadata"
