from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError, StaleWindowError
from langchain_convmem.history import ConversationHistory
from langchain_convmem.logs import InMemoryLog

CALL = {"name": "weather", "args": {"city": "Rome"}, "id": "c1"}


def said(window):
    return [" ".join(turn.contents) for turn in window.turns]


def result(text="sun", call="c1"):
    return ToolMessage(text, tool_call_id=call)


def test_a_window_ends_with_the_last_reply_and_leaves_out_what_is_pending(history, say):
    say("a", "b", "c")
    window = history.summary_window()
    assert said(window) == ["a", "b"]
    assert window.previous is None
    assert not window.is_empty
    assert window.summary_ids == tuple(turn.id for turn in window.turns)


def test_a_window_leaves_out_placeholders_and_system_messages(history, read):
    history.add("system", "Be brief.")
    history.add("assistant", "Welcome!")
    assert said(history.summary_window()) == ["Welcome!"]
    history.add_summary("S", history.summary_window())
    assert read() == ["Be brief.", "S"]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([AIMessage("let me see", tool_calls=[CALL])], []),
        ([AIMessage("let me see", tool_calls=[CALL]), result()], []),
        (
            [AIMessage("let me see", tool_calls=[CALL]), result(), AIMessage("sunny")],
            ["q", "let me see", "sun", "sunny"],
        ),
        # The tool returns only behind a later reply: a cut between would part call and result.
        (
            [
                AIMessage("let me see", tool_calls=[CALL]),
                HumanMessage("hello?"),
                AIMessage("wait"),
                result(),
            ],
            [],
        ),
        # It never returned, and the conversation went on: that loop is over.
        (
            [
                AIMessage("let me see", tool_calls=[CALL]),
                HumanMessage("hello?"),
                AIMessage("sorry"),
            ],
            ["q", "let me see", "hello?", "sorry"],
        ),
        ([AIMessage("sunny"), AIMessage("still", tool_calls=[CALL])], []),
    ],
)
def test_a_window_ends_at_a_closed_tool_loop(history, messages, expected):
    history.add_messages([HumanMessage("q"), *messages])
    assert said(history.summary_window()) == expected


def test_the_text_names_who_speaks_and_ends_sentences(history):
    history.add("user", ["hi", "  really? "])
    history.add("assistant", ["Welcome!", "well,"])
    window = history.summary_window()
    assert window.format() == str(window) == "[User]: hi. really?\n[Assistant]: Welcome! well,"


def test_the_previous_summary_comes_first_unless_it_is_not_wanted(history, say):
    say("a", "b")
    history.add_summary(["They met.", "in Rome"], history.summary_window())
    say("c", "d")
    window = history.summary_window()
    assert window.previous.contents == ("They met.", "in Rome")
    assert window.format(preamble="T: ") == (
        "T: [Previous Dialogue]: They met. in Rome.\n\n[User]: c.\n[Assistant]: d."
    )
    assert window.format(include_previous=False) == "[User]: c.\n[Assistant]: d."


def test_every_part_of_the_text_can_be_chosen(history, say):
    say("a", "b")
    history.add_summary("S", history.summary_window())
    history.add_messages(
        [HumanMessage(["x", "y"]), AIMessage("", tool_calls=[CALL]), result(), AIMessage("z")]
    )
    options = {
        "user_tag": "U",
        "assistant_tag": "A",
        "tool_tag": "T",
        "summary_tag": "P",
        "prefix": "<",
        "postfix": ">",
        "separator": "+",
        "closure": "/",
        "summary_closure": "//",
        "transformer": str.upper,
    }
    window = history.summary_window()
    called = '(CALLS WEATHER WITH {"CITY": "ROME"})'
    assert window.format(**options) == f"<P>S//<U>X+Y/<A>{called}/<T>SUN/<A>Z"
    assert window.format(**{**options, "tool_tag": None}) == "<P>S//<U>X+Y/<A>Z"


def test_people_and_media_are_named(history):
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    history.add_messages(
        [
            HumanMessage("hi", name="Ana"),
            HumanMessage(["look", picture], name="Bo"),
            AIMessage("nice"),
        ]
    )
    assert str(history.summary_window()) == ("[Ana]: hi.\n[Bo]: look. (image).\n[Assistant]: nice.")


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


def test_a_summary_names_the_one_before_it_first(history, say, read):
    say("a", "b")
    first = history.add_summary("S", history.summary_window())
    third, _ = say("c", "d")
    second = history.add_summary("T", history.summary_window())
    assert second.metadata.summary_ids[:2] == (first.id, third.id)
    assert history.last_summary.contents == ("T",)
    assert history.summary_window().is_empty
    assert history.summary_window().previous is None
    assert read() == ["T"]


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


def test_a_newer_window_may_follow_an_older_one_but_not_the_other_way_round(history, say, read):
    say("a", "b")
    old = history.summary_window()
    say("c", "d")
    new = history.summary_window()
    history.add_summary("S", old)
    history.add_summary("T", new)
    assert read() == ["T"]
    assert history.undo_summary().contents == ("T",)
    assert read() == ["S", "c", "d"]
    history.add_summary("T", new)
    history.undo_summary()
    history.undo_summary()
    history.add_summary("T", new)
    with pytest.raises(StaleWindowError, match="newer"):
        history.add_summary("S", old)
    assert read() == ["T"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda history: history.undo(), "2 of its messages"),
        (lambda history: history.clear(), "4 of its messages"),
        (lambda history: history.replace(history.turns[1].id, "B"), "3 of its messages"),
        (
            lambda history: history.replace(history.turns[0].id, "A", keep_later=True),
            "1 of its messages",
        ),
        (
            lambda history: history.log.forget(history.key, [history.turns[0].id]),
            "1 of its messages",
        ),
    ],
)
def test_a_window_whose_turns_changed_is_refused_with_the_reason(history, say, change, reason):
    say("a", "b", "c", "d")
    window = history.summary_window()
    change(history)
    before = history.entries
    with pytest.raises(StaleWindowError, match=reason) as caught:
        history.add_summary("S", window)
    assert caught.value.thread_id == "t1"
    assert history.entries == before


def test_a_window_that_continues_an_undone_summary_is_refused(history, say):
    say("a", "b")
    history.add_summary("S", history.summary_window())
    say("c", "d")
    window = history.summary_window()
    history.undo_summary()
    with pytest.raises(StaleWindowError, match="undone"):
        history.add_summary("T", window)


def test_a_window_is_refused_when_its_tool_returned_since(history):
    history.add_messages(
        [
            HumanMessage("q"),
            AIMessage("", tool_calls=[CALL]),
            HumanMessage("hello?"),
            AIMessage("sorry"),
        ]
    )
    window = history.summary_window()
    history.add_messages([result()])
    with pytest.raises(StaleWindowError, match="returned"):
        history.add_summary("S", window)


def test_a_window_of_another_thread_is_refused(history, say):
    say("a", "b")
    other = ConversationHistory(history.log, "t2", user_id="ana")
    with pytest.raises(ConfigError, match="t2"):
        other.add_summary("S", history.summary_window())
    with pytest.raises(ConfigError, match="t1"):
        history.add_summary("S", None)


class ForgetsMeanwhile(InMemoryLog):
    """Forgets a message as soon as a summary of it was written."""

    def append(self, key, drafts, **options):
        added = super().append(key, drafts, **options)
        if added[0].role == "summary":
            self.forget(key, ["q1"])
        return added


def test_what_is_forgotten_while_its_summary_is_written_leaves_no_summary():
    with ForgetsMeanwhile() as log:
        history = ConversationHistory(log, "t")
        history.add_messages([HumanMessage("My PIN is 12-34.", id="q1"), AIMessage("Noted.")])
        with pytest.raises(StaleWindowError, match="1 of its messages"):
            history.add_summary("Her PIN is 12-34.", history.summary_window())
        assert "12-34" not in str(history.entries)
