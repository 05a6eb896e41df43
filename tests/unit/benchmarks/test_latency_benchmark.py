from __future__ import annotations

import json
from contextlib import closing

from langchain_core.messages import AIMessage, HumanMessage

SHORT = ["--turns", "19", "--lines", "60"]


def test_the_report_is_one_json_object_and_only_the_ratio_is_the_exit_code(capsys):
    from benchmarks.latency import main

    code = main([*SHORT, "--json"])
    report = json.loads(capsys.readouterr().out)
    ratio, aim = report["bars"]
    assert (ratio["bound"], ratio["decides"]) == (1.3, True)
    assert (aim["bound"], aim["decides"]) == (8.0, False)
    assert code == int(not ratio["ok"])
    assert [row["turns"] for row in report["turns"]] == [[11, 13], [14, 16], [17, 19]]
    for row in report["turns"]:
        assert set(row["added_ms"]) == {"convmem", "message-history"}
        assert all(0 <= one["p50"] <= one["p95"] for one in row["added_ms"].values())
    assert report["lines_before"] == 60


def test_stretches_are_the_first_the_middle_and_the_last_hundred_turns():
    from benchmarks.latency import list_stretches

    spans = [(one.turns[0], one.turns[-1]) for one in list_stretches(2000)]
    assert spans == [(11, 110), (956, 1055), (1901, 2000)]


def test_both_memories_have_the_whole_thread_wherever_a_stretch_begins(tmp_path):
    from benchmarks.latency import measure
    from benchmarks.sql_history import HistoryFile
    from langchain_convmem import ConversationMemory

    found = measure(22, 20, tmp_path)
    assert [set(one.times) for one in found] == [{"bare", "convmem", "message-history"}] * 3
    with (
        ConversationMemory.open(tmp_path / "memory2.db") as memory,
        closing(HistoryFile(tmp_path / "history2.db")) as file,
    ):
        ours = memory.history("long", user_id="ana").messages
        theirs = file.history("long").messages
        assert [one.text for one in ours] == [one.text for one in theirs]
        assert [type(one) for one in ours] == [HumanMessage, AIMessage] * 22
        assert len(memory.threads(user_id="ana")) == 2
