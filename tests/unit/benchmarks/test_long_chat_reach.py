from __future__ import annotations

import json
import re

from snowballstemmer import stemmer

FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about ahead all am an and are as at be before by can do does for from get go has have
        how i in into is it its late my of on one or our out over s should some that the their them
        then they to up was we what when where which who whose will with you your""",
    )
)


def _stems(text):
    words = re.findall(r"[^\W\d_]+", text.lower())
    return set(stemmer("english").stemWords([one for one in words if one not in FUNCTION_WORDS]))


def test_the_kinds_of_facts_are_told_by_turns():
    from benchmarks.long_chat.script import list_sayings

    found = list_sayings()
    assert found == list_sayings()
    assert [one.kind for one in found[:6]] == [one.kind for one in found[6:12]]
    assert sorted({one.kind for one in found}) == [
        "code",
        "date",
        "name",
        "preference",
        "price",
        "promise",
    ]
    assert len({one.answer for one in found}) == len({one.question for one in found}) == len(found)
    assert len({one.said[0] for one in found}) == len(found) >= 240
    assert 0 < sum(not one.by_user for one in found) < len(found) / 3
    assert all(one.answer.lower() in one.said[0].lower() for one in found)


def test_questions_other_words_share_no_word_of_weight_with_what_they_ask_for():
    from benchmarks.long_chat.script import read_data

    shared = [
        (subject, question)
        for sayings in read_data("sayings").values()
        for subject, value, question in sayings["lines"]
        if _stems(f"{subject} {value}") & _stems(question)
    ]
    assert shared == []


def test_no_question_tells_its_answer():
    from benchmarks.long_chat.script import list_sayings

    assert [
        one for one in list_sayings() if one.answer.lower() in f"{one.question} {one.plain}".lower()
    ] == []


def test_what_is_in_reach_is_measured_at_every_checkpoint(capsys):
    from benchmarks.long_chat.__main__ import main

    code = main(["--compactions", "10", "--style", "quoting", "--json"])
    made = json.loads(capsys.readouterr().out)
    report = made["quoting"]
    assert code == int(not all(bar["ok"] for bar in made["bars"]))
    assert [one["compactions"] for one in report["checkpoints"]] == list(range(1, 11))
    last = report["checkpoints"][-1]
    assert last["asked"] == sum(one["asked"] for one in report["kinds"].values()) >= 12
    for one in report["checkpoints"]:
        assert one["in_view"] <= one["other_words"] <= 1
        assert one["in_view"] <= one["own_words"] <= 1
    assert report["checkpoints"][0]["own_words"] >= 0.9
    assert set(report["kinds"]) == {"code", "date", "name", "preference", "price", "promise"}
