"""Who has entries in a table, and copying everybody's."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.cli import main
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.dynamodb.client import Table
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.testing.log_contract import ANA, LONE, list_texts, say, say_all

pytestmark = pytest.mark.sockets
LONG = "long é🦊 " * 83
"""An id as long as one may be."""


def test_owners_of_long_ids_are_listed(log):
    keys = [ThreadKey(LONG, LONG), ThreadKey(None, LONG), ThreadKey(LONG[:-1], "t1"), ANA, LONE]
    entries = [say(log, key, "Hi") for key in keys]
    assert set(log.owners()) == {key.owner for key in keys}
    assert len(log.owners()) == len(keys)
    log.annotate(keys[0], entries[0].id, attributes=["seen"])  # writes the batch anew
    say_all(log, keys[2], ["x" * 300_000, HumanMessage("y", id="m1")])  # in pieces
    assert set(log.owners()) == {key.owner for key in keys}
    log.forget(keys[0].owner)
    log.forget(LONE)
    assert set(log.owners()) == {key.owner for key in (keys[1], keys[2], ANA)}


def test_everybody_is_listed_over_many_pages(log, monkeypatch):
    for number in range(30):
        say(log, ThreadKey(f"user {number}", "t1"), "Hi")
    call = Table.call

    def small_pages(self, operation, where="", **parameters):
        limit = {"Limit": 4} if operation == "scan" else {}
        return call(self, operation, where, **parameters, **limit)

    monkeypatch.setattr(Table, "call", small_pages)
    assert set(log.owners()) == {Owner(user_id=f"user {number}") for number in range(30)}


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
