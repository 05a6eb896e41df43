from __future__ import annotations

from dataclasses import replace

import pytest
from histories import KEY, histories
from hypothesis import given, settings
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Control, Cover, Draft, Metadata
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import (
    find_live_entries,
    find_live_summary,
    find_retracted_ids,
    find_uncovered,
)


@pytest.fixture
def log():
    with InMemoryLog() as opened:
        yield opened


def say(log, text, *, turn=None, own=None, role=HumanMessage):
    [entry] = log.append(KEY, [make_draft(role(text, id=own), turn_id=turn)])
    return entry


def control(log, *ids, reason="undo", replacement=None):
    [entry] = log.append(KEY, [Draft(role="control", control=Control(ids, reason, replacement))])
    return entry


def summarise(log, *ranges, of=(), text="Said."):
    cover = Cover(tuple(ranges)) if ranges else None
    metadata = Metadata(summary_ids=tuple(of))
    draft = Draft(role="summary", contents=(text,), cover=cover, metadata=metadata)
    [entry] = log.append(KEY, [draft])
    return entry


def live(log):
    return ["".join(entry.contents) for entry in find_live_entries(log.entries(KEY))]


def test_retracted_entries_are_skipped(log):
    one, _, three = (say(log, text) for text in "abc")
    control(log, one.id, three.id, "unknown")
    assert live(log) == ["b"]
    assert find_retracted_ids(log.entries(KEY)) == {one.id, three.id, "unknown"}


def test_a_retracted_retraction_does_nothing(log):
    one = say(log, "a")
    undo = control(log, one.id)
    redo = control(log, undo.id)
    assert live(log) == ["a"]
    control(log, redo.id)
    assert live(log) == []


def test_turns_at_once_read_question_answer_question_answer(log):
    for text, turn in (("A?", "1"), ("B?", "2"), ("b!", "2"), ("a!", "1"), ("a!!", "1")):
        say(log, text, turn=turn)
    assert live(log) == ["A?", "a!", "a!!", "B?", "b!"]


def test_a_replacement_of_a_replacement_stands_where_the_first_stood(log):
    for text in ("a", "b", "c"):
        say(log, text, own=text)
    for text in ("b2", "b3"):
        say(log, text, own="b")
    assert live(log) == ["a", "b3", "c"]


def test_an_undone_replacement_shows_the_former_version(log):
    say(log, "a", own="a")
    say(log, "b")
    new = say(log, "a2", own="a")
    [mark] = [entry for entry in log.entries(KEY) if entry.control is not None]
    control(log, mark.id, new.id)
    assert live(log) == ["a", "b"]


@pytest.mark.parametrize("turn", [None, "1"])
def test_a_replacement_keeps_its_place_when_the_old_version_was_forgotten(log, turn):
    say(log, "before")
    old = say(log, "question", own="q", turn=turn)
    say(log, "answer", turn=turn)
    say(log, "after")
    say(log, "question, edited", own="q")
    log.forget(KEY, [old.id])
    assert live(log) == ["before", "question, edited", "answer", "after"]


def test_a_summary_stands_behind_the_last_entry_it_covers(log):
    one, two, *_ = [say(log, text) for text in "abc"]
    summary = summarise(log, (one.position, two.position), text="S")
    say(log, "d")
    entries = find_live_entries(log.entries(KEY))
    assert live(log) == ["a", "b", "S", "c", "d"]
    assert find_live_summary(entries).id == summary.id
    assert [entry.contents[0] for entry in find_uncovered(entries)] == ["c", "d"]


@pytest.mark.parametrize("ranges", [(), "none"])
def test_a_summary_that_covers_nothing_stands_where_it_was_written(log, ranges):
    say(log, "a")
    cover = None if ranges == "none" else Cover(())
    log.append(KEY, [Draft(role="summary", contents=("S",), cover=cover)])
    say(log, "b")
    assert live(log) == ["a", "S", "b"]
    entries = find_live_entries(log.entries(KEY))
    assert [entry.contents[0] for entry in find_uncovered(entries)] == ["a", "b"]


def test_a_summary_of_what_was_forgotten_stays_before_what_came_later(log):
    one, two, _ = (say(log, text) for text in "abc")
    summarise(log, (one.position, two.position), text="S")
    say(log, "d")
    log.forget(KEY, [one.id, two.id])
    assert live(log) == ["S", "c", "d"]


def test_a_chain_of_summaries_covers_what_each_link_covers(log):
    one, two, three, _ = (say(log, text) for text in "abcd")
    first = summarise(log, (one.position, one.position))
    second = summarise(log, (two.position, two.position), of=[first.id, two.id])
    summarise(log, (three.position, three.position), of=[second.id, three.id])
    entries = find_live_entries(log.entries(KEY))
    assert [entry.contents[0] for entry in find_uncovered(entries)] == ["d"]


def test_summaries_that_name_each_other_do_not_hang(log):
    one = say(log, "a")
    first = summarise(log, (one.position, one.position))
    second = summarise(log, (one.position, one.position), of=[first.id])
    knot = replace(first, metadata=Metadata(summary_ids=(second.id,)))
    entries = [entry if entry.id != first.id else knot for entry in log.entries(KEY)]
    assert find_uncovered(find_live_entries(entries)) == []


@given(histories)
@settings(max_examples=200, deadline=None)
def test_live_entries_are_all_that_nothing_retracts_once_each(entries):
    dead = find_retracted_ids(entries)
    expected = {entry.id for entry in entries if entry.control is None} - dead
    shown = find_live_entries(entries)
    assert len(shown) == len(expected)
    assert {entry.id for entry in shown} == expected
    plain = [entry for entry in shown if entry.role != "summary"]
    left = find_uncovered(shown)
    assert [entry for entry in plain if entry in left] == left


@given(histories)
@settings(max_examples=100, deadline=None)
def test_entries_of_one_turn_stand_together(entries):
    order = [entry.turn_id for entry in find_live_entries(entries) if entry.role != "summary"]
    changes = [turn for turn, before in zip(order, [None, *order], strict=False) if turn != before]
    assert len(changes) == len(set(changes))
