from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

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
