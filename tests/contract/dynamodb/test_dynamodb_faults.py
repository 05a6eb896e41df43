"""Throttling, failures and lost answers."""

from __future__ import annotations

import pytest
from dynamodb_servers import THROTTLED
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.testing.log_contract import ANA, list_texts, say

pytestmark = pytest.mark.sockets


def test_throttled_calls_are_repeated_with_growing_pauses(faulty):
    faulty.server.faults = {"PutItem": [THROTTLED] * 4, "Query": [THROTTLED] * 2}
    entry = say(faulty.log, ANA, "Hi")
    assert faulty.log.entries(ANA) == [entry]
    assert len(faulty.pauses) == 6
    assert faulty.server.seen["PutItem"] == 5


@pytest.mark.parametrize("name", [THROTTLED, "ThrottlingException", "InternalServerError"])
def test_what_stays_throttled_is_raised_and_can_be_repeated(faulty, name):
    faulty.server.faults["PutItem"] = [name] * 50
    with pytest.raises(LogUnavailableError) as caught:
        say(faulty.log, ANA, "Hi")
    assert caught.value.is_retryable
    assert isinstance(caught.value, ConnectionError)
    for said in ("put_item", repr(faulty.log.table_name), "'U#", "'E#000000000001'", name):
        assert said in str(caught.value)
    assert 2 <= faulty.server.seen["PutItem"] <= 20
    faulty.server.faults.clear()
    assert faulty.log.entries(ANA) == []
    say(faulty.log, ANA, "Hi")
    assert list_texts(faulty.log.entries(ANA)) == ["Hi"]


def test_writes_that_were_left_undone_are_done(faulty):
    faulty.server.faults["BatchWriteItem"] = ["half"] * 4
    large = "".join(map(str, range(600_000)))
    say(faulty.log, ANA, large)
    assert list_texts(faulty.log.entries(ANA)) == [large]
    assert faulty.server.seen["BatchWriteItem"] == 5
    assert len(faulty.pauses) == 4


def test_writes_that_stay_undone_are_raised(faulty):
    faulty.server.faults["BatchWriteItem"] = ["half"] * 50
    with pytest.raises(LogUnavailableError, match=r"1 writes undone after 8 attempts.*'P#"):
        say(faulty.log, ANA, "x" * 500_000)
    assert faulty.log.entries(ANA) == []


@pytest.mark.parametrize("times", [1, 50])
def test_a_write_whose_answer_is_lost_is_not_repeated(faulty, times):
    faulty.server.faults["PutItem"] = ["lost"] * times
    first = say(faulty.log, ANA, "Yes")
    faulty.server.faults.clear()
    second = say(faulty.log, ANA, "Yes")
    assert faulty.log.entries(ANA) == [first, second]


@pytest.mark.parametrize("times", [1, 50])
def test_a_change_whose_answer_is_lost_is_made_once(faulty, times):
    entry = say(faulty.log, ANA, "Yes")
    faulty.server.faults["PutItem"] = ["lost"] * times
    faulty.log.annotate(ANA, entry.id, attributes=["seen"])
    faulty.server.faults.clear()
    assert faulty.log.entries(ANA)[0].metadata.attributes == ("seen",)


@pytest.mark.parametrize("times", [1, 50])
def test_a_document_whose_answer_is_lost_is_not_taken_for_anothers(faulty, times):
    faulty.server.faults["PutItem"] = ["lost"] * times
    written = faulty.log.set_state(ANA, "lease", "mine", expected=None)
    faulty.server.faults.clear()
    assert written == faulty.log.get_state(ANA, "lease")
    assert written is not None


def test_forgetting_goes_on_where_it_broke_off(faulty):
    for number in range(40):
        say(faulty.log, ANA, f"line {number}")
    before = faulty.log.changes(ANA.owner).generation
    faulty.server.faults["BatchWriteItem"] = ["half", *["ThrottlingException"] * 50]
    with pytest.raises(LogUnavailableError):
        faulty.log.forget(ANA)
    faulty.server.faults.clear()
    faulty.log.forget(ANA)
    assert faulty.log.entries(ANA) == []
    assert faulty.log.changes(ANA.owner).generation != before


@pytest.mark.parametrize("fault", ["cut", "empty"])
@pytest.mark.parametrize("operation", ["Query", "Scan", "BatchWriteItem", "DescribeTable"])
def test_an_answer_that_is_cut_is_no_answer(faulty, operation, fault):
    log, entry = faulty.log, say(faulty.log, ANA, HumanMessage("Hi", id="m1"))
    calls = {
        "Query": [
            lambda: log.entries(ANA),
            lambda: log.changes(ANA.owner),
            lambda: log.find(ANA, ["m1"]),
            lambda: log.threads("ana"),
            lambda: log.get_state(ANA, "note"),
            lambda: log.annotate(ANA, entry.id, attributes=["seen"]),
            lambda: log.forget(ANA),
            lambda: say(log, ANA, "more"),
        ],
        "Scan": [log.owners, lambda: log.threads(None)],
        "BatchWriteItem": [
            lambda: say(log, ANA, "x" * 500_000),
            lambda: log.delete_state(ANA, "note"),
        ],
        "DescribeTable": [log.create_table],
    }
    for call in calls[operation]:
        faulty.server.faults = {operation: [fault]}
        with pytest.raises(LogUnavailableError, match=log.table_name):
            call()
    faulty.server.faults.clear()
    assert log.entries(ANA) == [entry]
