"""Recall of what was said at a time that the question names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

ANA = Owner(user_id="ana")
NOW_MS = int(datetime(2023, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 24 * 3_600_000


def soup_every_day(log):
    for number in range(20):
        said = {"timestamp": NOW_MS - number * DAY_MS}
        line = HumanMessage("We had soup", additional_kwargs=said)
        log.append(ThreadKey("ana", f"t{number}"), [make_draft(line)])
    return LineRecall(log)


@pytest.mark.parametrize(
    ("when", "number"), [("on 2023-11-17", 3), ("on 11 November", 9), ("five days ago", 5)]
)
def test_lines_said_at_that_time_come_first_and_say_why(log, when, number):
    recall = soup_every_day(log)
    question = f"Which soup did we have {when}?"
    [match] = recall.recall(ANA, question, k=1, ranking=1, now_ms=NOW_MS).matches
    assert match.line.time_ms == NOW_MS - number * DAY_MS
    assert "date" in match.why
    plain = RecallSettings(date_bonus=0.0)
    found = recall.recall(ANA, question, k=1, now_ms=NOW_MS, settings=plain)
    assert not any("date" in match.why for match in found.matches)


def test_headers_tell_how_long_ago_a_block_was_said(log):
    said = HumanMessage("We had soup", additional_kwargs={"timestamp": NOW_MS})
    log.append(ThreadKey("ana", "t"), [make_draft(said)])
    recall = LineRecall(log)

    def headers(days, settings=None):
        now_ms = NOW_MS + days * DAY_MS
        found = recall.recall(ANA, "soup", k=1, now_ms=now_ms, settings=settings)
        return found.blocks[0].text.split("\n")[0]

    ages = {0: "today", 1: "yesterday", 13: "13 days ago", 14: "2 weeks ago"}
    ages |= {59: "8 weeks ago", 60: "2 months ago", 729: "24 months ago", 730: "2 years ago"}
    assert {days: headers(days) for days in ages} == {
        days: f"[2023-11-20, {age}]" for days, age in ages.items()
    }
    assert headers(-1) == "[2023-11-20]"
    assert headers(7, RecallSettings(age_in_header=False)) == "[2023-11-20]"
