from __future__ import annotations

import json
from dataclasses import replace

from histories import spoken
from langchain_core.messages import AIMessage

from langchain_convmem.records import Metadata
from langchain_convmem.views.export import make_turn_map
from langchain_convmem.views.live import build_turns


def test_a_turn_is_a_map_of_id_message_and_metadata():
    [entry] = spoken("Hi")
    created = entry.metadata.timing["creation"]
    assert list(map(make_turn_map, build_turns([entry]))) == [
        {
            "id": entry.id,
            "message": {"role": "user", "contents": ["Hi"]},
            "metadata": {"timing": {"creation": created}},
        }
    ]


def test_keys_of_metadata_appear_in_order_only_where_they_are_set():
    [turn] = build_turns(spoken("Hi"))
    metadata = Metadata(("merged",), {"creation": 1, "llmEnd": 2}, ("s", "a"), {"k": [1]})
    exported = make_turn_map(replace(turn, metadata=metadata))["metadata"]
    assert list(exported.items()) == [
        ("summaryIds", ["s", "a"]),
        ("attribute", ["merged"]),
        ("aux", {"k": [1]}),
        ("timing", {"creation": 1, "llmEnd": 2}),
    ]
    assert json.loads(json.dumps(exported)) == exported


def test_a_placeholder_is_exported_like_any_turn():
    fake, said = map(make_turn_map, build_turns(spoken(AIMessage("Welcome!"))))
    assert fake["message"] == {"role": "user", "contents": ["..."]}
    assert fake["metadata"]["attribute"] == ["fake"]
    assert fake["metadata"]["timing"]["creation"] <= said["metadata"]["timing"]["creation"]
    assert fake["id"] < said["id"]
