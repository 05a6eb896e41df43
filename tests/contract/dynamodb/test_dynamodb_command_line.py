"""What `--db` names may be an address, to every command that reads or writes conversations."""

from __future__ import annotations

import json

import pytest

from langchain_convmem.cli import main

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
    assert run("embedder", "--json")["user_id"] == "me"
    assert run("reindex", "--json")["problems"] == []
    assert run("export", "--out", str(out), "--json") == {"path": str(out), "entries": 1}
    assert run("forget", "--thread", "bike", "--yes", "--json")["entries"] == 1
    assert run("threads", "--json") == []
    for words in (["verify"], ["backup", str(tmp_path / "copy.db")]):
        run(*words, code=1)
