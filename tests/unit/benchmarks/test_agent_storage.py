from __future__ import annotations

import json

TINY = ["--turns", "8", "--tool-every", "2"]


def test_the_report_holds_the_files_of_every_system_after_every_mark(capsys):
    from benchmarks.agent_storage import SYSTEMS, main

    assert main([*TINY, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    rows = report["bytes"]
    assert {name: len(own) for name, own in rows.items()} == dict.fromkeys(SYSTEMS, 3)
    assert [one["log"] for one in rows["plain state"]] == [0, 0, 0]
    assert rows["convmem, turn"][2]["log"] > report["said"][2], "the log holds all that was said"
    small, whole = (rows[name][2]["checkpoints"] for name in ("convmem, turn", "convmem, all"))
    assert small < whole
    assert set(report["twice"]) == set(SYSTEMS)
    imported = report["imported"]
    assert (imported["messages"], imported["differing"]) == (24, 0)
    assert imported["shrunk"] == round(imported["checkpoints"] / imported["log"], 1)
