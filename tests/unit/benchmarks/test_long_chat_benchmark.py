from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:Importing Send:DeprecationWarning")  # langmem's
SHORT = ["--turns", "40", "--facts", "2", "--sample", "10"]


def test_two_hundred_facts_differ_in_subject_answer_and_words():
    from benchmarks.long_chat.script import facts

    found = facts(200)
    assert found == facts(200)
    assert len({one.question for one in found}) == len({one.answer for one in found}) == 200
    assert len({one.kind for one in found}) >= 12
    assert sum(len(one.said) > 1 for one in found) >= 10, "some are corrected"
    assert 0 < sum(not one.by_user for one in found) < 60, "some are said by the assistant"
    assert all(
        one.answer in one.said[-1] or one.answer.lower() in one.said[-1].lower() for one in found
    )
    with pytest.raises(ValueError, match="not 5000"):
        facts(5000)


def test_the_chat_says_every_fact_once_and_asks_for_it_later():
    from benchmarks.long_chat.script import chat, facts

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
    made = json.loads(capsys.readouterr().out)
    report = made["quoting"]
    assert code == int(not all(bar["ok"] for bar in made["bars"]))
    verdicts = {bar["what"]: bar["ok"] for bar in made["bars"]}
    assert len(verdicts) == 8 + len(report["cost"]) - 1
    unsure = ("tokens", "told more")  # a chat this short costs more, and a summary holds it all
    assert [
        what for what, ok in verdicts.items() if not ok and not any(map(what.count, unsure))
    ] == []
    assert report["summaries"]["written"] >= 1
    assert report["prefixes"]["compared"] >= 30
    assert report["evicted"]["user"] + report["evicted"]["assistant"] >= report["sought"] > 0
    assert report["facts"]["convmem"]["told"] == report["facts"]["full"]["told"] == 2
