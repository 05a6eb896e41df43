from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.recall.segments import SESSION_GAP_MS, SegmentTable
from langchain_convmem.records import ThreadKey


def filled(lines):
    table = SegmentTable()
    for one in lines:
        table.add(one)
    return table


def test_a_line_has_a_segment_and_a_long_one_several(line):
    table = SegmentTable()
    assert table.add(line("short", 0)) == range(1)
    assert table.add(line("A sentence of words. " * 50, 1)) == range(1, 4)
    assert table.list_segments(1) == range(1, 4)
    assert "".join(table.get_text(number) for number in range(1, 4)) == "A sentence of words. " * 50


def test_a_blank_line_has_no_segment(line):
    table = filled([line(" \n\t", 0), line("", 1)])
    assert len(table) == 0


def test_a_gap_over_half_an_hour_begins_a_new_session(line):
    at = 1_700_000_000_000
    times = [at, at + SESSION_GAP_MS, at + 2 * SESSION_GAP_MS + 1, at]
    table = filled([line("x", n, time_ms=time_ms) for n, time_ms in enumerate(times)])
    assert table.session_column.tolist() == [0, 0, 1, 2]


def test_a_named_session_holds_whatever_the_time(line):
    names = ["a", "a", "b", None, None, "a"]
    far = 10 * SESSION_GAP_MS
    lines = [line("x", n, session=name, time_ms=n // 3 * far) for n, name in enumerate(names)]
    assert filled(lines).session_column.tolist() == [0, 0, 1, 2, 2, 3]


def test_consecutive_sessions_have_a_start_each(line):
    lines = [line("x" * 900, 0), line("b", 1), line("c", 2, session="2"), line("d", 3, thread="u")]
    table = filled(lines)
    first_of_c, first_of_d = table.list_segments(2).start, table.list_segments(3).start
    assert table.find_session_starts().tolist() == [0, first_of_c, first_of_d]


def test_threads_that_go_on_at_once_and_removals_leave_no_starts(line):
    at_once = filled([line("a", 0), line("b", 1, thread="u"), line("c", 2)])
    assert at_once.find_session_starts() is None
    shortened = filled([line("a", 0), line("b", 1)])
    shortened.remove_entries([shortened.get_line(0).entry_id])
    assert shortened.find_session_starts() is None


def test_links_stay_within_a_session_and_can_cross_it_but_never_a_thread(line):
    lines = [
        line("a", 0, session="1"),
        line("other thread", 1, thread="u", session="1"),
        line("b", 2, session="1"),
        line("c", 3, session="2"),
    ]
    table = filled(lines)
    assert table.get_links().after.tolist() == [2, -1, -1, -1]
    assert table.get_links().before.tolist() == [-1, -1, 0, -1]
    assert table.get_links(cross_sessions=True).after.tolist() == [2, -1, 3, -1]
    assert table.find_next_line(2, 1) is None
    assert table.find_next_line(2, 1, cross_sessions=True) == 3
    assert table.find_next_line(2, -1) == 0


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", "b"])), max_size=25),
    st.lists(st.integers(0, 24), max_size=12),
    st.integers(0, 25),
)
def test_removal_closes_the_gap_whenever_it_happens(line, layout, removed, cut):
    lines = [
        line(f"line {n}", n, thread=f"t{thread}", session=session)
        for n, (thread, session) in enumerate(layout)
    ]
    table = filled(lines[:cut])
    early = [lines[n].entry_id for n in removed if n < min(cut, len(lines))]
    table.remove_entries(early)
    for one in lines[cut:]:
        table.add(one)
    table.remove_entries([lines[n].entry_id for n in removed if n < len(lines)])
    late = filled(lines)
    late.remove_entries([lines[n].entry_id for n in removed if n < len(lines)])
    for cross in (False, True):
        links, expected = (
            table.get_links(cross_sessions=cross),
            late.get_links(cross_sessions=cross),
        )
        assert links.before.tolist() == expected.before.tolist()
        assert links.after.tolist() == expected.after.tolist()
    assert table.live.tolist() == late.live.tolist()
    assert table.session_column.tolist() == late.session_column.tolist()
    gone = {n for n in removed if n < len(lines)}
    for number in set(range(len(lines))) - gone:
        same = [m for m in range(number) if m not in gone and layout[m][0] == layout[number][0]]
        assert late.get_links(cross_sessions=True).before[number] == (same[-1] if same else -1)


def test_removing_an_entry_takes_out_all_segments_of_its_lines(line):
    table = filled([line("A sentence of words. " * 50, 0), line("short", 1)])
    assert table.remove_entries(["e-t-0", "unknown"]) == [0, 1, 2]
    assert table.remove_entries(["e-t-0"]) == []
    assert table.live.tolist() == [False, False, False, True]


def test_only_live_lines_of_the_scope_are_allowed(line):
    table = filled([line("x", n, thread="ab"[n % 2]) for n in range(6)])
    table.remove_entries(["e-a-0"])
    a, b = ThreadKey("ana", "a"), ThreadKey("ana", "b")
    assert table.select_allowed().tolist() == [False, True, True, True, True, True]
    assert table.select_allowed(within=a).tolist() == [False, False, True, False, True, False]
    assert not table.select_allowed(within=ThreadKey("ana", "nobody")).any()
    # Positions count per thread: 3 is a line of a, and none of b.
    assert table.select_allowed(exclude={a: [3], b: [3, 6]}).tolist() == [
        False,
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_speakers_are_numbered_in_order_of_appearance(line, count):
    names = ["Bo", "Ana", "Bo", "Cy", "Ana"][:count]
    table = filled([line("x", n, speaker=name) for n, name in enumerate(names)])
    assert [table.speakers[number] for number in table.speaker_column] == names


TEXTS = ["short", " ", "A sentence of words. " * 50]


def shown(table, lines):
    """Return all that a table tells."""
    starts = table.find_session_starts()
    numbers = range(len(table))
    return (
        [table.get_name(number) for number in numbers],
        [table.number_of(table.get_name(number)) for number in numbers],
        list(table.list_places(numbers)),
        [table.get_text(number) for number in numbers],
        [table.list_entry_lines(line.entry_id) for line in lines],
        [one.tolist() for one in (table.live, table.session_column, table.speaker_column)],
        [table.get_links(cross_sessions=cross).before.tolist() for cross in (False, True)],
        [table.get_links(cross_sessions=cross).after.tolist() for cross in (False, True)],
        None if starts is None else starts.tolist(),
        [
            table.select_allowed(where={name: [value]}).tolist()
            for name, value in [("role", "user"), ("mood", 1), ("mood", True), ("session", "b")]
        ],
        table.select_allowed(since_ms=3, until_ms=10**30).tolist(),
        table.speakers,
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from([None, "b"]),
            st.sampled_from(TEXTS),
            st.sampled_from([{}, {"mood": 1}, {"mood": True}]),
            st.sampled_from([1, SESSION_GAP_MS * 3, -(10**30)]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.lists(st.integers(0, 12), max_size=4),
    st.sets(st.integers(0, 11)),
)
def test_lines_added_together_are_lines_added_one_by_one(line, layout, cuts, removed):
    lines = []
    for n, (thread, session, text, tags, time_ms, is_further) in enumerate(layout):
        one = line(
            text, n, thread=f"t{thread}", session=session, time_ms=time_ms, speaker=str(n % 2)
        )
        one = replace(one, tags=tags)
        if is_further and lines:
            before = lines[-1]
            one = replace(
                before, text=text, part=before.part + 1, line_id=f"{before.entry_id}#{n}", tags=tags
            )
        lines.append(one)
    single, many = SegmentTable(), SegmentTable()
    edges = [0, *sorted(cuts), len(lines)]
    gone = [lines[n].entry_id for n in removed if n < len(lines)]
    for first, last in pairwise(edges):
        numbers = [number for one in lines[first:last] for number in single.add(one)]
        assert list(many.add_many(lines[first:last])) == numbers
        assert single.remove_entries(gone[:2]) == many.remove_entries(gone[:2])
    assert single.remove_entries(gone) == many.remove_entries(gone)
    assert shown(many, lines) == shown(single, lines)


def test_segments_say_the_same_whatever_their_case_and_blanks(line):
    texts = ["The  CAR is red.", "the car\nis red. ", "The car is blue."]
    table = filled([line(text, number) for number, text in enumerate(texts)])
    assert table.hash_folded(0) == table.hash_folded(1)
    assert table.has_same_text(0, 1)
    assert not table.has_same_text(0, 2)
    table.add(line("THE CAR IS BLUE.", 3))
    assert table.hash_folded(3) == table.hash_folded(2)
