"""Promises of passages: a loosely related message is shown as what it states, word for word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner, ThreadKey

ANA = Owner(user_id="ana")
NOW = ThreadKey("ana", "now")
STATED = "I run four times a week before work and train for the Lisbon marathon."
ASKED = "Could you write me a short poem about autumn leaves?"
LATER = "My knee hurts a little since Monday."
MESSAGE = f"{STATED} {ASKED} {LATER}"
AROUND = (("The heron is grey.", None), ("I keep two goats.", None))
QUESTION = "What do I like?"
SENTENCES = (
    STATED,
    ASKED,
    LATER,
    "Please translate this into Welsh.",
    "Our allotment lies behind the old railway station.",
    "Thanks a lot!",
    "We moved here from Turin in the spring of 2019.",
    "Which of these is cheaper?",
)


def recall_of(chat, exchanges, **numbers):
    log = InMemoryLog()
    chat(log, exchanges)
    return LineRecall(log, settings=RecallSettings(**numbers))


def shown(found):
    """Return what follows each speaker, of messages without line breaks."""
    lines = [line for block in found.blocks for line in block.text.splitlines()[1:]]
    return [line.partition(": ")[2] for line in lines]


def test_a_loosely_related_message_is_shown_without_its_request(chat):
    found = recall_of(chat, [(MESSAGE, None), *AROUND]).recall(ANA, QUESTION)
    assert f"{STATED} [...] {LATER}" in shown(found)
    [line] = [one for block in found.blocks for one in block.lines if STATED in one.text]
    assert line.text == MESSAGE


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"{ASKED} {STATED} {LATER}", f"[...] {STATED} {LATER}"),
        (f"{STATED} {LATER} {ASKED}", f"{STATED} {LATER} [...]"),
        (f"{STATED} {LATER} We sleep in a tent.", f"{STATED} {LATER} We sleep in a tent."),
    ],
)
def test_what_is_left_out_is_marked_where_it_stood(chat, message, expected):
    found = recall_of(chat, [(message, None), *AROUND]).recall(ANA, QUESTION)
    assert expected in shown(found)


messages = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=7).map(" ".join)


@given(
    said=st.lists(st.tuples(messages, st.none() | messages), min_size=1, max_size=6),
    tokens=st.integers(1, 300),
    window=st.integers(0, 2),
)
@settings(max_examples=60)
def test_no_budget_is_exceeded_and_what_is_shown_is_verbatim(chat, said, tokens, window):
    found = recall_of(chat, said, budget_window=window).recall(ANA, QUESTION, max_tokens=tokens)
    assert sum(len(block.text) for block in found.blocks) <= 4 * tokens
    for block in found.blocks:
        for line, text in zip(block.lines, block.text.splitlines()[1:], strict=True):
            label, _, pieces = text.partition(": ")
            assert label == line.speaker
            at = 0
            for piece in pieces.split("[...]"):
                at = line.text.index(piece.strip(), at) + len(piece.strip())
            assert pieces == line.text or "[...]" in pieces


def test_the_buffer_takes_in_a_message_that_was_shown_in_part(chat):
    recall = recall_of(chat, [(MESSAGE, None), *AROUND], buffer_size=10)
    found = recall.recall(ANA, QUESTION, buffer=NOW)
    lines = {line.text for block in found.blocks for line in block.lines}
    assert MESSAGE in lines
    assert {line.text for block in found.buffer for line in block.lines} == lines
    later = recall.recall(ANA, "Thanks!", buffer=NOW)
    assert later.blocks == ()
    assert [block.lines for block in later.buffer] == [block.lines for block in found.buffer]
