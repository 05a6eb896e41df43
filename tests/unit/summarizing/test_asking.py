"""What a question asks for shows in its words, in many languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.summarizing.branches import find_asked_kinds, is_question


@pytest.mark.parametrize(
    ("kind", "questions"),
    [
        (
            "amount",
            [
                "How much was the sofa?",
                "what does it cost",
                "Was kostet der Umzug?",
                "C'est combien ?",
                "¿Cuánto cuesta?",
                "Сколько стоит ремонт?",
                "这个多少钱?",
                "いくらでしたか",
                "كم السعر؟",
            ],
        ),
        (
            "date",
            [
                "When is the wedding?",
                "So when do they come?",
                "On which evening?",
                "Wann kommt er?",
                "Quand part le train ?",
                "Когда рейс?",
                "什么时候出发",
                "いつですか",
            ],
        ),
        (
            "id",
            [
                "Which code?",
                "How do I get in?",
                "Das Passwort?",
                "密码是什么",
            ],
        ),
        (
            "name",
            ["Who repairs it?", "With whom?", "Wer kommt?", "Кто звонил?", "谁来了", "誰ですか"],
        ),
        (
            "preference",
            ["Which tea do I like?", "Was mag ich?", "Qu'est-ce que j'aime ?", "我喜欢什么"],
        ),
        (
            "promise",
            ["What must I do?", "What did I promise her?", "Was muss ich tun?", "我答应了什么"],
        ),
    ],
)
def test_a_question_tells_what_it_asks_for(kind, questions):
    assert [question for question in questions if kind not in find_asked_kinds(question)] == []
    assert all(kind in find_asked_kinds(question.upper()) for question in questions)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Call me when you arrive.", "date"),
        ("The man who lives there left.", "name"),
        ("I parked the car.", "amount"),
        ("Good morning!", "id"),
        ("", "name"),
    ],
)
def test_what_asks_for_nothing_has_no_kind(text, kind):
    assert kind not in find_asked_kinds(text)


def test_a_question_bears_its_mark():
    assert all(map(is_question, ["Is it?", "是吗？", "هل؟"]))  # noqa: RUF001
    assert not any(map(is_question, ["It is.", "", "是。"]))


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    kinds = {"amount", "date", "id", "name", "preference", "promise"}
    assert find_asked_kinds(text) <= kinds
