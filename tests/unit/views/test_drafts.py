import functools

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

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.records import Cover, Draft
from langchain_convmem.testing.log_contract import SAMPLES
from langchain_convmem.views.codec import encode_body, make_draft
from langchain_convmem.views.messages import DraftBuilder, read_messages

SECRET = "sk-4242"


async def _coroutine(message):
    return message


class _AsyncHook:
    async def __call__(self, message):
        return message


@pytest.mark.parametrize(
    "hook",
    [_coroutine, _AsyncHook(), functools.partial(_coroutine), _AsyncHook().__call__],
    ids=["function", "object", "partial", "method"],
)
def test_a_coroutine_function_is_no_hook(hook):
    with pytest.raises(ConfigError, match="plain function"):
        DraftBuilder(hook)


@pytest.mark.parametrize("message", SAMPLES)
def test_a_hook_gets_a_copy_that_equals_every_kind_of_message(message):
    seen = []

    def look(copy):
        seen.append(copy)
        return copy

    assert encode_body(DraftBuilder(look).build(message)) == encode_body(make_draft(message))
    [copy] = seen
    assert copy is not message
    assert encode_body(make_draft(copy)) == encode_body(make_draft(message))


def test_what_a_hook_does_to_its_copy_leaves_the_callers_message_alone():
    def wipe(copy):
        copy.content[0]["text"] = "[text]"
        copy.additional_kwargs["mood"].clear()
        copy.tool_calls[0]["args"]["key"] = "[key]"
        return copy

    call = {"name": "look", "args": {"key": SECRET}, "id": "c1", "type": "tool_call"}
    text, beside = {"type": "text", "text": SECRET}, {"mood": {"now": "calm"}}
    said = AIMessage([text], additional_kwargs=beside, tool_calls=[call])
    before = said.model_copy(deep=True)
    assert SECRET not in str(DraftBuilder(wipe).build(said))
    assert said == before


@pytest.mark.parametrize(
    ("said", "returned"),
    [
        (HumanMessage(SECRET, id="m1"), AIMessage("[text]")),
        (ToolMessage(SECRET, tool_call_id="c1", id="m1"), HumanMessage("[text]")),
        (SystemMessage(SECRET, id="m1"), HumanMessage("[text]")),
    ],
    ids=["user", "tool", "system"],
)
def test_a_message_must_keep_its_role(said, returned):
    with pytest.raises(InvalidMessageError, match=r"'m1'.*role") as refused:
        DraftBuilder(lambda _: returned).build(said)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("returned", ["[text]", False, {"content": "[text]"}, [HumanMessage("x")]])
def test_a_hook_must_return_a_message_or_nothing(returned):
    with pytest.raises(InvalidMessageError, match=type(returned).__name__) as refused:
        DraftBuilder(lambda _: returned).build(HumanMessage(SECRET))
    assert SECRET not in str(refused.value)


def test_a_hook_that_turns_out_to_be_asynchronous_is_refused():
    with pytest.raises(InvalidMessageError, match="coroutine"):
        DraftBuilder(lambda message: _coroutine(message.model_copy())).build(HumanMessage("hi"))


def test_a_hook_is_not_asked_about_what_is_not_to_be_remembered():
    asked = []
    drafting = DraftBuilder(lambda message: asked.append(message) or message)
    message = HumanMessage("Not this.", additional_kwargs={"remember": False})
    assert drafting.filter_message(message) is None
    assert drafting.build(message) is None
    assert len(drafting.build_all([message, HumanMessage("This.", id="m")])) == 1
    assert [one.id for one in asked] == ["m"]


def test_a_hook_is_asked_about_no_message_before_all_are_known_to_be_messages():
    asked = []
    drafting = DraftBuilder(lambda message: asked.append(message) or message)
    with pytest.raises(InvalidMessageError):
        drafting.build_all([HumanMessage("This."), "no message"])
    assert asked == []


def test_a_summary_without_a_message_is_asked_about_as_well():
    draft = Draft(role="summary", contents=("one", SECRET), cover=Cover(((1, 2),)))
    blank = DraftBuilder(lambda message: SystemMessage(message.text.replace(SECRET, "[key]")))
    assert blank.filter_draft(draft).contents == ("one[key]",)
    assert DraftBuilder(lambda _: None).filter_draft(draft) is None
    assert DraftBuilder().filter_draft(draft) == draft


def test_maps_of_openai_and_of_langchain_and_roles_of_templates_are_messages():
    call = {"id": "c1", "function": {"name": "look", "arguments": '{"n": 1}'}, "type": "function"}
    asks = [{"role": "assistant", "content": None}, {"role": "model"}]
    result = {"role": "tool", "tool_call_id": "c1", "content": "level 3"}
    maps = [*({**one, "tool_calls": [call]} for one in asks), result, ("model", "There.")]
    read = read_messages(maps)
    shape = [("ai", ""), ("ai", ""), ("tool", "level 3"), ("ai", "There.")]
    assert [(one.type, one.content) for one in read] == shape
    assert [one.tool_calls[0]["args"] for one in read[:2]] == [{"n": 1}] * 2
    assert read_messages({"messages": iter(messages_to_dict(read))}) == read
    read[-1].usage_metadata = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    assert read_messages([one.model_dump() for one in read]) == read


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=8)), max_size=6
    )
)
def test_what_langchain_reads_is_read_as_langchain_does(pairs):
    maps = [{"role": role, "content": text} for role, text in pairs]
    assert read_messages(pairs) == read_messages(maps) == convert_to_messages(pairs)


def test_chunks_are_the_message_that_they_are_pieces_of():
    # A model hands out its chunks under an id of its own, of the run, or of both.
    run = [AIMessageChunk(content="re.", id="lc_run--a", chunk_position="last")]
    run.append(AIMessageChunk(content="", id="lc_run--a"))
    pieces = [HumanMessageChunk(content=text) for text in ("Whe", "re?")]
    pieces += [AIMessageChunk(content="The", id="a"), *run, AIMessageChunk(content="More", id="b")]
    whole = [HumanMessage("Where?"), AIMessage("There.", id="a"), AIMessage("More", id="b")]
    assert read_messages(pieces) == whole


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
