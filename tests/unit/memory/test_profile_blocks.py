from dataclasses import replace

import pytest
from scripted_chat import ScriptedChatModel, at
from ulid import ULID

from langchain_convmem import ConversationMemory
from langchain_convmem.ids import get_ulid_ms
from langchain_convmem.turns.memory import choose_items


def _ask(path, thread_id="t"):
    """Return the first message of one more turn, asked in a process of its own."""
    model = ScriptedChatModel(replies=["Yes."])
    with ConversationMemory.open(path) as memory:
        chain = memory.wrap(model, recall=False, profile_tokens=150)
        chain.invoke("Still there?", at(thread_id=thread_id))
    return model.seen[0][0].text


def test_what_is_said_elsewhere_changes_no_block_that_a_thread_has(tmp_path):
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path) as memory:
        memory.history("old", user_id="ana").add("user", "I am allergic to peanuts.")
        first = _ask(path)
        assert "peanuts" in first
        memory.history("later", user_id="ana").add("user", "I live in Porto, near the river.")
        assert _ask(path) == first
        assert "Porto" in _ask(path, "another")
        memory.forget(user_id="ana", thread_id="old")
        assert "peanuts" not in _ask(path), "what is forgotten leaves it at once"


def test_a_turn_that_recalls_shows_the_profile_unless_it_is_turned_off(memory):
    model = ScriptedChatModel(replies=["Soup."] * 4)
    memory.history("old", user_id="ana").add("user", "I'm coeliac.")
    for number, options in enumerate(({}, {"profile_tokens": 0}, {"recall": False})):
        memory.wrap(model, **options).invoke("Plan my lunch.", at(thread_id=f"t{number}"))
    assert ["<profile>" in str(seen) for seen in model.seen] == [True, False, False]


def test_a_message_that_leaves_no_room_for_the_block_gets_none(memory):
    model = ScriptedChatModel(replies=["No."])
    memory.history("old", user_id="ana").add("user", "I am allergic to peanuts.")
    chain = memory.wrap(model, recall=False, profile_tokens=150, history_tokens=200)
    chain.invoke("Is this all right? " + "rice and leeks " * 40, at())
    assert "peanuts" not in str(model.seen)


def test_what_was_said_here_enters_the_block_once_the_model_sees_the_line_no_more(memory):
    model = ScriptedChatModel(replies=["Yes."] * 99)
    chain = memory.wrap(model, recall=False, profile_tokens=150, history_tokens=400)
    chain.invoke("I'm vegetarian, by the way.", at())
    for number in range(40):
        chain.invoke(f"Which river is number {number} on the list of long ones?", at())
    shown = ["".join(str(one.content) for one in messages) for messages in model.seen[1:]]
    assert all("vegetarian" in text for text in shown)
    assert "<profile>" not in shown[0]
    assert "<profile>" in shown[-1]


@pytest.mark.parametrize(("minutes", "is_new"), [(59, False), (61, True)])
def test_after_an_hour_without_a_message_the_block_is_made_anew(memory, minutes, is_new):
    [said] = memory.add_messages(["I live in Porto."], thread_id="later", user_id="ana")
    at_s = get_ulid_ms(said.id) / 1000 + 1
    ids = [str(ULID.from_timestamp(at_s - ago_s)) for ago_s in (minutes * 60, 0)]
    seen = [replace(said, id=name) for name in ids]
    assert bool(choose_items(memory.profile("ana"), seen, 150, len)) is is_new
