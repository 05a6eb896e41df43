from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import BudgetError, InvalidMessageError
from langchain_convmem.history import ConversationHistory
from langchain_convmem.ids import get_now_ms
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.records import Cover, Draft


@pytest.fixture
def log():
    with InMemoryLog() as opened:
        yield opened


@pytest.fixture
def history(log):
    return ConversationHistory(log, "t1", user_id="ana")


def shape(history):
    return [(turn.role, *turn.contents) for turn in history.turns]


def test_a_history_holds_nothing_of_its_own(log, history):
    history.add("user", "Hi")
    other = ConversationHistory(log, "t1", user_id="ana")
    other.add("assistant", "Ho")
    assert shape(history) == shape(other) == [("user", "Hi"), ("assistant", "Ho")]
    assert history.entries == log.entries(history.key)
    assert (history.thread_id, history.user_id) == ("t1", "ana")
    assert "t1" in repr(history)


# -- adding -------------------------------------------------------------------------------------


def test_adding_returns_the_turn_that_holds_it(history):
    first = history.add("user", "a")
    assert (first.role, first.contents) == ("user", ("a",))
    merged = history.add("user", ["b", " ", "c"])
    assert merged.id == first.id
    assert merged.contents == ("a", "b", "c")
    assert merged.metadata.attributes == ("merged",)
    reply = history.add("assistant", "d")
    assert reply.contents == ("d",)
    assert reply.id == history.turns[-1].id


def test_several_pieces_are_one_message(history):
    history.add("user", ["a", "", "b"])
    [entry] = history.entries
    assert entry.message.content == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    history.add("assistant", ["c", "\n"])
    assert history.entries[1].message.content == "c"


@pytest.mark.parametrize(
    ("role", "contents", "named"),
    [
        ("user", "", "blank"),
        ("user", " \n", "blank"),
        ("user", [], "blank"),
        ("user", ["", " "], "blank"),
        ("summary", "S", "summary"),
        ("tool", "t", "tool"),
        ("User", "a", "User"),
        ("user", ["a", 7], "list of texts alone"),
    ],
)
def test_what_nobody_said_is_refused_and_nothing_is_written(history, role, contents, named):
    with pytest.raises(InvalidMessageError, match=named):
        history.add(role, contents)
    assert history.entries == []


def test_an_added_turn_can_be_extended_durably(history):
    before = get_now_ms()
    history.add("user", "a")
    turn = history.add("user", "b")
    turn.add_attribute("seen")
    turn.add_attribute("seen")
    turn.add_timing("playStart", 5)
    turn.add_timing("playEnd")
    turn.add_data("mood", ["calm"])
    known = ConversationHistory(history.log, "t1", user_id="ana").turns[0].metadata
    assert known.attributes == ("seen", "seen", "merged")
    assert known.timing["playStart"] == 5
    assert before <= known.timing["playEnd"] <= get_now_ms()
    assert known.aux == {"mood": ["calm"]}
    assert history.entries[0].metadata.attributes == ()


def test_every_turn_can_be_extended_not_only_the_one_just_added(history):
    history.add("assistant", "Welcome!")
    fake, turn = history.turns
    turn.add_timing("playEnd", 7)
    assert history.turns[1].metadata.timing["playEnd"] == 7
    assert history.model_turns[1].metadata.timing["playEnd"] == 7
    with pytest.raises(InvalidMessageError, match="placeholder"):
        fake.add_attribute("seen")
    with pytest.raises(InvalidMessageError):
        turn.add_data("odd", object())


# -- messages -----------------------------------------------------------------------------------


def test_messages_are_stored_verbatim_and_shown_valid(history):
    said = [AIMessage("Welcome!"), HumanMessage("a", name="Ana"), HumanMessage(" "), AIMessage("b")]
    history.add_messages(said)
    assert [entry.message for entry in history.entries] == said
    assert [(message.type, message.content) for message in history.messages] == [
        ("human", "..."),
        ("ai", "Welcome!"),
        ("human", "a"),
        ("ai", "b"),
    ]
    assert history.messages == history.context().messages


def test_adding_again_what_was_handed_out_changes_nothing(history):
    history.add_messages([HumanMessage("a"), AIMessage("b")])
    before = history.entries
    history.add_messages(history.messages)
    assert history.entries == before


def test_the_shapes_that_older_chains_use_work(history):
    history.add_user_message("a")
    history.add_ai_message("b")
    history.add_message(HumanMessage("c"))
    assert [message.content for message in history.messages] == ["a", "b", "c"]


def test_clearing_starts_every_view_anew_and_keeps_the_log(history):
    history.clear()
    assert history.entries == []
    history.add("user", "a")
    cover = Cover(((1, 10**9),))
    history.log.append(history.key, [Draft(role="summary", contents=("S",), cover=cover)])
    history.clear()
    assert history.messages == []
    assert history.turns == []
    assert len(history.entries) == 3
    history.clear()
    assert len(history.entries) == 3
    assert history.add("assistant", "b").contents == ("b",)
    assert shape(history) == [("user", "..."), ("assistant", "b")]


def test_a_budget_is_kept(history):
    for number in range(9):
        history.add("user", f"question {number}")
        history.add("assistant", "answer " * 20)
    shown = history.context(max_tokens=100)
    assert shown.tokens <= 100
    assert shown.messages[0].content.startswith("question")
    with pytest.raises(BudgetError):
        history.context(max_tokens=3)
    counted = history.context(max_tokens=2, token_counter=lambda messages: len(list(messages)))
    assert len(counted.messages) == 2
    assert history.context(summary="omit").messages == history.messages


# -- asynchronous twins -------------------------------------------------------------------------


async def test_the_asynchronous_twins_do_the_same(tmp_path):
    with SQLiteLog(tmp_path / "log.db") as log:
        history = ConversationHistory(log, "t1")
        turn = await history.aadd("user", ["a", "b"])
        assert (turn.id, turn.entries) == (history.turns[0].id, history.turns[0].entries)
        await turn.aadd_attribute("seen")
        await turn.aadd_timing("playEnd", 7)
        await turn.aadd_data("mood", "calm")
        assert history.turns[0].metadata.attributes == ("seen",)
        assert history.turns[0].metadata.timing["playEnd"] == 7
        assert history.turns[0].metadata.aux == {"mood": "calm"}
        assert await history.aturns() == history.turns
        assert await history.amodel_turns() == history.model_turns
        await history.aadd_messages([AIMessage("c")])
        assert await history.aget_messages() == history.messages
        assert await history.acontext(max_tokens=50) == history.context(max_tokens=50)
        await history.aclear()
        assert history.messages == await history.aget_messages() == []
        await history.aclear()
        assert len(history.entries) == 3
        with pytest.raises(InvalidMessageError):
            await history.aadd("user", " ")
