"""The sentences that fit a question best; words that mean the same become equal."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.offline.context import ContextLine
from langchain_convmem.offline.matching import (
    MAX_QUOTES,
    MAX_SENTENCE_CHARS,
    WHOLE_LINE_CHARS,
    find_matches,
    is_question,
    list_names,
    list_terms,
    split_sentences,
)
from langchain_convmem.words.languages import stem


def _line(text, speaker="You", *, date=None, source="dialogue", group=0):
    return ContextLine(speaker, text, date, source, group)


def _best(question, *lines):
    return find_matches(question, lines)[0].text


def test_rare_words_weigh_more_than_frequent_ones():
    lines = [_line(f"The garden looks fine, plant {n}.") for n in range(6)]
    wanted = _line("The orchid stands by the window.")
    assert _best("Where in the garden is the orchid?", *lines, wanted) == wanted.text


def test_a_statement_beats_a_question_with_the_same_words():
    statement = _line("My blue umbrella is in the office.")
    question = _line("Is the blue umbrella in the office?", "Assistant", group=1)
    assert _best("Where is my blue umbrella?", statement, question) == statement.text


def test_the_line_behind_a_question_is_taken_for_its_answer():
    asked = _line("What is the name of your dog?", "Assistant")
    told = _line("Biscuit, after the bakery.")
    other = _line("Anyway, how are you?", "Assistant")
    assert _best("What is my dog's name?", asked, told, other) == told.text


def test_lines_of_different_groups_do_not_answer_each_other():
    asked = _line("What is the name of your dog?", "Assistant", group=1)
    told = _line("The rent is due on Friday.", group=2)
    assert _best("What is my dog's name?", asked, told) == asked.text


def test_the_question_itself_is_never_quoted_however_it_is_written():
    lines = [_line("where did I PARK the car"), _line("I parked it on level 3.")]
    assert [match.text for match in find_matches("Where did I park the car?", lines)] == [
        "I parked it on level 3."
    ]


def test_a_speaker_who_is_asked_about_is_preferred():
    ana = _line("I adopted a parrot.", "Ana", group=1)
    ben = _line("I adopted a parrot.", "Ben", group=2)
    assert find_matches("What did Ben adopt?", [ben, ana])[0].line is ben
    assert find_matches("What did Ana adopt?", [ana, ben])[0].line is ana


def test_the_voice_of_the_question_decides_between_equal_lines():
    mine = _line("The soup needs more salt.", "You", group=1)
    yours = _line("More salt in the soup!", "Assistant", group=2)
    assert find_matches("What did you say about salt?", [yours, mine])[0].line is yours
    assert find_matches("What did I say about salt?", [mine, yours])[0].line is mine


def test_a_date_in_the_question_prefers_lines_of_that_date():
    march = _line("We hiked up the ridge.", date="2024-03-02", group=1)
    july = _line("We hiked up the ridge again.", date="2024-07-09", group=2)
    assert find_matches("Where did we hike in March 2024?", [march, july])[0].line is march
    assert find_matches("Where did we hike in July 2024?", [march, july])[0].line is july


def test_when_asks_for_a_time():
    plain = _line("The exam was hard.", group=1)
    timed = _line("The exam is next Tuesday.", group=2)
    assert find_matches("When is the exam?", [timed, plain])[0].line is timed


def test_of_two_equal_lines_the_later_one_is_quoted():
    old = _line("I live in Bern.", group=1)
    new = _line("I live in Rome.", group=2)
    assert find_matches("Where do I live?", [old, new])[0].line is new


def test_what_was_said_beats_what_instructions_say():
    said = _line("Refunds are slow.", "Ana", group=1)
    rule = _line("Refunds are slow, be patient.", "", source="system", group=2)
    assert find_matches("How are refunds?", [said, rule])[0].line is said


def test_names_weigh_more_than_other_words():
    named = _line("Max was here.", "Ana", group=1)
    other = _line("Somebody baked bread.", "Ana", group=2)
    assert find_matches("Has Max baked?", [named, other])[0].line is named


def test_words_that_stand_together_in_both_weigh_more():
    together = _line("The red car stopped.", group=1)
    apart = _line("A car passed a red house.", group=2)
    assert find_matches("Whose was the red car?", [together, apart])[0].line is together


def test_the_rest_of_a_line_supports_its_sentences():
    apt = _line("The cottage is cold. The key hangs in the shed.", group=1)
    halves = [_line("The key is lost.", group=2), _line("The cottage burned.", group=3)]
    assert find_matches("Who has the cottage key?", [apt, *halves])[0].line is apt


def test_words_about_speaking_hardly_count():
    trip = _line("The trip was long.", group=1)
    talk = _line("Please remember that.", group=2)
    assert find_matches("Do you remember the trip?", [trip, talk])[0].line is trip


def test_what_is_only_told_beside_a_question_counts_less_than_the_question():
    lamp = _line("The lamp is upstairs.", group=1)
    dog = _line("The dog sleeps.", group=2)
    assert find_matches("The dog is fine. Who has the lamp?", [lamp, dog])[0].line is lamp


def test_a_much_weaker_line_is_not_quoted_beside_the_best():
    best = _line("The spare key of the cottage is in the shed.", group=1)
    weak = _line("The shed has a new key.", group=2)
    question = "Where in the shed is the spare key of the cottage?"
    assert [match.line for match in find_matches(question, [best, weak])] == [best]


def test_lines_that_fit_equally_well_are_quoted_together():
    lines = [_line(f"I baked bread in {town}.", group=n) for n, town in enumerate("abcd")]
    matches = find_matches("Where did I bake bread?", lines)
    assert [match.line for match in matches] == [lines[3], lines[2], lines[1]]


def test_a_short_line_is_quoted_whole_and_a_long_one_in_part():
    long = "Some words about the weather. " * 12 + "The locker code is 4711. Keep it safe."
    assert len(long) > WHOLE_LINE_CHARS
    assert (
        _best("What is the locker code?", _line(long)) == "The locker code is 4711. Keep it safe."
    )
    short = "Hello. The locker code is 4711. Keep it safe."
    assert _best("What is the locker code?", _line(short)) == short


def test_a_repeated_line_is_quoted_once():
    lines = [_line("The pin is 99."), _line("the pin is 99", "Assistant")]
    assert len(find_matches("What is the pin?", lines)) == 1


@pytest.mark.parametrize("question", ["", "?!", "what is it", "Who was that with you?"])
def test_a_question_without_a_subject_fits_nothing(question):
    assert find_matches(question, [_line("What is it with you?"), _line("That was it.")]) == []


def test_one_shared_word_among_many_is_not_enough():
    lines = [_line("The report has a cover."), _line("Rain all day.")]
    assert find_matches("Which colour has the cover of Peter's green passport?", lines) == []


WORD = st.sampled_from(
    ["tea", "lake", "dog", "walk", "blue", "seven", "where", "the", "my", "?", ".", "Ana", "\n"]
)

TEXTS = st.lists(WORD, min_size=1, max_size=60).map(" ".join).filter(str.strip)


@given(TEXTS, st.lists(TEXTS, max_size=8))
def test_matches_are_few_verbatim_ordered_and_repeatable(question, texts):
    lines = [
        _line(text, "You" if number % 2 else "Assistant", group=number % 3)
        for number, text in enumerate(texts)
    ]
    matches = find_matches(question, lines)
    assert len(matches) <= MAX_QUOTES
    assert all(match.text and match.text in match.line.text for match in matches)
    scores = [match.score for match in matches]
    assert scores == sorted(scores, reverse=True)
    assert matches == find_matches(question, lines)


# -- Words that mean the same become equal; sentences stay slices of their text -------------------


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
    assert list_terms(one) == list_terms(other)


def test_words_without_a_subject_of_their_own_are_left_out():
    assert list_terms("What did you do with the ticket?") == ("ticket",)


def test_chinese_and_japanese_match_by_pairs_of_characters():
    assert list_terms("我喜欢茶") == ("我喜", "喜欢", "欢茶")


def test_names_are_capitalised_words_that_do_not_open_a_sentence():
    assert list_names("When did Caroline meet Max? Yesterday.") == {"carolin", "max"}


def test_stemming_in_many_threads_at_once_gives_the_same_terms():
    texts = [
        f"{word}ing {word}ed {word}s number{n}" for n in range(200) for word in ("walk", "talk")
    ]
    expected = [list_terms(text) for text in texts]
    stem.cache_clear()
    list_terms.cache_clear()
    results: list[list[tuple[str, ...]]] = []

    def work():
        results.append([list_terms(text) for text in texts])

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
