"""A fact is told by what means the same, by whoever's it is; and by nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.summarizing.checks import list_details
from langchain_convmem.summarizing.kinds import KINDS, find_kinds, get_kind
from langchain_convmem.summarizing.telling import find_untold_facts, split_speaker, tell_facts
from langchain_convmem.views.facts import FactSource, check_told, find_facts
from langchain_convmem.views.tokens import count_text_tokens


def facts_of(text, speaker="User"):
    return find_kinds([FactSource(text, speaker, 1)])


def is_told(said, text, speaker="User"):
    [told] = tell_facts(facts_of(said, speaker), text)
    return told


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ("it costs 40 euros", ["price"]),
        ("it costs $40", ["price"]),
        ("das kostet 40 Euro", ["price"]),
        ("花了6800块", ["price"]),
        ("we are 40 people", ["number"]),
        ("my code is XK-42", ["code"]),
        ("come on 8 May", ["date"]),
        ("yesterday i met Carla", ["name"]),
        ("I will call them", ["promise"]),
        ("I like olives", ["preference"]),
        ("I don't eat pork", ["preference"]),
        ("我不吃香菜", ["preference"]),
        ("do i like olives?", []),
        ("40 people paid 40 euros", ["number", "price"]),
    ],
)
def test_kinds(said, kinds):
    assert [get_kind(fact) for fact in facts_of(said)] == kinds


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("it costs 1200 euros", "The price is \u20ac1,200."),
        ("it costs 1200 euros", "It costs 1200."),
        ("come at 17:00", "They come at 5 pm."),
        ("come on 8 May 2023", "2023-05-08"),
        ("we are 12 people", "There are twelve of them."),
        ("my code is XK-42", "Their code is xk-42."),
        ("I will paint the fence", "The user will paint the fence."),
        ("I will paint the fence", "- User: I will paint the fence"),
        ("I like olives", "The user likes olives."),
        ("I like olives", "Likes olives."),
    ],
)
def test_what_means_the_same_tells_a_fact(said, text):
    assert is_told(said, text)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("it costs 1200 euros", "It costs 1300 euros."),
        ("it costs 1200 euros", "It costs 1200 dollars."),
        ("my code is XK-42", "Their code is XK-24."),
        ("I will paint the fence", "The assistant will paint the fence."),
        ("I will paint the fence", "- Assistant: I will paint the fence"),
        ("I will paint the fence", "The user will not paint the fence."),
        ("I will paint the fence", "The user will paint the gate."),
        ("I will paint the fence", "The fence will be painted."),
        ("I like grilled olives with butter", "The user likes grilled oysters with butter."),
        ("I like olives", "The assistant likes olives."),
    ],
)
def test_nothing_else_tells_it(said, text):
    assert not is_told(said, text)


def test_the_speaker_of_a_line_is_told_from_what_it_says():
    assert split_speaker("- Ana: the code: XK") == ("ana", "the code: XK")
    assert split_speaker("[User]: hello") == ("user", "hello")
    assert split_speaker("* at 12:30 they left") == ("", "at 12:30 they left")


SENTENCES = [
    "the boat costs {} euros.", "my code is XK-{}.", "they are {} people.",
    "i met Carla{0} yesterday.", "I will send {} letters.", "I like {} olives.",
]  # fmt: skip
texts = st.lists(
    st.builds(
        lambda form, number: form.format(number), st.sampled_from(SENTENCES), st.integers(2, 999)
    ),
    max_size=8,
)


@given(texts)
def test_what_is_said_word_for_word_is_told(said):
    sources = [FactSource(text, "User", place) for place, text in enumerate(said)]
    text = "\n".join(f"- User: {one}" for one in said)
    assert find_untold_facts(find_kinds(sources), text) == []


@given(texts, texts)
def test_more_text_tells_no_less(said, more):
    facts = find_kinds([FactSource(text, "User", place) for place, text in enumerate(said)])
    one = tell_facts(facts, "\n".join(more))
    two = tell_facts(facts, "\n".join([*more, "The end."]))
    assert all(later for earlier, later in zip(one, two, strict=True) if earlier)


@given(texts)
def test_kinds_find_what_facts_find_and_preferences_besides(said):
    sources = [FactSource(text, "User", place) for place, text in enumerate(said)]
    found = {(fact.sentence, fact.key) for fact in find_kinds(sources)}
    assert {(fact.sentence, fact.key) for fact in find_facts(sources)} <= found


def test_a_list_of_details_holds_some_of_each_kind():
    said = [f"the box {number} is xk-{number}0{number}." for number in range(40)]
    said += ["the boat costs 1200 euros.", "I will call them.", "I like olives.", "i met Carla."]
    missing = find_kinds([FactSource(text, "User", place) for place, text in enumerate(said)])
    details = list_details(missing, (), 110)
    assert count_text_tokens(details.text) <= 110
    listed = [fact for fact in missing if fact not in details.left]
    assert {get_kind(fact) for fact in listed} >= {"price", "code", "promise", "preference", "name"}
    assert not any(check_told([fact], details.text)[0] for fact in details.left)


def test_what_was_told_otherwise_is_listed_before_all_else():
    sources = [FactSource(f"my code is XK-{number}.", "User", number) for number in range(30)]
    missing = find_kinds(sources)
    details = list_details(missing[1:], (), 20, first=missing[:1])
    assert "XK-0." in details.text


def test_every_kind_has_a_place_in_the_list():
    assert len(set(KINDS)) == len(KINDS) == 7
