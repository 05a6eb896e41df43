"""What the log learns of a state: compared by value, without a graph around it."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem import InMemoryLog
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.node_context import NodeContext, read_mark
from langchain_convmem.turns.state_sync import StateSync, find_exchange, is_stand_in
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder

KEY = ThreadKey("ana", "t")


def node(checkpoint="1", task="task", level="", **more):
    """Return a node at the top of a graph, or below it where it has a level."""
    above = tuple((checkpoint, f"{name}:1") for name in level.split("|") if name)
    return NodeContext(KEY, (*above, (checkpoint, f"node:{task}")), **more)


def human(text, name=None):
    return HumanMessage(text, id=name or text)


def ai(text, name=None):
    return AIMessage(text, id=name or text)


class Thread:
    """A thread that states are synced with."""

    def __init__(self) -> None:
        self.log = InMemoryLog()

    def sync(self, context=None, **more):
        return StateSync(self.log, DraftBuilder(), context or node(), **more)

    def begin(self, *messages, note=None, context=None, **more):
        return self.sync(context, **more).begin(messages, note).note

    def catch_up(self, *messages, note=None, context=None, **more):
        return self.sync(context, **more).catch_up(messages, note)

    @property
    def entries(self):
        return self.log.entries(KEY)

    @property
    def shown(self):
        return [entry.message.text for entry in find_live_entries(self.entries)]

    @property
    def turns(self):
        by_turn = {}
        for entry in find_live_entries(self.entries):
            by_turn.setdefault(entry.turn_id, []).append(entry.message.text)
        return [*by_turn.values()]


@pytest.fixture
def thread():
    return Thread()


def test_a_question_begins_a_turn_and_what_follows_belongs_to_it(thread):
    note = thread.begin(human("a"), ai("b"), human("c"), human("d"))
    thread.catch_up(human("a"), ai("b"), human("c"), human("d"), ai("e"), note=note)
    assert thread.turns == [["a", "b"], ["c", "d", "e"]]
    assert note["first"] == "c"
    assert note["id"] == thread.entries[-1].turn_id


def test_what_the_user_says_in_a_loop_begins_a_turn_unless_a_run_is_one_turn(thread):
    said = [human("a"), ai("b")]
    note = thread.begin(*said)
    thread.catch_up(*said, human("c"), note=note)
    assert thread.turns == [["a", "b"], ["c"]]
    thread.catch_up(*said, human("c"), human("d"), note=note, is_one_turn=True)
    assert thread.turns == [["a", "b", "d"], ["c"]]


def test_branches_that_begin_at_once_are_in_one_turn(thread):
    notes = []

    class BesideAnother(InMemoryLog):
        """Lets another branch store the question after this one looked for it."""

        def append(self, *args, **more):
            if not notes:
                notes.append(None)
                notes[0] = thread.begin(human("a"), context=node(task="beside"))
            return super().append(*args, **more)

    thread.log = BesideAnother()
    notes.append(thread.begin(human("a"), context=node(task="here")))
    assert thread.turns == [["a"]]
    assert {note["id"] for note in notes} == {thread.entries[0].turn_id}


def test_system_messages_are_in_no_turn(thread):
    note = thread.begin(SystemMessage("s", id="s"), human("a"))
    assert thread.shown == ["s", "a"]
    assert thread.entries[0].turn_id != thread.entries[1].turn_id == note["id"]


def test_a_message_under_the_id_of_another_takes_its_place(thread):
    thread.begin(human("a", "q"), ai("b"))
    thread.begin(human("A", "q"), ai("b"), human("c"))
    assert thread.turns == [["A", "b"], ["c"]]


def test_no_answer_is_stored_to_what_is_not(thread):
    secret = HumanMessage("a", id="a", additional_kwargs={"remember": False})
    turn = thread.catch_up(secret, ai("b"))
    assert (turn.is_heard, thread.entries) == (False, [])
    thread.begin(secret, ai("b"), human("c"))
    assert thread.shown == ["c"]


def test_a_stand_in_for_a_summary_was_not_said(thread):
    stand_in = HumanMessage("Before: a.", id="s", additional_kwargs={"lc_source": "summarization"})
    thread.begin(stand_in, human("b"))
    assert is_stand_in(stand_in)
    assert thread.shown == ["b"]


@pytest.mark.parametrize(
    ("roles", "start"),
    [("", 0), ("h", 0), ("ah", 1), ("hhah", 3), ("ahha", 1), ("aa", 0), ("hash", 3), ("hha", 0)],
)
def test_the_latest_exchange_begins_with_all_that_the_user_said_last(roles, start):
    kinds = {"h": HumanMessage, "a": AIMessage, "s": SystemMessage}
    assert find_exchange([kinds[role]("x") for role in roles]) == start


def test_what_was_forgotten_is_known_by_the_note(thread):
    note = thread.begin(human("a"), ai("b"))
    thread.log.forget(KEY)
    begun = thread.sync().begin([human("a"), ai("b"), human("c")], note)
    state = [*begun.messages, ai("d"), human("e")]
    thread.begin(*state, note=begun.note)
    assert [one.text for one in state] == ["c", "d", "e"]
    assert thread.turns == [["c", "d"], ["e"]]


def test_what_was_forgotten_is_known_by_what_followed_it(thread):
    thread.begin(human("a"), ai("b"), human("c"))
    thread.log.forget(KEY, [e.id for e in thread.entries[:2]])
    thread.begin(human("a"), ai("b"), human("c"), ai("d"))
    assert thread.shown == ["c", "d"]


def test_a_reply_takes_the_place_of_one_that_its_state_does_not_hold(thread):
    thread.begin(human("a"))
    thread.catch_up(human("a"), ai("b"))
    turn = thread.catch_up(human("a"), context=node("2"))
    assert [entry.message.text for entry in thread.entries if entry.id in turn.abandoned] == ["b"]
    thread.catch_up(human("a"), ai("c"), context=node("2"))
    assert thread.shown == ["a", "c"]


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (node("1", "beside"), ["a", "b", "c"]),
        (node("1", "task"), ["a", "c"]),
        (node("2", "another"), ["a", "c"]),
        (node("2", "task", level="inner"), ["a", "b", "c"]),
    ],
    ids=["in the same step", "the same task again", "in another run", "in another graph"],
)
def test_what_another_branch_says_is_no_attempt(thread, other, shown):
    thread.begin(human("a"))
    thread.catch_up(human("a"), ai("b"), context=node("1", "task"))
    thread.catch_up(human("a"), ai("c"), context=other)
    assert thread.shown == shown


def test_an_answer_to_a_question_of_a_run_beside_it_is_no_attempt(thread):
    thread.begin(human("a"), human("b"))
    thread.catch_up(human("a"), ai("c"))
    thread.catch_up(human("a"), human("b"), ai("d"), context=node("2"))
    assert sorted(thread.shown) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("user", "is_fine"), [("ana", True), (None, True), ("ben", False)])
def test_a_state_is_of_one_user(user, is_fine):
    note = {"id": "x", "first": "y", "user": user}
    sync = StateSync(InMemoryLog(), DraftBuilder(), node())
    if is_fine:
        assert sync.find_turn([human("a")], note).note == note
        assert sync.begin([human("a")], note).note["user"] == "ana"
    else:
        for job in (sync.find_turn, sync.begin):
            with pytest.raises(ConfigError, match=r"'ben'.*'ana'.*names no user: add user_id"):
                job([human("a")], note)


def test_an_entry_tells_how_it_came_into_the_log(thread):
    context = node("7", "task", level="outer")
    thread.begin(human("a"), ai("b"), context=context)
    marks = [read_mark(entry) for entry in thread.entries]
    assert marks == [(at, context.path) for at in (None, "a")]
    thread.log.append(KEY, [DraftBuilder().build(human("c"))])
    assert read_mark(thread.entries[-1]) is None
