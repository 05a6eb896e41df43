from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.views.codec import make_draft

CALL = {"name": "weather", "args": {}, "id": "c1"}


def texts(turns):
    return [" ".join(turn.contents) for turn in turns]


# -- undo ---------------------------------------------------------------------------------------


def test_undo_takes_back_the_last_exchange_and_the_log_keeps_it(history, say, shape):
    say("a", "b", "c", "d")
    assert texts(history.undo()) == ["c", "d"]
    assert shape() == ["a", "b"]
    assert [entry.contents for entry in history.entries[:4]] == [("a",), ("b",), ("c",), ("d",)]
    assert history.entries[4].control.reason == "undo"


def test_undo_takes_back_a_whole_tool_loop(history, shape):
    history.add_messages(
        [
            HumanMessage("q"),
            AIMessage("", tool_calls=[CALL]),
            ToolMessage("1", tool_call_id="c1"),
            AIMessage("found"),
        ]
    )
    assert len(history.undo()) == 4
    assert shape() == []


def test_several_messages_of_the_user_in_a_row_are_one_question(history, shape):
    history.add_messages([HumanMessage("a"), AIMessage("b"), HumanMessage("c"), HumanMessage("d")])
    assert texts(history.undo()) == ["c d"]
    assert shape() == ["a", "b"]


def test_a_question_of_an_earlier_turn_that_was_never_answered_stays(history, shape):
    drafts = [
        make_draft(HumanMessage("A?"), turn_id="1"),
        make_draft(HumanMessage("B?"), turn_id="2"),
        make_draft(AIMessage("b!"), turn_id="2"),
    ]
    history.log.append(history.key, drafts)
    assert texts(history.undo()) == ["B?", "b!"]
    assert shape() == ["A?"]
    assert texts(history.undo()) == ["A?"]


def test_an_opening_of_the_assistant_is_an_exchange_too(history, shape):
    history.add_messages([AIMessage("Welcome!"), HumanMessage("a"), AIMessage("b")])
    history.undo()
    assert shape() == ["...", "Welcome!"]
    history.undo()
    assert shape() == []


@pytest.mark.parametrize("exchanges", [0, -1, True, 1.5, "2"])
def test_an_odd_number_of_exchanges_is_refused(history, say, exchanges):
    say("a", "b")
    with pytest.raises(ConfigError, match="exchanges"):
        history.undo(exchanges)
    assert len(history.entries) == 2


def test_a_summary_that_tells_of_what_is_undone_goes_with_it(history, say, read):
    say("a", "b")
    history.add_summary("S", history.summary_window())
    say("c", "d", "e", "f")
    history.add_summary("T", history.summary_window())
    say("g", "h")
    history.undo()
    assert read() == ["T"]
    history.undo()
    assert read() == ["S", "c", "d"]
    history.undo(2)
    assert read() == []


def test_an_undone_retry_with_the_same_id_is_stored_again(history, read):
    history.add_messages([HumanMessage("a", id="m1"), AIMessage("b", id="m2")])
    history.undo()
    history.add_messages([HumanMessage("a", id="m1")])
    assert read() == ["a"]


# -- redo ---------------------------------------------------------------------------------------


def test_redo_brings_back_undo_by_undo(history, say, shape):
    say("a", "b", "c", "d", "e", "f")
    history.undo()
    history.undo()
    assert shape() == ["a", "b"]
    assert history.redo()
    assert shape() == ["a", "b", "c", "d"]
    assert history.redo()
    assert shape() == ["a", "b", "c", "d", "e", "f"]
    assert not history.redo()
    history.undo()
    assert shape() == ["a", "b", "c", "d"]
    assert history.redo()
    assert shape() == ["a", "b", "c", "d", "e", "f"]


def test_nothing_comes_back_once_something_was_said(history, say, shape):
    assert not history.redo()
    say("a", "b")
    assert not history.redo()
    history.undo()
    history.add("user", "c")
    assert not history.redo()
    assert shape() == ["c"]


# -- replace ------------------------------------------------------------------------------------


def test_an_edited_question_asks_anew(history, say, shape):
    say("a", "b", "c", "d", "e")
    edited = history.replace(history.turns[2].id, "C")
    assert edited.contents == ("C",)
    assert shape() == ["a", "b", "C"]
    assert [control_of(entry) for entry in history.entries[5:]] == ["rewind", "replaced", None]
    history.add("assistant", "D")
    assert shape() == ["a", "b", "C", "D"]


def control_of(entry):
    return None if entry.control is None else entry.control.reason


def test_later_turns_can_be_kept(history, say, shape):
    say("a", "b", "c", "d")
    history.replace(history.turns[1].id, AIMessage("B"), keep_later=True)
    assert shape() == ["a", "B", "c", "d"]
    assert len(history.entries) == 6


def test_the_same_text_again_asks_for_a_new_answer(history, say, shape):
    say("a", "b", "c", "d")
    question = history.turns[2]
    assert history.replace(question.id, "c") == question
    assert shape() == ["a", "b", "c"]


def test_a_message_keeps_its_id_its_place_and_its_speaker(history, read):
    history.add_messages(
        [
            HumanMessage("a", id="m1", name="Ana"),
            AIMessage("b", id="m2"),
            HumanMessage("c", id="m3"),
        ]
    )
    history.replace("m1", "A", keep_later=True)
    history.replace("m1", "AA", keep_later=True)
    first, *_ = history.messages
    assert (first.id, first.name) == ("m1", "Ana")
    assert read() == ["AA", "b", "c"]
    history.replace("m2", AIMessage("B", id="run-7"), keep_later=True)
    assert [message.id for message in history.messages] == ["m1", "m2", "m3"]


def test_an_edited_call_takes_its_results_with_it(history, read):
    history.add_messages(
        [
            HumanMessage("q"),
            AIMessage("", tool_calls=[CALL], id="m2"),
            ToolMessage("1", tool_call_id="c1", id="m3"),
            AIMessage("found"),
        ]
    )
    history.replace("m3", "2")
    assert history.messages[-1].tool_call_id == "c1"
    assert read() == ["q", "", "2"]
    history.replace("m2", "I know")
    assert read() == ["q", "I know"]


def test_an_instruction_can_be_changed_without_losing_the_dialogue(history, say, read):
    history.add("system", "Be brief.")
    say("a", "b")
    history.replace(history.messages[0].id, SystemMessage("Be kind."))
    assert read() == ["Be kind.", "a", "b"]


@pytest.mark.parametrize("keep_later", [True, False])
def test_summaries_that_tell_of_what_is_replaced_go_with_it(history, say, read, keep_later):
    say("a", "b")
    history.add_summary("S", history.summary_window())
    say("c", "d")
    history.add_summary("T", history.summary_window())
    say("e")
    history.replace(history.turns[0].id, "A", keep_later=keep_later)
    assert read() == (["A", "b", "c", "d", "e"] if keep_later else ["A"])
    assert history.last_summary is None


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("", InvalidMessageError),
        (" \n", InvalidMessageError),
        (AIMessage("x"), InvalidMessageError),
        (7, InvalidMessageError),
        (["x"], InvalidMessageError),
    ],
)
def test_what_cannot_take_the_place_is_refused(history, say, message, error):
    say("a", "b")
    before = history.entries
    with pytest.raises(error):
        history.replace(history.turns[0].id, message)
    assert history.entries == before


def test_what_is_not_shown_cannot_be_replaced(history, say):
    history.add("assistant", "Welcome!")
    say("a", "b")
    history.add_summary("S", history.summary_window())
    gone = history.entries[1].id
    summary = history.last_summary.id
    placeholder = history.turns[0].id
    history.undo()
    for name in ("nobody", "", gone, summary, placeholder):
        with pytest.raises(ConfigError, match="no message"):
            history.replace(name, "x")
