import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.offline.context import ContextLine
from langchain_convmem.offline.matching import MAX_QUOTES, WHOLE_LINE_CHARS, find_matches
from langchain_convmem.summarizing.summarizers import SummaryRequest
from langchain_convmem.views.tokens import count_text_tokens


def _line(text, speaker="You", *, source="dialogue", group=0):
    return ContextLine(speaker, text, None, source, group)


PIN = _line("My blue umbrella is in the office.")
DOG = _line("What is the name of your dog?", "Assistant")
BISCUIT = _line("Biscuit, after the bakery.")
ANA, BEN = (_line("I adopted a parrot.", name, group=n) for n, name in enumerate(("Ana", "Ben")))
OLD, NEW = _line("I live in Bern.", group=1), _line("I live in Rome.", group=2)
SAID = _line("Refunds are slow.", "Ana", group=1)
TRIP = _line("The trip was long.", group=1)
LONG = "Some words about the weather. " * 12
CODE = "The locker code is 4711."
PLANTS = [_line(f"The garden looks fine, plant {n}.") for n in range(6)]
ORCHID = _line("The orchid stands by the window.")

BEST = [
    ("Where in the garden is the orchid?", [*PLANTS, ORCHID], ORCHID.text),  # rare words
    ("Where is my blue umbrella?", [PIN, _line("Is the blue umbrella in?", group=1)], PIN.text),
    ("What is my dog's name?", [DOG, BISCUIT, _line("Anyway?", "Assistant")], BISCUIT.text),
    ("What is my dog's name?", [DOG, _line("The rent is due.", group=2)], DOG.text),
    ("Where do I live?", [OLD, NEW], NEW.text),
    (
        "How are refunds?",
        [SAID, _line("Refunds are slow, be patient.", "", source="system", group=2)],
        SAID.text,
    ),
    ("Do you remember the trip?", [TRIP, _line("Please remember that.", group=2)], TRIP.text),
    ("What is the locker code?", [_line(f"{LONG}{CODE} Keep it safe.")], CODE),
    (
        "What is the locker code?",
        [_line(f"Hello. {CODE} Keep it safe.")],
        f"Hello. {CODE} Keep it safe.",
    ),
]


@pytest.mark.parametrize(("question", "lines", "quoted"), BEST, ids=range(len(BEST)))
def test_the_best_quote_is(question, lines, quoted):
    assert find_matches(question, lines)[0].text == quoted
    assert len(LONG) > WHOLE_LINE_CHARS


def test_a_speaker_who_is_asked_about_is_preferred():
    assert find_matches("What did Ben adopt?", [BEN, ANA])[0].line is BEN
    assert find_matches("What did Ana adopt?", [ANA, BEN])[0].line is ANA


KEY = _line("The spare key of the cottage is in the shed.", group=1)
WEAK = _line("The shed has a new key.", group=2)
BREAD = [_line(f"I baked bread in {town}.", group=n) for n, town in enumerate("abcd")]
PARKED = _line("I parked it on level 3.")
ALL = [
    ("Where in the shed is the spare key of the cottage?", [KEY, WEAK], [KEY]),
    ("Where did I bake bread?", BREAD, [BREAD[3], BREAD[2], BREAD[1]]),
    ("Where did I park the car?", [_line("where did I PARK the car"), PARKED], [PARKED]),
    ("Which colour has the cover of Peter's passport?", [_line("The report has a cover.")], []),
    *((question, [_line("What is it with you?")], []) for question in ("", "?!", "what is it")),
]


@pytest.mark.parametrize(("question", "lines", "matched"), ALL, ids=range(len(ALL)))
def test_what_fits_about_as_well_is_quoted_and_nothing_else(question, lines, matched):
    assert [match.line for match in find_matches(question, lines)] == matched


def test_a_repeated_line_is_quoted_once():
    lines = [_line("The pin is 99."), _line("the pin is 99", "Assistant")]
    assert len(find_matches("What is the pin?", lines)) == 1


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


TRANSCRIPT = (
    "(2023-05-08)\n"
    "User: Hello there! I met Carla in Rome.\n"
    "Assistant: How nice. I will book room 42 for you.\n"
    "User: So so.\n"
)


def summary(transcript=TRANSCRIPT, **options):
    return ExtractiveSummarizer().summarize(SummaryRequest(transcript=transcript, **options))


def test_it_quotes_who_said_what_in_order_and_leaves_out_small_talk():
    assert summary() == ("User: I met Carla in Rome.\nAssistant: I will book room 42 for you.")


def test_with_little_room_the_most_telling_goes_in():
    assert summary(max_tokens=16) == "Assistant: I will book room 42 for you."


def test_the_summary_before_is_quoted_too():
    told = summary(previous="Ana: My code is XK-42.\n- Bo: I owe 7 euros.")
    assert told.startswith("Ana: My code is XK-42.\nBo: I owe 7 euros.\nUser:")


def test_a_fact_is_quoted_once():
    assert summary("User: It costs 42.\nUser: Yes, it did cost 42.\n") == "User: It costs 42."


def test_what_else_people_tell_of_themselves_goes_in_until_half_of_the_room_is_taken():
    said = "User: So so. The ladder is 4 m long. My boss is forgetful.\nTool: I have my tea."
    assert summary(said) == "User: The ladder is 4 m long. My boss is forgetful."
    assert summary(said, max_tokens=22) == "User: The ladder is 4 m long."


def test_it_says_the_same_in_a_coroutine():
    request = SummaryRequest(transcript=TRANSCRIPT)
    assert asyncio.run(ExtractiveSummarizer().asummarize(request)) == summary()


phrases = st.sampled_from(
    [
        "I met Carla in Rome.",
        "It costs 42 euros!",
        "So so.",
        "I'll call Bo on 8 May.",
        "在北京3层。",
    ]
)
transcripts = st.lists(
    st.tuples(st.sampled_from(["User", "Assistant", "Ana"]), st.lists(phrases, max_size=4)),
    max_size=8,
).map(lambda turns: "".join(f"{who}: {' '.join(texts)}\n" for who, texts in turns))


@settings(max_examples=40)
@given(transcripts, transcripts, st.integers(20, 200))
def test_it_is_verbatim_and_as_short_as_asked_for(transcript, previous, most):
    told = summary(transcript, previous=previous, max_tokens=most)
    assert count_text_tokens(told) <= most
    given_words = f"{transcript} {previous}".split()
    assert all(word in given_words for word in told.split())
    assert summary(transcript, previous=previous, max_tokens=most) == told
