from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing

import pytest

TINY = ["--sizes", "4", "20", "40", "--rounds", "2"]


@pytest.fixture
def without_peers(monkeypatch):
    for module in ("agents", "langgraph.checkpoint.sqlite"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("without_peers")
def test_the_report_is_one_json_object_or_a_table_and_a_failed_bar_is_the_exit_code(capsys):
    from benchmarks.log.__main__ import main, make_table

    code = main([*TINY, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == int(not all(bar["ok"] for bar in report["bars"]))
    assert report["not_installed"] == ["langgraph", "openai-agents"]
    appends = {(row["system"], row["entries"]) for row in report["append_ms"]}
    assert appends == {(name, size) for name in ("floor", "convmem") for size in (4, 20, 40)}
    loads = {(row["system"], row["load"], row["state"]) for row in report["load_ms"]}
    assert loads == {
        ("floor", "last 40", "warm"),
        ("floor", "last 40", "cold"),
        ("convmem", "2,000 tokens", "warm"),
        ("convmem", "2,000 tokens", "cold"),
    }
    assert all(row["median"] > 0 for row in [*report["append_ms"], *report["load_ms"]])
    assert report["bytes"]["payload_per_entry"] > 100
    assert [bar["bound"] for bar in report["bars"]] == [2.0] * 3 + [1.5] * 3 + [150]

    assert make_table(report)[-1] == "not installed: langgraph, openai-agents"


def test_the_dialogue_is_of_the_stated_sizes_and_ends_alike_at_every_length():
    from benchmarks.log.dialogue import PERIOD, exchange

    texts = [text for n in range(PERIOD) for text in (exchange(n).question, exchange(n).answer)]
    assert min(map(len, texts)) >= 40
    assert max(map(len, texts)) <= 401
    assert (exchange(3).question, exchange(3).answer) == (
        exchange(3 + PERIOD).question,
        exchange(3 + PERIOD).answer,
    )
    assert exchange(3).reply() == exchange(3).reply()
    assert exchange(3).reply().id != exchange(3 + PERIOD).reply().id


def test_the_floor_stores_the_very_bytes_that_the_log_stores(tmp_path):
    from benchmarks.log.dialogue import exchange
    from benchmarks.log.stores import ConvMemStore, FloorStore

    stored = []
    for make in (ConvMemStore, FloorStore):
        path = tmp_path / f"{make.__name__}.db"
        with closing(make(path)) as store:
            store.fill("main", 5)
            store.turn("main", exchange(5))()
        with closing(sqlite3.connect(path)) as db:
            columns = "role, body, metadata, length(id), length(turn), typeof(key_hash)"
            stored.append(db.execute(f"SELECT {columns} FROM entries ORDER BY place").fetchall())
    assert len(stored[0]) == 12
    assert stored[0] == stored[1]


def test_a_quotient_is_taken_of_the_rounds_that_both_ran():
    from benchmarks.rounds import Case, quotient

    slow, fast = Case(lambda _: []), Case(lambda _: [])
    slow.rounds_ms, fast.rounds_ms = [2.0, 9.0, 8.0, 100.0], [1.0, 3.0, 4.0]
    assert quotient(slow, fast) == 2.0
