from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Entry, Owner, ThreadKey

KEY = ThreadKey("ana", "t1")
SURROGATES = ("\ud800", "half \ud83d inside", "two halves \ud83d\ude00")


@pytest.mark.parametrize(
    ("message", "message_id"),
    [
        (HumanMessage("x", id="m1"), "m1"),
        (HumanMessage("x"), "E1"),
        (AIMessage("x", id=""), "E1"),
        (AIMessage("x", id=" "), " "),
        (None, "E1"),
    ],
    ids=["own", "none", "empty", "blank", "no message"],
)
def test_a_message_goes_by_its_own_id_else_by_that_of_its_entry(message, message_id):
    entry = Entry(id="E1", key=KEY, position=1, turn_id="E1", role="user", message=message)
    assert entry.message_id == message_id


NAMES = st.text(min_size=1).filter(str.strip)


@given(NAMES, st.none() | NAMES)
def test_any_text_that_can_be_encoded_is_an_id(thread_id, user_id):
    key = ThreadKey(user_id, thread_id)
    assert key.owner == (Owner(thread_id=thread_id) if user_id is None else Owner(user_id=user_id))


@pytest.mark.parametrize("name", ["", " \t", True, False, 7.5, b"t1", *SURROGATES], ids=ascii)
def test_neither_a_thread_nor_a_user_is_named_by_what_cannot_be_kept(name):
    for kind in (partial(ThreadKey, "ana"), lambda name: Owner(thread_id=name)):
        with pytest.raises(ConfigError, match="thread_id"):
            kind(name)
    for kind in (lambda name: ThreadKey(name, "t1"), Owner):
        with pytest.raises(ConfigError, match="user_id"):
            kind(name)


@pytest.mark.parametrize("ids", [(None, None), ("ana", "t1"), ("", "")], ids=ascii)
def test_an_owner_is_one_and_not_nobody(ids):
    with pytest.raises(ConfigError, match="exactly one"):
        Owner(*ids)


@pytest.mark.parametrize("name", SURROGATES, ids=ascii)
def test_the_refusal_of_an_id_can_be_printed_anywhere(name):
    with pytest.raises(ConfigError, match="not valid Unicode") as refused:
        ThreadKey(None, name)
    assert str(refused.value).isascii()
