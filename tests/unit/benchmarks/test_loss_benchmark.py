from __future__ import annotations

import json
import sys

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

FEW = ["--only", "failing-log-answer", "broken-stream", "checkpoint-resume"]
SOME = ["convmem", "convmem-talk", "convmem-agent", "message-history", "checkpointer"]


def _call(number):
    call = {"name": "look", "args": {}, "id": f"call{number}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


def _wrong(expected, messages, **happened):
    from benchmarks.loss.judging import Happened, judge_chat

    return judge_chat(Happened(expected, **happened), messages)


# -- judging --------------------------------------------------------------------------------------


def test_what_is_as_it_happened_is_clean():
    messages = [
        HumanMessage("Q1: well?"),
        _call(1),
        ToolMessage("a bicycle", tool_call_id="call1"),
        AIMessage("A1, so far."),
        HumanMessage("Q2\n\nQ3"),
        AIMessage("A3."),
    ]
    assert _wrong(["Q1", "A1", "Q2", "Q3", "A3"], messages, shown={"A1": "A1, so"}) == {}


def test_what_is_missing_or_there_twice_is_named():
    messages = [HumanMessage("Q1"), AIMessage("A1"), AIMessage("A1")]
    found = _wrong(["Q1", "A1", "Q2"], messages, swallowed=1)
    assert found == {"lost": ["Q2"], "doubled": ["A1"], "swallowed": 1}


def test_an_answer_that_is_shorter_than_what_was_shown_is_lost():
    messages = [HumanMessage("Q1"), AIMessage("A1, as")]
    assert _wrong(["Q1", "A1"], messages, shown={"A1": "A1, as far"}) == {"lost": ["A1"]}


def test_an_answer_behind_another_question_is_misplaced():
    messages = [HumanMessage("Q1"), HumanMessage("Q2"), AIMessage("A1"), AIMessage("A2")]
    assert _wrong(["Q1", "Q2", "A1", "A2"], messages) == {"misplaced": ["A1"]}


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ([_call(1)], "call1 was called"),
        ([_call(1), HumanMessage("well?")], "call1 was called"),
        ([ToolMessage("a bicycle", tool_call_id="call2")], "result of call2"),
    ],
    ids=["no result", "no result before the next message", "no call"],
)
def test_what_a_provider_would_refuse_is_named(messages, named):
    [reason] = _wrong([], messages)["refused"]
    assert named in reason


def test_an_object_that_stands_in_a_call_was_said():
    stated = AIMessage("", tool_calls=[{"name": "Advice", "args": {"text": "A1."}, "id": "call1"}])
    messages = [HumanMessage("Q1"), stated, ToolMessage("made", tool_call_id="call1")]
    assert _wrong(["Q1", "A1"], messages) == {}


def test_of_a_failed_turn_nothing_remains_where_turns_are_all_or_nothing():
    from benchmarks.loss.judging import Happened, judge_chat

    happened = Happened(["Q1", "A1", "Q2", "A2"], {"A2": "A2, as"}, failed=["Q2", "A2"])
    kept = [HumanMessage("Q1"), AIMessage("A1")]
    assert judge_chat(happened.without_failed(), kept) == {}
    left = judge_chat(happened.without_failed(), [*kept, HumanMessage("Q2")])
    assert left == {"doubled": ["Q2"]}


# -- running --------------------------------------------------------------------------------------


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
