"""What is read of a long question: its beginning and its end, after the hooks."""

from __future__ import annotations

import pytest

from langchain_convmem.recall.options import LONGEST_QUESTION, cut_question


def test_a_question_up_to_the_limit_is_read_whole():
    question = "a" * LONGEST_QUESTION
    assert cut_question(question) == question


@pytest.mark.parametrize("place", ["before", "after"])
def test_what_is_asked_before_or_after_a_long_text_is_read(place):
    pasted, asked = "word " * 10_000, "Where does Vera live?"
    question = f"{asked} {pasted}" if place == "before" else f"{pasted} {asked}"
    read = cut_question(question)
    assert asked in read
    assert len(read) == LONGEST_QUESTION
