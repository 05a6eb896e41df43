"""A sentence of a summary comes from the entries that say the same, in any script, or from none."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from benchmarks.citations import cite_alone, cite_in_crowd, load_chats, score
from langchain_convmem.records import Entry, Role, ThreadKey
from langchain_convmem.summarizing.citations import (
    cite,
    find_citations,
    list_sentences,
    read_marks,
)
from langchain_convmem.views.summaries import find_summary_window

_ROLES: dict[str, Role] = {"human": "user", "ai": "assistant", "tool": "tool"}
KEY = ThreadKey("ana", "citations")


def _make_entry(position: int, said: BaseMessage | str) -> Entry:
    message = HumanMessage(said) if isinstance(said, str) else said
    name = f"e{position}"
    return Entry(
        id=name,
        key=KEY,
        position=position,
        turn_id=name,
        role=_ROLES[message.type],
        message=message,
        contents=(message.text,) if message.text else (),
    )


def _cite(sentence: str, *said: BaseMessage | str) -> tuple[int, ...]:
    [found] = find_citations([sentence], [_make_entry(n, one) for n, one in enumerate(said, 1)])
    return found


CHAT = [
    "My rent goes up to 1,240 euros in April.",
    AIMessage("Then you may ask for the reasons in writing."),
    "The landlord is called Petrov, and he lives in Graz.",
    AIMessage("Shall I draft a letter to him?"),
]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("From April on the rent is 1240 EUR.", (1,)),
        ("Landlord Petrov lives in Graz.", (3,)),
        ("The rent rises to 1,240 euros, and Petrov of Graz is the landlord.", (1, 3)),
        ("A parrot was bought for the aunt.", ()),
        ("", ()),
        ("Details, word for word:", ()),
        ("- User: The landlord is called Petrov, and he lives in Graz.", (3,)),
    ],
)
def test_a_sentence_comes_from_the_entries_that_say_it(sentence, expected):
    assert _cite(sentence, *CHAT) == expected


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Meeting at 17:00.", "let's meet at 5 pm"),
        ("She ran eleven kilometres.", "i ran 11 km"),
        ("The price is 10,000.", "they want 10k for it"),
        ("Due on 3 October.", "it is due 2026-10-03"),
        ("IBAN DE89370400440532013000.", "my iban: DE89 3704 0044 0532 0130 00"),
        ("Das kostet 2640 Euro.", "c'est 2 640 euros"),
        ("预算15万。", "我的预算是150000元"),
        ("المساحة 120 مترا", "١٢٠ متر تقريبا"),
    ],
)
def test_a_value_is_known_again_however_it_is_written(sentence, said):
    assert _cite(sentence, "Hello there!", said, AIMessage("All right.")) == (2,)


def test_of_entries_that_say_the_same_the_first_counts():
    said = "The code of the door is XK-4471."
    assert _cite("The door's code is XK-4471.", "Hi", said, said) == (2,)


def test_what_a_tool_was_asked_and_answered_is_a_source():
    call = {"name": "weather", "args": {"place": "Lisbon harbour"}, "id": "c1"}
    said = [
        "How is it?",
        AIMessage("", tool_calls=[call]),
        ToolMessage("31 degrees", tool_call_id="c1"),
    ]
    assert _cite("At Lisbon harbour it has 31 degrees.", *said) == (2, 3)


def test_sentences_of_all_pieces_are_cited_in_order():
    entries = [_make_entry(n, one) for n, one in enumerate(CHAT, 1)]
    window = find_summary_window(KEY, entries)
    pieces = ("The rent is 1,240 euros. Petrov lives in Graz.", "Nothing else came up at all.")
    assert len(list_sentences(pieces)) == 3
    assert cite(pieces, window) == [[1], [3], []]


_words = st.sampled_from(
    [
        "rent",
        "april",
        "petrov",
        "graz",
        "1,240",
        "17:00",
        "房租",
        "аренда",
        "إيجار",
        "letter",
        ".",
        "?",
        "\n",
    ]
)
_texts = st.lists(_words, max_size=12).map(" ".join) | st.text(max_size=60)


@given(st.lists(_texts, max_size=6), st.lists(_texts, max_size=8))
def test_citations_are_positions_ascending_and_the_same_each_time(sentences, said):
    entries = [_make_entry(3 * n + 2, text or "...") for n, text in enumerate(said)]
    found = find_citations(sentences, entries)
    assert len(found) == len(sentences)
    for cited in found:
        assert list(cited) == sorted(set(cited))
        assert set(cited) <= {entry.position for entry in entries}
    assert find_citations(sentences, list(reversed(entries))) == found


@given(_texts, st.lists(_texts, min_size=1, max_size=6))
def test_a_sentence_without_a_mark_of_any_entry_has_no_source(sentence, said):
    borne = {mark for text in said for mark in read_marks(text)}
    if borne.isdisjoint(read_marks(sentence)):
        entries = [_make_entry(n, text) for n, text in enumerate(said, 1)]
        quoted = any(sentence.strip() and sentence.strip() in text for text in said)
        assert quoted or find_citations([sentence], entries) == [()]


@pytest.mark.parametrize(
    "text", ["a" * 60_000, "1 " * 30_000, "1" * 60_000, "9万" * 20_000, "-" * 60_000]
)
def test_text_of_any_shape_is_read(text):
    assert find_citations([text], [_make_entry(1, text)]) == [(1,)] or not text.strip("-")


def test_the_data_name_lines_that_there_are():
    chats = load_chats()
    assert sum(len(chat.sentences) for chat in chats) >= 60
    assert len({chat.language for chat in chats}) >= 5
    assert any(not one.sources for chat in chats for one in chat.sentences)
    for chat in chats:
        assert {speaker for speaker, _ in chat.lines} <= set(get_args(Role))
        for sentence in chat.sentences:
            assert sentence.sources | sentence.also <= set(range(1, len(chat.lines) + 1))
            assert not sentence.sources & sentence.also


@pytest.mark.parametrize("cite_chats", [cite_alone, cite_in_crowd])
def test_nine_of_ten_citations_are_right_and_four_of_five_are_found(cite_chats):
    overall = score(cite_chats(load_chats()))[""]
    assert overall.precision >= 0.9
    assert overall.recall >= 0.8
