from __future__ import annotations

from datetime import timedelta, timezone

from histories import messages
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.logs.base import has_same_payload
from langchain_convmem.records import Draft, Metadata
from langchain_convmem.testing.log_contract import identical
from langchain_convmem.views.codec import (
    decode_body,
    decode_metadata,
    draft_of,
    dumps,
    encode_body,
    encode_metadata,
    loads,
)

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
        st.datetimes(timezones=zones),
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
    if isinstance(value, dict):
        inner = sorted(f"{printed(key)}: {printed(item)}" for key, item in value.items())
    elif isinstance(value, list | tuple):
        inner = [printed(item) for item in value]
    elif isinstance(value, set | frozenset):
        inner = sorted(printed(item) for item in value)
    else:
        inner = repr(value)
    return f"{type(value).__name__} {inner}"


@given(values)
@settings(max_examples=250, deadline=None)
def test_any_plain_value_comes_back_exactly(value):
    text = dumps(value)
    assert printed(loads(text)) == printed(value)
    assert text.encode().decode() == text
    assert dumps(loads(text)) == text


@given(st.frozensets(hashable, max_size=5))
@settings(max_examples=100, deadline=None)
def test_equal_sets_make_equal_text(items):
    forwards = list(items)
    backwards = forwards[::-1]
    assert dumps(set(forwards)) == dumps(set(backwards))
    assert dumps({frozenset(forwards)}) == dumps({frozenset(backwards)})


@given(messages)
@settings(max_examples=200, deadline=None)
def test_any_message_comes_back_exactly(message):
    body = encode_body(draft_of(message))
    assert identical(decode_body(body)[0], message)


@given(any_text, st.dictionaries(keys, values, max_size=3), st.one_of(st.none(), any_text))
@settings(max_examples=100, deadline=None)
def test_any_field_of_a_message_comes_back_exactly(text, extra, own):
    for message in (
        HumanMessage(text, additional_kwargs=extra, id=own, name=own),
        AIMessage([text, {"type": "text", "text": text, "more": extra}], response_metadata=extra),
        ToolMessage(text, tool_call_id=text, artifact=extra),
    ):
        back = decode_body(encode_body(draft_of(message)))[0]
        assert printed(back.__dict__) == printed(message.__dict__)


@given(st.lists(any_text), st.dictionaries(keys, st.integers()), st.dictionaries(keys, values))
@settings(max_examples=100, deadline=None)
def test_any_metadata_comes_back_exactly(attributes, timing, aux):
    metadata = Metadata(tuple(attributes), timing, tuple(attributes), aux)
    back = decode_metadata(encode_metadata(metadata), created_ms=3)
    assert (back.attributes, back.summary_ids) == (metadata.attributes, metadata.summary_ids)
    assert back.timing == {"creation": 3, **timing}
    assert printed(back.aux) == printed(aux)


@given(messages, messages)
@settings(max_examples=100, deadline=None)
def test_payloads_are_the_same_just_when_the_messages_are_but_for_their_ids(first, second):
    bodies = [encode_body(Draft(role="user", message=one)) for one in (first, second)]
    unnamed = [one.model_copy(update={"id": None}) for one in (first, second)]
    assert has_same_payload(*bodies) == identical(*unnamed)
    assert has_same_payload(bodies[0], encode_body(Draft(role="user", message=unnamed[0])))
