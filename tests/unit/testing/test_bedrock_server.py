"""What Bedrock's loopback server refuses, and how its event stream and replies look on the wire."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.testing import ScriptedReply, ScriptedToolCall
from langchain_convmem.testing.bedrock import (
    StreamEvent,
    encode_frame,
    find_converse_fault,
    sign,
    stream_events,
    write_converse_body,
)
from langchain_convmem.views.tokens import count_text_tokens

PICTURE = {"format": "png", "source": {"bytes": base64.b64encode(b"png").decode()}}
PAPER = {"format": "pdf", "name": "A paper (1)", "source": PICTURE["source"]}
CALL = {"toolUseId": "c1", "name": "look", "input": {"where": "here"}}
RESULT = {"toolUseId": "c1", "content": [{"text": "found"}], "status": "success"}
THOUGHT = {"reasoningText": {"text": "Hm.", "signature": sign("Hm.")}}
SPEC = {"name": "look", "description": "Look.", "inputSchema": {"json": {"type": "object"}}}
TOOLS = {"tools": [{"toolSpec": SPEC}]}


def _user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or [{"text": "Hi"}]}


def _assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks) or [{"text": "Yes?"}]}


def _asked(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), "toolConfig": TOOLS, **fields}


def _called(*blocks: Any, **changes: Any) -> dict[str, Any]:
    return _assistant(*blocks, {"toolUse": {**CALL, **changes}})


def _told(*blocks: Any, **changes: Any) -> dict[str, Any]:
    return _user({"toolResult": {**RESULT, **changes}}, *blocks)


SOUND = {
    "one question": _asked(_user()),
    "a conversation": _asked(_user(), _assistant(), _user()),
    "a system text": _asked(_user(), system=[{"text": "Be brief."}, {"cachePoint": {}}]),
    "an empty system list": _asked(_user(), system=[]),
    "no tools": {"messages": [_user()]},
    "a tool loop": _asked(_user(), _called(), _told(), _assistant(), _user()),
    "a text beside a call": _asked(_user(), _called({"text": "Looking."}), _told()),
    "two calls answered in any order": _asked(
        _user(),
        _called({"toolUse": {**CALL, "toolUseId": "c2"}}),
        _told({"toolResult": {**RESULT, "toolUseId": "c2", "status": "error"}}),
    ),
    "a result without a status": _asked(
        _user(), _called(), _user({"toolResult": {"toolUseId": "c1", "content": [{"json": {}}]}})
    ),
    "a text behind the results": _asked(_user(), _called(), _told({"text": "And now?"})),
    "a picture in a result": _asked(_user(), _called(), _told(content=[{"image": PICTURE}])),
    "media": _asked(_user({"text": "See."}, {"image": PICTURE}, {"document": PAPER})),
    "thought and said": _asked(
        _user(), _assistant({"reasoningContent": THOUGHT}, {"text": "Yes."}), _user()
    ),
    "thought elsewhere": _asked(
        _user(),
        _assistant(
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "EqoB"}}},
            {"text": "Yes."},
        ),
        _user(),
    ),
    "thought in secret": _asked(
        _user(), _called({"reasoningContent": {"redactedContent": "c2VjcmV0"}}), _told()
    ),
    "a cache point": _asked(_user({"text": "Hi"}, {"cachePoint": {"type": "default"}})),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_request_is_taken(name):
    assert find_converse_fault(SOUND[name]) is None


REFUSED = {
    # the list
    "no messages": ({}, "messages field is empty"),
    "an empty list": ({"messages": []}, "messages field is empty"),
    "text for messages": ({"messages": "Hi"}, "messages field is empty"),
    "a message that is text": (_asked("Hi"), "messages.0 is not a message"),
    # roles
    "a role for system": (_asked({**_user(), "role": "system"}), "messages.0.role"),
    "no role": (_asked({"content": [{"text": "Hi"}]}), "messages.0.role"),
    "the assistant first": (_asked(_assistant(), _user()), "start with a user message"),
    "two users": (_asked(_user(), _user()), "alternate.*messages.1"),
    "two assistants": (_asked(_user(), _assistant(), _assistant(), _user()), "alternate.*s.2"),
    "the assistant last": (_asked(_user(), _assistant()), "must end with a user"),
    # content
    "no content": (_asked({"role": "user"}), "content field.*messages.0 is empty"),
    "an empty content": (_asked({"role": "user", "content": []}), "messages.0 is empty"),
    "text for content": (_asked({"role": "user", "content": "Hi"}), "messages.0 is empty"),
    "a blank text": (_asked(_user({"text": " \n"})), "messages.0.content.0 is blank"),
    "a text that is none": (_asked(_user({"text": 7})), "messages.0.content.0 is blank"),
    "a block with a type": (_asked(_user({"type": "text", "text": "Hi"})), "exactly one"),
    "a block of two kinds": (_asked(_user({"text": "Hi", "image": PICTURE})), "exactly one"),
    "an unknown block": (_asked(_user({"refusal": "No."})), "exactly one known"),
    "a block that is text": (_asked(_user("Hi")), "exactly one known"),
    # system
    "a blank system text": (_asked(_user(), system=[{"text": " "}]), "system.0 is blank"),
    "a system text alone": (_asked(_user(), system="Be brief."), "system is not a list"),
    "a picture for system": (_asked(_user(), system=[{"image": PICTURE}]), "system.0 must have"),
    # calls and results
    "a call of the user": (_asked(_user({"toolUse": CALL})), "toolUse.*only allowed"),
    "a result of the assistant": (
        _asked(_user(), _assistant({"toolResult": RESULT})),
        "toolResult.*only allowed",
    ),
    "a call that waits": (_asked(_user(), _called()), "messages.2.content.*Ids: c1"),
    "a call passed over": (_asked(_user(), _called(), _user()), "Expected toolResult.*Ids: c1"),
    "one call of two passed over": (
        _asked(_user(), _called({"toolUse": {**CALL, "toolUseId": "c2"}}), _told()),
        "Expected toolResult.*Ids: c2",
    ),
    "a result of no call": (_asked(_user(), _assistant(), _told()), "exceeds the number"),
    "a result at the start": (_asked(_told()), "exceeds the number"),
    "a result too late": (
        _asked(_user(), _called(), _told(), _assistant(), _told()),
        "exceeds the number",
    ),
    "a result twice": (
        _asked(_user(), _called(), _told({"toolResult": RESULT})),
        "duplicate Ids: c1, c1",
    ),
    "a text before the results": (
        _asked(_user(), _called(), _user({"text": "Well."}, {"toolResult": RESULT})),
        "before all other content",
    ),
    "two calls with one id": (
        _asked(_user(), _called({"toolUse": CALL}), _told()),
        "toolUse blocks.*duplicate",
    ),
    "an id used again": (
        _asked(_user(), _called(), _told(), _called(), _told()),
        "messages.3.content contain duplicate",
    ),
    "an id with a colon": (_asked(_user(), _called(toolUseId="a:b"), _told()), "toolUseId"),
    "an id too long": (_asked(_user(), _called(toolUseId="a" * 65), _told()), "toolUseId"),
    "no id": (_asked(_user(), _called(toolUseId=None), _told()), "toolUseId"),
    "a name with a dot": (_asked(_user(), _called(name="a.b"), _told()), "toolUse.name"),
    "an input in text": (_asked(_user(), _called(input="{}"), _told()), "Provide a json object"),
    "no call": (_asked(_user(), _assistant({"toolUse": None})), "not a tool use"),
    "no result": (_asked(_user({"toolResult": None})), "not a tool result"),
    "an empty result": (_asked(_user(), _called(), _told(content=[])), "ToolResultBlock.*empty"),
    "a blank result": (
        _asked(_user(), _called(), _told(content=[{"text": ""}])),
        "toolResult.content.0 is blank",
    ),
    "a call in a result": (
        _asked(_user(), _called(), _told(content=[{"toolUse": CALL}])),
        "toolResult.content.0 must set",
    ),
    "an unknown status": (_asked(_user(), _called(), _told(status="failed")), "status"),
    "calls without tools": (
        {"messages": [_user(), _called(), _told()]},
        "toolConfig field must be defined",
    ),
    # tools
    "no tools in the list": (_asked(_user(), toolConfig={"tools": []}), "1 member or more"),
    "two tools of one name": (
        _asked(_user(), toolConfig={"tools": [{"toolSpec": SPEC}] * 2}),
        "must be unique",
    ),
    "a tool with a blank in its name": (
        _asked(_user(), toolConfig={"tools": [{"toolSpec": {**SPEC, "name": "look up"}}]}),
        "toolSpec.name",
    ),
    "a tool without words": (
        _asked(_user(), toolConfig={"tools": [{"toolSpec": {**SPEC, "description": ""}}]}),
        "toolSpec.description",
    ),
    "a tool without a schema": (
        _asked(_user(), toolConfig={"tools": [{"toolSpec": {"name": "look"}}]}),
        "inputSchema.json.type",
    ),
    "a tool that is text": (
        _asked(_user(), toolConfig={"tools": [{"toolSpec": "look"}]}),
        "toolSpec is invalid",
    ),
    # reasoning
    "thoughts of the user": (
        _asked(_user({"reasoningContent": THOUGHT}, {"text": "Hi"})),
        "reasoningContent.*only allowed",
    ),
    "nothing but thoughts": (
        _asked(_user(), _assistant({"reasoningContent": THOUGHT}), _user()),
        "cannot be `thinking`",
    ),
    "a changed thought": (
        _asked(
            _user(),
            _assistant(
                {
                    "reasoningContent": {
                        "reasoningText": {**THOUGHT["reasoningText"], "text": "Ha."}
                    }
                },
                {"text": "Yes."},
            ),
            _user(),
        ),
        "Invalid `signature`",
    ),
    "an unsigned thought": (
        _asked(
            _user(),
            _assistant({"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "Yes."}),
            _user(),
        ),
        "signature field.*missing",
    ),
    "a thought without text": (
        _asked(
            _user(), _assistant({"reasoningContent": {"reasoningText": {}}}, {"text": "Y"}), _user()
        ),
        "must be text",
    ),
    "a thought that is none": (
        _asked(_user(), _assistant({"reasoningContent": {}}, {"text": "Y"}), _user()),
        "is not reasoning",
    ),
    # media
    "a picture of the assistant": (
        _asked(_user(), _assistant({"image": PICTURE}), _user()),
        "image.*only allowed",
    ),
    "a picture of another kind": (
        _asked(_user({"image": {**PICTURE, "format": "tiff"}})),
        "image.format",
    ),
    "a picture without data": (
        _asked(_user({"image": {**PICTURE, "source": {"bytes": ""}}})),
        "empty or not base64",
    ),
    "a picture by address": (
        _asked(_user({"image": {**PICTURE, "source": {"url": "http://x"}}})),
        "source field",
    ),
    "a picture too large": (
        _asked(
            _user(
                {
                    "image": {
                        **PICTURE,
                        "source": {"bytes": base64.b64encode(b"x" * 3_750_001).decode()},
                    }
                }
            )
        ),
        "3750001 bytes",
    ),
    "a picture that is none": (_asked(_user({"image": "png"})), "is not a valid image"),
    "too many pictures": (_asked(_user(*[{"image": PICTURE}] * 21)), "21 blocks of kind image"),
    "too many papers in results": (
        _asked(
            _user(),
            _called(),
            _told(
                content=[{"document": {**PAPER, "name": str(n)}} for n in range(6)],
            ),
        ),
        "6 blocks of kind document",
    ),
    "a paper without text": (_asked(_user({"document": PAPER})), "document and no text"),
    "a paper with a dot in its name": (
        _asked(_user({"text": "See."}, {"document": {**PAPER, "name": "a.pdf"}})),
        "file name",
    ),
    "a paper with two blanks in its name": (
        _asked(_user({"text": "See."}, {"document": {**PAPER, "name": "a  b"}})),
        "file name",
    ),
    "two papers of one name": (
        _asked(_user({"text": "See."}, {"document": PAPER}, {"document": PAPER})),
        "duplicate document names",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_is_refused_with_the_reason(name):
    request, reason = REFUSED[name]
    fault = find_converse_fault(request)
    assert fault is not None
    assert (fault.code, fault.status) == ("ValidationException", 400)
    assert re.search(reason, fault.message), fault.message


@pytest.mark.parametrize("body", [None, [], "text", 7])
def test_a_body_that_is_no_object_is_no_request(body):
    fault = find_converse_fault(body)
    assert fault is not None
    assert (fault.code, fault.status) == ("SerializationException", 400)


# -- How scripted replies are said to a client of Bedrock, read back by the client's own decoder --


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
@given(
    st.dictionaries(st.text(min_size=1, max_size=40), st.text(max_size=200), max_size=4),
    st.binary(max_size=2000),
    st.integers(1, 64),
)
def test_the_clients_decoder_reads_back_what_was_framed_however_it_arrives(headers, payload, step):
    raw = encode_frame(headers, payload)
    pieces = [raw[start : start + step] for start in range(0, len(raw), step)]
    [message] = _decoded(*pieces)
    assert (message.headers, message.payload) == (headers, payload)


# -- whole replies --------------------------------------------------------------------------------
def test_a_whole_reply_has_reasoning_text_and_calls_in_order():
    reply = ScriptedReply(
        text="Looking.", reasoning="Hm.", tool_calls=[ScriptedToolCall("look", {"a": 1}, "c7")]
    )
    body = write_converse_body(ASKED, reply)
    signed = {"text": "Hm.", "signature": sign("Hm.")}
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
    body = write_converse_body(ASKED, reply)
    asked = count_text_tokens("Be brief.") + count_text_tokens("Hello there")
    said = count_text_tokens(reply.text)
    counts = {"inputTokens": asked, "outputTokens": said, "totalTokens": asked + said}
    assert body["usage"] == counts
    assert _said(reply, "metadata") == [{"usage": body["usage"], "metrics": {"latencyMs": 1}}]
