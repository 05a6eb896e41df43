"""The benchmark of versions side by side, in miniature."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.beside import main

OURS = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(600)
def test_versions_do_the_same_work_and_are_compared_with_the_first(capsys):
    main([f"{OURS}={sys.executable}"] * 2 + ["--quick", "--rounds", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)["operations"]
    assert rows.keys() == {
        "turn 5, no recall",
        "turn 5, recall",
        "turn 20, no recall",
        "turn 20, recall",
        "recall",
        "first recall",
        "append",
        "last 20",
        "whole thread",
        "whole thread again",
        "all lines",
    }
    for row in rows.values():
        first, second = row["ms"]
        assert first > 0
        assert second > 0
        assert row["ratio"][0] == 1.0
        assert row["ratio"][1] == pytest.approx(second / first, rel=0.1)


def test_a_version_is_a_checkout_with_its_interpreter(capsys, tmp_path):
    for words in ([], [str(OURS)], [f"{tmp_path}={sys.executable}"]):
        with pytest.raises(SystemExit):
            main(words)
    assert f"not CHECKOUT=PYTHON: {OURS}" in capsys.readouterr().err
