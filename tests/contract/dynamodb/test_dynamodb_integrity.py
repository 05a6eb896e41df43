import pytest
from dynamodb_servers import delete_item, items
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.logs.dynamodb.items import compute_number, make_batch_key, make_partition_key
from langchain_convmem.logs.verify import Finding, verify_log
from langchain_convmem.testing.log_contract import (
    ANA,
    ANAS_OTHER,
    BO,
    LONE,
    list_texts,
    say,
    say_all,
)

pytestmark = pytest.mark.sockets
KEY = "a secret of the operator"
CHANGED = "it does not match its checksum"
UNREADABLE = "it cannot be read"
USER = {"S": "ana"}


@pytest.fixture
def change(log, client):
    """Return what edits the batch of an entry, as somebody else would."""

    def put(entry, edit):
        sort = make_batch_key(compute_number(entry.position))
        item = items(log, client)[make_partition_key(entry.key), sort]
        edit(item)
        client.put_item(TableName=log.table_name, Item=item)

    return put


def edit_row(place, column, new):
    """Return an edit of one column of one row of a batch."""

    def edit(item):
        rows = [line.split("\t") for line in item["rows"]["S"].split("\n")]
        at = ("place", "id", "role", "turn", "metadata", "signature", "body").index(column)
        rows[place][at] = new(rows[place][at])
        item["rows"]["S"] = "\n".join(map("\t".join, rows))

    return edit


def say_numbers(log, key=ANA):
    return say_all(log, key, [HumanMessage(text, id=text) for text in ("one", "two", "three")])


@pytest.mark.parametrize(
    ("column", "new", "what"),
    [
        ("body", lambda text: text.replace("two", "six"), CHANGED),
        ("body", lambda text: text + "\t", UNREADABLE),
        ("role", lambda _: "assistant", CHANGED),
        ("role", lambda _: "king", UNREADABLE),
        ("turn", lambda _: '"another"', CHANGED),
        ("turn", lambda _: "another", UNREADABLE),
        ("id", lambda _: "", UNREADABLE),
        ("place", lambda _: "0", UNREADABLE),
        ("place", lambda _: "700000000", UNREADABLE),
        ("place", lambda _: "x", UNREADABLE),
        ("metadata", lambda _: '{"a":["seen"]}', "its metadata does not match its checksum"),
        ("signature", lambda text: text[:-3] + "000", "its metadata does not match its checksum"),
        ("signature", lambda text: text[:-10], CHANGED),
        ("signature", lambda text: '"' + text, UNREADABLE),
    ],
)
def test_a_changed_row_is_damaged_and_no_other_is(log, change, column, new, what):
    first, second, third = say_numbers(log)
    other = say(log, ANAS_OTHER, "other")
    change(first, edit_row(1, column, new))
    for entries in (log.entries(ANA), log.changes(ANA.owner).entries[:-1]):
        assert [entries[0], entries[2]] == [first, third]
        damaged = entries[1]
        assert damaged.position == second.position
        assert (damaged.role, damaged.message) == ("control", None)
        assert damaged.damage == what
    assert log.entries(ANAS_OTHER) == [other]
    with pytest.raises(LogError):
        log.annotate(ANA, second.id, attributes=["seen"])
    named = [(found.position, found.entry_id) for found in verify_log(log).damaged]
    assert named[0] == (second.position, damaged.id)
    say(log, ANA, HumanMessage("two", id="two"))
    assert log.forget(ANA, [name for _, name in named]).entries == len(named)
    assert list_texts(log.entries(ANA)) == ["one", "three", "two"]
    assert verify_log(log).ok


def test_a_missing_row_of_a_batch_is_named(log, change):
    first, _, third = say_numbers(log)

    def drop(item):
        item["rows"]["S"] = "\n".join(item["rows"]["S"].split("\n")[::2])

    change(first, drop)
    read = log.entries(ANA)
    assert read[:2] == [first, third]
    assert read[2].damage == "entries in its batch: 2 instead of 3"


def test_a_missing_piece_is_a_named_gap_of_its_thread(log, client):
    before, large = say(log, ANA, "before"), say(log, ANA, "a" * 250_000)
    after, other = say(log, ANA, "after"), say(log, ANAS_OTHER, "other")
    delete_item(log, client, next(key for key in items(log, client) if key[1].startswith("P#")))
    what = "2 of 3 pieces of its batch are there"
    found = [(entry.id, entry.damage) for entry in log.entries(ANA)]
    name = f"damaged-{large.position}"
    assert found == [(before.id, ""), (name, what), (after.id, "")]
    assert [entry.damage for entry in log.changes(ANA.owner).entries] == ["", what, "", ""]
    assert log.entries(ANAS_OTHER) == [other]
    assert verify_log(log).damaged == (Finding("ana", "t1", large.position, name, what),)
    assert log.forget(ANA, [name]).entries == 1
    assert list_texts(log.entries(ANA)) == ["before", "after"]
    assert not [key for key in items(log, client) if key[1].startswith("P#")]


@pytest.mark.parametrize("place", ["newest", "older"])
@pytest.mark.parametrize(
    "edit",
    [
        lambda item: item.update(entry_count={"S": "many"}),
        lambda item: item.update(first_id={"S": "?"}),
        lambda item: item.pop("last_id"),
        lambda item: item.update(entry_count={"S": "0"}),
    ],
)
def test_a_damaged_item_is_named_beside_its_entries(log, change, place, edit):
    before, second = say(log, ANA, "before"), say(log, ANA, "damaged")
    other = say(log, ANAS_OTHER, "other") if place == "older" else None
    change(second, edit)
    name = f"damaged-{second.position + 1}"
    for entries in (log.entries(ANA), log.entries(ANA, last=5)):
        assert entries[:-1] == [before, second]
        what = "entries in its batch: 1 instead of 0"
        assert (entries[-1].id, entries[-1].damage) == (name, what)
    after = say(log, ANA, HumanMessage("after", id="m1"))
    assert log.entries(ANA)[-1] == after
    assert log.find(ANA, ["m1"]) == [after]
    assert [info.entries for info in log.threads("ana") if info.key == ANA] == [2]
    assert name in [entry.id for entry in log.changes(ANA.owner).entries]
    assert not other or log.entries(ANAS_OTHER) == [other]
    assert log.forget(ANA, [name]).entries == 1
    assert log.entries(ANA) == [before, second, after]
    assert [info.entries for info in log.threads("ana") if info.key == ANA] == [3]
    assert verify_log(log).ok


def test_each_batch_that_is_missing_is_counted(log, client):
    for number in range(12):
        say(log, (ANA, ANAS_OTHER)[number % 2], f"{number}")
    log.forget(ANA, [log.entries(ANA)[1].id])
    say(log, BO, "whole")
    say(log, LONE, "whole")
    assert verify_log(log).ok
    heads = sorted(key for key, item in items(log, client).items() if item.get("user_id") == USER)
    for key in (heads[0], heads[3], heads[4]):
        delete_item(log, client, key)
    report = verify_log(log)
    assert (report.missing, report.damaged) == (3, ())
    assert report.problems == ("user 'ana': 3 of 12 batches missing",)
    assert not report.ok


@pytest.mark.parametrize(
    "damage",
    [
        {"value": {"S": "[2]"}},
        {"version": {"S": "5"}},
        {"value": {"N": "7"}},
        {"checksum": {"S": "x"}},
    ],
)
def test_a_damaged_document_is_an_error_and_a_damaged_cache_is_none(log, client, damage):
    for name in ("note", "cache:note"):
        log.set_state(ANA, name, ["secret"], expected=None)
    for item in items(log, client).values():
        client.put_item(TableName=log.table_name, Item={**item, **damage})
    with pytest.raises(LogError, match="'note' of thread 't1' is damaged") as caught:
        log.get_state(ANA, "note")
    assert "secret" not in str(caught.value)
    assert log.get_state(ANA, "cache:note") is None
    assert log.set_state(ANA, "note", [3], expected=None) is None
    written = log.set_state(ANA, "cache:note", [3], expected=None)
    assert log.get_state(ANA, "cache:note") == written
    assert log.set_state(ANA, "cache:note", [4], expected=None) is None
    log.delete_state(ANA, "note")
    assert log.get_state(ANA, "note") is None


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
