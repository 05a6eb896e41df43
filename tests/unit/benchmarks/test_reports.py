import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COSTS = ["--turns", "3", "12", "--lines", "60", "--measured", "2", "--kept", "4"]
CHAT = ["--turns", "40", "--facts", "2", "--sample", "10", "--style", "quoting"]

SMALL = {
    "costs.__main__": [*COSTS, "--processes", "1"],
    "service_exports": ["--count", "15"],
    "log.__main__": ["--sizes", "4", "20", "40", "--rounds", "2"],
    "long_chat.__main__": CHAT,
    "recall_speed.__main__": ["--sizes", "40", "--rounds", "2", "--processes", "1"],
    "summary_latency": ["--turns", "15", "--seconds", "0.05"],
}
PEERS = ("agents", "langgraph.checkpoint.sqlite", "chromadb", "qdrant_client", "langmem")
"""What a benchmark compares with and does without where it is not installed."""


def run(name, words, capsys):
    """Return the exit code and the report of a benchmark."""
    code = importlib.import_module(f"benchmarks.{name}").main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SMALL)
def test_a_report_is_one_json_object_and_its_bars_are_the_exit_code(name, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for module in PEERS:
        monkeypatch.setitem(sys.modules, module, None)
    code, report = run(name, SMALL[name], capsys)
    failed = [bar for bar in report.get("bars", []) if bar.get("decides", True) and not bar["ok"]]
    assert code == int(bool(failed))
    assert len(report) > 1


def test_facts_within_reach_are_counted_at_every_compaction(capsys):
    words = ["--compactions", "10", "--style", "quoting"]
    _, report = run("long_chat.__main__", words, capsys)
    points = report["quoting"]["checkpoints"]
    assert [one["compactions"] for one in points] == list(range(1, 11))
    assert all(one["in_view"] <= one["other_words"] <= 1 for one in points)
    assert points[0]["own_words"] >= 0.9


def test_recall_is_measured_beside_what_is_installed_and_names_the_rest(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for module in (*PEERS, "langchain_community", "mem0"):
        monkeypatch.setitem(sys.modules, module, None)
    said = {"session": 1, "time": "2026-01-05T12:00:00+00:00", "speaker": "User"}
    texts = ("The spare key is with Teresa.", "It rained all day in Ghent.")
    lines = [{**said, "id": str(number), "text": text} for number, text in enumerate(texts)]
    asked = {"question": "Who has the spare key?", "evidence": ["0"], "category": "1"}
    dialogue = {"conversation_id": "ana", "lines": lines, "questions": [asked]}
    (tmp_path / "ana.json").write_text(json.dumps(dialogue))
    words = ["--data", str(tmp_path), "--rounds", "1"]
    code, report = run("recall.__main__", words, capsys)
    assert code == 0
    assert {"faiss_lines", "chroma", "langmem", "mem0"} <= set(report["missing"])
    assert set(report["costs"]) == {"convmem_default", "convmem", "store"}
    [folder] = report["folders"].values()
    assert [one["evidence_recall"] for one in folder["systems"].values()] == [1.0, 1.0, 1.0]
