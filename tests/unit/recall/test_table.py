import json
from functools import cache
from pathlib import Path

import pytest

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
TABLE = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))
TALK = [tuple(exchange) for exchange in TABLE["talk"]]


@pytest.fixture(scope="module")
def recall_of(chat):
    @cache
    def make(*, has_model):
        log = InMemoryLog()
        chat(log, TALK)
        return LineRecall(log)

    return make


def first_lines(recall, question):
    blocks = recall.recall(ANA, question).blocks
    return [line.text for line in blocks[0].lines] if blocks else []


@pytest.mark.parametrize("has_model", [False, pytest.param(True, marks=pytest.mark.encoder)])
@pytest.mark.parametrize(("question", "line"), TABLE["words"])
def test_what_shares_words_with_the_question_comes_first(recall_of, has_model, question, line):
    assert line in first_lines(recall_of(has_model=has_model), question)


@pytest.mark.encoder
@pytest.mark.parametrize(("question", "line"), TABLE["meaning"])
def test_what_answers_in_other_words_or_another_language_comes_first(recall_of, question, line):
    first = first_lines(recall_of(has_model=True), question)
    assert {line} & {*first} if isinstance(line, str) else {*line} & {*first}
