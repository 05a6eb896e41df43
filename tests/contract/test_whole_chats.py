"""Who sends the whole chat, or its last messages, is who sends what is new: at every door.

Fifty turns with edits, other answers, repeated words, dated system prompts and two pages at once.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from whole_chats import DOORS, News, Page, kept_by, log_of, make_words, run, seen_by, view_of

from langchain_convmem import ConversationMemory, InMemoryLog

pytestmark = pytest.mark.slow
TURNS = 50
ACTIONS = ["say", "say", "say", "yes", "edit", "edit earlier", "again"]


def _many(*actions):
    return st.lists(st.sampled_from(actions), min_size=TURNS, max_size=TURNS)


def _check_equal(page, news):
    assert seen_by(page.model) == seen_by(news.model)
    assert view_of(page.memory) == view_of(news.memory)
    assert kept_by(page.memory) == kept_by(news.memory)
    if page.door != "conversation":  # which takes a question back that it answers anew
        assert log_of(page.memory) == log_of(news.memory)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("most", [None, 10])
@settings(max_examples=2, deadline=None)
@given(actions=_many(*ACTIONS), dated=st.booleans())
def test_who_sends_the_whole_chat_or_its_end_is_who_sends_what_is_new(door, most, actions, dated):
    page = run(Page(door, with_ids=True, most=most), actions, dated=dated)
    _check_equal(page, run(News(door, with_ids=True), actions, dated=dated))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("most", [None, 10])
@settings(max_examples=2, deadline=None)
@given(actions=_many("say", "yes"), dated=st.booleans())
def test_without_ids_texts_tell_what_is_new(door, most, actions, dated):
    page = run(Page(door, with_ids=False, most=most), actions, dated=dated)
    _check_equal(page, run(News("wrap", with_ids=False), actions, dated=dated))


@pytest.mark.parametrize("door", DOORS)
@settings(max_examples=2, deadline=None)
@given(
    tabs=st.lists(st.integers(0, 1), min_size=TURNS, max_size=TURNS),
    with_ids=st.booleans(),
    most=st.sampled_from([None, 10]),
)
def test_two_tabs_never_take_back_each_others_turns(door, tabs, with_ids, most):
    page = Page(door, with_ids=with_ids, most=most, tabs=2)
    news = News(door, with_ids=with_ids)
    for number, tab in enumerate(tabs):
        for caller in (page, news):
            caller.say(make_words(number), number, [], tab)
    _check_equal(page, news)
    assert all(is_live for _, _, is_live in log_of(page.memory))


def test_a_chat_that_is_added_again_and_again_under_its_ids_is_stored_once():
    memory = ConversationMemory(InMemoryLog())
    history = memory.history("t", user_id="ana")
    chat = []
    for number in range(TURNS):
        chat += [
            HumanMessage(make_words(number), id=f"u{number}"),
            AIMessage("Fine.", id=f"a{number}"),
        ]
        history.add_messages(chat[-10:] if number % 2 else chat)
    assert view_of(memory) == [(one.type, one.text) for one in chat]
    assert len(history.entries) == len(chat)
