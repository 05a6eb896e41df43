from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TINY = ["--sizes", "40", "--rounds", "2", "--processes", "1"]
OPTIONAL = ("chromadb", "qdrant_client")


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for module in OPTIONAL:
        monkeypatch.setitem(sys.modules, module, None)


def test_the_report_is_one_json_object_that_counts_what_is_not_installed(capsys):
    from benchmarks.recall_speed.__main__ import main, make_table

    assert main([*TINY, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    [found] = report["sizes"]
    assert found["lines"] == 40
    assert found["not_installed"] == ["chroma", "qdrant"]
    rows = found["systems"]
    assert set(rows) == {"convmem", "python", "in-memory", "numpy"}
    assert all(row["p50"] > 0 and row["add"] > 0 for row in rows.values())
    assert rows["numpy"]["to_numpy"] == 1.0
    assert found["cold_ms"] > 0
    assert report["bars"] == []
    lines = make_table(report)
    assert [line.split()[0] for line in lines if "not installed" in line] == ["chroma:", "qdrant:"]


def test_every_line_added_to_our_index_is_found_by_the_next_question(tmp_path):
    from benchmarks.recall_speed.systems import ConvMem

    ours = ConvMem(tmp_path / "log.db")
    texts = ours.fill(45)
    assert len(texts) == 45
    ours.add("The zebra hid behind the xylophone.")()
    found = ours.ask("Where did the zebra hide?")
    ours.close()
    assert found.matches[0].line.text == "The zebra hid behind the xylophone."


def test_what_other_systems_search_are_the_very_vectors_of_the_lines():
    from benchmarks.recall_speed.systems import NumPyScan, Replayed

    class Embedder(Replayed):
        def embed_query(self, text):
            return {"near": [1.0, 0.1], "new": [0.0, 2.0]}[text]

    embeddings = Embedder({"east": [3.0, 0.0], "north": [0.0, 1.0]})
    assert embeddings.embed_documents(["east", "new"]) == [[3.0, 0.0], [0.0, 2.0]]
    scan = NumPyScan(["north", "east"] * 20, embeddings)
    scan.prepare("near")
    assert set(scan.ask("near").tolist()) == set(range(1, 40, 2))
