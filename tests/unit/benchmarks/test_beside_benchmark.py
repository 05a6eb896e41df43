"""The benchmark of two versions beside each other, in miniature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

OURS = Path(__file__).resolve().parents[3]


def test_versions_take_the_same_turns(capsys):
    from benchmarks.beside import main

    main([str(OURS), "--turns", "4", "--lines", "20", "--json"])
    report = json.loads(capsys.readouterr().out)
    ours, other = report["versions"]
    assert ours["version"] == other["version"] == OURS.name
    assert ours["p95_ms"] >= ours["p50_ms"] > 0
    assert other["ratio"] > 0
    assert report["worst"] == max(other["ratio"], other["processor_ratio"])
    assert report["ok"] is (report["worst"] <= 0.6)


@pytest.mark.parametrize("kind", ["people", "assistant"])
def test_versions_answer_the_same_questions(capsys, kind):
    from benchmarks.beside import main

    main([str(OURS), "--turns", "4", "--lines", "20", "--recall", kind, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["measured"] == f"recall, {kind}"
    assert all(row["p50_ms"] > 0 for row in report["versions"])
    assert report["ok"] is (report["worst"] <= report["bar"] == 1.2)


def test_the_table_tells_how_ours_compares():
    from benchmarks.beside import table

    rows = [
        {"version": "ours", "p50_ms": 5.0, "p95_ms": 8.0, "processor_ms": 4.0},
        {
            "version": "before",
            "p50_ms": 10.0,
            "p95_ms": 17.0,
            "processor_ms": 8.0,
            "ratio": 0.5,
            "processor_ratio": 0.51,
        },
    ]
    report = {"measured": "added per turn", "versions": rows, "worst": 0.51, "bar": 0.6, "ok": True}
    text = table(report)
    assert "0.50 / 0.51" in text
    assert text.endswith("bar: largest ratio 0.51, at most 0.6 ok")


def test_a_checkout_must_be_named():
    from benchmarks.beside import main

    with pytest.raises(SystemExit):
        main([])
