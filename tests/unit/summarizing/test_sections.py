"""Sections and instructions of the application: what a summariser is asked, what is kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import SummaryRequest
from langchain_convmem.summarizing.sections import arrange_sections, find_missing_sections
from langchain_convmem.summarizing.summarizers import build_messages
from langchain_convmem.views.messages import count_tokens

SECTIONS = ("Decisions", "Open questions")

ARRANGED = {
    "as asked for": ("Decisions:\nTea.\nOpen questions:\nWhen?", "Decisions:\nTea.", ()),
    "in another order": ("Open questions:\nWhen?\nDecisions:\nTea.", "Decisions:\nTea.", ()),
    "Markdown headings": ("## Open questions\nWhen?\n## Decisions\nTea.", "Decisions:\nTea.", ()),
    "bold": ("**Open questions:**\nWhen?\n**Decisions**:\nTea.", "Decisions:\nTea.", ()),
    "numbered": ("2. Open questions\nWhen?\n1. Decisions\nTea.", "Decisions:\nTea.", ()),
    "another case": ("OPEN  QUESTIONS:\nWhen?\ndecisions:\nTea.", "Decisions:\nTea.", ()),
    "before their text": ("Open questions: When?\nDecisions: Tea.", "Decisions:\nTea.", ()),
    "full-width colon": ("Open questions\uff1aWhen?\nDecisions\uff1aTea.", "Decisions:\nTea.", ()),
    "twice": (
        "Decisions:\nTea.\nOpen questions:\nWhen?\nDecisions:\nNo sugar.",
        "Decisions:\nTea.\nNo sugar.",
        (),
    ),
    "text in front": (
        "They met.\nOpen questions:\nWhen?\nDecisions:\nTea.",
        "They met.\nDecisions:\nTea.",
        (),
    ),
}


@pytest.mark.parametrize("case", ARRANGED)
def test_sections_come_in_the_order_of_the_template(case):
    text, start, missing = ARRANGED[case]
    assert arrange_sections(text, SECTIONS) == f"{start}\nOpen questions:\nWhen?"
    assert find_missing_sections(text, SECTIONS) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("They met.", SECTIONS),
        ("Decisions:\nTea.", ("Open questions",)),
        ("Decisions were made. Open questions remain.", SECTIONS),
        ("Open questions: When?", ("Decisions",)),
    ],
)
def test_headings_that_are_left_out_are_named_and_the_text_stays(text, missing):
    assert find_missing_sections(text, SECTIONS) == missing
    assert arrange_sections(text, SECTIONS).replace("\n", " ") == text.replace("\n", " ")


some_lines = st.lists(
    st.sampled_from(["", "Decisions:", "## open questions", "Tea.", "Open questions: When?", "-"])
)


@given(some_lines)
@settings(max_examples=200, deadline=None)
def test_nothing_but_headings_is_moved_dropped_or_added(lines):
    text = "\n".join(lines)
    arranged = arrange_sections(text, SECTIONS)
    assert sorted(_list_words(arranged)) == sorted(_list_words(text))
    assert arrange_sections(arranged, SECTIONS) == arranged
    assert find_missing_sections(arranged, SECTIONS) == find_missing_sections(text, SECTIONS)


def _list_words(text):
    return [word for word in text.split() if word in ("Tea.", "When?", "-")]


def test_a_template_without_sections_changes_nothing():
    assert arrange_sections("A:\n\nb", ()) == "A:\n\nb"
    assert find_missing_sections("A:\n\nb", ()) == ()


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


def test_a_summary_is_committed_in_order_and_what_it_leaves_out_is_noted():
    summarizer = ScriptedSummarizer(lambda asked: f"Open questions: When?\n{asked.transcript}")
    template = SummarySettings(
        max_summary_tokens=4000,
        instructions="Be brief.",
        sections=["Decisions", "Open questions", "Promises"],
    )
    with ConversationMemory(
        InMemoryLog(), summarizer=summarizer, summary_settings=template
    ) as memory:
        memory.add_messages([("user", "When do we meet?"), ("ai", "In May.")], thread_id="t")
        report = memory.summarize("t", force=True)
        record = memory.history("t").last_summary.metadata.aux["summary"]
    assert report.missing_sections == ("Decisions", "Promises")
    assert record["missing_sections"] == ["Decisions", "Promises"]
    assert summarizer.requests[0].instructions == "Be brief."
    assert summarizer.requests[0].sections == ("Decisions", "Open questions", "Promises")
