"""Dialog lines, made of entries and read from stored text alike, and their times."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import spoken
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.views.lines import (
    clean_name,
    find_trust,
    format_day,
    format_iso_time,
    get_moment,
    indent_text,
    make_dialog_lines,
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


def test_a_line_is_tagged_with_the_short_plain_values_beside_its_message():
    tags = {"topic": "boats", "weight": 2, "share": 0.5, "urgent": False, "mood": None}
    other = {"session": "one", "timestamp": 7, "speaker": "Bo", "call": {"a": 1}, "why": "hm " * 99}
    [entry] = spoken(HumanMessage(["one", "two"], additional_kwargs={**tags, **other}))
    first, second = make_dialog_lines(entry)
    assert first.tags == second.tags == tags
    assert hash(first) == hash(replace(first, tags={}))


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
