"""Promises of `threshold="auto"`: nothing about nothing, and everything else as without it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

ANA = Owner(user_id="ana")
HERE = ThreadKey("ana", "t")
TEXTS = [
    "I parked the car on floor three of the garage by the station",
    "Thanks, I noted floor three",
    "My dog Rufus loves swimming in the river",
    "Dogs often do, mind the current",
    "The paper about baroque music is due in a week",
    "Shall I remind you of the paper?",
    "Yes please, and of my sister's birthday",
    "When is it?",
    "She turns forty, I want to bake a lemon cake",
    "Lemon cake keeps well for three days",
    "I have to renew my passport before the trip to Norway",
    "The office opens at eight",
]
DATA = Path(__file__).parents[3] / "benchmarks" / "data"


@pytest.fixture
def recall(log, say):
    say(log, TEXTS)
    return LineRecall(log)


@pytest.mark.parametrize(
    "question", ["What is the half-life of caesium?", "Who signed the treaty of Tordesillas?"]
)
def test_a_question_about_nothing_that_was_said_finds_nothing(recall, question):
    found = recall.recall(ANA, question, max_tokens=200, threshold="auto")
    assert (found.matches, found.blocks) == ((), ())
    best = recall.recall(ANA, question, max_tokens=200, threshold=-1.0).matches[0]
    assert found.best_rejected == best.relevance


@pytest.mark.parametrize(
    ("lines", "question"),
    [
        (["My boat is red", "I see"], "Which colour has the boat?"),
        (["I parked on level C"], "Where did I park?"),
        (["My sister lives in Oslo", "Nice city"], "Where does my sibling live?"),
        (["Ich habe das Auto in der Tiefgarage geparkt", "Gut"], "Wo steht mein Auto?"),
        (["J'ai garé la voiture au niveau C"], "Où est ma voiture ?"),
        (["Мой кот любит рыбу"], "Чем кормить кота?"),
        (["我把钥匙放在厨房抽屉里了", "好的"], "钥匙在哪里?"),
        (["鍵は台所の引き出しにあります", "はい"], "鍵はどこですか"),
        (["열쇠는 부엌 서랍에 있어요", "네"], "열쇠가 어디 있어요?"),
    ],
)
def test_in_a_log_of_a_line_or_two_a_related_question_finds_them(log, say, lines, question):
    say(log, lines)
    recall = LineRecall(log)
    assert recall.recall(ANA, question).blocks
    assert recall.recall(ANA, "At what temperature does tungsten melt?").blocks == ()


def test_lines_out_of_scope_relate_to_nothing(log, say):
    entries = say(log, TEXTS)
    recall = LineRecall(log)
    question = "Where is the car parked?"
    seen = {HERE: [entries[0].position, entries[1].position]}
    assert recall.recall(ANA, question, threshold="auto", exclude=seen).blocks == ()
    assert recall.recall(ANA, question, threshold="auto").blocks


def test_words_alone_decide_while_the_embedder_fails(log, say, embedder):
    say(log, TEXTS)
    embedder.failing = ConnectionError("down")
    recall = LineRecall(log, embedder)
    assert recall.recall(ANA, "Where is the lemon cake?", threshold="auto").blocks
    assert recall.recall(ANA, "Where is the volcano?", threshold="auto").blocks == ()


@pytest.mark.encoder
def test_a_hundred_unrelated_questions_find_little_in_ten_dialogues():
    log, owner = InMemoryLog(), Owner(user_id="nora")
    asked = []
    for file in sorted((DATA / "long_replies").glob("*.json")):
        value = json.loads(file.read_text(encoding="utf-8"))
        asked += [one["question"] for one in value["questions"]]
        drafts = [
            make_draft(HumanMessage(content=said["text"], id=said["id"], name=said["speaker"]))
            for said in value["lines"]
        ]
        log.append(ThreadKey("nora", file.stem), drafts)
    unrelated = json.loads((DATA / "off_topic.json").read_text(encoding="utf-8"))["questions"]
    recall = LineRecall(log)

    def tokens(questions):
        answers = [recall.recall(owner, text) for text in questions]
        return [sum(len(block.text) for block in one.blocks) / 4 for one in answers]

    assert np.mean(tokens([text.replace("{speaker}", "Nora") for text in unrelated])) <= 300
    assert np.mean([found > 0 for found in tokens(asked)]) >= 0.97
