from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
QUESTION_FILES = {"demo_questions.json": 3, "more_questions.json": 12}
"""Characters of a reply that is long, but not a wall of text."""


def load_dialogue() -> list[dict[str, str]]:
    text = (EXAMPLES / "weeks_with_an_assistant.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def load_questions(name: str) -> list[dict[str, Any]]:
    document = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    assert list(document) == ["questions"]
    return list(document["questions"])


DIALOGUE = load_dialogue()
QUESTIONS = [
    pytest.param(question, id=f"{name}-{number}")
    for name in QUESTION_FILES
    for number, question in enumerate(load_questions(name), start=1)
]


def test_every_line_has_a_role_a_text_a_time_and_a_session() -> None:
    for line in DIALOGUE:
        assert line.keys() - {"name"} == {"role", "content", "timestamp", "session"}
        assert line["role"] in {"user", "assistant"}
        assert line["content"] == line["content"].strip() != ""


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_quotation_stands_in_the_answering_line_and_in_no_other(
    question: dict[str, Any],
) -> None:
    assert question.keys() == {"question", "answer_line", "must_quote"}
    places = [
        number
        for number, line in enumerate(DIALOGUE, start=1)
        if question["must_quote"] in line["content"]
    ]
    assert places == [question["answer_line"]]


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_gives_its_answer_away(question: dict[str, Any]) -> None:
    assert question["must_quote"].casefold() not in question["question"].casefold()
