"""Sections and instructions of the application: what a summariser is asked, what is kept."""

from __future__ import annotations

import pytest
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.summarizing.checks import find_missing_sections
from langchain_convmem.summarizing.summarizers import SummaryRequest, build_messages
from langchain_convmem.views.messages import count_tokens

SECTIONS = ("Decisions", "Open questions")

FOUND = {
    "as asked for": "Decisions:\nTea.\nOpen questions:\nWhen?",
    "in another order": "Open questions:\nWhen?\nDecisions:\nTea.",
    "Markdown headings": "## Open questions\nWhen?\n## Decisions\nTea.",
    "bold": "**Open questions:**\nWhen?\n**Decisions**:\nTea.",
    "numbered": "2. Open questions\nWhen?\n1. Decisions\nTea.",
    "another case": "OPEN  QUESTIONS:\nWhen?\ndecisions:\nTea.",
    "before their text": "Open questions: When?\nDecisions: Tea.",
    "full-width colon": "Open questions\uff1aWhen?\nDecisions\uff1aTea.",
    "text in front": "They met.\nOpen questions:\nWhen?\nDecisions:\nTea.",
}


@pytest.mark.parametrize("case", FOUND)
def test_headings_are_found_in_any_order_and_with_the_marks_of_models(case):
    assert find_missing_sections(FOUND[case], SECTIONS) == ()


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("They met.", SECTIONS),
        ("Decisions:\nTea.", ("Open questions",)),
        ("Decisions were made. Open questions remain.", SECTIONS),
        ("Open questions: When?", ("Decisions",)),
    ],
)
def test_headings_that_are_left_out_are_named(text, missing):
    assert find_missing_sections(text, SECTIONS) == missing
    assert find_missing_sections(text, ()) == ()


# -- what a model is asked ------------------------------------------------------------------------


def test_a_request_costs_at_most_200_tokens_besides_the_transcript():
    assert count_tokens(build_messages(SummaryRequest(transcript=""))) <= 200


def test_the_applications_words_are_added_and_the_rule_about_data_stays_last():
    plain, _ = build_messages(SummaryRequest(transcript="User: Hi."))
    request = SummaryRequest(
        transcript="User: Hi.", instructions="Write {words} as a poem.", sections=SECTIONS
    )
    system, _ = build_messages(request)
    first, *_, rules = plain.text.split("\n\n")
    asked = system.text.split("\n\n")
    assert asked[0] == first
    assert asked[1] == "Write {words} as a poem."
    assert "Decisions; Open questions" in asked[2]
    assert asked[-1] == rules


@pytest.mark.parametrize(
    "given",
    [
        {"instructions": 3},
        {"instructions": None},
        {"sections": "Decisions"},
        {"sections": ["Decisions", " "]},
        {"sections": [1]},
        {"sections": None},
        {"sections": ["Decisions", "decisions:"]},
    ],
)
def test_what_is_no_instruction_or_heading_is_refused(given):
    with pytest.raises(ConfigError, match=next(iter(given))):
        SummarySettings(**given)


def test_a_summary_stays_in_its_order_and_what_it_leaves_out_is_noted():
    text = "Open questions: When?\n## Decisions\nTea."
    summarizer = ScriptedSummarizer(text)
    template = SummarySettings(
        instructions="Be brief.", sections=["Decisions", "Open questions", "Promises"]
    )
    with ConversationMemory(
        InMemoryLog(), summarizer=summarizer, summary_settings=template
    ) as memory:
        memory.add_messages([("user", "When do we meet?"), ("ai", "In May.")], thread_id="t")
        report = memory.summarize("t", force=True)
        summary = memory.history("t").last_summary
    assert summary.contents[0] == text
    assert report.missing_sections == ("Promises",)
    assert summary.metadata.aux["summary"]["missing_sections"] == ["Promises"]
    assert summarizer.requests[0].instructions == "Be brief."
    assert summarizer.requests[0].sections == ("Decisions", "Open questions", "Promises")
