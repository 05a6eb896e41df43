"""Who has entries in a table, and what `forget` leaves of them."""

from __future__ import annotations

import pytest
from dynamodb_servers import items, kinds
from langchain_core.messages import HumanMessage

from langchain_convmem.cli import main
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.verify import verify_log
from langchain_convmem.records import Owner, ThreadKey
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
LONG = "long é🦊 " * 83
"""An id as long as one may be."""


def test_owners_of_long_ids_are_listed_and_kept_apart(log):
    keys = [ThreadKey(LONG, LONG), ThreadKey(None, LONG), ThreadKey(LONG[:-1], "t1"), ANA, LONE]
    entries = [say(log, key, f"of {key}") for key in keys]
    for key in keys:
        log.set_state(key, LONG, str(key), expected=None)
    assert set(log.owners()) == {key.owner for key in keys}
    assert len(log.owners()) == len(keys)
    for key in keys:
        assert list_texts(log.entries(key)) == [f"of {key}"]
        assert log.get_state(key, LONG).value == str(key)
    log.annotate(keys[0], entries[0].id, attributes=["seen"])  # writes the batch anew
    say_all(log, keys[2], ["x" * 300_000, HumanMessage("y", id="m1")])  # in pieces
    assert set(log.owners()) == {key.owner for key in keys}
    log.forget(keys[0].owner)
    log.forget(LONE)
    assert set(log.owners()) == {key.owner for key in (keys[1], keys[2], ANA)}


def test_everybody_is_listed_over_many_pages(log, client):
    for number in range(12):
        say(log, ThreadKey(f"user {number}", "t1"), "Hi")
    client.meta.events.register(
        "provide-client-params.dynamodb.Scan", lambda params, **_: params | {"Limit": 4}
    )
    assert set(log.owners()) == {Owner(user_id=f"user {number}") for number in range(12)}


def test_everybody_is_copied_out_of_a_table_and_into_it(
    log, endpoint, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    address = f"dynamodb://{log.table_name}?region=eu-central-1&endpoint={endpoint}"
    before, after = tmp_path / "before.db", tmp_path / "after.db"
    with SQLiteLog(before) as source:
        say_all(source, ANA, ["one", HumanMessage("two", id="m2")])
        say(source, LONE, "three")
    assert main(["copy", "--from", str(before), "--to", address]) == 0
    assert set(log.owners()) == {ANA.owner, LONE.owner}
    assert main(["copy", "--from", address, "--to", str(after)]) == 0
    assert (
        capsys.readouterr().out.splitlines()[1].startswith("3 entries, 2 threads, 2 users: 3 new")
    )
    with SQLiteLog(after) as target:
        assert list_texts(target.entries(ANA)) == ["one", "two"]
        assert list_texts(target.entries(LONE)) == ["three"]


@pytest.mark.parametrize("scope", [ANA, ANA.owner])
def test_nothing_of_what_is_forgotten_stays_but_marks(client, log, scope):
    say_all(log, ANA, ["secret one", HumanMessage("secret two", id="secret id")])
    say(log, ANA, "secret" * 100_000)
    other = say(log, BO, "another's")
    log.set_state(ANA, "secret", "secret", expected=None)
    assert log.forget(scope).entries == 3
    left = {key: item for key, item in items(log, client).items() if "user" not in item}
    for told in ("secret", "ana", "t1"):
        assert told not in str(left)
    assert all(set(item) <= {"pk", "sk", "token", "check", "generation"} for item in left.values())
    assert kinds(log, client) == ["E"] * 4, "a mark for each batch, the generation, and Bo's"
    assert log.entries(BO) == [other]
    assert verify_log(log).ok
    assert log.changes(ANA.owner).entries == ()


def test_forgetting_finds_the_pieces_of_a_write_that_broke_off(log, client, monkeypatch):
    say(log, ANA, "secret" * 100_000)
    [head] = [item for (_, sort), item in items(log, client).items() if sort.startswith("E#")]
    client.delete_item(TableName=log.table_name, Key={name: head[name] for name in ("pk", "sk")})
    log.forget(ANAS_OTHER)
    log.forget(ANA)
    assert kinds(log, client).count("P") == 7, "their batch may be on its way"
    later = 2**47
    monkeypatch.setattr("langchain_convmem.logs.dynamodb.log.get_now_ms", lambda: later)
    log.forget(ANAS_OTHER)
    assert kinds(log, client).count("P") == 7, "they belong to another thread"
    log.forget(ANA)
    assert kinds(log, client).count("P") == 0
