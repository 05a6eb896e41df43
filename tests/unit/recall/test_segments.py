from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.recall.segments import (
    SEGMENT_CHARS,
    SESSION_GAP_MS,
    UNCUT_CHARS,
    SegmentTable,
    split_line,
)

WORDS = st.text(alphabet="ab cd.!?\n\t。\uff01字é", max_size=30)
LONG = st.lists(WORDS, max_size=80).map(" ".join)


def parts(text, **limits):
    return [text[start:end] for start, end in split_line(text, **limits)]


@given(LONG)
def test_segments_join_back_to_the_text_and_are_short(text):
    pieces = parts(text)
    assert "".join(pieces) == text
    assert len(pieces) == 1 or all(pieces)
    assert max(map(len, pieces)) <= UNCUT_CHARS
    assert all(len(piece) <= SEGMENT_CHARS for piece in pieces[:-1])


def test_cuts_fall_between_paragraphs_first():
    paragraphs = ["A dog. " * 45 + "\n\n", "A cat. " * 45 + "\n\n", "A cow. " * 45]
    assert parts("".join(paragraphs)) == paragraphs


def test_a_long_paragraph_is_cut_behind_a_sentence():
    text = "Twelve birds flew over the house, it cost 3.5 euros. " * 14
    assert all(piece.rstrip().endswith("euros.") for piece in parts(text))


def test_ideographic_sentences_are_cut_without_blanks():
    text = "今日は駅の前に車を停めました。" * 40
    assert all(piece.endswith("。") for piece in parts(text))


def test_a_short_heading_stays_with_what_follows():
    text = "Steps:\n\n" + "Open the door. " * 60
    assert parts(text)[0].startswith("Steps:\n\nOpen the door.")


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
