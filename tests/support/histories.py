"""Threads for tests: random ones, by the generator of the fuzz tests, and ones that are told."""

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.views.codec import make_draft
from tests.fuzz.generator import KEY, history

__all__ = ["KEY", "SMALL_TALK", "answered", "histories", "messages", "shown_lines", "spoken"]

SMALL_TALK = [
    "I parked the car on floor three",
    "Thanks, I noted the floor",
    "My dog likes the river",
    "Dogs often do",
    "The paper about music is due in May",
    "Shall I remind you of the paper",
    "My brother's phone number is 555 0101",
    "Noted",
    "My sister's phone number is 555 0202",
    "The soup needs more salt",
]

histories = st.integers(0, 10**9).map(history)
messages = histories.map(lambda entries: [one.message for one in entries if one.message]).flatmap(
    st.sampled_from
)


def spoken(*messages, turn=None):
    """Return the entries of a thread in which the messages were said, texts by the user."""
    whole = [HumanMessage(item) if isinstance(item, str) else item for item in messages]
    with InMemoryLog() as log:
        for message in whole:
            log.append(KEY, [make_draft(message, turn_id=turn)])
        return log.entries(KEY)


def answered(*messages):
    """Return the entries of a thread in which the messages were said, and the last one answered.

    What a turn says that still goes on is shown as it is.
    """
    return spoken(*messages, *([] if isinstance(messages[-1], AIMessage) else [AIMessage("So.")]))


def shown_lines(found):
    """Return the texts of the lines that a recall shows."""
    return [line.text for block in found.blocks for line in block.lines]
