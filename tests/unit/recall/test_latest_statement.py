"""Promises of the latest word: of statements about the same thing the last one leads."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

pytestmark = pytest.mark.encoder

ANA = Owner(user_id="ana")
OLD, NEW = "My phone number is 555 1234.", "My phone number is 555 9876."
QUESTION = "What is my phone number?"
LIMITS = [{"k": 1}, {"k": 3}, {"max_tokens": 60}, {"max_tokens": 300}, {"max_tokens": 1000}]


def recall_of(chat, everyday, *exchanges):
    """Return a recall over everyday talk and these exchanges, the last of them latest."""
    log = InMemoryLog()
    chat(log, everyday)
    chat(log, exchanges, thread="stated", start_ms=1_720_000_000_000)
    return LineRecall(log)


def older_lines(found):
    return [
        line.text
        for block in found.blocks
        if block.text.splitlines()[0].endswith(", older]")
        for line in block.lines
    ]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize(
    ("question", "stated"),
    [
        (QUESTION, (OLD, NEW)),
        (QUESTION, ("My phone number is 555 9876.", "My new phone number is 555 1234 now.")),
        ("Where do I live?", ("I live in Leeds.", "I live in Bristol.")),
        ("Who is my dentist?", ("My dentist is Dr Brown.", "My dentist is Dr Patel.")),
        ("Wo wohne ich?", ("Ich wohne in Kassel.", "Ich wohne in Bremen.")),
    ],
)
def test_the_later_of_two_statements_leads(chat, everyday, question, stated, limits):
    old, new = stated
    found = recall_of(chat, everyday, (old, None), (new, None)).recall(ANA, question, **limits)
    assert found.matches[0].line.text == new
    assert found.blocks[0].lines[0].text == new


def test_the_order_of_writing_is_not_the_order_of_time(log, chat, everyday):
    chat(log, everyday)
    stated = ((NEW, 1_720_000_000_000), (OLD, 1_710_000_000_000))
    for number, (text, time_ms) in enumerate(stated):
        said = {"timestamp": time_ms, "session": str(number)}
        log.append(ThreadKey("ana", "x"), [make_draft(HumanMessage(text, additional_kwargs=said))])
    assert LineRecall(log).recall(ANA, QUESTION, k=1).matches[0].line.text == NEW


@pytest.mark.parametrize("limits", [{"k": 3}, {"max_tokens": 300}, {"max_tokens": 1000}], ids=str)
def test_the_header_of_an_older_statement_says_so(chat, everyday, limits):
    found = recall_of(chat, everyday, (OLD, None), (NEW, None)).recall(ANA, QUESTION, **limits)
    assert older_lines(found) == [OLD]
    assert not found.blocks[0].text.splitlines()[0].endswith(", older]")


@pytest.mark.parametrize("asked", ["3", "5"])
def test_numbered_things_do_not_replace_each_other(chat, everyday, asked):
    def line(floor, letter):
        return f"My parking space on floor {floor} is {letter}."

    recall = recall_of(chat, everyday, (line(3, "C"), None), (line(5, "F"), None))
    for limits in LIMITS:
        found = recall.recall(ANA, f"Which is my parking space on floor {asked}?", **limits)
        assert found.matches[0].line.text == line(asked, "C" if asked == "3" else "F")
        assert older_lines(found) == []


@pytest.mark.parametrize(
    "later",
    [
        ("Is my phone number in your phone list?", None),
        ("Should I change my phone number?", None),
        (None, "Your phone number is 555 0000."),
        (None, "Your phone number is easy to remember."),
    ],
)
def test_questions_and_lines_of_other_speakers_replace_nothing(chat, everyday, later):
    for limits in LIMITS:
        found = recall_of(chat, everyday, (OLD, None), later).recall(ANA, QUESTION, **limits)
        assert found.matches[0].line.text == OLD
        assert older_lines(found) == []
