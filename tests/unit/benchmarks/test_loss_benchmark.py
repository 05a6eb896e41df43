import json
import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage

FEW = ["--only", "failing-log-answer", "broken-stream", "checkpoint-resume"]
SOME = ["convmem", "convmem-talk", "convmem-agent", "message-history", "checkpointer"]


def _wrong(expected, messages, **happened):
    from benchmarks.loss.judging import Happened, judge_chat

    return judge_chat(Happened(expected, **happened), messages)


def test_what_is_missing_or_there_twice_is_named():
    messages = [HumanMessage("Q1"), AIMessage("A1"), AIMessage("A1")]
    found = _wrong(["Q1", "A1", "Q2"], messages, swallowed=1)
    assert found == {"lost": ["Q2"], "doubled": ["A1"], "swallowed": 1}


def test_the_report_says_for_every_scenario_what_each_system_lost(capsys):
    from benchmarks.loss.__main__ import main

    assert main([*FEW, "--system", *SOME, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert "summaries" not in report
    found = report["chats"]["scenarios"]
    assert found["failing-log-answer"] == {
        "convmem": {},
        "convmem-talk": {},
        "convmem-agent": {},
        "message-history": {"lost": ["Q2", "A2"], "swallowed": 1},
        "checkpointer": {},
    }
    assert found["broken-stream"]["convmem"] == {}
    assert found["broken-stream"]["message-history"] == {"lost": ["Q2", "A2"]}
    assert found["broken-stream"]["checkpointer"] == {"lost": ["A2"]}
    resumed = found["checkpoint-resume"]
    assert [name for name, one in resumed.items() if "unsupported" in one] == [
        "convmem",
        "convmem-talk",
        "message-history",
    ]
    assert resumed["convmem-agent"] == resumed["checkpointer"] == {}
    totals = report["chats"]["totals"]["convmem"]
    assert totals["clean"] == totals["tried"] == 2
    assert [bar["ok"] for bar in report["bars"]] == [True, True, True]


def test_every_way_to_call_our_hosts_is_clean(capsys):
    from benchmarks.loss.__main__ import main

    ways = ["tool-loop-of-caller", "calls-without-end", "calls-broken-off", "structured-output"]
    pages = ["whole-chat-sent", "whole-chat-with-ids", "broken-stream", "cancelled-task"]
    hosts = ["convmem", "convmem-talk", "convmem-graph", "convmem-agent"]
    assert main(["--only", *ways, *pages, "--system", *hosts, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    wrong = [
        (scenario, name, found)
        for scenario, row in report["chats"]["scenarios"].items()
        for name, found in row.items()
        if found and "unsupported" not in found
    ]
    assert wrong == []


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
            folder = tmp_path / str(number)
            folder.mkdir()
            found = judge_chat_of(SCENARIOS["batch"], SYSTEMS["convmem-graph"], folder)
            assert found == {}, number
    finally:
        sys.setswitchinterval(usual)
