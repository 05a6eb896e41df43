"""What a history does with a write hook, and with what the hook stores nothing of."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem import ConversationHistory, InMemoryLog
from langchain_convmem.errors import InvalidMessageError


def _hook(message):
    """Store nothing of what is off the record, and no sums of money."""
    if "off the record" in message.text:
        return None
    message.content = str(message.text).replace("300", "[sum]")
    return message


@pytest.fixture
def history():
    return ConversationHistory(InMemoryLog(), "t1", user_id="ana", before_write=_hook)


def _talk(history):
    said = [HumanMessage("How much?", id="q1"), AIMessage("Let me see.", id="a1")]
    history.add_messages([*said, HumanMessage("And?", id="q2")])


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_turn_of_which_nothing_is_stored_has_no_entries(history, role):
    for turn in (
        history.add(role, "off the record: 300"),
        asyncio.run(history.aadd(role, "off the record: 300")),
    ):
        assert (turn.role, turn.entries, turn.contents) == (role, (), ())
        with pytest.raises(InvalidMessageError, match="not in the log"):
            turn.add_timing("playStart")
    assert history.entries == []


# -- replacing ----------------------------------------------------------------------------------


def test_a_replacement_of_which_nothing_is_stored_is_refused(history):
    _talk(history)
    before = history.entries
    with pytest.raises(InvalidMessageError, match="'a1' stays"):
        history.replace("a1", "off the record: 300")
    with pytest.raises(InvalidMessageError, match="'a1' stays"):
        asyncio.run(history.areplace("a1", AIMessage("x", additional_kwargs={"remember": False})))
    assert history.entries == before


# -- summaries ----------------------------------------------------------------------------------


def test_the_same_summary_again_changes_nothing_although_it_was_redacted(history):
    _talk(history)
    window = history.summary_window()
    first = history.add_summary("It is 300.", window)
    again = asyncio.run(history.aadd_summary("It is 300.", window))
    assert (again.id, again.contents) == (first.id, ("It is [sum].",))
    assert [entry.role for entry in history.entries].count("summary") == 1


def test_a_summary_of_which_nothing_is_stored_is_refused(history):
    _talk(history)
    window = history.summary_window()
    with pytest.raises(InvalidMessageError, match="summary"):
        history.add_summary("off the record: 300", window)
    with pytest.raises(InvalidMessageError, match="summary"):
        asyncio.run(history.aadd_summary("off the record: 300", window))
    assert history.last_summary is None
    assert history.summary_window() == window


def test_a_summary_of_which_the_hook_leaves_blanks_is_refused():
    def blank(message):
        message.content = " " if isinstance(message, SystemMessage) else message.content
        return message

    history = ConversationHistory(InMemoryLog(), "t1", before_write=blank)
    _talk(history)
    with pytest.raises(InvalidMessageError, match="blank"):
        history.add_summary("They talked.", history.summary_window())
    assert history.last_summary is None
