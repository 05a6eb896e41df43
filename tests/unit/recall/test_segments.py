from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS, split_line

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
