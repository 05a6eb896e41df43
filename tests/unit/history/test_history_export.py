"""What a history gives away: exports, tables, forks."""

from __future__ import annotations

import base64
import html
import json
import re

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_from_dict
from summaries import bare_texts

from langchain_convmem import ConversationMemory, SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.offline import ExtractiveSummarizer


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


def rows(history):
    """Return the marks, role and pieces of each line of the table."""
    found = re.findall(
        r"^(\d+)\t(.*)\t\[(\w+)\] \{(.*?)\} -- '(\w+)' (.*)[,.]$", str(history), re.MULTILINE
    )
    assert [int(row[0]) for row in found] == list(range(len(history.turns)))
    assert [row[4] for row in found] == [turn.id for turn in history.turns]
    return [(marks, role, pieces) for _, marks, role, pieces, _, _ in found]


def test_the_table_shows_every_turn_with_its_marks(history, say):
    history.add("assistant", "Welcome!")
    say("a", "b")
    history.add("user", ["c", "d"])
    history.to_maps()
    history.add_summary("S", history.summary_window())
    assert rows(history) == [
        ("", "user", "'...'"),
        ("", "assistant", "'Welcome!'"),
        ("", "user", "'a'"),
        ("", "assistant", "'b'"),
        ("- ^", "summary", "'S'"),
        ("*", "user", "'c' 'd'"),
    ]
    assert not str(history).endswith("index 6.")


def test_pictures_calls_and_blocks_of_other_sorts_leave_a_trace(history):
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(85_992)).decode()
    history.add_message(
        HumanMessage(
            [
                {"type": "text", "text": "Where is it?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}},
                {"type": "odd", "value": 1},
            ]
        )
    )
    call = {"name": "weather", "args": {"city": "Porto", "days": 2}, "id": "c1"}
    broken = {"name": "map", "args": "{oops", "id": "c2", "error": None}
    history.add_message(AIMessage("", tool_calls=[call], invalid_tool_calls=[broken]))
    assert [pieces for _, _, pieces in rows(history)] == [
        "'Where is it?' '[image, png, 86 kB]' '[odd]'",
        "'[calls weather(city=\"Porto\", days=2)]' '[calls map({oops)]'",
    ]
    for text in (history._repr_html_(), "".join(turn._repr_html_() for turn in history.turns)):
        assert "Where is it?<br>[image, png, 86 kB]<br>[odd]" in text
        assert "[calls weather(city=&quot;Porto&quot;, days=2)]<br>[calls map({oops)]" in text


def test_a_notebook_shows_a_table_in_which_everything_is_escaped(history):
    history.add_messages([HumanMessage(["<script>alert(1)</script>", "a\nb & \ud800"])])
    history.turns[0].add_data("<b>", "</td>")
    page = history._repr_html_()
    assert "<script>" not in page
    assert html.escape("<script>alert(1)</script>") + "<br>a<br>b &amp; \\ud800" in page
    assert html.escape("{'aux': {'<b>': '</td>'}}") in page
    assert page.count("<tr>") == 2
    page.encode()


@pytest.fixture
def forking(history):
    return ConversationMemory(history.log)


def turn_texts(history):
    return [" ".join(turn.contents) for turn in history.turns]


def test_a_fork_goes_on_from_a_point_and_leaves_the_other_thread_alone(forking, history, say):
    say("a", "b", "c", "d")
    before = history.entries
    fork = forking.fork("t1", at=history.turns[1].id, user_id="ana")
    assert turn_texts(fork) == ["a", "b"]
    fork.add("user", "C")
    assert turn_texts(fork) == ["a", "b", "C"]
    assert history.entries == before
    assert fork.user_id == "ana"
    assert fork.thread_id != "t1"
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


def test_summaries_come_along_with_what_they_cover(forking, history, say):
    say("a", "b")
    history.add_summary("S", history.summary_window(), model="m", prompt_version="v")
    say("c", "d")
    history.add_summary("T", history.summary_window())
    say("e", "f")
    fork = forking.fork("t1", at=history.turns[-2].id, user_id="ana")
    assert turn_texts(fork) == ["a", "b", "S", "c", "d", "T", "e"]
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
    assert len(history.entries) == 2


def test_what_an_undone_summary_showed_again_stays_shown_in_a_fork():
    settings = SummarySettings(trigger=("messages", 4), keep=("messages", 2))
    with ConversationMemory.open(
        ":memory:", summarizer=ExtractiveSummarizer(), summary_settings=settings
    ) as memory:
        said = [(("user", "ai")[n % 2], f"Box {n} stands on shelf {n}.") for n in range(8)]
        memory.add_messages(said, thread_id="t", user_id="ana")
        assert memory.summarize("t", user_id="ana").outcome == "written"
        memory.history("t", user_id="ana").undo_summary()
        fork = memory.fork("t", user_id="ana")
        shown = [message.text for message in fork.messages]
        assert memory.summarize(fork.thread_id, user_id="ana").outcome == "not_due"
        assert [message.text for message in fork.messages] == shown
        again = memory.fork(fork.thread_id, user_id="ana")
        assert memory.summarize(again.thread_id, user_id="ana").outcome == "not_due"
