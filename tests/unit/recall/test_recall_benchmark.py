from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.recall.data import load_dialogues
from benchmarks.recall.measuring import figures, interval, measure
from benchmarks.recall.report import table
from benchmarks.recall.running import main
from benchmarks.recall.systems import Recaller, chunks, recall_of
from langchain_convmem.recall import EmbeddedEmbeddings

ROOT = Path(__file__).parents[3]
DATA = ROOT / "benchmarks" / "data" / "long_replies"
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
    assert list(report["systems"])[:7] == [
        "convmem",
        "spec",
        "chunks_dense",
        "chunks_bm25",
        "chunks_hybrid",
        "lines_bm25",
        "lines_rrf",
    ]
    for row in report["systems"].values():
        assert list(row) == [
            "evidence_recall",
            "full_evidence",
            "recall_at_20",
            "mean_tokens",
            "p50_ms",
            "p95_ms",
            "by_category",
            "interval_95",
        ]
        assert 0 < row["mean_tokens"] <= 60
    ours = report["systems"]["convmem"]
    assert ours["evidence_recall"] == ours["full_evidence"] == 1.0
    assert ours["by_category"] == {"1": 1.0, "4": 1.0}


def test_the_studies_stand_in_the_same_report(tmp_path, capsys):
    for name in ("tiny", "second"):
        value = json.dumps({**DIALOGUE, "conversation_id": name})
        (tmp_path / f"{name}.json").write_text(value)
    off_topic = tmp_path / "off_topic.txt"
    off_topic.write_text('{"questions": ["What did {speaker} say about caesium?"]}')
    studies = ["--ablation", "--cross-validate", "--off-topic", str(off_topic)]
    assert main(["--data", str(tmp_path), "--max-tokens", "60", *studies, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    parts = report["ablation"]["parts"]
    assert list(parts)[:3] == ["dense", "lexical", "smoothing"]
    assert all(set(row) == {"alone", "left_out"} for row in parts.values())
    assert set(report["cross_validation"]["left_out"]) == {"tiny", "second"}
    assert (report["off_topic"]["questions"], report["off_topic"]["injected"]) == (2, 0.0)
    printed = table(report)
    assert "session prior" in printed
    assert "all, cross-validated" in printed


def test_an_interval_is_the_same_every_time_and_holds_the_mean():
    values = [0.0, 1.0, 1.0, 0.5] * 20
    low, high = interval(values)
    assert [low, high] == interval(values)
    assert 0 < low < 0.625 < high < 1


def test_dialogues_of_one_user_are_searched_together_each_a_thread(tmp_path):
    for name in ("a", "b"):
        lines = [{**line, "id": f"{name}-{line['id']}"} for line in DIALOGUE["lines"][:4]]
        value = {"user": "nora", "lines": lines, "questions": DIALOGUE["questions"][2:]}
        evidence = [{"line": f"{name}-L2", "part": "floor three"}]
        value["questions"] = [{"question": "Which floor?", "evidence": evidence, "category": 1}]
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    [dialogue] = load_dialogues(tmp_path)
    assert (dialogue.name, len(dialogue.lines), len(dialogue.questions)) == ("nora", 8, 2)
    assert {line.thread for line in dialogue.lines.values()} == {"a", "b"}


def test_a_chunk_holds_at_most_a_thousand_characters_and_loses_none():
    [dialogue] = load_dialogues(DATA)
    lines = list(dialogue.lines.values())
    packed = chunks(lines)
    assert max(len("\n".join(line.labelled for line in chunk)) for chunk in packed) <= 1000
    said = "".join(line.text for chunk in packed for line in chunk)
    assert "".join(said.split()) == "".join("".join(line.text for line in lines).split())


def test_evidence_in_long_replies_comes_back_within_a_thousand_tokens():
    [dialogue] = load_dialogues(DATA)
    assert len(dialogue.questions) == 100
    warm = recall_of(dialogue, EmbeddedEmbeddings())
    found = figures(measure(Recaller(warm), dialogue, 1000))
    assert found["evidence_recall"] >= 0.85
    assert found["mean_tokens"] <= 1000


def _without_lines():
    return {key: part for key, part in DIALOGUE.items() if key != "lines"}


def _asking_for(part):
    question = {"question": "?", "evidence": [{"line": "L2", "part": part}], "category": 1}
    return {**DIALOGUE, "questions": [question]}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no .json file"),
        ({"a.json": "{"}, "a.json cannot be read as JSON"),
        ({"a.json": json.dumps(_without_lines())}, "'lines' is missing"),
        ({"a.json": json.dumps({**DIALOGUE, "lines": []})}, "do not exist: L2, L3"),
        ({"a.json": json.dumps({**DIALOGUE, "questions": []})}, "has a question with evidence"),
        ({"a.json": json.dumps(_asking_for("absent"))}, "exactly once: 'absent' in L2"),
        (dict.fromkeys(["a.json", "b.json"], json.dumps(DIALOGUE)), "a line id in common"),
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
