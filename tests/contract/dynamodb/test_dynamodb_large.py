"""Batches that are too large for one item."""

from __future__ import annotations

import time

import pytest
from dynamodb_servers import (
    FaultyServer,
    delete_item,
    items,
    kinds,
    new_client,
    once_only,
)

from langchain_convmem.errors import (
    LogError,
)
from langchain_convmem.logs.dynamodb import DynamoDBLog, erasing
from langchain_convmem.logs.dynamodb.batches import Batches
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import ANA, list_texts, say, say_all

pytestmark = pytest.mark.sockets
ANAS_OTHER = ThreadKey("ana", "t2")
ITEM_LIMIT = 400 * 1024


def stored_bytes(item):
    """Return the size of an item as the service counts it, nearly."""
    if "B" in item and isinstance(item["B"], bytes):
        return len(item["B"])
    if "S" in item and isinstance(item["S"], str):
        return len(item["S"].encode())
    if "N" in item and isinstance(item["N"], str):
        return 21
    if "L" in item and isinstance(item["L"], list):
        return 3 + sum(1 + stored_bytes(value) for value in item["L"])
    inner = item["M"] if set(item) == {"M"} else item
    return 3 + sum(1 + len(name) + stored_bytes(value) for name, value in inner.items())


def test_no_item_is_larger_than_the_service_takes(client, log):
    say_all(log, ANA, [f"{number} " + "汉" * 1000 for number in range(480)])
    say(log, ANA, "y" * 150_000)
    say(log, ANA, "y" * 300_000)
    say(log, ANA, "z" * 5_000_000)
    assert len(log.entries(ANA)) == 483
    for item in items(log, client).values():
        copies = 2 if "tp" in item else 1  # the index holds the whole item once more
        assert copies * stored_bytes(item) < ITEM_LIMIT
    assert kinds(log, client) == [*["E"] * 4, *["P"] * (5 + 1 + 14)]


def test_pieces_without_a_head_are_no_entries(client, endpoint, open_log):
    name = open_log().table_name
    with FaultyServer(endpoint) as server:
        log = DynamoDBLog(name, client=new_client(server.url, config=once_only()))
        server.faults["PutItem"] = ["ValidationException"]
        with pytest.raises(LogError):
            say(log, ANA, "secret" * 100_000)
        assert kinds(log, client) == ["P", "P"]
        assert log.entries(ANA) == []
        assert log.threads("ana") == []
        say(log, ANA, "after")
        assert list_texts(log.changes(ANA.owner).entries) == ["after"]


def test_forgetting_finds_the_pieces_of_a_write_that_broke_off(log, client, monkeypatch):
    say(log, ANA, "secret" * 100_000)
    say(log, ANA, "after")
    [head, _] = [key for key in items(log, client) if key[1].startswith("E#")]
    delete_item(log, client, head)
    later = time.time_ns() // 1000 + 2 * 3600 * 1_000_000
    log.forget(ANAS_OTHER)
    assert kinds(log, client).count("P") == 2, "they belong to another thread"
    log.forget(ANA)
    assert kinds(log, client).count("P") == 2, "their head may be on its way"
    monkeypatch.setattr(erasing, "read_clock_us", lambda: later)
    log.forget(ANA)
    assert kinds(log, client).count("P") == 0


def test_an_annotated_large_batch_keeps_no_old_pieces(client, log):
    first, second = say_all(log, ANA, ["a" * 400_000, "b" * 10])
    before = {key for key in items(log, client) if key[1].startswith("P#")}
    noted = log.annotate(ANA, second.id, attributes=["seen"], aux={"n": 1})
    assert noted.metadata.attributes == ("seen",)
    assert log.entries(ANA) == [first, noted]
    after = {key for key in items(log, client) if key[1].startswith("P#")}
    assert len(after) == len(before) == 2
    assert not after & before


def test_metadata_that_outgrows_its_item_moves_into_pieces(client, log):
    entry = say(log, ANA, "a" * 100_000)
    log.annotate(ANA, entry.id, aux={"draft": "b" * 300_000})
    assert kinds(log, client) == ["E", "P", "P"]
    [read] = log.entries(ANA)
    assert read.metadata.aux == {"draft": "b" * 300_000}


def test_forgetting_one_entry_of_a_large_batch_erases_its_text(client, log):
    first, second = say_all(log, ANA, ["secret" * 100_000, "kept"])
    assert log.forget(ANA, [first.id]).entries == 1
    assert log.entries(ANA) == [second]
    assert "secret" not in str(items(log, client))


def test_a_reader_follows_a_batch_that_is_changed_while_it_is_read(log, open_log, monkeypatch):
    entry = say(log, ANA, "a" * 400_000)
    other, read = open_log(), Batches.read_rows
    waiting = [lambda: other.annotate(ANA, entry.id, attributes=["seen"])]

    def read_late(self, batch):
        if waiting:
            waiting.pop()()
        return read(self, batch)

    monkeypatch.setattr(Batches, "read_rows", read_late)
    [found] = log.changes(ANA.owner).entries
    assert found.metadata.attributes == ("seen",)
    waiting.append(lambda: other.forget(ANA))
    assert log.changes(ANA.owner).entries == ()
