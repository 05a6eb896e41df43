"""How values look in notebooks: by value, escaped, without a colour or an address of their own."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from langchain_convmem import ConversationMemory, PromptFile
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.records import DialogLine, ThreadKey
from langchain_convmem.summarizing import summary_record
from langchain_convmem.views.markup import render_facts, render_recall
from langchain_convmem.views.shown import LineMatch, Recall, RecalledBlock

HOSTILE = "</div><script>alert('&')</script>\ud800"


def make_line(number, text, speaker="Ana"):
    return DialogLine(
        line_id=f"l{number}",
        key=ThreadKey("ana", HOSTILE[:-1]),
        position=number,
        part=0,
        speaker=speaker,
        text=text,
        time_ms=1_700_000_000_000,
        session=None,
        role="user",
        entry_id=f"e{number}",
    )


def make_recall():
    lines = (make_line(1, "Before."), make_line(2, HOSTILE, HOSTILE), make_line(3, "Half."))
    best = LineMatch(lines[1], 4.0, 0.8, ("meaning", HOSTILE))
    half = LineMatch(lines[2], 2.0, 0.4, ("neighbours",))
    block = RecalledBlock(lines, "", (best, half), 4.0, 0.8)
    return Recall((best, half), (block,), best_rejected=1.0, verdict="answered")


def parse(markup):
    """Return the markup as a tree: what is not well-formed fails."""
    return ET.fromstring(markup.replace("<br>", "<br/>"))  # noqa: S314 - our own


def test_a_recall_lists_its_lines_and_how_relevant_the_hits_are():
    root = parse(render_recall(make_recall()))
    rows = [[cell.text or "" for cell in row] for row in root.iter("tr")]
    assert [row[2:4] for row in rows[1:]] == [
        ["Ana: Before.", ""],
        [rows[2][2], "4.00"],
        ["Ana: Half.", "2.00"],
    ]
    assert rows[3][4] == "neighbours"
    assert "answered · 1 blocks, 2 lines ranked" in "".join(root.itertext())


def test_a_recall_prints_what_a_model_would_read_and_its_problems_last():
    found = make_recall()
    block = replace(found.blocks[0], text="[2023-11-14]\nAna: Before.")
    found = replace(found, blocks=(block,), problems=("the embedder failed",))
    assert str(found) == "answered: 1 block\n\n[2023-11-14]\nAna: Before.\n\nthe embedder failed"


def test_nothing_that_was_said_becomes_markup():
    memory = ConversationMemory.open(":memory:")
    history = memory.history("t", user_id="ana")
    turn = history.add("user", "<script>alert('&')</script>")
    prompt = PromptFile.parse("__ <b>Role</b> __\n<script>{{ nosuch }}</script>\n", strict=False)
    for shown in (make_recall(), turn, history, prompt):
        markup = shown._repr_html_()
        root = parse(f"<div>{markup}</div>")
        assert not list(root.iter("script"))
        assert "alert" in markup or "nosuch" in markup
    memory.close()


@pytest.mark.parametrize(
    "pattern", [r"#[0-9a-f]{3}", r"\brgb", r"background", r"https?://", r"\bon\w+="]
)
def test_no_colour_and_no_address_stands_in_a_recall(pattern):
    recall = make_recall()
    plain = replace(
        recall.blocks[0],
        lines=(make_line(1, "Hi"),),
        matches=(LineMatch(make_line(1, "Hi"), 1, 1),),
    )
    assert not re.search(pattern, render_recall(replace(recall, blocks=(plain,))))


def test_an_empty_recall_says_so():
    assert "nothing · 0 blocks" in render_recall(Recall((), ()))


def test_a_turn_prints_how_it_begins_and_not_all_of_it():
    with ConversationMemory.open(":memory:") as memory:
        history = memory.history("t", user_id="ana")
        turn = history.add("user", "word " * 1000)
        shown = repr(turn)
        assert shown.startswith("AddedTurn(user: 'word word")
        assert shown.endswith(f"…', id={turn.id!r})")
        assert len(shown) < 120


def test_a_summary_says_what_it_covers_and_a_report_what_came_of_it():
    with ConversationMemory.open(":memory:", summarizer=ExtractiveSummarizer()) as memory:
        history = memory.history("t", user_id="ana")
        for number in range(6):
            history.add("user", f"My number {number} is {number * 7}.")
            history.add("assistant", "Noted.")
        report = memory.summarize("t", user_id="ana", force=True)
        assert report
        summary = history.last_summary
        assert f"covers {len(summary.metadata.summary_ids)} turns" in summary._repr_html_()
        assert "written" in report._repr_html_()
        record = summary_record(memory, "t", user_id="ana")
        parse(record._repr_html_())


def test_facts_without_a_value_are_left_out():
    root = parse(render_facts("Report", {"calls": 2, "problem": "", "lost": 0}))
    assert ["".join(row.itertext()) for row in root.iter("tr")] == ["", "calls2"]
