"""What is no summary is refused before it reaches the log; what is one passes."""

# ruff: noqa: RUF001 - letters of the languages themselves

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import ScriptedChatModel

from benchmarks.summary_gates import DATA, build_cross_language, build_good, build_refused, commit
from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.records import SummaryRequest
from langchain_convmem.summarizing.gates import clean_answer, find_fault, find_refusal_sign
from langchain_convmem.summarizing.topics import is_about

CHATS = json.loads(Path(DATA / "good.json").read_text("utf-8"))
SEEDS = json.loads(Path(DATA / "refused.json").read_text("utf-8"))
TRIP = CHATS[0]
GOOD = TRIP["summaries"][0]["text"]
REQUEST = SummaryRequest(transcript="".join(f"User: {line}\n" for line in TRIP["lines"]))


def test_the_data_are_of_the_size_that_is_measured():
    assert len(build_refused(CHATS, SEEDS)) == 1000
    assert sum(len(chat["summaries"]) for chat in CHATS) == 60
    assert sum(map(len, SEEDS.values())) >= 150


@pytest.mark.parametrize("number", range(0, 1000, 23))
def test_what_is_no_summary_is_not_committed(number):
    assert not commit(build_refused(CHATS, SEEDS)[number])


@pytest.mark.parametrize("number", range(0, 240, 7))
def test_a_good_summary_is_committed_in_any_language(number):
    assert commit(build_good(CHATS)[number])


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("number", range(10))
def test_in_another_language_what_is_known_again_is_committed_and_nothing_else(number, expected):
    assert commit(build_cross_language(expected=expected)[number]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, I can't help with that.",
        "Das kann ich leider nicht machen.",
        "抱歉，我无法帮助您。",
        "Request blocked.",
        ".",
        "Summary:",
        "[insert summary]",
        '{"name": "search", "arguments": {}}',
        "<think>The user wants",
        f"{GOOD}<|im_end|>\n<|im_start|>user\nHi",
        "Photosynthesis turns carbon dioxide and water into glucose and oxygen.",
        REQUEST.transcript,
        "Flights.",
    ],
)
def test_each_kind_of_fault_is_named(text):
    assert find_fault(clean_answer(text), REQUEST)


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (f"<think>Hm.</think>\n{GOOD}", GOOD),
        (f"Hm.</think>\n{GOOD}", GOOD),
        (f"```text\n{GOOD}\n```", GOOD),
        (f"<summary>\n{GOOD}\n</summary>", GOOD),
        (f"{GOOD}<|im_end|>", GOOD),
        ("Use `a` and ```b```.", "Use `a` and ```b```."),
    ],
)
def test_what_stands_around_a_summary_is_taken_off(answer, left):
    assert clean_answer(answer) == left


def test_a_refusal_that_is_reported_is_no_refusal():
    told = "The assistant declined to call the airline because it cannot. The user will call TAP."
    assert find_fault(told, REQUEST) == ""


@pytest.mark.parametrize("sign", SEEDS["signs"], ids=str)
def test_what_a_provider_says_of_its_answer_counts(sign):
    memory = ConversationMemory(
        InMemoryLog(),
        summarizer=ScriptedChatModel(replies=[AIMessage(**{"content": GOOD, **sign})]),
    )
    with memory:
        said = [(HumanMessage, AIMessage)[n % 2](line) for n, line in enumerate(TRIP["lines"])]
        memory.add_messages(said, thread_id="t")
        report = memory.summarize("t", force=True)
        assert report.outcome == "failed"
        assert report.problem
        assert "Mila" not in report.problem
        assert memory.history("t").last_summary is None


def test_an_answer_that_came_to_its_end_has_no_sign():
    told = {"finish_reason": "STOP", "safety_ratings": [{"blocked": False}], "prompt_feedback": {}}
    assert find_refusal_sign(AIMessage(GOOD, response_metadata=told)) == ""
    assert find_refusal_sign(AIMessage(GOOD, additional_kwargs={"refusal": None})) == ""


def test_a_second_attempt_that_is_no_summary_leaves_the_first():
    settings = SummarySettings(retries=1)
    replies = [GOOD.replace("QX7R2P", "known"), "I'm sorry, I can't help with that."]
    with ConversationMemory(
        InMemoryLog(),
        summarizer=ScriptedChatModel(replies=replies),
        summary_settings=settings,
    ) as memory:
        said = [(HumanMessage, AIMessage)[n % 2](line) for n, line in enumerate(TRIP["lines"])]
        memory.add_messages(said, thread_id="t")
        assert memory.summarize("t", force=True)
        assert "Mila" in memory.history("t").last_summary.contents[0]


def test_a_refused_summary_leaves_the_thread_at_rest_and_shown_whole():
    model = ScriptedChatModel(replies=["I'm sorry, I can't help with that."])
    settings = SummarySettings(trigger=("messages", 4), keep=("messages", 2), first_pause_s=3600)
    with ConversationMemory(InMemoryLog(), summarizer=model, summary_settings=settings) as memory:
        said = [(HumanMessage, AIMessage)[n % 2](line) for n, line in enumerate(TRIP["lines"])]
        memory.add_messages(said, thread_id="t")
        outcomes = [memory.summarize("t").outcome for _ in range(2)]
        assert outcomes == ["failed", "resting"]
        assert [one.text for one in memory.history("t").messages] == TRIP["lines"]


SMALL_TALK = SummaryRequest(
    transcript="".join(
        f"User: good morning, did you sleep well, what a lovely day number {word} it is again\n"
        for word in ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    ),
    max_tokens=100,
)


@pytest.mark.parametrize("text", ["They exchanged greetings.", "Small talk.", "闲聊问候"])
def test_of_small_talk_few_words_are_enough_and_of_facts_they_are_not(text):
    assert find_fault(text, SMALL_TALK, facts=0) == ""
    assert find_fault(text, SMALL_TALK, facts=9)
    assert find_fault(text, REQUEST, facts=9)


@pytest.mark.parametrize("text", ["OK", "Summary:", "I'm sorry, I can't help.", ".", "Done."])
def test_of_small_talk_what_is_no_summary_is_refused_as_ever(text):
    assert find_fault(text, SMALL_TALK, facts=0)


@pytest.mark.parametrize("chat", CHATS, ids=lambda chat: chat["id"])
def test_a_summary_is_about_its_chat_and_about_no_far_one(chat):
    source = "\n".join(chat["lines"])
    for summary in chat["summaries"]:
        assert is_about(summary["text"], source)
    assert not is_about("Volcanoes form where plates collide and ash cools the climate.", source)


@pytest.mark.parametrize(
    "said", ["I can't stand cilantro.", "I cannot eat nuts, and I hike a lot."]
)
def test_what_somebody_cannot_stand_is_no_refusal(said):
    asked = SummaryRequest(transcript=f"User: {said}\nAssistant: Noted, {said.lower()}")
    assert find_fault(said, asked, may_quote=True) == ""
