# ruff: noqa: RUF001 - letters of the languages themselves
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.words.analysis import find_kinds
from langchain_convmem.words.dates import find_named_days
from langchain_convmem.words.facts import (
    FactSource,
    find_facts,
    find_untold,
    list_points,
    split_sentences,
)
from langchain_convmem.words.languages import stem


def facts(*texts, speaker=""):
    return find_facts([FactSource(text, speaker, at) for at, text in enumerate(texts)])


def keys(*texts, kind=None, speaker=""):
    found = facts(*texts, speaker=speaker)
    return [fact.key for fact in found if kind in (None, fact.kind)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs 1,200.50 or 1 200 or 3.5.", ["number 1200.5", "number 1200", "number 3.5"]),
        ("Kaufen: 1.200,50 und 3,5.", ["number 1200.5", "number 3.5"]),
        ("Buy 3, 5, 7 at -5 or +2.", ["number 3", "number 5", "number 7", "number -5", "number 2"]),
        ("Version 1.2.3 is 0.125 of it.", ["number 1.2.3", "number 0.125"]),
        ("It costs €40, 40 euros or 40 EUR.", ["amount 40 eur"]),
        ("Take 5kg, 20 mg and 30 %.", ["amount 5 kg", "amount 20 mg", "amount 30 %"]),
        ("房租是1250欧元的", ["amount 1250 eur"]),
        ("It is 2023-05-08 or May 8th, 2023 or 8.5.2023.", ["date 2023-5-8"]),
        ("Come on 8 May, or 9. Mai, or le 10 mai.", ["date 5-8", "date 5-9", "date 5-10"]),
        ("5月8日 or 5월 9일", ["date 5-8", "date 5-9"]),
        ("31 June is a day; 41.13.2020 is none.", ["date 6-31", "number 41.13.2020"]),
        ("On Friday, freitags nie.", ["date weekday 4"]),
        ("At 5 pm, 5:15 p.m. and 12 AM.", ["time 17:00", "time 17:15", "time 0:00"]),
        ("At 12:30 or 17h45.", ["time 12:30", "time 17:45"]),
        ("See #A-12/7, x9, 4132M and XK42.", ["id #a-12/7", "id x9", "id 4132m", "id xk42"]),
        ("Look: https://a.b/c1?d=2. Mail ana@example.org.",
         ["link https://a.b/c1?d=2", "link ana@example.org"]),
        ("Nothing of note.", []),
    ],
)  # fmt: skip
def test_facts_are_found_in_any_notation(text, expected):
    assert keys(text) == expected


def test_a_speaker_with_a_name_is_a_fact_and_user_and_assistant_are_none():
    assert keys("Hello.", speaker="Marta Lund") == ["speaker marta lund"]
    assert keys("Hello.", speaker="User") == keys("Hello.", speaker="Assistant") == []
    marta = facts("Hello.", speaker="Marta Lund")
    assert find_untold(marta, "MARTA LUND said hello.") == []
    assert find_untold(marta, "Somebody said hello.") == marta


def test_a_fact_knows_who_said_it_where_and_comes_once():
    [fact] = facts("Nothing.", "It was 42 then. Truly.", "42!", speaker="User")
    assert (fact.kind, fact.text, fact.sentence) == ("number", "42", "It was 42 then.")
    assert (fact.said.speaker, fact.said.position) == ("User", 1)


def test_a_day_is_not_parted_from_its_month():
    said = ["Erinnere mich bis 31. Juli.", "Am 5. kesäkuuta menen.", "I have three."]
    assert split_sentences(" ".join(said)) == said


def test_sentences_keep_numbers_and_abbreviations_whole_and_are_never_long():
    assert split_sentences("It is 3.5. Is it? Yes!\n好。对！") == [
        "It is 3.5.",
        "Is it?",
        "Yes!",
        "好。",
        "对！",
    ]
    assert max(map(len, split_sentences("word " * 500 + "x" * 600))) <= 240


def points(*texts):
    found = list_points([FactSource(text, "User", at) for at, text in enumerate(texts)])
    return [(one.kind, one.text) for one in found]


def test_names_promises_and_preferences_are_points_and_no_facts():
    said = ["I met Carla's boat. I'll call.", "I like olives.", "Do I like olives?"]
    assert points(*said) == [
        ("name", "Carla's"),
        ("promise", "I'll call."),
        ("preference", "I like olives."),
    ]
    assert facts(*said) == []


def test_a_language_that_capitalises_every_noun_has_no_names():
    german = "Der Hund und die Katze sind im Haus, aber das Auto steht vor der Garage am Weg. " * 4
    assert points(german) == []


TOLD_IN_OTHER_FORMS = [
    ("It costs 1,200 euros.", "1200 EUR"),
    ("It costs 1200 euros.", "€1,200"),
    ("It costs 1200 euros.", "It costs 1200."),
    ("It costs 1200.", "1 200 euros"),
    ("There are 5.", "In 2023 5 came"),
    ("We met on 8 May 2023.", "on 2023-05-08"),
    ("We met on 2023-05-08.", "on May 8th, 2023"),
    ("We met on 8 May.", "on the 8th of May 2023"),
    ("Am 8. Mai.", "on 8 May"),
    ("Come on Friday.", "on friday evening"),
    ("Come at 17:00.", "They come at 5 pm."),
    ("See the code XK-42.", "xk-42"),
]
NOT_QUITE_TOLD = [
    ("It costs 1200 euros.", "It costs 120 euros."),
    ("It costs 1200 euros.", "It costs 1200 dollars."),
    ("Take 20 mg.", "Take 20 g."),
    ("There are 5.", "There are 15 or 5.5."),
    ("We met on 8 May 2023.", "on 8 May 2024"),
    ("We met on 8 May 2023.", "on 8 May"),
    ("Come at 6 am.", "Come at 6 pm."),
    ("See the code XK-42.", "XK-43"),
]


@pytest.mark.parametrize(("said", "summary"), [*TOLD_IN_OTHER_FORMS, *NOT_QUITE_TOLD])
def test_a_fact_may_be_told_in_other_forms_and_what_is_not_quite_told_is_missing(said, summary):
    assert facts(said)
    left = [] if (said, summary) in TOLD_IN_OTHER_FORMS else facts(said)
    assert find_untold(facts(said), summary) == left


TEXT = (
    "Ana Carla boat the. we I'll call on 8 May 2023 2023-05-08 12:30 1,200 5 -5 3.5 XK-42 a1 "
    "Friday, #7b (x9) 'yes' Anna-Maria's 京A12 在3层。 20 300 euros € kg 5kg pm \n"
)
words = st.sampled_from(TEXT.split(" "))


@given(st.lists(words, max_size=14).map(" ".join))
def test_a_text_tells_all_its_own_facts(text):
    assert find_untold(facts(text), text) == []


# A Monday.
NOW_MS = int(datetime(2023, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)


def days(text):
    """Return the first and last day of each stretch."""
    return [
        " ".join(f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d}" for ms in (since, until - 1))
        for since, until in find_named_days(text, NOW_MS, aim="past")
    ]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        *((text, "2023-05-08", "2023-05-08") for text in (
            "What happened on 2023-05-08?", "on 8 May", "am 8. Mai 2023", "am 8.5.2023",
            "8 Mayıs 2023", "8 мая 2023",
        )),
        ("on 8 December", "2022-12-08", "2022-12-08"),
        ("in May", "2023-05-01", "2023-05-31"),
        ("in December", "2022-12-01", "2022-12-31"),
        ("2023-05", "2023-05-01", "2023-05-31"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("le 1er août 2023", "2023-08-01", "2023-08-01"),
        ("em março de 2023", "2023-03-01", "2023-03-31"),
        ("yesterday", "2023-11-19", "2023-11-19"),
        *((text, "2023-11-18", "2023-11-18") for text in (
            "two days ago", "hier, avant-hier", "vor zwei Tagen",
        )),
        ("3 weeks ago", "2023-10-27", "2023-11-02"),
        ("last week", "2023-11-13", "2023-11-19"),
        ("last month", "2023-10-01", "2023-10-31"),
        ("on Friday", "2023-11-17", "2023-11-17"),
        ("letzten Freitag", "2023-11-17", "2023-11-17"),
        ("on the 14th", "2023-11-14", "2023-11-14"),
        ("on the 24th", "2023-10-24", "2023-10-24"),
        ("last weekend", "2023-11-17", "2023-11-20"),
    ],
)  # fmt: skip
def test_a_question_names_a_stretch_of_days(text, first, last):
    assert days(text) == [f"{first} {last}"]


def test_two_numbers_that_may_both_be_the_month_are_read_both_ways():
    assert sorted(days("on 03/04/2023")) == ["2023-03-04 2023-03-04", "2023-04-03 2023-04-03"]
    assert days("on 25/04/2023") == days("on 04/25/2023") == ["2023-04-25 2023-04-25"]


def test_several_dates_are_several_stretches():
    assert len(days("Between 11 August and 15 August 2023, or yesterday?")) == 3


@pytest.mark.parametrize(
    "text",
    [
        "May I ask?",
        "Do you think this may be wrong?",
        "What is the Friday meeting about?",
        "Was gibt es hier?",
        "Où est mon sac ?",
        "¿Qué tomo por la mañana?",
        "Was esse ich am Morgen?",
        "on 31 June 2023",
        "99 weeks, 2000 words",
        "2023-13-40",
        "",
        "maybe on mars",
        "on all our yesterdays, and last nightmare",
    ],
)
def test_anything_else_names_none(text):
    assert days(text) == []


@given(st.text() | st.from_regex(r"[0-9]{1,4}[-/. ]([0-9]{1,2}|May|weeks ago)[-/. ][0-9]{0,4}"))
def test_every_stretch_has_a_beginning_before_its_end(text):
    assert all(since < until for since, until in find_named_days(text, NOW_MS, aim="past"))


@pytest.mark.parametrize(
    ("question", "name", "member"),
    [
        ("Which pets do I have?", "pets", "cat"),
        ("What's my job?", "job", "nurse"),
        ("Where does my sibling live?", "sibling", "brother"),
        ("Which instrument am I learning?", "instrument", "cello"),
        ("Am I allergic to anything?", "allergic", "peanut"),
    ],
)
def test_a_question_finds_the_kind_that_it_names_with_what_is_of_it(question, name, member):
    found = find_kinds(question)[stem(name, "english")]
    assert {stem(name, "english"), stem(member, "english")} <= found


def test_what_is_of_a_kind_does_not_name_it():
    assert find_kinds("Where is my cello?") == {}
