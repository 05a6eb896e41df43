from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.recall import main

ROOT = Path(__file__).parents[3]
DIALOGUE = {
    "conversation_id": "tiny",
    "lines": [
        {
            "id": f"L{number}",
            "session": number // 4,
            "time": "1:56 pm on 8 May, 2023",
            "speaker": "Ana" if number % 2 else "Bo",
            "text": text,
        }
        for number, text in enumerate(
            ["Yes", "Yes, of course", "I parked on floor three", "The dog is at the vet"]
            + [f"Small talk number {n}, about nothing in particular" for n in range(40)]
        )
    ],
    "questions": [
        {"question": "Where did Bo park?", "evidence": ["L2"], "category": 4},
        {"question": "Where are dog and car?", "evidence": ["L2", "L3"], "category": 1},
        {"question": "What was never said?", "evidence": [], "category": 5},
    ],
}


def run(folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.recall", "--data", str(folder), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_report_is_one_json_object_with_every_system(tmp_path):
    (tmp_path / "tiny.json").write_text(json.dumps(DIALOGUE))
    done = run(tmp_path, "--json", "--max-tokens", "60")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["dataset"], report["questions"]) == (tmp_path.name, 2)
    assert list(report["systems"]) == ["convmem", "spec", "chunks_dense"]
    for figures in report["systems"].values():
        assert list(figures) == [
            "evidence_recall",
            "full_evidence",
            "recall_at_20",
            "mean_tokens",
            "p50_ms",
            "p95_ms",
            "by_category",
        ]
        assert 0 < figures["mean_tokens"] <= 60
    ours = report["systems"]["convmem"]
    assert ours["evidence_recall"] == ours["full_evidence"] == 1.0
    assert ours["by_category"] == {"1": 1.0, "4": 1.0}


def _without_lines():
    return {key: part for key, part in DIALOGUE.items() if key != "lines"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no .json file"),
        ({"a.json": "{"}, "a.json cannot be read as JSON"),
        ({"a.json": json.dumps(_without_lines())}, "'lines' is missing"),
        ({"a.json": json.dumps({**DIALOGUE, "lines": []})}, "do not exist: L2, L3"),
        ({"a.json": json.dumps({**DIALOGUE, "questions": []})}, "has a question with evidence"),
    ],
)
def test_a_wrong_folder_or_file_gets_one_sentence_and_exit_code_one(tmp_path, capsys, files, said):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert main(["--data", str(tmp_path), "--json"]) == 1
    printed, errors = capsys.readouterr()
    assert printed == ""
    [sentence] = errors.splitlines()
    assert said in sentence
