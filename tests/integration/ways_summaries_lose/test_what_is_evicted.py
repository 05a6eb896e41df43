"""What leaves the view without having been told: the question, half a tool loop, a long middle."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from scripted_chat import ScriptedChatModel, at
from summaries import ScriptedSummarizer, bare_texts

from langchain_convmem import SummarySettings
from langchain_convmem.views.tokens import count_text_tokens


def result(call_id, text="seen"):
    return ToolMessage(text, tool_call_id=call_id)


@pytest.mark.parametrize("force", [False, True])
def test_the_question_that_waits_is_never_swallowed(thread, force):
    thread.talk(4)
    thread.say("And where exactly did I park?")
    assert thread.summarize(force=force)
    assert thread.shown[-1] == "And where exactly did I park?"
    assert "And where exactly" not in thread.summarizer.asked
    thread.check()


def test_several_messages_that_wait_stay_all_of_them(thread):
    thread.talk(4)
    thread.say(HumanMessage("One."), HumanMessage("Two."), HumanMessage("Three."))
    assert thread.summarize(force=True)
    assert thread.shown[-1] == "One.\nTwo.\nThree."
    thread.check()


def test_parallel_tool_calls_are_covered_with_all_their_results_or_not_at_all(thread, call):
    for number in range(4):
        ids = [f"{kind}{number}" for kind in "abc"]
        results = [result(i, f"saw {i}") for i in reversed(ids)]
        thread.say(f"Look {number}", call(*ids), *results, AIMessage(f"Found {number}."))
        thread.summarize()
        thread.check()
    assert len(thread.summaries) > 1
    thread.check_all_was_told()
    for number in range(3):
        assert all(f"saw {kind}{number}" in thread.summarizer.asked for kind in "abc")


def test_an_open_tool_loop_stays_whole_while_what_is_before_it_is_covered(thread, call):
    thread.talk(3)
    thread.say("Look twice.", call("c1", "c2"), result("c1"))
    assert thread.summarize(force=True)
    assert "Look twice." not in thread.summarizer.asked
    thread.check()
    thread.say(result("c2"))
    thread.memory.add_messages([AIMessage("Done.")], thread_id="t", user_id="ana")
    assert thread.summarize(force=True)
    assert thread.shown[-1].endswith("Assistant: Done.")
    thread.check_all_was_told()
    thread.check()


def test_a_tool_loop_longer_than_any_budget_is_covered_only_once_it_is_over(stored, call):
    stored.talk(1)
    stored.say("Look often.")
    for number in range(30):
        stored.say(HumanMessage(""), call(f"c{number}"), result(f"c{number}", "seen " * 100))
        stored.summarize()
    stored.check()
    assert [text.count("Look often.") for text in stored.shown].count(1) == 1
    stored.memory.add_messages([AIMessage("Nothing.")], thread_id="t", user_id="ana")
    assert stored.summarize(force=True)
    stored.check_all_was_told()
    stored.check()


def test_every_evicted_entry_reaches_the_summariser_however_much_it_is(stored):
    settings = SummarySettings(
        trigger=("tokens", 3000), keep=("tokens", 100), input_tokens=500, retries=0
    )
    summarizer = ScriptedSummarizer(lambda request: " ".join(request.transcript.split()[:40]))
    memory = stored.with_summarizer(summarizer, summary_settings=settings)
    stored.summarizer = summarizer
    texts = [f"Fact {number}: {'word ' * 60}." for number in range(60)]
    stored.say(*texts)
    assert stored.summarize(memory)
    parts = [request.transcript for request in summarizer.requests]
    assert len(parts) > 8
    assert max(map(count_text_tokens, parts)) <= 500
    covered = texts[: len(texts) - len(stored.shown) + 1]
    assert len(covered) > 50
    assert all(summarizer.asked.count(text.split(":")[0] + ":") >= 1 for text in covered)
    stored.check()


def test_a_last_message_larger_than_everything_stays_and_what_is_before_it_is_told(thread):
    thread.talk(3)
    thread.say("word " * 20_000)
    assert thread.summarize()
    assert thread.shown[-1] == "word " * 20_000
    assert len(thread.shown) == 2
    thread.check_all_was_told()
    thread.check()


def test_an_oversize_message_that_was_answered_is_told_in_parts(stored):
    settings = SummarySettings(trigger=("tokens", 500), keep=("tokens", 100), input_tokens=2000)
    summarizer = ScriptedSummarizer(lambda request: request.transcript[:200])
    memory = stored.with_summarizer(summarizer, summary_settings=settings)
    words = [f"w{number}" for number in range(4000)]
    stored.say(" ".join(words), "Long.")
    assert stored.summarize(memory)
    told = set(summarizer.asked.split())
    assert set(words) <= told
    stored.check()


def test_what_is_said_while_it_is_summarised_stays_whole_behind_the_summary(thread):
    thread.talk(4)

    def interrupted(request):
        thread.say("Meanwhile?", "Yes.", "And this?")
        return "They talked. " + request.transcript

    thread.summarizer.replies = [interrupted]
    assert thread.summarize(force=True)
    assert thread.shown[1:] == ["Meanwhile?", "Yes.", "And this?"]
    assert "Meanwhile" not in thread.summarizer.asked
    thread.check()


def test_cjk_text_is_covered_at_the_marks_and_told_whole(stored):
    settings = SummarySettings(
        trigger=("tokens", 800), keep=("tokens", 200), max_summary_tokens=4000
    )
    memory = stored.with_summarizer(stored.summarizer, summary_settings=settings)
    texts = [f"我的车停在第{number}层\uff0c车牌是京A{number}8。" * 3 for number in range(24)]
    stored.say(*texts)
    assert stored.summarize(memory)
    assert 1 < len(stored.shown) < 12
    stored.check_all_was_told()
    stored.check()
    assert memory.history("t", user_id="ana").context().tokens < 4000


def test_a_chat_with_a_summariser_asks_its_model_with_the_summary_and_the_rest(thread):
    memory = thread.with_summarizer(thread.summarizer, summarize_when="foreground")
    model = ScriptedChatModel(replies=[lambda asked: f"Re: {asked[-1].text}"])
    chain = memory.wrap(model, recall=False)
    for number in range(12):
        chain.invoke(f"Message {number}", at())
        said = bare_texts(model.seen[-1])
        assert all(f"Message {before}" in "\n".join(said) for before in range(number + 1))
        assert len(said) <= 8
        thread.check()
    thread.check_all_was_told()


def test_a_system_message_stays_as_it_was_said(thread):
    rules = SystemMessage("Never name a price.")
    thread.say(rules)
    thread.talk(8)
    assert thread.summarize(force=True)
    systems = [one.text for one in thread.history.messages if one.type == "system"]
    assert rules.text in systems
    assert rules.text not in thread.summarizer.asked
    thread.check()


def test_calls_of_two_messages_are_covered_with_their_results_or_not_at_all(stored, call):
    said = [HumanMessage("compare them"), call("a"), call("b")]
    results = [ToolMessage(f"result of {name}", tool_call_id=name) for name in ("a", "b")]
    stored.talk(2)
    stored.say(*said, *results, AIMessage("They are alike."))
    for start in range(2, 8):
        stored.talk(1, start=start)
        stored.summarize()
        stored.check()
        shown = "\n".join(stored.shown)
        assert ("result of a" in shown) == ("result of b" in shown)
    stored.check_all_was_told()
    assert "result of a" not in [one.text for one in stored.history.messages]
