"""What ends at its time, and what `forget` leaves."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from dynamodb_servers import (
    delete_item,
    expire,
    items,
    kinds,
)
from langchain_core.messages import HumanMessage

from langchain_convmem.logs.dynamodb import erasing
from langchain_convmem.logs.dynamodb import log as dynamodb
from langchain_convmem.logs.dynamodb.items import compute_base_number, compute_number
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import ANA, LONE, list_texts, say, say_all

pytestmark = pytest.mark.sockets
ANAS_OTHER = ThreadKey("ana", "t2")


# -- times to live --------------------------------------------------------------------------------


def test_everything_ends_at_its_time(open_log, client):
    log = open_log(ttl_seconds=3600)
    say(log, ANA, "small")
    say(log, ANA, "large" * 100_000)
    log.set_state(ANA, "buffer", 1, expected=None)
    for item in items(log, client).values():
        assert 3500 < int(item["expires"]["N"]) - time.time() <= 3600
    plain = open_log()
    say(plain, LONE, "kept")
    assert all(
        "expires" not in item for key, item in items(log, client).items() if key[0] == "T#t1"
    )


def test_what_has_ended_is_not_read_before_the_service_deletes_it(open_log, client):
    log = open_log(ttl_seconds=3600)
    first, second = say(log, ANA, HumanMessage("old", id="m1")), say(log, ANA, "new")
    written = log.set_state(ANA, "buffer", 1, expected=None)
    heads = sorted(key for key in items(log, client) if key[1].startswith("E#"))
    expire(log, client, heads[0])
    expire(log, client, next(key for key in items(log, client) if key[1].startswith("S#")))
    assert log.entries(ANA) == log.entries(ANA, last=5) == [second]
    assert log.changes(ANA.owner).entries == (second,)
    assert [info.entries for info in log.threads("ana")] == [1]
    assert log.get_state(ANA, "buffer") is None
    assert log.set_state(ANA, "buffer", 2, expected=written.version) is None
    assert log.set_state(ANA, "buffer", 2, expected=None) is not None
    assert say(log, ANA, HumanMessage("old", id="m1")).position > second.position > first.position


@pytest.mark.parametrize("deleted", [True, False])
def test_numbers_grow_although_everything_has_ended(open_log, client, monkeypatch, deleted):
    log = open_log(ttl_seconds=3600)
    old = say(log, ANA, "old")
    before = log.changes(ANA.owner)
    [head] = items(log, client)
    expire(log, client, head)
    if deleted:
        delete_item(log, client, head)
    tomorrow = dynamodb.get_now_ms() + timedelta(days=1) // timedelta(milliseconds=1)
    monkeypatch.setattr(dynamodb, "get_now_ms", lambda: tomorrow)
    new = say(log, ANA, "new")
    assert compute_number(new.position) == compute_base_number(tomorrow)
    assert new.position > old.position
    assert log.changes(ANA.owner, before.cursor).entries == (new,)


# -- forgetting -----------------------------------------------------------------------------------


def test_nothing_of_a_forgotten_owner_stays_but_markers_that_end(client, log):
    say_all(log, ANA, ["secret one", HumanMessage("secret two", id="secret id")])
    say(log, ANAS_OTHER, "secret" * 100_000)
    say(log, ThreadKey("bo", "t1"), "another's")
    log.set_state(ANA, "buffer", "secret", expected=None)
    log.forget(ANA.owner)
    left = {key: item for key, item in items(log, client).items() if key[0] == "U#ana"}
    assert "secret" not in str(left)
    assert "t1" not in str(left)
    for item in left.values():
        assert set(item) <= {"pk", "sk", "size", "born", "raised", "expires"}
        assert int(item["expires"]["N"]) - time.time() < 3 * 86_400
    assert list_texts(log.entries(ThreadKey("bo", "t1"))) == ["another's"]


def test_old_batches_leave_no_marker(client, log, monkeypatch):
    for number in range(30):
        say(log, ANA, f"line {number}")
    later = time.time_ns() // 1000 + 2 * 3600 * 1_000_000
    monkeypatch.setattr(erasing, "read_clock_us", lambda: later)
    log.forget(ANA)
    assert kinds(log, client) == ["E", "E"], "the newest number and the generation"


def test_the_generation_of_an_owner_with_entries_does_not_end(client, log):
    say(log, ANA, "one")
    say(log, ANAS_OTHER, "two")
    log.forget(ANA)
    [generation] = [item for (_, sort), item in items(log, client).items() if sort == "E"]
    assert "expires" not in generation


def test_an_owner_of_whom_nothing_is_left_differs_from_every_earlier_one(log, client):
    seen = {log.changes(ANA.owner).generation}
    say(log, ANA, "one")
    seen.add(log.changes(ANA.owner).generation)
    log.forget(ANA.owner)
    seen.add(log.changes(ANA.owner).generation)
    for key in items(log, client):
        delete_item(log, client, key)  # as the service does when the markers end
    seen.add(log.changes(ANA.owner).generation)
    say(log, ANA, "anew")
    seen.add(log.changes(ANA.owner).generation)
    assert len(seen) == 5
