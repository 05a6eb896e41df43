from __future__ import annotations

from langchain_convmem.recall.segments import SESSION_GAP_MS, SegmentTable


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
