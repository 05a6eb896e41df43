"""Who has entries in a table, and what `forget` leaves of them."""

from __future__ import annotations

import pytest
from dynamodb_servers import delete_item, items, kinds
from langchain_core.messages import HumanMessage

from langchain_convmem.cli import main
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.verify import verify_log
from langchain_convmem.records import ThreadKey
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
    left = {key: item for key, item in items(log, client).items() if "user_id" not in item}
    for told in ("secret", "ana", "t1"):
        assert told not in str(left)
    assert all(
        set(item) <= {"pk", "sk", "write_token", "mark_checksum", "generation"}
        for item in left.values()
    )
    assert kinds(log, client) == ["E"] * 5, (
        "a mark for each batch and one more, the generation, and Bo's"
    )
    assert log.entries(BO) == [other]
    assert verify_log(log).ok
    assert log.changes(ANA.owner).entries == ()


def test_forgetting_finds_the_pieces_of_a_write_that_broke_off(log, client):
    say(log, ANA, "secret" * 100_000)
    delete_item(log, client, max(key for key in items(log, client) if key[1].startswith("E#")))
    log.forget(ANAS_OTHER)
    assert kinds(log, client).count("P") == 7, "they belong to another thread"
    log.forget(ANA)
    assert kinds(log, client).count("P") == 0
