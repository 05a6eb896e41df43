import json
import threading

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langchain_core.prompts import ChatPromptTemplate

from langchain_convmem import ChatTemplate
from langchain_convmem.conversation.inputs import coerce_messages
from langchain_convmem.errors import InvalidMessageError

TEMPLATE = ChatTemplate("{{ messages | tojson }}")


def seen_by_a_template(value):
    return json.loads(TEMPLATE.render(coerce_messages(value)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Hi", [HumanMessage("Hi")]),
        ("", [HumanMessage("")]),
        (HumanMessage("Hi", id="1"), [HumanMessage("Hi", id="1")]),
        (("user", "Hi"), [HumanMessage("Hi")]),
        (("model", "Yes?"), [AIMessage("Yes?")]),
        ({"role": "human", "content": "Hi"}, [HumanMessage("Hi")]),
        ({"role": "System", "content": "Be brief."}, [SystemMessage("Be brief.")]),
        ({"role": "ipython", "content": "4"}, [ChatMessage(content="4", role="ipython")]),
        ({"role": "user", "content": "Hi", "name": "ana"}, [HumanMessage("Hi", name="ana")]),
        (["Hi", ("ai", "Yes?")], [HumanMessage("Hi"), AIMessage("Yes?")]),
        ((HumanMessage("Hi"), AIMessage("Yes?")), [HumanMessage("Hi"), AIMessage("Yes?")]),
        ([], []),
        (AIMessageChunk("Yes?", chunk_position="last"), [AIMessage("Yes?")]),
        (ChatPromptTemplate.from_messages(["Hi {x}"]).invoke({"x": "Bo"}), [HumanMessage("Hi Bo")]),
        (ToolMessage("9", tool_call_id="c1"), [ToolMessage("9", tool_call_id="c1")]),
    ],
)
def test_every_form_of_a_message_is_taken(value, expected):
    found = coerce_messages(value)
    assert found == expected
    assert [type(message) for message in found] == [type(message) for message in expected]


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("Hi", id="7", additional_kwargs={"session": "a"}),
        AIMessage("", tool_calls=[{"name": "look", "args": {"at": 1}, "id": "c"}]),
        ToolMessage("3", tool_call_id="c", status="error"),
    ],
)
def test_what_langchain_wrote_as_a_map_is_read_back(message):
    assert coerce_messages(messages_to_dict([message])[0]) == [message]
    assert coerce_messages([message.model_dump()]) == [message]


def test_nothing_is_shared_with_what_was_given():
    given = HumanMessage([{"type": "text", "text": "Hi"}], additional_kwargs={"a": []})
    parts = [{"type": "text", "text": "Hi"}]
    written = {"role": "user", "content": parts, "note": {"a": []}}
    copied, made = coerce_messages([given, written])
    copied.content[0]["text"] = made.content[0]["text"] = "changed"
    copied.additional_kwargs["a"].append(1)
    made.additional_kwargs["template_fields"]["note"]["a"].append(1)
    assert given == HumanMessage([{"type": "text", "text": "Hi"}], additional_kwargs={"a": []})
    assert written == {
        "role": "user",
        "content": [{"type": "text", "text": "Hi"}],
        "note": {"a": []},
    }


def test_what_cannot_be_copied_is_refused():
    given = HumanMessage("Hi", additional_kwargs={"lock": threading.Lock()})
    with pytest.raises(InvalidMessageError, match="cannot be copied"):
        coerce_messages(given)


def test_further_keys_of_a_map_reach_templates_and_its_reasoning_as_reasoning():
    assert seen_by_a_template({"role": "user", "content": "x", "note": 1, "gone": None}) == [
        {"role": "user", "content": "x", "note": 1}
    ]
    given = {"role": "assistant", "content": "4", "reasoning_content": "two and two"}
    [message] = seen_by_a_template(given)
    assert message["thinking"] == message["reasoning_content"] == "two and two"


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
        {"id": "c", "function": {"name": "look", "arguments": {"at": 1}}},
        {"id": "c", "name": "look", "arguments": {"at": 1}},
        {"id": "c", "type": "tool_call", "name": "look", "args": {"at": 1}},
    ],
)
def test_tool_calls_are_read_in_every_shape_and_need_no_content(call):
    [message] = coerce_messages({"role": "assistant", "tool_calls": [call]})
    assert message.tool_calls == [
        {"type": "tool_call", "name": "look", "args": {"at": 1}, "id": "c"}
    ]
    assert message.content == ""


def test_a_call_whose_arguments_nobody_can_read_is_an_invalid_call():
    call = {"id": "c", "function": {"name": "look", "arguments": "{broken"}}
    [message] = coerce_messages({"role": "assistant", "tool_calls": [call]})
    assert message.tool_calls == []
    assert [(call["id"], call["args"]) for call in message.invalid_tool_calls] == [("c", "{broken")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("3", "3"),
        ({"level": "Größe"}, '{"level": "Größe"}'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        ([{"type": "text", "text": "3"}], [{"type": "text", "text": "3"}]),
    ],
)
def test_a_tools_result_is_text_parts_or_json(content, expected):
    given = {"role": "tool", "content": content, "tool_call_id": "c", "name": "look"}
    assert coerce_messages(given) == [ToolMessage(expected, tool_call_id="c", name="look")]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"content": "x"}, "no role"),
        ({"role": "", "content": "x"}, "role ''"),
        ({"role": "a b", "content": "x"}, "role text of 3 characters"),
        (("user", None), "the content None"),
        ({"role": "user"}, "the content None"),
        ({"role": "user", "content": 5}, "the content 5"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "the content None"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "tool call 0"),
        ({"role": "assistant", "tool_calls": {"name": "look"}}, "pass a list"),
        ({"role": "tool", "content": "3"}, "without the tool_call_id"),
        ({"role": "user", "content": "x", "note": object()}, "note"),
        ({"role": "user", "content": "x", "name": 5}, "name: string_type"),
        ([{"type": "text", "text": "x"}], "wrap parts"),
        ({"type": "human", "data": {"content": 5}}, "no role"),
        ({"type": "remote", "data": {"content": "x"}}, "no role"),
        ({"role": "user", "content": [{"text": 5}]}, "part 0"),
        ({"role": "user", "content": [5]}, "part 0"),
        (["Hi", ("tool", "x")], "message 1"),
        (RemoveMessage(id="1"), "RemoveMessage"),
    ],
)
def test_a_message_that_says_too_little_is_refused_by_name(value, named):
    with pytest.raises(InvalidMessageError, match=named):
        coerce_messages(value)


@pytest.mark.parametrize("value", [None, 5, b"Hi", ["Hi", None], {"Hi"}])
def test_what_could_be_no_message_is_refused_with_the_forms(value):
    with pytest.raises(InvalidMessageError, match="pass text, a LangChain message"):
        coerce_messages(value)
