import json
import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

FEW = ["failing-log-answer", "broken-stream", "checkpoint-resume"]
SOME = ["convmem", "convmem-agent", "message-history", "checkpointer"]
WAYS = ["tool-loop-of-caller", "calls-without-end", "calls-broken-off", "structured-output"]
PAGES = ["whole-chat-sent", "whole-chat-with-ids", "broken-stream", "cancelled-task"]
SUMMARIES = ["pending-question", "empty-summary", "messages-meanwhile", "instructions"]


def _report(capsys, scenarios, *systems):
    from benchmarks.loss.__main__ import main

    code = main(["--only", *scenarios, "--system", *systems, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_what_is_missing_or_there_twice_is_named():
    from benchmarks.loss.judging import Happened, judge_chat

    messages = [HumanMessage("Q1"), AIMessage("A1"), AIMessage("A1")]
    found = judge_chat(Happened(["Q1", "A1", "Q2"], swallowed=1), messages)
    assert found == {"lost": ["Q2"], "doubled": ["A1"], "swallowed": 1}


def test_what_a_summary_loses_or_invents_is_counted():
    from benchmarks.loss.judging import KINDS, Talk, judge_summary

    asked, result = HumanMessage("m003 and now?"), ToolMessage("x", tool_call_id="a")
    earlier = [HumanMessage("m001 one"), AIMessage("m002 two")]
    noted, invented = SystemMessage("noted m001"), SystemMessage("too long to tell")
    for got, wrong in (
        ([noted, asked], {"lost": 1}),
        ([noted, *earlier], {"lost": 1, "question": 1}),
        ([invented, *earlier, asked], {"invented": 1}),
        ([*earlier, *earlier, asked], {"doubled": 2}),
        ([*earlier, result, asked], {"orphaned": 1}),
    ):
        said = [*earlier, *([result] if "orphaned" in wrong else []), asked]
        talk = Talk(said=said, got=got, written=["noted m001"], read={"m001"})
        found = judge_summary(talk)
        assert {kind: found[kind] for kind in KINDS["summaries"] if kind in found} == wrong


def test_the_report_says_for_every_scenario_what_each_system_lost(capsys):
    code, report = _report(capsys, FEW, *SOME)
    assert (code, "summaries" in report) == (0, False)
    found = report["chats"]["scenarios"]
    assert found["failing-log-answer"] == {
        **{name: {} for name in SOME},
        "message-history": {"lost": ["Q2", "A2"], "swallowed": 1},
    }
    assert found["broken-stream"]["convmem"] == {}
    assert found["broken-stream"]["message-history"] == {"lost": ["Q2", "A2"]}
    assert found["broken-stream"]["checkpointer"] == {"lost": ["A2"]}
    resumed = found["checkpoint-resume"]
    unsupported = [name for name, one in resumed.items() if "unsupported" in one]
    assert unsupported == ["convmem", "message-history"]
    assert resumed["convmem-agent"] == resumed["checkpointer"] == {}
    totals = report["chats"]["totals"]["convmem"]
    assert totals["clean"] == totals["tried"] == 2
    assert [bar["ok"] for bar in report["bars"]] == [True, True]


def test_every_way_to_call_our_hosts_is_clean(capsys):
    hosts = ["convmem", "convmem-talk", "convmem-graph", "convmem-agent"]
    code, report = _report(capsys, [*WAYS, *PAGES], *hosts)
    rows = report["chats"]["scenarios"].values()
    wrong = [
        found for row in rows for found in row.values() if found and "unsupported" not in found
    ]
    assert (code, wrong) == (0, [])


def test_ours_lose_nothing_of_what_they_summarise(capsys):
    code, report = _report(capsys, SUMMARIES, "convmem", "convmem-step")
    totals = report["summaries"]["totals"]
    assert totals["convmem"]["clean"] == totals["convmem"]["tried"] == 4
    assert totals["convmem-step"]["clean"] == totals["convmem-step"]["tried"] == 3
    for name, row in report["summaries"]["scenarios"].items():
        tried = [one for one in row.values() if "unsupported" not in one]
        assert all(one["evicted"] == one["read"] > 0 for one in tried), name
    assert code == 0


def test_the_middleware_is_found_to_hide_what_it_evicts_from_its_summariser(capsys):
    scenarios = ["trimmed-evictions", "pending-question"]
    _, report = _report(capsys, scenarios, "middleware", "middleware-best")
    trimmed, pending = (report["summaries"]["scenarios"][name] for name in scenarios)
    counts = trimmed["middleware"]
    assert counts["lost"] == counts["evicted"] - counts["read"]
    assert "lost" not in trimmed["middleware-best"]
    assert pending["middleware"]["question"] == pending["middleware-best"]["question"] == 1
    assert report["bars"] == []


@pytest.mark.slow
@pytest.mark.parametrize("turns_switch_s", [0.005, 0.0001])
def test_turns_of_a_graph_at_once_take_nothing_of_each_other(tmp_path, turns_switch_s):
    from benchmarks.loss.__main__ import judge_chat_of
    from benchmarks.loss.scenarios import SCENARIOS
    from benchmarks.loss.systems import SYSTEMS

    usual = sys.getswitchinterval()
    sys.setswitchinterval(turns_switch_s)
    try:
        for number in range(40):
            (folder := tmp_path / str(number)).mkdir()
            found = judge_chat_of(SCENARIOS["batch"], SYSTEMS["convmem-graph"], folder)
            assert found.keys() <= {"misplaced"}  # a run may take both questions as its own
    finally:
        sys.setswitchinterval(usual)
