"""Writers who meet: what one does between the reading and the writing of another."""

from __future__ import annotations

import pytest
from dynamodb_servers import kinds
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.logs.verify import verify_log
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import ANA, ANAS_OTHER, list_texts, say, say_all

pytestmark = pytest.mark.sockets


@pytest.fixture
def in_between(client):
    """Let something happen once, just before the next write, by default a conditional one."""

    def plan(act, operation="PutItem"):
        waiting = [act]

        def act_once(**_):
            if waiting:
                waiting.pop()()

        client.meta.events.register(f"before-call.dynamodb.{operation}", act_once)

    return plan


def test_two_writers_of_one_number_both_get_through(open_log, in_between):
    slow, fast = open_log(), open_log()
    say(slow, ANA, "before")
    in_between(lambda: say_all(fast, ANA, ["fast a", "fast b"]))
    entry = say(slow, ANA, "slow")
    assert list_texts(slow.entries(ANA)) == ["before", "fast a", "fast b", "slow"]
    assert fast.entries(ANA)[-1] == entry
    assert fast.changes(ANA.owner).cursor == entry.position


@pytest.mark.parametrize("key", [ANA, ANAS_OTHER])
def test_two_first_writers_both_get_through(open_log, in_between, key):
    slow, fast = open_log(), open_log()
    in_between(lambda: say(fast, key, "fast"))
    say(slow, ANA, "slow")
    assert list_texts(slow.changes(ANA.owner).entries) == ["fast", "slow"]
    assert verify_log(slow).ok


def test_two_writers_of_one_message_store_it_once(client, open_log, in_between):
    slow, fast = open_log(), open_log()
    message = HumanMessage("Hi" * 100_000, id="m1")
    in_between(lambda: say(fast, ANA, message))
    assert [say(slow, ANA, message)] == fast.entries(ANA)
    assert kinds(slow, client) == ["E", "P", "P", "P"], "the slower one took its pieces back"


@pytest.mark.parametrize("scope", ["entry", "thread", "owner"])
def test_a_number_is_not_used_again_while_a_writer_holds_it(open_log, in_between, scope):
    slow, fast = open_log(), open_log()
    third = ThreadKey("ana", "t3")
    positions = [say(slow, ANA, "before").position]

    def act():
        gone = say(fast, third, "gone")
        positions.extend([gone.position, say(fast, ANAS_OTHER, "there").position])
        fast.forget(
            third.owner if scope == "owner" else third, [gone.id] if scope == "entry" else None
        )

    in_between(act)
    positions.append(say(slow, ANA, "slow").position)
    assert positions == sorted(set(positions))
    left = ["slow"] if scope == "owner" else ["before", "there", "slow"]
    assert list_texts(fast.changes(ANA.owner).entries) == left
    assert verify_log(fast).ok


def test_a_large_write_survives_that_its_thread_is_forgotten_meanwhile(open_log, in_between):
    slow, fast = open_log(), open_log()
    say(slow, ANA, "before")
    in_between(lambda: fast.forget(ANA))
    entry = say(slow, ANA, "x" * 500_000)
    assert slow.entries(ANA) == [entry]


def test_who_has_only_written_to_a_thread_still_finds_what_was_there(open_log):
    first, second = open_log(), open_log()
    message = HumanMessage("Hi", id="m1")
    entry = say(first, ANA, message)
    say(second, ANA, "more")
    assert say(second, ANA, message) == entry
    say(first, ANA, HumanMessage("Ho", id="m2"))
    say(second, ANA, HumanMessage("Ho", id="m2"))
    assert list_texts(first.entries(ANA)) == ["Hi", "more", "Ho"]


def test_a_writer_gives_up_after_a_while(log, client, monkeypatch):
    monkeypatch.setattr("langchain_convmem.logs.dynamodb.client.choose_pause_s", lambda _: 0.0)
    writing = []

    def act(**_):
        if not writing:
            writing.append("faster")
            say(log, ANAS_OTHER, "faster")
            writing.clear()

    client.meta.events.register("before-call.dynamodb.PutItem", act)
    with pytest.raises(LogUnavailableError, match=rf"ana.*{log.table_name}") as caught:
        say(log, ANA, "Hi")
    assert caught.value.thread_id == "t1"
    assert log.entries(ANA) == []
