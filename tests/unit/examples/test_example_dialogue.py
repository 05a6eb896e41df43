from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
QUESTION_FILES = {"demo_questions.json": 3, "more_questions.json": 12}
LONG_REPLY = range(800, 2501)
"""Characters of a reply that is long, but not a wall of text."""


def load_dialogue() -> list[dict[str, str]]:
    text = (EXAMPLES / "weeks_with_an_assistant.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def load_questions(name: str) -> list[dict[str, Any]]:
    document = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    assert list(document) == ["questions"]
    return list(document["questions"])


DIALOGUE = load_dialogue()
TIMES = [datetime.fromisoformat(line["timestamp"]) for line in DIALOGUE]
QUESTIONS = [
    pytest.param(question, id=f"{name}-{number}")
    for name in QUESTION_FILES
    for number, question in enumerate(load_questions(name), start=1)
]


def is_long_reply(line: dict[str, str]) -> bool:
    return line["role"] == "assistant" and len(line["content"]) in LONG_REPLY


def test_the_dialogue_is_long_enough_to_forget_in() -> None:
    assert 150 <= len(DIALOGUE) <= 200


def test_every_line_has_a_role_a_text_a_time_and_a_session() -> None:
    for line in DIALOGUE:
        assert line.keys() - {"name"} == {"role", "content", "timestamp", "session"}
        assert line["role"] in {"user", "assistant"}
        assert line["content"] == line["content"].strip() != ""


def test_only_people_have_a_name() -> None:
    assert {line["role"] for line in DIALOGUE if "name" in line} == {"user"}
    assert {line["name"] for line in DIALOGUE if line["role"] == "user"} == {"Maya", "Jonas"}


def test_at_least_twelve_replies_are_long_and_none_is_longer_than_promised() -> None:
    assert sum(map(is_long_reply, DIALOGUE)) >= 12
    assert max(len(line["content"]) for line in DIALOGUE) <= LONG_REPLY[-1]


def test_long_replies_hold_lists_tables_and_code_blocks() -> None:
    replies = [line["content"] for line in DIALOGUE if is_long_reply(line)]
    for mark in ("\n1. ", "\n- ", "\n|---", "\n```\n"):
        assert sum(mark in reply for reply in replies) >= 2, mark


def test_sometimes_the_user_writes_twice_in_a_row() -> None:
    pairs = [(one["role"], two["role"]) for one, two in pairwise(DIALOGUE)]
    assert pairs.count(("user", "user")) >= 5
    assert ("assistant", "assistant") not in pairs


def test_no_text_stands_there_twice() -> None:
    texts = [line["content"] for line in DIALOGUE]
    assert len(set(texts)) == len(texts)


def test_times_carry_an_offset_and_ascend() -> None:
    assert all(time.tzinfo is not None for time in TIMES)
    assert all(earlier < later for earlier, later in pairwise(TIMES))


def test_sessions_are_numbered_without_a_gap_and_never_resumed() -> None:
    labels = [label for label, _ in groupby(line["session"] for line in DIALOGUE)]
    assert labels == [f"s{number:02}" for number in range(1, len(labels) + 1)]
    assert 12 <= len(labels) <= 14


def test_days_lie_between_sessions_and_minutes_between_lines() -> None:
    stamped = zip(DIALOGUE, TIMES, strict=True)
    for (before, left), (after, came_back) in pairwise(stamped):
        if before["session"] == after["session"]:
            assert came_back - left < timedelta(minutes=30), after["timestamp"]
        else:
            assert came_back - left > timedelta(days=2), after["timestamp"]


def test_the_dialogue_spans_about_seven_weeks() -> None:
    assert timedelta(weeks=6) < TIMES[-1] - TIMES[0] < timedelta(weeks=8)


@pytest.mark.parametrize(("name", "count"), QUESTION_FILES.items())
def test_each_file_holds_the_promised_number_of_questions(name: str, count: int) -> None:
    questions = load_questions(name)
    assert len({question["question"] for question in questions}) == len(questions) == count


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


def test_demo_answers_lie_weeks_back_in_three_sessions_and_one_in_a_long_reply() -> None:
    numbers = [question["answer_line"] - 1 for question in load_questions("demo_questions.json")]
    answers = [DIALOGUE[number] for number in numbers]
    last_session = TIMES[[line["session"] for line in DIALOGUE].index(DIALOGUE[-1]["session"])]
    assert all(last_session - TIMES[number] >= timedelta(weeks=2) for number in numbers)
    assert len({line["session"] for line in answers}) == 3
    assert any(map(is_long_reply, answers))
