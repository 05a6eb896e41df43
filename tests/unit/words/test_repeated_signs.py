"""Texts of one sign, opened and never closed, are read like others."""

from __future__ import annotations

import pytest

from langchain_convmem.words.dates import find_named_days
from langchain_convmem.words.speech import find_persons, find_questions, find_statements

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize("sign", ["\u201e", "\u201c", "\u00ab", "\u300c", " 'a"])
def test_what_is_asked_after_signs_that_nothing_closes_is_found(sign):
    text = f"{sign * 5_000} x.\nWhere do I live?"
    assert find_persons(text).asker
    assert text[slice(*find_questions(text)[-1])].endswith("Where do I live?")


@pytest.mark.parametrize(
    "quoted", ["\u201eI am late\u201c", "\u201eI am late\u201d", "\u201cI am late\u201d"]
)
def test_what_is_quoted_is_about_nobody(quoted):
    assert not find_persons(f"What does {quoted} mean?").asker


def test_a_long_quotation_inside_another_sign_is_pasted():
    passage = "\u00ab" + "the tide comes in. " * 5 + "\u00bb"
    found = find_statements(f"I read \u00ab once. {passage}")
    assert len(found) == 2


def test_a_day_is_found_before_and_after_many_blanks():
    assert find_named_days(f"monday{' ' * 20_000}tuesday", 0) == [
        (4 * DAY_MS, 5 * DAY_MS),
        (5 * DAY_MS, 6 * DAY_MS),
    ]
