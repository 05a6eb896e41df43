"""Words that mean the same become equal; sentences stay slices of their text."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.offline import matching as words
from langchain_convmem.offline.matching import (
    MAX_SENTENCE_CHARS,
    content_terms,
    is_question,
    name_terms,
    split_sentences,
)


def _sentences(text):
    return [text[span.start : span.end] for span in split_sentences(text)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I parked", "parking"),
        ("she bought it", "buy"),
        ("the children", "a child"),
        ("my sister's dog", "sisters dogs"),
        ("Café", "cafe"),
        ("it\u2019s Biscuit", "it's biscuit"),
    ],
)
def test_forms_of_a_word_are_one_term(one, other):
    assert content_terms(one) == content_terms(other)


def test_words_without_a_subject_of_their_own_are_left_out():
    assert content_terms("What did you do with the ticket?") == ["ticket"]


def test_chinese_and_japanese_match_by_pairs_of_characters():
    assert content_terms("我喜欢茶") == ["我喜", "喜欢", "欢茶"]


def test_names_are_capitalised_words_that_do_not_open_a_sentence():
    assert name_terms("When did Caroline meet Max? Yesterday.") == {"carolin", "max"}


def test_stemming_in_many_threads_at_once_gives_the_same_terms():
    texts = [
        f"{word}ing {word}ed {word}s number{n}" for n in range(200) for word in ("walk", "talk")
    ]
    expected = [content_terms(text) for text in texts]
    words._stem.cache_clear()
    words._analyse.cache_clear()
    results: list[list[list[str]]] = []

    def work():
        results.append([content_terms(text) for text in texts])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_sentences_end_at_stops_and_line_breaks_but_not_behind_abbreviations():
    text = "Dr. Wu called. He said e.g. nothing! Really?\n- one\n- two"
    assert _sentences(text) == [
        "Dr. Wu called.",
        "He said e.g. nothing!",
        "Really?",
        "- one",
        "- two",
    ]


def test_chinese_sentences_end_without_a_blank():
    assert _sentences("你好。再见\uff01") == ["你好。", "再见\uff01"]


@given(st.text(alphabet="aB .?!\n\u3002", max_size=900))
def test_sentences_are_ordered_slices_that_leave_out_blanks_only(text):
    spans = split_sentences(text)
    rest, at = "", 0
    for span in spans:
        assert at <= span.start < span.end
        assert span.end - span.start <= MAX_SENTENCE_CHARS
        rest += text[at : span.start]
        at = span.end
    assert not (rest + text[at:]).strip()


@pytest.mark.parametrize("text", ["Really?", 'He said "why?"', "何ですか\uff1f", "so?!"])
def test_a_question_mark_makes_a_question(text):
    assert is_question(text)


@pytest.mark.parametrize("text", ["where did i park", "Tell me about Ana", "so, what's her name"])
def test_requests_without_a_question_mark_are_questions_only_when_asked_for(text):
    assert is_question(text, requests=True)
    assert not is_question(text)


@pytest.mark.parametrize("text", ["I parked on level 3.", "However, it rained.", "Island life!"])
def test_statements_are_no_questions(text):
    assert not is_question(text, requests=True)
