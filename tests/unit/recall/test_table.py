from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

ANA = Owner(user_id="ana")
TABLE = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))
TALK = [tuple(exchange) for exchange in TABLE["talk"]]


@pytest.fixture(scope="module")
def recall_of(chat):
    @cache
    def make(*, has_model, more=()):
        log = InMemoryLog()
        chat(log, [*TALK[:10], *more[:1], *TALK[10:], *more[1:]])
        return LineRecall(log)

    return make


def first_lines(recall, question):
    blocks = recall.recall(ANA, question).blocks
    return [line.text for line in blocks[0].lines] if blocks else []


@pytest.mark.parametrize(("question", "line"), TABLE["words"])
def test_what_shares_words_with_the_question_comes_first(recall_of, question, line):
    assert line in first_lines(recall_of(has_model=False), question)


@pytest.mark.encoder
@pytest.mark.parametrize(("question", "line"), TABLE["words"])
def test_the_model_changes_nothing_about_that(recall_of, question, line):
    assert line in first_lines(recall_of(has_model=True), question)


@pytest.mark.encoder
@pytest.mark.parametrize(("question", "line"), TABLE["meaning"])
def test_what_answers_in_other_words_or_another_language_comes_first(recall_of, question, line):
    first = first_lines(recall_of(has_model=True), question)
    assert {line} & {*first} if isinstance(line, str) else {*line} & {*first}


@pytest.mark.encoder
@pytest.mark.parametrize(("question", "old", "new"), TABLE["updates"])
def test_of_two_statements_the_later_comes_first(recall_of, question, old, new):
    recall = recall_of(has_model=True, more=((old, "Noted."), (new, "Noted.")))
    assert new in first_lines(recall, question)


@pytest.mark.encoder
@pytest.mark.parametrize("said", TABLE["nothing"])
def test_what_asks_about_nothing_that_was_said_finds_nothing(recall_of, said):
    assert first_lines(recall_of(has_model=True), said) == []


DAY_MS = 24 * 3_600_000
START_MS = 1_735_700_000_000
PAIRS = json.loads(Path(__file__).with_name("updates.json").read_text(encoding="utf-8"))
BETWEEN = json.loads(
    (Path(__file__).parents[3] / "benchmarks/data/personal/ordinary.json").read_text("utf-8")
)


def add(log, thread, day, *texts):
    said = {"timestamp": START_MS + day * DAY_MS}
    kinds = (HumanMessage, AIMessage)
    drafts = [
        make_draft(kind(content=text, additional_kwargs=said))
        for kind, text in zip(kinds, texts, strict=False)
    ]
    log.append(ThreadKey("ana", thread), drafts)


def recall_year():
    """A year of ordinary requests, with the old states in spring and the new ones in autumn."""
    log = InMemoryLog()
    days = [(n * 3, one["user"], one["assistant"]) for n, one in enumerate(BETWEEN["exchanges"])]
    days += [(40 + n, pair["old"], "Let me think.") for n, pair in enumerate(PAIRS)]
    days += [(250 + n, pair["new"], "Gladly.") for n, pair in enumerate(PAIRS)]
    for number, (day, *texts) in enumerate(sorted(days)):
        add(log, f"t{number}", day, *texts)
    return LineRecall(log)


@pytest.mark.encoder
def test_the_present_state_comes_back_and_before_the_old_one():
    recall = recall_year()
    present = first = 0
    for pair in PAIRS:
        found = recall.recall(ANA, pair["question"], now_ms=START_MS + 400 * DAY_MS)
        texts = [block.text for block in found.blocks]

        def find(said, texts=texts):
            start = said.split("?")[0][:40]
            return next((at for at, text in enumerate(texts) if start in text), len(texts))

        old, new = find(pair["old"]), find(pair["new"])
        present += new < len(texts)
        first += new < min(old, len(texts))
    assert present >= 0.8 * len(PAIRS), present
    assert first >= 0.5 * len(PAIRS), first
