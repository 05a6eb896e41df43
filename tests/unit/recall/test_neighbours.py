"""Promises of what lines take of those around them, and of what a lone word is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

ANA = Owner(user_id="ana")
ALONE = RecallSettings(kernel=(1.0,), session_prior=0.0)
LONG = " ".join(
    ["Gravel beds, drainage slopes and frost depth decide how a terrace lasts over decades."] * 8
)
TENT = "We packed the red tent for Norway."
MEDICINE = "The doctor prescribed me antibiotics for the infection."
LONE_WORD = "A zeitgeist committee met about it."


def order_of(log, question, settings=None):
    found = LineRecall(log, settings=settings).recall(ANA, question, k=1, ranking=200)
    return [match.line.text for match in found.matches]


def say_after(log, asked, answered):
    said = {"timestamp": 1_800_000_000_000, "session": "last"}
    lines = (
        AIMessage(asked, additional_kwargs=said),
        HumanMessage(answered, additional_kwargs=said),
    )
    log.append(ThreadKey("ana", "t"), [make_draft(one) for one in lines])


def test_a_short_answer_is_found_through_its_question(log, chat, everyday):
    chat(log, everyday)
    say_after(log, "The wedding is in May, are your parents coming?", "Yes, both of them.")
    question = "Who will be at the wedding in May?"
    order = order_of(log, question)
    assert order.index("Yes, both of them.") <= 1
    assert order_of(log, question, ALONE).index("Yes, both of them.") > 1
    [match] = [
        one
        for one in LineRecall(log).recall(ANA, question, k=1).matches
        if one.line.text == "Yes, both of them."
    ]
    assert "neighbours" in match.why


def test_a_long_reply_does_not_rise_because_its_neighbour_matches(chat, everyday):
    def scores(exchange):
        log = InMemoryLog()
        chat(log, [exchange, *everyday])
        settings = RecallSettings(session_prior=0.0)
        found = LineRecall(log, settings=settings).recall(ANA, "tent for Norway", k=1, ranking=200)
        return {match.line.text: match for match in found.matches}

    long, short = scores((TENT, LONG)), scores((TENT, "It dries fast."))
    gains = [long[LONG].relevance, short["It dries fast."].relevance]
    apart = scores((TENT, None))[TENT].relevance
    assert gains[0] < 0.2 * apart < gains[1]


@pytest.mark.parametrize("count", [1, 5, 20])
@pytest.mark.parametrize("copies", [0, 3, 10])
def test_a_lone_rare_word_is_worth_no_more_however_many_lines_hold_none(
    chat, everyday, count, copies
):
    log = InMemoryLog()
    chat(log, [(MEDICINE, None), (LONE_WORD, None), *everyday[:count]])
    for copy in range(copies):
        chat(log, [(f"{mine} Part {copy}.", f"{yours} {copy}.") for mine, yours in everyday])

    def score(least_deviation):
        settings = replace(ALONE, dense_weight=0.0, least_deviation=least_deviation)
        [best] = LineRecall(log, settings=settings).recall(ANA, "zeitgeist", k=1, ranking=1).matches
        assert best.line.text == LONE_WORD
        return best.relevance

    assert 1.0 < score(0.5) < 2.5
    assert score(0.5) <= score(0.0)
    if copies:
        assert score(RecallSettings().least_deviation) < 0.5 * score(0.0)


@pytest.mark.parametrize("count", [2, 5, 10, 20])
def test_a_lone_rare_word_does_not_lead_what_fits_in_meaning(chat, everyday, count):
    question = "Which medicine did the zeitgeist doctor give against the infection?"
    log = InMemoryLog()
    chat(log, [(MEDICINE, None), (LONE_WORD, None), *everyday[:count]])
    assert order_of(log, question)[0] == MEDICINE


@pytest.mark.parametrize("copies", [5, 20])
def test_nor_does_it_in_a_larger_memory(chat, everyday, copies):
    log = InMemoryLog()
    chat(log, [(MEDICINE, None), (LONE_WORD, None)])
    for copy in range(copies):
        chat(log, [(f"{mine} Part {copy}.", f"{yours} {copy}.") for mine, yours in everyday])
    question = "Which medicine did the zeitgeist doctor give against the infection?"
    assert order_of(log, question)[0] == MEDICINE
