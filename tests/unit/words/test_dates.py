"""Promises of dates in questions: what is named is found, and nothing else is read as a date."""

# ruff: noqa: RUF001 - dates in the letters they are written in
from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.words.dates import find_time_spans

# A Monday.
NOW_MS = int(datetime(2023, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)


def days(text):
    """Return the first and last day of each stretch."""
    return [
        " ".join(f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d}" for ms in (since, until - 1))
        for since, until in find_time_spans(text, NOW_MS)
    ]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What happened on 2023-05-08?", "2023-05-08", "2023-05-08"),
        ("on 8 May", "2023-05-08", "2023-05-08"),
        ("on 8 December", "2022-12-08", "2022-12-08"),
        ("on May 8th, 2022", "2022-05-08", "2022-05-08"),
        ("in May", "2023-05-01", "2023-05-31"),
        ("in December", "2022-12-01", "2022-12-31"),
        ("by February 2024", "2024-02-01", "2024-02-29"),
        ("2023-05", "2023-05-01", "2023-05-31"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("am 8. Mai 2023", "2023-05-08", "2023-05-08"),
        ("am 8.5.2023", "2023-05-08", "2023-05-08"),
        ("le 1er août 2023", "2023-08-01", "2023-08-01"),
        ("el 8 de mayo de 2023", "2023-05-08", "2023-05-08"),
        ("il 8 maggio 2023", "2023-05-08", "2023-05-08"),
        ("em março de 2023", "2023-03-01", "2023-03-31"),
        ("op 8 maart 2023", "2023-03-08", "2023-03-08"),
        ("den 8 maj 2023", "2023-05-08", "2023-05-08"),
        ("8 toukokuu 2023", "2023-05-08", "2023-05-08"),
        ("8 Mayıs 2023", "2023-05-08", "2023-05-08"),
        ("8 мая 2023", "2023-05-08", "2023-05-08"),
        ("today", "2023-11-20", "2023-11-20"),
        ("yesterday", "2023-11-19", "2023-11-19"),
        ("the day before yesterday", "2023-11-18", "2023-11-18"),
        ("two days ago", "2023-11-18", "2023-11-18"),
        ("3 weeks ago", "2023-10-27", "2023-11-02"),
        ("last week", "2023-11-13", "2023-11-19"),
        ("this month", "2023-11-01", "2023-11-30"),
        ("last month", "2023-10-01", "2023-10-31"),
        ("last year", "2022-01-01", "2022-12-31"),
        ("on Friday", "2023-11-17", "2023-11-17"),
        ("last Monday", "2023-11-13", "2023-11-13"),
        ("letzten Freitag", "2023-11-17", "2023-11-17"),
        ("hier, avant-hier", "2023-11-18", "2023-11-18"),
        ("vor zwei Tagen", "2023-11-18", "2023-11-18"),
        ("i maj", "2023-05-01", "2023-05-31"),
        ("on the 14th", "2023-11-14", "2023-11-14"),
        ("on the 24th", "2023-10-24", "2023-10-24"),
        ("last weekend", "2023-11-17", "2023-11-20"),
    ],
)
def test_a_question_names_a_stretch_of_days(text, first, last):
    assert days(text) == [f"{first} {last}"]


def test_two_numbers_that_may_both_be_the_month_are_read_both_ways():
    assert sorted(days("on 03/04/2023")) == ["2023-03-04 2023-03-04", "2023-04-03 2023-04-03"]
    assert days("on 25/04/2023") == days("on 04/25/2023") == ["2023-04-25 2023-04-25"]


def test_several_dates_are_several_stretches():
    assert len(days("Between 11 August and 15 August 2023, or yesterday?")) == 3


@pytest.mark.parametrize(
    "text",
    [
        "May I ask?",
        "Do you think this may be wrong?",
        "What is the Friday meeting about?",
        "Was gibt es hier?",
        "on 31 June 2023",
        "99 weeks, 2000 words",
        "2023-13-40",
        "",
        "maybe on mars",
        "on all our yesterdays, and last nightmare",
    ],
)
def test_anything_else_names_none(text):
    assert days(text) == []


@given(st.text() | st.from_regex(r"[0-9]{1,4}[-/. ]([0-9]{1,2}|May|weeks ago)[-/. ][0-9]{0,4}"))
def test_every_stretch_has_a_beginning_before_its_end(text):
    assert all(since < until for since, until in find_time_spans(text, NOW_MS))
