"""Promises of who is meant: the user, the assistant or nobody, and never without evidence."""

from __future__ import annotations

import pytest

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
TENT = "The red tent is in the cellar."
BY_USER, BY_ASSISTANT = (TENT, None), (None, TENT)
NOBODY_PREFERRED = RecallSettings(person_bonus=0)


def recall_of(chat, exchanges, settings=None):
    log = InMemoryLog()
    chat(log, exchanges)
    return LineRecall(log, settings=settings)


def best(recall, question, **options):
    return recall.recall(ANA, question, k=1, **options).matches[0]


@pytest.mark.parametrize("order", [(BY_USER, BY_ASSISTANT), (BY_ASSISTANT, BY_USER)])
@pytest.mark.parametrize(
    ("question", "role"),
    [
        ("Where is my red tent?", "user"),
        ("Where did I put the red tent?", "user"),
        ("Where did you say the red tent is?", "assistant"),
        ("Did you recommend the cellar for the red tent?", "assistant"),
        ("Wo ist mein red tent?", "user"),
        ("¿Dónde está mi red tent?", "user"),
        ("Où est ma red tent ?", "user"),
    ],
)
def test_of_equal_words_those_of_the_person_who_is_meant_lead(
    chat, everyday, question, role, order
):
    found = best(recall_of(chat, [*order, *everyday]), question)
    assert (found.line.text, found.line.role) == (TENT, role)
    assert "speaker" in found.why


@pytest.mark.parametrize("question", ["Where is the red tent?", "Tell me about the red tent."])
def test_a_question_about_nobody_prefers_nobody(chat, everyday, question):
    recall = recall_of(chat, [BY_USER, BY_ASSISTANT, *everyday])
    plain = recall.recall(ANA, question, k=3, ranking=100, settings=NOBODY_PREFERRED)
    found = recall.recall(ANA, question, k=3, ranking=100)
    assert (found.blocks, found.matches[:2]) == (plain.blocks, plain.matches[:2])
    scores = {found.line.role: found.relevance for found in plain.matches[:2]}
    assert scores["user"] == pytest.approx(scores["assistant"])
