"""Turns of `to_maps()` are imported again: texts, roles, ids and times."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ImportFormatError
from langchain_convmem.transfer import read_threads


@pytest.fixture
def maps(tmp_path):
    def write(value, *, as_lines=False):
        path = tmp_path / "garden.json"
        text = "\n".join(map(json.dumps, value)) if as_lines else json.dumps(value)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def make_map(own_id, role, *contents, **metadata):
    message = {"role": role, "contents": list(contents)}
    return {"id": own_id, "message": message, "metadata": {"timing": {"creation": 5}, **metadata}}


@pytest.mark.parametrize("as_lines", [False, True])
def test_what_to_maps_gave_out_comes_back(maps, as_lines):
    with ConversationMemory.open(":memory:") as memory:
        history = memory.history("t", user_id="ana")
        history.add("user", "Where is the key?")
        history.add("assistant", "At Teresa's.")
        given = history.to_maps(exclude_last=False)
        report = memory.import_file(maps(given, as_lines=as_lines), user_id="bo")
        assert report.thread_ids == ("garden",)
        back = memory.history("garden", user_id="bo").to_maps(exclude_last=False)
    assert [one["message"] for one in back] == [one["message"] for one in given]
    ids = [message.id for message in read_threads(maps(given))[0].messages]
    assert ids == [one["id"] for one in given]


def test_the_last_form_of_a_turn_counts_and_a_retracted_one_does_not(maps):
    path = maps(
        [
            make_map("1", "user", "Old"),
            make_map("2", "assistant", "Gone"),
            make_map("3", "summary", "They talked."),
            make_map("4", "user"),
            make_map("1", "user", "New", "and more"),
            make_map("2", "assistant", "Gone", attribute=["retracted"]),
            make_map("5", "assistant", "Yes"),
        ]
    )
    [thread] = read_threads(path)
    time = {"timestamp": "1970-01-01T00:00:00.005+00:00"}
    texts = [{"type": "text", "text": "New"}, {"type": "text", "text": "and more"}]
    assert thread.messages == (
        HumanMessage(texts, id="1", additional_kwargs=time),
        AIMessage("Yes", id="5", additional_kwargs=time),
    )


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (make_map("1", "robot", "x"), "role: found 'robot'"),
        ({"id": "1", "message": {"role": "user", "contents": [1]}}, "contents[0]"),
        (make_map("1", "summary", "x"), "holds no message"),
    ],
)
def test_what_is_no_turn_is_refused_with_its_place(maps, bad, place):
    with pytest.raises(ImportFormatError) as caught:
        read_threads(maps([bad]))
    assert place in str(caught.value)
