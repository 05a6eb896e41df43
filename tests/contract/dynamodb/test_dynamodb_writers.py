"""Writers who meet."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from dynamodb_servers import (
    kinds,
)
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import (
    LogUnavailableError,
)
from langchain_convmem.logs.dynamodb import log as dynamodb
from langchain_convmem.logs.dynamodb.batches import Batches
from langchain_convmem.logs.verify import verify_log
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import ANA, list_texts, say, say_all

pytestmark = pytest.mark.sockets
ANAS_OTHER = ThreadKey("ana", "t2")


def in_between(monkeypatch, act):
    """Let `act` happen once, after a log has read the newest number and before it writes."""
    read = Batches.find_newest
    waiting = [act]

    def newest(self, owner):
        found = read(self, owner)
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(Batches, "find_newest", newest)


def test_two_writers_of_one_number_both_get_through(open_log, monkeypatch):
    slow, fast = open_log(), open_log()
    say(slow, ANA, "before")
    in_between(monkeypatch, lambda: say_all(fast, ANA, ["fast a", "fast b"]))
    entry = say(slow, ANA, "slow")
    assert list_texts(slow.entries(ANA)) == ["before", "fast a", "fast b", "slow"]
    assert fast.entries(ANA)[-1] == entry
    assert fast.changes(ANA.owner).cursor == entry.position


def test_two_writers_of_one_message_store_it_once(client, open_log, monkeypatch):
    slow, fast = open_log(), open_log()
    message = HumanMessage("Hi" * 200_000, id="m1")
    in_between(monkeypatch, lambda: say(fast, ANA, message))
    assert [say(slow, ANA, message)] == fast.entries(ANA)
    assert kinds(slow, client) == ["E", "P", "P"], "the slower one took its pieces back"


@pytest.mark.parametrize("by_id", [True, False])
def test_a_number_is_not_used_again_while_a_writer_holds_it(open_log, monkeypatch, by_id):
    slow, fast = open_log(), open_log()
    third = ThreadKey("ana", "t3")
    say(slow, ANA, "before")

    def act():
        gone = say(fast, third, "gone")
        say(fast, ANAS_OTHER, "there")
        fast.forget(third, [gone.id] if by_id else None)

    in_between(monkeypatch, act)
    entry = say(slow, ANA, "slow")
    assert list_texts(fast.changes(ANA.owner).entries) == ["before", "there", "slow"]
    assert entry.position > fast.entries(ANAS_OTHER)[0].position


def test_who_loses_a_number_takes_the_pieces_back(client, open_log, monkeypatch):
    slow, fast = open_log(), open_log()
    in_between(monkeypatch, lambda: say(fast, ANA, "fast"))
    say(slow, ANA, "slow" * 100_000)
    assert kinds(slow, client) == ["E", "E", "P", "P"]
    assert list_texts(slow.entries(ANA)) == ["fast", "slow" * 100_000]


def test_who_has_only_written_to_a_thread_still_finds_what_was_there(open_log):
    first, second = open_log(), open_log()
    message = HumanMessage("Hi", id="m1")
    entry = say(first, ANA, message)
    say(second, ANA, "more")
    assert say(second, ANA, message) == entry
    say(first, ANA, HumanMessage("Ho", id="m2"))
    say(second, ANA, HumanMessage("Ho", id="m2"))
    assert list_texts(first.entries(ANA)) == ["Hi", "more", "Ho"]


def test_clocks_of_different_days_do_not_upset_the_order(open_log, monkeypatch):
    slow, fast = open_log(), open_log()
    today = dynamodb.get_now_ms()

    def act():
        monkeypatch.setattr(dynamodb, "get_now_ms", lambda: today + 86_400_000)
        say(fast, ANA, "of tomorrow")
        monkeypatch.setattr(dynamodb, "get_now_ms", lambda: today)

    in_between(monkeypatch, act)
    say(slow, ANA, "of today")
    assert list_texts(fast.entries(ANA)) == ["of tomorrow", "of today"]


@pytest.mark.parametrize("key", [ANA, ANAS_OTHER])
def test_who_follows_the_first_batch_at_once_finds_it_there(client, open_log, monkeypatch, key):
    first, second = open_log(), open_log()
    add, waiting = Batches.add, [key]

    def add_and_be_followed(self, *args):
        batch = add(self, *args)
        if waiting:
            say(second, waiting.pop(), "second")
        return batch

    monkeypatch.setattr(Batches, "add", add_and_be_followed)
    say(first, ANA, "first")
    assert verify_log(first).problems == ()
    assert list_texts(first.changes(ANA.owner).entries) == ["first", "second"]
    assert kinds(first, client) == ["E", "E"], "and nobody wrote twice"


def test_a_writer_gives_up_after_a_while(log, monkeypatch):
    monkeypatch.setattr(Batches, "add", lambda *_: None)
    moments = iter(range(0, 1000, 20))
    clock = SimpleNamespace(monotonic=lambda: next(moments), time=time.time)
    monkeypatch.setattr(dynamodb, "time", clock)
    monkeypatch.setattr(dynamodb, "choose_pause_s", lambda _: 0.0)
    with pytest.raises(LogUnavailableError, match=rf"ana.*{log.table_name}") as caught:
        say(log, ANA, "Hi")
    assert caught.value.thread_id == "t1"
