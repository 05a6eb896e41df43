# ruff: noqa: RUF001 - letters of the languages themselves
import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.words.analysis import analyze, extract_query_terms
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.languages import LATIN, detect_language, is_function_word

DOCUMENTS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), max_size=25)


def index_of(documents):
    index = LexicalIndex()
    index.add(documents)
    return index


def test_scores_follow_the_formula():
    index = index_of([["car", "car", "park"], ["park"], ["tree", "house"]])
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 * 2.2 / (2 + 1.2 * (1 - 0.3 + 0.3 * 3 / 2))
    assert index.compute_scores(index.find(["car"])).tolist() == pytest.approx([expected, 0, 0])


@given(DOCUMENTS, st.sets(st.integers(0, 24)))
def test_removing_equals_never_having_added(documents, removed):
    gone = {number for number in removed if number < len(documents)}
    index = index_of(documents)
    index.remove(gone)
    index.remove(gone)
    scores = index.compute_scores(index.find("abc"))
    kept = [number for number in range(len(documents)) if number not in gone]
    rest = index_of([documents[number] for number in kept])
    expected = rest.compute_scores(rest.find("abc"))
    np.testing.assert_allclose(scores[kept], expected, rtol=1e-6)
    assert not scores[sorted(gone)].any()


PETS = {"pet": ["pet", "cat", "dog"]}


def test_all_terms_of_a_kind_count_as_one_by_how_rare_they_are_together():
    index = index_of([["cat", "dog"], ["dog"], ["tree"], ["house"]])
    once = math.log1p((4 - 2 + 0.5) / (2 + 0.5))
    assert index.compute_kind_scores(PETS).tolist() == pytest.approx([once, once, 0, 0])
    index = index_of([["pet", "cat"], ["dog"], ["tree"]])  # what names the kind has its own words
    once = math.log1p((3 - 2 + 0.5) / (2 + 0.5))
    assert index.compute_kind_scores(PETS).tolist() == pytest.approx([0, once, 0])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("snake_case e-mail 3.5", ["snake", "case", "e", "mail", "3", "5"]),
        # Scripts without blanks give pairs of characters.
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("車 and 東京", ["車", "and", "東京"]),
    ],
)
def test_a_text_is_cut_into_its_words(text, terms):
    assert analyze(text) == terms


def test_composed_and_decomposed_letters_are_the_same_word():
    text = "café naïve Ünder"
    assert analyze(unicodedata.normalize("NFD", text)) == analyze(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_letters_without_accents_are_cut_into_words_like_all_others(text):
    # The sign beside them is no letter: with it, the text is not read as one of ASCII alone.
    assert analyze(text) == analyze(f"{text} \u2026")


@given(st.lists(st.sampled_from([text for row in LATIN for text in (row, "der Hund", "el")])))
def test_what_a_line_is_analysed_to_depends_on_no_other_line(texts):
    alone = {text: analyze(text) for text in reversed(texts)}
    assert [analyze(text) for text in texts] == [alone[text] for text in texts]


def test_a_question_is_searched_for_without_its_function_words_unless_it_has_no_others():
    assert extract_query_terms("Where did you park the Car?") == {"park": "park", "car": "Car"}
    assert set(extract_query_terms("Who are you?")) == {"who", "are", "you"}


def test_a_word_is_searched_by_the_languages_of_its_question_and_of_the_lines_alone():
    index = LexicalIndex()
    index.add([analyze("The dogs sleep")])
    assert extract_query_terms("Perros!", index) == {"perro": "Perros"}
    index.add([analyze("Mis perros duermen en la cocina")])
    assert extract_query_terms("Perros!", index) == {"perro": "Perros", "perr": "Perros"}


def test_a_word_that_was_never_said_stands_for_those_that_hold_it_and_for_most_of_itself():
    index = LexicalIndex()
    index.add([analyze("We run Kubernetes, React and a strawberry farm")])
    terms = extract_query_terms("Our kube, ReactJS and berries", index)
    words = [terms.get(one) for one in ("kubernet", "react", "strawberri")]
    assert words == ["kube", "ReactJS", "berries"]


def test_a_lone_character_without_blanks_stands_for_the_pairs_that_hold_it():
    index = LexicalIndex()
    index.add([analyze("猫を飼っています"), analyze("犬と猫"), analyze("犬です")])
    terms = extract_query_terms("猫", index)
    assert terms == dict.fromkeys(["猫", "猫を", "と猫"], "猫")
    assert [score > 0 for score in index.compute_scores(index.find(terms))] == [True, True, False]
    assert extract_query_terms("猫") == {"猫": "猫"}


# Said, asked with other forms of the words, asked in so few words that they tell no language.
LANGUAGES = {
    "english": ("My dogs are chasing the cats", "Who chased a cat?", "dog"),
    "german": ("Unsere Hunde haben die Schlüssel vergraben", "Welcher Hund war das?", "Hund"),
    "french": ("Mes chiennes ont mangé l'omelette", "Qui a mangé une omelette ?", "omelettes"),
    "spanish": ("Mis perros duermen en la cocina", "¿Dónde está el perro?", "perro"),
    "italian": ("I miei gatti hanno rotto la finestra", "Dove sono le finestre?", "gatto"),
    "portuguese": ("Os meus gatos dormem na varanda", "Onde é que está o gato?", "gato"),
    "dutch": ("Mijn katten slapen op de zolder", "Waar is de kat?", "kat"),
    "turkish": ("Anahtarları mutfakta bir yere bıraktım", "Anahtarlar nerede?", "mutfak"),
    "russian": ("Я оставил ключи в машине", "Где мой ключ?", "машина"),
    "arabic": ("تركت المفاتيح في السيارة", "أين سيارة أبي؟", "سيارة"),
    "chinese": ("我把钥匙放在厨房抽屉里了", "钥匙在哪里?", "厨房"),
    "japanese": ("鍵は台所の引き出しにあります", "鍵はどこですか", "台所"),
    "korean": ("열쇠는 부엌 서랍에 있어요", "열쇠가 어디 있어요?", "서랍"),
    "thai": ("กุญแจอยู่ในลิ้นชัก", "กุญแจอยู่ที่ไหน", "ลิ้นชัก"),
}
LINES = [said for said, *_ in LANGUAGES.values()]


@pytest.fixture(scope="module")
def many_tongues():
    index = LexicalIndex()
    index.add([analyze(said) for said in LINES])
    return index


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("asked", [1, 2], ids=["question", "word"])
def test_a_word_is_found_by_its_other_forms_among_lines_of_all_languages(
    many_tongues, language, asked
):
    line, question = LANGUAGES[language][0], LANGUAGES[language][asked]
    scores = many_tongues.compute_scores(
        many_tongues.find(extract_query_terms(question, many_tongues))
    )
    assert LINES[int(np.argmax(scores))] == line
    assert scores.max() > 0


@pytest.mark.parametrize("language", LATIN)
def test_a_line_and_a_question_tell_their_language(language):
    line, question, word = LANGUAGES[language]
    assert detect_language(line.casefold().split()) == language
    assert detect_language(question.strip("¿?").casefold().split()) == language
    assert detect_language([word]) == "english"


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("english", "what was the"),
        ("german", "wo war das"),
        ("french", "est-ce qu'il l'a"),
        ("italian", "dov'è il"),
        ("russian", "где мой"),
        ("arabic", "أين هو"),
    ],
)
def test_function_words_say_nothing_about_the_topic(language, words):
    assert all(is_function_word(word, language) for word in words.split())
    assert not is_function_word("hund", language)
