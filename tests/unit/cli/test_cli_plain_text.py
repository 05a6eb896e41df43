from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.cli.plain_text import clock, iso_time, json_text, safe_text

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b]text[/b] é 漢\tx\ny", "plain [b]text[/b] é 漢\tx\ny"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\r\nb", "a\nb"),
        ("hidden\rshown", "hidden\\x0dshown"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("\ud800", "\\xd800"),
    ],
)
def test_text_cannot_command_the_terminal(text, shown):
    assert safe_text(text) == shown


@given(st.text(st.characters()))
def test_safe_text_can_always_be_printed(text):
    shown = safe_text(text)
    assert "\x1b" not in shown
    assert shown.encode().decode() == shown


@given(JSON_VALUES)
def test_json_text_reads_back_exactly_and_holds_no_controls(value):
    text = json_text(value)
    assert json.loads(text) == value
    assert safe_text(text) == text


@pytest.mark.parametrize(
    ("at_ms", "minute", "millisecond"),
    [
        (0, "1970-01-01 00:00", "1970-01-01T00:00:00.000+00:00"),
        (1_683_554_160_004, "2023-05-08 13:56", "2023-05-08T13:56:00.004+00:00"),
        (10**18, "1000000000000000000 ms", None),
    ],
)
def test_times_are_shown_in_utc_and_outside_the_calendar_as_numbers(at_ms, minute, millisecond):
    assert clock(at_ms) == minute
    assert iso_time(at_ms) == millisecond
