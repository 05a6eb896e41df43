import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def _read(name):
    return (EXAMPLES / name).read_text(encoding="utf-8")


DIALOGUE = [json.loads(line) for line in _read("weeks_with_an_assistant.jsonl").splitlines()]
QUESTIONS = [
    pytest.param(question, id=f"{name}-{number}")
    for name in ("demo_questions", "more_questions")
    for number, question in enumerate(json.loads(_read(f"{name}.json"))["questions"], start=1)
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_quotation_stands_in_the_answering_line_alone_and_not_in_the_question(question):
    assert question.keys() == {"question", "answer_line", "must_quote"}
    quotation = question["must_quote"]
    places = [n for n, line in enumerate(DIALOGUE, start=1) if quotation in line["content"]]
    assert places == [question["answer_line"]]
    assert quotation.casefold() not in question["question"].casefold()
