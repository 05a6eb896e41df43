"""What somebody else changed in the table of a `DynamoDBLog` is named, and takes nothing down."""

from __future__ import annotations

import pytest
from dynamodb_servers import delete_item, items
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError, CorruptEntryError
from langchain_convmem.logs.dynamodb.items import compute_number
from langchain_convmem.logs.verify import Finding, verify_log
from langchain_convmem.testing.log_contract import (
    ANA,
    ANAS_OTHER,
    BO,
    list_texts,
    say,
    say_all,
)

pytestmark = pytest.mark.sockets
KEY = "a secret of the operator"
CHANGED = "it does not match its checksum"


@pytest.fixture
def change(log, client):
    """Return what puts other attributes into the batch of an entry, as an editor would."""

    def put(entry, edit):
        item = next(
            item
            for (_, sort), item in items(log, client).items()
            if sort == f"E#{compute_number(entry.position):012d}"
        )
        edit(item)
        client.put_item(TableName=log.table_name, Item=item)

    return put


def set_fields(place, **fields):
    """Return an edit of one row of a batch."""

    def edit(item):
        row = item["rows"]["L"][place]["M"]
        for name, value in fields.items():
            row[name] = {"S": value(row.get(name, {"S": ""})["S"]) if callable(value) else value}

    return edit


def say_numbers(log, key=ANA):
    return say_all(log, key, [HumanMessage(text, id=text) for text in ("one", "two", "three")])


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"body": lambda text: text.replace("two", "six")}, CHANGED),
        ({"role": "assistant"}, CHANGED),
        ({"role": "king"}, "its role is unknown"),
        ({"turn": "another"}, CHANGED),
        ({"meta": '{"a":["seen"]}'}, "its metadata does not match its checksum"),
        ({"sig": lambda text: text[:-3] + "000"}, "its metadata does not match its checksum"),
        ({"sig": lambda text: text[:-10]}, CHANGED),
    ],
)
def test_a_changed_row_is_damaged_and_no_other_is(log, change, fields, what):
    first, second, third = say_numbers(log)
    change(first, set_fields(1, **fields))
    for entries in (log.entries(ANA), log.changes(ANA.owner).entries):
        assert (entries[0], entries[2]) == (first, third)
        damaged = entries[1]
        assert (damaged.id, damaged.position) == (second.id, second.position)
        assert (damaged.role, damaged.message, damaged.damage) == ("control", None, what)
    with pytest.raises(CorruptEntryError, match=what):
        log.annotate(ANA, second.id, attributes=["seen"])
    assert verify_log(log).damaged == (Finding("ana", "t1", second.position, second.id, what),)
    say(log, ANA, "four")
    assert log.forget(ANA, [second.id]).entries == 1
    assert list_texts(log.entries(ANA))[0] == "one"


def test_a_row_that_cannot_be_read_is_forgotten_by_its_place(log, change):
    first, second, third = say_numbers(log)
    change(first, lambda item: item["rows"]["L"][1]["M"].pop("id"))
    name = f"damaged-{second.position}"
    read = log.entries(ANA)
    assert [entry.id for entry in read] == [first.id, name, third.id]
    assert read[1].damage == "it cannot be read"
    assert log.forget(ANA, [name]).entries == 1
    assert log.entries(ANA) == [first, third]
    assert verify_log(log).ok


def test_a_missing_piece_is_a_named_gap_of_its_thread(log, client):
    before = say(log, ANA, "before")
    large = say(log, ANA, "a" * 800_000)
    after, other = say(log, ANA, "after"), say(log, ANAS_OTHER, "other")
    piece = next(key for key in items(log, client) if key[1].startswith("P#"))
    delete_item(log, client, piece)
    what = "2 of 3 pieces of its batch are there"
    found = [(entry.id, entry.damage) for entry in log.entries(ANA)]
    name = f"damaged-{large.position}"
    assert found == [(before.id, ""), (name, what), (after.id, "")]
    assert [entry.damage for entry in log.changes(ANA.owner).entries] == ["", what, "", ""]
    assert log.entries(ANAS_OTHER) == [other]
    assert verify_log(log).damaged == (Finding("ana", "t1", large.position, name, what),)
    assert log.forget(ANA, [name]).entries == 1
    assert list_texts(log.entries(ANA))[0] == "before"


@pytest.mark.parametrize("place", ["newest", "older"])
def test_a_damaged_item_is_a_named_gap_of_its_thread(log, change, place):
    before, second = say(log, ANA, "before"), say(log, ANA, "damaged")
    other = say(log, ANAS_OTHER, "other") if place == "older" else None
    change(second, lambda item: item.update(size={"S": "many"}))
    name = f"damaged-{second.position}"
    damage = "the item of its batch cannot be read"
    for entries in (log.entries(ANA), log.entries(ANA, last=5)):
        found = [(entry.id, entry.damage) for entry in entries]
        assert found == [(before.id, ""), (name, damage)]
    after = say(log, ANA, HumanMessage("after", id="m1"))
    assert log.entries(ANA)[-1] == after
    assert log.find(ANA, ["m1"]) == [after]
    assert [info.entries for info in log.threads("ana") if info.key == ANA] == [2]
    assert name in [entry.id for entry in log.changes(ANA.owner).entries]
    if other is not None:
        assert log.entries(ANAS_OTHER) == [other]
    assert log.forget(ANA, [name]).entries == 1
    assert not [entry for entry in log.entries(ANA) if entry.id == name]


def test_other_threads_and_users_notice_nothing(log, change):
    entries = say_numbers(log)
    others = [say(log, key, "untouched") for key in (ANAS_OTHER, BO)]
    change(entries[0], lambda item: item.update(rows={"S": "x"}))
    assert [log.entries(key) for key in (ANAS_OTHER, BO)] == [[entry] for entry in others]


# -- what stands beside entries -------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        {"value": {"S": "[2]"}},
        {"version": {"N": "5"}},
        {"value": {"N": "7"}},
        {"check": {"B": b"x"}},
    ],
)
def test_a_damaged_document_is_an_error_and_a_damaged_cache_is_none(log, client, damage):
    for name in ("note", "cache:note"):
        log.set_state(ANA, name, ["secret"], expected=None)
    for item in items(log, client).values():
        client.put_item(TableName=log.table_name, Item={**item, **damage})
    with pytest.raises(CorruptEntryError, match="'note' of thread 't1' is damaged") as caught:
        log.get_state(ANA, "note")
    assert "secret" not in str(caught.value)
    assert log.get_state(ANA, "cache:note") is None
    assert log.set_state(ANA, "note", [3], expected=None) is None
    written = log.set_state(ANA, "cache:note", [3], expected=None)
    assert log.get_state(ANA, "cache:note") == written
    assert log.set_state(ANA, "cache:note", [4], expected=None) is None
    log.delete_state(ANA, "note")
    assert log.get_state(ANA, "note") is None


# -- keys -----------------------------------------------------------------------------------------


def test_a_log_is_used_with_the_key_that_signs_it(open_log):
    keyed = open_log(signing_key=KEY)
    entry = say(keyed, ANA, "one")
    assert open_log(signing_key=KEY.encode()).entries(ANA) == [entry]
    for key, what in ((None, "is signed with a key"), ("x" * 16, "another key")):
        log = open_log(signing_key=key)
        assert [entry.damage for entry in log.entries(ANA)] == [CHANGED]
        with pytest.raises(ConfigError, match=what) as caught:
            say(log, ANA, "two")
        assert KEY not in str(caught.value)
    bare = open_log()
    say(bare, BO, "one")
    with pytest.raises(ConfigError, match="is not signed with a key; copy it"):
        say(keyed, BO, "two")
    assert [entry.damage for entry in keyed.entries(BO)] == [CHANGED]
