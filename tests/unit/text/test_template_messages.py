import base64
import json

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem import ChatTemplate
from langchain_convmem.errors import InvalidMessageError

TEMPLATE = ChatTemplate("{{ messages | tojson }}")
IN_PARTS = ChatTemplate(
    "{% for m in messages %}{% for part in m.content %}{{ part | tojson }}{% endfor %}{% endfor %}"
)
BYTES = base64.b64encode(b"secret picture").decode()


def shown(*messages, template=TEMPLATE):
    return json.loads(template.render(list(messages)))


def test_messages_texts_pairs_and_maps_become_roles_and_text():
    assert shown(
        SystemMessage("Be kind."),
        HumanMessage("Hi", name="ana"),
        AIMessageChunk("Hello."),
        ChatMessage("Look", role="developer"),
        FunctionMessage("4", name="sum"),
        "Hi",
        ("ai", "Yes?"),
        {"role": "user", "content": "No", "mood": 1},
    ) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi", "name": "ana"},
        {"role": "assistant", "content": "Hello."},
        {"role": "developer", "content": "Look"},
        {"role": "function", "content": "4", "name": "sum"},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "No", "mood": 1},
    ]


def test_calls_keep_their_arguments_as_maps_and_results_get_the_name_of_their_tool():
    call = {"name": "weather", "args": {"city": "Oslo"}, "id": "c1"}
    said, result = shown(AIMessage("", tool_calls=[call]), ToolMessage("4 C", tool_call_id="c1"))
    function = {"name": "weather", "arguments": {"city": "Oslo"}}
    assert said["tool_calls"] == [{"type": "function", "id": "c1", "function": function}]
    told = {"role": "tool", "content": "4 C", "tool_call_id": "c1", "name": "weather"}
    assert result == told


def test_reasoning_goes_under_the_names_that_templates_know():
    keys = ("reasoning_content", "reasoning", "thinking")
    blocks = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Yes"}]
    told = [
        AIMessage(blocks),
        AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes"}]),
        AIMessage("Yes", additional_kwargs={"reasoning_content": "hm"}),
        {"role": "assistant", "content": "Yes", "reasoning": "hm"},
    ]
    for message in shown(*told):
        assert message == {"role": "assistant", "content": "Yes", **dict.fromkeys(keys, "hm")}


def test_text_comes_in_parts_where_the_template_loops_over_it():
    for message in (HumanMessage("Hi"), "Hi", ("user", "Hi")):
        assert shown(message, template=IN_PARTS) == {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image", "base64": BYTES, "mime_type": "image/png"}, {"mime_type": "image/png"}),
        ({"type": "image", "url": "https://e.org/a.png"}, {"url": "https://e.org/a.png"}),
        ({"type": "image", "path": "a.png", "blob": BYTES}, {"path": "a.png"}),
        (
            {"type": "image_url", "image_url": {"url": "https://e.org/a"}},
            {"image_url": {"url": "https://e.org/a"}},
        ),
        ({"type": "image_url", "image_url": f"data:image/png;base64,{BYTES}"}, {}),
        (
            {"type": "image", "source": {"type": "base64", "data": BYTES}},
            {"source": {"type": "base64"}},
        ),
        ({"type": "image", "data": b"secret picture"}, {}),
        (
            {"type": "input_audio", "input_audio": {"data": BYTES}},
            {"type": "audio", "input_audio": {}},
        ),
    ],
    ids=range(8),
)
def test_a_picture_is_a_marker_without_its_bytes(block, expected):
    [message] = shown(HumanMessage([{"type": "text", "text": "See"}, block]))
    assert message["content"] == [{"type": "text", "text": "See"}, {"type": "image", **expected}]


def test_maps_keep_their_parts_but_for_the_bytes():
    picture = {"type": "image", "path": "a.png", "detail": "low"}
    other = {"type": "data", "data": "no picture"}
    url = {"url": f"data:image/png;base64,{BYTES}"}
    media = [{"type": "image_url", "image_url": url}, {"type": "audio", "audio": b"secret"}]
    parts = ["text", {**picture, "blob": BYTES}, *media, other]
    [message] = shown({"role": "user", "content": parts})
    bare = [{"type": "image_url", "image_url": {}}, {"type": "audio"}]
    assert message["content"] == ["text", picture, *bare, other]


class Loud(str):
    __slots__ = ()

    def __str__(self):
        raise AssertionError("acts within the template")

    __format__ = __html__ = __str__


def test_subclasses_of_text_do_not_act_within_the_template():
    assert shown({"role": Loud("user"), "content": Loud("Hi")})[0]["content"] == "Hi"


def test_a_message_that_changes_later_changes_no_prompt():
    message = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    state = TEMPLATE.start()
    before = state.feed([message]).text
    message["content"][0]["text"] = "Bye"
    assert state.feed([]).kept == len(before)


DEEP: list = []
DEEP.append(DEEP)


@pytest.mark.parametrize(
    ("message", "kind", "told"),
    [
        ({"content": "x"}, InvalidMessageError, "message 0 has the role None"),
        ({"role": ""}, InvalidMessageError, "message 0 has the role ''"),
        ((None, "x"), InvalidMessageError, "message 0 has the role None"),
        (7, TypeError, "message 0 is a int"),
        (("user",), TypeError, "message 0 is a tuple"),
        (RemoveMessage("m1"), InvalidMessageError, "RemoveMessage"),
        (("user", [{"x": object()}]), InvalidMessageError, r"message 0\[0\]\.x is a object"),
        (("user", DEEP), InvalidMessageError, "nested deeper than 100"),
    ],
)
def test_what_no_template_can_read_is_refused_by_its_place(message, kind, told):
    with pytest.raises(kind, match=told):
        TEMPLATE.render([message])
