"""Dialog lines, made of entries and read from stored text alike, and their times."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from histories import messages, spoken
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.errors import InvalidMessageError, LogError
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import Row, decode_entry
from langchain_convmem.records import Metadata, ThreadKey
from langchain_convmem.testing.log_contract import ODD_TEXTS, SAMPLES
from langchain_convmem.views.codec import encode_body, encode_metadata, get_role, make_draft
from langchain_convmem.views.lines import (
    DEFAULT_SPEAKERS,
    clean_name,
    find_trust,
    format_day,
    format_iso_time,
    get_moment,
    indent_text,
    make_dialog_lines,
    read_plain_lines,
)


def test_a_line_says_who_said_what_when_and_where():
    message = HumanMessage(
        "Behind the harbour.",
        id="h1",
        name="Ana",
        additional_kwargs={"timestamp": "1970-01-01T00:00:07Z", "session": 4},
    )
    [entry] = spoken(message)
    [line] = make_dialog_lines(entry)
    assert (line.line_id, line.part, line.entry_id) == ("h1", 0, entry.id)
    assert (line.key, line.position, line.role) == (entry.key, entry.position, "user")
    assert (line.speaker, line.text) == ("Ana", "Behind the harbour.")
    assert (line.time_ms, line.session) == (7_000, "4")


def test_without_a_name_id_or_time_the_entry_gives_them():
    user, assistant = spoken(HumanMessage("a"), AIMessage("b", id="", name=""))
    [first], [second] = make_dialog_lines(user), make_dialog_lines(assistant)
    assert [first.speaker, second.speaker] == list(DEFAULT_SPEAKERS.values())
    assert [first.line_id, second.line_id] == [user.id, assistant.id]
    assert first.time_ms == user.metadata.timing["creation"]
    assert first.session is None


def test_each_piece_of_text_is_a_line_of_its_own():
    [entry] = spoken(AIMessage(["one", " ", {"type": "text", "text": "two"}, "three"], id="m"))
    lines = make_dialog_lines(entry)
    assert [line.text for line in lines] == ["one", "two", "three"]
    assert [line.line_id for line in lines] == ["m", "m#2", "m#3"]
    assert [line.part for line in lines] == [0, 1, 2]


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage("s"),
        ToolMessage("t", tool_call_id="c"),
        FunctionMessage(name="f", content="f"),
        HumanMessage(" "),
        AIMessage([{"type": "reasoning", "reasoning": "thought"}]),
        ChatMessage(content="d", role="developer"),
    ],
)
def test_only_what_user_and_assistant_said_are_lines(message):
    [entry] = spoken(message)
    assert make_dialog_lines(entry) == []


def test_summaries_and_controls_are_no_lines():
    [entry] = spoken("a")
    assert make_dialog_lines(replace(entry, role="summary")) == []
    assert make_dialog_lines(replace(entry, role="control", message=None)) == []


def test_a_line_is_tagged_with_the_short_plain_values_beside_its_message():
    tags = {"topic": "boats", "weight": 2, "share": 0.5, "urgent": False, "mood": None}
    other = {"session": "one", "timestamp": 7, "speaker": "Bo", "call": {"a": 1}, "why": "hm " * 99}
    [entry] = spoken(HumanMessage(["one", "two"], additional_kwargs={**tags, **other}))
    first, second = make_dialog_lines(entry)
    assert first.tags == second.tags == tags
    assert hash(first) == hash(replace(first, tags={}))


KEY = ThreadKey("ana", "t")
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}

PLAIN = {
    "said": HumanMessage("Behind the harbour."),
    "said by somebody": HumanMessage("Behind the harbour.", name="Ana", id="h1"),
    "blank": HumanMessage(" \n"),
    "answered": AIMessage("Two.", response_metadata={"model": "m", "logprobs": None}),
    "counted": AIMessage("3", usage_metadata={**USAGE, "input_token_details": {"audio": 1}}),
    "marked": HumanMessage(
        'He said "100 $".\n',
        additional_kwargs={"timestamp": "2026-09-03T18:20:00+02:00", "session": 4, "mood": "calm"},
    ),
    "timed": AIMessage("4", additional_kwargs={"timestamp": 7, "list": [1], "long": "x" * 300}),
}


def row_of(body, *, role="user", metadata=None):
    return Row(make_ulid(), 9, "turn", role, body, metadata)


def row_of_message(message, metadata=None):
    body = encode_body(make_draft(message))
    return row_of(body, role=get_role(message), metadata=encode_metadata(metadata or Metadata()))


def plainly(row):
    return read_plain_lines(KEY, row.id, row.position, row.role, row.body, metadata=row.metadata)


def by_the_codec(row):
    """Return the lines of a row, or what cannot be read of it."""
    try:
        return make_dialog_lines(decode_entry(KEY, row))
    except (LogError, InvalidMessageError) as error:
        return type(error)


def agree(row):
    found = plainly(row)
    # As text, since a NaN equals nothing.
    return found is None or repr(found) == repr(by_the_codec(row))


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("metadata", [None, Metadata(("fake",), {"creation": 5, "llmEnd": 6})])
def test_plain_messages_are_read_without_the_codec(name, metadata):
    row = row_of_message(PLAIN[name], metadata)
    assert plainly(row) == by_the_codec(row)


@pytest.mark.parametrize("message", SAMPLES)
def test_every_kind_of_message_has_the_lines_that_the_codec_gives_it(message):
    assert agree(row_of_message(message))


@pytest.mark.parametrize("number", range(len(ODD_TEXTS)))
def test_any_text_comes_back_as_it_was(number):
    row = row_of_message(HumanMessage(ODD_TEXTS[number]))
    assert agree(row)


@settings(max_examples=75, deadline=None)
@given(messages, st.booleans())
def test_any_message_has_the_lines_that_the_codec_gives_it(message, is_timed):
    metadata = Metadata(timing={"creation": 12}) if is_timed else None
    assert agree(row_of_message(message, metadata))


FIELDS = st.sampled_from([
    "content", "name", "id", "additional_kwargs", "response_metadata", "type",
    "tool_calls", "example", "role", "v", "m", "c", "k", "timestamp", "session", "input_tokens",
    "output_tokens", "total_tokens", "input_token_details", "$set", "$points",
])  # fmt: skip

VALUES = st.recursive(
    st.one_of(
        st.sampled_from([None, True, 0, 1, -1, 1.5, 10**30, float("nan"), "", "a"]),
        st.sampled_from(["\ud800", "human", "ai", "1", "tool", "2026-01-01", USAGE]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(FIELDS, inner, max_size=3)
    ),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(PLAIN)),
    st.lists(st.tuples(st.sampled_from(["body", "message", "marks"]), FIELDS, VALUES), max_size=3),
    st.sampled_from(["user", "assistant", "tool", "system", "control"]),
)
@example("said", [("body", "v", 2)], "user")
@example("said", [("message", "content", None)], "user")
@example("said", [("marks", "timestamp", "soon")], "user")
@example("answered", [("marks", "tool_calls", [{"function": 1}])], "assistant")
def test_what_the_codec_refuses_has_no_lines_of_its_own(name, changes, role):
    body = json.loads(encode_body(make_draft(PLAIN[name])))
    message = body["m"]
    parts = {"body": body, "message": message, "marks": message.setdefault("additional_kwargs", {})}
    for where, field, value in changes:
        parts[where][field] = value
    assert agree(row_of(json.dumps(body), role=role))


@pytest.mark.parametrize(
    "body", ["", " ", "{", "[]", "null", '"v"', '{"v":1}', '{"v":1,"m":{}} ', '{"v":1,"m":[]}']
)
def test_what_is_no_body_is_left_to_the_codec(body):
    assert plainly(row_of(body)) is None


def test_metadata_that_cannot_be_read_is_left_to_the_codec():
    row = row_of_message(HumanMessage(" "))
    assert plainly(row) == []
    assert read_plain_lines(KEY, row.id, 9, "user", row.body, metadata="{") is None


# -- Times as text: in UTC, and nothing where no calendar reaches ---------------------------------
@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (-1, "1969-12-31T23:59:59.999000+00:00"),
        (1_683_540_000_250, "2023-05-08T10:00:00.250000+00:00"),
        (-62_135_596_800_000, "0001-01-01T00:00:00+00:00"),
    ],
)
def test_a_time_is_told_in_utc(time_ms, text):
    assert format_iso_time(time_ms) == text
    assert format_day(time_ms) == text[:10]
    assert get_moment(time_ms).isoformat() == text


@pytest.mark.parametrize("time_ms", [-(10**18), 10**18, 10**30])
def test_a_time_outside_the_calendar_has_no_text(time_ms):
    assert (get_moment(time_ms), format_iso_time(time_ms), format_day(time_ms)) == (None, None, "")


# -- what begins a line -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_whatever_ends_a_line_the_next_one_is_indented(end):
    assert indent_text(f"a{end}Ana: b") == "a\n  Ana: b"


@given(st.text())
def test_an_indented_text_is_the_same_but_for_white_space(text):
    indented = indent_text(text)
    assert "".join(indented.split()) == "".join(text.split())
    assert all(line.startswith("  ") for line in indented.splitlines()[1:])


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ("Ana", "Ana"),
        (" Ana  Lee ", "Ana Lee"),
        ("Ana\nBo", "Ana Bo"),
        ("Ana\u2028\x00Bo", "Ana Bo"),
        ("Ana: yes. Bo", "Ana:yes. Bo"),
        ("\u202eanA\u202c", "anA"),
        ("agent:one", "agent:one"),
        ("\U0001f469\u200d\U0001f33e", "\U0001f469\u200d\U0001f33e"),
        ("\n", ""),
    ],
)
def test_a_name_is_one_line_and_holds_no_second_one(given, cleaned):
    assert clean_name(given) == cleaned
    assert clean_name(cleaned) == cleaned


def test_a_name_of_nothing_but_line_ends_is_none():
    [entry] = spoken(HumanMessage("hi", name="\n"))
    assert [line.speaker for line in make_dialog_lines(entry)] == ["User"]


# -- who answers for it -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "marks", "attributes", "trust"),
    [
        ("user", {}, (), "user"),
        ("assistant", {}, (), "model"),
        ("tool", {}, (), "tool"),
        ("system", {}, (), "outside"),
        ("user", {}, ("imported",), "import"),
        ("user", {"trust": "outside"}, ("imported",), "outside"),
        ("assistant", {"trust": "tool"}, (), "tool"),
        ("assistant", {"trust": "user"}, (), "model"),
        ("user", {"trust": "user"}, ("imported",), "import"),
        ("user", {"trust": ["user"]}, (), "user"),
    ],
)
def test_a_mark_can_only_lower_what_a_message_is_trusted_as(role, marks, attributes, trust):
    assert find_trust(role, marks, attributes) == trust


@pytest.mark.parametrize("stamp", [{}, {"timestamp": "2026-03-01T12:00:00+00:00"}])
@pytest.mark.parametrize("attributes", [(), ("imported",), ("imported", "interrupted")])
def test_stored_text_and_entries_say_the_same_of_where_they_come_from(stamp, attributes):
    [entry] = spoken(HumanMessage("hi", id="m", additional_kwargs=stamp))
    entry = replace(entry, metadata=replace(entry.metadata, attributes=attributes))
    read = read_plain_lines(
        entry.key,
        entry.id,
        entry.position,
        entry.role,
        encode_body(make_draft(entry.message)),
        metadata=encode_metadata(entry.metadata),
    )
    assert read == make_dialog_lines(entry)
    assert [line.trust for line in read] == ["import" if attributes else "user"]
