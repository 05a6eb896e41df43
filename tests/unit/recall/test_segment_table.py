from __future__ import annotations

from langchain_convmem.recall.segments import SESSION_GAP_MS, SegmentTable
from langchain_convmem.records import ThreadKey


def filled(lines):
    table = SegmentTable()
    table.add_many(lines)
    return table


def test_a_line_has_a_segment_and_a_long_one_several(line):
    table = SegmentTable()
    assert table.add_many([line("short", 0)]) == range(1)
    assert table.add_many([line("A sentence of words. " * 50, 1)]) == range(1, 4)
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


def test_segments_say_the_same_whatever_their_case_and_blanks(line):
    texts = ["The  CAR is red.", "the car\nis red. ", "The car is blue."]
    table = filled([line(text, number) for number, text in enumerate(texts)])
    assert table.hash_folded(0) == table.hash_folded(1)
    assert table.has_same_text(0, 1)
    assert not table.has_same_text(0, 2)
    table.add_many([line("THE CAR IS BLUE.", 3)])
    assert table.hash_folded(3) == table.hash_folded(2)
