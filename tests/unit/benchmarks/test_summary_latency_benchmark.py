from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


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


def test_the_table_has_a_row_for_every_system():
    from benchmarks.summary_latency import SYSTEMS, reported, table

    columns = ("turns", "p50_ms", "max_ms", "waits", "under_way", "summaries", "tokens")
    figures = {name: {**dict.fromkeys(columns, 1), "p95_ms": 10.0} for name in SYSTEMS}
    lines = table(reported(figures, 2.0)).splitlines()
    assert [line.split()[0] for line in lines[3:6]] == list(SYSTEMS)
    assert lines[-1].split()[-1] == "ok"


@pytest.mark.parametrize("wrong", [["--turns", "3"], ["--seconds", "-1"]])
def test_what_cannot_be_measured_is_refused(wrong, capsys):
    from benchmarks.summary_latency import main

    with pytest.raises(SystemExit):
        main(wrong)
    assert "--turns must be at least 10" in capsys.readouterr().err
