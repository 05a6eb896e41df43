"""What an answer says of itself: whether it holds what is asked."""

from __future__ import annotations

import pytest

from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner
from langchain_convmem.views.shown import Recall

ANA = Owner(user_id="ana")
LINES = [
    "My cat is called Miso and loves the windowsill",
    "What a fine name",
    "I parked the car on floor three of the garage",
    "Floor three, noted",
    "The soup needs more salt",
    "Add a pinch",
    "I planted tulips by the gate",
    "They come up in April",
    "My sister moved to Norway in the spring",
    "I hope she likes the snow",
    "The paper about baroque music is due in a week",
    "Shall I remind you?",
]
WAYS = [{}, {"k": 2}, {"max_tokens": 200}, {"k": 2, "threshold": -1.0}, {"k": 2, "threshold": 0.1}]


@pytest.fixture
def recall(log, say):
    say(log, LINES, speakers=("User", "Assistant"))
    return LineRecall(log)


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize(
    "question", ["What is my cat called?", "On which floor of the garage did I park the car?"]
)
def test_a_line_that_holds_what_is_asked_answers_it(recall, question, options):
    assert recall.recall(ANA, question, **options).verdict == "answered"


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize(
    "question", ["What is the cat's age?", "How much does parking in the garage cost me a month?"]
)
def test_what_is_near_the_topic_is_related(recall, question, options):
    found = recall.recall(ANA, question, **options)
    assert found.blocks
    assert found.verdict == "related"


@pytest.mark.parametrize("question", ["Thanks!", "What is the half-life of caesium?"])
def test_an_answer_without_blocks_is_nothing(recall, question):
    found = recall.recall(ANA, question)
    assert (found.blocks, found.verdict) == ((), "nothing")
    assert Recall((), ()).verdict == "nothing"
