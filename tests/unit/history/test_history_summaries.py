import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from summaries import ForgetsMeanwhile

from langchain_convmem.errors import InvalidMessageError, StaleWindowError
from langchain_convmem.history import ConversationHistory

CALL = {"name": "weather", "args": {"city": "Rome"}, "id": "c1"}


def said(window):
    return [" ".join(turn.contents) for turn in window.turns]


def test_a_window_ends_with_the_last_reply_and_leaves_out_what_is_pending(history, say):
    say("a", "b", "c")
    window = history.summary_window()
    assert said(window) == ["a", "b"]
    assert window.previous is None
    assert not window.is_empty
    assert window.summary_ids == tuple(turn.id for turn in window.turns)


SEE = AIMessage("let me see", tool_calls=[CALL])
HELLO = HumanMessage("hello?")
SUN = ToolMessage("sun", tool_call_id="c1")
LOOPS = {
    "an open call": ([SEE], []),
    "no answer yet": ([SEE, SUN], []),
    "whole": ([SEE, SUN, AIMessage("sunny")], ["q", "let me see", "sun", "sunny"]),
    "a result behind a later reply, that a cut would part": (
        [SEE, HELLO, AIMessage("wait"), SUN],
        [],
    ),
    "no result, and the conversation went on": (
        [SEE, HELLO, AIMessage("sorry")],
        ["q", "let me see", "hello?", "sorry"],
    ),
    "a call behind a reply": ([AIMessage("sunny"), AIMessage("still", tool_calls=[CALL])], []),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_window_ends_at_a_closed_tool_loop(history, loop):
    messages, expected = LOOPS[loop]
    history.add_messages([HumanMessage("q"), *messages])
    assert said(history.summary_window()) == expected


def test_the_text_names_who_speaks_and_ends_sentences(history):
    history.add("user", ["hi", "  really? "])
    history.add("assistant", ["Welcome!", "well,"])
    window = history.summary_window()
    assert window.format() == str(window) == "[User]: hi. really?\n[Assistant]: Welcome! well,"


def test_people_and_media_are_named(history):
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    people = [HumanMessage("hi", name="Ana"), HumanMessage(["look", picture], name="Bo")]
    history.add_messages([*people, AIMessage("nice")])
    assert str(history.summary_window()) == "[Ana]: hi.\n[Bo]: look. (image).\n[Assistant]: nice."


def test_a_summary_takes_the_place_of_what_it_covers_and_the_log_keeps_it(
    history, say, shape, read
):
    said_before = say("a", "b", "c")
    window = history.summary_window()
    turn = history.add_summary(["S", " ", "T"], window, model="m", prompt_version="v1")
    assert (turn.role, turn.contents) == ("summary", ("S", "T"))
    assert turn.metadata.summary_ids == tuple(one.id for one in said_before[:2])
    assert shape() == ["a", "b", "S T", "c"]
    assert read() == ["S\nT", "c"]
    assert history.context(summary="omit").messages[0].text == "c"
    assert history.last_summary.contents == ("S", "T")
    [entry] = [entry for entry in history.entries if entry.role == "summary"]
    assert (entry.cover.model, entry.cover.prompt_version) == ("m", "v1")
    assert entry.cover.digest == window.cover.digest
    assert len(history.entries) == 4
    turn.add_data("cost", 3)
    assert history.last_summary.metadata.aux == {"cost": 3}


def test_what_was_said_meanwhile_stays_whole_behind_the_summary(history, say, shape, read):
    say("a", "b")
    window = history.summary_window()
    history.add("assistant", "late")
    say("c", "d", "e")
    history.add_summary("S", window)
    assert shape() == ["a", "b", "S", "...", "late", "c", "d", "e"]
    assert read() == ["S", "...", "late", "c", "d", "e"]
    assert said(history.summary_window()) == ["late", "c", "d"]


@pytest.mark.parametrize("text", ["", " \n", [], ["", "\t"], ["a", 7]])
def test_a_blank_summary_is_refused_since_it_would_lose_what_it_covers(history, say, text):
    say("a", "b")
    before = history.entries
    with pytest.raises(InvalidMessageError):
        history.add_summary(text, history.summary_window())
    assert history.entries == before


def test_the_same_summary_of_the_same_window_is_added_once(history, say):
    say("a", "b", "c")
    window = history.summary_window()
    first = history.add_summary("S", window)
    before = history.entries
    assert history.add_summary("S", window) == first
    assert history.entries == before
    with pytest.raises(StaleWindowError, match="undo_summary"):
        history.add_summary("other words", window)
    assert history.entries == before


def test_two_writers_of_one_window_leave_one_summary(history, say, monkeypatch, read):
    say("a", "b", "c")
    window = history.summary_window()
    entries = history.entries
    history.add_summary("S", window)
    late = ConversationHistory(history.log, "t1", user_id="ana")
    # The second writer read the thread before the first one wrote.
    monkeypatch.setattr(late.log, "entries", lambda *_, **__: entries)
    late.add_summary("T", window)
    monkeypatch.undo()
    assert [turn.contents for turn in history.turns if turn.role == "summary"] == [("T",)]
    assert read() == ["T", "c"]


CHANGES = [
    (lambda history: history.undo(), 2),
    (lambda history: history.clear(), 4),
    (lambda history: history.replace(history.turns[1].id, "B"), 3),
    (lambda history: history.replace(history.turns[0].id, "A", keep_later=True), 1),
    (lambda history: history.log.forget(history.key, [history.turns[0].id]), 1),
]


@pytest.mark.parametrize(("change", "count"), CHANGES)
def test_a_window_whose_turns_changed_is_refused_with_the_reason(history, say, change, count):
    say("a", "b", "c", "d")
    window = history.summary_window()
    change(history)
    before = history.entries
    with pytest.raises(StaleWindowError, match=f"{count} of its messages") as caught:
        history.add_summary("S", window)
    assert caught.value.thread_id == "t1"
    assert history.entries == before


def test_what_is_forgotten_while_its_summary_is_written_leaves_no_summary():
    with ForgetsMeanwhile("user") as log:
        history = ConversationHistory(log, "t")
        history.add_messages([HumanMessage("My PIN is 12-34.", id="q1"), AIMessage("Noted.")])
        with pytest.raises(StaleWindowError, match="1 of its messages"):
            history.add_summary("Her PIN is 12-34.", history.summary_window())
        assert "12-34" not in str(history.entries)
