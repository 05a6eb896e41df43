from __future__ import annotations

import json

TINY = ["--turns", "8", "--tool-every", "2"]


def test_the_report_holds_the_files_of_every_system_after_every_mark(capsys):
    from benchmarks.agent_storage import SYSTEMS, main

    assert main([*TINY, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    rows = {(row["system"], row["turns"]): row for row in report["bytes"]}
    assert set(rows) == {(name, turns) for name in SYSTEMS for turns in (2, 4, 8)}
    assert all(row["total"] == row["checkpoints"] + row["log"] for row in rows.values())
    assert [rows["plain state", turns]["log"] for turns in (2, 4, 8)] == [0, 0, 0]
    assert rows["convmem, turn", 8]["log"] > report["said"]["8"], "the log holds all that was said"
    small, whole = (rows[name, 8]["checkpoints"] for name in ("convmem, turn", "convmem, all"))
    assert small < whole
    assert set(report["twice"]) == set(SYSTEMS)
    imported = report["imported"]
    assert (imported["messages"], imported["differing"]) == (24, 0)
    assert imported["shrunk"] == round(imported["checkpoints"] / imported["log"], 1)
