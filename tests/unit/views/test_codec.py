from __future__ import annotations

import enum
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import numpy as np
import pytest
from histories import messages
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import Control, Cover, Draft, Metadata
from langchain_convmem.testing.log_contract import are_identical
from langchain_convmem.views.codec import (
    MAX_DEPTH,
    decode_body,
    decode_message,
    decode_metadata,
    dump_json,
    encode_body,
    encode_message,
    encode_metadata,
    get_line_time_ms,
    get_role,
    get_text_pieces,
    load_json,
    make_draft,
)


def through_text(message):
    return decode_body(encode_body(make_draft(message)))[0]


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_what_was_stored_comes_back_though_a_constructor_would_derive_more():
    message = AIMessage("", additional_kwargs={"tool_calls": [{"function": {"name": "w"}}]})
    message.tool_calls, message.invalid_tool_calls = [], []
    assert are_identical(through_text(message), message)


def test_chunks_are_stored_as_the_message_that_they_are():
    draft = make_draft(AIMessageChunk(content="Whe", id="a"))
    assert are_identical(draft.message, AIMessage("Whe", id="a"))


def test_a_subclass_comes_back_as_its_base_with_its_fields():
    class Marked(HumanMessage):
        mood: str = "calm"

    back = through_text(Marked("Hi", mood="glad"))
    assert type(back) is HumanMessage
    assert back.mood == "glad"


class Colour(str, enum.Enum):  # noqa: UP042 - str() of such a member is its name
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


Point = namedtuple("Point", "x y")  # noqa: PYI024 - what users have


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Colour.RED, "red"),
        ({Colour.RED: Level.HIGH}, {"red": 3}),
        (Point(1, 2), (1, 2)),
        (OrderedDict(a=1), {"a": 1}),
        (np.float64(0.5), 0.5),
        (np.float64("nan"), float("nan")),
        (np.float64("inf"), float("inf")),
    ],
)
def test_a_subclass_of_a_plain_value_comes_back_as_the_plain_value(value, back):
    assert are_identical(load_json(dump_json(value)), back)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "object"),
        ({"client": {1, object()}}, "value.client"),
        ({"a": [0, {"b": print}]}, r"value\.a\[1\]\.b"),
        ({1: "one"}, "key 1"),
        ({b"k": 1}, "key a bytes"),
        (np.zeros(2), "ndarray"),
        (np.int64(1), "int64"),
        (1j, "complex"),
        ([10**5000], "4300"),
        (nested(MAX_DEPTH + 2), "100 levels"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(value, named):
    with pytest.raises(InvalidMessageError, match=named):
        dump_json(value)


@pytest.mark.parametrize(
    ("artifact", "kept"),
    [
        (np.array([[1, 2]]), [[1, 2]]),
        ({"score": np.float32(0.5), "id": UUID(int=7)}, {"score": 0.5, "id": str(UUID(int=7))}),
        ([enum.Enum("Mood", {"SUNNY": "sunny"}).SUNNY, date(2026, 5, 3)], ["sunny", "2026-05-03"]),
        ((n for n in "ab"), "[generator]"),
        (
            {"call": print, "raw": b"abc"},
            {"call": "[builtin_function_or_method]", "raw": "[bytes]"},
        ),
    ],
    ids=["array", "numbers", "values", "iterator", "objects"],
)
def test_side_fields_are_kept_as_json_or_as_a_note_of_their_type(artifact, kept):
    message = ToolMessage("x", tool_call_id="c", artifact=artifact)
    assert decode_message(encode_message(make_draft(message).message)).artifact == kept


def test_a_count_of_tokens_that_a_provider_left_out_is_zero():
    message = AIMessage("x")
    counts = {"input_tokens": 3, "output_tokens": None, "total_tokens": 3}
    message.usage_metadata = {**counts, "input_token_details": {"cache_read": None}}
    usage = make_draft(message).message.usage_metadata
    assert (usage["output_tokens"], usage["input_token_details"]) == (0, {"cache_read": 0})


def test_a_message_that_could_not_be_read_back_is_refused():
    message = AIMessage("x")
    message.tool_calls = [{"name": "weather"}]
    with pytest.raises(InvalidMessageError, match="malformed"):
        encode_body(make_draft(message))


@pytest.mark.parametrize("content", [None, 7, {"type": "text"}])
def test_content_of_no_known_kind_is_refused(content):
    message = HumanMessage("x")
    message.content = content
    with pytest.raises(InvalidMessageError, match="content"):
        make_draft(message)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "{}",
        '{"v":2}',
        "not json",
        '{"v":1,"m":[]}',
        '{"v":1,"m":{"type":"os.system","content":"x"}}',
        '{"v":1,"m":{"type":"tool","content":"x"}}',
        '{"v":1,"m":{"type":"human","content":{"$decimal":"x"}}}',
        '{"v":1,"m":{"type":"human","content":"x","additional_kwargs":{"$set":[{}]}}}',
        '{"v":1,"k":{}}',
        '{"v":1,"k":[]}',
        '{"v":1,"o":{"ranges":[1]}}',
        '{"v":1,"c":7}',
    ],
)
def test_a_body_that_is_none_raises_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        decode_body(text)


@pytest.mark.parametrize("text", ["[]", "not json", '{"a":7}', '{"t":[1]}'])
def test_metadata_that_is_none_raises_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        decode_metadata(text, created_ms=0)


@pytest.mark.parametrize(
    "draft",
    [
        Draft(role="user", message=HumanMessage("Hi"), contents=("Hi",)),
        Draft(role="user", message=HumanMessage("Hi"), contents=()),
        Draft(role="user", message=HumanMessage("Hi there"), contents=("Hi", "there")),
        Draft(role="summary", contents=("Said.",), cover=Cover(((1, 2), (5, 9)), "d", "m", "p")),
        Draft(role="summary", cover=Cover(())),
        Draft(role="control", control=Control((), "cleared")),
        Draft(role="control", control=Control(("a", "b"), "replaced", "c")),
    ],
)
def test_everything_of_a_draft_survives(draft):
    message, contents, control, cover = decode_body(encode_body(draft))
    assert message == draft.message
    assert (contents, control, cover) == (draft.contents, draft.control, draft.cover)


def test_a_creation_set_on_purpose_is_kept():
    text = encode_metadata(Metadata(timing={"creation": 1}))
    assert decode_metadata(text, created_ms=5).timing == {"creation": 1}


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (HumanMessage("x"), "user"),
        (AIMessageChunk(content="x"), "assistant"),
        (SystemMessage("x"), "system"),
        (ToolMessage("x", tool_call_id="c"), "tool"),
        (ChatMessage(content="x", role="Assistant"), "assistant"),
        (ChatMessage(content="x", role="developer"), "system"),
        (ChatMessage(content="x", role="function"), "tool"),
        (ChatMessage(content="x", role="narrator"), "user"),
    ],
)
def test_every_message_has_a_role(message, role):
    assert get_role(message) == role


@pytest.mark.parametrize(
    ("content", "pieces"),
    [
        ("  Hi ", ("  Hi ",)),
        (" \n", ()),
        ([], ()),
        (["a", " ", {"type": "text", "text": "b "}], ("a", "b ")),
        ([{"type": "text", "text": ""}, {"type": "text"}, {"type": "text", "text": None}], ()),
        ([{"type": "reasoning", "text": "no line"}, {"type": ["text"], "text": "odd"}], ()),
        ([{"text": "Bedrock's"}, {"type": "input_text", "text": "c"}], ("Bedrock's", "c")),
        ([{"type": "refusal", "refusal": "No."}], ("No.",)),
    ],
)
def test_text_pieces_are_the_texts_without_blank_ones(content, pieces):
    assert get_text_pieces(HumanMessage(content)) == pieces


@pytest.mark.parametrize(
    ("stamp", "ms"),
    [
        (None, None),
        (1_756_923_600_999, 1_756_923_600_999),
        (0.9, 0),
        ("1970-01-01T00:00:01+00:00", 1_000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01", 0),
        ("1969-12-31T23:59:59.999", -1),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), 2_000),
        (datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=-1))), 3_600_000),
        (datetime(1970, 1, 1, 0, 0, 3), 3_000),  # noqa: DTZ001 - without a zone it counts as UTC
    ],
)
def test_a_message_may_name_its_time(stamp, ms):
    message = HumanMessage("x", additional_kwargs={"timestamp": stamp})
    assert get_line_time_ms(message) == ms


@pytest.mark.parametrize(
    "stamp", ["yesterday", "", True, float("nan"), [2026], b"2026-09-03", 1_790_000_000, 1.79e9]
)
def test_a_time_nobody_can_read_is_refused_with_an_example_unless_a_model_made_it(stamp):
    with pytest.raises(InvalidMessageError, match="ISO 8601"):
        make_draft(HumanMessage("x", additional_kwargs={"timestamp": stamp}))
    reply = AIMessage("x", additional_kwargs={"timestamp": stamp})
    assert make_draft(reply).contents == ("x",)
    assert get_line_time_ms(reply) is None


any_text = st.text(st.characters(codec=None, exclude_categories=[]))
keys = st.one_of(any_text, st.sampled_from(["$set", "$map", "$bytes", "$", "$points", "a"]))

zones = st.one_of(
    st.none(), st.integers(-800, 800).map(lambda minutes: timezone(timedelta(minutes=minutes)))
)

hashable = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), any_text, st.binary(max_size=9)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)
    ),
    max_leaves=6,
)

values = st.recursive(
    st.one_of(
        hashable,
        st.decimals(),
        st.dates(),
        st.datetimes(timezones=zones).map(lambda moment: moment.replace(fold=0)),
        st.sets(hashable, max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=12,
)


def printed(value):
    """Return a text that differs whenever a type or a value within differs."""
    inner = repr(value)
    if isinstance(value, dict):
        inner = sorted(map(printed, value.items()))
    elif isinstance(value, set | frozenset):
        inner = sorted(map(printed, value))
    elif isinstance(value, list | tuple):
        inner = [*map(printed, value)]
    return f"{type(value).__name__} {inner}"


@given(values)
@settings(max_examples=250, deadline=None)
def test_any_plain_value_comes_back_exactly(value):
    text = dump_json(value)
    assert printed(load_json(text)) == printed(value)
    assert text.encode().decode() == text
    assert dump_json(load_json(text)) == text


@given(messages)
@settings(max_examples=200, deadline=None)
def test_any_message_comes_back_exactly(message):
    body = encode_body(make_draft(message))
    assert are_identical(decode_body(body)[0], message_chunk_to_message(message))


@given(st.lists(any_text), st.dictionaries(keys, st.integers()), st.dictionaries(keys, values))
@settings(max_examples=100, deadline=None)
def test_any_metadata_comes_back_exactly(attributes, timing, aux):
    metadata = Metadata(tuple(attributes), timing, tuple(attributes), aux)
    back = decode_metadata(encode_metadata(metadata), created_ms=3)
    assert (back.attributes, back.summary_ids) == (metadata.attributes, metadata.summary_ids)
    assert back.timing == {"creation": 3, **timing}
    assert printed(back.aux) == printed(aux)
