from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.summarizing.summarizers import SummaryRequest
from langchain_convmem.views.tokens import count_text_tokens

SAID = (
    "(2023-05-08)\n"
    "User: Hello there! I met Carla in Rome.\n"
    "Assistant: How nice. I will book room 42 for you.\n"
    "User: So so.\n"
)


def summary(transcript=SAID, **options):
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


def test_it_says_the_same_in_a_coroutine():
    request = SummaryRequest(transcript=SAID)
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
