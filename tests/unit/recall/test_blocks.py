"""Segments, sessions and blocks: how lines are cut and put together within a budget."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.recall.blocks import TableView, pack, render
from langchain_convmem.recall.segments import (
    SEGMENT_CHARS,
    SESSION_GAP_MS,
    UNCUT_CHARS,
    SegmentTable,
    split_line,
)
from langchain_convmem.views.tokens import count_text_tokens

LONG = "A sentence of five words. " * 50


def fill_budget(ranked, table, tokens, *, cross_sessions=False, **wish):
    ground = TableView(table, table.select_allowed(), cross_sessions)
    return pack(ranked, ground, max_tokens=tokens, **wish)


def take_blocks(ranked, table, k, *, cross_sessions=False, **wish):
    ground = TableView(table, table.select_allowed(), cross_sessions)
    return pack(ranked, ground, max_blocks=k, **wish)


def table_of(lines):
    table = SegmentTable()
    table.add_many(lines)
    return table


def plain(line, count, *, session=None):
    return table_of([line(f"line {n}", n, session=session and session(n)) for n in range(count)])


def lines_of(groups):
    return [list(group.lines) for group in groups]


@st.composite
def worlds(draw):
    """A layout of lines (thread, session, length) and a ranking of the segments."""
    layout = draw(
        st.lists(
            st.tuples(
                st.integers(0, 1), st.sampled_from(["a", "b"]), st.sampled_from([3, 60, 900])
            ),
            min_size=1,
            max_size=14,
        )
    )
    return layout, draw(st.randoms(use_true_random=False)), draw(st.booleans())


def build(line, layout, random):
    lines = [
        line(("word " * 300)[:length], n, thread=f"t{thread}", session=session)
        for n, (thread, session, length) in enumerate(layout)
    ]
    table = table_of(lines)
    ranked = list(range(len(table)))
    random.shuffle(ranked)
    return table, ranked


def check_groups(groups, table, ranked, *, cross_sessions):
    every = [number for group in groups for number in group.lines]
    assert len(every) == len(set(every)), "a line stands in two blocks"
    place = {number: at for at, number in enumerate(ranked)}
    best = [min(place[hit] for hit in group.hits) for group in groups]
    assert best == sorted(best), "blocks are not best first"
    for group in groups:
        numbers = list(group.lines)
        assert numbers == sorted(numbers)
        for one, following in pairwise(numbers):
            assert table.find_next_line(one, 1, cross_sessions=cross_sessions) == following
        assert all(group.lines.values()), "a line without a segment"
        assert all(hit in group.lines[table.find_line_number(hit)] for hit in group.hits)


def test_a_block_is_a_date_and_labelled_lines(line):
    table = table_of([line("Hi!", 0, speaker="Bo"), line("two\nlines ", 1, speaker="Ana")])
    [group] = fill_budget([0, 1], table, 100)
    assert render(group, table) == "[2023-11-14]\nBo: Hi!\nAna: two\n  lines "


def test_of_a_long_line_only_chosen_segments_stand_with_gaps_marked(line):
    table = table_of([line(LONG, 0)])
    assert len(table) == 4
    [group] = fill_budget([1], table, 150)
    assert render(group, table) == f"[2023-11-14]\nAna: [...] {table.get_text(1).strip()} [...]"


@given(worlds())
def test_with_room_enough_everything_comes_back_verbatim(line, world):
    layout, random, _ = world
    table, ranked = build(line, layout, random)
    text = "\n".join(render(group, table) for group in fill_budget(ranked, table, 10**6))
    assert "[...]" not in text
    for number in range(len(layout)):
        assert f"Ana: {table.get_line(number).text}" in text


def test_what_does_not_fit_makes_room_for_the_next_best(line):
    table = table_of(
        [
            line("x" * 300, 0, session="a"),
            line("y" * 300, 1, session="b"),
            line("z", 2, session="c"),
        ]
    )
    assert lines_of(fill_budget([0, 1, 2], table, 160)) == [[0], [2]]


def test_neighbouring_lines_share_a_block_across_no_session(line):
    table = plain(line, 6, session=lambda n: "a" if n < 3 else "b")
    assert lines_of(fill_budget([2, 0, 3, 1], table, 100)) == [[0, 1, 2], [3]]
    assert lines_of(fill_budget([2, 3], table, 100, cross_sessions=True)) == [[2, 3]]


def test_a_window_shrinks_where_it_does_not_fit(line):
    table = table_of([line("x" * 60, n) for n in range(7)])
    assert lines_of(fill_budget([3], table, 200, window=2)) == [[1, 2, 3, 4, 5]]
    assert lines_of(fill_budget([3], table, 110, window=2)) == [[2, 3, 4]]
    assert lines_of(fill_budget([3], table, 45, window=2)) == [[3]]
    assert lines_of(fill_budget([3], table, 10, window=2)) == []


@given(worlds(), st.integers(1, 8), st.integers(0, 3))
def test_k_blocks_come_back_whenever_there_are_k_lines(line, world, k, window):
    layout, random, cross = world
    table, ranked = build(line, layout, random)
    groups = take_blocks(ranked, table, k, window=window, cross_sessions=cross)
    assert len(groups) == min(k, len(layout))
    check_groups(groups, table, ranked, cross_sessions=cross)


def test_a_hit_comes_with_its_window(line):
    table = plain(line, 20)
    assert lines_of(take_blocks([10, 3], table, 2, window=2)) == [
        [8, 9, 10, 11, 12],
        [1, 2, 3, 4, 5],
    ]


def test_windows_end_at_the_session_or_cross_it_within_the_thread(line):
    table = plain(line, 10, session=lambda n: "a" if n < 5 else "b")
    assert lines_of(take_blocks([4], table, 1, window=2)) == [[2, 3, 4]]
    assert lines_of(take_blocks([4], table, 1, window=2, cross_sessions=True)) == [[2, 3, 4, 5, 6]]


def test_a_window_may_reach_further_on_one_side(line):
    table = plain(line, 12)
    assert lines_of(take_blocks([4], table, 1, window=(1, 3))) == [[3, 4, 5, 6, 7]]
    assert lines_of(take_blocks([4], table, 1, window=(2, 0))) == [[2, 3, 4]]
    assert lines_of(fill_budget([4], table, 200, window=(0, 2))) == [[4, 5, 6]]
    tokens = count_text_tokens("[2023-11-14]\nAna: line 4\nAna: line 5")
    assert lines_of(fill_budget([4], table, tokens, window=(0, 2))) == [[4, 5]]


def test_overlapping_windows_merge_and_the_ranking_is_followed_further(line):
    table = plain(line, 30)
    groups = take_blocks([10, 12, 25, 2], table, 2, window=2)
    assert lines_of(groups) == [[8, 9, 10, 11, 12, 13, 14], [23, 24, 25, 26, 27]]
    assert groups[0].hits == [10, 12]


def test_where_the_ranking_ends_before_there_are_k_blocks_windows_are_smaller(line):
    table = plain(line, 9)
    ranked = [1, 4, 7]
    assert lines_of(take_blocks(ranked, table, 1, window=2)) == [[0, 1, 2, 3]]
    assert lines_of(take_blocks(ranked, table, 3, window=2)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_long_line_beside_a_hit_shows_its_nearest_segment(line):
    table = table_of([line(LONG, 0), line("hit", 1), line(LONG, 2)])
    [group] = take_blocks([4], table, 1, window=1)
    assert group.lines == {0: {3}, 1: {4}, 2: {5}}


def test_a_window_ends_before_a_line_that_may_not_come_back(line):
    table = plain(line, 9)
    allowed = table.select_allowed()
    allowed[[2, 5]] = False
    ground = TableView(table, allowed)
    assert lines_of(pack([4], ground, max_blocks=1, window=3)) == [[3, 4]]
    assert lines_of(pack([4], ground, max_tokens=100, window=3)) == [[3, 4]]


WORDS = st.text(alphabet="ab cd.!?\n\t。\uff01字é", max_size=30)
LONG_TEXTS = st.lists(WORDS, max_size=80).map(" ".join)


def parts(text, **limits):
    return [text[start:end] for start, end in split_line(text, **limits)]


@given(LONG_TEXTS)
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


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        ([None, None], 1),
        ([None, None], -1),
        (["a", "a"], 10),
        (["a", "b"], 0),
        (["a", None], 0),
        ([None, None], 2),
        ([None, None], -2),
    ],
)
def test_a_session_ends_by_its_name_or_after_half_an_hour(line, names, steps):
    at = 1_700_000_000_000
    times = [at, at + steps * SESSION_GAP_MS]
    lines = [
        line("x", n, session=name, time_ms=time_ms)
        for n, (name, time_ms) in enumerate(zip(names, times, strict=True))
    ]
    is_same = names == ["a", "a"] or (names[0] is names[1] and abs(steps) <= 1)
    assert filled(lines).find_next_line(0, 1) == (1 if is_same else None)
