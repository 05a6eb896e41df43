import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

OURS = ["--system", "convmem", "convmem-step"]
FEW = ["pending-question", "empty-summary", "messages-meanwhile", "instructions"]


def _report(capsys, *arguments):
    from benchmarks.loss.__main__ import main

    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def _wrong(said, got, written=()):
    from benchmarks.loss.judging import KINDS, Talk, judge_summary

    found = judge_summary(Talk(said=said, got=got, written=list(written), read={"m001"}))
    return {kind: count for kind, count in found.items() if kind in KINDS["summaries"]}


ASKED = HumanMessage("m003 and now?")
EARLIER = [HumanMessage("m001 one"), AIMessage("m002 two")]


@pytest.mark.parametrize(
    ("got", "found"),
    [
        ([SystemMessage("noted m001"), ASKED], {"lost": 1}),
        ([SystemMessage("noted m001"), *EARLIER], {"lost": 1, "question": 1}),
        ([SystemMessage("too long to tell"), *EARLIER, ASKED], {"invented": 1}),
        ([*EARLIER, *EARLIER, ASKED], {"doubled": 2}),
        ([*EARLIER, ToolMessage("x", tool_call_id="a"), ASKED], {"orphaned": 1}),
    ],
    ids=["a mark is gone", "no question", "a placeholder", "said twice", "a result alone"],
)
def test_what_is_wrong_is_counted(got, found):
    said = [*EARLIER, ASKED]
    if "orphaned" in found:
        said.insert(2, got[2])
    assert _wrong(said, got, ["noted m001"]) == found


def test_ours_lose_nothing_of_what_they_summarise(capsys):
    code, report = _report(capsys, "--only", *FEW, *OURS)
    totals = report["summaries"]["totals"]
    assert totals["convmem"]["clean"] == totals["convmem"]["tried"] == 4
    assert totals["convmem-step"]["clean"] == totals["convmem-step"]["tried"] == 3
    for name, row in report["summaries"]["scenarios"].items():
        tried = [one for one in row.values() if "unsupported" not in one]
        assert all(one["evicted"] == one["read"] > 0 for one in tried), name
    assert code == 0


def test_the_middleware_is_found_to_hide_what_it_evicts_from_its_summariser(capsys):
    only = ["--only", "trimmed-evictions", "pending-question"]
    _, report = _report(capsys, *only, "--system", "middleware", "middleware-best")
    found = report["summaries"]["scenarios"]
    trimmed, pending = found["trimmed-evictions"], found["pending-question"]
    assert trimmed["middleware"]["lost"] == (
        trimmed["middleware"]["evicted"] - trimmed["middleware"]["read"]
    )
    assert "lost" not in trimmed["middleware-best"]
    assert pending["middleware"]["question"] == pending["middleware-best"]["question"] == 1
    assert report["bars"] == []
