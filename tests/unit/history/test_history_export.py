from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_from_dict

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError
from langchain_convmem.history import ConversationHistory


def texts(maps):
    return [" ".join(item["message"]["contents"]) for item in maps]


def retracted(maps):
    return [
        " ".join(item["message"]["contents"])
        for item in maps
        if "retracted" in item["metadata"].get("attribute", ())
    ]


def test_an_increment_holds_what_came_since_without_the_last_turn(history, say):
    say("a", "b", "c")
    assert texts(history.to_maps()) == ["a", "b"]
    assert history.to_maps() == []
    say("c2", "d")
    assert texts(history.to_maps()) == ["c c2"]
    assert texts(history.to_maps(exclude_last=False)) == ["d"]
    assert history.to_maps(exclude_last=False) == history.to_maps() == []


def test_everything_can_be_exported_without_moving_the_cursor(history, say):
    say("a", "b", "c")
    assert texts(history.to_maps(incremental=False, exclude_last=False)) == ["a", "b", "c"]
    assert texts(history.to_maps(incremental=False)) == ["a", "b"]
    assert texts(history.to_maps()) == ["a", "b"]


def test_sinks_do_not_know_of_each_other(history, say):
    say("a", "b", "c")
    assert texts(history.to_maps(sink="one")) == ["a", "b"]
    assert texts(history.to_maps(sink="two", exclude_last=False)) == ["a", "b", "c"]
    assert texts(history.to_maps(sink="one", exclude_last=False)) == ["c"]
    assert texts(history.to_maps()) == ["a", "b"]


@pytest.mark.parametrize("sink", ["", None, 7])
def test_a_sink_needs_a_name(history, sink):
    with pytest.raises(ConfigError, match="sink"):
        history.to_maps(sink=sink)


def test_a_cursor_survives_the_process_and_stays_small(history, say):
    for number in range(30):
        say(f"question {number}", f"answer {number}")
    history.to_maps()
    again = ConversationHistory(history.log, "t1", user_id="ana")
    assert texts(again.to_maps(exclude_last=False)) == ["answer 29"]
    document = history.log.get_state(history.key, "export:default").value
    assert len(json.dumps(document)) < 100


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
    given = history.to_maps(exclude_last=False)
    history.undo()
    maps = history.to_maps(exclude_last=False)
    assert retracted(maps) == texts(maps) == ["c", "d"]
    assert [item["id"] for item in maps] == [item["id"] for item in given[2:]]
    assert maps[0]["message"] == given[2]["message"]
    assert history.to_maps(exclude_last=False) == []
    history.redo()
    assert history.to_maps(exclude_last=False) == given[2:]


def test_metadata_is_exported_with_its_turn(history):
    turn = history.add("user", "a")
    turn.add_attribute("hardcoded")
    turn.add_timing("listenStart", 5)
    turn.add_data("nested", {"k": [1, None, {"z": "t"}]})
    [exported] = history.to_maps(exclude_last=False)
    assert list(exported) == ["id", "message", "metadata"]
    assert list(exported["metadata"]) == ["attribute", "aux", "timing"]
    assert exported["metadata"]["attribute"] == ["hardcoded"]
    assert exported["metadata"]["aux"] == {"nested": {"k": [1, None, {"z": "t"}]}}
    assert exported["metadata"]["timing"]["listenStart"] == 5
    turn.add_data("late", 1)
    assert history.to_maps(exclude_last=False) == []
    [whole] = history.to_maps(incremental=False, exclude_last=False)
    assert whole["metadata"]["aux"]["late"] == 1


def test_two_exports_at_once_share_the_turns(history, say, monkeypatch):
    say("a", "b", "c")
    log = history.log
    get_state = log.get_state
    others = []

    def overtaken(key, name):
        document = get_state(key, name)
        if not others:
            monkeypatch.undo()
            others.append(texts(history.to_maps()))
            history.add("assistant", "d")
        return document

    monkeypatch.setattr(log, "get_state", overtaken)
    assert texts(history.to_maps()) == ["c"]
    assert others == [["a", "b"]]


def test_pictures_calls_and_results_are_in_the_maps_and_come_back(history, tmp_path):
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    call = {"name": "look", "args": {"at": "roof"}, "id": "c1", "type": "tool_call"}
    said = [
        HumanMessage([{"type": "text", "text": "What is this?"}, picture], id="q"),
        AIMessage("", tool_calls=[call], id="a"),
        ToolMessage("A slate roof.", tool_call_id="c1", id="r"),
        AIMessage("A roof.", id="z"),
    ]
    history.add_messages(said)
    maps = json.loads(json.dumps(history.to_maps(exclude_last=False)))
    assert messages_from_dict(maps[0]["message"]["messages"])[0].content == said[0].content
    (tmp_path / "roof.json").write_text(json.dumps(maps))
    with ConversationMemory.open(":memory:") as memory:
        memory.import_file(tmp_path / "roof.json")
        again = memory.history("roof").messages
    assert [one.id for one in again[:3]] == ["q", "a", "r"]
    assert (again[0].content, again[1].tool_calls) == (said[0].content, [call])
