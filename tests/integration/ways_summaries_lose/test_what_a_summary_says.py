"""Texts that are no summaries, and summaries that leave something out."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from scripted_chat import ScriptedChatModel

ALLERGY = {
    "lower case": ("hi, i am allergic to penicillin, please keep that in mind", "sure, i will"),
    "Chinese": ("我对青霉素过敏。请一定记住。", "好的。我记住了。"),
    "German": ("Übrigens vertrage ich kein Penicillin, bitte merk dir das.", "Mache ich."),
    "Arabic": ("بالمناسبة عندي حساسية من البنسلين، أرجو أن تتذكر ذلك.", "حسنا، سأتذكر."),
}
NO_SUMMARY = {
    "a full stop": ".",
    "a refusal": "I'm sorry, but I can't help with that.",
    "a filtered answer": AIMessage(
        "They talked about an allergy.", response_metadata={"finish_reason": "content_filter"}
    ),
    "a refused answer": AIMessage(
        "They talked about an allergy.", response_metadata={"stop_reason": "refusal"}
    ),
    "thinking without an end": "<think>The user mentions an allergy, so I should",
}


@pytest.mark.parametrize("written", NO_SUMMARY)
@pytest.mark.parametrize("language", ALLERGY)
def test_an_allergy_stays_in_view_whatever_stands_in_for_a_summary(stored, language, written):
    _fails(stored, ALLERGY[language], NO_SUMMARY[written])


def _fails(stored, said, written):
    stored.say(*said, "ok", "ok")
    before = stored.shown
    model = ScriptedChatModel(replies=[written])
    report = stored.summarize(stored.with_summarizer(model), force=True)
    assert report.outcome == "failed"
    assert report.problem
    assert stored.shown == before
    assert stored.summaries == []


SAID_IN_FOUR_WAYS = {
    "English": (
        "The rent is 1250 euros. Come to the station on 8 May at 17:30. Petra owes me 40 euros.",
        ("1250", "17:30", "Petra", "40"),
    ),
    "lower case": (
        "the rent is 1250 euros. come to the station on 8 may at 17:30. petra owes me 40 euros.",
        ("1250", "17:30", "petra", "40"),
    ),
    "German": (
        "Die Miete ist 1250 Euro. Komm am 8. Mai um 17:30 zum Bahnhof. Petra schuldet mir 40 Euro.",
        ("1250", "17:30", "Petra", "40"),
    ),
    "Chinese": (
        "房租是1250欧元。5月8日17:30来车站。佩特拉欠我40欧元。",
        ("1250", "17:30", "佩特拉", "40"),
    ),
}


@pytest.mark.parametrize("way", SAID_IN_FOUR_WAYS)
def test_what_a_summary_leaves_out_is_told_in_any_language_and_case(thread, way):
    text, told = SAID_IN_FOUR_WAYS[way]
    first = text.split(". ")[0].split("。")[0]
    thread.say(text, "ok", "ok", "ok")
    thread.summarizer.replies = [f"{first}."]
    assert thread.summarize(force=True)
    assert [one for one in told if one not in thread.shown[0]] == []
    thread.check()
