import json
import subprocess
import sys

from benchmarks.chaos.__main__ import DRILLS
from benchmarks.chaos.drill import compare


def test_every_drill_runs_and_finds_nothing():
    words = ["-m", "benchmarks.chaos", "--runs", "1", "--json"]
    done = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True)
    reports = {report["name"]: report for report in json.loads(done.stdout)}
    assert {name: report["findings"] for name, report in reports.items()} == {
        name: [] for name in DRILLS
    }
    assert all(report["runs"] for report in reports.values())
    assert done.returncode == 0


def test_lost_and_doubled_texts_are_found():
    assert compare(["a", "b", "b"], ["a", "b", "c"]) == ["lost 'c'", "doubled 'b'"]
    assert compare(["a", "never acknowledged"], ["a"]) == []
    assert compare(["a/0", "a/1", "b/0"], [], batch=2) == ["partial batch b"]
