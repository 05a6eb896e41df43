"""How values are read: one value, however it is written."""

# ruff: noqa: RUF001 - words in the letters they are written in

from __future__ import annotations

import pytest

from langchain_convmem.claims.lexicon import OTHER, get_lexicon, guess_language
from langchain_convmem.claims.numbers import read_digits, replace_number_words
from langchain_convmem.claims.values import ValueReader


def _read(text: str, language: str):
    (value,) = ValueReader(text, get_lexicon(language)).values
    return value


@pytest.mark.parametrize(
    ("language", "words", "digits"),
    [
        ("english", "a hundred and five guests", "a 105 guests"),
        ("english", "twenty-three guests", "23 guests"),
        ("german", "dreiundzwanzig Gäste", "23 Gäste"),
        ("french", "quatre-vingt-dix personnes", "90 personnes"),
        ("french", "vingt-et-un ans", "21 ans"),
        ("spanish", "treinta y dos libros", "32 libros"),
        ("italian", "trentadue persone", "32 persone"),
        ("dutch", "tweeëntwintig stoelen", "22 stoelen"),
        ("russian", "двадцать три человека", "23 человека"),
        ("turkish", "yirmi üç kişi", "23 kişi"),
        ("chinese", "二十三个人", "23个人"),
        ("japanese", "三万円", "30000円"),
    ],
)
def test_number_words_become_digits(language, words, digits):
    assert replace_number_words(words, language) == digits


def test_a_lone_one_may_be_an_article_and_stays():
    assert replace_number_words("one of them", "english") == "one of them"
    assert replace_number_words("不一样", "chinese") == "不一样"


@pytest.mark.parametrize(
    ("text", "language", "readings"),
    [
        ("1,250", "english", {1250.0}),
        ("1.250", "english", {1250.0, 1.25}),
        ("1.250", "german", {1250.0}),
        ("12,5", "german", {12.5}),
        ("1.250,75", "german", {1250.75}),
        ("1 200", "french", {1200.0}),
    ],
)
def test_separators_are_read_by_language(text, language, readings):
    assert read_digits(text, language) == readings


@pytest.mark.parametrize(
    ("language", "one", "two"),
    [
        ("english", "500 mg", "0.5 g"),
        ("english", "10k", "10,000"),
        ("english", "€250", "250 euros"),
        ("english", "1.5 million dollars", "$1,500,000"),
        ("english", "5 pm", "17:00"),
        ("english", "half past six in the evening", "18:30"),
        ("english", "3 May 2026", "2026-05-03"),
        ("english", "May 3rd", "3 May"),
        ("english", "DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("english", "+44 20 7946 0958", "+442079460958"),
        ("german", "halb neun", "8:30 Uhr"),
        ("german", "5 Uhr nachmittags", "17 Uhr"),
        ("french", "17h", "17 heures"),
        ("dutch", "half vier 's middags", "15:30"),
        ("polish", "o piątej po południu", "17:00"),
        ("chinese", "下午五点", "17:00"),
        ("japanese", "午後5時", "17時"),
        ("chinese", "20万", "200000"),
        (OTHER, "백이십만 원", "1,200,000원"),
        (OTHER, "서른다섯 명", "35명"),
        (OTHER, "पाँच सौ मेहमान", "500 मेहमान"),
        ("arabic", "ثلاثمئة دولار", "300 دولار"),
        ("swedish", "tretusen kronor", "3 000 kr"),
        ("german", "neunhundertfünfzig Euro", "950 €"),
        ("german", "fünfzehntausend Euro", "15.000 €"),
        ("polish", "o wpół do dziewiątej", "o 8:30"),
        ("turkish", "sabah altı buçukta", "saat 06.30"),
        (OTHER, "शाम 6 बजे", "18:00 बजे"),
        ("english", "12 square metres", "12 m2"),
    ],
)
def test_two_notations_are_one_value(language, one, two):
    assert _read(one, language).matches(_read(two, language))


@pytest.mark.parametrize(
    ("language", "one", "two"),
    [
        ("english", "500 mg", "500 g"),
        ("english", "40 euros", "40 dollars"),
        ("english", "6 am", "6 pm"),
        ("english", "HX-40917", "HX-40971"),
        ("german", "halb neun", "halb zehn"),
        ("japanese", "午後5時", "午前5時"),
    ],
)
def test_other_values_stay_apart(language, one, two):
    assert not _read(one, language).matches(_read(two, language))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wir treffen uns nicht am Montag.", "german"),
        ("Nie jem mięsa.", "polish"),
        ("Toplantı saat 7'de.", "turkish"),
        ("私は猫が好きです。", "japanese"),
        ("我喜欢猫。", "chinese"),
        ("Я люблю кошек.", "russian"),
        ("42", "english"),
    ],
)
def test_the_language_of_a_sentence_is_guessed(text, language):
    assert guess_language(text) == language


def test_a_sentence_without_a_sign_is_in_the_language_around_it():
    assert guess_language("42", "german") == "german"
