"""Summaries that are no summaries, that say something else, and that leave something out."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from scripted_chat import ScriptedChatModel
from summaries import ScriptedSummarizer

from langchain_convmem import SummarySettings

ALLERGY = {
    "lower case": ("hi, i am allergic to penicillin, please keep that in mind", "sure, i will"),
    "Chinese": ("我对青霉素过敏。请一定记住。", "好的。我记住了。"),
    "German": ("Übrigens vertrage ich kein Penicillin, bitte merk dir das.", "Mache ich."),
    "Arabic": ("بالمناسبة عندي حساسية من البنسلين، أرجو أن تتذكر ذلك.", "حسنا، سأتذكر."),
}
PENICILLIN = {
    "lower case": "i am allergic to penicillin",
    "Chinese": "我对青霉素过敏",
    "German": "vertrage ich kein Penicillin",
    "Arabic": "عندي حساسية من البنسلين",
}
NO_SUMMARY = {
    "a full stop": ".",
    "OK": "OK.",
    "a refusal": "I'm sorry, I can't help with that.",
    "a filtered answer": AIMessage(
        "They talked about an allergy.", response_metadata={"finish_reason": "content_filter"}
    ),
    "a refused answer": AIMessage(
        "They talked about an allergy.", response_metadata={"stop_reason": "refusal"}
    ),
    "thinking without an end": "<think>The user mentions an allergy, so I should",
}
OTHER_SUBJECTS = {
    "lower case": "the committee discussed the budget of the harbour and adjourned until spring",
    "Chinese": "委员会讨论了港口的预算然后休会到春天。",
    "German": "Der Ausschuss beriet über den Haushalt des Hafens und vertagte sich aufs Frühjahr.",
    "Arabic": "ناقشت اللجنة ميزانية الميناء ثم تأجل الاجتماع إلى الربيع.",
}


@pytest.mark.parametrize("written", NO_SUMMARY)
@pytest.mark.parametrize("language", ALLERGY)
def test_an_allergy_stays_in_view_whatever_stands_in_for_a_summary(stored, language, written):
    _fails(stored, ALLERGY[language], NO_SUMMARY[written])


@pytest.mark.parametrize("language", ALLERGY)
def test_an_allergy_stays_in_view_where_the_summary_tells_of_something_else(stored, language):
    said = ALLERGY[language]
    stored.say(*said, "ok", "ok")
    model = ScriptedChatModel(replies=[OTHER_SUBJECTS[language]])
    report = stored.summarize(stored.with_summarizer(model), force=True)
    # Either nothing is written, or what was said, word for word, in the place of the text.
    assert report.outcome == "failed" or (report.in_text, report.invented) == (0, 1)
    told = "\n".join(message.text for message in stored.history.messages)
    assert PENICILLIN[language] in told
    assert OTHER_SUBJECTS[language] not in told


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


def test_a_promise_is_not_told_by_another_one_in_the_same_words(thread):
    thread.say(
        "I promised Clara to send the deeds to the notary on Monday.",
        "Noted.",
        "I promised Boris to send the deeds to the notary on Friday.",
        "Noted.",
    )
    thread.summarizer.replies = [
        "The user promised Clara to send the deeds to the notary on Monday."
    ]
    assert thread.summarize(force=True)
    assert "Boris" in thread.shown[0]
    assert "Friday" in thread.shown[0]


SAID = (
    "Mind the dose, 20 mg of the blue pill in the morning. Anna owes Boris 300 euros. "
    "I do not eat fish. The train leaves at 6 am. We decided to buy the house in Kiel. "
    "The rent is 950 euros and the deposit 1900 euros."
)
CORRUPTIONS = {
    "another unit": ("20 mg", "20 g"),
    "another currency": ("Anna owes Boris 300 euros", "Anna owes Boris 300 dollars"),
    "who owes whom": ("Anna owes Boris", "Boris owes Anna"),
    "a negation lost": ("I do not eat fish", "I eat fish"),
    "another half of the day": ("6 am", "6 pm"),
    "a decision reversed": ("decided to buy", "decided not to buy"),
    "amounts exchanged": (
        "The rent is 950 euros and the deposit 1900 euros",
        "The rent is 1900 euros and the deposit 950 euros",
    ),
}


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_what_a_summary_says_wrongly_is_not_believed(thread, kind):
    right, wrong = CORRUPTIONS[kind]
    assert right in SAID
    thread.say(SAID, "Noted.", "ok", "ok")
    thread.summarizer.replies = [SAID.replace(right, wrong)]
    thread.summarize(force=True)
    shown = "\n".join(thread.shown)
    assert wrong not in shown
    assert right in shown


def test_what_nobody_said_is_not_believed(thread):
    thread.say(SAID, "Noted.", "ok", "ok")
    invented = "Dora lent them 7000 euros for the kitchen."
    thread.summarizer.replies = [f"{SAID} {invented}"]
    thread.summarize(force=True)
    shown = "\n".join(thread.shown)
    assert "7000" not in shown
    assert "20 mg" in shown


PARAPHRASES = {
    "a number in words": ("Please bring 2 chairs for Petra.", "Petra needs two chairs."),
    "the other clock": ("Meet Petra at 5 pm in Kiel.", "Meeting with Petra in Kiel at 17:00."),
    "thousands in short": ("The boat costs 10,000 euros.", "The boat costs 10k euros."),
    "spaces in an IBAN": (
        "Pay to DE89 3704 0044 0532 0130 00, please.",
        "Payment goes to DE89370400440532013000.",
    ),
}


@pytest.mark.parametrize("kind", PARAPHRASES)
def test_a_correct_paraphrase_costs_no_second_call(thread, kind):
    said, told = PARAPHRASES[kind]
    thread.say(said, "Noted.", "ok", "ok")
    summarizer = ScriptedSummarizer(told)
    settings = SummarySettings(trigger=("messages", 6), keep=("messages", 2), retries=1)
    memory = thread.with_summarizer(summarizer, summary_settings=settings)
    report = thread.summarize(memory, force=True)
    assert report
    assert len(summarizer.requests) == 1
    assert report.lost == ()
    assert thread.shown[0].startswith(told)
