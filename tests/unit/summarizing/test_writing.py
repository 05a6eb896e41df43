"""From a window to its summary: all of it reaches the summariser, which is asked twice at most."""

from __future__ import annotations

import pytest
from histories import KEY, spoken
from langchain_core.messages import AIMessage, HumanMessage
from summaries import ScriptedSummarizer

from langchain_convmem import SummarySettings
from langchain_convmem.effects import run
from langchain_convmem.errors import SummaryError
from langchain_convmem.history import ConversationHistory
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.summarizing.summarizers import written_steps
from langchain_convmem.views.summaries import summary_window
from langchain_convmem.views.tokens import count_text_tokens

WIDE = SummarySettings(max_summary_tokens=2000)
FACTS = ["I met Carla.", "It costs 1200 euros.", "The code is XK-42.", "Come on 8 May.", "See Bo."]


def window(*messages):
    return summary_window(KEY, spoken(*messages, AIMessage("Noted.")))


def write(summarizer, said, settings=WIDE):
    return run(written_steps(summarizer, said, settings))


def test_a_summary_that_tells_everything_is_asked_for_once():
    summarizer = ScriptedSummarizer("They met Carla, XK-42, 1,200 euros, May 8th, and Bo.")
    written = write(summarizer, window(*FACTS))
    assert (written.calls, written.missing) == (1, ())
    assert {fact.key for fact in written.facts} == {"carla", "1200", "xk-42", "8 may", "bo"}
    assert summarizer.requests[0].missing == ()


def test_the_second_time_it_is_told_what_was_missing():
    summarizer = ScriptedSummarizer("They met Carla.", "Carla, Bo, XK-42, 1200, 8 May.")
    written = write(summarizer, window(*FACTS))
    assert (written.calls, written.missing) == (2, ())
    assert summarizer.requests[1].missing == tuple(
        f"User: {text}" for text in (FACTS[2], FACTS[3], FACTS[1], FACTS[4])
    )


def test_the_better_of_two_attempts_counts():
    summarizer = ScriptedSummarizer("Carla and Bo, 8 May.", "Only Carla.")
    written = write(summarizer, window(*FACTS))
    assert written.text == "Carla and Bo, 8 May."
    assert {fact.key for fact in written.missing} == {"1200", "xk-42"}


def test_without_retries_it_is_asked_once():
    settings = SummarySettings(retries=0)
    assert write(ScriptedSummarizer("Carla."), window(*FACTS), settings).calls == 1


@pytest.mark.parametrize("text", ["A summary of the conversation.", "N/A", "..."])
def test_a_placeholder_for_a_summary_is_refused(text):
    with pytest.raises(SummaryError, match="nothing of 5 facts"):
        write(ScriptedSummarizer(text), window(*FACTS))


def test_talk_without_facts_may_be_summarised_in_any_words():
    assert write(ScriptedSummarizer("Small talk."), window("Hi there!")).text == "Small talk."


def test_the_summary_before_must_be_told_again():
    with InMemoryLog() as log:
        history = ConversationHistory(log, "t1", user_id="ana")
        history.add_messages([HumanMessage("I met Carla."), AIMessage("Noted.")])
        history.add_summary(["They met Carla.", "- Ana: the code is XK-42."], said(history))
        history.add_messages([HumanMessage("It costs 1200 euros."), AIMessage("Fine.")])
        summarizer = ScriptedSummarizer("1200 euros.", "Carla, XK-42, 1200 euros.")
        written = write(summarizer, said(history))
    assert summarizer.requests[0].previous == "They met Carla.\n- Ana: the code is XK-42."
    assert "Carla" not in summarizer.asked
    assert {fact.key for fact in written.facts} == {"carla", "xk-42", "1200"}
    assert written.missing == ()


def said(history):
    return history.summary_window()


# -- long windows -------------------------------------------------------------------------------


def brief(request):
    """Tell the first of each line, so that parts get shorter."""
    lines = f"{request.previous}\n{request.transcript}".splitlines()
    return "\n".join(line[:16] for line in lines if line) or "Nothing."


def test_what_does_not_fit_into_one_request_is_summarised_in_parts_that_hold_all_of_it():
    texts = [f"K{number}: {'word ' * 40}" for number in range(40)]
    said = [(HumanMessage, AIMessage)[number % 2](text) for number, text in enumerate(texts)]
    summarizer = ScriptedSummarizer(brief)
    settings = SummarySettings(input_tokens=1000, retries=0)
    written = write(summarizer, window(*said), settings)
    *parts, _ = summarizer.requests
    assert written.calls == len(summarizer.requests) > 4
    assert all(count_text_tokens(request.transcript) <= 1000 for request in summarizer.requests)
    assert all(part.previous == "" for part in parts)
    assert all(summarizer.asked.count(text.strip()) == 1 for text in texts)


def test_parts_that_do_not_get_shorter_are_an_error():
    settings = SummarySettings(input_tokens=500, max_summary_tokens=2000)
    with pytest.raises(SummaryError, match="no shorter"):
        write(ScriptedSummarizer(), window(*["word " * 300] * 9), settings)


def test_a_summary_that_is_much_too_long_is_summarised_itself():
    settings = SummarySettings(max_summary_tokens=50)
    summarizer = ScriptedSummarizer("word " * 100, "Carla. " * 5)
    assert write(summarizer, window("I met Carla."), settings).text == ("Carla. " * 5).strip()
    assert summarizer.requests[1].transcript == ("word " * 100).strip()


def test_one_that_stays_too_long_is_an_error():
    settings = SummarySettings(max_summary_tokens=50)
    with pytest.raises(SummaryError, match="twice"):
        write(ScriptedSummarizer("word " * 100), window("Hi."), settings)


def test_cjk_text_is_measured_as_what_it_is():
    settings = SummarySettings(input_tokens=1000, retries=0)
    summarizer = ScriptedSummarizer(lambda _: "在北京见面。")
    write(summarizer, window(*["今天我们在北京见面。" * 30] * 20), settings)
    assert len(summarizer.requests) > 5
    assert all(count_text_tokens(request.transcript) <= 1000 for request in summarizer.requests)
