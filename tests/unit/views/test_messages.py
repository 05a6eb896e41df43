"""Messages out of whatever callers pass for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    messages_to_dict,
)
from langchain_core.prompts import ChatPromptTemplate

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.views.messages import read_messages

CALL = {"name": "look", "args": {"n": 1}, "id": "c1", "type": "tool_call"}

OPENAI_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"n": 1}'},
}

CHAT = [
    SystemMessage("Be brief."),
    HumanMessage("Where?"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("level 3", tool_call_id="c1"),
    AIMessage("There."),
]

FORMS = {
    "messages": CHAT,
    "role dicts": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "level 3"},
        {"role": "assistant", "content": "There."},
    ],
    "roles of templates": [
        *CHAT[:1],
        {"role": "User", "content": "Where?"},
        {"role": "model", "tool_calls": [OPENAI_CALL]},
        CHAT[3],
        ("model", "There."),
    ],
    "as LangChain writes them": messages_to_dict(CHAT),
    "flat dicts": [{"type": one.type, **one.model_dump(exclude={"type"})} for one in CHAT],
    "under messages": {"messages": CHAT},
    "a prompt's value": ChatPromptTemplate(CHAT).invoke({}),
    "a tuple": tuple(CHAT),
    "an iterator": iter(CHAT),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_messages(form):
    assert [
        (type(one), one.content, getattr(one, "tool_calls", []))
        for one in read_messages(FORMS[form])
    ] == [(type(one), one.content, getattr(one, "tool_calls", [])) for one in CHAT]


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=8)), max_size=6
    )
)
def test_what_langchain_reads_is_read_as_langchain_does(pairs):
    maps = [{"role": role, "content": text} for role, text in pairs]
    assert read_messages(pairs) == read_messages(maps) == convert_to_messages(pairs)


def test_chunks_are_the_message_that_they_are_pieces_of():
    pieces = [
        HumanMessageChunk(content="Whe"),
        HumanMessageChunk(content="re?"),
        AIMessageChunk(content="The", id="a"),
        AIMessageChunk(content="re.", id="a", chunk_position="last"),
        AIMessageChunk(content="More", id="b"),
    ]
    assert [(type(one), one.text) for one in read_messages(pieces)] == [
        (HumanMessage, "Where?"),
        (AIMessage, "There."),
        (AIMessage, "More"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        7,
        b"text",
        {"words"},
        [None],
        [("narrator", "words")],
        [{"content": "words"}],
        [{"role": "tool", "content": "words"}],
        [["a", "b", "words"]],
        [{"type": "image_url", "url": "words"}],
    ],
    ids=repr,
)
def test_what_is_no_message_is_refused_without_its_words(value):
    with pytest.raises(InvalidMessageError) as caught:
        read_messages(value)
    assert "words" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
