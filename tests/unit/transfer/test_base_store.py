"""What `BaseStoreLog` kept in a LangGraph store can be copied; the items are of such a log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.testing.log_contract import list_live_texts, list_texts
from langchain_convmem.transfer import acopy_log, copy_log
from langchain_convmem.transfer.base_store import BaseStoreReader

memory = pytest.importorskip("langgraph.store.memory", reason="langgraph is not installed")

ITEMS = Path(__file__).resolve().parents[2] / "support" / "base_store_log.jsonl"
ANA = ThreadKey("ana@example.org", "t.1 ü")
ANAS_OTHER = ThreadKey("ana@example.org", "other")
BEN = ThreadKey("ben", "t")
LONE = ThreadKey(None, "alone")


@pytest.fixture
def reader():
    store = memory.InMemoryStore()
    for line in ITEMS.read_text().splitlines():
        namespace, key, value = json.loads(line)
        store.put(tuple(namespace), key, value)
    return BaseStoreReader(store, namespace=("app", "chats"))


def test_everything_is_copied_but_what_was_forgotten(reader):
    target = InMemoryLog()
    report = copy_log(reader, target, source_name="store")
    assert (report.owners, report.threads, report.entries, report.short) == (3, 4, 9, ())
    assert set(target.owners()) == {ANA.owner, BEN.owner, Owner(thread_id="alone")}
    assert list_live_texts(target, ANA) == ["first", "Yes."]
    assert list_texts(target.entries(ANA)) == ["frist", "Yes.", "first"]
    assert list_texts(target.entries(ANAS_OTHER)) == ["line 0", "line 1", "line 2"]
    assert list_texts(target.entries(BEN)) == ["Hi from Ben"]
    assert list_texts(target.entries(LONE)) == ["Nobody's"]
    [reply] = target.find(ANA, ["m2"])
    assert (reply.turn_id, reply.metadata.attributes, reply.metadata.aux) == (
        "turn",
        ("seen",),
        {"n": 1},
    )


def test_copying_again_adds_nothing_in_either_world(reader):
    target = InMemoryLog()
    assert asyncio.run(acopy_log(reader, target, source_name="store")).written == 9
    assert copy_log(reader, target, source_name="store").written == 0
    assert copy_log(reader, target, source_name="by another name").written == 0


def test_what_is_read_is_what_the_log_would_say(reader):
    assert [info.key for info in reader.threads("ana@example.org")] == [ANAS_OTHER, ANA]
    assert [info.entries for info in reader.threads("ana@example.org")] == [3, 4]
    assert reader.threads("nobody") == []
    changes = reader.changes(ANA.owner, limit=2)
    assert list_texts(changes.entries) == ["frist", "Yes."]
    assert list_texts(reader.changes(ANA.owner, changes.cursor).entries)[0] == "first"
    assert reader.changes(Owner(user_id="gone")).entries == ()
    whole = reader.entries(ANA)
    assert reader.entries(ANA, last=2) == whole[-2:]
    assert reader.entries(ANA, after=whole[0].position, until=whole[1].position) == whole[1:2]
