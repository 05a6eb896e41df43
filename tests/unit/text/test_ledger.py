from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.text.ledger import SessionLedger

PARTS = st.lists(st.text("abé🌍", max_size=6), max_size=8)


def ledger_of(parts):
    ledger = SessionLedger()
    for number, part in enumerate(parts):
        ledger.append(part, "reply" if number % 2 else "prompt")
    return ledger


@given(PARTS, st.integers(0, 60), st.integers(0, 60))
def test_a_ledger_reads_as_the_text_that_its_parts_make(parts, start, end):
    text = "".join(parts)
    ledger = ledger_of(parts)
    assert len(ledger) == len(text)
    assert (ledger.read(start), ledger.read(start, end)) == (text[start:], text[start:end])


@given(PARTS, st.text("abé🌍", max_size=50), st.data())
def test_what_is_common_is_found(parts, other, data):
    text = "".join(parts)
    other = data.draw(st.sampled_from((other, text, text + other, text[:-1])))
    found = ledger_of(parts).match(other)
    assert text[:found] == other[:found]
    assert found == min(len(text), len(other)) or text[found] != other[found]


@given(PARTS, st.text("ab", max_size=5), st.data())
def test_a_ledger_that_was_cut_goes_on_from_there(parts, more, data):
    text = "".join(parts)
    length = data.draw(st.integers(0, len(text)))
    ledger, twin = ledger_of(parts), ledger_of(parts).copy()
    ledger.cut(length)
    ledger.append(more, "reply")
    assert ledger.read() == text[:length] + more
    assert twin.read() == text


@given(PARTS)
def test_a_ledger_tells_who_wrote_what(parts):
    ledger = ledger_of(parts)
    written = [
        origin
        for number, part in enumerate(parts)
        for origin in ["reply" if number % 2 else "prompt"] * len(part)
    ]
    assert [ledger.get_origin(place) for place in range(len(ledger))] == written
