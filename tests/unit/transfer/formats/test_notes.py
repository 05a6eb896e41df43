"""Notes of other memories: found by recall, with their times, and nobody's own words."""

from __future__ import annotations

import json

import pytest

from langchain_convmem import ConversationMemory, ImportFormatError
from langchain_convmem.transfer import read_threads

AT = "2026-05-08T10:00:00.000+00:00"
MEM0 = {
    "results": [
        {
            "id": "m1",
            "memory": "Lives in Porto",
            "user_id": "ana",
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": AT,
            "metadata": {"category": "home"},
        },
        {"id": "m2", "memory": "Allergic to nuts", "created_at": AT, "updated_at": None},
    ]
}
ZEP = {
    "edges": [
        {"uuid": "e1", "fact": "Ana lives in Lisbon.", "valid_at": AT, "invalid_at": AT},
        {"uuid": "e2", "fact": "Ana lives in Porto.", "valid_at": AT, "invalid_at": None},
        {"uuid": "e3", "fact": "Ana owns a boat.", "created_at": AT, "expired_at": AT},
    ]
}
LANGMEM = [
    {
        "namespace": ["memories", "ana"],
        "key": "k1",
        "value": {"kind": "Memory", "content": {"content": "Ana lives in Porto."}},
        "created_at": AT,
        "updated_at": AT,
    },
    {"namespace": ["tastes"], "key": "k2", "value": {"tea": "green", "sugar": False}},
]


@pytest.fixture
def write(tmp_path):
    def write_json(value, name="notes.json"):
        path = tmp_path / name
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write_json


def texts(thread):
    return [message.text for message in thread.messages]


def test_memories_of_mem0_keep_their_latest_time_and_their_metadata(write):
    [thread] = read_threads(write(MEM0))
    assert (thread.thread_id, texts(thread)) == ("mem0", ["Lives in Porto", "Allergic to nuts"])
    first, second = thread.messages
    assert first.additional_kwargs == {
        "timestamp": AT,
        "noted_by": "mem0",
        "note_metadata": {"category": "home"},
    }
    assert (first.id, first.type) == ("mem0:m1", "ai")
    assert second.additional_kwargs["timestamp"] == AT
    [bare] = read_threads(write(MEM0["results"]), format="mem0")
    assert texts(bare) == texts(thread)


def test_what_zep_holds_to_be_over_is_left_out(write):
    [thread] = read_threads(write(ZEP))
    assert (thread.thread_id, texts(thread)) == ("zep", ["Ana lives in Porto."])
    [same] = read_threads(write({"facts": ZEP["edges"]}))
    assert texts(same) == texts(thread)


def test_items_of_langmem_go_by_their_namespaces(write):
    threads = {thread.thread_id: texts(thread) for thread in read_threads(write(LANGMEM))}
    assert threads == {
        "memories/ana": ["Ana lives in Porto."],
        "tastes": ['{"tea": "green", "sugar": false}'],
    }


@pytest.mark.parametrize("export", [MEM0, ZEP, LANGMEM], ids=["mem0", "zep", "langmem"])
def test_notes_are_recalled_trusted_as_imported_and_stored_once(write, export):
    with ConversationMemory.open(":memory:") as memory:
        report = memory.import_file(write(export), user_id="ana")
        assert report.added == report.known + len(report)
        assert memory.import_file(write(export), user_id="ana").added == 0
        found = memory.recall("Where does Ana live, in Porto?", user_id="ana")
        line = found.blocks[0].matches[0].line
        assert "Porto" in line.text
        assert (line.role, line.trust) == ("assistant", "import")
        assert memory.profile("ana").items == ()


@pytest.mark.parametrize(
    ("export", "told"),
    [
        ({"results": [{"id": "m1", "memory": ""}]}, "text that is not blank"),
        ({"results": [{"id": "m1", "memory": "x"}, {"id": "m2"}]}, '"memory"'),
        ({"results": [{"id": "m1", "memory": "x", "created_at": "soon"}]}, "created_at"),
        ({"results": [{"id": "m1", "memory": "x"}, {"id": "m1", "memory": "y"}]}, "taken already"),
        ([{"namespace": "flat", "key": "k", "value": {}}], "namespace"),
    ],
)
def test_a_bad_note_is_refused_by_its_place_before_anything_is_written(write, export, told):
    with ConversationMemory.open(":memory:") as memory:
        with pytest.raises(ImportFormatError, match=told) as refused:
            memory.import_file(write(export), user_id="ana")
        assert "notes.json" in str(refused.value)
        assert memory.threads("ana") == []
