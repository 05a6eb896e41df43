from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.text.replies import StopTexts


def _cut(pieces: list[str], texts: list[str]) -> tuple[str, str]:
    stops = StopTexts(texts)
    passed = "".join([*map(stops.feed, pieces), stops.finish()])
    return passed, stops.found


@pytest.mark.parametrize(
    ("text", "texts", "passed", "found"),
    [
        ("one<e>two", ["<e>"], "one", "<e>"),
        ("one<e", ["<e>"], "one<e", ""),
        ("one<end>", ["<e", "<end>"], "one", "<end>"),
        ("one<ends", ["<e", "<end>>"], "one", "<e"),
        ("aab", ["ab"], "a", "ab"),
        ("one", ["", "x"], "one", ""),
        ("one", [], "one", ""),
    ],
)
def test_a_text_is_cut_where_the_first_stop_text_begins(text, texts, passed, found):
    assert _cut([text], texts) == (passed, found)
    assert _cut(list(text), texts) == (passed, found)


@given(st.text("ab<", max_size=12), st.lists(st.text("ab<", max_size=3), max_size=3), st.data())
def test_it_does_not_matter_how_the_text_comes(text, texts, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    passed, found = _cut(pieces, texts)
    assert (passed, found) == _cut([text], texts)
    assert text.startswith(passed + found)
    assert not any(stop in passed for stop in texts if stop)
