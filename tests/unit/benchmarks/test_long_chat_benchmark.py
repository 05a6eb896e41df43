from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:Importing Send:DeprecationWarning")  # langmem's
SHORT = ["--turns", "40", "--facts", "2", "--sample", "10"]


def test_the_chat_says_every_fact_once_and_asks_for_it_later():
    from benchmarks.long_chat.chat import chat
    from benchmarks.long_chat.facts import facts

    turns = list(chat(400, 40))
    assert turns == list(chat(400, 40))
    assert [one.number for one in turns] == list(range(1, 401))
    asked = {one.asks: one.number for one in turns[-40:]}
    assert set(asked) == set(facts(40))
    earlier = {one.asks: one.number for one in turns[:-40] if one.asks is not None}
    assert earlier
    for fact in facts(40):
        said = [
            one.number
            for one in turns
            for sentence in fact.said
            if sentence in (one.user if fact.by_user else one.answer)
        ]
        assert len(said) == len(fact.said)
        assert max(said) < earlier.get(fact, asked[fact])
    assert {len(one.calls) for one in turns} == {0, 1, 2}


def test_the_report_is_one_json_object_with_a_verdict_for_every_bar(capsys):
    from benchmarks.long_chat.__main__ import main

    code = main([*SHORT, "--style", "quoting", "--json"])
    report = json.loads(capsys.readouterr().out)["quoting"]
    assert code == int(not all(bar["ok"] for bar in report["bars"]))
    verdicts = {bar["what"]: bar["ok"] for bar in report["bars"]}
    assert len(verdicts) == 8 + len(report["cost"]) - 1
    unsure = ("tokens", "told more")  # a chat this short costs more, and a summary holds it all
    assert [
        what for what, ok in verdicts.items() if not ok and not any(map(what.count, unsure))
    ] == []
    assert report["summaries"]["written"] >= 1
    assert report["prefixes"]["compared"] >= 30
    assert report["evicted"]["user"] + report["evicted"]["assistant"] >= report["sought"] > 0
    assert report["facts"]["convmem"]["told"] == report["facts"]["full"]["told"] == 2
