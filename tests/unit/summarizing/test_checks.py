"""What a summary left out is listed, or counted as left: nothing is dropped silently."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.summarizing.checks import list_details
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.facts import FactSource, check_told, find_facts

SAID = [
    FactSource("I will call Carla on 8 May 2023.", "User", 1),
    FactSource("The code of the boat is XK-42 and it costs 1,200 euros.", "User", 2),
    FactSource("Nothing of note.", "User", 3),
    FactSource("I met Dimitri at 12:30.", "User", 4),
]


def test_the_list_says_who_said_what_in_the_order_in_which_it_was_said():
    text, left = list_details(find_facts(SAID), 200)
    assert text.splitlines() == [
        "Details, word for word:",
        "- User: I will call Carla on 8 May 2023.",
        "- User: The code of the boat is XK-42 and it costs 1,200 euros.",
        "- User: I met Dimitri at 12:30.",
    ]
    assert left == ()


def test_a_list_of_details_holds_some_of_each_kind():
    said = [f"the box {number} is xk-{number}0{number}." for number in range(40)]
    said += ["the boat costs 1200 euros.", "it leaves at 17:30.", "see https://example.org/a"]
    missing = find_facts([FactSource(text, "User", place) for place, text in enumerate(said)])
    text, left = list_details(missing, 110)
    assert count_text_tokens(text) <= 110
    listed = {fact.kind for fact in missing if fact not in left}
    assert listed == {"amount", "number", "id", "time", "link"}
    assert not any(check_told(left, text))


sentences = st.builds(
    lambda seed: (
        f"I saw {random.Random(seed).choice(['Ana', 'Bo', 'Carla'])} with {seed} cats "
        f"on {seed % 28 + 1} May for K{seed}."
    ),
    st.integers(1, 400),
)


@given(st.lists(sentences, max_size=12), st.integers(0, 120))
def test_a_list_is_never_over_its_budget_and_nothing_is_dropped(texts, most):
    missing = find_facts([FactSource(text, "User", at) for at, text in enumerate(texts)])
    text, left = list_details(missing, most)
    assert count_text_tokens(text) <= most
    is_told = check_told(missing, text)
    assert [fact for fact, tells in zip(missing, is_told, strict=True) if not tells] == [*left]
