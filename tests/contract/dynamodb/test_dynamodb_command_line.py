"""What `--db` names may be an address, to every command that reads or writes conversations."""

from __future__ import annotations

import json

import pytest
from dynamodb_servers import items

from langchain_convmem.cli import main
from langchain_convmem.logs.dynamodb.items import compute_number
from langchain_convmem.testing.log_contract import ANA, say

pytestmark = pytest.mark.sockets


def test_every_command_takes_the_address_of_a_table(log, endpoint, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    address = f"dynamodb://{log.table_name}?region=eu-central-1&endpoint={endpoint}"
    monkeypatch.setenv("CONVMEM_DB", address)

    def run(*words, code=0):
        assert main(list(words)) == code
        out = capsys.readouterr().out
        return json.loads(out) if out else None

    file, out = tmp_path / "bike.jsonl", tmp_path / "out.jsonl"
    file.write_text('{"role": "user", "content": "The bicycle stands behind the bakery."}\n')
    assert run("import", str(file), "--json")["files"][0]["added"] == 1
    [block] = run("recall", "Where is the bicycle?", "--json")["blocks"]
    assert "behind the bakery" in block["text"]
    assert [row["thread_id"] for row in run("threads", "--json")] == ["bike"]
    assert run("log", "--thread", "bike", "--json")[0]["speaker"] == "User"
    assert run("reindex", "--json")["problems"] == []
    assert run("export", "--out", str(out), "--json") == {"path": str(out), "entries": 1}
    assert run("forget", "--thread", "bike", "--yes", "--json")["entries"] == 1
    assert run("threads", "--json") == []
    run("db", "backup", str(tmp_path / "copy.db"), code=1)


def test_a_table_is_verified_by_its_address(log, endpoint, monkeypatch, client, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    address = f"dynamodb://{log.table_name}?region=eu-central-1&endpoint={endpoint}"
    first = say(log, ANA, "one")
    say(log, ANA, "two")
    assert main(["db", "verify", "--db", address]) == 0
    assert capsys.readouterr().out.endswith("2 entries, 1 thread, 1 owner: no problems\n")
    item = find_item(client, log, first)
    item["rows"]["S"] += " "
    client.put_item(TableName=log.table_name, Item=item)
    assert main(["db", "verify", "--db", address, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["damaged"] == [
        {
            "user_id": "ana",
            "thread_id": "t1",
            "position": first.position,
            "entry_id": first.id,
            "what": "it does not match its checksum",
        }
    ]
    assert (report["ok"], len(report["problems"])) == (False, 1)


def find_item(client, log, entry):
    number = f"{compute_number(entry.position):012d}"
    [item] = [item for key, item in items(log, client).items() if key[1].endswith(number)]
    return item
