"""Promises of repeats: what was asked before never hides what was stated."""

from __future__ import annotations

import pytest

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
FACT = "I parked the car on level C of the station garage."
ASKED = "Where did I park the car?"
KNOWS_NOTHING = "I don't know where you parked your car."
LIMITS = [{"k": 1}, {"k": 3}, {"max_tokens": 300}, {"max_tokens": 1000}]


def ask_again(chat, exchanges, times, *, replies=(KNOWS_NOTHING,)):
    """Return a recall over exchanges after which something was asked so many times."""
    log = InMemoryLog()
    chat(log, exchanges)
    again = [(ASKED, replies[number % len(replies)]) for number in range(times)]
    chat(log, again, thread="later", start_ms=1_720_000_000_000)
    return LineRecall(log)


def lines(found):
    return [line.text for block in found.blocks for line in block.lines]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("times", [0, 3, 10, 30])
def test_the_stated_fact_leads_however_often_it_was_asked_for(chat, everyday, times, limits):
    recall = ask_again(chat, [*everyday, (FACT, "Noted.")], times)
    found = recall.recall(ANA, ASKED, **limits)
    assert found.matches[0].line.text == FACT
    assert FACT in [line.text for line in found.blocks[0].lines]


@pytest.mark.parametrize("limits", [{"max_tokens": 300}, {"max_tokens": 1000}], ids=str)
@pytest.mark.parametrize("times", [3, 30])
def test_within_a_budget_they_take_no_room_while_there_is_a_statement(
    chat, everyday, times, limits
):
    recall = ask_again(chat, [*everyday, (FACT, "Noted.")], times)
    assert {ASKED, KNOWS_NOTHING}.isdisjoint(lines(recall.recall(ANA, ASKED, **limits)))


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, I don't have any information about your car.",
        "You haven't told me where you parked the car.",
        "Ich weiß nicht, wo du das Auto geparkt hast.",
        "Je ne sais pas où tu as garé la voiture.",
        "No sé dónde aparcaste el coche.",
    ],
)
def test_a_reply_that_knows_nothing_never_comes_before_the_statement(chat, everyday, reply):
    recall = ask_again(chat, [*everyday, (FACT, "Noted.")], 5, replies=(reply,))
    for question in (ASKED, "Which level is my car on?", "car"):
        order = [one.line.text for one in recall.recall(ANA, question, k=1, ranking=500).matches]
        assert order.index(FACT) < order.index(reply)


def say_it_often(log, chat, everyday, texts):
    chat(log, everyday)
    chat(log, [(text, None) for text in texts], thread="often", start_ms=1_720_000_000_000)
    return LineRecall(log)


SAME = [FACT, f"  {FACT}", FACT.upper(), FACT.replace(" ", "\n", 1)]


@pytest.mark.parametrize("max_tokens", [60, 300, 1000])
def test_equal_lines_are_shown_once_within_a_budget(log, chat, everyday, max_tokens):
    recall = say_it_often(log, chat, everyday, SAME)
    shown = lines(recall.recall(ANA, ASKED, max_tokens=max_tokens))
    assert len([text for text in shown if text in SAME]) == 1
