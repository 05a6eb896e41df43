from __future__ import annotations

import json


def test_the_report_has_every_system_and_the_ratio_is_the_exit_code(capsys):
    from benchmarks.summary_latency import main

    code = main(["--turns", "15", "--seconds", "0.05", "--json"])
    report = json.loads(capsys.readouterr().out)
    systems = report["systems"]
    assert list(systems) == ["without", "background", "foreground"]
    assert [one["turns"] for one in systems.values()] == [15, 15, 3]
    assert systems["without"]["summaries"] == 0
    assert systems["background"]["summaries"] >= 1
    [bar] = report["bars"]
    assert code == int(not bar["ok"])
