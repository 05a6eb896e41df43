import json
import re

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_from_dict
from summaries import bare_texts

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError


def texts(maps):
    return [" ".join(item["message"]["contents"]) for item in maps]


def test_an_increment_holds_what_came_since_without_the_last_turn(history, say):
    say("a", "b", "c")
    assert texts(history.to_maps()) == ["a", "b"]
    assert history.to_maps() == []
    say("c2", "d")
    assert texts(history.to_maps()) == ["c c2"]
    assert texts(history.to_maps(exclude_last=False)) == ["d"]
    assert history.to_maps(exclude_last=False) == history.to_maps() == []


def test_what_was_not_stored_comes_again(history, say):
    say("a", "b", "c")
    with pytest.raises(TypeError):
        history.to_maps(store=int)
    stored = []
    assert texts(history.to_maps(store=stored.extend)) == texts(stored) == ["a", "b"]


def test_a_summary_before_what_was_exported_is_not_skipped_and_nothing_doubles(history, say):
    say("a", "b", "c")
    assert texts(history.to_maps(exclude_last=False)) == ["a", "b", "c"]
    summary = history.add_summary("S", history.summary_window())
    [exported] = history.to_maps()
    assert exported["id"] == summary.id
    assert exported["message"] == {"role": "summary", "contents": ["S"]}
    assert exported["metadata"]["summaryIds"] == list(summary.metadata.summary_ids)
    assert history.to_maps(exclude_last=False) == []


def test_what_is_undone_after_its_export_comes_once_more_marked(history, say):
    say("a", "b", "c", "d")
    given = history.to_maps(exclude_last=False)[2:]
    history.undo()
    maps = history.to_maps(exclude_last=False)
    assert [one["metadata"].pop("attribute") for one in maps] == [["retracted"]] * 2
    assert maps == given
    history.redo()
    assert history.to_maps(exclude_last=False) == given


def test_two_exports_at_once_share_the_turns(history, say):
    say("a", "b", "c")
    others = []

    def overtaken(maps):
        if not others:
            others.append(texts(history.to_maps()))
            history.add("assistant", "d")

    assert texts(history.to_maps(store=overtaken)) == ["c"]
    assert others == [["a", "b"]]


def test_parts_that_say_more_than_texts_are_in_the_maps_as_langchain_reads_them(history):
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    call = {"name": "look", "args": {"at": "roof"}, "id": "c1", "type": "tool_call"}
    said = [
        HumanMessage([{"type": "text", "text": "What is this?"}, picture], id="q"),
        AIMessage("", tool_calls=[call], id="a"),
        ToolMessage("A slate roof.", tool_call_id="c1", id="r"),
        AIMessage("A roof.", id="z"),
        HumanMessage("Whose?", name="Bo", id="n"),
    ]
    history.add_messages(said)
    maps = json.loads(json.dumps(history.to_maps(exclude_last=False)))
    parts = [messages_from_dict(one["message"].get("messages", [])) for one in maps]
    assert parts == [[said[0]], [said[1]], [said[2]], [], [said[4]]]


def rows(history):
    """Return the role and the pieces of each line of the table."""
    found = re.findall(r"^(\d+)\t\[(\w+)\] \{(.*?)\} -- '(\w+)' ", str(history), re.MULTILINE)
    assert [int(row[0]) for row in found] == list(range(len(history.turns)))
    assert [row[3] for row in found] == [turn.id for turn in history.turns]
    return [(role, pieces) for _, role, pieces, _ in found]


def test_the_table_shows_every_turn(history, say):
    assert str(history) == "---"
    history.add("assistant", "Welcome!")
    say("a", "b")
    history.add("user", ["c", "d"])
    history.add_summary("S", history.summary_window())
    first = [("user", "'...'"), ("assistant", "'Welcome!'"), ("user", "'a'"), ("assistant", "'b'")]
    assert rows(history) == [*first, ("summary", "'S'"), ("user", "'c' 'd'")]


def test_a_turn_is_one_line_whatever_was_said(history):
    history.add("user", "1\n2\t3\r4\b5\\6\x1b[31m\u202e\u2028 caf\u00e9 \u6f22\u3000\ud800")
    table = str(history)
    assert len(table.splitlines()) == 1
    assert r"'1\n2\t3\r4\x085\\6\x1b[31m\u202e\u2028 " in table
    assert "caf\u00e9 \u6f22\\u3000\\ud800'" in table
    table.encode()


@pytest.fixture
def forking(history):
    return ConversationMemory(history.log)


def test_a_fork_goes_on_from_a_point_and_leaves_the_other_thread_alone(
    forking, history, say, shape_of
):
    say("a", "b", "c", "d")
    before = history.entries
    fork = forking.fork("t1", at=history.turns[1].id, user_id="ana")
    assert shape_of(fork) == ["a", "b"]
    fork.add("user", "C")
    assert shape_of(fork) == ["a", "b", "C"]
    assert history.entries == before
    assert {info.key.thread_id for info in forking.threads("ana")} == {"t1", fork.thread_id}


def test_a_fork_holds_the_same_messages_ids_times_and_marks(forking, history):
    history.add_messages([HumanMessage("a", id="m1", name="Ana"), AIMessage("b")])
    history.turns[1].add_timing("playEnd", 7)
    history.turns[1].add_data("mood", "calm")
    fork = forking.fork("t1", new_thread_id="t2", user_id="ana")
    assert fork.thread_id == "t2"
    assert fork.messages == history.messages
    for copy, entry in zip(fork.entries, history.entries, strict=True):
        assert copy.id != entry.id
        assert copy.metadata.timing == entry.metadata.timing
        assert copy.metadata.aux == {
            **entry.metadata.aux,
            "forked_from": {"thread_id": "t1", "entry_id": entry.id},
        }


def test_summaries_come_along_with_what_they_cover(forking, history, say, shape_of):
    say("a", "b")
    history.add_summary("S", history.summary_window(), model="m", prompt_version="v")
    say("c", "d")
    history.add_summary("T", history.summary_window())
    say("e", "f")
    fork = forking.fork("t1", at=history.turns[-2].id, user_id="ana")
    assert shape_of(fork) == ["a", "b", "S", "c", "d", "T", "e"]
    assert bare_texts(fork.messages) == ["T", "e"]
    of_fork = {turn.id: turn.contents for turn in fork.turns}
    named = [of_fork[name] for name in fork.last_summary.metadata.summary_ids]
    assert named == [("S",), ("c",), ("d",)]
    cover = next(entry.cover for entry in fork.entries if entry.role == "summary")
    assert (cover.model, cover.prompt_version) == ("m", "v")
    fork.undo_summary()
    assert bare_texts(fork.messages) == ["S", "c", "d", "e"]
    assert history.last_summary.contents == ("T",)


def test_a_thread_in_use_is_not_forked_into(forking, history, say):
    say("a", "b")
    forking.history("t2", user_id="ana").add("user", "x")
    for taken in ("t2", "t1"):
        with pytest.raises(ConfigError, match="in use"):
            forking.fork("t1", new_thread_id=taken, user_id="ana")


@pytest.mark.parametrize(("name", "wrong"), [("sink", ""), ("sink", 7), ("store", "table")])
def test_a_sink_needs_a_name_and_a_store_is_a_function(history, name, wrong):
    with pytest.raises(ConfigError, match=name):
        history.to_maps(**{name: wrong})


def test_a_turn_names_the_point_behind_its_last_part(forking, history, shape_of):
    history.add("assistant", "Welcome!")
    for text in ("a", "b", "c"):
        history.add("user", text)
    *_, merged = history.turns
    assert shape_of(forking.fork("t1", at=merged, user_id="ana")) == ["...", "Welcome!", "a b c"]
    assert shape_of(forking.fork("t1", at=merged.id, user_id="ana")) == ["...", "Welcome!", "a"]
    with pytest.raises(ConfigError, match="placeholder"):
        forking.fork("t1", at=history.turns[0], user_id="ana")
