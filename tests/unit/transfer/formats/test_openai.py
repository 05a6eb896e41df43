import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.transfer.imports import parse_threads
from langchain_convmem.transfer.source import Source


def read(text):
    (thread,) = parse_threads(Source("chats/trip.json", text))
    return thread


def as_list(*messages):
    return read(json.dumps(messages))


def as_rows(*messages):
    return read("\n".join(map(json.dumps, messages)))


CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"n": 1}'}}
LOOP = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Rain?", "name": "ana", "timestamp": "2026-01-02T03:04:05Z"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "sun", "tool_call_id": "c1"},
    {"role": "assistant", "content": "No.", "id": "m5"},
]


@pytest.mark.parametrize("form", [as_list, as_rows, lambda *m: read(json.dumps({"messages": m}))])
def test_a_tool_loop_is_read_in_every_form(form):
    thread = form(*LOOP)
    assert thread == as_list(*LOOP), "with the same ids"
    system, question, call, result, answer = thread.messages
    assert thread.thread_id == "trip"
    types = [SystemMessage, HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert [type(m) for m in thread.messages] == types
    assert (question.name, question.content) == ("ana", "Rain?")
    assert question.additional_kwargs == {"timestamp": "2026-01-02T03:04:05.000+00:00"}
    assert call.tool_calls == [
        {"name": "weather", "args": {"n": 1}, "id": "c1", "type": "tool_call"}
    ]
    assert (call.content, system.content) == ("", "Be brief.")
    assert (result.tool_call_id, result.content, answer.id) == ("c1", "sun", "m5")


def test_arguments_that_are_no_object_are_kept_as_they_are():
    broken = [
        {**CALL, "function": {"name": "weather", "arguments": text}} for text in ('{"n": ', "[1]")
    ]
    thread = as_list({"role": "assistant", "tool_calls": [*broken, CALL]})
    (message,) = thread.messages
    assert [call["args"] for call in message.invalid_tool_calls] == ['{"n": ', "[1]"]
    assert [call["args"] for call in message.tool_calls] == [{"n": 1}]


def test_parts_are_blocks_and_a_single_text_is_plain():
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    thread = as_list(
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "user", "content": [picture, {"type": "input_text", "text": "what?"}]},
        {"role": "model", "parts": [{"text": "A barn."}, {"inline_data": {"data": "AAEC"}}]},
        {"role": "user", "parts": ["one", "two"]},
    )
    assert [message.content for message in thread.messages] == [
        "Hi",
        [picture, {"type": "text", "text": "what?"}],
        [
            {"type": "text", "text": "A barn."},
            {"type": "non_standard", "value": {"inline_data": {"data": "AAEC"}}},
        ],
        [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
    ]


def test_lines_keep_order_text_times_and_sessions():
    texts = [" padded ", "a\u2028b\x85c\x0b", "\x00NUL", "é\r\n", '{"role": "user"}']
    stamps = [("2023-05-08", 5_000), ("2023-05-08T13:56:00.250+02:00", "x"), (-1, None)]
    expected = ["2023-05-08T00:00:00.000+00:00", "2023-05-08T11:56:00.250+00:00"]
    rows = [{"role": "User", "content": text, "mood": "good"} for text in texts]
    rows += [{"role": "BOT", "content": "x", "timestamp": at, "session": s} for at, s in stamps]
    text = "\r\n\r\n".join(map(json.dumps, rows))
    messages = read(text).messages
    assert [message.content for message in messages[: len(texts)]] == texts
    found = [message.additional_kwargs for message in messages[len(texts) :]]
    assert found == [
        {"timestamp": expected[0], "session": "5000"},
        {"timestamp": expected[1], "session": "x"},
        {"timestamp": "1969-12-31T23:59:59.999+00:00"},
    ]
    again = read(text + "\n" + json.dumps(rows[0])).messages
    assert again[: len(rows)] == messages, "what is appended changes no id"
    assert len({message.id for message in again}) == len(rows) + 1
